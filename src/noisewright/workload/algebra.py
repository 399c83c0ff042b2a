"""Workloads from workloads: Kronecker products, stacks and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.workload.base import Array, FloatArray, Workload, check_order
from noisewright.workload.gram import Gram, KronGram, ScaledGram, SumGram
from noisewright.workload.tensor import apply_along_axes, column_kron


@dataclass(frozen=True)
class Kron(Workload):
    """The product of workloads on separate attributes: every combination of their queries."""

    factors: tuple[Workload, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and number of cells."""
        return prod(f.queries for f in self.factors), prod(f.size for f in self.factors)

    def matvec(self, x: Array) -> Array:
        """Answers on `x`, one attribute at a time."""
        return apply_along_axes([(*f.shape, f.matvec) for f in self.factors], x)

    def rmatvec(self, y: Array) -> Array:
        """Transpose on `y`, one attribute at a time."""
        return apply_along_axes([(f.size, f.queries, f.rmatvec) for f in self.factors], y)

    def gram(self) -> Gram:
        """Gram matrices multiply."""
        return KronGram(tuple(f.gram() for f in self.factors))

    def rows(self, start: int, stop: int) -> FloatArray:
        """Queries `start` to `stop` as a dense block."""
        numbers = np.arange(start, min(stop, self.queries))
        block = np.ones((len(numbers), 1))
        for factor, digit in zip(self.factors, self._digits(numbers), strict=True):
            part = factor.rows(0, factor.queries)[digit]
            block = (block[:, :, None] * part[:, None, :]).reshape(len(numbers), -1)
        return block

    def _digits(self, rows: Array) -> tuple[Array, ...]:
        return np.unravel_index(rows, [f.queries for f in self.factors])

    def column_norms(self, order: int = 2) -> FloatArray:
        """Norms multiply."""
        return column_kron([f.column_norms(order) for f in self.factors])

    def sensitivity(self, order: int = 2, neighbours: str = "add-remove") -> float:
        """Under add-remove the factors' sensitivities multiply."""
        if neighbours == "add-remove":
            return prod(f.sensitivity(check_order(order)) for f in self.factors)
        return super().sensitivity(order, neighbours)  # type: ignore[arg-type]

    def text(self) -> str:
        """Factors joined by `*`."""
        return "*".join(_grouped(f, (Kron, Stack)) for f in self.factors)

    def label(self, row: int) -> str:
        """Labels of the factors, side by side."""
        digits = self._digits(np.array([row]))
        pairs = zip(self.factors, digits, strict=True)
        return " × ".join(f.label(int(digit[0])) for f, digit in pairs)


@dataclass(frozen=True)
class Stack(Workload):
    """Several workloads over the same cells, one after the other."""

    parts: tuple[Workload, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and number of cells."""
        return sum(part.queries for part in self.parts), self.parts[0].size

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First row of each part, and the number of rows at the end."""
        starts = [0]
        for part in self.parts:
            starts.append(starts[-1] + part.queries)
        return tuple(starts)

    def matvec(self, x: Array) -> Array:
        """Answers on `x`."""
        return np.concatenate([part.matvec(x) for part in self.parts])

    def rmatvec(self, y: Array) -> Array:
        """Transpose on `y`."""
        pieces = np.split(y, self.starts[1:-1])
        products = [part.rmatvec(piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return np.asarray(sum(products[1:], start=products[0]))

    def gram(self) -> Gram:
        """Gram matrices add."""
        return SumGram(tuple(part.gram() for part in self.parts))

    def rows(self, start: int, stop: int) -> FloatArray:
        """Queries `start` to `stop` as a dense block."""
        blocks = [np.empty((0, self.size))]
        for part, first in zip(self.parts, self.starts, strict=False):
            a, b = max(start - first, 0), min(stop - first, part.queries)
            if a < b:
                blocks.append(part.rows(a, b))
        return np.concatenate(blocks)

    def column_norms(self, order: int = 2) -> FloatArray:
        """Powers of norms add."""
        powers = [part.column_norms(order) ** order for part in self.parts]
        return np.asarray(sum(powers[1:], start=powers[0]) ** (1 / check_order(order)))

    def text(self) -> str:
        """Parts joined by `+`."""
        return "+".join(_grouped(part, (Stack,)) for part in self.parts)

    def label(self, row: int) -> str:
        """Label of the part's own row."""
        index = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.parts[index].label(row - self.starts[index])


@dataclass(frozen=True)
class Weighted(Workload):
    """A workload whose answers matter `weight` times as much: its rows are multiplied by it."""

    weight: float
    inner: Workload

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise InvalidParameter(
                "weight", self.weight, "must be finite and > 0", "leave the queries out instead"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and number of cells."""
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        """Answers on `x`."""
        return np.asarray(self.weight * self.inner.matvec(x))

    def rmatvec(self, y: Array) -> Array:
        """Transpose on `y`."""
        return np.asarray(self.weight * self.inner.rmatvec(y))

    def gram(self) -> Gram:
        """The weight enters squared."""
        return ScaledGram(self.weight**2, self.inner.gram())

    def rows(self, start: int, stop: int) -> FloatArray:
        """Queries `start` to `stop` as a dense block."""
        return self.weight * self.inner.rows(start, stop)

    def column_norms(self, order: int = 2) -> FloatArray:
        """Norms scale."""
        return self.weight * self.inner.column_norms(order)

    def _replace_sensitivity(self, order: int) -> float:
        return self.weight * self.inner.sensitivity(order, "replace-one")

    def text(self) -> str:
        """The weight before `@`."""
        return f"{self.weight!r}@{_grouped(self.inner, (Kron, Stack))}"

    def label(self, row: int) -> str:
        """Label of the inner query, with its weight."""
        return f"{self.weight:g}·{self.inner.label(row)}"


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
        raise InvalidParameter(
            "workload",
            sorted(sizes),
            "must stack parts over the same number of cells",
            "make the sizes equal, or combine attributes with '*'",
        )
    return flat[0] if len(flat) == 1 else Stack(tuple(flat))
