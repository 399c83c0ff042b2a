"""Workloads from workloads: Kronecker products, stacks and weights."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import log10

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.errors import InvalidParameter
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram, KronGram, ScaledGram, SumGram
from noisewright.workload.linear.maps import Kronecker, Scaled, Stacked
from noisewright.workload.linear.tensor import Sizes, apply_along_axes

_SMALL_PRODUCT = 64  # cells up to which rows are quicker than recursion


@dataclass(frozen=True)
class Kron(Kronecker, Workload):
    """The product of workloads on separate attributes: every combination of their queries."""

    factors: tuple[Workload, ...]

    def gram(self) -> Gram:
        return KronGram(tuple(f.gram() for f in self.factors))

    @property
    def named_sizes(self) -> Sizes:
        return tuple(factor.size for factor in self.factors)

    @property
    def invariant_axes(self) -> Sizes | None:
        axes: Sizes = ()
        for factor in self.factors:
            if factor.invariant_axes is None:
                return None
            axes += factor.invariant_axes

        return axes

    def magnitudes(self) -> tuple[float, float]:
        least, most = zip(
            *(factor.magnitudes() for factor in self.factors), strict=True
        )
        return sum(least), sum(most)

    def rows(self, start: int, stop: int) -> FloatArray:
        numbers = np.arange(start, min(stop, self.queries))
        block = np.ones((len(numbers), 1))
        pairs = zip(self.factors, self._digits(numbers), strict=True)

        for factor, digit in pairs:
            part = factor.rows(0, factor.queries)[digit]
            products = block[:, :, None] * part[:, None, :]
            block = products.reshape(len(numbers), -1)

        return block

    def _digits(self, rows: Array) -> tuple[Array, ...]:
        return np.unravel_index(rows, [f.queries for f in self.factors])

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        """In halves: the form of w₁ ⊗ w₂ is that of w₁ on what the form of w₂ leaves."""
        factors = self.factors
        if len(factors) == 1:
            return factors[0].row_quadratics(matrix)
        if self.size <= _SMALL_PRODUCT:
            return super().row_quadratics(matrix)

        # Split where both halves have about as many cells.
        sizes = [float(factor.size) for factor in factors[:-1]]
        logs = np.log(np.cumprod(sizes))
        uneven = np.abs(logs - np.log(self.size) / 2)
        split = 1 + int(np.argmin(uneven))
        first = kron(factors[:split])
        rest = kron(factors[split:])

        blocks = matrix.reshape(first.size, rest.size, first.size, rest.size)
        left = np.empty((rest.queries, first.size, first.size))
        pairs = zip(*np.triu_indices(first.size), strict=True)

        for u, v in pairs:
            block = blocks[u, :, v]
            quadratics = rest.row_quadratics((block + block.T) / 2)
            left[:, u, v] = left[:, v, u] = quadratics

        columns = [first.row_quadratics(part) for part in left]
        return np.stack(columns, axis=1).ravel()

    def row_squares(self, x: FloatArray) -> FloatArray:
        def squares(factor: Workload, block: FloatArray) -> FloatArray:
            columns = [factor.row_squares(column) for column in block.T]
            return np.stack(columns, axis=1)

        maps = [(*f.shape, partial(squares, f)) for f in self.factors]
        return apply_along_axes(maps, x)

    def text(self) -> str:
        texts = [_grouped(factor, (Kron, Stack)) for factor in self.factors]
        return "*".join(texts)

    def label(self, row: int) -> str:
        digits = self._digits(np.array([row]))
        pairs = zip(self.factors, digits, strict=True)

        return " × ".join(factor.label(int(digit[0])) for factor, digit in pairs)


@dataclass(frozen=True)
class Stack(Stacked, Workload):
    """Several workloads over the same cells, one after the other."""

    parts: tuple[Workload, ...]

    def gram(self) -> Gram:
        return SumGram(tuple(part.gram() for part in self.parts))

    @property
    def _ordered(self) -> list[Workload]:
        """The parts but histograms and totals, which are the same over any attributes."""
        return [part for part in self.parts if not part.ignores_order]

    @property
    def named_sizes(self) -> Sizes | None:
        named = {part.named_sizes for part in self._ordered}
        return named.pop() if len(named) == 1 else None

    @property
    def invariant_axes(self) -> Sizes | None:
        parts = [part.invariant_axes for part in self._ordered]
        known = [axes or () for axes in parts]
        finest = max(known, key=len, default=(self.size,))

        return finest if all(axes == finest for axes in parts) else None

    def magnitudes(self) -> tuple[float, float]:
        ends = [part.magnitudes() for part in self.parts]
        least, most = zip(*ends, strict=True)

        return min(least), max(most)

    def rows(self, start: int, stop: int) -> FloatArray:
        blocks = [np.empty((0, self.size))]
        for part, first in zip(self.parts, self.starts, strict=False):
            begin = max(start - first, 0)
            end = min(stop - first, part.queries)
            if begin < end:
                blocks.append(part.rows(begin, end))

        return np.concatenate(blocks)

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        return np.concatenate([part.row_quadratics(matrix) for part in self.parts])

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.concatenate([part.row_squares(x) for part in self.parts])

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        pieces = np.split(weights, self.starts[1:-1])
        pairs = zip(self.parts, pieces, strict=True)

        return np.asarray(sum(part.weighted_gram(piece) for part, piece in pairs))

    def text(self) -> str:
        texts = [_grouped(part, (Stack,)) for part in self.parts]
        return "+".join(texts)

    def label(self, row: int) -> str:
        index = bisect_right(self.starts, row) - 1
        return self.parts[index].label(row - self.starts[index])

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        return [label for part in self.parts for label in part.labels_of(name, values)]


@dataclass(frozen=True)
class Weighted(Scaled, Workload):
    """A workload whose answers matter `weight` times as much: its rows are multiplied by it."""

    weight: float
    inner: Workload

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight > 0):
            remedy = "leave the queries out instead"
            raise InvalidParameter(
                "weight", self.weight, "must be finite and > 0", remedy
            )

    def gram(self) -> Gram:
        return ScaledGram(self.weight**2, self.inner.gram())

    @property
    def named_sizes(self) -> Sizes | None:
        return self.inner.named_sizes

    @property
    def invariant_axes(self) -> Sizes | None:
        return self.inner.invariant_axes

    @property
    def ignores_order(self) -> bool:
        return self.inner.ignores_order

    def magnitudes(self) -> tuple[float, float]:
        least, most = self.inner.magnitudes()
        weight = log10(self.weight)

        return least + weight, most + weight

    def rows(self, start: int, stop: int) -> FloatArray:
        return self.weight * self.inner.rows(start, stop)

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        return self.weight**2 * self.inner.row_quadratics(matrix)

    def row_squares(self, x: FloatArray) -> FloatArray:
        return self.weight**2 * self.inner.row_squares(x)

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        return self.weight**2 * self.inner.weighted_gram(weights)

    def text(self) -> str:
        return f"{self.weight!r}@{_grouped(self.inner, (Kron, Stack))}"

    def label(self, row: int) -> str:
        return f"{self.weight:g}·{self.inner.label(row)}"

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        return self.inner.labels_of(name, values)


def _grouped(workload: Workload, needs_brackets: tuple[type[Workload], ...]) -> str:
    text = workload.text()
    plain = {"allmarginals"}  # a Kronecker product with a name of its own
    if isinstance(workload, needs_brackets) and text.split(":")[0] not in plain:
        return f"({text})"

    return text


def kron(factors: Sequence[Workload]) -> Workload:
    """Kronecker product, with nested products flattened."""
    flat: list[Workload] = []
    for factor in factors:
        flat.extend(factor.factors if type(factor) is Kron else [factor])

    return flat[0] if len(flat) == 1 else Kron(tuple(flat))


def stack(parts: Sequence[Workload]) -> Workload:
    """Stack over the same cells, with nested stacks flattened."""
    flat: list[Workload] = []
    for part in parts:
        flat.extend(part.parts if type(part) is Stack else [part])

    sizes = {part.size for part in flat}
    if len(sizes) != 1:
        rule = "must stack parts over the same number of cells"
        remedy = "make the sizes equal, or combine attributes with '*'"
        raise InvalidParameter("workload", sorted(sizes), rule, remedy)

    return flat[0] if len(flat) == 1 else Stack(tuple(flat))
