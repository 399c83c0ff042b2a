"""What is asked: a workload is a linear operator from cell counts to answers.

Everything a planner needs of a workload (products, Gram matrix, norms, sensitivity, labels) has a
closed form or a fast transform in each subclass; the dense matrix is built only when asked by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, TooLarge

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.workload.gram import Gram
    from noisewright.workload.spec import Questions
    from noisewright.workload.structure import Structure

FloatArray = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
Neighbours = Literal["add-remove", "replace-one"]

DENSE_LIMIT = 2**26
"""Entries (half a gigabyte of doubles) above which `dense()` refuses."""

_PAIRS_BLOCK = 2**22


class Workload(ABC):
    """A set of linear queries over the cells of a domain.

    Cells are in C order: the last attribute runs fastest. Vectors may be `(size,)` or `(size, k)`;
    integer input stays integer wherever the workload's own entries are integers.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of queries and number of cells."""

    @property
    def queries(self) -> int:
        """Number of queries (rows)."""
        return self.shape[0]

    @property
    def size(self) -> int:
        """Number of cells (columns)."""
        return self.shape[1]

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """Answers to all queries on the histogram `x`."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """Transpose applied to `y`, one entry per query."""

    @abstractmethod
    def gram(self) -> Gram:
        """Gram matrix WᵀW as a structured operator."""

    @abstractmethod
    def text(self) -> str:
        """Short form that `workload()` parses back to an equal workload."""

    @abstractmethod
    def label(self, row: int) -> str:
        """Name of one query, for people."""

    def labels(self) -> list[str]:
        """Names of all queries; refuses for more than a million of them."""
        if self.queries > 1_000_000:
            raise TooLarge(f"{self.queries} labels are too many at once; use label(row)")
        return [self.label(row) for row in range(self.queries)]

    def rows(self, start: int, stop: int) -> FloatArray:
        """Queries `start` to `stop` as a dense block."""
        stop = min(stop, self.queries)
        selector = np.zeros((self.queries, max(stop - start, 0)))
        selector[np.arange(start, stop), np.arange(stop - start)] = 1.0
        return np.asarray(self.rmatvec(selector), dtype=np.float64).T

    def column_norms(self, order: int = 2) -> FloatArray:
        """The ℓ1 or ℓ2 norm of every column."""
        check_order(order)
        if order == 2:
            return np.sqrt(self.gram().diagonal())
        return np.asarray(np.abs(self.dense()).sum(axis=0), dtype=np.float64)

    def sensitivity(self, order: int = 2, neighbours: Neighbours = "add-remove") -> float:
        """Largest change of the answers, in ℓ1 or ℓ2, when one person is added or replaced."""
        check_order(order)
        if check_neighbours(neighbours) == "add-remove":
            return float(self.column_norms(order).max())
        return self._replace_sensitivity(order)

    def _replace_sensitivity(self, order: int) -> float:
        """Largest distance between two columns; subclasses with a closed form override this."""
        if order == 2:
            return float(np.sqrt(self.gram().largest_distance_squared()))
        columns = self.dense().T
        block = max(1, _PAIRS_BLOCK // max(1, columns.size))
        largest = 0.0
        for start in range(0, len(columns), block):
            part = columns[start : start + block]
            distances = np.abs(part[:, None, :] - columns[None, :, :]).sum(axis=2)
            largest = max(largest, float(distances.max()))
        return largest

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        """The matrix itself, for small workloads."""
        entries = self.queries * self.size
        if entries > limit:
            raise TooLarge(
                f"workload {self.brief()} has {self.queries} x {self.size} = {entries:.3g} "
                f"entries, more than the limit of {limit} for a dense matrix; use matvec, "
                f"rmatvec, gram or rows, or pass a larger limit"
            )
        return np.asarray(self.matvec(np.eye(self.size)), dtype=np.float64)

    @cached_property
    def structure(self) -> Structure:
        """What is asked, over the attributes that the workload's own form names."""
        from noisewright.workload.structure import Structure, named_sizes

        return Structure(self, named_sizes(self) or (self.size,))

    def brief(self) -> str:
        """The text form, shortened for messages."""
        text = self.text()
        return text if len(text) <= 60 else text[:57] + "..."

    @staticmethod
    def from_spec(source: Any, domain: Domain) -> Questions:
        """Questions about a table by attribute name, from YAML text, a path or plain values."""
        from noisewright.workload.spec import questions

        return questions(source, domain)

    def __add__(self, other: Workload) -> Workload:
        from noisewright.workload.algebra import stack

        return stack([self, other])

    def __mul__(self, other: Workload) -> Workload:
        from noisewright.workload.algebra import kron

        return kron([self, other])

    def __rmatmul__(self, weight: float) -> Workload:
        from noisewright.workload.algebra import Weighted

        return Weighted(float(weight), self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Workload {self.brief()}: {self.queries} queries over {self.size} cells>"


def check_order(order: int) -> int:
    """Refuse norms other than ℓ1 and ℓ2."""
    if order not in (1, 2):
        raise InvalidParameter("order", order, "must be 1 or 2", "choose the L1 or the L2 norm")
    return order


def check_neighbours(neighbours: str) -> str:
    """Refuse unknown neighbour relations."""
    if neighbours not in ("add-remove", "replace-one"):
        raise InvalidParameter(
            "neighbours", neighbours, "must be 'add-remove' or 'replace-one'", "choose one of them"
        )
    return neighbours


LARGEST_SIZE = 10**18
"""Values of one attribute: positions fit 64 bits."""

LARGEST_DOMAIN = 10**300
"""Cells or queries altogether: their number is still a float."""


def check_size(name: str, value: int) -> int:
    """Refuse sizes that are not whole numbers of at least one, or beyond counting."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise InvalidParameter(name, value, "must be a whole number >= 1", "give a positive size")
    if value > LARGEST_SIZE:
        raise TooLarge(f"{name} of 10^{len(str(value)) - 1} or more; at most 10^18 are counted")
    return int(value)


def check_domain(workload: Workload) -> Workload:
    """Refuse workloads whose cells or queries are too many for any number of them to be told."""
    if max(workload.shape) > LARGEST_DOMAIN:
        raise TooLarge(
            "the workload has more than 10^300 cells or queries; ask about fewer attributes"
        )
    return workload
