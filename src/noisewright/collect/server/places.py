"""Who may be connected at once: so many in all, and so many of one sender.

Where every place is taken, whoever has kept the collector waiting longest makes room: half-sent
requests cost those who send them their place, and nobody else theirs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Protocol

from noisewright.collect.server.limits import network_of

Network = IPv4Network | IPv6Network

_LOOKS = 8
"""How often in one span of patience connections are looked at."""


class Guest(Protocol):
    """A connection, as far as its place is concerned."""

    waits: bool
    """Whether the collector waits for it, rather than it for the collector."""
    since: float
    """When it last began something, or was last found to get on with it."""

    def overdue(self) -> bool:
        """Whether nothing has come of it since; asked once in a span of patience."""

    def leave(self) -> None:
        """Be closed for the sake of others, or for being overdue."""


class Places:
    """The open connections of one worker."""

    def __init__(
        self,
        most: int,
        most_a_sender: int,
        patience: float,
        proxies: Iterable[str] = (),
    ) -> None:
        self.most = most
        self.most_a_sender = most_a_sender
        self.patience = patience
        self.proxies: list[Network] = [
            ip_network(each, strict=False) for each in proxies
        ]
        self.cut: Counter[str] = Counter()
        """How many were closed, and why."""
        # Both in the order in which they began what they are at.
        self._all: dict[Guest, None] = {}
        self._of: dict[bytes, dict[Guest, None]] = {}
        self._senders: dict[Guest, bytes] = {}

    def __len__(self) -> int:
        return len(self._all)

    def take(self, guest: Guest) -> bool:
        """A place for a new connection, or none."""
        if not self._room(self._all, self.most):
            return False
        self._all[guest] = None
        return True

    def seat(self, guest: Guest, address: str) -> bool:
        """One of the places of a sender, or none."""
        sender = network_of(address)
        self.unseat(guest)
        if not self._room(self._of.get(sender, {}), self.most_a_sender):
            return False

        self._of.setdefault(sender, {})[guest] = None
        self._senders[guest] = sender
        return True

    def unseat(self, guest: Guest) -> None:
        """Give the place among its sender's back."""
        sender = self._senders.pop(guest, None)
        if sender is not None:
            seats = self._of[sender]
            del seats[guest]
            if not seats:
                del self._of[sender]

    def give_back(self, guest: Guest) -> None:
        """The connection is closed."""
        self.unseat(guest)
        self._all.pop(guest, None)

    def begin(self, guest: Guest, now: float) -> None:
        """Something new begins on a connection: it goes to the end of the line."""
        guest.since = now
        lines = [self._all]
        if guest in self._senders:
            lines.append(self._of[self._senders[guest]])

        for line in lines:
            if guest in line:
                del line[guest]
                line[guest] = None

    def _room(self, line: dict[Guest, None], most: int) -> bool:
        """Whether there is a place, made by whoever has been waited for longest if need be."""
        if len(line) < most:
            return True

        longest = next((guest for guest in line if guest.waits), None)
        if longest is None:
            self.cut["refused"] += 1
            return False

        self.cut["made_room"] += 1
        self.give_back(longest)
        longest.leave()

        return True

    def look(self, now: float) -> None:
        """Close what is overdue; whatever gets on goes to the end of the line."""
        late = []
        for guest in self._all:
            if now - guest.since < self.patience:
                break
            late.append(guest)

        for guest in late:
            if guest.overdue():
                self.cut["overdue"] += 1
                guest.leave()
            else:
                self.begin(guest, now)

    async def watch(self) -> None:
        """Look again and again."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.patience / _LOOKS)
            self.look(loop.time())

    def is_proxy(self, address: str) -> bool:
        """Whether an address is one whose word on senders is taken."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self.proxies)

    def sender(self, forwarded: str, proxy: str) -> str:
        """The last address that a proxy of ours has seen; what stands before it may be made up."""
        seen = [each.strip() for each in forwarded.split(",") if each.strip()]
        return next((each for each in reversed(seen) if not self.is_proxy(each)), proxy)
