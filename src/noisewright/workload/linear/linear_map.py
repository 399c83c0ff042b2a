"""What a linear map is: its two products, its norms, and how it stands in for an array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.workload.linear.tensor import DENSE_LIMIT

if TYPE_CHECKING:
    from scipy.sparse import sparray

Neighbours = Literal["add-remove", "replace-one"]

Shape = tuple[int, int]
"""Rows and columns (Python integers: products can exceed 64 bits)."""

_MOST_DIFFERENCES = 2**22
"""Entries of column differences held at once: it only bounds memory, 32 MiB of doubles."""


class LinearMap(ABC):
    """A linear map with its adjoint; `x` may be a vector or a matrix of columns.

    `np.asarray(A)` writes the matrix out where it is small; `A @ x` never does.
    """

    __array_ufunc__ = None  # so that `x @ A` asks the map, not NumPy

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Rows and columns."""

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.shape[1]

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """The map applied to a vector or to each column."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """The adjoint applied to a vector or to each column."""

    def column_norms(self, order: int = 2) -> FloatArray:
        """The ℓ1 or ℓ2 norm of every column."""
        check_order(order)
        norms = np.linalg.norm(self.dense(), order, axis=0)

        return np.asarray(norms)

    def sensitivity(self, order: int = 2, neighbours: str = "add-remove") -> float:
        """Largest change of the image, in ℓ1 or ℓ2, when one person is added or replaced."""
        check_order(order)
        if check_neighbours(neighbours) == "add-remove":
            return self._largest_norm(order)

        return self._largest_distance(order)

    def _largest_norm(self, order: int) -> float:
        return float(self.column_norms(order).max(initial=0.0))

    def _largest_distance(self, order: int) -> float:
        """Largest distance between two columns; subclasses with a closed form override this."""
        columns = self.dense().T
        block = max(1, _MOST_DIFFERENCES // max(1, columns.size))
        largest = 0.0

        for start in range(0, len(columns), block):
            some = columns[start : start + block, None, :]
            differences = some - columns[None, :, :]
            distances = np.linalg.norm(differences, order, axis=2)
            largest = max(largest, float(distances.max()))

        return largest

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        """The matrix itself, for small maps."""
        rows, columns = self.shape
        if rows * columns > limit:
            raise TooLarge(
                f"{self.brief()} has {rows} x {columns} = {rows * columns:.3g} entries, more than "
                f"the limit of {limit} for a dense matrix; use matvec and rmatvec, or pass a "
                f"larger limit"
            )

        # The smaller identity is the one to transform.
        if 0 < rows < columns:
            transposed = self.rmatvec(np.eye(rows))
            return np.array(transposed.T, dtype=np.float64, order="C")

        matrix = self.matvec(np.eye(columns))
        return np.asarray(matrix, dtype=np.float64)

    def brief(self) -> str:
        """What it is, for messages."""
        return type(self).__name__

    @property
    def T(self) -> LinearMap:
        """The adjoint, as a map."""
        from noisewright.workload.linear.maps import Adjoint

        return Adjoint(self)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError(
                "a linear map is written out anew every time: copy=False cannot be"
            )

        return np.asarray(self.dense(), dtype=dtype)

    @overload
    def __matmul__(self, other: LinearMap) -> LinearMap: ...
    @overload
    def __matmul__(self, other: npt.ArrayLike | sparray) -> Array: ...
    def __matmul__(
        self, other: LinearMap | npt.ArrayLike | sparray
    ) -> LinearMap | Array:
        from noisewright.workload.linear.maps import Product

        if isinstance(other, LinearMap):
            return Product(self, other)

        return self.matvec(_columns(other))

    def __rmatmul__(self, other: npt.ArrayLike | sparray) -> Array:
        return self.rmatvec(_columns(other).T).T


def _columns(values: npt.ArrayLike | sparray) -> Array:
    """Numbers as a vector or a matrix of columns; sparse ones written out."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def check_order(order: int) -> int:
    """Refuse norms other than ℓ1 and ℓ2."""
    if order not in (1, 2):
        remedy = "choose the L1 or the L2 norm"
        raise InvalidParameter("order", order, "must be 1 or 2", remedy)

    return order


def check_neighbours(neighbours: str) -> str:
    """Refuse neighbour relations that are not known."""
    if neighbours not in ("add-remove", "replace-one"):
        rule = "must be 'add-remove' or 'replace-one'"
        raise InvalidParameter("neighbours", neighbours, rule, "choose one of them")

    return neighbours
