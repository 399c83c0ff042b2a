"""What the routes share: one writer, one reader, campaigns and figures that are worked out once."""

from __future__ import annotations

import asyncio
import gc
import hmac
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

import msgspec

from noisewright.collect.campaign import Campaign
from noisewright.collect.databases import Unavailable, open_database
from noisewright.collect.estimates import dashboard_figures
from noisewright.collect.server.connections import Places
from noisewright.collect.server.door import RateLimit, Refusal
from noisewright.collect.store import Level, Store, key_hash
from noisewright.collect.writer import Writer

_Result = TypeVar("_Result")

_FRESH_SECONDS = 1.0
"""How long what the database says of names and keys is believed."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker runs."""

    database: str
    rate: float = 20.0
    """Reports a second from one address; zero limits nobody."""
    most_waiting: int = 2000
    """Reports that may wait for the disk before others are asked to come back later."""
    connections: int = 4096
    """How many may be open at once in one worker."""
    connections_a_sender: int = 128
    """How many of those may be from one address: a household, or an office behind one."""
    patience: float = 20.0
    """Seconds that a head may take, and in which some of a body or an answer must move."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies, whose word is taken on who sent a request."""
    open_metrics: bool = False
    """Whether counts are told without a key."""

    def open_store(self) -> Store:
        """A connection of its own."""
        return Store(open_database(self.database))


@dataclass
class Service:
    """One worker's state. Nothing in it outlives the worker, so that any worker can go."""

    settings: Settings
    own_process: bool = False
    """Whether nothing else runs in this process, so that its memory may be settled."""
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.writer = Writer(self.settings.open_store, self.settings.most_waiting)
        self.limit = RateLimit(self.settings.rate)
        self.places = Places(
            self.settings.connections,
            self.settings.connections_a_sender,
            self.settings.patience,
            self.settings.proxies,
        )
        self._reader = self.settings.open_store()
        self._reading = threading.Lock()
        self._campaigns: dict[str, Campaign] = {}
        self._names: tuple[float, dict[str, bool]] = (-inf, {})
        self._keys: tuple[float, dict[bytes, Level]] = (-inf, {})
        self._figures: dict[tuple[str, str], tuple[object, dict[str, object]]] = {}

    async def start(self) -> None:
        """Begin to take reports."""
        self.writer.start()
        self._watch = asyncio.create_task(self.places.watch())
        # What the first report and the first look at the dashboard would otherwise wait for.
        self._warm = asyncio.create_task(asyncio.to_thread(self._settle))

    async def stop(self) -> None:
        """Put all reports that were taken on the disk, then end."""
        self._watch.cancel()
        await self._warm
        await self.writer.stop()
        with self._reading:
            self._reader.close()
        gc.unfreeze()

    def _settle(self) -> None:
        """Load what is used later; look for garbage no more among what stays for good."""
        import pyarrow.compute
        import scipy.stats

        _ = pyarrow.compute, scipy.stats
        if self.own_process:
            gc.collect()
            # a full search among all that was imported would hold everybody up
            gc.freeze()

    async def read(self, work: Callable[[Store], _Result]) -> _Result:
        """Run a piece of work on the reading connection, beside the event loop."""

        def alone() -> _Result:
            with self._reading:
                try:
                    return work(self._reader)
                except Unavailable:
                    # A server that restarted breaks a connection that nobody used meanwhile;
                    # reading again on a new one does no harm.
                    return work(self._reader)

        return await asyncio.to_thread(alone)

    async def campaign(self, name: str) -> Campaign | None:
        """The campaign of a name, as it is now."""
        then, names = self._names
        now = time.monotonic()
        if now - then >= _FRESH_SECONDS:
            if names:
                # one request asks, the others go on with what is known
                self._names = (now, names)
            listed = await self.read(lambda store: store.campaigns())
            names = {each: closed for _, each, closed in listed}
            self._names = (now, names)

        if name not in names:
            return None

        known = self._campaigns.get(name)
        if known is None or known.closed != names[name]:
            known = await self.read(lambda store: store.campaign(name))
            if known is None:
                return None
            self._campaigns[name] = known

        return known

    def forget(self) -> None:
        """Ask the database again for what was just changed."""
        self._names = (-inf, {})

    async def level(self, secret: str) -> Level | None:
        """What a key or a session may do, compared with all of them in constant time."""
        then, known = self._keys
        if time.monotonic() - then >= _FRESH_SECONDS:
            known = await self.read(lambda store: store.levels())
            self._keys = (time.monotonic(), known)

        own = key_hash(secret)
        fitting = [
            level for each, level in known.items() if hmac.compare_digest(own, each)
        ]
        return fitting[0] if fitting else None

    async def open_session(self, level: Level) -> str:
        """A secret that stands for a key for some hours, for a browser to keep in its place."""
        secret = await self.read(lambda store: store.add_key(level, session=True))
        self._keys = (-inf, {})
        return secret

    async def end_session(self, secret: str) -> None:
        """Forget the session of a secret; a key stays one."""
        await self.read(lambda store: store.end_session(secret))
        self._keys = (-inf, {})

    async def figures(self, campaign: Campaign, round_name: str) -> dict[str, object]:
        """The dashboard's figures; worked out again only when reports have come."""

        def work(store: Store) -> dict[str, object]:
            aggregate = store.aggregate(campaign, round_name)
            stamp = (
                aggregate.people,
                tuple(aggregate.set_aside.values()),
                campaign.closed,
            )
            kept = self._figures.get((campaign.name, round_name))
            if kept is None or kept[0] != stamp:
                document = dashboard_figures(campaign, aggregate)
                kept = (stamp, document)
                self._figures[campaign.name, round_name] = kept

            return {**kept[1], "rounds": store.rounds(campaign)}

        return await self.read(work)


def check_round(campaign: Campaign, rounds: list[str], asked: str | None) -> str:
    """The round that is asked for, by default the latest."""
    if asked is None:
        return rounds[-1] if rounds else ""
    if asked not in rounds and (asked or campaign.terms.repetition.repeats):
        raise Refusal(404, "unknown", "there is no such round")
    return asked
