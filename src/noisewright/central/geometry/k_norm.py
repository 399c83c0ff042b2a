"""K-norm noise on tables that sort people: one draw in the shape of what one person can change.

A person is in one group of every table, so what joining or being replaced changes lies in a product
of bodies (`bodies`), one per table, and chances ∝ e^(-ε‖z‖), ‖z‖ the least dilate of that product
which holds z, change by at most e^ε. Everything lies on a grid of whole numbers: counts are
multiplied by `steps`, so that noise has many values per person, and the law is exact (`levels`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, lcm, prod
from typing import cast

import msgspec
import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.geometry.bodies import (
    Body,
    Entered,
    Headcount,
    Replaced,
)
from noisewright.central.geometry.partition import Partition, Reading
from noisewright.central.mechanism import (
    Counts,
    CountsPeople,
    Measurement,
    StoredMechanism,
    Table,
)
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    require,
)
from noisewright.estimate.accuracy import Accuracy, LogConcave
from noisewright.privacy.exact.rounding import checked_scale
from noisewright.privacy.noise.levels import (
    draw_level,
    level_weights,
    mean_over_levels,
)
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Promise, Spend
from noisewright.workload.structure import Term

MOST_DIMENSIONS = 1000
"""Numbers measured at once up to which the law is worked out."""

LEAST_EPSILON = 2.0**-30
"""Least budget for which noise is drawn: its grid steps, and people in them, fit a word."""

LARGEST_EPSILON = 1000.0
"""Largest budget for which it is drawn."""

_LEAST_STEPS = 16  # grid steps per 1/ε: more would change no variance by a thousandth


@dataclass(frozen=True, eq=False)
class KNormMechanism(CountsPeople):
    """People sorted into the groups of several tables, all moved by one draw."""

    sizes: tuple[int, ...]
    parts: tuple[Partition, ...]
    privacy: Privacy

    def __post_init__(self) -> None:
        require(
            self.privacy.kind == "pure",
            "privacy",
            self.privacy.kind,
            "must be pure for K-norm noise",
        )

        dimensions = sum(body.dimension for body in self.bodies)
        require(
            self.parts and dimensions and dimensions <= MOST_DIMENSIONS,
            "parts",
            dimensions,
            f"must span from 1 to {MOST_DIMENSIONS} dimensions",
        )

        _ = self.rate

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        """What one person can change: in the number of people, then in every partition."""
        if self.privacy.neighbours == "replace-one":
            return tuple(Replaced(part.groups) for part in self.parts)
        return (
            Headcount(),
            *(Entered(part.groups) for part in self.parts),
        )

    @property
    def epsilon(self) -> float:
        """What is promised."""
        return cast("float", self.privacy.epsilon)

    @property
    def _protected_total(self) -> bool:
        return self.privacy.neighbours == "add-remove"

    @cached_property
    def steps(self) -> int:
        """Grid steps that one person is."""
        return max(1, ceil(_LEAST_STEPS * Fraction(self.epsilon)))

    @cached_property
    def rate(self) -> Fraction:
        """How fast chances fall from one dilate to the next."""
        if not LEAST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            rule = f"must lie between 2^-30 and {LARGEST_EPSILON:g} for K-norm noise"
            raise InvalidParameter("epsilon", self.epsilon, rule)
        rate = Fraction(self.epsilon) / self.steps
        checked_scale("epsilon", 1 / rate)
        return rate

    @cached_property
    def dimension(self) -> int:
        """The dimension of the product of the bodies."""
        return sum(body.dimension for body in self.bodies)

    def _points(self, levels: int) -> list[int]:
        """Whole vectors in the dilates of the product, from 0 to `levels`."""
        kinds = Tally(self.bodies)
        return [
            prod(body.points(level) ** number for body, number in kinds.items())
            for level in range(levels + 1)
        ]

    @cached_property
    def _weights(self) -> list[int]:
        return level_weights(self._points(self.dimension))

    @cached_property
    def variances(self) -> tuple[float, ...]:
        """In people: of their number, then v of each partition, as `Reading` has them."""
        levels = self.dimension + 2
        points = self._points(levels)
        known: dict[Body, float] = {}

        for body in set(self.bodies):
            squares = body.squares(levels)
            unit = lcm(3, body.cells)
            sums = [
                int(square * unit) * (number // body.points(level))
                for level, (square, number) in enumerate(
                    zip(squares, points, strict=True)
                )
            ]
            mean = mean_over_levels(sums, self._weights, float(self.rate)) / unit
            known[body] = mean / (max(body.dimension, 1) * self.steps**2)

        people = () if self._protected_total else (0.0,)
        return (*people, *(known[body] for body in self.bodies))

    @cached_property
    def reading(self) -> Reading:
        """How answers follow from what is measured."""
        return Reading(self.sizes, self.parts, self.variances)

    @property
    def spend(self) -> Spend:
        return Spend(self.privacy.neighbours, (Promise(self.epsilon),))

    @property
    def agrees(self) -> bool:
        return self.reading.agrees

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(dict.fromkeys(part.table for part in self.parts))

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        level = draw_level(self._weights, self.rate, source)
        noise = [body.draw(level, source) for body in self.bodies]
        groups = [self.steps * part.totals(counts[part.table]) for part in self.parts]
        if not self._protected_total:
            pairs = zip(groups, noise, strict=True)
            return Measurement(
                tuple((exact + moved).astype(np.float64) for exact, moved in pairs)
            )

        people = groups[0].sum() + noise[0]
        # Groups are told by their differences alone: their sum is the number of people, which has
        # noise of its own.
        pairs = zip(groups, noise[1:], strict=True)
        differences = [
            (exact + moved)[1:] - (exact + moved)[0] for exact, moved in pairs
        ]

        return Measurement(
            tuple(value.astype(np.float64) for value in (people, *differences))
        )

    def read(self, measurement: Measurement) -> tuple[float, FloatArray]:
        """The number of people, and all groups less the mean of their partition."""
        values = [value / self.steps for value in measurement.values]
        if self._protected_total:
            people = float(values[0][0])
            groups = [np.concatenate([[0.0], group]) for group in values[1:]]
        else:
            people = float(values[0].sum())
            groups = values

        return people, np.concatenate([group - group.mean() for group in groups])

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        people, groups = self.read(measurement)
        of_people, of_groups = self.reading.of(terms)
        return of_people * people + of_groups @ groups

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        return KNormAccuracy.of(self, *self.reading.of(terms))

    def fits(self, measurement: Measurement) -> bool:
        people = [1] * self._protected_total
        groups = [part.groups - len(people) for part in self.parts]
        return measurement.lengths == people + groups

    def check_reach(self, terms: Sequence[Term]) -> None:
        self.reading.of(terms)

    def record(self) -> dict[str, object]:
        noise = {"law": "k-norm", "scale": float(1 / self.rate)}
        return {
            "noise": noise,
            "sensitivity": float(self.steps),
            "measurements": self.dimension,
        }

    def packed(self) -> StoredKNorm:
        return StoredKNorm(
            [StoredPartition(p.attributes, p.labels) for p in self.parts]
        )


class StoredPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes of a table, and the groups of its cells."""

    attributes: tuple[int, ...]
    labels: IntArray | None


class StoredKNorm(StoredMechanism, frozen=True, tag="k-norm"):
    """The tables that people are sorted by: the noise follows from them."""

    partitions: list[StoredPartition]

    def unpacked(self, privacy: Privacy, sizes: tuple[int, ...]) -> KNormMechanism:
        """The mechanism under this budget, over attributes of these sizes."""
        parts = []
        for stored in self.partitions:
            axes = stored.attributes
            in_order = list(axes) == sorted(set(axes))
            if not in_order or not all(0 <= i < len(sizes) for i in axes):
                raise FileFormatError(
                    "a table of the plan has no such attributes; plan again"
                )
            cells = prod(sizes[i] for i in axes)
            parts.append(Partition(axes, cells, stored.labels))

        return KNormMechanism(sizes, tuple(parts), privacy)


@dataclass(frozen=True, eq=False)
class KNormAccuracy(LogConcave):
    """Linear answers from one draw of density e^(-ε‖z‖): exact second moments."""

    mechanism: KNormMechanism
    of_people: FloatArray
    of_groups: FloatArray

    @classmethod
    def of(
        cls,
        mechanism: KNormMechanism,
        of_people: FloatArray,
        of_groups: FloatArray,
    ) -> KNormAccuracy:
        """From the weights of the number of people and of all groups in every answer."""
        sizes = [part.groups for part in mechanism.parts]
        people, *variances = mechanism.variances
        columns = [np.sqrt(people) * of_people[:, None]]
        parts = np.split(of_groups, np.cumsum(sizes)[:-1], axis=1)

        for part, variance in zip(parts, variances, strict=True):
            centred = part - part.mean(axis=1, keepdims=True)
            columns.append(np.sqrt(variance) * centred)

        return cls(
            np.hstack(columns),
            mechanism,
            of_people,
            of_groups,
        )

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        mechanism = self.mechanism
        radius = rng.gamma(mechanism.dimension + 1, size=(count, 1))
        shadows = [body.shadow(count, rng) for body in mechanism.bodies]
        groups = shadows[-len(mechanism.parts) :]
        moved: FloatArray = np.hstack(groups) @ self.of_groups.T
        if len(shadows) > len(groups):  # the number of people has noise of its own
            moved += shadows[0] * self.of_people

        moved *= radius / mechanism.epsilon
        return moved
