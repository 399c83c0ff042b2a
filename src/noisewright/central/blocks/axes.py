"""One attribute split in two: its total, and integer contrasts that vanish on a reference.

Let b be any vector of sum one and C integer rows of rank n − 1 with C b = 0. A query w on the
attribute is then (w·b)·1ᵀ + (wE)·C with one fixed E, so products of totals and contrasts over many
attributes split every query without overlap, and the variances of the parts add. With b uniform
these are the classical interactions. Other references matter for cumulative queries: X = AᵀA of
*any* full-rank strategy is α·11ᵀ + CᵀC for b = X⁻¹1/(1ᵀX⁻¹1) and α = 1/(1ᵀX⁻¹1), so nothing is
lost on one attribute, and nothing on Kronecker products.

Whole tables measured side by side: overlapping counts combined without the domain.

Independent noise of equal variance on every cell of a table gives uncorrelated errors to its
interactions. So the best linear estimate from many tables takes every interaction T by itself: each
table S ⊇ T says it with variance ν_S²·Π_{i∈S∖T} n_i, and the estimates are weighted by precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import require
from noisewright.workload.linear.interactions import (
    each_centred,
    subsets,
    tables_of,
)


@dataclass(frozen=True, eq=False)
class Axis:
    """Integer contrasts of one attribute and the reference vector on which they vanish."""

    contrasts: IntArray

    @property
    def size(self) -> int:
        """Number of values of the attribute."""
        return int(self.contrasts.shape[1])

    @property
    def splits(self) -> bool:
        """Whether the rows leave exactly the total unseen: n − 1 of them, or of sum zero."""
        return (
            len(self.contrasts) == self.size - 1 or not self.contrasts.sum(axis=1).any()
        )

    @cached_property
    def reference(self) -> FloatArray:
        """b: the vector of sum one on which every contrast is zero."""
        return _reference_of(self.contrasts)

    @cached_property
    def inverse(self) -> FloatArray:
        """E = (I − b1ᵀ)C⁺: the least-squares way back from contrasts to cells of total zero."""
        return _inverse_of(self.contrasts)

    @cached_property
    def complete(self) -> bool:
        """Whether the total and the contrasts together determine every cell."""
        rebuilt = self.inverse @ self.contrasts + self.reference[:, None]
        return bool(np.abs(rebuilt - np.eye(self.size)).max(initial=0.0) < 1e-7)

    @cached_property
    def length(self) -> int:
        """Largest squared Euclidean length of a column."""
        return (
            int((self.contrasts.astype(object) ** 2).sum(axis=0).max())
            if self.size > 1
            else 0
        )

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the cells per unit variance of every contrast, totals aside."""
        return self.inverse @ self.inverse.T

    def total_variance(self, gram: FloatArray) -> float:
        """g = bᵀGb: what unit variance of the total adds to the queries with Gram matrix G."""
        return max(
            float(self.reference @ gram @ self.reference),
            _least(gram),
        )

    def contrast_variance(self, gram: FloatArray) -> float:
        """t = ‖C‖²·tr(G E Eᵀ): what contrasts add when their sensitivity is scaled to one."""
        variance = float(self.length) * float(
            np.einsum("ij,ij->", gram, self.covariance)
        )
        return max(variance, _least(gram)) if self.size > 1 else variance


def _least(gram: FloatArray) -> float:
    """Below all rounding: what queries do not see comes out as zero or just below."""
    return 1e-20 * float(np.trace(gram)) / len(gram)


def _reference_of(contrasts: IntArray) -> FloatArray:
    """The vector of sum one on which the rows vanish; uniform, exactly, for zero-sum rows."""
    rows, size = contrasts.shape
    if not contrasts.sum(axis=1).any():
        return np.full(size, 1.0 / size)

    require(
        rows == size - 1,
        "contrasts",
        contrasts.shape,
        "must be n − 1 rows, or sum to zero",
    )
    return _square_inverse(contrasts)[0]


def _inverse_of(contrasts: IntArray) -> FloatArray:
    """E with E·C = I − b1ᵀ and of least length."""
    if contrasts.sum(axis=1).any():
        return _square_inverse(contrasts)[1]
    rows, size = contrasts.shape
    if rows == size and (contrasts == size * np.eye(size, dtype=np.int64) - 1).all():
        return contrasts / float(size) ** 2  # n times a projection
    return np.linalg.pinv(contrasts.astype(np.float64))


def _square_inverse(
    contrasts: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """b and E: the inverse of the total and n − 1 contrasts on top of each other."""
    scale = float(np.abs(contrasts).max())
    matrix = np.concatenate([np.full((1, contrasts.shape[1]), scale), contrasts])
    inverse = np.linalg.inv(matrix)
    return inverse[:, 0] * scale, inverse[:, 1:]


def centred_axis(size: int) -> Axis:
    """Every cell against the mean of all, times n: a tight frame, so no rounding is needed.

    CᵀC is exactly n²(I − 11ᵀ/n): the same information as orthonormal contrasts under equal noise,
    with entries no larger than n.
    """
    if size == 1:
        return Axis(np.zeros((0, 1), dtype=np.int64))
    if size == 2:
        return Axis(np.array([[1, -1]], dtype=np.int64))
    return Axis(size * np.eye(size, dtype=np.int64) - 1)


def from_strategy(
    strategy: FloatArray,
    bits: int,
) -> Axis:
    """The contrasts of a full-rank real strategy, rounded; the reference follows the rounding."""
    x = strategy.T @ strategy
    ones = np.ones(len(x))
    try:
        solved = np.linalg.solve(x, ones)
    except np.linalg.LinAlgError:  # cells that no query sees are measured a little
        x = x + 1e-9 * np.trace(x) / len(x) * np.eye(len(x))
        solved = np.linalg.solve(x, ones)

    # The least eigenvalue is the constant's: contrasts have all others.
    values, vectors = np.linalg.eigh(x - 1.0 / solved.sum())
    lengths = np.sqrt(np.maximum(values[1:], 0.0))
    rows = lengths[:, None] * vectors[:, 1:].T
    scale = 2.0**bits / np.abs(rows).max()
    return Axis(np.rint(rows * scale).astype(np.int64))


Table = tuple[int, ...]
Components = dict[Table, FloatArray]


class Overlap:
    """How tables with given noise are combined, interaction by interaction."""

    def __init__(
        self,
        sizes: Sequence[int],
        tables: Sequence[Table],
        deviations: Sequence[float],
    ) -> None:
        self.sizes = tuple(sizes)
        self.tables = tuple(tables)
        precisions: dict[Table, list[tuple[int, float]]] = {}

        for number, (table, deviation) in enumerate(
            zip(tables, deviations, strict=True)
        ):
            for part in subsets(table):
                precision = 1.0 / (deviation**2 * self._cells(table, part))
                precisions.setdefault(part, []).append((number, precision))

        self.weights: dict[Table, list[tuple[int, float]]] = {}
        for part, pairs in precisions.items():
            total = sum(precision for _, precision in pairs)
            self.weights[part] = [
                (number, precision / total) for number, precision in pairs
            ]

    def _cells(
        self,
        table: Table,
        part: Table,
    ) -> int:
        return prod(self.sizes[i] for i in table if i not in part)

    def component_variances(self, units: Sequence[float]) -> dict[Table, float]:
        """Variance scale of every interaction when a cell of table k has variance `units[k]`."""
        return {
            part: sum(
                w**2 * units[k] * self._cells(self.tables[k], part) for k, w in pairs
            )
            for part, pairs in self.weights.items()
        }

    def components(self, measured: Sequence[Array]) -> Components:
        """The estimate of every interaction, as a table over its attributes (and a batch)."""
        result: Components = {}
        for part, pairs in self.weights.items():
            total: FloatArray = np.zeros(())
            for number, weight in pairs:
                table = self.tables[number]
                values = measured[number]
                shaped = values.reshape(
                    [self.sizes[i] for i in table] + list(values.shape[1:])
                )
                others = tuple(k for k, i in enumerate(table) if i not in part)
                total = total + weight * shaped.sum(axis=others)
            result[part] = total

        return each_centred(result)

    def tables_of(
        self,
        wanted: Sequence[Table],
        components: Mapping[Table, FloatArray],
    ) -> list[FloatArray]:
        """Marginal tables from interactions; what no table measures counts as zero."""
        return tables_of(self.sizes, wanted, components)
