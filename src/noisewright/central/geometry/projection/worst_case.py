"""How far the nearest possible answers can be from the truth, whatever the data.

Let y be what is fitted to, z its noise and y* the nearest possible point of a convex set that holds
y. Then ‖y* - y‖² <= ⟨z, y* - y⟩ <= ‖z‖². Where points are those of P people, ⟨z, y*⟩ is at most P
times the largest of ⟨z, column⟩ over the cells, and ⟨z, y⟩ is zero on average, so that the mean of
‖y* - y‖² is at most P times the mean of that largest one: less than the noise where people are few.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.estimate.accuracy import Accuracy
from noisewright.estimate.fits.projection import Possible

_DRAWS = 100
_SURE = 3.29  # deviations: 99.95 % for a mean of that many draws


def fit_error(
    noise: Accuracy,
    fitted: FloatArray | None,
    possible: Possible,
) -> float:
    """Root of a mean of ‖y* - y‖² that no data exceed; `fitted` is None where cells are fitted.

    The mean of the largest product is by simulation, the upper end of a 99.95 % interval.
    """
    draws = noise.draw(_DRAWS, np.random.default_rng(0))
    largest = (draws if fitted is None else draws @ fitted).max(axis=1)
    if possible.at_most:
        largest = np.maximum(largest, 0.0)
    width = float(largest.mean() + _SURE * largest.std(ddof=1) / sqrt(_DRAWS))
    return sqrt(min(float(noise.variance.sum()), max(0.0, possible.people * width)))


def answer_error(
    asked: FloatArray,
    fitted: FloatArray | None,
    distance: float,
    possible: Possible,
) -> float:
    """A root mean square error of the answers asked that no data exceed.

    Answers are a combination of what is fitted to, which is `distance` off, and of a rest that
    people can move between its least and its largest over the cells.
    """
    factors = asked
    rest = np.zeros_like(asked)
    if fitted is not None:
        free = (
            0.0 if possible.at_most else 1.0
        )  # constants over cells cost nothing: people are known
        rows, wanted = (
            own - free * own.mean(axis=1, keepdims=True) for own in (fitted, asked)
        )
        factors = np.linalg.lstsq(rows.T, wanted.T, rcond=None)[0].T
        rest = asked - factors @ fitted

    whole = _largest_root(factors) * distance + possible.people * _moved(rest, possible)
    return min(whole, possible.people * _moved(asked, possible)) / sqrt(len(asked))


def _moved(rows: FloatArray, possible: Possible) -> float:
    """How far two persons' answers to these rows lie apart at most, or one's from nobody's."""
    high = rows.max(axis=1)
    low = rows.min(axis=1)
    if possible.at_most:
        high = np.maximum(high, 0.0)
        low = np.minimum(low, 0.0)
    return float(np.linalg.norm(high - low))


def _largest_root(matrix: FloatArray) -> float:
    """The largest singular value."""
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    return sqrt(max(0.0, float(np.linalg.eigvalsh(tall.T @ tall)[-1])) * (1 + 1e-9))
