"""Noise in the shape of balls on whole-number combinations of the queries.

What is measured are integer rows over the cells, in parts; each part is moved by one person within
a ball whose radius is computed from its integer columns, and gets ball noise (`noise/ball`) for
its share of ε. A rotation is rounded to whole numbers first, so what is measured is exactly known
and exactly private, and an ellipsoid is a ball around other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.central.mechanism import (
    Counts,
    CountsPeople,
    Measurement,
    StoredMechanism,
    Table,
    check_shares,
)
from noisewright.errors import OutOfReach, require
from noisewright.estimate.accuracy import Accuracy, LogConcave
from noisewright.privacy.noise.ball import ball_noise
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import split
from noisewright.privacy.promise.spend import Promise, Spend
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.structure import Term

MOST_ENTRIES = 2**23
"""Of all rows measured, cells times rows."""

LARGEST_ENTRY = 2**18
"""Squared lengths of columns are then whole numbers within floats."""

LEAST_EPSILON = 2.0**-30
"""Least budget of a part whose noise is drawn, and whose errors are numbers."""

LARGEST_EPSILON = 1000.0
"""Largest budget of such a part."""

_MOST_ROWS = 2**12  # of a part: its pseudo-inverse is one dense eigenproblem
# columns whose distances are all computed; beyond, a ball around the middle is taken
_PAIRED = 2048
# of the largest entry: what rows miss of a query, if no more, is rounding
_EXACT = 1e-7


def over_cells(sizes: tuple[int, ...], asked: Sequence[Term]) -> FloatArray:
    """Terms as rows over all cells."""
    rows = [OnAttributes(sizes, term.attributes, term.inner).dense() for term in asked]
    return np.vstack([term.weight * row for term, row in zip(asked, rows, strict=True)])


def reach_square(rows: IntArray, replaced: bool) -> int:
    """The squared length that one person moves these rows by, at most."""
    columns = _distinct(rows).astype(np.float64)  # whole numbers, so sums are exact
    if not replaced:
        return int((columns**2).sum(axis=1).max())

    if len(columns) <= _PAIRED:
        squares = (columns**2).sum(axis=1)
        return int((squares[:, None] + squares - 2 * columns @ columns.T).max())

    middle = np.rint(columns.mean(axis=0))
    return 4 * int(((columns - middle) ** 2).sum(axis=1).max())


def _distinct(rows: IntArray) -> IntArray:
    """Every column once: by sums that tell most apart, if all columns prove to be among these."""
    weights = np.random.default_rng(0).integers(-(2**62), 2**62, len(rows))
    _, first, places = np.unique(
        rows.T @ weights, return_index=True, return_inverse=True
    )
    columns = rows.T[first]
    if (columns[places] == rows.T).all():
        return columns
    return np.unique(rows.T, axis=0)


def _check_rows(rows: IntArray, cells: int) -> None:
    whole = rows.ndim == 2 and rows.dtype == np.int64 and rows.shape[1] == cells
    require(
        whole and 1 <= len(rows) <= _MOST_ROWS and rows.size <= MOST_ENTRIES,
        "rows",
        rows.shape,
        "must be whole numbers over all cells",
    )
    require(
        int(np.abs(rows).max()) <= LARGEST_ENTRY,
        "rows",
        "entries",
        f"must lie within ±{LARGEST_ENTRY}",
    )


@dataclass(frozen=True, eq=False)
class BallMechanism(CountsPeople):
    """Integer rows over all cells, in parts with shares of ε, under noise in the shape of balls."""

    sizes: tuple[int, ...]
    parts: tuple[IntArray, ...]
    shares: tuple[float, ...]
    privacy: Privacy

    def __post_init__(self) -> None:
        require(
            self.privacy.kind == "pure",
            "privacy",
            self.privacy.kind,
            "must be pure for ball noise",
        )
        check_shares(self.shares, self.parts)
        require(
            all(
                LEAST_EPSILON <= epsilon <= LARGEST_EPSILON
                for epsilon in self._epsilons
            ),
            "epsilon",
            self.privacy.epsilon,
            f"must give every part from 2^-30 to {LARGEST_EPSILON:g}",
        )

        for rows in self.parts:
            _check_rows(rows, prod(self.sizes))

        require(
            all(self.reaches),
            "rows",
            0,
            "must be moved by somebody",
            "leave them out",
        )

    @property
    def _replaced(self) -> bool:
        return self.privacy.neighbours == "replace-one"

    @cached_property
    def reaches(self) -> tuple[int, ...]:
        """How far one person moves every part, squared."""
        return tuple(reach_square(rows, self._replaced) for rows in self.parts)

    @cached_property
    def budgets(self) -> tuple[Privacy, ...]:
        """What every part may spend."""
        return tuple(split(self.privacy, self.shares))

    @property
    def _epsilons(self) -> list[Fraction]:
        return [Fraction(budget.epsilon or 0.0) for budget in self.budgets]

    @cached_property
    def deviations(self) -> tuple[float, ...]:
        """The standard deviation of every number of each part, rounding included."""
        return tuple(
            float(np.sqrt((len(rows) + 1) * reach / float(epsilon) ** 2 + 1 / 12))
            for rows, reach, epsilon in zip(
                self.parts, self.reaches, self._epsilons, strict=True
            )
        )

    # --- the joint ------------------------------------------------------------------------------

    @property
    def spend(self) -> Spend:
        losses = tuple(Promise(float(epsilon)) for epsilon in self._epsilons)
        return Spend(self.privacy.neighbours, losses)

    @property
    def tables(self) -> tuple[Table, ...]:
        return (Table(tuple(range(len(self.sizes)))),)

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        """Noisy rows; and the number of people where neighbours make that public."""
        cells = counts[self.tables[0]].ravel()
        noisy = [
            rows @ cells
            + ball_noise(
                reach,
                epsilon,
                len(rows),
                source,
            )
            for rows, reach, epsilon in zip(
                self.parts, self.reaches, self._epsilons, strict=True
            )
        ]
        people = [np.array([cells.sum()])] if self._replaced else []

        return Measurement(
            tuple(value.astype(np.float64) for value in [*people, *noisy])
        )

    def fits(self, measurement: Measurement) -> bool:
        people = [1] * self._replaced
        return measurement.lengths == [
            *people,
            *(len(rows) for rows in self.parts),
        ]

    @cached_property
    def _design(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows in units of their noise, less what is free; its pseudo-inverse; the noise."""
        noise = np.repeat(self.deviations, [len(rows) for rows in self.parts])
        design = np.vstack(self.parts) / noise[:, None]
        if self._replaced:
            design = design - design.mean(axis=1, keepdims=True)

        gram = design @ design.T
        return (
            design,
            np.linalg.pinv(gram, rcond=1e-13, hermitian=True),
            noise,
        )

    def reading(self, asked: Sequence[Term]) -> tuple[FloatArray, FloatArray]:
        """Weights of the number of people and of noisy rows, in units of their noise."""
        wanted = over_cells(self.sizes, asked)
        weights, told = self._exact_weights(wanted)
        if not told.all():
            raise OutOfReach(
                "the rows measured do not tell all that is asked; plan for it"
            )
        return self._middles(wanted, weights)[0], weights

    def _exact_weights(self, wanted: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Weights of least error for every row wanted, and whether they tell it without bias."""
        design, inverse, _ = self._design
        free = wanted.mean(axis=1, keepdims=True) if self._replaced else 0.0
        weights = (wanted - free) @ design.T @ inverse
        missed = np.abs(wanted - free - weights @ design).max(axis=1, initial=0.0)

        return weights, missed <= _EXACT * max(
            float(np.abs(wanted).max(initial=0.0)), 1e-300
        )

    def _middles(
        self, wanted: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Middle of what weighed rows leave of every row wanted, over cells, and how far it goes.

        The number of people makes up for the middle where it is public, and for nothing else.
        """
        if not self._replaced:
            return np.zeros(len(wanted)), np.zeros(len(wanted))
        left = wanted - (weights / self._design[2]) @ np.vstack(self.parts)
        low = left.min(axis=1)
        high = left.max(axis=1)
        return ((low + high) / 2), ((high - low) / 2)

    def answer(self, measurement: Measurement, asked: Sequence[Term]) -> FloatArray:
        of_people, weights = self.reading(asked)
        values = list(measurement.values)
        people = float(values.pop(0)[0]) if self._replaced else 0.0
        return of_people * people + weights @ (np.concatenate(values) / self._design[2])

    def accuracy(self, asked: Sequence[Term]) -> Accuracy:
        return BallAccuracy(
            self.reading(asked)[1],
            tuple(len(rows) for rows in self.parts),
        )

    def check_reach(self, asked: Sequence[Term]) -> None:
        self.reading(asked)

    def record(self) -> dict[str, object]:
        parts = [
            {
                "noise": {
                    "law": "ball",
                    "scale": float(np.sqrt(reach) / float(epsilon)),
                },
                "sensitivity": float(np.sqrt(reach)),
                "measurements": len(rows),
            }
            for rows, reach, epsilon in zip(
                self.parts, self.reaches, self._epsilons, strict=True
            )
        ]
        return {"shares": list(self.shares), "parts": parts}

    def packed(self) -> StoredMechanism:
        return StoredBalls(self.parts, self.shares)


class StoredBalls(StoredMechanism, frozen=True, tag="balls"):
    """The rows of every part: radii and noise follow from them."""

    parts: tuple[IntArray, ...]
    shares: tuple[float, ...]

    def unpacked(self, privacy: Privacy, sizes: tuple[int, ...]) -> BallMechanism:
        """The mechanism under this budget."""
        return BallMechanism(sizes, self.parts, self.shares, privacy)


@dataclass(frozen=True, eq=False)
class BallAccuracy(LogConcave):
    """Linear answers from independent balls of these dimensions."""

    dimensions: tuple[int, ...]

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        pieces = []
        for d in self.dimensions:
            direction = rng.standard_normal((count, d))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            radius = rng.gamma(d, size=(count, 1))
            pieces.append(direction * radius / np.sqrt(d + 1))

        return np.hstack(pieces) @ self.weights.T
