"""What is asked of the local model: queries less a constant each, and their Gram matrices.

The number of people is public in the local model, so adding a constant to a row of W changes
neither what people must report nor any error. Rows that share a large constant would lose the
digits of what they really ask in every product of W with itself. The constant is therefore taken
off the entries themselves, before any product: each entry less another entry of its row is exact,
or rounded once. Tables of counts then get their marginal form, and factors are brought out of
products, so that equal workloads have equal Gram matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2, prod
from operator import is_

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.errors import InvalidParameter
from noisewright.local.strategy import DENSE_SIZE, LARGEST_VECTOR
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted
from noisewright.workload.kinds.atoms import Total
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import AllMarginals, OnAttributes
from noisewright.workload.linear.gram import DenseGram, Gram, zero_gram
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.linear.marginal_gram import MarginalGram
from noisewright.workload.linear.tensor import DENSE_LIMIT, spread

_HIDDEN = 2.0**-8
"""Share of ‖W‖² off the constants below which the digits of what is asked are worth a matrix."""


@dataclass(frozen=True)
class Nothing(Workload):
    """The total less itself: one query of zeros."""

    cells: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and number of cells."""
        return 1, self.cells

    def matvec(self, x: Array) -> Array:
        """Zero."""
        return np.zeros((1, *x.shape[1:]))

    def rmatvec(self, y: Array) -> Array:
        """Zeros."""
        return np.zeros((self.cells, *y.shape[1:]))

    def gram(self) -> Gram:
        """Zeros."""
        return zero_gram(self.cells)

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        return np.zeros(1)

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.zeros(1)

    def text(self) -> str:
        """What it is made of; it does not parse."""
        return f"0@total:{self.cells}"

    def label(self, row: int) -> str:
        """What it is made of."""
        return "total"


@dataclass(frozen=True, eq=False)
class Differences(Explicit):
    """The rows of another workload less a constant each."""

    origin: Workload | None = None

    def text(self) -> str:
        """That of the workload it is made of."""
        if self.origin is None:
            return super().text()
        return self.origin.text()

    def label(self, row: int) -> str:
        """That of the workload it is made of."""
        if self.origin is None:
            return super().label(row)
        return self.origin.label(row)


@lru_cache(maxsize=4)  # every mechanism and every bound of a plan asks for the same
def without_offsets(workload: Workload) -> Workload:
    """The same queries up to a constant each, such that no digits drown in the constants.

    Structure is kept: a matrix is made only where constants outweigh all else by far.
    """
    return _without(workload)


def _without(workload: Workload) -> Workload:
    match workload:
        case Total():
            return Nothing(workload.size)
        case Weighted() | OnAttributes():
            inner = _without(workload.inner)
            same = inner is workload.inner
            return workload if same else replace(workload, inner=inner)
        case Stack():
            parts = tuple(map(_without, workload.parts))
            same = all(map(is_, parts, workload.parts))
            return workload if same else Stack(parts)
        case _ if _drowns(workload):
            return Differences(_differences(workload)[0], None, workload)
        case _:
            return workload


def _drowns(workload: Workload) -> bool:
    """Whether constants leave next to nothing of ‖W‖² to what is asked.

    Of any single row, where entries are given as numbers; of all together otherwise, for the atoms'
    own entries are zeros and ones, of which no digit can be lost.
    """
    queries, n = workload.shape
    given = _given(workload)
    if queries * n > DENSE_LIMIT or (n > DENSE_SIZE and not given):
        return False

    ones = np.ones(n)
    # too large: refused with its Gram matrix
    with np.errstate(over="ignore", invalid="ignore"):
        if given:
            squares = workload.row_squares(ones)
            constant = workload.matvec(ones) ** 2 / n
        else:
            gram = workload.gram()
            squares = np.array([gram.trace()])
            constant = np.array([ones @ gram.matvec(ones) / n])
        hidden = squares - constant < _HIDDEN * squares
        low = hidden & (squares > 0) & np.isfinite(squares)

    return bool(low.any())


def _given(workload: Workload) -> bool:
    """Whether entries are given as numbers."""
    match workload:
        case Kron():
            return any(map(_given, workload.factors))
        case _:
            return isinstance(workload, Explicit)


def _differences(workload: Workload) -> tuple[FloatArray, FloatArray]:
    """All rows less a constant each, and the constants."""
    match workload:
        case Weighted():
            rows, constants = _differences(workload.inner)
            return workload.weight * rows, workload.weight * constants
        case Stack():
            pieces = zip(*map(_differences, workload.parts), strict=True)
            rows, constants = map(np.concatenate, pieces)
            return rows, constants
        case OnAttributes():
            rows, constants = _differences(workload.inner)
            return spread(rows.T, workload.sizes, workload.attributes).T, constants
        case Kron():
            return _product_differences(workload)
        case _:
            return _entry_differences(workload.rows(0, workload.queries))


def _entry_differences(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows less the entry nearest their mean: at most twice what is asked is left."""
    away = np.abs(rows - rows.mean(axis=1, keepdims=True))
    nearest = away.argmin(axis=1)
    constants = rows[np.arange(len(rows)), nearest]
    return rows - constants[:, None], constants


def _product_differences(workload: Kron) -> tuple[FloatArray, FloatArray]:
    """(d + c1) ⊗ (e + f1) = cf·1 + [d ⊗ (e + f1) + c·1 ⊗ e], one factor after the other."""
    d: FloatArray = np.zeros((1, 1))
    c: FloatArray = np.ones(1)

    for factor in workload.factors:
        e, f = _differences(factor)
        constant = np.kron(c[:, None], np.ones((1, d.shape[1])))
        product = np.kron(d, e + f[:, None]) + np.kron(constant, e)
        d = np.asarray(product, dtype=np.float64)
        c = np.outer(c, f).ravel()

    return d, c


def squared_norm(workload: Workload) -> float:
    """‖W‖_F² of the queries as they are asked."""
    if isinstance(workload, Explicit):
        return float((workload.matrix**2).sum())
    return workload.gram().trace()


_MOST_TABLES = 2**12
"""Tables that are listed one by one: those of twelve attributes."""

_LARGEST = 1e150  # products of two Gram matrices must neither overflow nor vanish


def table_gram(workload: Workload) -> Gram:
    """The Gram matrix of the queries up to a constant each, tables of counts in marginal form."""
    try:
        gram = _gram(without_offsets(workload)).normal_form()
        scale = gram.mean_square()
    except OverflowError:
        scale = float("inf")

    vanished = scale == 0 and not _known(without_offsets(workload))
    within = scale == 0 or 1 / _LARGEST <= scale <= _LARGEST
    if vanished or not within:
        rule = "has entries whose squares leave the range of double precision"
        remedy = "multiply all queries by a constant that brings them near one"
        raise InvalidParameter("workload", workload.brief(), rule, remedy)

    return gram


def _known(asked: Workload) -> bool:
    """Whether all answers follow from the number of people: tried on people who sum to nobody."""
    if asked.size > LARGEST_VECTOR:
        return True

    people = np.random.default_rng(0).integers(-9, 10, asked.size)
    people[0] -= people.sum()
    return not np.any(asked.matvec(people.astype(np.float64)))


def factor_and_normalised(gram: Gram) -> tuple[float, Gram]:
    """A factor and a matrix of the same product, which no factor of the queries changes."""
    scale, inner = gram.normal_form().split()
    match inner:
        case _ if scale == 0.0:
            return 1.0, gram
        case DenseGram():
            # A power of two divides without rounding.
            unit = 2.0 ** round(log2(inner.mean_square() or 1.0))
            return scale * unit, DenseGram(inner.matrix / unit)
        case _:
            return scale, inner


def _gram(workload: Workload) -> Gram:
    sizes = workload.named_sizes
    if sizes is None:
        return workload.gram()

    if isinstance(workload, AllMarginals):
        if 2 ** len(sizes) > _MOST_TABLES:
            return workload.gram()
        every = subsets(tuple(range(len(sizes))))
        return _marginal(sizes, dict.fromkeys(every, 1.0))

    tables = workload.structure.tables
    if tables is None:
        return workload.gram()

    weights: dict[tuple[int, ...], float] = {}
    for term in tables:
        table = term.attributes
        weights[table] = weights.get(table, 0.0) + term.weight**2

    return _marginal(sizes, weights)


def _marginal(sizes: tuple[int, ...], weights: dict[tuple[int, ...], float]) -> Gram:
    """Tables that hold a single cell are totals, which are known."""
    told = {
        table: weight
        for table, weight in weights.items()
        if any(sizes[axis] > 1 for axis in table)
    }
    return MarginalGram(sizes, told) if told else zero_gram(prod(sizes))
