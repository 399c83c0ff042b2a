"""How fast one sender may send: buckets in memory, under names that nobody can turn back.

No address is kept: a bucket's name is a hash under a key that lives as long as the process.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict

_MOST_SENDERS = 100_000


class RateLimit:
    """At most `rate` a second for each sender, `burst` at once; a rate of zero limits nobody."""

    def __init__(self, rate: float, burst: float | None = None) -> None:
        self.rate, self.burst = rate, burst or max(10.0, 5 * rate)
        self._key = secrets.token_bytes(16)
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def wait(self, address: str | None) -> float:
        """Seconds until this sender may send; zero, and one is taken, where that is now."""
        if self.rate <= 0:
            return 0.0

        now = time.monotonic()
        name = hmac.digest(self._key, network_of(address), "sha256")[:12]
        level, then = self._buckets.pop(name, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.rate)
        allowed = level >= 1
        self._buckets[name] = (level - allowed, now)
        if len(self._buckets) > _MOST_SENDERS:
            self._buckets.popitem(last=False)

        return 0.0 if allowed else (1 - level) / self.rate


def network_of(address: str | None) -> bytes:
    """The sender's address; of IPv6, the network that one household is given."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return b"unknown"
    return parsed.packed[:8] if parsed.version == 6 else parsed.packed
