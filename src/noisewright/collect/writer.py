"""Group commit: one thread writes whatever has come in meanwhile, in one transaction.

While one transaction reaches the disk the next one gathers, so that many people share one flush.
Nobody is answered before their report is on the disk.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from noisewright.collect.campaign import Outcome, Submission
from noisewright.collect.databases import Unavailable
from noisewright.collect.store import Store

MOST_TOGETHER = 512
"""Reports of one transaction."""

COMPANY_SECONDS = 0.005
"""How long a report waits for others where the last transaction had several: most of what a
transaction costs is the same for one report and for many."""

Waiting: TypeAlias = "tuple[Submission, asyncio.Future[Outcome]]"


@dataclass(frozen=True)
class Committed:
    """What became of every submission of a batch, or why none is answered."""

    outcomes: Sequence[Outcome] = ()
    failure: Exception | None = None


class Writer:
    """Takes submissions from an event loop and commits them in a thread with its own connection."""

    def __init__(self, open_store: Callable[[], Store], most_waiting: int) -> None:
        self._open = open_store
        self._most = most_waiting
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._crowded = False
        self._waiting = 0  # touched by the event loop alone
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.healthy = True

    @property
    def waiting(self) -> int:
        """Submissions that are not on the disk yet."""
        return self._waiting

    def start(self) -> None:
        """Begin to write; called in the event loop that submits."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def submit(self, submission: Submission) -> Outcome:
        """What became of a submission, once that is on the disk."""
        assert self._loop is not None
        if self._waiting >= self._most:
            raise Unavailable("too many reports are waiting to be written")

        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting += 1
        self._queue.put((submission, future))

        return await future

    def note(self, submission: Submission) -> None:
        """Count a refused report among those set aside, when there is time for it."""
        if self._waiting < self._most // 2:
            assert self._loop is not None
            self._waiting += 1
            self._queue.put((submission, self._loop.create_future()))

    async def stop(self) -> None:
        """Write what is waiting, then end."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        store = self._open()
        ends = False
        while not ends:
            batch, ends = self._gathered()
            self._crowded = len(batch) > 1
            if batch:
                self._answer(batch, _committed(store, [each for each, _ in batch]))

        store.close()

    def _gathered(self) -> tuple[list[Waiting], bool]:
        """At least one submission, and all others that are there; whether it was the last time."""
        batch: list[Waiting] = []
        item = self._queue.get()
        if self._crowded and item is not None:
            time.sleep(COMPANY_SECONDS)

        while item is not None:
            batch.append(item)
            if len(batch) == MOST_TOGETHER:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False

        return batch, True

    def _answer(self, batch: list[Waiting], committed: Committed) -> None:
        def settle() -> None:
            failure = committed.failure
            self._waiting -= len(batch)
            self.healthy = failure is None
            for place, (_, future) in enumerate(batch):
                if future.done():  # whoever asked has gone
                    continue
                if failure is None:
                    future.set_result(committed.outcomes[place])
                else:
                    future.set_exception(failure)
                    future.exception()  # nobody may be waiting for it

        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)


def _committed(store: Store, batch: list[Submission]) -> Committed:
    try:
        return Committed(store.commit(batch))
    except Unavailable as error:
        return Committed(failure=error)
    except Exception as error:
        # One report that breaks a rule nobody foresaw must not take the others down with it.
        if len(batch) > 1:
            return _one_by_one(store, batch)
        kind = type(error).__name__
        return Committed(failure=Unavailable(f"the report was not kept ({kind})"))


def _one_by_one(store: Store, batch: list[Submission]) -> Committed:
    each = [_committed(store, [submission]) for submission in batch]
    # those that were kept are known by their nonce when they come again
    failed = next((one for one in each if one.failure is not None), None)
    return failed or Committed([outcome for one in each for outcome in one.outcomes])
