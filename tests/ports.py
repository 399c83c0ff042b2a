"""Ports for servers that tests stop and start again."""

from __future__ import annotations

import random
import socket

_chance = random.SystemRandom()


def free_port() -> int:
    """A free port outside the range from which connections take theirs.

    Within that range, whoever connects again and again to a server that is down may be given the
    server's own port, which then is taken when the server comes back.
    """
    while True:
        port = _chance.randrange(10_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
