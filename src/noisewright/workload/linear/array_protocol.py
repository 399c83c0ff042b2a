"""What makes a linear map an array to those who expect one: NumPy's protocol, `@` and `.T`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray

if TYPE_CHECKING:
    from noisewright.workload.linear.maps import LinearMap


class ArrayProtocol(ABC):
    """`np.asarray(A)` writes the matrix out where it is small; `A @ x` never does."""

    __array_ufunc__ = None  # so that `x @ A` asks the map, not NumPy

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """The map applied to a vector or to each column."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """The adjoint applied to a vector or to each column."""

    @abstractmethod
    def dense(self) -> FloatArray:
        """The matrix itself, for small maps."""

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError(
                "a linear map is written out anew every time: copy=False cannot be"
            )
        return np.asarray(self.dense(), dtype=dtype)

    def __matmul__(self, other: Any) -> Any:
        from noisewright.workload.linear.maps import LinearMap, Product

        if isinstance(other, LinearMap):
            return Product(_as_map(self), other)
        return self.matvec(_columns(other))

    def __rmatmul__(self, other: Any) -> Any:
        return self.rmatvec(_columns(other).T).T

    @property
    def T(self) -> LinearMap:
        """The adjoint, as a map."""
        from noisewright.workload.linear.maps import Adjoint

        return Adjoint(_as_map(self))


def _as_map(protocol: ArrayProtocol) -> LinearMap:
    from noisewright.workload.linear.maps import LinearMap

    assert isinstance(protocol, LinearMap)
    return protocol


def _columns(values: Any) -> Array:
    """Numbers as a vector or a matrix of columns; sparse ones written out."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
