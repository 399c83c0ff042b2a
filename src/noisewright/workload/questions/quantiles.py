"""Quantiles from noisy cumulative counts, with intervals at edges of bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import require


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
    margins: FloatArray,
    edges: npt.ArrayLike,
    levels: Sequence[float],
) -> list[Quantile]:
    """Invert a noisy CDF over bins with `edges`; values are spread evenly within a bin.

    Up to the bin of quantile p there are at least p times all people, and before it fewer. A bin is
    ruled out where noisy people up to it, less p times all noisy people, fall below zero by more
    than a margin, or where those before it reach a margin above zero. `margins`, one row per level,
    must hold the error of that difference at each bin by itself, as often below as above: so often
    an interval holds at least, as the bin that is meant is ruled out by one test on either side.
    Margins that hold one difference of every level at once make intervals that hold at once.
    """
    ends = np.asarray(edges, dtype=np.float64)
    # The last cell may be a single number: both its ends are that number.
    rising = (np.diff(ends)[:-1] > 0).all() and ends[-1] >= ends[-2]
    require(
        len(ends) == len(cumulative) + 1 and rising,
        "edges",
        len(ends),
        f"must be {len(cumulative) + 1} rising numbers",
        "give all edges",
    )

    check_levels(levels)
    fitted = monotone_counts(cumulative, std)
    found = []

    for level, margin in zip(levels, margins, strict=True):
        estimate = _estimate(level, fitted, ends)
        first, last = _possible_bins(cumulative - level * cumulative[-1], margin)
        lower = min(ends[first], estimate)
        upper = max(ends[last + 1], estimate)
        found.append(Quantile(float(level), estimate, float(lower), float(upper)))

    return found


def check_levels(levels: Sequence[float]) -> None:
    """Refuse levels of no quantile."""
    for level in levels:
        require(
            0 < level < 1, "level", level, "must lie in (0, 1)", "0.5 is the median"
        )


def _estimate(level: float, fitted: FloatArray, edges: FloatArray) -> float:
    target = level * fitted[-1]
    bin_ = min(int(np.searchsorted(fitted, target)), len(fitted) - 1)
    before = fitted[bin_ - 1] if bin_ else 0.0
    inside = fitted[bin_] - before
    share = (target - before) / inside if inside > 0 else 0.5

    return float(
        edges[bin_] + float(np.clip(share, 0, 1)) * (edges[bin_ + 1] - edges[bin_])
    )


def _possible_bins(excess: FloatArray, margin: FloatArray) -> tuple[int, int]:
    """The first and the last bin that a quantile may lie in, by people up to each in excess of it.

    Nobody is before the first bin, and everybody up to the last.
    """
    enough = np.flatnonzero(excess >= -margin)
    few = np.flatnonzero(excess[:-1] < margin[:-1])
    first = int(enough[0]) if len(enough) else len(excess) - 1
    last = int(few[-1]) + 1 if len(few) else 0

    return min(first, last), max(first, last)
