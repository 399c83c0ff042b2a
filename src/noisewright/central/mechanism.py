"""The joint of the central room: what every mechanism is, whatever its noise and its answers.

A mechanism says which exact tables it needs, measures them once under fresh noise (the only place
where noise is drawn), answers any queries within its reach from that measurement, and knows how
wrong the answers are. What it spends follows from the noise it draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Protocol, Self

import msgspec
import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import NoisewrightError, OutOfReach, require
from noisewright.estimate.accuracy import Accuracy
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend
from noisewright.workload.base import LARGEST_SIZE, is_whole
from noisewright.workload.questions.measures import COUNT, Measure
from noisewright.workload.structure import Term


@dataclass(frozen=True)
class Table:
    """An exact table that is read from the data: a measure over the cells of some attributes."""

    attributes: tuple[int, ...]
    measure: Measure = COUNT


Counts = Mapping[Table, IntArray]


@dataclass(frozen=True, eq=False)
class Given:
    """What is public of the people: their number, and histograms that theirs may be like.

    Errors that depend on people are told for these. Without histograms of one's own, three kinds
    are taken: all cells alike, shares that fall with their rank, and few cells that hold everybody.
    """

    people: int
    histograms: tuple[FloatArray, ...] = ()

    def __post_init__(self) -> None:
        require(
            is_whole(self.people) and 1 <= self.people <= LARGEST_SIZE,
            "people",
            self.people,
            "must be a whole number from 1 to 10^18",
        )
        for histogram in self.histograms:
            values = np.asarray(histogram, dtype=np.float64)
            require(
                values.ndim == 1
                and np.isfinite(values).all()
                and values.min(initial=0.0) >= 0,
                "public",
                "histogram",
                "must be one number per cell, none negative",
            )
            require(
                values.sum() > 0,
                "public",
                "histogram",
                "must hold somebody",
            )

        held = tuple(np.asarray(h, dtype=np.float64) for h in self.histograms)
        object.__setattr__(self, "histograms", held)

    def shares(self, cells: int) -> list[FloatArray]:
        """Shares of people over so many cells, one array per kind of public histogram."""
        if self.histograms:
            return [histogram / histogram.sum() for histogram in self.histograms]

        order = np.random.default_rng(0).permutation(cells)
        ranked = np.empty(cells)
        ranked[order] = 1.0 / np.arange(1, cells + 1)
        few = np.zeros(cells)
        few[order[: max(1, round(cells ** (1 / 3)))]] = 1.0

        return [
            histogram / histogram.sum() for histogram in (np.ones(cells), ranked, few)
        ]


def check_shares(shares: Sequence[float], parts: Sequence[object]) -> None:
    """Refuse shares of a budget that are not positive, one per part."""
    positive = all(isfinite(share) and share > 0 for share in shares)
    require(
        parts and len(shares) == len(parts) and positive,
        "shares",
        shares,
        "must be positive, one per part",
    )


class StoredMechanism(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="by",
):
    """What a file holds of a mechanism: one subclass with a tag for each kind."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy values, and those of parts where a mechanism has such: all that is kept of the data."""

    values: tuple[FloatArray, ...] = ()
    parts: tuple[Measurement, ...] = ()

    def __post_init__(self) -> None:
        if not all(np.isfinite(values).all() for values in self.values):
            raise NoisewrightError("a measurement holds finite numbers alone")

    @property
    def lengths(self) -> list[int] | None:
        """How many numbers there are of everything measured; None where it is no plain vectors."""
        if self.parts or any(value.ndim != 1 for value in self.values):
            return None
        return [len(value) for value in self.values]


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedMechanism:
    """A mechanism is called as the registry, or whoever brings it, calls it.

    The rest is what holds of a mechanism that says nothing else of itself.
    """

    name: str = ""

    def named(self, name: str) -> Self:
        """The same under this name."""
        return replace(self, name=name)

    @property
    def unit_noise(self) -> float | None:
        """It is no multiple of a sensitivity: bounds on linear strategies are not for it."""
        return None

    @property
    def agrees(self) -> bool:
        """All answers follow from one estimate."""
        return True

    def of(self, measure: Measure) -> Self:
        """Refuse measures other than those that it has."""
        raise OutOfReach("several measurements as one keep the measures that they have")

    def at(self, privacy: Privacy) -> Self:
        """The same measurement under another budget."""
        return replace(self, privacy=privacy)  # type: ignore[call-arg]  # a field of theirs


class Mechanism(Protocol):
    """A way to measure and to answer, calibrated to a budget."""

    @property
    def name(self) -> str:
        """What plans and records call it."""

    def named(self, name: str) -> Self:
        """The same under another name."""

    @property
    def privacy(self) -> Privacy:
        """The budget that the noise is calibrated to."""

    @property
    def spend(self) -> Spend:
        """What one measurement costs, from the noise that is drawn."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The exact tables that a measurement needs, each once."""

    @property
    def unit_noise(self) -> float | None:
        """Deviation of the noise at sensitivity one; None where noise has no such unit.

        Bounds on linear strategies are stated in this unit.
        """

    @property
    def agrees(self) -> bool:
        """Whether answers that overlap agree with each other."""

    def of(self, measure: Measure) -> Self:
        """The same measurement of another measure; may refuse."""

    def at(self, privacy: Privacy) -> Self:
        """The same measurement under another budget."""

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        """Measure exact tables under fresh noise; only tests pass a source."""

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        """Answers to all terms, one after the other."""

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        """How wrong these answers are."""

    def fits(self, measurement: Measurement) -> bool:
        """Whether a measurement, from a file perhaps, has the form of this mechanism's own."""

    def check_reach(self, terms: Sequence[Term]) -> None:
        """Refuse, before anything is spent, terms that a measurement does not determine."""

    def record(self) -> dict[str, object]:
        """What is drawn and measured, ready for JSON."""

    def packed(self) -> StoredMechanism:
        """All that rebuilds what is measured."""


class CountsPeople(NamedMechanism):
    """What mechanisms have in common whose noise on numbers of people is of a shape of its own."""

    def of(self, measure: Measure) -> Self:
        """Refuse all but counts."""
        if measure == COUNT:
            return self
        raise OutOfReach("this noise counts people; sums need another mechanism")
