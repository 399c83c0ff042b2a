"""One connection: how long a head may be, how long it may take, and how slowly a body may come.

The server's own limits know none of this: it waits for a head, for a body and for a reader as long
as they please. One rule stands for all three: in a span of patience either the work is done, or
`LEAST_BYTES` have moved.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from noisewright.collect.server.places import Places

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
