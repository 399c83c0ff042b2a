"""Algorithm 2 of [003]: projected gradient descent on a strategy of any number of rows.

Its projection, Algorithm 1, is the one that our own descent uses. The gradient in z is through the
projection, with the mean over free entries taken off, which the published code leaves out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import exp

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import require
from noisewright.local.optimise.dense.descent import project

_STEPS = (1e-1, 1e-2, 1e-3, 1e-4)
_TRIAL = 15
_SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class _Iterate:
    chances: FloatArray
    least: FloatArray
    value: float
    gradient: FloatArray


def projected_gradient(
    gram: FloatArray,
    epsilon: float,
    rows: int,
    iterations: int,
    rng: np.random.Generator,
) -> FloatArray:
    """A strategy of `rows` reports for the average case, from a random start.

    The step is chosen among a few by short trials, as in the paper, and halves when a step fails.
    """
    first, unit = _started(gram, epsilon, rows, rng)
    trials = [
        (_descended(first, gram, epsilon, unit * step, _TRIAL).value, step)
        for step in _STEPS
    ]
    best = min(trials)[1]

    return _descended(first, gram, epsilon, unit * best, iterations).chances


def _started(
    gram: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> tuple[_Iterate, float]:
    """A random start, and the unit of steps: the size of Q over that of its gradient."""
    size = len(gram)
    require(rows >= size, "rows", rows, f"must be at least {size}, the number of cells")

    least = np.full(rows, (1 + exp(-epsilon)) / (2 * rows))
    start, _ = project(
        rng.random((rows, size)), np.ones(rows), least, exp(epsilon) * least, 1.0
    )
    first = _evaluated(start, least, gram)

    return first, float(np.abs(start).mean() / np.abs(first.gradient).mean())


def iteration_seconds(
    gram: FloatArray, epsilon: float, rows: int, iterations: int
) -> float:
    """The mean processor time of an iteration; the random start is not counted."""
    first, unit = _started(gram, epsilon, rows, np.random.default_rng(0))
    began = time.process_time()
    _descended(first, gram, epsilon, unit * min(_STEPS), iterations)
    return (time.process_time() - began) / iterations


def _descended(
    start: _Iterate, gram: FloatArray, epsilon: float, step: float, iterations: int
) -> _Iterate:
    best = here = start
    for _ in range(iterations):
        following = _stepped(here, gram, epsilon, step)
        if following is None or following.value > 1.05 * here.value:
            step = step / 2
            here = best
            continue
        here = following
        best = here if here.value < best.value else best

    return best


def _stepped(
    here: _Iterate, gram: FloatArray, epsilon: float, step: float
) -> _Iterate | None:
    size = len(gram)
    grown = exp(epsilon)
    by_least = through_projection(here.chances, here.least, here.gradient, epsilon)
    least = np.clip(here.least - step / (size * grown) * by_least, _SMALLEST, 1.0)
    if not least.sum() < 1 < grown * least.sum():
        return None

    moved = here.chances - step * here.gradient
    chances, _ = project(moved, np.ones(len(least)), least, grown * least, 1.0)
    try:
        return _evaluated(chances, least, gram)
    except np.linalg.LinAlgError:
        return None


def through_projection(
    chances: FloatArray, least: FloatArray, gradient: FloatArray, epsilon: float
) -> FloatArray:
    """The gradient in the lower ends of rows, where the projection gave these chances."""
    low = chances <= least[:, None] * (1 + 1e-12)
    high = chances >= least[:, None] * exp(epsilon) * (1 - 1e-12)
    free = ~(low | high)
    count = free.sum(axis=0)
    mean = np.where(
        count > 0, (gradient * free).sum(axis=0) / np.maximum(count, 1), 0.0
    )
    pulled = (gradient - mean) * (count > 0)

    return np.asarray(
        (pulled * low).sum(axis=1) + exp(epsilon) * (pulled * high).sum(axis=1)
    )


def _evaluated(chances: FloatArray, least: FloatArray, gram: FloatArray) -> _Iterate:
    """L(Q) = tr(M X⁻¹) with X = QᵀD⁻¹Q and its gradient, by Cholesky factors."""
    from scipy.linalg import cho_factor, cho_solve

    scores = chances / chances.sum(axis=1, keepdims=True)
    factor = cho_factor(scores.T @ chances)
    half = cho_solve(factor, gram)
    quadratic = cho_solve(factor, half.T)
    pulled = scores @ quadratic
    energies = np.einsum("ou,ou->o", pulled, scores)
    gradient = -2 * pulled + energies[:, None]

    return _Iterate(chances, least, float(np.trace(half)), gradient)
