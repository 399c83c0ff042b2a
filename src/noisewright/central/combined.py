"""Two measurements of the same people as one: answers weighed by the inverse of their covariance.

Where both measurements determine a query, the difference of their answers is pure noise; its best
linear prediction corrects all answers, also those that only one of them determines. That is least
squares over both, and inverse-variance weights where the answers are uncorrelated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.mechanism import StoredBlocks
from noisewright.central.carry.mechanism import StoredCarry
from noisewright.central.composite import StoredComposite
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
from noisewright.workload.questions.measures import Measure
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
    def privacy(self) -> Privacy:
        """What both promise together."""
        deltas = [p.delta or 0.0 for p in (self.first.privacy, self.second.privacy)]
        return self.spend.promise(sum(deltas) or None)

    @cached_property
    def spend(self) -> Spend:
        return self.first.spend + self.second.spend

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(dict.fromkeys((*self.first.tables, *self.second.tables)))

    @property
    def unit_noise(self) -> float | None:
        return None

    @property
    def agrees(self) -> bool:
        return self.first.agrees and self.second.agrees

    def of(self, measure: Measure) -> Self:
        raise OutOfReach(f"combined measurements cannot be of {measure}")

    def at(self, privacy: Privacy) -> Self:
        raise OutOfReach("combined releases keep the budgets that they were made with")

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        parts = self.first.measure(counts, source), self.second.measure(counts, source)
        return Measurement(parts=parts)

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        accuracy = self.accuracy(terms)
        assert isinstance(accuracy, CombinedAccuracy)
        return accuracy.weighed(
            *(
                mechanism.answer(part, own) if own else np.zeros(0)
                for mechanism, part, own in zip(
                    (self.first, self.second),
                    measurement.parts,
                    self._own(terms),
                    strict=True,
                )
            )
        )

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        reach = [
            self._reach(mechanism, terms) for mechanism in (self.first, self.second)
        ]
        if not (reach[0] | reach[1]).all():
            raise OutOfReach("neither release measured what is asked; plan for it")

        rows = np.cumsum([0, *(term.queries for term in terms)])
        places = [
            np.concatenate(
                [np.arange(rows[k], rows[k + 1]) for k in np.flatnonzero(own)]
                or [np.zeros(0)]
            ).astype(np.int64)
            for own in reach
        ]
        parts = [
            mechanism.accuracy(own) if own else None
            for mechanism, own in zip(
                (self.first, self.second), self._own(terms), strict=True
            )
        ]

        return CombinedAccuracy(
            parts[0],
            parts[1],
            places[0],
            places[1],
            int(rows[-1]),
        )

    def _own(self, terms: Sequence[Term]) -> tuple[list[Term], list[Term]]:
        """The terms that each of the two determines."""
        first, second = (
            [
                term
                for term, has in zip(terms, self._reach(m, terms), strict=True)
                if has
            ]
            for m in (self.first, self.second)
        )
        return first, second

    def _reach(self, mechanism: Mechanism, terms: Sequence[Term]) -> Any:
        return np.array([_determines(mechanism, term) for term in terms], dtype=bool)

    def check_reach(self, terms: Sequence[Term]) -> None:
        for term in terms:
            if not _determines(self.first, term):
                self.second.check_reach([term])

    def fits(self, measurement: Measurement) -> bool:
        pairs = zip((self.first, self.second), measurement.parts, strict=False)
        return len(measurement.parts) == 2 and all(
            own.fits(part) for own, part in pairs
        )

    def record(self) -> dict[str, Any]:
        return {"parts": [self.first.record(), self.second.record()]}

    def packed(self) -> StoredCombined:
        both = (self.first, self.second)
        members = tuple(member.packed() for member in both)
        budgets = tuple(member.privacy for member in both)
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
        return Combined(*(member.unpacked(own, sizes) for member, own in members))


@dataclass(frozen=True, eq=False)
class CombinedAccuracy(Accuracy):
    """Answers of two independent measurements, each at its places, weighed into one."""

    first: Accuracy | None
    second: Accuracy | None
    first_places: IntArray
    second_places: IntArray
    count: int

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return "exact" if all(part.kind == "exact" for part in self._parts) else "bound"

    @property
    def _parts(self) -> list[Accuracy]:
        return [part for part in (self.first, self.second) if part is not None]

    @cached_property
    def _common(self) -> tuple[IntArray, IntArray, IntArray]:
        """Places in both, as numbers of answers and as places in each of the two."""
        both, in_first, in_second = np.intersect1d(
            self.first_places, self.second_places, return_indices=True
        )
        return both, in_first, in_second

    @cached_property
    def _gains(self) -> tuple[Any, Any]:
        """What a difference of one between common answers corrects in each measurement's own.

        Matrices where there are few common answers, else one weight per common answer.
        """
        _, mine, theirs = self._common
        assert self.first is not None
        assert self.second is not None
        if len(mine) > MOST_ANSWERS:
            own = self.first.variance[mine]
            other = self.second.variance[theirs]
            total = np.where(own + other > 0, own + other, 1.0)
            return own / total, other / total

        crosses = self.first.covariance(mine), self.second.covariance(theirs)
        spread = crosses[0][mine] + crosses[1][theirs]
        inverse = np.linalg.pinv(spread, rcond=1e-10, hermitian=True)

        return crosses[0] @ inverse, crosses[1] @ inverse

    def weighed(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Answers (or errors, in columns) of the two as one."""
        shape = (self.count, *max(first, second, key=np.ndim).shape[1:])
        result = np.zeros(shape)
        both, mine, theirs = self._common
        if not len(both):
            result[self.first_places] = first
            result[self.second_places] = second
            return result

        gap = second[theirs] - first[mine]
        gains = self._gains
        if gains[0].ndim == 1:
            result[self.second_places], result[self.first_places] = second, first
            result[both] += gains[0].reshape(-1, *[1] * (gap.ndim - 1)) * gap
            return result

        result[self.second_places] = second - gains[1] @ gap
        result[self.first_places] = first + gains[0] @ gap
        return result

    @cached_property
    def variance(self) -> FloatArray:
        result = np.zeros(self.count)
        both, mine, theirs = self._common
        for part, places, k in (
            (self.second, self.second_places, 1),
            (self.first, self.first_places, 0),
        ):
            if part is None:
                continue
            own = part.variance
            if len(both) and self._gains[0].ndim == 2:
                cross = part.covariance((mine, theirs)[k])
                own = own - np.einsum("ij,ij->i", self._gains[k], cross)
            result[places] = own

        if len(both) and self._gains[0].ndim == 1:
            assert self.second is not None
            result[both] = self._gains[0] * self.second.variance[theirs]

        return np.maximum(result, 0.0)

    def covariance(self, chosen: IntArray) -> FloatArray:
        check_covariances(self.count**2, "combine fewer tables")

        # Of errors e₁ at its places and e₂ at its own, through the same linear map as answers.
        blocks = []
        for k, (part, places) in enumerate(
            ((self.first, self.first_places), (self.second, self.second_places))
        ):
            if part is None:
                continue
            whole = part.covariance(np.arange(len(places)))
            maps = self._map(k, len(places))
            blocks.append(maps @ whole @ maps[chosen].T)

        return np.asarray(sum(blocks))

    def _map(self, which: int, size: int) -> FloatArray:
        """What unit errors of one measurement do to the answers."""
        zeros = np.zeros(
            ((len(self.second_places), len(self.first_places))[which], size)
        )
        pair = (np.eye(size), zeros) if which == 0 else (zeros, np.eye(size))
        return self.weighed(*pair)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        drawn = [
            np.zeros((0, count)) if part is None else part.draw(count, rng).T
            for part in (self.first, self.second)
        ]
        return self.weighed(*drawn).T

    @property
    def alike(self) -> bool:
        return all(part.alike for part in self._parts)

    def multiplier(self, level: float) -> float:
        if not self.alike:
            return drawn_multiplier(self, level)
        return max(part.multiplier(level) for part in self._parts)

    def bounded_multiplier(self, answers: int, level: float) -> float:
        if not self.alike:
            return super().bounded_multiplier(answers, level)
        return max(part.bounded_multiplier(answers, level) for part in self._parts)
