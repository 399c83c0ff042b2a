"""What a measurement says: linear answers to the terms, the columns that follow, their widths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import expm1, log1p, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.central.mechanism import Measurement
from noisewright.errors import TooLarge
from noisewright.estimate.accuracy import SIMULATED_ANSWERS, Accuracy
from noisewright.estimate.intervals import (
    balanced_share,
    laplace_multiplier,
    largest_error_quantile,
    normal_multiplier,
    upper_rank,
)
from noisewright.planning.after.postprocess import (
    Steps,
    processed_answers,
    widened_intervals,
)
from noisewright.planning.plan import LEVEL
from noisewright.workload.questions.statistics import (
    Column,
    Noisy,
    Statistic,
    Widths,
    derived_column,
    standardised_errors,
)
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan


_LADDER = 4000, 8000, 16_000, 40_000  # draws: what needs no more shares them
_DRAWS = _LADDER[0]
_MOST_DRAWS = _LADDER[-1]
_SEEN = 40  # simulated errors beyond a level that tell where it lies
_BLOCK = 2**22  # numbers simulated at a time
_ALARM = 1 - LEVEL

Sums = Literal["sums", "terms"]
"""What is held: sums that answers are judged by, or all terms at once."""

# of what may fail: less is not seen in the draws
_LEAST_SHARE = _SEEN / _DRAWS / _ALARM


def _seen(alarm: float) -> bool:
    """Whether simulation tells where so little lies."""
    return _SEEN / alarm <= _MOST_DRAWS


def _interval_widths(accuracy: Accuracy) -> Widths:
    """Those of answers that are all linear in the noise, one for each term's."""
    return Widths(
        accuracy.multiplier(LEVEL), accuracy.joint_multiplier(LEVEL), _none, _none
    )


def _none(share: float) -> float:
    raise AssertionError("counts are not tested")


def statistic_widths(
    accuracy: Accuracy, terms: Sequence[Term], statistics: Sequence[Statistic]
) -> Widths:
    """Those of questions of any kind; what needs simulation is found once, when it is asked for."""
    return _Judged(accuracy, tuple(terms), tuple(statistics)).widths


def term_parts(
    accuracy: Accuracy, terms: Sequence[Term], answers: FloatArray
) -> dict[tuple[object, ...], Noisy]:
    """Noisy answers to every term, by its key."""
    std = accuracy.std
    return {
        key: Noisy(answers[rows], std[rows], _Covariance(accuracy, rows))
        for key, rows in _term_rows(terms).items()
    }


def _term_rows(terms: Sequence[Term]) -> dict[tuple[object, ...], slice]:
    """Where the answers to every term stand among all, by its key."""
    places = {}
    start = 0

    for term in terms:
        places[term.key] = slice(start, start + term.queries)
        start += term.queries

    return places


@dataclass(frozen=True, eq=False)
class _Covariance:
    """Covariances of the answers to a term with some of them; None where they are too many."""

    accuracy: Accuracy
    rows: slice

    def __call__(self, places: tuple[int, ...]) -> FloatArray | None:
        try:
            return self.accuracy.covariance_within(self.rows, places)
        except TooLarge:
            return None


@dataclass(frozen=True, eq=False)
class _Judged:
    """Questions, and the law of the noise in all that they are made of."""

    accuracy: Accuracy
    terms: tuple[Term, ...]
    statistics: tuple[Statistic, ...]

    @property
    def widths(self) -> Widths:
        return Widths(
            self.accuracy.multiplier(LEVEL),
            self._linear_at_once(self._linear_share * _ALARM),
            cache(lambda share: self._held(share * _ALARM)),
            cache(self._held_at_once),
        )

    @cached_property
    def _linear(self) -> tuple[Statistic, ...]:
        return tuple(one for one in self.statistics if one.reading != "test")

    @cached_property
    def _of_sums(self) -> tuple[Statistic, ...]:
        """Those whose noise is a sum that the accuracy of the terms does not tell the law of."""
        return tuple(one for one in self.statistics if one.reading != "term")

    # --- who may fail how often -------------------------------------------------------------------

    @cached_property
    def _tests(self) -> int:
        return sum(one.queries for one in self.statistics if one.reading == "test")

    @cached_property
    def _linear_share(self) -> float:
        """What linear answers may fail of all: so much that they are as wide as tests are."""
        if not self._tests or not self._linear:
            return float(bool(self._linear))

        return balanced_share(
            self._linear_multiplier, self._one_test, self._tests, _ALARM, _LEAST_SHARE
        )

    @property
    def _one_test(self) -> Callable[[float], float]:
        """Standard errors that hold a test, by the level."""
        if not self.accuracy.alike:
            return laplace_multiplier
        gaussian = self.accuracy.multiplier(LEVEL) == normal_multiplier(LEVEL)
        return normal_multiplier if gaussian else self.accuracy.multiplier

    @cached_property
    def _alarm_of_each_test(self) -> float:
        alarm = (1 - self._linear_share) * _ALARM
        if not self._normal:
            return alarm / self._tests
        # Šidák's inequality, which is Gaussian
        return float(-expm1(log1p(-alarm) / self._tests))

    # --- how wide that is -------------------------------------------------------------------------

    @cached_property
    def _normal(self) -> bool:
        return self.accuracy.alike and self.accuracy.multiplier(
            LEVEL
        ) <= normal_multiplier(LEVEL)

    def _linear_at_once(self, alarm: float) -> float:
        """Standard errors that hold all answers that are linear in the noise."""
        if not self._linear or not alarm:
            return 0.0
        return self._linear_multiplier(1 - alarm)

    @cached_property
    def _linear_multiplier(self) -> Callable[[float], float]:
        """The same by the level at which they are held."""
        answers = sum(one.queries for one in self._linear)
        if answers <= SIMULATED_ANSWERS:
            return partial(largest_error_quantile, self._largest)
        if any(one.reading == "sum" for one in self._linear):
            return lambda level: self._bound((1 - level) / answers)
        return partial(self.accuracy.bounded_multiplier, answers)

    @cached_property
    def _largest(self) -> FloatArray:
        """The largest error of all linear answers in every draw."""
        blocks = (
            self._judged_errors(self._linear, errors) for errors in self._drawn(_DRAWS)
        )
        return np.concatenate([np.abs(block).max(axis=1) for block in blocks])

    def _held(self, alarm: float) -> float:
        """Standard errors that hold any one sum, but for so much."""
        bound = self._bound(alarm)
        if self._normal or not _seen(alarm):
            return bound
        return min(bound, float(self._quantiles("sums", alarm).max(initial=0.0)))

    def _held_at_once(self, share: float) -> float:
        """Standard errors that hold all tests, but for such a share of what they may fail."""
        each = share * self._alarm_of_each_test
        together = share * (1 - self._linear_share) * _ALARM
        if self._normal or _seen(each) or not _seen(together):
            return self._held(each)

        # Where all terms are held at once, so are all sums of them.
        terms = self._quantiles("terms", together)
        return min(self._bound(each), self._apart * float(terms[0]))

    def _bound(self, alarm: float) -> float:
        """The same whatever the weights: by the widest law, or by Chebyshev's inequality."""
        if self.accuracy.alike:
            return self.accuracy.multiplier(1 - alarm)
        summands = max((one.summands for one in self._of_sums), default=1)
        apart = self._apart * self.accuracy.multiplier(1 - alarm / summands)
        return min(1 / sqrt(alarm), apart)

    @cached_property
    def _apart(self) -> float:
        """Standard errors of the terms of a sum, over that of the sum, at most."""
        return max(
            (one.spread(self._needed(one)[0]) for one in self._of_sums), default=1.0
        )

    # --- drawn noise ------------------------------------------------------------------------------

    def _quantiles(self, sums: Sums, alarm: float) -> FloatArray:
        """What each of some sums exceeds so often, estimated from above."""
        draws = next(count for count in _LADDER if alarm * count >= _SEEN)
        if (sums, draws) not in self._extremes:
            self._extremes[sums, draws] = self._largest_few(sums, draws)
        # The order statistic that lies above the quantile is the least of the largest few.
        few = draws - upper_rank(draws, 1 - alarm)
        return np.asarray(self._extremes[sums, draws][-few])

    @cached_property
    def _extremes(self) -> dict[tuple[Sums, int], FloatArray]:
        return {}

    def _largest_few(self, sums: Sums, draws: int) -> FloatArray:
        """The largest of so many drawn errors of each sum: as many as are ever looked at."""
        errors_of = self._errors_of_sums if sums == "sums" else self._largest_of_terms
        few = draws - upper_rank(draws, LEVEL)
        largest: FloatArray | None = None

        for errors in self._drawn(draws):
            block = np.abs(errors_of(errors))
            seen = block if largest is None else np.vstack([largest, block])
            largest = np.sort(seen, axis=0)[-few:]

        assert largest is not None
        return largest

    def _errors_of_sums(self, errors: FloatArray) -> FloatArray:
        return self._judged_errors(self._of_sums, errors)

    def _judged_errors(
        self, statistics: Sequence[Statistic], errors: FloatArray
    ) -> FloatArray:
        """What intervals are read from, from drawn errors of the terms."""
        return np.hstack([one.judged(*self._needed(one, errors)) for one in statistics])

    def _largest_of_terms(self, errors: FloatArray) -> FloatArray:
        largest = np.abs(standardised_errors(errors, self.accuracy.std)).max(axis=1)
        return np.asarray(largest[:, None])

    def _drawn(self, draws: int) -> Iterator[FloatArray]:
        """Errors of all terms, in blocks of draws; nothing here touches data."""
        rng = np.random.default_rng(0)
        step = max(1, _BLOCK // len(self.accuracy.variance))
        for start in range(0, draws, step):
            yield self.accuracy.draw(min(step, draws - start), rng)

    @cached_property
    def _parts(self) -> dict[tuple[object, ...], Noisy]:
        return term_parts(
            self.accuracy, self.terms, np.zeros(len(self.accuracy.variance))
        )

    @cached_property
    def _rows(self) -> dict[tuple[object, ...], slice]:
        return _term_rows(self.terms)

    def _needed(
        self, statistic: Statistic, errors: FloatArray | None = None
    ) -> tuple[list[Noisy], list[FloatArray]]:
        """The terms that a question needs, and drawn errors of theirs."""
        keys = [need.key for need in statistic.needs]
        drawn = [] if errors is None else [errors[:, self._rows[key]] for key in keys]
        return [self._parts[key] for key in keys], drawn


def linear_answers(plan: CentralPlan, measurement: Measurement) -> FloatArray:
    """Linear answers to the terms: unbiased, or within the bias that their accuracy tells."""
    known = plan.impossible
    if known is None:
        inner = isinstance(plan.mechanism, FittedMechanism)
        own = measurement.parts[0] if inner else measurement
        return plan.measures_only.answer(own, plan.terms)

    answers = plan.mechanism.answer(measurement, [*plan.terms, *known.terms])
    return known.accuracy.correct(answers, np.zeros_like(answers[known.accuracy.known]))


def outcome(
    plan: CentralPlan, measurement: Measurement, steps: Sequence[Steps]
) -> Column:
    """What a measurement says, after the steps of post-processing taken."""
    column = derived_columns(plan, linear_answers(plan, measurement), plan.widths)
    if isinstance(plan.mechanism, FittedMechanism):
        column = widened_intervals(
            column, plan.mechanism.answer(measurement, plan.terms)
        )
    return processed_answers(plan, column, steps) if steps else column


def standard_errors(plan: CentralPlan) -> FloatArray:
    """Standard errors of all answers; NaN for those that depend on how many people there are.

    Intervals are left out: how wide they are is simulated, and no standard error depends on it.
    """
    if plan.counts_only:
        return plan.accuracy.error
    nothing = np.zeros(sum(term.queries for term in plan.terms))
    return derived_columns(plan, nothing, Widths.of_one()).std


def derived_columns(plan: CentralPlan, answers: FloatArray, widths: Widths) -> Column:
    """What linear answers to the terms say of all that is asked."""
    accuracy = plan.interval_accuracy
    if plan.counts_only:
        column = Column.around(answers, accuracy.std, widths.each, widths.all)
        return column if accuracy.bias is None else column.widened(accuracy.bias)

    parts = term_parts(accuracy, plan.terms, answers)
    return derived_column(plan.workload.statistics, parts, widths)


def planned_widths(plan: CentralPlan) -> Widths:
    """How many standard errors hold the answers of a plan; simulated laws are drawn once."""
    accuracy = plan.interval_accuracy
    if plan.counts_only:
        return _interval_widths(accuracy)
    return statistic_widths(accuracy, plan.terms, plan.workload.statistics)
