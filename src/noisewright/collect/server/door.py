"""The door: what a submission must look like before anything else looks at it."""

from __future__ import annotations

import datetime as dt
from binascii import a2b_base64 as decoded
from typing import Annotated

import msgspec
from msgspec import Meta

from noisewright.collect.campaign import Campaign
from noisewright.collect.storage.store import Submission, hashed
from noisewright.local.reports.format import HEADER

_BESIDE = 512
"""Bytes of a body beside its report."""

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


def admitted(campaign: Campaign, body: bytes) -> Submission:
    """A submission from a request's body, or a refusal that repeats nothing of it."""
    try:
        sent = _decoder.decode(body)
        nonce = decoded(sent.nonce, strict_mode=True)
        report = decoded(sent.report, strict_mode=True)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refusal(
            422, "malformed", "a JSON object of nonce and report in base64 is expected"
        ) from None

    if campaign.closed:
        raise Refusal(410, "closed", "the campaign takes no more reports")

    header = campaign.header
    length = campaign.report_bytes
    if report[:HEADER] != header:
        name = (
            "foreign"
            if report[:1] == header[:1] and len(report) >= HEADER
            else "malformed"
        )
        raise Refusal(
            422, name, "the report is not of this campaign's plan and version"
        )

    if len(report) != length:
        raise Refusal(422, "malformed", f"a report has {length} bytes")

    repetition = campaign.terms.repetition
    if repetition.repeats:
        if not repetition.is_current(sent.round, dt.datetime.now(dt.UTC)):
            every = repetition.every
            raise Refusal(
                422, "round", f"the {every} of the report is not the current one"
            )
    elif sent.round:
        raise Refusal(422, "round", "the campaign has no rounds")

    if campaign.terms.invitations and sent.token is None:
        raise Refusal(403, "uninvited", "the campaign needs an invitation")

    token = None if sent.token is None else hashed(sent.token)
    return Submission(campaign, sent.round, nonce, report, token)
