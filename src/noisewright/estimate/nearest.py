"""The possible answers nearest to noisy ones: those of a histogram of people, found with a proof.

Over histograms h of so many people, ½‖Wh - y‖² is made small by accelerated steps. At any h the
gap ⟨∇, h⟩ - people·min ∇ bounds what is left to gain, and so ½‖W(h - best)‖²: that is when to stop.

How far the nearest possible answers can be from the truth, whatever the data.

Let y be what is fitted to, z its noise and y* the nearest possible point of a convex set that holds
y. Then ‖y* - y‖² <= ⟨z, y* - y⟩ <= ‖z‖². Where points are those of P people, ⟨z, y*⟩ is at most P
times the largest of ⟨z, column⟩ over the cells, and ⟨z, y⟩ is zero on average, so that the mean of
‖y* - y‖² is at most P times the mean of that largest one: less than the noise where people are few.

Shares that are not negative and sum to one, nearest in a given metric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.estimate.accuracy import Accuracy
from noisewright.workload import Workload

_DENSE_CELLS = 2048  # whose Gram matrix is multiplied as it is
# of acceleration: the gap that they leave is told, and nothing relies on its size
_MOST_STEPS = 2000
# of the largest eigenvalue, which is then raised by 5 %: what they miss costs steps alone
_POWER_STEPS = 30
_CHECKED = 10  # steps between looks at the gap


def project_to_total(
    values: FloatArray,
    total: float,
) -> FloatArray:
    """The nearest non-negative vectors that sum to `total`: all entries lowered alike, cut at 0."""
    if total <= 0:
        return np.zeros_like(values)

    ordered = np.sort(values, axis=-1)[..., ::-1]
    counts = np.arange(1, values.shape[-1] + 1)
    lowering = (np.cumsum(ordered, axis=-1) - total) / counts
    last = np.count_nonzero(ordered > lowering, axis=-1, keepdims=True) - 1

    return np.maximum(values - np.take_along_axis(lowering, last, axis=-1), 0.0)


@dataclass(frozen=True, eq=False)
class Possible:
    """Histograms of exactly so many people, or of at most so many."""

    people: float
    at_most: bool = False

    def nearest(self, x: FloatArray) -> FloatArray:
        """The nearest of these histograms to every row."""
        if not self.at_most:
            return project_to_total(x, self.people)
        positive = np.maximum(x, 0.0)
        many = positive.sum(axis=-1, keepdims=True) > self.people
        return np.where(many, project_to_total(x, self.people), positive)

    def gaps(
        self,
        gradient: FloatArray,
        x: FloatArray,
    ) -> FloatArray:
        """What any of these histograms could still gain over every row, at most."""
        least = gradient.min(axis=-1)
        lowest = self.people * (np.minimum(least, 0.0) if self.at_most else least)
        return np.asarray(np.maximum(0.0, np.einsum("ij,ij->i", gradient, x) - lowest))


@dataclass(frozen=True, eq=False)
class AnswerSpace:
    """Distances between the answers to a workload."""

    workload: Workload

    @cached_property
    def _product(self) -> Callable[[FloatArray], FloatArray]:
        """WᵀW times every row."""
        workload = self.workload
        if workload.size <= min(_DENSE_CELLS, 2 * workload.queries):
            gram = workload.gram().dense()
            return lambda x: x @ gram
        return lambda x: workload.rmatvec(workload.matvec(x.T)).T

    @cached_property
    def curvature(self) -> float:
        """A little above the largest eigenvalue of WᵀW, by powers of it from a fixed start."""
        x = np.random.default_rng(0).random((1, self.workload.size))
        value = 1.0
        for _ in range(_POWER_STEPS):
            y = self._product(x)
            value = float(np.linalg.norm(y))
            if value == 0.0:
                return 1.0
            x = y / value

        return 1.05 * value

    def nearest(
        self,
        answers: FloatArray,
        possible: Possible,
        tolerance: float,
    ) -> tuple[FloatArray, float]:
        """Histograms whose answers are nearest to every row, and how far from the nearest at most.

        Steps end within `tolerance` of the nearest answers, or where there were too many.
        """
        targets = self.workload.rmatvec(answers.T).T
        lipschitz = self.curvature
        x = np.full(
            (len(answers), self.workload.size),
            possible.people / self.workload.size,
        )
        ahead = x
        momentum = np.ones((len(x), 1))
        gap = np.inf

        for step in range(1, _MOST_STEPS + 1):
            gradient = self._product(ahead) - targets
            moved = possible.nearest(ahead - gradient / lipschitz)
            if step % _CHECKED == 0:
                gaps = possible.gaps(self._product(moved) - targets, moved)
                gap = float(gaps.max(initial=0.0))
                if gap <= tolerance**2 / 2:
                    x = moved
                    break

            change = moved - x
            uphill = np.einsum("ij,ij->i", ahead - moved, change)[:, None] > 0
            momentum = np.where(uphill, 1.0, momentum)
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = moved + (momentum - 1) / following * change
            x = moved
            momentum = following

        return x, float(np.sqrt(2 * gap))


_DRAWS = 100  # of the largest product: what they leave open is in the interval
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
    return sqrt(
        min(
            float(noise.variance.sum()),
            max(0.0, possible.people * width),
        )
    )


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
            matrix - free * matrix.mean(axis=1, keepdims=True)
            for matrix in (fitted, asked)
        )
        factors = np.linalg.lstsq(rows.T, wanted.T, rcond=None)[0].T
        rest = asked - factors @ fitted

    whole = _largest_root(factors) * distance + possible.people * _moved(rest, possible)
    return min(whole, possible.people * _moved(asked, possible)) / sqrt(len(asked))


def _moved(
    rows: FloatArray,
    possible: Possible,
) -> float:
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


_SIMPLEX_STEPS = 10
"""Times the number of cells: a step adds a cell to those above zero, and few ever leave again."""


def fit_on_simplex(
    metric: FloatArray,
    pull: FloatArray,
) -> FloatArray:
    """The shares p ≥ 0, Σp = 1, at which ½pᵀAp − bᵀp is least, for positive definite A.

    With A = LLᵀ and Ly = b that is ½‖Bp‖² up to a constant, B = Lᵀ − y1ᵀ, since Σp = 1. Where q ≥ 0
    makes ‖Bq‖² + κ²(Σq − 1)² least, whatever κ, q/Σq does so on the simplex: ‖Bp‖² = m leaves
    κ²m/(κ² + m) at the best multiple of p, which rises with m.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    lower = np.linalg.cholesky(metric)
    target = solve_triangular(lower, pull, lower=True)
    columns = lower.T - target[:, None]

    # Of the size of the columns, so that no digits are lost between the two parts.
    scale = float(np.linalg.norm(columns, axis=0).mean())
    rows = np.vstack([columns / scale, np.ones(len(pull))])
    multiple, _ = nnls(
        rows,
        np.append(np.zeros(len(pull)), 1.0),
        maxiter=_SIMPLEX_STEPS * len(pull),
    )

    return np.asarray(multiple / multiple.sum())
