"""Operators for workloads taken apart: columns folded together, blocks side by side, spectra."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from noisewright.norm.operators import Operator
from noisewright.workload.base import FloatArray
from noisewright.workload.tensor import walsh_hadamard

IndexArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Folded(Operator):
    """Column j is `scale[j]` times column `index[j]` of the inner map."""

    inner: Operator
    index: IndexArray
    scale: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the inner map, one column per index."""
        return self.inner.shape[0], self.index.size

    def matvec(self, x: FloatArray) -> FloatArray:
        """Add up what falls on the same inner column, then map."""
        gathered = np.zeros((self.inner.shape[1], *x.shape[1:]))
        np.add.at(gathered, self.index, (self.scale * x.T).T)
        return self.inner.matvec(gathered)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Adjoint."""
        return np.asarray((self.scale * self.inner.rmatvec(y)[self.index].T).T)

    def column_norms(self) -> FloatArray:
        """Those of the inner columns, scaled."""
        return np.asarray(np.abs(self.scale) * self.inner.column_norms()[self.index])


@dataclass(frozen=True, eq=False)
class BlockDiagonal(Operator):
    """Maps over separate columns, one after the other."""

    parts: tuple[Operator, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns add up."""
        return sum(part.shape[0] for part in self.parts), sum(p.shape[1] for p in self.parts)

    def matvec(self, x: FloatArray) -> FloatArray:
        """Each part on its own columns."""
        return self._apart(x, 1, "matvec")

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Each adjoint part on its own rows."""
        return self._apart(y, 0, "rmatvec")

    def _apart(self, x: FloatArray, side: int, name: str) -> FloatArray:
        ends = np.cumsum([part.shape[side] for part in self.parts])
        pieces = zip(self.parts, np.split(x, ends[:-1]), strict=True)
        return np.concatenate([getattr(part, name)(piece) for part, piece in pieces])

    def column_norms(self) -> FloatArray:
        """Those of the parts, one after the other."""
        return np.concatenate([part.column_norms() for part in self.parts])


@dataclass(frozen=True, eq=False)
class Invariant(Operator):
    """A symmetric map that commutes with cyclic shifts along every axis of a product domain.

    It is diagonal in the characters: Walsh–Hadamard over bits, Fourier over longer cycles.
    `spectrum` holds one eigenvalue per character, over the same axes.
    """

    sizes: tuple[int, ...]
    spectrum: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Cells, twice."""
        return prod(self.sizes), prod(self.sizes)

    def matvec(self, x: FloatArray) -> FloatArray:
        """Transform, scale, transform back."""
        spectrum = self.spectrum.reshape((-1,) + (1,) * (x.ndim - 1))
        if set(self.sizes) == {2}:
            return np.asarray(walsh_hadamard(spectrum * walsh_hadamard(x)) / self.shape[0])
        from scipy.fft import fftn, ifftn

        axes = tuple(range(len(self.sizes)))
        waves = fftn(x.reshape(*self.sizes, *x.shape[1:]), axes=axes)
        scaled = spectrum.reshape(*self.sizes, *spectrum.shape[1:]) * waves
        return np.ascontiguousarray(ifftn(scaled, axes=axes).real).reshape(x.shape)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """The map is its own adjoint."""
        return self.matvec(y)

    def column_norms(self) -> FloatArray:
        """All columns are shifts of one another."""
        return np.full(self.shape[1], self.sensitivity())

    def sensitivity(self) -> float:
        """Root mean square of the spectrum."""
        return float(np.sqrt(np.mean(self.spectrum**2)))


def characters(sizes: tuple[int, ...], column: FloatArray) -> FloatArray:
    """Eigenvalues of the shift-invariant symmetric map whose first column is given."""
    if set(sizes) == {2}:
        return walsh_hadamard(column)
    from scipy.fft import fftn

    return np.ascontiguousarray(fftn(column.reshape(sizes)).real).ravel()
