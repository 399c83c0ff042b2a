"""The door: what a request must look like, how fast it comes, and how it is refused.

Buckets of senders are in memory, under names that nobody can turn back: no address is kept, a
bucket's name is a hash under a key that lives as long as the process.
"""

from __future__ import annotations

import datetime as dt
import hmac
import ipaddress
import secrets
import time
from binascii import a2b_base64 as decoded
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from math import ceil
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from noisewright.collect.campaign import Campaign, Submission
from noisewright.collect.databases import Unavailable
from noisewright.collect.store import key_hash
from noisewright.errors import NoisewrightError
from noisewright.local.reports.format import HEADER

_BESIDE = 512
"""Bytes of a body beside its report."""

_JSON = "application/json"
_RETRY_SECONDS = 2.0
"""When to come back, where the database is away or too many reports wait."""

Endpoint = Callable[[Request], Awaitable[Response]]
Base64 = Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]*={0,2}$(?!\n)")]


class Refusal(Exception):
    """A request that is answered with an error: a status, a short name and a sentence."""

    def __init__(
        self, status: int, name: str, text: str, retry_after: float | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.name = name
        self.text = text
        self.retry_after = retry_after


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a device sends."""

    nonce: Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]{22}==$(?!\n)")]
    report: Annotated[Base64, Meta(max_length=2**21)]
    round: Annotated[str, Meta(max_length=10, pattern=r"^[0-9-]*$(?!\n)")] = ""
    token: (
        Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_-]+$(?!\n)")] | None
    ) = None


_decoder = msgspec.json.Decoder(Body)


def most_bytes(campaign: Campaign) -> int:
    """The longest body that can hold a report of the campaign."""
    return 4 * (campaign.report_bytes // 3 + 1) + _BESIDE


def admitted_submission(campaign: Campaign, body: bytes) -> Submission:
    """A submission from a request's body, or a refusal that repeats nothing of it."""
    try:
        sent = _decoder.decode(body)
        nonce = decoded(sent.nonce, strict_mode=True)
        report = decoded(sent.report, strict_mode=True)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = "a JSON object of nonce and report in base64 is expected"
        raise Refusal(422, "malformed", text) from None

    if campaign.closed:
        raise Refusal(410, "closed", "the campaign takes no more reports")

    _check_report(campaign, report)
    _check_round(campaign, sent.round)
    if campaign.terms.invitations and sent.token is None:
        raise Refusal(403, "uninvited", "the campaign needs an invitation")

    token = None if sent.token is None else key_hash(sent.token)
    return Submission(campaign, sent.round, nonce, report, token)


def _check_report(campaign: Campaign, report: bytes) -> None:
    """Refuse a report of another plan, of another version or of another length."""
    header = campaign.header
    if report[:HEADER] != header:
        of_kind = report[:1] == header[:1] and len(report) >= HEADER
        name = "foreign" if of_kind else "malformed"
        text = "the report is not of this campaign's plan and version"
        raise Refusal(422, name, text)

    length = campaign.report_bytes
    if len(report) != length:
        raise Refusal(422, "malformed", f"a report has {length} bytes")


def _check_round(campaign: Campaign, name: str) -> None:
    """Refuse a report of another round than the current one."""
    repetition = campaign.terms.repetition
    if not repetition.repeats and name:
        raise Refusal(422, "round", "the campaign has no rounds")
    if repetition.repeats and not repetition.is_current(name, dt.datetime.now(dt.UTC)):
        text = f"the {repetition.every} of the report is not the current one"
        raise Refusal(422, "round", text)


_MOST_SENDERS = 100_000  # remembered; beyond, whoever was silent longest is forgotten


class RateLimit:
    """At most `rate` a second for each sender, `burst` at once; a rate of zero limits nobody."""

    def __init__(self, rate: float, burst: float | None = None) -> None:
        self.rate = rate
        self.burst = burst or max(10.0, 5 * rate)
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


class Ready(Response):
    """An answer whose bytes are always the same; pages of other sites may read it."""

    def __init__(self, status: int, text: bytes) -> None:
        headers = {
            "x-content-type-options": "nosniff",
            "access-control-allow-origin": "*",
        }
        super().__init__(text, status, headers, _JSON)
        self.start: Message = {
            "type": "http.response.start",
            "status": status,
            "headers": self.raw_headers,
        }
        self.end: Message = {"type": "http.response.body", "body": text}


def json(document: object, status: int = 200, **headers: str) -> Response:
    """Plain values as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(msgspec.json.encode(document), status, named, _JSON)


def json_error(refusal: Refusal) -> Response:
    """An error as JSON, with the seconds to wait where there are any."""
    response = json({"error": refusal.name, "detail": refusal.text}, refusal.status)
    if refusal.retry_after is not None:
        response.headers["retry-after"] = str(ceil(refusal.retry_after))
    return response


async def body(receive: Receive, most: int) -> bytes:
    """The body of a request, or a refusal as soon as it is too long."""
    content = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "gone", "the connection was closed")
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > most:
            raise Refusal(413, "too_large", f"a body has at most {most} bytes here")

    return content


async def answered(response: Awaitable[Response]) -> Response:
    """A response, where a refusal is one too."""
    try:
        return await response
    except Refusal as refusal:
        return json_error(refusal)
    except Unavailable as error:
        return json_error(Refusal(503, "unavailable", str(error), _RETRY_SECONDS))
    except NoisewrightError as error:
        return json_error(Refusal(422, "invalid", str(error)))


def guarded(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose refusals become answers."""

    async def guarded_endpoint(request: Request) -> Response:
        return await answered(endpoint(request))

    guarded_endpoint.__name__ = getattr(endpoint, "__name__", "endpoint")
    return guarded_endpoint
