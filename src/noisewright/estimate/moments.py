"""Noisy matrices of second moments, brought back to what second moments can be."""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray

_BEYOND = 1.02  # of the noise's largest simulated eigenvalue
_TURNS = 8
_MOST_TURNS = 1000


def to_simplex(values: FloatArray, total: float) -> FloatArray:
    """The nearest non-negative values whose sum is at most `total`."""
    positive = np.maximum(values, 0.0)
    if positive.sum() <= total:
        return positive

    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > excess)[-1]

    return np.asarray(np.maximum(values - excess[last], 0.0))


def possible_moments(matrix: FloatArray, trace: float) -> FloatArray:
    """The nearest symmetric matrix with no negative direction and at most this trace.

    Second moments of rows no longer than √trace are such; the noisy ones need not be.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * to_simplex(values, trace)) @ vectors.T)


def _beyond(values: FloatArray, spectrum: FloatArray) -> FloatArray:
    """What is left of eigenvalues λ beyond those of the noise, ν; zero of all others.

    It is -g/g', g(λ) the mean of 1/(λ - ν): nearest on average when the direction, too, is known
    only roughly (√(λ² - edge²) for Gaussian noise).
    """
    kept = np.zeros_like(values)
    beyond = values > _BEYOND * spectrum.max(initial=0.0)
    distances = 1.0 / (values[beyond, None] - spectrum)
    kept[beyond] = distances.mean(axis=1) / (distances**2).mean(axis=1)
    return kept


def above_noise(
    matrix: FloatArray,
    spectrum: FloatArray,
    trace: float,
) -> FloatArray:
    """Directions whose moments stand out of noise whose eigenvalues are about `spectrum`.

    What is left of the trace is spread evenly over the others, where it does least harm.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = _beyond(values, spectrum)
    others = kept == 0.0
    if others.any():
        left = max(0.0, min(trace, float(values.sum())) - float(kept.sum()))
        kept = np.where(others, left / others.sum(), kept)

    return np.asarray((vectors * to_simplex(kept, trace)) @ vectors.T)


def beyond_noise(matrix: FloatArray, spectrum: FloatArray) -> FloatArray:
    """A symmetric matrix less noise whose eigenvalues are about `spectrum`: nearest on average.

    Directions that noise alone explains are dropped.
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * _beyond(values, spectrum)) @ vectors.T)


def nearest_correlation(matrix: FloatArray) -> FloatArray:
    """The nearest symmetric matrix of ones on the diagonal with no negative direction.

    By its dual, one number per column: the positive part of a matrix with another diagonal. The
    last step makes the diagonal exact, which leaves a matrix of the set whatever the steps did.
    """
    from scipy.optimize import minimize

    target = (matrix + matrix.T) / 2

    def positive(diagonal: FloatArray) -> FloatArray:
        values, vectors = np.linalg.eigh(target + np.diag(diagonal))
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def dual(diagonal: FloatArray) -> tuple[float, FloatArray]:
        part = positive(diagonal)
        return float((part**2).sum() / 2 - diagonal.sum()), np.diag(part) - 1.0

    best = minimize(
        dual,
        1.0 - np.diag(target),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_TURNS, "ftol": 1e-15, "gtol": 1e-10},
    )
    part = positive(best.x)
    lengths = np.sqrt(np.maximum(np.diag(part), 1e-12))
    result = part / np.outer(lengths, lengths)
    np.fill_diagonal(result, 1.0)

    return np.asarray(result)


def common_factors(matrix: FloatArray, spectrum: FloatArray) -> FloatArray:
    """What few directions explain of the entries off the diagonal of a noisy covariance matrix.

    The diagonal holds what each column varies by itself and says nothing of the others: in turns it
    is taken from the directions, and they from the matrix.
    """
    explained = np.zeros_like(matrix)
    for _ in range(_TURNS):
        off = matrix.copy()
        np.fill_diagonal(off, np.diagonal(explained))
        explained = beyond_noise(off, spectrum)
    return explained


def possible_pairs(covariance: FloatArray, means: FloatArray) -> FloatArray:
    """Shares with both of two attributes, within what the shares with each of them allow."""
    lowest = np.maximum(0.0, means[:, None] + means - 1.0)
    highest = np.minimum(means[:, None], means)
    result = (covariance + np.outer(means, means)).clip(lowest, highest)
    np.fill_diagonal(result, means)
    return result
