"""Non-negative histograms that agree best with noisy answers, and whole numbers that keep totals.

Post-processing only: nothing here sees data, so privacy is untouched. Errors do change: see what
each function says of intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.workload.base import FloatArray, Workload

LARGEST_HISTOGRAM = 2**20
"""Cells up to which a histogram over the whole domain is fitted."""


@dataclass(frozen=True, eq=False)
class NonNegativeFit:
    """A histogram x ≥ 0 and the largest breach of its optimality conditions, relative."""

    histogram: FloatArray
    breach: float
    steps: int


def nonnegative_histogram(
    workload: Workload,
    answers: FloatArray,
    std: FloatArray,
    total: float | None = None,
    steps: int = 5000,
    tolerance: float = 1e-6,
    possible: npt.NDArray[np.bool_] | None = None,
) -> NonNegativeFit:
    """Minimise Σ((w_i·x − answer_i)/std_i)² over x ≥ 0, with Σx = `total` where it is given.

    Cells that are not `possible` stay empty. Accelerated projected gradient with restarts, from
    products with the workload alone.
    """
    if workload.size > LARGEST_HISTOGRAM:
        raise TooLarge(
            f"a histogram over {workload.size} cells is too large to fit (limit "
            f"{LARGEST_HISTOGRAM}); adjust tables one by one"
        )
    if total is not None and not (np.isfinite(total) and total >= 0):
        raise InvalidParameter("total", total, "must be a number of people >= 0")
    weights = 1.0 / np.where(std > 0, std, max(float(std.max()), 1.0) * 1e-3) ** 2
    weights = weights / weights.max()

    def gradient(x: FloatArray) -> FloatArray:
        return np.asarray(workload.rmatvec(weights * (workload.matvec(x) - answers)))

    curvature = _largest_curvature(workload, weights)
    start = np.full(workload.size, max(float(total or 0.0), 0.0) / workload.size)
    x = momentum = start
    speed, breach, step = 1.0, np.inf, 0
    for step in range(1, steps + 1):
        slope = gradient(momentum)
        moved = _project(momentum - slope / curvature, total, possible)
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        if float((momentum - moved) @ (moved - x)) > 0:  # the momentum points uphill: restart
            faster = 1.0
        change = moved - x
        momentum, x, speed = moved + (speed - 1) / faster * change, moved, faster
        if (
            step % 20 == 0
            and (breach := _breach(x, gradient(x), curvature, total, possible)) < tolerance
        ):
            return NonNegativeFit(x, breach, step)
    return NonNegativeFit(x, _breach(x, gradient(x), curvature, total, possible), steps)


def _largest_curvature(workload: Workload, weights: FloatArray) -> float:
    """Upper estimate of the largest eigenvalue of WᵀDW, by power iteration."""
    vector = np.random.default_rng(0).random(workload.size) + 0.1
    value = 1.0
    for _ in range(50):
        vector = vector / np.linalg.norm(vector)
        vector = np.asarray(workload.rmatvec(weights * workload.matvec(vector)))
        value = float(np.linalg.norm(vector))
    return 1.05 * value


def _breach(
    x: FloatArray,
    slope: FloatArray,
    curvature: float,
    total: float | None,
    possible: npt.NDArray[np.bool_] | None,
) -> float:
    """How far a gradient step would still move the solution, relative to its size."""
    moved = _project(x - slope / curvature, total, possible)
    return float(np.linalg.norm(moved - x) / max(float(np.linalg.norm(x)), 1.0))


def _project(
    x: FloatArray, total: float | None, possible: npt.NDArray[np.bool_] | None
) -> FloatArray:
    if possible is not None:
        inside = np.zeros_like(x)
        inside[possible] = _project(x[possible], total, None)
        return inside
    return np.maximum(x, 0.0) if total is None else project_to_total(x, total)


def project_to_total(values: FloatArray, total: float) -> FloatArray:
    """The nearest non-negative vectors that sum to `total`: all entries lowered alike, cut at 0."""
    if total <= 0:
        return np.zeros_like(values)
    ordered = np.sort(values, axis=-1)[..., ::-1]
    lowering = (np.cumsum(ordered, axis=-1) - total) / np.arange(1, values.shape[-1] + 1)
    last = np.count_nonzero(ordered > lowering, axis=-1, keepdims=True) - 1
    return np.asarray(np.maximum(values - np.take_along_axis(lowering, last, axis=-1), 0.0))


def whole_numbers(values: FloatArray, total: int | None = None) -> npt.NDArray[np.int64]:
    """Non-negative values to whole numbers that keep their (rounded) total: largest remainders.

    No value moves by one or more, unless `total` is not the rounded sum of the values.
    """
    if len(values) and values.min() < 0:
        raise InvalidParameter("values", "array", "must not be negative", "make them so first")
    wanted = int(np.rint(values.sum())) if total is None else int(total)
    down = np.floor(values).astype(np.int64)
    missing = wanted - int(down.sum())
    if missing < 0 or (len(values) == 0 and missing):
        raise InvalidParameter("total", total, "is below the sum of the whole parts", "raise it")
    everyone, extra = divmod(missing, len(values)) if len(values) else (0, 0)
    order = np.argsort(-(values - down), kind="stable")
    down += everyone
    down[order[:extra]] += 1
    return down
