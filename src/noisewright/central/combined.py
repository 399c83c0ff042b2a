"""Two measurements of the same people as one: answers weighed by the inverse of their covariance.

Where both measurements determine a query, the difference of their answers is pure noise; its best
linear prediction corrects all answers, also those that only one of them determines. That is least
squares over both, and inverse-variance weights where the answers are uncorrelated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.mechanism import StoredBlocks
from noisewright.central.carry.mechanism import StoredCarry
from noisewright.central.composite import StoredComposite, chosen_terms
from noisewright.central.geometry.k_norm import StoredKNorm
from noisewright.central.mechanism import (
    Counts,
    Measurement,
    Mechanism,
    NamedMechanism,
    StoredMechanism,
    Table,
)
from noisewright.errors import (
    OutOfReach,
    require,
)
from noisewright.estimate.accuracy import (
    Accuracy,
    Kind,
    check_covariances,
    drawn_multiplier,
)
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend
from noisewright.workload.structure import Term

MOST_ANSWERS = 4000
"""Answers in both measurements above which only those to the same query are weighed together."""


@dataclass(frozen=True, eq=False)
class Combined(NamedMechanism):
    """Two mechanisms that measured the same table, each under a budget of its own."""

    first: Mechanism
    second: Mechanism

    def __post_init__(self) -> None:
        require(
            self.first.privacy.neighbours == self.second.privacy.neighbours,
            "neighbours",
            self.second.privacy.neighbours,
            "differ between the releases",
        )

    @property
    def members(self) -> tuple[Mechanism, Mechanism]:
        """Both."""
        return self.first, self.second

    @property
    def privacy(self) -> Privacy:
        """What both promise together."""
        deltas = [member.privacy.delta or 0.0 for member in self.members]
        return self.spend.promise(sum(deltas) or None)

    @cached_property
    def spend(self) -> Spend:
        return self.first.spend + self.second.spend

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(dict.fromkeys((*self.first.tables, *self.second.tables)))

    @property
    def agrees(self) -> bool:
        return all(member.agrees for member in self.members)

    def at(self, privacy: Privacy) -> Self:
        raise OutOfReach("combined releases keep the budgets that they were made with")

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        parts = [member.measure(counts, source) for member in self.members]
        return Measurement(parts=tuple(parts))

    def _determined(self, terms: Sequence[Term]) -> list[tuple[list[Term], IntArray]]:
        """The terms that each of the two determines, and where their answers stand."""
        reached = [
            [k for k, term in enumerate(terms) if _determines(member, term)]
            for member in self.members
        ]
        if len(set().union(*reached)) < len(terms):
            raise OutOfReach("neither release measured what is asked; plan for it")
        return [chosen_terms(terms, numbers) for numbers in reached]

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        answers = [
            member.answer(part, told) if told else np.zeros(0)
            for member, part, (told, _) in zip(
                self.members,
                measurement.parts,
                self._determined(terms),
                strict=True,
            )
        ]
        return self.accuracy(terms).weighed(*answers)

    def accuracy(self, terms: Sequence[Term]) -> CombinedAccuracy:
        determined = self._determined(terms)
        parts = [
            member.accuracy(told) if told else None
            for member, (told, _) in zip(self.members, determined, strict=True)
        ]
        places = [place for _, place in determined]

        return CombinedAccuracy(parts, places, sum(term.queries for term in terms))

    def check_reach(self, terms: Sequence[Term]) -> None:
        for term in terms:
            if not _determines(self.first, term):
                self.second.check_reach([term])

    def fits(self, measurement: Measurement) -> bool:
        pairs = zip(self.members, measurement.parts, strict=False)
        fitting = [member.fits(part) for member, part in pairs]
        return len(measurement.parts) == 2 and all(fitting)

    def record(self) -> dict[str, object]:
        return {"parts": [member.record() for member in self.members]}

    def packed(self) -> StoredCombined:
        members = tuple(member.packed() for member in self.members)
        budgets = tuple(member.privacy for member in self.members)
        return StoredCombined(members, budgets)  # type: ignore[arg-type]


def _determines(mechanism: Mechanism, term: Term) -> bool:
    if term.measure not in {table.measure for table in mechanism.tables}:
        return False

    try:
        mechanism.check_reach([term])
    except OutOfReach:
        return False

    return True


_Member = StoredBlocks | StoredCarry | StoredComposite | StoredKNorm


class StoredCombined(StoredMechanism, frozen=True, tag="combined"):
    """Two mechanisms and the budget of each."""

    members: tuple[_Member, _Member]
    budgets: tuple[Privacy, Privacy]

    def unpacked(self, privacy: Privacy, sizes: tuple[int, ...]) -> Combined:
        """The mechanism again; `privacy` is not what decides its noise."""
        members = zip(self.members, self.budgets, strict=True)
        return Combined(*(member.unpacked(budget, sizes) for member, budget in members))


@dataclass(frozen=True, eq=False)
class CombinedAccuracy(Accuracy):
    """Answers of two independent measurements, each at its places, weighed into one."""

    parts: Sequence[Accuracy | None]
    places: Sequence[IntArray]
    count: int

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        exact = all(part.kind == "exact" for part in self._known)
        return "exact" if exact else "bound"

    @property
    def _known(self) -> list[Accuracy]:
        return [part for part in self.parts if part is not None]

    @cached_property
    def _common(self) -> tuple[IntArray, list[IntArray]]:
        """Answers in both, and their places in each of the two."""
        both, *within = np.intersect1d(
            self.places[0], self.places[1], return_indices=True
        )
        return both, within

    @cached_property
    def _by_answer(self) -> bool:
        """Whether common answers are too many to be weighed with any but the same query's."""
        return len(self._common[0]) > MOST_ANSWERS

    @cached_property
    def _gains(self) -> list[FloatArray]:
        """What a difference of one between common answers corrects in each measurement's own.

        Matrices where there are few common answers, else one weight per common answer.
        """
        pairs = list(zip(self._known, self._common[1], strict=True))
        if self._by_answer:
            variances = [part.variance[within] for part, within in pairs]
            total = variances[0] + variances[1]
            return [
                variance / np.where(total > 0, total, 1.0) for variance in variances
            ]

        crosses = [part.covariance(within) for part, within in pairs]
        spread = crosses[0][pairs[0][1]] + crosses[1][pairs[1][1]]
        inverse = np.linalg.pinv(spread, rcond=1e-10, hermitian=True)

        return [cross @ inverse for cross in crosses]

    def weighed(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Answers (or errors, in columns) of the two as one."""
        both, within = self._common
        result = np.zeros((self.count, *max(first, second, key=np.ndim).shape[1:]))
        if len(both):
            gap = second[within[1]] - first[within[0]]

        if len(both) and not self._by_answer:
            first = first + self._gains[0] @ gap
            second = second - self._gains[1] @ gap

        result[self.places[1]] = second
        result[self.places[0]] = first
        if self._by_answer:
            result[both] += self._gains[0].reshape(-1, *[1] * (gap.ndim - 1)) * gap

        return result

    @cached_property
    def variance(self) -> FloatArray:
        result = np.zeros(self.count)
        both, within = self._common
        for k in (1, 0):
            part = self.parts[k]
            if part is None:
                continue
            variance = part.variance
            if len(both) and not self._by_answer:
                cross = part.covariance(within[k])
                variance = variance - np.einsum("ij,ij->i", self._gains[k], cross)
            result[self.places[k]] = variance

        if self._by_answer:
            result[both] = self._gains[0] * self._known[1].variance[within[1]]

        return np.maximum(result, 0.0)

    def covariance(self, chosen: IntArray) -> FloatArray:
        check_covariances(self.count**2, "combine fewer tables")

        # Of errors e₁ at its places and e₂ at its own, through the same linear map as answers.
        result = np.zeros((self.count, len(chosen)))
        for k, part in enumerate(self.parts):
            if part is None:
                continue
            size = len(self.places[k])
            units = [np.zeros((len(places), size)) for places in self.places]
            units[k] = np.eye(size)
            effects = self.weighed(*units)
            result += effects @ part.covariance(np.arange(size)) @ effects[chosen].T

        return result

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        drawn = [
            np.zeros((0, count)) if part is None else part.draw(count, rng).T
            for part in self.parts
        ]
        return self.weighed(*drawn).T

    @cached_property
    def alike(self) -> bool:
        return all(part.alike for part in self._known)

    def multiplier(self, level: float) -> float:
        if not self.alike:
            return drawn_multiplier(self, level)
        return max(part.multiplier(level) for part in self._known)

    def bounded_multiplier(self, answers: int, level: float) -> float:
        if not self.alike:
            return super().bounded_multiplier(answers, level)
        return max(part.bounded_multiplier(answers, level) for part in self._known)
