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

    def _answer(
        self, batch: list[Waiting], results: Sequence[Outcome] | Exception
    ) -> None:
        def settle() -> None:
            self._waiting -= len(batch)
            self.healthy = not isinstance(results, Exception)
            for place, (_, future) in enumerate(batch):
                if future.done():  # whoever asked has gone
                    continue
                if isinstance(results, Exception):
                    future.set_exception(results)
                    future.exception()  # nobody may be waiting for it
                else:
                    future.set_result(results[place])

        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)


def _committed(store: Store, batch: list[Submission]) -> Sequence[Outcome] | Exception:
    try:
        return store.commit(batch)
    except Unavailable as error:
        return error
    except Exception as error:
        # One report that breaks a rule nobody foresaw must not take the others down with it.
        if len(batch) > 1:
            return _one_by_one(store, batch)
        return Unavailable(f"the report was not kept ({type(error).__name__})")


def _one_by_one(store: Store, batch: list[Submission]) -> Sequence[Outcome] | Exception:
    results = [_committed(store, [each]) for each in batch]
    failures = [result for result in results if isinstance(result, Exception)]
    if failures:
        # those that were kept are known by their nonce when they come again
        return failures[0]

    return [
        outcome
        for result in results
        if not isinstance(result, Exception)
        for outcome in result
    ]
