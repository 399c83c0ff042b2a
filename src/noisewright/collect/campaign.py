"""A campaign: a published plan, what people are told about it, and how often they may answer.

Whatever a campaign promises follows from its plan and its terms; once published, neither changes.
Its form has one question an attribute of the plan's domain: what a person chooses becomes the
number of a cell in the browser; the server never sees either.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from noisewright.container import digest
from noisewright.domain import Date, Numeric
from noisewright.domain.attribute import Attribute
from noisewright.errors import FileFormatError, InvalidParameter, TooLarge, require
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import exported, has_continuous_noise
from noisewright.planning.files import from_bytes
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.local.reading import Margins

_MOST_BANDS = 8
"""Ordered attributes with more cells are asked for a number or a date, not for a band."""

_MOST_LABELS = 5_000
"""Choices of one question: more than a page can list."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute. `cuts` are its edges where a number or a date (in days) is asked for."""

    name: str
    text: str
    kind: Literal["choice", "number", "date"]
    labels: tuple[str, ...]
    cuts: tuple[float | None, ...] = ()
    """Edges of the declared cells, null where one is infinite."""
    whole: bool = False
    outside: str = "error"
    size: int


def questions(plan: LocalPlan, texts: Mapping[str, str]) -> tuple[Question, ...]:
    """The questions of a plan, in the order of its attributes."""
    if plan.domain is None:
        size = plan.strategy.size
        if size > _MOST_LABELS:
            raise TooLarge(
                f"{size:,} cells by number are no question; plan with a schema"
            )
        labels = tuple(plan.cell_labels())
        text = texts.get("cell", "Which one applies?")
        return (
            Question(name="cell", text=text, kind="choice", labels=labels, size=size),
        )
    return tuple(_question(a, texts.get(a.name, a.name)) for a in plan.domain)


def _question(attribute: Attribute, text: str) -> Question:
    if attribute.size > _MOST_LABELS:
        raise TooLarge(
            f"{attribute.name!r} has {attribute.size:,} cells: too many for a form"
        )

    kind: Literal["choice", "number", "date"] = "choice"
    cuts: tuple[float | None, ...] = ()
    whole = False
    if isinstance(attribute, Numeric | Date) and attribute.size > _MOST_BANDS:
        kind = "number" if isinstance(attribute, Numeric) else "date"
        cuts = tuple(
            edge if isfinite(edge) else None for edge in attribute.cuts.tolist()
        )
        whole = attribute.whole

    return Question(
        name=attribute.name,
        text=text,
        kind=kind,
        labels=attribute.labels,
        cuts=cuts,
        whole=whole,
        outside=attribute.outside,
        size=attribute.size,
    )


Period = Literal["day", "month"]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$(?!\n)")]

MOST_COUNTERS = 2**22
"""Whole numbers that a campaign may add up: 32 megabytes."""

MOST_BYTES = 2**20
"""Length of one report."""


class Repetition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether people are asked again, and what that costs them.

    - `once`: one report a person.
    - `memoised`: one report a round; the same value always gives the report that was drawn for it
      first, which the device keeps. At most `most` different values are ever drawn for.
    - `fresh`: one report a round, drawn anew, and at most `most` of them.
    """

    mode: Literal["once", "memoised", "fresh"] = "once"
    every: Period = "day"
    most: Annotated[int, Meta(ge=1, le=10_000)] = 1

    @property
    def repeats(self) -> bool:
        """Whether there are rounds."""
        return self.mode != "once"

    def spent(self, epsilon: float) -> float:
        """What a person spends at most over the whole campaign."""
        return self.most * epsilon if self.repeats else epsilon

    def round_of(self, day: dt.date) -> str:
        """The name of the round that a day lies in; empty where there are no rounds."""
        if not self.repeats:
            return ""
        return day.isoformat() if self.every == "day" else day.isoformat()[:7]

    def is_current(self, name: str, now: dt.datetime) -> bool:
        """Whether a device may think so: clocks and zones differ by less than a day."""
        days = (now + dt.timedelta(days=shift) for shift in (-1, 0, 1))
        return name in {self.round_of(day.date()) for day in days}

    @property
    def promise(self) -> str:
        """What is promised of all of a person's reports together."""
        if self.mode == "once":
            return "One report is sent, once."
        if self.mode == "fresh":
            return (
                f"A new report is drawn every {self.every}, at most {self.most:,} in all. What "
                f"they say together adds up: {self.most:,} × ε at most, whatever your answers are."
            )

        values = "one answer" if self.most == 1 else f"{self.most:,} different answers"
        return (
            f"You may be asked every {self.every}. The report drawn for an answer is kept on your "
            f"device and sent again whenever the answer is the same, for {values} at most: "
            f"{self.most:,} × ε between any two people whose answers change on the same days. On "
            "which days an answer changed is not hidden, and a rare report can be recognised."
        )


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What whoever runs a campaign declares beside its plan."""

    name: Name
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    introduction: Annotated[str, Meta(max_length=4000)] = ""
    questions: Annotated[
        dict[str, Annotated[str, Meta(max_length=400)]], Meta(max_length=1000)
    ] = {}
    """The text of the question of every attribute; its name where none is given."""
    repetition: Repetition = Repetition()
    family: Name | None = None
    """Campaigns of one family share what a person's device may spend."""
    budget: Annotated[float, Meta(gt=0, le=1000)] | None = None
    """The most that a device spends on the family."""
    invitations: bool = False
    """Whether each report needs a one-time token."""
    keep_reports: bool = True
    """Whether reports are kept, or only what they add up to."""
    groups: Annotated[int, Meta(ge=1, le=1000)] = 1
    cap: float | None = None
    target: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """How many reports are wanted."""
    margins: Margins | None = None
    """Public counts of the population, to which the dashboard weights answers."""

    @classmethod
    def read(cls, document: object) -> Terms:
        """Terms from plain values; unknown fields and other types are refused."""
        try:
            return msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise InvalidParameter(
                "campaign", "…", f"is not understood: {error}"
            ) from None


@dataclass(frozen=True, eq=False)
class Campaign:
    """A plan under terms. `number` is how the store knows it."""

    terms: Terms
    plan: LocalPlan
    content: bytes
    number: int = 0
    closed: bool = False

    @classmethod
    def published(
        cls, terms: Terms, content: bytes, number: int = 0, closed: bool = False
    ) -> Campaign:
        """A campaign from its terms and the content of a plan file, checked."""
        plan = from_bytes(content)
        if not isinstance(plan, LocalPlan):
            raise InvalidParameter(
                "plan", terms.name, "needs a curator, and browsers cannot run it",
                "plan with --model local",
            )  # fmt: skip

        campaign = cls(terms, plan, content, number, closed)
        campaign.check()
        return campaign

    def check(self) -> None:
        """Refuse what browsers cannot run or the collector cannot hold."""
        plan = self.plan
        terms = self.terms
        if has_continuous_noise(plan.format.specification):
            raise InvalidParameter(
                "plan", plan.mechanism.name,
                "draws continuous noise, which browsers do not run exactly",
                f"plan with --epsilon {plan.epsilon:g} and no --delta: matrix-l1 is the nearest",
            )  # fmt: skip
        length, counters = plan.format.length, plan.format.collector.counters
        if length > MOST_BYTES or counters > MOST_COUNTERS:
            raise TooLarge(
                f"reports of {length:,} bytes that add up to {counters:,} numbers are too large "
                "to collect here; "
                "plan with local-hashing or hadamard"
            )

        unknown = set(terms.questions) - {question.name for question in self.form}
        require(
            not unknown, "questions", sorted(unknown), "name no attribute of the plan"
        )

        spent = terms.repetition.spent(plan.epsilon)
        if terms.budget is not None and terms.budget < plan.epsilon:
            raise InvalidParameter(
                "budget", terms.budget, f"must be at least ε = {plan.epsilon:g} of one report",
                f"people may spend {spent:g}",
            )  # fmt: skip

        if terms.margins is not None:
            terms.margins.strata(plan.domain)

        _ = self.public, self.empty()

    @property
    def name(self) -> str:
        """How addresses name it."""
        return self.terms.name

    @cached_property
    def header(self) -> bytes:
        """What every report begins with."""
        return self.plan.format.header

    @cached_property
    def report_bytes(self) -> int:
        """Length of a report."""
        return self.plan.format.length

    @cached_property
    def form(self) -> tuple[Question, ...]:
        """What people are asked."""
        return questions(self.plan, self.terms.questions)

    @cached_property
    def digest(self) -> str:
        """A name for exactly this plan under exactly these terms."""
        return digest(msgspec.json.encode(self.terms, order="sorted"), self.content)

    @cached_property
    def public(self) -> dict[str, object]:
        """All that a device is told: nothing in it depends on any answer."""
        terms = self.terms
        epsilon = self.plan.epsilon

        return {
            "format": "noisewright-campaign",
            "version": 1,
            "name": terms.name,
            "title": terms.title,
            "introduction": terms.introduction,
            "questions": self.form,
            "repetition": terms.repetition,
            "promise": terms.repetition.promise,
            "spends_at_most": terms.repetition.spent(epsilon),
            "family": terms.family or terms.name,
            "budget": terms.budget,
            "invitations": terms.invitations,
            "keep_reports": terms.keep_reports,
            "digest": self.digest,
            "client": exported(self.plan.format),
        }

    def empty(self, round_name: str = "") -> Aggregate:
        """Statistics of no reports."""
        return Aggregate(
            self.plan.format, self.terms.groups, self.terms.cap, round_name or None
        )


class Outcome(Enum):
    """What became of a submission."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    """It is there already, and is counted once."""
    IMPOSSIBLE = "out_of_range"
    """No client could have sent it."""
    UNINVITED = "uninvited"
    """Its token is unknown, of another campaign or used."""
    NOTED = "noted"
    """It was refused at the door, and is counted among those set aside."""


class Submission(msgspec.Struct, frozen=True):
    """One report on its way in; it exists in memory alone.

    With a reason to set it `aside` there is no report any more, only that reason to be counted.
    """

    campaign: Campaign
    round: str = ""
    nonce: bytes = b""
    report: bytes = b""
    token: bytes | None = None
    aside: str | None = None


def read_terms(path: Path) -> dict[str, object]:
    """The plain values of a campaign's YAML."""
    from noisewright.domain.schema import load_yaml

    document = load_yaml(path)
    if not isinstance(document, dict):
        raise FileFormatError("the campaign: must be a mapping; see the how-to")
    return document
