"""What a specification promises, recomputed from its whole numbers alone.

Routers are public: what they lead to is as private as before, so a specification spends what the
worst of its laws spends. Nothing here is shared with the strategies that wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import singledispatch

import numpy as np

from noisewright.arrays import IntArray
from noisewright.local.fixedpoint import WORD
from noisewright.local.randomizer.laws import (
    Favour,
    Flip,
    Grid,
    Subset,
    Weigh,
)
from noisewright.local.randomizer.rows import Row, TwoValued
from noisewright.local.randomizer.specification import Specification
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.privacy.noise.gaussian import gaussian_delta_enclosure

PAIRS = 1 << 33
"""Differences up to which distances are taken over all pairs of cells."""

_CONTEXT = Context(prec=80, rounding=ROUND_CEILING)
_MARGIN = 1 + Decimal(10) ** -75


@dataclass(frozen=True)
class Loss:
    """What one law spends: the largest ratio of chances, e to the `exponent`, or ε with δ."""

    ratio: Fraction = Fraction(1)
    exponent: Fraction = Fraction(0)
    delta: float = 0.0
    exact: bool = True
    rational: bool = True
    """Whether every ratio of chances is a fraction: noise has the exponent alone."""

    @property
    def epsilon(self) -> float:
        """ε, rounded up."""
        of_noise = float_above(self.exponent) if self.exponent else 0.0
        return max(log_above(self.ratio), of_noise)


@dataclass(frozen=True)
class Promise:
    """ε and δ of every report, for any two values that a person may hold, rounded up."""

    epsilon: float
    delta: float
    ratio: Fraction | None
    """e^ε where it is rational: the largest ratio between chances of one report."""
    exact: bool
    """Whether ε is what is spent, or what is spent at most."""


def verify(specification: Specification) -> Promise:
    """The promise that a specification keeps."""
    losses = [loss(law) for law in specification.laws]
    rational = all(each.rational for each in losses)

    return Promise(
        max(each.epsilon for each in losses),
        max(each.delta for each in losses),
        max(each.ratio for each in losses) if rational else None,
        all(each.exact for each in losses),
    )


@singledispatch
def loss(law: object) -> Loss:
    """What a law spends."""
    raise NotImplementedError(type(law).__name__)


@loss.register
def _loss_of_favour(law: Favour) -> Loss:
    own = law.owner.own
    others = law.owner.outcomes - own
    chance = int(law.threshold)
    return _either_way(chance * others, (WORD - chance) * own)


@loss.register
def _loss_of_subset(law: Subset) -> Loss:
    chance = int(law.threshold)
    others = law.cells - law.size
    return _either_way(chance * others, (WORD - chance) * law.size)


@loss.register
def _loss_of_flip(law: Flip) -> Loss:
    own = int(law.own)
    other = int(law.other)
    return _either_way(own * (WORD - other), other * (WORD - own))


@loss.register
def _loss_of_weigh(law: Weigh) -> Loss:
    worst = Fraction(1)
    for row, values in zip(law.rows, law.values, strict=True):
        used = _used_values(row, values, law.cells)
        high = max(used)
        low = min(used)
        # Fractions are slow to make: one a row that is worse than all before.
        if high * worst.denominator > worst.numerator * low:
            worst = Fraction(high, low)

    return Loss(worst)


def _used_values(row: Row, values: tuple[int, ...], cells: int) -> tuple[int, ...]:
    """The values that some cell has."""
    match row:
        case TwoValued(ones=0):
            return values[:1]
        case TwoValued(ones=ones) if ones == cells:
            return values[1:]
        case _:
            return values


@loss.register
def _loss_of_grid(law: Grid) -> Loss:
    if law.epsilon is None:
        distance, exact = _distance(law)
        return Loss(exponent=distance / law.spread, exact=exact, rational=False)

    distance, exact = _squared_distance(law)
    if distance == 0:
        return Loss(rational=False)

    epsilon = Fraction(*map(int, law.epsilon))
    farthest = Fraction(root_above(distance))
    ratio = Fraction(float_above(farthest / law.spread))
    _, delta_above = gaussian_delta_enclosure(epsilon, ratio)
    delta = float_above(delta_above)

    return Loss(exponent=epsilon, delta=delta, exact=exact, rational=False)


def _either_way(numerator: int, denominator: int) -> Loss:
    ratio = Fraction(numerator, denominator)
    return Loss(max(ratio, 1 / ratio))


def _distance(law: Grid) -> tuple[Fraction, bool]:
    """Largest ℓ1 distance between columns, or the sum of the coordinates' ranges above it."""
    columns = np.array(law.columns, dtype=np.int64)
    if not _countable(columns.shape):
        return Fraction(sum(_ranges(columns))), False

    largest = 0
    for u in range(len(columns) - 1):
        differences = columns[u + 1 :] - columns[u]
        distances = np.abs(differences).sum(axis=1)
        largest = max(largest, int(distances.max()))

    return Fraction(largest), True


def _squared_distance(law: Grid) -> tuple[Fraction, bool]:
    """The square of the largest ℓ2 distance, likewise."""
    columns = np.array(law.columns, dtype=np.int64)
    if not _countable(columns.shape):
        return Fraction(sum(extent**2 for extent in _ranges(columns))), False

    largest = 0
    for u in range(len(columns) - 1):
        differences = columns[u + 1 :] - columns[u]
        squares = (differences.astype(np.float64) ** 2).sum(axis=1)

        # Doubles tell which pairs may be farthest; whole numbers, how far they are.
        farthest = max(squares.max(), largest)
        for v in np.flatnonzero(squares >= farthest * (1 - 1e-9)):
            exact = sum(d * d for d in differences[v].tolist())
            largest = max(largest, exact)

    return Fraction(largest), True


def _ranges(columns: IntArray) -> list[int]:
    """How far the coordinates of columns reach."""
    extents = columns.max(axis=0) - columns.min(axis=0)
    ranges: list[int] = extents.tolist()
    return ranges


def _countable(shape: tuple[int, ...]) -> bool:
    cells, coordinates = shape
    return cells * cells * coordinates <= PAIRS


def log_above(ratio: Fraction) -> float:
    """The least float that is not below the logarithm of a ratio of at least one."""
    if ratio == 1:
        return 0.0

    # The quotient is rounded up; the logarithm, to the nearest, is put right by the margin.
    numerator = Decimal(ratio.numerator)
    quotient = _CONTEXT.divide(numerator, Decimal(ratio.denominator))
    above = _CONTEXT.multiply(_CONTEXT.ln(quotient), _MARGIN)
    return float_above(Fraction(above))
