"""What no noise goes below, by the volume of what one person can change [004, after Hardt, Talwar].

Let noise z of density f hide every change u in a body K at ε, parts of a person among them:
f(z + mu) >= e^(-εm) f(z). Where f is above t, it is above t·e^(-εm) within m·K of there, and by
Brunn and Minkowski the roots (of order k) of these volumes add up. So f rearranged into balls,
which makes no mean square larger, falls no faster than noise in the shape of the ball of K's
volume, of radius R: the mean of ‖z‖² is at least k(k + 1)R²/ε², which that noise has. K's volume
is that of points in it: a simplex or cross-polytope of its corners, or its reach in random
directions, whose mean powers are no larger than the volume's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp, lgamma, log, pi, sqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.problem import CentralProblem

_MOST_ENTRIES = 2**22  # of the queries, whose singular vectors are computed
_SAMPLED_ENTRIES = 2**16  # of columns in the body's own dimensions
_DIRECTIONS = 60  # whose reach is averaged: each is one linear program
# of the reach, whose mean over directions is taken: higher ones vary too much
_POWER = 4
_SURE = 3.29  # deviations: 99.95 % for the mean over directions
_SAME = 1e-9  # of the largest singular value: axes below are rounding
_LESS = 1 - 1e-6  # far above the rounding of determinants and linear programs


@dataclass(frozen=True)
class VolumeBound:
    """A root mean square error, and how the volume was found."""

    value: float
    found: str


def volume_bound(problem: CentralProblem) -> VolumeBound | None:
    """What noise that hides parts of a person too has at least, over the queries asked."""
    workload = problem.workload
    epsilon = problem.privacy.epsilon
    if problem.privacy.kind != "pure" or epsilon is None or workload.size < 2:
        return None
    if workload.size * workload.queries > _MOST_ENTRIES:
        return None
    if problem.domain is not None and problem.domain.boxes:
        return None
    if not workload.counts_only:
        return None

    replaced = problem.neighbours == "replace-one"
    columns, basis = body_columns(workload.dense(), replaced)
    dimension = columns.shape[1]
    if not dimension:
        return None

    radius = corner_radius(columns, replaced)
    found = "by corners"
    corners = dimension + replaced
    if columns.size <= _SAMPLED_ENTRIES and len(columns) > corners:
        sampled = sampled_radius(columns, replaced, basis)
        if sampled > radius:
            radius = sampled
            found = "by directions, but for a chance of 1 in 2,000"

    error = sqrt(dimension * (dimension + 1) / workload.queries) * radius / epsilon
    return VolumeBound(error * _LESS, found)


def body_columns(matrix: FloatArray, replaced: bool) -> tuple[FloatArray, FloatArray]:
    """What one person in every cell answers, in axes of what people can change, and these axes."""
    centred = matrix - matrix.mean(axis=1, keepdims=True) if replaced else matrix
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    basis = left[:, values > _SAME * max(values[0], 1e-300)]
    return np.unique(np.round(centred.T @ basis, 12), axis=0), basis


def corner_radius(columns: FloatArray, replaced: bool) -> float:
    """The radius of a ball of the volume that a few far columns span, with each other or zero."""
    from scipy.linalg import (
        qr,
    )  # half a second that most plans do without

    if replaced:
        columns = columns - columns[np.argmax((columns**2).sum(axis=1))]

    d = columns.shape[1]
    diagonal = np.abs(np.diag(qr(columns.T, mode="r", pivoting=True)[0]))[:d]
    if diagonal.min() <= 0.0:
        return 0.0

    # Differences within a simplex have its volume times that many; a cross-polytope has 2^d.
    times = log(comb(2 * d, d)) if replaced else d * log(2)
    volume = times + float(np.log(diagonal).sum()) - lgamma(d + 1)
    return exp((volume - log_ball(d)) / d)


def log_ball(dimension: int) -> float:
    """The logarithm of the volume of the ball of radius one."""
    return dimension / 2 * log(pi) - lgamma(dimension / 2 + 1)


def sampled_radius(
    columns: FloatArray,
    replaced: bool,
    basis: FloatArray,
) -> float:
    """Below the radius of a ball of the body's volume, from how far it reaches some ways.

    Ways are drawn among all answers: those of a basis would turn with it, and which basis a
    body of equal axes gets is up to the processor.
    """
    power = min(columns.shape[1], _POWER)
    ways = np.random.default_rng(0).standard_normal((_DIRECTIONS, len(basis))) @ basis
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    powers = np.array([reach_along(columns, way, replaced) ** power for way in ways])
    mean = float(powers.mean() - _SURE * powers.std(ddof=1) / sqrt(_DIRECTIONS))
    return float(max(mean, 0.0) ** (1 / power))


def reach_along(
    columns: FloatArray,
    way: FloatArray,
    replaced: bool,
) -> float:
    """How far the body reaches this way: 1 over the fewest people who are moved by a unit of it."""
    from scipy.optimize import linprog

    n = len(columns)
    moved = np.hstack([columns.T, -columns.T])
    cost = np.ones(2 * n)
    target = way
    if replaced:  # as many enter as leave, and both are one replacement
        moved = np.vstack([moved, np.repeat([1.0, -1.0], n)])
        cost = cost / 2
        target = np.append(way, 0.0)

    solved = linprog(cost, A_eq=moved, b_eq=target, method="highs")
    return 0.0 if solved.x is None else 1.0 / float(np.dot(cost, np.abs(solved.x)))
