"""How wrong answers under carry noise are: exact second moments, and intervals that hold.

An error is a sum of independent parts, one per draw, that are neither Laplace nor Gaussian: where
a core is cancelled, mostly nothing, and rarely much. How many deviations hold it is found by
simulation, from above; far out, where that would take long, by a bound that is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.carries import Tail
from noisewright.errors import TooLarge
from noisewright.estimate.accuracy import Accuracy
from noisewright.estimate.intervals import check_level, largest_error_quantile
from noisewright.workload.linear.tensor import marginal_tables
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.central.carry.mechanism import CarryMechanism

_CROSS_LIMIT = 2**26
_LEAST_REACH = 1e-300
_ROUNDING = 1e-11
# answers whose laws are simulated: of least and largest variance, and between
_WATCHED = 512
_DRAWS = 2**20, 4000, 10_000  # in all over the rows, at least, at most
_SEEN = 40  # simulated errors beyond a level that tell where it lies
_CHUNK = 2**22
_RATES = np.tanh(np.linspace(0.02, 3.0, 48))  # of the largest that the tails allow


@dataclass(frozen=True, eq=False)
class CarryAccuracy(Accuracy):
    """Linear answers from rows under carry noise."""

    mechanism: CarryMechanism
    terms: tuple[Term, ...]

    @property
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
        numbers = dict[tuple[int, ...], list[int]]()
        for number, term in enumerate(self.terms):
            numbers.setdefault(term.attributes, []).append(number)

        pieces: dict[int, FloatArray] = {}
        apart = dict(marginal_tables(self._cells.diagonal(), sizes, numbers))
        for attributes, half in marginal_tables(self._cells, sizes, numbers):
            ((_, table),) = marginal_tables(half.T, sizes, [attributes])
            for number in numbers[attributes]:
                pieces[number] = _variances(
                    self.terms[number], table, apart[attributes]
                )

        return np.concatenate([pieces[number] for number in range(len(self.terms))])

    def covariance(self, chosen: IntArray) -> FloatArray:
        cells = len(self._cells)
        if sum(term.queries for term in self.terms) * cells > _CROSS_LIMIT:
            raise TooLarge(
                "covariances of so many answers are too large; declare fewer tables at once"
            )

        rows = self.mechanism.effect(np.eye(cells), self.terms)
        return rows @ (self._cells @ rows[chosen].T)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        errors = self.mechanism.cells(self.mechanism.simulated(count, rng))
        return self.mechanism.effect(errors, self.terms).T

    # --- the law of one answer --------------------------------------------------------------------

    @cached_property
    def _watched(self) -> IntArray:
        moved = np.flatnonzero(self.variance > 0)
        ranked = moved[np.argsort(self.variance[moved], kind="stable")]
        places = np.unique(
            np.linspace(0, len(ranked) - 1, _WATCHED).round().astype(np.int64)
        )
        return ranked[places] if len(ranked) else ranked

    def _rows(self, chosen: IntArray) -> FloatArray:
        """What every row of the measurement adds to some answers."""
        pieces = []
        start = 0
        sizes = self.mechanism.sizes
        for term in self.terms:
            own = chosen[(chosen >= start) & (chosen < start + term.queries)] - start
            step = max(1, _CHUNK // term.queries)
            for first in range(0, len(own), step):
                units = np.zeros((term.queries, len(own[first : first + step])))
                units[own[first : first + step], np.arange(units.shape[1])] = (
                    term.weight
                )
                table = term.inner.rmatvec(units)
                shape = [n if i in term.attributes else 1 for i, n in enumerate(sizes)]
                spread = np.broadcast_to(
                    table.reshape(*shape, -1), (*sizes, units.shape[1])
                )
                pieces.append(
                    np.ascontiguousarray(spread).reshape(len(self._cells), -1).T
                )

            start += term.queries

        cells = np.concatenate(pieces)
        inverse = self.mechanism.inverse
        return self.mechanism.cells(cells) if inverse is None else cells @ inverse

    @cached_property
    def _simulated(self) -> FloatArray:
        """Standardised errors of the watched answers, in order for each: one answer a column."""
        in_all, least, most = _DRAWS
        count = min(most, max(least, in_all // self.mechanism.carries.rows))
        watched = np.sort(self._watched)
        noise = self.mechanism.simulated(count, np.random.default_rng(0))
        errors = (
            np.abs(self._rows(watched) @ noise)
            / np.sqrt(self.variance[watched])[:, None]
        )

        return errors.T

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

    def _bound(self, chosen: IntArray, alarm: float) -> float:
        """Deviations that none of these answers exceeds with more than this probability.

        Chernoff's bound, with the generating function of the very integers: a core that is dealt in
        packets is nowhere farther than `slack` from one that is carried in proportion.
        """
        chosen = np.sort(chosen)
        deviations = np.sqrt(self.variance[chosen])
        largest = 0.0
        step = max(1, _CHUNK // (len(_RATES) * self.mechanism.carries.rows))

        for first in range(0, len(chosen), step):
            part = slice(first, first + step)
            rows = self._rows(chosen[part])
            largest = max(
                largest, float((self._exceeded(rows, alarm) / deviations[part]).max())
            )

        return largest

    def _exceeded(self, rows: FloatArray, alarm: float) -> FloatArray:
        mechanism = self.mechanism
        carries = self.mechanism.carries
        if mechanism.closed:  # the last row takes back what all others add up to
            rows = rows - rows[:, carries.order[-1]][:, None]
            alarm = alarm * mechanism.accepted

        full = rows @ carries.full_cores
        slack = np.abs(rows) @ carries.slack
        tail = Tail(mechanism.scale)
        cores = carries.cores.astype(np.float64)
        reach = np.abs(rows).max(axis=1, keepdims=True) * mechanism.scale
        # what is public may seem to vary, by rounding
        reach = np.maximum(reach, _LEAST_REACH)
        best = np.full(len(rows), np.inf)

        for rate in _RATES:
            theta = rate / reach
            shares = np.where(cores, full / np.maximum(cores, 1), 0.0)
            flat = theta * slack + _log_sinh_ratio(theta * shares, 2 * cores + 1)
            ends = [
                s * theta * full + tail.log_beyond(s * theta * rows) for s in (1, -1)
            ]
            total = np.logaddexp(flat, np.logaddexp(*ends)) - np.log(
                2 * cores + 1 + 2 * tail.mass
            )
            best = np.minimum(best, (total.sum(axis=1) - np.log(alarm)) / theta[:, 0])

        return best


def _variances(
    term: Term,
    covariance: FloatArray,
    apart: FloatArray,
) -> FloatArray:
    """Of a term whose table's cells have this covariance; `apart` is it without correlations.

    What is left of an answer that is public, as the number of replaced people, is rounding.
    """
    squares = term.inner.row_quadratics(covariance)
    moved = squares > _ROUNDING * term.inner.row_squares(apart)
    return term.weight**2 * np.where(moved, squares, 0.0)


def _log_sinh_ratio(x: FloatArray, width: FloatArray) -> FloatArray:
    """ln of Σ e^(xv) over |v| <= c, which is sinh(x·width/2)/sinh(x/2), width = 2c + 1."""
    x = np.maximum(np.abs(x), 1e-12)
    grown = x * width
    return (grown - x) / 2 + np.log(-np.expm1(-grown)) - np.log(-np.expm1(-x))
