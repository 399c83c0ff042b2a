"""How many people have all of some attributes: conjunctions of binary attributes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.errors import TooLarge, require
from noisewright.workload.base import Workload, check_size
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import MOST_TABLES, Marginals
from noisewright.workload.linear.gram import Gram
from noisewright.workload.linear.linear_map import Shape, check_order
from noisewright.workload.linear.tensor import DENSE_LIMIT

_LISTED = 16  # attributes whose cells mechanisms list
_HAS = Explicit([[0.0, 1.0]], ("has",))


@dataclass(frozen=True)
class Conjunctions(Marginals):
    """For every set S of `ways` of the binary attributes, the people with x_i = 1 for all i in S.

    A family of tables, of each of which only the last cell is asked. Cells differ in how many
    queries hold them, so that no symmetry makes uniform weights optimal.
    """

    @classmethod
    def of(cls, attributes: int, ways: int) -> Conjunctions:
        """All sets of so many of the attributes, in lexicographic order."""
        require(
            1 <= ways <= check_size("attributes", attributes),
            "ways",
            ways,
            f"must lie between 1 and the {attributes} attributes",
            "lower it",
        )
        if comb(attributes, ways) > MOST_TABLES:
            raise TooLarge(
                f"{attributes} attributes have more than {MOST_TABLES} sets of {ways}; ask less"
            )

        tables = combinations(range(attributes), ways)
        return cls((_HAS,) * attributes, tuple(tables))

    @property
    def ways(self) -> int:
        """How many attributes each query is about."""
        return len(self.tables[0])

    @cached_property
    def _masks(self) -> Array:
        """The cell that has just the attributes of each query."""
        bits = len(self.bases)
        if self.size > DENSE_LIMIT:
            raise TooLarge(
                f"{self.text()} has 2^{bits} cells; they are listed up to {DENSE_LIMIT}; plan it"
            )

        alone = [1 << (bits - 1 - i) for i in range(bits)]
        return np.array([sum(alone[i] for i in table) for table in self.tables])

    def matvec(self, x: Array) -> Array:
        """Sums over all cells with the attributes of each set, one attribute at a time."""
        chosen = self._masks
        batch = x.shape[1:]
        tensor = x.reshape(*self.sizes, *batch).copy()

        for axis in range(len(self.sizes)):
            halves = np.moveaxis(tensor, axis, 0)
            halves[0] += halves[1]

        return tensor.reshape(x.shape)[chosen]

    def rmatvec(self, y: Array) -> Array:
        batch = y.shape[1:]
        sums = np.zeros((self.size, *batch), y.dtype)
        sums[self._masks] = y
        tensor = sums.reshape(*self.sizes, *y.shape[1:])

        for axis in range(len(self.sizes)):
            halves = np.moveaxis(tensor, axis, 0)
            halves[1] += halves[0]

        return sums

    def rows(self, start: int, stop: int) -> FloatArray:
        cells = np.arange(self.size)
        masks = self._masks[start:stop, None]

        return np.asarray((cells & masks) == masks, dtype=np.float64)

    def row_squares(self, x: FloatArray) -> FloatArray:
        return self.matvec(x)

    def gram(self) -> Gram:
        return ConjunctionGram(self)

    def column_norms(self, order: int = 2) -> FloatArray:
        ones = self.gram().diagonal()
        return np.asarray(ones ** (1 / check_order(order)))

    def _largest_norm(self, order: int) -> float:
        """A person with all attributes is in every query."""
        return float(self.queries ** (1 / check_order(order)))

    def _largest_distance(self, order: int) -> float:
        """One with all attributes and one with none differ in every query."""
        return self._largest_norm(order)

    def text(self) -> str:
        return f"conjunctions:{len(self.bases)}:{self.ways}"

    def label(self, row: int) -> str:
        return "all of " + ", ".join(map(str, self.tables[row]))


def pairs_of_many(workload: Workload) -> bool:
    """Whether all pairs of so many attributes are asked that their cells cannot be listed."""
    if not isinstance(workload, Conjunctions) or workload.ways != 2:
        return False

    return len(workload.bases) > _LISTED


@dataclass(frozen=True, eq=False)
class ConjunctionGram(Gram):
    """M[u, v] = C(|u ∧ v|, ways): the queries that hold both cells."""

    asked: Conjunctions

    @property
    def shape(self) -> Shape:
        return self.asked.size, self.asked.size

    @cached_property
    def _choices(self) -> FloatArray:
        """C(j, ways) for every number j of attributes."""
        ways = self.asked.ways
        counts = range(len(self.asked.bases) + 1)

        return np.array([float(comb(j, ways)) for j in counts])

    def matvec(self, x: Array) -> Array:
        return self.asked.rmatvec(self.asked.matvec(x))

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        if self.size**2 > limit:
            return super().dense(limit)

        cells = np.arange(self.size)
        shared = np.bitwise_count(cells[:, None] & cells)

        return np.asarray(self._choices[shared])

    def diagonal(self) -> FloatArray:
        _ = self.asked._masks  # refuses what is too large to list
        return self._choices[np.bitwise_count(np.arange(self.size))]

    def mean_square(self) -> float:
        return self.asked.queries / 2.0**self.asked.ways

    def largest_distance_squared(self) -> float:
        return float(self.asked.queries)
