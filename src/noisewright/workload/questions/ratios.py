"""Ratios of noisy sums to noisy counts: which are stated, and the ends of their intervals."""

from __future__ import annotations

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.workload.questions.statistics import Ends, Noisy

_CLEAR = 4
"""Half-widths that a count must be for a ratio to it to be stated: a promise of every record."""


def clear_counts(counts: Noisy, width: float) -> FloatArray:
    """Counts that are clear of their noise; NaN for others."""
    people = counts.values
    clear = (people > 0) & (people >= _CLEAR * width * counts.std)

    return np.where(clear, people, np.nan)


def ratio_ends(
    counts: Noisy,
    sums: Noisy,
    width: float,
    least: FloatArray | float,
    most: FloatArray | float,
) -> Ends:
    """Ends of the ratios r between `least` and `most` for which sum − r·count may be nothing.

    That is where it is within `width` of its own standard errors (Fieller):
    (s − rn)² <= width²(σ_s² + r²σ_n²), a quadratic inequality a·r² − 2b·r + c <= 0. Where the count
    is clear of its noise the roots are the ends. Else all ratios pass but those between the roots,
    if there are any, and the ends are those of what is left between `least` and `most`.
    """
    half = width * counts.std
    spread = width * sums.std
    a = counts.values**2 - half**2
    b = sums.values * counts.values
    c = sums.values**2 - spread**2

    # b² − ac without the square that cancels; nobody has no ratio.
    crossed = (counts.values * spread) ** 2
    crossed += (sums.values * half) ** 2
    crossed -= (half * spread) ** 2
    nobody = (counts.values == 0) & (half == 0)
    discriminant = np.where(nobody, np.nan, crossed)
    lower, upper = _roots(a, b, c, discriminant)

    def passes(ratio: FloatArray | float) -> BoolArray:
        below = a * ratio * ratio - 2 * b * ratio + c <= 0
        return np.asarray(np.isnan(lower) | below)

    # An end that does not pass is moved to the root beside it.
    above = np.where(lower >= least, lower, upper)
    below = np.where(upper <= most, upper, lower)
    first = np.where(passes(least), least, above)
    last = np.where(passes(most), most, below)
    ends = np.clip([first, last], least, most)

    return ends.min(axis=0), ends.max(axis=0)


def _roots(
    a: FloatArray, b: FloatArray, c: FloatArray, discriminant: FloatArray
) -> Ends:
    """Roots of a·r² − 2b·r + c, both from the sum that does not cancel; NaN if there are none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        q = b + np.copysign(np.sqrt(discriminant), b)
        roots = np.array([q / a, c / q])

    return np.fmin(*roots), np.fmax(*roots)
