"""Connections: who may be connected at once, and how long one may keep the collector waiting.

There are so many places in all, and so many for one sender. Where every place is taken, whoever has
kept the collector waiting longest makes room: half-sent requests cost those who send them their
place, and nobody else theirs.

The server's own limits know nothing of waiting: it waits for a head, for a body and for a reader as
long as they please. One rule stands for all three: in a span of patience either the work is done,
or `LEAST_BYTES` have moved.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from noisewright.collect.server.door import network_of

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


MOST_HEAD = 2**14
"""Bytes of a request's address and headers. Browsers send one or two thousand."""

MOST_AHEAD = 16
"""Requests that may be sent before the first of them is answered. Browsers send none."""

LEAST_BYTES = 2**18
"""What must move in a span of patience: the longest report on a line of 13 kB a second."""

_REASONS = {
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Connection(HttpToolsProtocol):
    """The server's protocol, with a place among others and an end to every wait."""

    places: Places
    waits = True
    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or be sent away."""
        super().connection_made(transport)
        self.places = self.app_state["places"]
        self._message = False  # whether a request's head is whole and its body is not
        # bytes since the last that were of a body: heads, trailers, framing
        self._beside = 0
        self._moved = self._unread = 0

        self._peer = self.client[0] if self.client else ""
        self._proxied = self.places.is_proxy(self._peer)
        taken = self.places.take(self)
        if not taken or not (self._proxied or self.places.seat(self, self._peer)):
            self._refuse(503)
            return

        self._begin(waits=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.places.give_back(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless there is more beside bodies than a head may hold."""
        self._moved += len(data)
        self._beside += len(data)
        super().data_received(data)
        if self._beside > MOST_HEAD:
            self._refuse(431)

    # --- what the parser finds ----------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Begin with a request, unless its head is too long or its sender has too many open."""
        if self.transport.is_closing():
            return

        self._beside = 0
        if (
            len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers)
            > MOST_HEAD
        ):
            self._refuse(431)
            return

        crowded = len(self.pipeline) >= MOST_AHEAD
        if crowded or (self._proxied and not self.places.seat(self, self._forwarded())):
            self._refuse(503)
            return

        super().on_headers_complete()
        self._message = True
        self._begin(waits=True)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._beside = max(0, self._beside - len(body))
        if not self.transport.is_closing():
            super().on_body(body)

    def on_chunk_complete(self) -> None:
        """What frames a part of a body counts for nothing."""
        self._beside = 0

    def on_message_complete(self) -> None:
        """The request is whole: now it waits for us."""
        if self.transport.is_closing():
            return
        super().on_message_complete()
        self._message = False
        self._beside = 0
        self._begin(waits=self.cycle.response_complete)

    def on_response_complete(self) -> None:
        """The answer is written; whether it is read, and whether another request comes, is seen."""
        super().on_response_complete()
        if self.cycle.response_complete and not self._message:
            if self._proxied:
                self.places.unseat(self)
            self._begin(waits=True)

    def _forwarded(self) -> str:
        """Who a proxy of ours says the sender is, and by which scheme it was asked."""
        told = {name: value.decode("latin-1") for name, value in self.headers}
        sender = self.places.sender(told.get(b"x-forwarded-for", ""), self._peer)
        self.scope["client"] = (sender, 0)
        if told.get(b"x-forwarded-proto") == "https":
            self.scope["scheme"] = "https"

        return sender

    # --- patience -----------------------------------------------------------------------------

    def _begin(self, *, waits: bool) -> None:
        self.waits = waits
        self._moved = 0
        self._unread = self.transport.get_write_buffer_size()
        self.places.begin(self, self.loop.time())

    def overdue(self) -> bool:
        """Whether a head is not whole yet, or too little of a body or an answer has moved."""
        unread = self.transport.get_write_buffer_size()
        moved = self._moved + max(0, self._unread - unread)
        self._moved = 0
        self._unread = unread
        if unread or self._message:
            return moved < LEAST_BYTES

        return self.waits

    def leave(self) -> None:
        """Be closed at once, with a word to those who were in the middle of a request."""
        self.waits = False
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        elif self._message or self._beside:
            self._refuse(408)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        """Answer without a word of what came, where no answer has begun, and close."""
        if self.transport.is_closing():
            return

        cycle: Any = self.cycle
        answered = cycle is not None and (
            cycle.response_started if self._message else not cycle.response_complete
        )
        if not answered:
            line = b"HTTP/1.1 %d %s\r\n" % (status, _REASONS[status])
            self.transport.write(
                line + b"content-length: 0\r\nconnection: close\r\n\r\n"
            )

        self.transport.close()
