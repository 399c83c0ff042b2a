"""From noisy cumulative counts to bounds: where most people are, how far out the rest reach.

Nothing here sees data. Constants were chosen on shapes of data (benchmarks/bounds.py) so that with
2,000 people and ε = 0.1 hardly anybody is clipped and bounds are little wider than the data.
"""

from __future__ import annotations

from math import ceil, floor, log10

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.workload.questions.quantiles import monotone_counts

_MAGNITUDES = 2.0 ** np.arange(-20, 53, 2)
MAGNITUDES = np.concatenate([-_MAGNITUDES[::-1], [0.0], _MAGNITUDES])
"""Edges of cells of both signs, each four times as far from zero as the one before."""

ZOOM_CELLS = 12
"""Equal cells of the second grid, chosen as all here: on shapes of data."""
# widths of the interval found, on either side: about zero, and away
_AROUND = 1.0
_ASIDE = 0.5  # widths away from zero, where people fill a small part of the interval
_DISTANCES = np.array([0.5, 1.0, 1.5, 2.2, 3.5, 8.0, 24.0])
END_CELLS = 2 * len(_DISTANCES)
_MOST = 0.6  # share of people that an interval must hold to be where they are
# the same on the first grid, and where many are at zero
_AT_FIRST = 0.7
_OF_FEW = 0.85  # where those who are not at zero are few: more of them must be inside
_FEW = 0.8  # share of people below which those who are not at zero are few
_INNER, _OUTER = 0.75, 0.94  # shares of people by whose distances a tail is judged
_SEEN = 2.0  # standard errors that a count must be to be clearly there
# the same of people who are not at zero: a false alarm finds no narrow interval
_OTHERS = 2.5
# share of people who may lie beyond a bound that counts themselves tell
_BEYOND = 0.005
_STEPS = 20  # that fit between the bounds at least: they are rounded to one of them
_FEW_BINS, _MOST_BINS = 25, 60  # more than twenty only where round edges need them
_NEAR_ZERO = 5.0  # a bound so much nearer to zero than the other is put to zero

ROWS = np.array(
    [0, 1, 2, 3, 4, 6, 8, *(2**k * s for k in range(3, 19) for s in (1.5, 2))], float
)
"""Ends of cells of how many rows people have: a cell is above one of them, up to the next."""
_ROWS_KEPT = 0.95  # share of people whose rows should all count


def most_crowded_interval(
    edges: FloatArray, below: FloatArray, share: float = _MOST
) -> tuple[float, float]:
    """The shortest interval between edges in which most people are, by noisy counts below them.

    Far and wide intervals are never the shortest, so that noise cannot make it too wide, and it
    takes much noise to make an empty one seem crowded.
    """
    counts = np.concatenate([[0.0], below])
    inside = counts[None, :] - counts[:, None]
    enough = inside >= share * counts[-1]

    width = edges[None, :] - edges[:, None]
    width = np.where(enough & (width > 0), width, np.inf)

    shortest = int(np.argmin(width))
    first, last = divmod(shortest, len(edges))

    if not np.isfinite(width[first, last]):  # nobody to be seen
        return float(edges[0]), float(edges[-1])

    return float(edges[first]), float(edges[last])


def magnitude(below: FloatArray, spread: FloatArray) -> tuple[float, float]:
    """Where most people are on the signed geometric grid.

    Those at zero are left aside where others clearly are there: else the least interval around zero
    would win wherever many people have none of what is measured.
    """
    counts = np.diff(below, prepend=0.0)
    middle = len(counts) // 2
    counts[middle - 1 : middle + 1] = 0.0

    others = np.cumsum(counts)
    if others[-1] <= _OTHERS * spread[-1]:
        return most_crowded_interval(MAGNITUDES, below, _AT_FIRST)

    few = others[-1] < _FEW * below[-1]
    return most_crowded_interval(MAGNITUDES, others, _OF_FEW if few else _AT_FIRST)


def cells_around(low: float, high: float) -> FloatArray:
    """Equal cells over an interval and around it.

    Away from zero the interval is most of its own distance from zero wide, and people may all be in
    a small part of it, as years are: cells are narrower there.
    """
    aside = low * high > 0
    widths = _ASIDE if aside else _AROUND
    around = widths * (high - low)
    return np.linspace(low - around, high + around, ZOOM_CELLS + 1)


def outward(edges: FloatArray, below: FloatArray, spread: FloatArray) -> FloatArray:
    """Edges that lie ever farther from the median, in units of how far most people spread.

    Zero is one of them where it lies between: who is below zero is a question of its own.
    """
    low, high = most_crowded_interval(edges, below)
    fitted = monotone_counts(below, spread)
    middle = share_place(edges, fitted, 0.5)
    reach = (high - low) / 2

    ends = reach * _DISTANCES
    left = middle - ends[::-1]
    right = middle + ends
    grid = np.concatenate([left, [middle], right])

    if grid[0] < 0 < grid[-1]:
        nearest = int(np.argmin(np.abs(grid)))
        grid[nearest] = 0.0

    return grid


def share_place(edges: FloatArray, fitted: FloatArray, share: float) -> float:
    """Where a share of people lies below, evenly spread within cells; `fitted` never falls."""
    counts = np.concatenate([[0.0], fitted])
    target = share * counts[-1]
    found = int(np.searchsorted(counts, target))
    cell = min(max(found, 1), len(fitted))

    before = counts[cell - 1]
    inside = counts[cell] - before
    part = (target - before) / inside if inside > 0 else 1.0
    part = min(max(part, 0.0), 1.0)

    left = edges[cell - 1]
    right = edges[cell]
    return float(left + part * (right - left))


def ends(
    edges: FloatArray, below: FloatArray, spread: FloatArray
) -> tuple[float, float]:
    """Bounds beyond which hardly anybody lies.

    The ends of the data are too few people to be seen under noise. They are judged by the distance
    from the median to where 6 % are beyond, stretched the more the longer the tail is for the
    distance to where 25 % are: by some 1.4 for evenly spread data, 2.3 for normal ones, 3 and more
    for long tails.
    """
    fitted = monotone_counts(below, spread)
    middle = share_place(edges, fitted, 0.5)

    def end(inner: float, outer: float) -> float:
        near = abs(share_place(edges, fitted, inner) - middle)
        far = abs(share_place(edges, fitted, outer) - middle)
        length = far / near if near > 0 else np.inf
        stretch = np.clip(1.5 * (length - 0.82), 1.15, 6.0)
        return far * float(stretch)

    lower = middle - end(1 - _INNER, 1 - _OUTER)
    upper = middle + end(_INNER, _OUTER)

    beyond = _BEYOND * below[-1] / 2
    if _SEEN * float(spread.max()) < beyond:
        lower, upper = _seen(edges, fitted, lower, upper)

    zero = np.flatnonzero(edges[1:-1] == 0)
    if len(zero) and lower < 0 < upper:
        negative = below[zero[0]]
        error = _SEEN * spread[zero[0]]
        lower = 0.0 if negative < error else lower
        upper = 0.0 if below[-1] - negative < error else upper

    return _rounded(min(lower, upper), max(lower, upper))


def _seen(
    edges: FloatArray, fitted: FloatArray, lower: float, upper: float
) -> tuple[float, float]:
    """The same bounds where counts are clear enough to say themselves where nearly all people end.

    Few different values, as 0 and 1, have no tail to be judged by: a bound is then no farther than
    the first edge beyond which nearly nobody is, and no nearer than where nearly all have come.
    """
    counts = np.concatenate([[0.0], fitted])
    most = _BEYOND * counts[-1]

    low = edges[np.flatnonzero(counts < most)[-1]]
    high = edges[np.flatnonzero(counts[-1] - counts < most)[0]]

    from_below = share_place(edges, fitted, _BEYOND)
    from_above = share_place(edges, fitted, 1 - _BEYOND)

    lower = min(max(lower, low), from_below)
    upper = max(min(upper, high), from_above)
    return lower, upper


def _rounded(lower: float, upper: float) -> tuple[float, float]:
    """Outward to a step that people count in; a side near zero for its size becomes zero."""
    if 0 < lower < upper / _NEAR_ZERO:
        lower = 0.0

    if lower / _NEAR_ZERO < upper < 0:
        upper = 0.0

    width = upper - lower
    step = _step(max(width, abs(upper) * 1e-9, 1e-30))
    first = floor(lower / step)
    last = max(ceil(upper / step), first + 1)

    return _multiple(first, step), _multiple(last, step)


def _step(width: float) -> float:
    """The largest 1, 2 or 5 times a power of ten of which a width holds `_STEPS` or more."""
    widest = width / _STEPS
    power = 10.0 ** floor(log10(widest))
    steps = [k * power for k in (1, 2, 5)]
    return max(step for step in steps if step <= widest * (1 + 1e-9))


def _multiple(number: int, step: float) -> float:
    """So many steps as the decimal number that people would write."""
    return float(f"{number * step:.14g}")


def even_edges(lower: float, upper: float) -> tuple[float, ...]:
    """Equal bins between two bounds, at the steps that people count in: some twenty if they fit."""
    width = upper - lower
    rounding = 1e-15 * (abs(lower) + abs(upper))
    power = 10.0 ** floor(log10(width / _MOST_BINS))

    for most in (_FEW_BINS, _MOST_BINS):
        for times in (1, 2, 5, 10, 20, 50):
            step = times * power
            first = round(lower / step)
            last = round(upper / step)
            off = abs(first * step - lower) + abs(last * step - upper)
            if off < 1e-6 * step + rounding and last - first <= most:
                inner = (_multiple(k, step) for k in range(first + 1, last))
                return lower, *inner, upper

    even = np.linspace(lower, upper, _FEW_BINS)
    inner = (float(f"{edge:.12g}") for edge in even[1:-1])
    return lower, *inner, upper


def rows_to_keep(up_to: FloatArray, spread: FloatArray) -> int:
    """How many rows of a person should count, from noisy counts of people with up to so many."""
    fitted = monotone_counts(up_to, spread)
    kept = _ROWS_KEPT * fitted[-1]
    cell = int(np.searchsorted(fitted, kept))
    cell = min(cell, len(fitted) - 1)
    return int(ROWS[cell + 1])
