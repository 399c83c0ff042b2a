"""Cells and a few weighted sums of them: the strategies for L1 distances, by descent [006].

A = [I; T]·Diag(1 + 1ᵀ|T|)⁻¹ with few rows T, so that every column has L1 norm one. With
s = 1 + 1ᵀ|T| and K = (I + TTᵀ)⁻¹ the inverse of AᵀA is D_s(I − TᵀKT)D_s, so the total variance and
its gradient need products of the Gram matrix with the rows of T only (cumulative sums, for
cumulative queries).

Pure privacy has T ≥ 0. Where the number of people is known, sums of both signs stand beside the
public total: the variance of W is then that of W − c1ᵀ at the best shift c = W z, z = C1/(1ᵀC1)
with C = (AᵀA)⁻¹, so value and gradient are those of the shifted queries. These are the strategies
of Laplace noise for replaced people, drawn by a curator or on each person's device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.workload.linear.gram import DenseGram, Gram

_HEAVIEST = 1000.0  # times the weight of a cell: keeps (AᵀA)⁻¹ well conditioned
_PROGRESS = 1e-9  # share that a round has to gain, else descent has ended
_ROUND = 100  # steps before entries at zero are looked at again

# Multiplications that stay on one thread: threads that wait for each other made these small
# products a hundred times slower on a machine that is busy otherwise.
_ONE_THREAD = 2**18


def _slices(rows: int, cells: int) -> Iterator[slice]:
    """Cells in pieces whose products the library does not spread over threads."""
    step = max(1, _ONE_THREAD // max(1, rows * rows))
    return (slice(start, start + step) for start in range(0, cells, step))


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """a bᵀ for two sets of rows."""
    cells = a.shape[1]
    if len(a) * len(b) * cells <= _ONE_THREAD:
        return a @ b.T

    total = np.zeros((len(a), len(b)))
    for piece in _slices(len(a), cells):
        total += a[:, piece] @ b[:, piece].T

    return total


def _combined(matrix: FloatArray, rows: FloatArray) -> FloatArray:
    """A small matrix times rows."""
    cells = rows.shape[1]
    if matrix.size * cells <= _ONE_THREAD:
        return matrix @ rows

    result = np.empty((len(matrix), cells))
    for piece in _slices(len(matrix), cells):
        result[:, piece] = matrix @ rows[:, piece]

    return result


@dataclass(frozen=True, eq=False)
class WeightedIdentity:
    """The cells and a few weighted sums of them, every column of L1 norm one."""

    rows: FloatArray

    @cached_property
    def _norms(self) -> FloatArray:
        return np.asarray(1 + np.abs(self.rows).sum(axis=0))

    @property
    def strategy(self) -> FloatArray:
        """A."""
        cells = np.eye(self.rows.shape[1])
        return np.concatenate([cells, self.rows]) / self._norms

    def integers(self, bits: int) -> IntArray:
        """A on an integer grid, its largest entry about 2^bits; no cell's own row is lost."""
        count = self.rows.shape[1]
        cells = np.eye(count, dtype=np.int64)
        if not len(self.rows):
            return cells

        real = self.strategy
        scale = 2.0**bits / np.abs(real).max()
        whole: IntArray = np.rint(real * scale).astype(np.int64)
        whole[:count] = np.maximum(whole[:count], cells)
        return whole

    def covariance(self) -> FloatArray:
        """(AᵀA)⁻¹."""
        t = self.rows
        s = self._norms
        gram = np.eye(len(t)) + t @ t.T
        projection = t.T @ np.linalg.solve(gram, t)
        return s[:, None] * (np.eye(len(s)) - projection) * s


class TotalVariance:
    """tr(G(AᵀA)⁻¹) of the queries with Gram matrix G, as a function of the rows T ≥ 0."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.diagonal = gram.diagonal()

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        t = flat.reshape(-1, len(self.diagonal))
        value, by_rows, by_norms = self.slopes(t, 1 + t.sum(axis=0))
        return value, (by_rows + by_norms).ravel()

    def slopes(
        self, t: FloatArray, s: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """The value, and its derivatives by the rows T and by the norms s on their own."""
        gram = np.eye(len(t)) + _products(t, t)
        inverse = np.asarray(np.linalg.inv(gram), dtype=np.float64)
        kt = _combined(inverse, t)

        # K T D_s G D_s, a row for every row of T.
        product = self.gram.matvec((kt * s).T).T * s
        explained = np.einsum("ij,ij->j", product, t)
        by_cell = s**2 * self.diagonal - explained
        back = _combined(_products(product, t), kt)
        by_rows = -2 * (product - back)
        return float(by_cell.sum()), by_rows, 2 * by_cell / s

    def descend(self, start: FloatArray, steps: int) -> tuple[float, FloatArray]:
        """The value and the rows after so many steps of L-BFGS.

        Few entries of the best rows are not zero, so each round moves only entries that are
        positive or would grow.
        """
        flat = start.ravel()
        last = np.inf
        while True:
            value, gradient = self(flat)
            free = (flat > 0) | (gradient < 0)
            ended = value > last * (1 - _PROGRESS)
            if steps <= 0 or ended or not free.any():
                return value, flat.reshape(start.shape)

            last = value
            flat, taken = self._round(flat, free, min(steps, _ROUND))
            steps -= max(taken, 1)

    def _round(
        self, flat: FloatArray, free: BoolArray, steps: int
    ) -> tuple[FloatArray, int]:
        """Steps over the free entries; all others stay zero."""
        from scipy.optimize import Bounds, minimize

        def spread(part: FloatArray) -> FloatArray:
            full = np.zeros(len(flat))
            full[free] = part
            return full

        def restricted(part: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self(spread(part))
            return value, gradient[free]

        result = minimize(
            restricted,
            flat[free],
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(0.0, _HEAVIEST),
            options={
                "maxiter": steps,
                "maxfun": 2 * steps,
                "maxcor": 10,
                "ftol": 1e-10,
            },
        )
        return spread(result.x), int(result.nit)


class PowerMean(TotalVariance):
    """(mean of s^q)^(1/q) over the variances s of queries W; a large q lowers the largest."""

    def __init__(self, queries: FloatArray, q: float) -> None:
        self.queries = queries
        self.q = q

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient: that of the total variance under the weights the mean gives."""
        w = self.queries
        covariance = WeightedIdentity(flat.reshape(-1, w.shape[1])).covariance()
        variances = np.einsum("ij,ij->i", w @ covariance, w)
        largest = variances.max()

        # Shares of the largest one, so that no power overflows.
        shares = np.maximum(variances, 0.0) / largest
        mean = float(np.mean(shares**self.q) ** (1 / self.q))
        weights = (shares / mean) ** (self.q - 1) / len(variances)
        gram = DenseGram(w.T @ (weights[:, None] * w))
        _, gradient = TotalVariance(gram)(flat)
        return float(largest) * mean, gradient


@dataclass(frozen=True, eq=False)
class ShiftedGram(Gram):
    """The Gram matrix of W(I − z1ᵀ)."""

    inner: Gram
    z: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        """Product with `x`."""
        z = self.z.reshape((-1,) + (1,) * (x.ndim - 1))
        image = self.inner.matvec(x - z * x.sum(axis=0))
        return np.asarray(image - self.z @ image)

    def diagonal(self) -> FloatArray:
        """Diagonal."""
        image = self.inner.matvec(self.z)
        return np.asarray(self.inner.diagonal() - 2 * image + self.z @ image)


class PublicTotal(TotalVariance):
    """The total variance when the number of people is known, by T = P − N as [P; N] ≥ 0."""

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        plus, minus = flat.reshape(2, -1, len(self.diagonal))
        t = plus - minus
        s = 1 + plus.sum(axis=0) + minus.sum(axis=0)

        # C1 = D_s(I − TᵀKT)s, from which z follows.
        gram = np.eye(len(t)) + t @ t.T
        solved = np.linalg.solve(gram, t @ s)
        sums = s * (s - t.T @ solved)
        shifted = TotalVariance(ShiftedGram(self.gram, sums / sums.sum()))

        value, by_rows, by_norms = shifted.slopes(t, s)
        gradient = np.concatenate([by_norms + by_rows, by_norms - by_rows])
        return value, gradient.ravel()
