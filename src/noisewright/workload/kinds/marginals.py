"""Tables over subsets of attributes, for domains of any number of attributes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import comb, prod

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.workload.base import Workload, check_size
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted
from noisewright.workload.kinds.atoms import Identity, Total
from noisewright.workload.linear.gram import Gram, KronGram, OnesGram
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.linear_map import Shape
from noisewright.workload.linear.maps import OnTable
from noisewright.workload.linear.marginal_gram import MarginalGram
from noisewright.workload.linear.tensor import Sizes, onto_table, spread

MOST_TABLES = 2**20
"""Tables of a family that are listed one by one."""


@dataclass(frozen=True)
class OnAttributes(OnTable, Workload):
    """A workload on the marginal table of some attributes; the others are summed out."""

    sizes: Sizes
    attributes: Table
    inner: Workload

    def __post_init__(self) -> None:
        for size in self.sizes:
            check_size("size", size)

        _check_table(self.attributes, len(self.sizes))
        expected = prod(self.sizes[i] for i in self.attributes)
        if self.inner.size != expected:
            raise InvalidParameter(
                "workload",
                self.inner.brief(),
                f"has {self.inner.size} cells where its attributes have {expected}",
                "match the workload's size to the attributes it is asked of",
            )

    def gram(self) -> Gram:
        """Kronecker of the inner Gram matrix and all-ones blocks where the order of axes allows."""
        factors: tuple[Workload, ...] = (self.inner,)
        if isinstance(self.inner, Kron) and len(self.attributes) > 1:
            factors = self.inner.factors

        if len(factors) != len(self.attributes):
            return _SpreadGram(self.sizes, self.attributes, self.inner.gram())

        grams = [factor.gram() for factor in factors]
        by_axis = dict(zip(self.attributes, grams, strict=True))
        every = (by_axis.get(i) or OnesGram(n) for i, n in enumerate(self.sizes))

        return KronGram(tuple(every))

    @property
    def named_sizes(self) -> Sizes:
        return self.sizes

    @property
    def invariant_axes(self) -> Sizes | None:
        table = tuple(self.sizes[i] for i in self.attributes)
        whole = self.inner.invariant_axes in (table, (prod(table),))

        return self.sizes if whole else None

    def magnitudes(self) -> tuple[float, float]:
        return self.inner.magnitudes()

    def row_squares(self, x: FloatArray) -> FloatArray:
        table = onto_table(x, self.sizes, self.attributes)
        return self.inner.row_squares(table)

    def text(self) -> str:
        """The equal Kronecker product with totals, where there is one."""
        factors = self.inner.factors if type(self.inner) is Kron else (self.inner,)
        if len(factors) == len(self.attributes):
            by_axis = dict(zip(self.attributes, factors, strict=True))
            every = (by_axis.get(i) or Total(n) for i, n in enumerate(self.sizes))
            return Kron(tuple(every)).text()

        shape = "x".join(map(str, self.sizes))
        chosen = ",".join(map(str, self.attributes))

        return f"on:{shape}:{chosen}:({self.inner.text()})"

    def label(self, row: int) -> str:
        return self.inner.label(row)


@dataclass(frozen=True, eq=False)
class _SpreadGram(Gram):
    """Gram matrix of a workload on a marginal: the inner one, with the other axes all ones."""

    sizes: Sizes
    attributes: Table
    inner: Gram

    @property
    def shape(self) -> Shape:
        return prod(self.sizes), prod(self.sizes)

    def matvec(self, x: Array) -> Array:
        table = onto_table(x, self.sizes, self.attributes)
        product = self.inner.matvec(table)

        return spread(product, self.sizes, self.attributes)

    def diagonal(self) -> FloatArray:
        return spread(self.inner.diagonal(), self.sizes, self.attributes)

    def largest_distance_squared(self) -> float:
        return self.inner.largest_distance_squared()


@dataclass(frozen=True)
class Marginals(Workload):
    """A family of tables: for each set S of attributes, ⊗_{i∈S} B_i with the others summed out.

    The base B_i of attribute i is `Identity` for counts by value, `Prefix` for a CDF, and so on.
    """

    bases: tuple[Workload, ...]
    tables: tuple[Table, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for table in self.tables:
            _check_table(table, len(self.bases))

        if not self.tables:
            raise InvalidParameter(
                "tables", (), "must name at least one table", "add a table"
            )

        weights = self.weights or (1.0,) * len(self.tables)
        require(
            len(weights) == len(self.tables),
            "weights",
            len(weights),
            f"must be one per table ({len(self.tables)})",
            "add weights",
        )

        for weight in weights:
            require(
                np.isfinite(weight) and weight > 0,
                "weights",
                weight,
                "must be finite and > 0",
                "drop the table",
            )

        object.__setattr__(self, "weights", tuple(float(w) for w in weights))

    @classmethod
    def of_order(cls, sizes: Sizes, ways: int, at_most: bool = False) -> Marginals:
        """All tables of exactly, or at most, `ways` attributes."""
        require(
            0 <= ways <= len(sizes),
            "ways",
            ways,
            f"must lie between 0 and the {len(sizes)} attributes",
            "lower it",
        )

        orders = _orders(ways, at_most)
        count = sum(comb(len(sizes), order) for order in orders)
        if count > MOST_TABLES:
            raise TooLarge(
                f"{len(sizes)} attributes have more than {MOST_TABLES} tables of {ways}; ask for "
                f"fewer ways, or name the tables"
            )

        axes = range(len(sizes))
        tables = chain.from_iterable(combinations(axes, order) for order in orders)
        bases = tuple(Identity(check_size("size", n)) for n in sizes)

        return cls(bases, tuple(tables))

    @property
    def sizes(self) -> Sizes:
        """Number of values of each attribute."""
        return tuple(base.size for base in self.bases)

    @property
    def named_sizes(self) -> Sizes:
        return self.sizes

    @property
    def invariant_axes(self) -> Sizes | None:
        return self.sizes if self.is_identity else None

    def magnitudes(self) -> tuple[float, float]:
        ends = [base.magnitudes() for base in self.bases]
        low = sum(min(0.0, least) for least, _ in ends)
        high = sum(max(0.0, most) for _, most in ends)
        logs = np.log10(self.weights)

        return float(logs.min()) + low, float(logs.max()) + high

    @cached_property
    def shape(self) -> Shape:
        asked = [base.queries for base in self.bases]
        queries = sum(prod(asked[i] for i in table) for table in self.tables)

        return queries, prod(self.sizes)

    @property
    def is_identity(self) -> bool:
        """Whether every table asked is of plain counts."""
        used = {i for table in self.tables for i in table}
        return all(isinstance(self.bases[i], Identity) for i in used)

    def part(self, index: int) -> OnAttributes:
        """One table as a workload of its own, without its weight."""
        table = self.tables[index]
        bases = tuple(self.bases[i] for i in table)
        inner = Kron(bases) if table else Total(1)

        return OnAttributes(self.sizes, table, inner)

    @cached_property
    def stack(self) -> Stack:
        """The tables one after the other, each a workload of its own."""
        numbers = range(len(self.tables))
        parts = [self.part(number) for number in numbers]
        pairs = zip(self.weights, parts, strict=True)

        return Stack(
            tuple(part if w == 1.0 else Weighted(w, part) for w, part in pairs)
        )

    def matvec(self, x: Array) -> Array:
        return self.stack.matvec(x)

    def rmatvec(self, y: Array) -> Array:
        return self.stack.rmatvec(y)

    def rows(self, start: int, stop: int) -> FloatArray:
        return self.stack.rows(start, stop)

    def row_squares(self, x: FloatArray) -> FloatArray:
        return self.stack.row_squares(x)

    def column_norms(self, order: int = 2) -> FloatArray:
        return self.stack.column_norms(order)

    def gram(self) -> Gram:
        """Diagonal in the residual basis for plain counts; a sum of products otherwise."""
        if not self.is_identity:
            return self.stack.gram()

        totals: dict[Table, float] = {}
        for table, weight in zip(self.tables, self.weights, strict=True):
            totals[table] = totals.get(table, 0.0) + weight**2

        return MarginalGram(self.sizes, totals)

    def _largest_norm(self, order: int) -> float:
        if not self.is_identity:
            return super()._largest_norm(order)

        return self._counted(order, 1)

    def _largest_distance(self, order: int) -> float:
        if not self.is_identity:
            return super()._largest_distance(order)

        return self._counted(order, 2)

    def _counted(self, order: int, changes: int) -> float:
        """For plain counts, from the number of tables alone: no cell of the domain is visited."""
        total = sum(
            weight**order
            for table, weight in zip(self.tables, self.weights, strict=True)
            if changes == 1 or any(self.sizes[i] > 1 for i in table)
        )
        return float((changes * total) ** (1 / order))

    def text(self) -> str:
        """The named family where it is one; the sum of its tables otherwise."""
        family = self._family()
        if family is not None:
            return family

        texts = []
        for i, weight in enumerate(self.weights):
            text = self.part(i).text()
            texts.append(text if weight == 1 else f"{weight!r}@({text})")

        return "+".join(texts)

    def _family(self) -> str | None:
        if not self.is_identity or set(self.weights) != {1.0}:
            return None

        count = len(self.bases)
        longest = max(map(len, self.tables))
        for at_most in (False, True):
            orders = _orders(longest, at_most)
            tables = sum(comb(count, order) for order in orders)
            if len(self.tables) != tables:
                continue
            if self.tables == Marginals.of_order(self.sizes, longest, at_most).tables:
                ways = f"<={longest}" if at_most else str(longest)
                return f"marginals:{_sizes_text(self.sizes)}:{ways}"

        return None

    def label(self, row: int) -> str:
        starts = self.stack.starts
        index = bisect_right(starts, row) - 1
        table = self.tables[index]
        if not table:
            return "total"

        shape = [self.bases[i].queries for i in table]
        digits = np.unravel_index(row - starts[index], shape)
        pairs = zip(table, digits, strict=True)

        return " × ".join(f"{i}{self.bases[i].label(int(digit))}" for i, digit in pairs)


@dataclass(frozen=True)
class AllMarginals(Kron):
    """Every table of every subset of attributes: a product of (total, values) per attribute."""

    @classmethod
    def of_sizes(cls, sizes: Sizes) -> AllMarginals:
        """One factor per attribute: its total, then its values."""
        pairs = [(Total(n), Identity(check_size("size", n))) for n in sizes]
        return cls(tuple(map(Stack, pairs)))

    @property
    def sizes(self) -> Sizes:
        """Number of values of each attribute."""
        return tuple(factor.size for factor in self.factors)

    def text(self) -> str:
        return f"allmarginals:{_sizes_text(self.sizes)}"

    def label(self, row: int) -> str:
        digits = np.unravel_index(row, [n + 1 for n in self.sizes])
        values = [str(int(digit) - 1) if digit else "*" for digit in digits]

        return f"({','.join(values)})"


def _orders(ways: int, at_most: bool) -> range:
    """The numbers of attributes of tables of exactly, or at most, so many."""
    return range(0 if at_most else ways, ways + 1)


def _sizes_text(sizes: Sizes) -> str:
    """`2^8` for equal sizes, `5x7x2` otherwise."""
    if len(set(sizes)) == 1:
        return f"{sizes[0]}^{len(sizes)}"

    return "x".join(map(str, sizes))


def _check_table(table: Table, attributes: int) -> None:
    ordered = list(table) == sorted(set(table))
    if not ordered or any(not 0 <= i < attributes for i in table):
        known = f"attributes between 0 and {attributes - 1}"
        rule = f"must list {known}, in order, each once"
        raise InvalidParameter("table", table, rule, "sort them and drop repetitions")
