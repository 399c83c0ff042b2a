"""How wrong answers under carry noise are: exact second moments, and intervals that hold.

An error is a sum of independent parts, one per draw, that are neither Laplace nor Gaussian: where
a core is cancelled, mostly nothing, and rarely much. How many deviations hold it is found by
simulation, from above; far out, where that would take long, by a bound that is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.law import Tail, log_sinh_ratio
from noisewright.estimate.accuracy import (
    Accuracy,
    check_covariances,
)
from noisewright.estimate.intervals import (
    check_level,
    largest_error_quantile,
)
from noisewright.workload.linear.tensor import (
    marginal_tables,
    spread,
)
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.central.carry.mechanism import CarryMechanism

# what is public may seem to vary, by rounding: no division by zero
_LEAST_REACH = 1e-300
# of a variance without correlations: what is less is what sums of it lost
_ROUNDING = 1e-11
# answers whose laws are simulated: of least and largest variance, and between
_WATCHED = 512
_DRAWS = (
    2**20,
    4000,
    10_000,
)  # in all over the rows, at least, at most
_SEEN = 40  # simulated errors beyond a level that tell where it lies
_CHUNK = 2**22  # numbers handled at a time: 32 MB
_RATES = np.tanh(np.linspace(0.02, 3.0, 48))  # of the largest that the tails allow


@dataclass(frozen=True, eq=False)
class CarryAccuracy(Accuracy):
    """Linear answers from rows under carry noise."""

    mechanism: CarryMechanism
    terms: tuple[Term, ...]

    @cached_property
    def alike(self) -> bool:
        """A combination that cancels cores has mostly no error, and rarely many deviations."""
        return False

    @cached_property
    def _cells(self) -> FloatArray:
        """Covariances of what the measurement says of all cells."""
        return self.mechanism.cells(self.mechanism.cells(self.mechanism.covariance).T)

    @cached_property
    def variance(self) -> FloatArray:
        sizes = self.mechanism.sizes
        numbers: dict[tuple[int, ...], list[int]] = {}
        for number, term in enumerate(self.terms):
            numbers.setdefault(term.attributes, []).append(number)

        pieces: dict[int, FloatArray] = {}
        uncorrelated = dict(marginal_tables(self._cells.diagonal(), sizes, numbers))
        for attributes, half in marginal_tables(self._cells, sizes, numbers):
            ((_, table),) = marginal_tables(half.T, sizes, [attributes])
            for number in numbers[attributes]:
                pieces[number] = _variances(
                    self.terms[number],
                    table,
                    uncorrelated[attributes],
                )

        return np.concatenate([pieces[number] for number in range(len(self.terms))])

    def covariance(self, chosen: IntArray) -> FloatArray:
        cells = len(self._cells)
        check_covariances(sum(term.queries for term in self.terms) * cells)
        rows = self.mechanism.effect(np.eye(cells), self.terms)
        return rows @ (self._cells @ rows[chosen].T)

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        errors = self.mechanism.cells(self.mechanism.simulated(count, rng))
        return self.mechanism.effect(errors, self.terms).T

    # --- the law of one answer --------------------------------------------------------------------

    @cached_property
    def _watched(self) -> IntArray:
        """Some answers of noise, by their variances; in order."""
        moved = np.flatnonzero(self.variance > 0)
        if not len(moved):
            return moved
        ranked = moved[np.argsort(self.variance[moved], kind="stable")]
        places = np.linspace(0, len(ranked) - 1, _WATCHED).round().astype(np.int64)
        return np.sort(ranked[np.unique(places)])

    def _rows(self, chosen: IntArray) -> FloatArray:
        """What every row of the measurement adds to some answers, given in order."""
        cells = np.concatenate(list(self._cell_weights(chosen)))
        inverse = self.mechanism.inverse
        return self.mechanism.cells(cells) if inverse is None else cells @ inverse

    def _cell_weights(self, chosen: IntArray) -> Iterator[FloatArray]:
        """What every cell adds to some answers, a batch of these at a time."""
        start = 0
        for term in self.terms:
            numbers = chosen[(chosen >= start) & (chosen < start + term.queries)]
            numbers = numbers - start
            start += term.queries
            step = max(1, _CHUNK // term.queries)
            for first in range(0, len(numbers), step):
                batch = numbers[first : first + step]
                units = np.zeros((term.queries, len(batch)))
                units[batch, np.arange(len(batch))] = term.weight
                table = np.asarray(term.inner.rmatvec(units))
                yield spread(table, self.mechanism.sizes, term.attributes).T

    @cached_property
    def _simulated(self) -> FloatArray:
        """Standardised errors of the watched answers: one answer a column."""
        in_all, least, most = _DRAWS
        count = int(np.clip(in_all // self.mechanism.carries.rows, least, most))
        noise = self.mechanism.simulated(count, np.random.default_rng(0))
        errors = np.abs(self._rows(self._watched) @ noise)
        return (errors / np.sqrt(self.variance[self._watched])[:, None]).T

    def multiplier(self, level: float) -> float:
        """The widest of the watched answers'; found from above, or proved where it is far out."""
        alarm = 1 - check_level(level)
        if not len(self._watched):
            return 0.0

        proved = self._bound(self._watched, alarm / 2)
        if alarm * len(self._simulated) < _SEEN:
            return proved
        return min(proved, largest_error_quantile(self._simulated, level))

    def tail(self, alarm: float) -> float | None:
        moved = np.flatnonzero(self.variance > 0)
        if len(moved) < len(self.variance) or not len(moved):
            return None
        if len(moved) * self.mechanism.carries.rows > _CHUNK:
            return None
        return self._bound(moved, alarm)

    def _bound(
        self,
        chosen: IntArray,
        alarm: float,
    ) -> float:
        """Deviations that none of these answers exceeds with more than this probability.

        Chernoff's bound, with the generating function of the very integers: a core that is dealt in
        packets is nowhere farther than `slack` from one that is carried in proportion.
        """
        deviations = np.sqrt(self.variance[chosen])
        largest = 0.0
        step = max(
            1,
            _CHUNK // (len(_RATES) * self.mechanism.carries.rows),
        )

        for first in range(0, len(chosen), step):
            part = slice(first, first + step)
            bounds = self._chernoff(self._rows(chosen[part]), alarm)
            largest = max(largest, float((bounds / deviations[part]).max()))

        return largest

    def _chernoff(
        self,
        rows: FloatArray,
        alarm: float,
    ) -> FloatArray:
        """min over θ of (Σ ln E e^(θ·noise) − ln alarm)/θ, for what rows add to answers."""
        mechanism = self.mechanism
        carries = mechanism.carries
        if mechanism.closed:  # the last row takes back what all others add up to
            rows = rows - rows[:, carries.order[-1]][:, None]
            alarm = alarm * mechanism.accepted

        full = rows @ carries.full_cores
        slack = np.abs(rows) @ carries.slack
        tail = Tail(mechanism.scale)
        width = 2.0 * carries.cores + 1
        shares = full / np.maximum(carries.cores, 1)
        reach = np.abs(rows).max(axis=1, keepdims=True) * mechanism.scale
        reach = np.maximum(reach, _LEAST_REACH)
        best = np.full(len(rows), np.inf)

        for rate in _RATES:
            theta = rate / reach
            inside = theta * slack + log_sinh_ratio(theta * shares, width)
            above = theta * full + tail.log_beyond(theta * rows)
            below = -theta * full + tail.log_beyond(-theta * rows)
            logs = np.logaddexp(inside, np.logaddexp(above, below))
            logs = logs - np.log(tail.total(carries.cores))
            best = np.minimum(
                best,
                (logs.sum(axis=1) - np.log(alarm)) / theta[:, 0],
            )

        return best


def _variances(
    term: Term,
    covariance: FloatArray,
    uncorrelated: FloatArray,
) -> FloatArray:
    """Of a term whose table's cells have this covariance, or would have without correlations.

    What is left of an answer that is public, as the number of replaced people, is rounding.
    """
    squares = term.inner.row_quadratics(covariance)
    moved = squares > _ROUNDING * term.inner.row_squares(uncorrelated)
    return np.asarray(term.weight**2 * np.where(moved, squares, 0.0))
