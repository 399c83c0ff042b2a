"""Quantiles from noisy cumulative counts, with intervals that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.workload.base import FloatArray


@dataclass(frozen=True)
class Quantile:
    """A quantile of people's values; `lower` and `upper` are edges of bins that enclose it."""

    level: float
    estimate: float
    lower: float
    upper: float


def monotone_counts(cumulative: FloatArray, std: FloatArray) -> FloatArray:
    """Cumulative counts that never fall nor go below zero, nearest in weighted least squares."""
    from scipy.optimize import isotonic_regression

    weights = 1.0 / np.maximum(std, 1e-9 * max(float(std.max(initial=0.0)), 1.0)) ** 2
    fitted = isotonic_regression(cumulative, weights=weights / weights.max())
    return np.maximum(np.asarray(fitted.x, dtype=np.float64), 0.0)


def quantiles(
    cumulative: FloatArray,
    std: FloatArray,
    halfwidth: FloatArray,
    edges: npt.ArrayLike,
    levels: Sequence[float],
) -> list[Quantile]:
    """Invert a noisy CDF over bins with `edges`; values are spread evenly within a bin.

    `halfwidth` must cover all cumulative counts at once; then all intervals hold at once, and with
    the same probability: a bin is ruled out only where the band shows that the quantile lies
    elsewhere, whatever the true number of people within its own interval.
    """
    ends = np.asarray(edges, dtype=np.float64)
    # The last cell may be a single number: both its ends are that number.
    rising = (np.diff(ends)[:-1] > 0).all() and ends[-1] >= ends[-2]
    if len(ends) != len(cumulative) + 1 or not rising:
        raise InvalidParameter(
            "edges", len(ends), f"must be {len(cumulative) + 1} rising numbers", "give all edges"
        )
    check_levels(levels)
    fitted = monotone_counts(cumulative, std)
    high = cumulative + halfwidth
    low = np.maximum.accumulate(np.maximum(cumulative - halfwidth, 0.0))
    high = np.maximum(np.minimum.accumulate(high[::-1])[::-1], 0.0)
    return [_quantile(level, fitted, low, high, ends) for level in levels]


def check_levels(levels: Sequence[float]) -> None:
    """Refuse levels of no quantile."""
    for level in levels:
        if not 0 < level < 1:
            raise InvalidParameter("level", level, "must lie in (0, 1)", "0.5 is the median")


def _quantile(
    level: float, fitted: FloatArray, low: FloatArray, high: FloatArray, edges: FloatArray
) -> Quantile:
    target = level * fitted[-1]
    bin_ = min(int(np.searchsorted(fitted, target)), len(fitted) - 1)
    before = fitted[bin_ - 1] if bin_ else 0.0
    inside = fitted[bin_] - before
    share = (target - before) / inside if inside > 0 else 0.5
    estimate = edges[bin_] + float(np.clip(share, 0, 1)) * (edges[bin_ + 1] - edges[bin_])
    possible = np.flatnonzero(high >= level * low[-1])
    certain = np.flatnonzero(low >= level * high[-1])
    first = int(possible[0]) if len(possible) else len(fitted) - 1
    last = int(certain[0]) if len(certain) else len(fitted) - 1
    return Quantile(
        float(level),
        float(estimate),
        float(min(edges[first], estimate)),
        float(max(edges[last + 1], estimate)),
    )
