"""Where descents begin: random patterns whose covariance is the square root of the workload's."""

from __future__ import annotations

from math import exp

import numpy as np
import numpy.typing as npt

from noisewright.workload.base import FloatArray

BoolArray = npt.NDArray[np.bool_]


def high_count(size: int, epsilon: float) -> int:
    """How many cells of the best single row are high: a whole number near n/(1+e^ε)."""
    guess = size / (1.0 + exp(epsilon))
    r = np.expm1(epsilon)
    options = [min(max(int(guess) + k, 1), max(size - 1, 1)) for k in (0, 1)]

    def contrast(d: int) -> float:
        return float(d * (size - d) * r**2 / (size + r * d) ** 2)

    return max(options, key=contrast)


def top_cells(scores: FloatArray, count: int) -> BoolArray:
    """In every row, the `count` cells with the largest scores."""
    chosen = np.zeros(scores.shape, dtype=bool)
    order = np.argpartition(-scores, min(count, scores.shape[1] - 1), axis=1)[:, :count]
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen


def gaussian_factor(centred: FloatArray) -> FloatArray:
    """A matrix B with BBᵀ = (PMP)^{1/2}, what optimal information looks like when nothing binds."""
    values, vectors = np.linalg.eigh(centred)
    return np.asarray(vectors * np.clip(values, 0.0, None) ** 0.25)


def spectral_patterns(
    factor: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> BoolArray:
    """Gaussian rows with the given covariance factor, high at their largest entries."""
    draws = rng.standard_normal((rows, factor.shape[1])) @ factor.T
    return top_cells(draws, high_count(len(factor), epsilon))


def dense_start(
    centred: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Spectral patterns, and lightly every cell on its own so that no direction is left unseen."""
    n = len(centred)
    patterns = spectral_patterns(gaussian_factor(centred), epsilon, rows, rng)
    weights = np.concatenate([np.ones(rows), np.full(n, 0.1)])
    return np.concatenate([patterns, np.eye(n)]), weights
