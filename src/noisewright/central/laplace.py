"""Strategies for pure differential privacy, where L1 sensitivity decides.

One attribute: A = [I; T]·Diag(1 + 1ᵀT)⁻¹ with T ≥ 0 and few rows, so that every column has L1 norm
one. With s = 1 + 1ᵀT and K = (I + TTᵀ)⁻¹ the inverse of AᵀA is D_s(I − TᵀKT)D_s, so the total
variance and its gradient cost O(n²·rows). The problem is not convex: hierarchies of several shapes
and seeded random rows are tried, and the best is kept. Products multiply strategies, sensitivities
and errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from noisewright.central.axes import Integers
from noisewright.central.gaussian import Planned, as_one_axis, fine_grid
from noisewright.central.quantise import quantise
from noisewright.central.strategy import Block, BlockStrategy
from noisewright.errors import TooLarge
from noisewright.norm.factorize import factorize
from noisewright.workload import Identity, Total, Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.quadratics import row_quadratics
from noisewright.workload.terms import Term

LARGEST_FACTOR = 2048
_SMALL = 128  # cells up to which many starts are cheap
_HEAVIEST = 1000.0  # times the weight of a cell: keeps (AᵀA)⁻¹ well conditioned
_TOTAL_BITS = 33
_MOST_BITS = 16
_HIERARCHIES = ((4,), (8,), (16,), (4, 16), (6, 36))
_LARGE_HIERARCHY = (3, 12, 48)  # the best of nine shapes at 1024 cells, prefix and ranges alike
_RANDOM_ROWS = (1, 2, 3, 4, 6)


@dataclass(frozen=True, eq=False)
class WeightedIdentity:
    """The cells and a few weighted sums of them, every column of L1 norm one."""

    rows: FloatArray

    @property
    def strategy(self) -> FloatArray:
        """A."""
        stacked = np.concatenate([np.eye(self.rows.shape[1]), self.rows])
        return np.asarray(stacked / (1 + self.rows.sum(axis=0)))

    def covariance(self) -> FloatArray:
        """(AᵀA)⁻¹."""
        a = self.strategy
        return np.asarray(np.linalg.inv(a.T @ a), dtype=np.float64)


def weighted_identity(gram: FloatArray) -> WeightedIdentity:
    """The best found strategy of this kind for the total variance of queries with this Gram."""
    size = len(gram)
    best, rows = float(np.trace(gram)), np.zeros((0, size))
    for start in _starts(gram):
        found, value = _descend(gram, start, 300 if size > _SMALL else 500)
        if value < best * (1 - 1e-9):
            best, rows = value, found
    return WeightedIdentity(rows[rows.max(axis=1, initial=0.0) > 1e-9])


def _starts(gram: FloatArray) -> Iterator[FloatArray]:
    size = len(gram)
    if size < 2:
        return
    if size > _SMALL:
        yield 0.3 * _hierarchy(size, _LARGE_HIERARCHY)
        if size <= 4 * _SMALL:
            yield _hierarchy(size, (6, 36))
        return
    for shape in _HIERARCHIES:
        if shape[-1] < size:
            yield _hierarchy(size, shape)
    rng = np.random.default_rng(0)
    restarts = 4 if size <= 32 else 1
    for count in _RANDOM_ROWS:
        for _ in range(restarts):
            yield rng.random((min(count, size), size))


def _hierarchy(size: int, shape: tuple[int, ...]) -> FloatArray:
    """Rows that sum neighbouring cells, `shape` intervals per level."""
    rows = []
    for count in shape:
        edges = np.linspace(0, size, count + 1).astype(np.int64)
        cells = np.arange(size)
        rows += [(cells >= a) & (cells < b) for a, b in pairwise(edges)]
    return np.array(rows, dtype=np.float64)


def _descend(gram: FloatArray, start: FloatArray, steps: int) -> tuple[FloatArray, float]:
    from scipy.optimize import minimize

    result = minimize(
        _total_variance,
        start.ravel(),
        args=(gram,),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, _HEAVIEST)] * start.size,
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20},
    )
    return np.asarray(result.x).reshape(start.shape), float(result.fun)


def _total_variance(flat: FloatArray, gram: FloatArray) -> tuple[float, FloatArray]:
    """tr(G(AᵀA)⁻¹) and its gradient by T."""
    t = flat.reshape(-1, len(gram))
    s = 1 + t.sum(axis=0)
    kt = np.linalg.solve(np.eye(len(t)) + t @ t.T, t)
    scaled = s[:, None] * gram * s
    product = kt @ scaled
    value = float(np.trace(scaled)) - float(np.einsum("ij,ij->", product, t))
    by_scale = 2 * (np.diagonal(scaled) - np.einsum("ij,ij->j", product, t)) / s
    gradient = -2 * (product - (product @ t.T) @ kt) + by_scale
    return value, gradient.ravel()


def laplace_product(term: Term, sizes: tuple[int, ...], norm: float) -> Planned:
    """A strategy for one product of workloads: the best found for every factor."""
    if term.factors is None:
        return laplace_product(as_one_axis(term.inner), (prod(sizes),), norm)
    bits = max(6, min(_MOST_BITS, _TOTAL_BITS // max(1, len(term.factors))))
    known: dict[str, tuple[Integers, float, float]] = {}
    matrices: list[Integers] = []
    value, bound = term.weight, term.weight
    for factor in term.factors:
        name = factor.text()
        if name not in known:
            known[name] = _factor_strategy(factor, norm, bits)
        matrix, error, floor = known[name]
        matrices.append(matrix)
        value, bound = value * error, bound * floor
    block = Block(term.attributes, tuple(matrices), multiplier=fine_grid(matrices))
    return Planned(
        BlockStrategy(sizes, (block,)),
        value,
        bound,
        "L2 factorization norm: L1 sensitivity is never smaller",
        "best of several starts; the bound is for any noise of this variance, so it is loose",
    )


def _factor_strategy(factor: Workload, norm: float, bits: int) -> tuple[Integers, float, float]:
    """Integers, p-th mean error at L1 sensitivity one, and a lower bound on it."""
    if isinstance(factor, Total):
        return np.ones((1, factor.size), dtype=np.int64), 1.0, 1.0
    if isinstance(factor, Identity):
        return np.eye(factor.size, dtype=np.int64), 1.0, 1.0
    if factor.size > LARGEST_FACTOR:
        raise TooLarge(
            f"workload {factor.brief()} has {factor.size} cells; a strategy is optimised up to "
            f"{LARGEST_FACTOR}; combine attributes with '*' or coarsen the bins"
        )
    found = weighted_identity(factor.gram().dense())
    squares = row_quadratics(factor, found.covariance())
    largest = float(squares.max())
    if norm == np.inf:
        error = np.sqrt(largest)
    else:
        error = np.sqrt(largest) * np.mean((squares / largest) ** (norm / 2)) ** (1 / norm)
    floor = factorize(factor, norm=norm, tolerance=1e-3).lower_bound
    return quantise(found.strategy, factor, bits), float(error), floor
