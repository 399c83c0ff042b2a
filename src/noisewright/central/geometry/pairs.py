"""All pairs of binary attributes in two measurements: how many have each, then second moments.

Whatever the number of cells, the pairs of d attributes are a matrix of d × d. First the number of
people with each attribute is measured, in the shape of what one person changes (a cube). Then rows
are taken relative to these noisy means, which are public by now, so that they are short: their
squared length is about Σm(1 - m) instead of d. Rows longer than that are clipped, and the second
moments of what is left are measured (`second_moments`). Promises of the two add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np

from noisewright.arrays import ByteArray, FloatArray, IntArray
from noisewright.central.geometry.k_norm import (
    MOST_DIMENSIONS,
    KNormMechanism,
)
from noisewright.central.geometry.partition import Partition
from noisewright.central.geometry.second_moments import SecondMoments
from noisewright.central.mechanism import Table
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate, split
from noisewright.privacy.promise.spend import Gaussian, Spend

MOST_ATTRIBUTES = MOST_DIMENSIONS - 1
SHARE_OF_MEANS = 0.4
"""Of the budget: found best, or nearly, for factors strong and weak and for rare attributes."""

# of the radius: where means leave nothing to vary, they may still be wrong
_LEAST_SQUARE = 0.25
_MOST_BITS = 2**34  # of all rows, which are kept in memory to be read twice: 2 GB
_ROWS = 2**14  # unpacked at once


@dataclass(frozen=True, eq=False)
class Rows:
    """Binary rows, kept eight attributes to a byte, since they are read twice."""

    batches: Sequence[ByteArray]
    attributes: int

    @classmethod
    def of(cls, batches: Iterable[FloatArray], attributes: int) -> Rows:
        """What is at least one half is one; all else, what is missing too, is zero."""
        packed = []
        rows = 0
        for batch in batches:
            if batch.ndim != 2 or batch.shape[1] != attributes:
                raise InvalidParameter(
                    "columns", batch.shape[1:], f"must be {attributes}"
                )
            rows += len(batch)
            if rows * attributes > _MOST_BITS:
                raise TooLarge(
                    "a table of more than 2^34 values is too large to be read twice"
                )
            packed.append(np.packbits(batch >= 0.5, axis=1))

        return cls(packed, attributes)

    def __iter__(self) -> Iterator[FloatArray]:
        for batch in self.batches:
            for start in range(0, len(batch), _ROWS):
                bits = np.unpackbits(
                    batch[start : start + _ROWS],
                    axis=1,
                    count=self.attributes,
                )
                yield bits.astype(np.float64)

    def __len__(self) -> int:
        return sum(len(batch) for batch in self.batches)

    def totals(self) -> IntArray:
        """How many people have each attribute: as private as the data."""
        result = np.zeros(self.attributes, dtype=np.int64)
        for batch in self:
            result += batch.sum(axis=0).astype(np.int64)
        return result


@dataclass(frozen=True, eq=False)
class MeasuredPairs:
    """Noisy numbers: of people (None where public) and of those with each attribute; moments.

    `moments` are second moments of rows relative to the noisy means, in squares of the radius.
    """

    people: float | None
    totals: FloatArray
    moments: FloatArray


@dataclass(frozen=True)
class PairMoments:
    """The two measurements for so many attributes under a budget."""

    attributes: int
    privacy: Privacy
    share: float = SHARE_OF_MEANS

    name = "second-moments"
    """What plans and records call it."""

    def __post_init__(self) -> None:
        require(
            2 <= self.attributes <= MOST_ATTRIBUTES,
            "attributes",
            self.attributes,
            f"must be from 2 to {MOST_ATTRIBUTES} for pairs",
        )
        require(
            0.01 <= self.share <= 0.99,
            "share",
            self.share,
            "must lie between 0.01 and 0.99",
        )

        _ = self.spend

    @property
    def pure(self) -> bool:
        """Whether no δ is spent."""
        return self.privacy.kind == "pure"

    @property
    def protected(self) -> bool:
        """Whether the number of people is."""
        return self.privacy.neighbours == "add-remove"

    @cached_property
    def budgets(self) -> tuple[Privacy, Privacy]:
        """Of means and of second moments."""
        first, second = split(self.privacy, [self.share, 1 - self.share])
        return first, second

    @cached_property
    def _cube(self) -> KNormMechanism:
        parts = tuple(Partition((i,), 2) for i in range(self.attributes))
        return KNormMechanism((2,) * self.attributes, parts, self.budgets[0])

    @cached_property
    def _reach(self) -> float:
        """How far one neighbour moves the totals, and their number where that is protected."""
        return root_above(Fraction(self.attributes + self.protected))

    @cached_property
    def _law(self) -> NoiseLaw:
        return calibrate(self.budgets[0], l2=self._reach)

    def second(self, square: float) -> SecondMoments:
        """The second measurement, for rows of this squared length."""
        return SecondMoments(
            self.attributes,
            sqrt(square),
            0.0,
            self.budgets[1],
        )

    @cached_property
    def spend(self) -> Spend:
        """What both measurements cost: it does not depend on the radius."""
        neighbours = self.privacy.neighbours
        if self.pure:
            return self._cube.spend + self.second(1.0).spend
        ratio = float_above(Fraction(self._reach) / Fraction(self._law.scale))
        return Spend(neighbours, (Gaussian(ratio),)) + self.second(1.0).spend

    # --- what is measured -----------------------------------------------------------------------

    def measure(self, rows: Rows, source: ByteSource | None = None) -> MeasuredPairs:
        """Both measurements under fresh noise; only tests pass a source."""
        people, totals = self._first(rows, source)
        method = self.second(self.square(people, totals))
        centre = self.means(people, totals)
        exact, _ = method.exact(batch - centre for batch in rows)
        protected = people if self.protected else None
        return MeasuredPairs(protected, totals, method.measure(exact, source))

    def _first(self, rows: Rows, source: ByteSource | None) -> tuple[float, FloatArray]:
        exact = rows.totals()
        count = len(rows)
        if self.pure:
            tables = {
                Table((i,)): np.array([count - total, total])
                for i, total in enumerate(exact)
            }
            people, groups = self._cube.read(self._cube.measure(tables, source))
            return people, people / 2 + groups[1::2]

        noisy = exact + self._law.sample(self.attributes, source)
        people = (
            float(count + self._law.sample(1, source)[0])
            if self.protected
            else float(count)
        )
        return people, noisy.astype(np.float64)

    def means(self, people: float, totals: FloatArray) -> FloatArray:
        """The share of people with each attribute, between zero and one."""
        return (totals / max(people, 1.0)).clip(0.0, 1.0)

    def square(self, people: float, totals: FloatArray) -> float:
        """The squared length that rows relative to the means are clipped to."""
        means = self.means(people, totals)
        return max(_LEAST_SQUARE, float((means * (1 - means)).sum()))

    # --- how wrong it is ------------------------------------------------------------------------

    @cached_property
    def people_variance(self) -> float:
        """Of the number of people, where it is protected."""
        if not self.protected:
            return 0.0
        return self._cube.variances[0] if self.pure else self._law.variance

    @property
    def _part_of_people(self) -> float:
        """What part of the noise of the number of people is in every total."""
        return 0.5 if self.pure else 0.0

    @cached_property
    def _own_variance(self) -> float:
        """Of the rest of the noise of a total."""
        return self._cube.variances[1] / 2 if self.pure else self._law.variance

    @property
    def total_variance(self) -> float:
        """Of the number of people with one attribute."""
        return self._own_variance + self._part_of_people**2 * self.people_variance

    def simulated_noise(self, rng: np.random.Generator) -> tuple[float, FloatArray]:
        """Noise of the number of people and of the totals, by its variances: for no release."""
        of_people = sqrt(self.people_variance) * float(rng.standard_normal())
        of_totals = sqrt(self._own_variance) * rng.standard_normal(self.attributes)
        return of_people, self._part_of_people * of_people + of_totals

    def mean_errors(self, means: FloatArray) -> FloatArray:
        """Standard errors of shares with each attribute, times people: a total over their number.

        To first order, where the shares are these.
        """
        of_people = (self._part_of_people - means) ** 2 * self.people_variance
        return np.sqrt(self._own_variance + of_people)

    @property
    def worst_variance(self) -> float:
        """Of a measured share with both, times people, at most: to first order, none clipped.

        Totals T and people n err by e + λν and ν: shares with both, p, of m = T/n, n by the noise
        of moments, m_i·e_j + m_j·e_i and (λ(m_i + m_j) − m_i·m_j − p)·ν. Moments are noisiest where
        rows are longest, the others where everybody has both.
        """
        moments = self.second(self.attributes / 4)
        of_people = (2 - 2 * self._part_of_people) ** 2 * self.people_variance
        return (
            moments.variances[1] * moments.radius**4
            + 2 * self._own_variance
            + of_people
        )

    def record(self) -> dict[str, object]:
        """What is drawn, ready for JSON; moments are at the longest rows there can be."""
        first = (
            self._cube.record()
            if self.pure
            else {
                "noise": self._law.to_dict(),
                "sensitivity": self._reach,
            }
        )
        return {"parts": [first, self.second(self.attributes / 4).record()]}
