"""The possible answers nearest to noisy ones: those of a histogram of people, found with a proof.

Over histograms h of so many people, ½‖Wh - y‖² is made small by accelerated steps. At any h the
gap ⟨∇, h⟩ - people·min ∇ bounds what is left to gain, and so ½‖W(h - best)‖²: that is when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.estimate.fits.nonnegative import project_to_total
from noisewright.workload import Workload

_DENSE_CELLS = 2048  # whose Gram matrix is multiplied as it is
_MOST_STEPS = 2000
_POWER_STEPS = 30
_CHECKED = 10  # steps between looks at the gap


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

    def gaps(self, gradient: FloatArray, x: FloatArray) -> FloatArray:
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
            (len(answers), self.workload.size), possible.people / self.workload.size
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
