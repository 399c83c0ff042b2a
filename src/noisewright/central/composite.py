"""Several mechanisms as one: every part measures what is its own, and what they spend adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import compress
from operator import add
from typing import cast

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.mechanism import StoredBlocks
from noisewright.central.carry.mechanism import StoredCarry
from noisewright.central.geometry.balls import StoredBalls
from noisewright.central.geometry.fitted import StoredFit
from noisewright.central.geometry.k_norm import StoredKNorm
from noisewright.central.mechanism import (
    Counts,
    Measurement,
    Mechanism,
    NamedMechanism,
    StoredMechanism,
    Table,
    check_shares,
)
from noisewright.errors import FileFormatError, OutOfReach, require
from noisewright.estimate.accuracy import Accuracy, Joined
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import split
from noisewright.privacy.promise.spend import Spend
from noisewright.workload.questions.measures import Measure
from noisewright.workload.structure import Term


@dataclass(frozen=True, eq=False)
class Composite(NamedMechanism):
    """Mechanisms of one measure each, with shares of one budget.

    `members` may come with any budget: what is measured is `parts`, each at its share. A member
    whose measurement no neighbour can change spends nothing and has no share.
    """

    members: tuple[Mechanism, ...]
    shares: tuple[float, ...]
    privacy: Privacy

    def __post_init__(self) -> None:
        check_shares(self.shares, self.members)

        measures = [
            {table.measure for table in member.tables} for member in self.members
        ]
        require(
            not any(len(kinds) != 1 for kinds in measures)
            and len(set.union(*measures)) >= len(measures),
            "members",
            len(self.members),
            "must each read tables of a measure of their own",
        )

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        """The members, each at its share of the budget."""
        paying = [member.at(self.privacy).spend.losses != () for member in self.members]
        shares = list(compress(self.shares, paying))
        budgets = iter(split(self.privacy, shares))

        return tuple(
            member.at(next(budgets) if pays else self.privacy)
            for member, pays in zip(self.members, paying, strict=True)
        )

    @cached_property
    def _part_of(self) -> dict[Measure, int]:
        return {m.tables[0].measure: number for number, m in enumerate(self.members)}

    @cached_property
    def spend(self) -> Spend:
        return reduce(add, (part.spend for part in self.parts))

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(table for member in self.members for table in member.tables)

    @cached_property
    def unit_noise(self) -> float | None:
        """That of the part with the least, had it the whole budget."""
        units = [member.at(self.privacy).unit_noise for member in self.members]
        return min((unit for unit in units if unit is not None), default=None)

    @property
    def agrees(self) -> bool:
        return all(member.agrees for member in self.members)

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        return Measurement(
            parts=tuple(part.measure(counts, source) for part in self.parts)
        )

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        result = np.empty(sum(term.queries for term in terms))
        assigned = self._assigned(terms)
        pairs = zip(self.parts, measurement.parts, assigned, strict=True)

        for part, measured, (mine, place) in pairs:
            if mine:
                result[place] = part.answer(measured, mine)

        return result

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        parts = []
        places = []
        for part, (mine, place) in zip(self.parts, self._assigned(terms), strict=True):
            if mine:
                parts.append(part.accuracy(mine))
                places.append(place)

        return Joined(parts, places)

    def check_reach(self, terms: Sequence[Term]) -> None:
        for part, (mine, _) in zip(self.parts, self._assigned(terms), strict=True):
            part.check_reach(mine)

    def fits(self, measurement: Measurement) -> bool:
        return len(measurement.parts) == len(self.parts) and all(
            part.fits(measured)
            for part, measured in zip(self.parts, measurement.parts, strict=True)
        )

    def _assigned(self, terms: Sequence[Term]) -> list[tuple[list[Term], IntArray]]:
        """The terms of every part, and where their answers stand among all."""
        numbers = [self._part_of.get(term.measure) for term in terms]
        if None in numbers:
            raise OutOfReach("no part measures what this question asks; plan for it")

        return [
            chosen_terms(
                terms,
                [k for k, number in enumerate(numbers) if number == part],
            )
            for part in range(len(self.members))
        ]

    def record(self) -> dict[str, object]:
        return {
            "shares": list(self.shares),
            "parts": [part.record() for part in self.parts],
        }

    def packed(self) -> StoredComposite:
        members = tuple(member.packed() for member in self.members)
        if not all(isinstance(member, StoredPart) for member in members):
            raise FileFormatError(
                "some parts of the plan cannot be kept; release it now"
            )

        return StoredComposite(cast("tuple[StoredPart, ...]", members), self.shares)


# Whatever may be the best for the counts among sums and means; no composite stands in another.
StoredPart = StoredBalls | StoredBlocks | StoredCarry | StoredFit | StoredKNorm


def chosen_terms(
    terms: Sequence[Term],
    numbers: Sequence[int],
) -> tuple[list[Term], IntArray]:
    """Some of the terms, and where their answers stand among those of all."""
    ends = np.cumsum([0, *(term.queries for term in terms)])
    places = [np.arange(ends[k], ends[k + 1]) for k in numbers]
    chosen = [terms[k] for k in numbers]
    return chosen, np.concatenate([np.zeros(0, dtype=np.int64), *places])


class StoredComposite(StoredMechanism, frozen=True, tag="composite"):
    """The members of a composite, and their shares."""

    members: tuple[StoredPart, ...]
    shares: tuple[float, ...]

    def unpacked(self, privacy: Privacy, sizes: tuple[int, ...]) -> Composite:
        """The composite under this budget."""
        members = tuple(member.unpacked(privacy, sizes) for member in self.members)
        return Composite(members, self.shares, privacy)
