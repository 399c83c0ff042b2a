"""Quantiles from noisy cumulative counts, with intervals at edges of bins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray
from noisewright.domain import Numeric
from noisewright.errors import require
from noisewright.workload.kinds.atoms import Prefix
from noisewright.workload.questions.measures import Weights
from noisewright.workload.questions.statistics import (
    Column,
    Ends,
    Noisy,
    Statistic,
    Widths,
    standardised_errors,
    watched_places,
    weighted_name,
)
from noisewright.workload.questions.table_axes import Axis, term_axes

_WATCHED_GROUPS = 4
"""Groups whose laws are simulated: they differ little."""

_WATCHED_BINS = 8
"""Bins of each of them, likewise."""


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

    # Counts without noise would have weights without bounds.
    largest = max(float(std.max(initial=0.0)), 1.0)
    weights = 1.0 / np.maximum(std, 1e-9 * largest) ** 2
    fitted = isotonic_regression(cumulative, weights=weights / weights.max())

    rising = np.asarray(fitted.x, dtype=np.float64)

    return np.maximum(rising, 0.0)


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
    ends = _rising(edges, len(cumulative) + 1)
    check_levels(levels)
    fitted = monotone_counts(cumulative, std)
    found = []

    for level, margin in zip(levels, margins, strict=True):
        estimate = _estimate(level, fitted, ends)
        first, last = _possible_bins(cumulative - level * cumulative[-1], margin)
        lower = min(ends[first], estimate)
        upper = max(ends[last + 1], estimate)
        interval = float(lower), float(upper)
        found.append(Quantile(float(level), estimate, *interval))

    return found


def _rising(edges: npt.ArrayLike, count: int) -> FloatArray:
    """Edges as so many rising numbers; the last bin may be a single one, which ends it too."""
    ends = np.asarray(edges, dtype=np.float64)
    steps = np.diff(ends)
    rising = (steps[:-1] > 0).all() and ends[-1] >= ends[-2]
    require(
        len(ends) == count and rising,
        "edges",
        len(ends),
        f"must be {count} rising numbers",
        "give all edges",
    )

    return ends


def check_levels(levels: Sequence[float]) -> None:
    """Refuse levels of no quantile."""
    for level in levels:
        require(
            0 < level < 1, "level", level, "must lie in (0, 1)", "0.5 is the median"
        )


def _estimate(level: float, fitted: FloatArray, edges: FloatArray) -> float:
    target = level * fitted[-1]
    reached = int(np.searchsorted(fitted, target))
    bin_ = min(reached, len(fitted) - 1)
    before = fitted[bin_ - 1] if bin_ else 0.0
    inside = fitted[bin_] - before
    share = (target - before) / inside if inside > 0 else 0.5

    share = float(np.clip(share, 0, 1))
    width = edges[bin_ + 1] - edges[bin_]

    return float(edges[bin_] + share * width)


def _possible_bins(excess: FloatArray, margin: FloatArray) -> tuple[int, int]:
    """The first and the last bin that a quantile may lie in, by people up to each in excess of it.

    Nobody is before the first bin, and everybody up to the last.
    """
    enough = np.flatnonzero(excess >= -margin)
    few = np.flatnonzero(excess[:-1] < margin[:-1])
    first = int(enough[0]) if len(enough) else len(excess) - 1
    last = int(few[-1]) + 1 if len(few) else 0

    return min(first, last), max(first, last)


@dataclass(frozen=True, eq=False)
class Quantiles(Statistic):
    """Quantiles of a numeric attribute by group, from cumulative counts.

    Intervals are edges of bins. A bin is ruled out by what the noisy counts up to its ends say of
    people below less the share of all people: one test, with a standard error of its own, for each
    quantile.
    """

    kind: ClassVar[str] = "quantile"
    reading: ClassVar[Literal["term", "sum", "test"]] = "test"
    summands: ClassVar[int] = 2

    levels: tuple[float, ...] = ()

    def weighted(self, weights: Weights) -> Statistic:
        table = replace(self.table, measure=weights)
        return replace(self, table=table, name=weighted_name(self.name, weights))

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.weight / self.table.measure.reach,)

    @cached_property
    def _place(self) -> int:
        """The axis of the table along which counts accumulate."""
        assert self.table.factors is not None
        return next(
            k for k, f in enumerate(self.table.factors) if isinstance(f, Prefix)
        )

    @property
    def attribute(self) -> Numeric:
        """Whose quantiles are asked."""
        attribute = self.domain.attributes[self.table.attributes[self._place]]
        assert isinstance(attribute, Numeric)

        return attribute

    @cached_property
    def _groups(self) -> tuple[Axis, ...]:
        axes = term_axes(self.domain, self.table)
        return axes[: self._place] + axes[self._place + 1 :]

    @cached_property
    def unit(self) -> str:
        return self.attribute.name

    @cached_property
    def queries(self) -> int:
        return len(self.labelled())

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        levels = tuple(f"{level:g}" for level in self.levels)
        return (
            *self._groups,
            Axis(f"quantile of {self.attribute.name}", "query", levels),
        )

    def labelled(self) -> list[tuple[str, float]]:
        """The group in words and the level of every answer."""
        columns = [
            [f"{axis.name} = {label}" for label in axis.labels] for axis in self._groups
        ]
        groups = [", ".join(row) for row in product(*columns)]

        return list(product(groups, self.levels))

    def each_label(self) -> Iterator[str]:
        name = self.attribute.name
        return (
            ", ".join(filter(None, [group, f"quantile {level:g} of {name}"]))
            for group, level in self.labelled()
        )

    @property
    def _bins(self) -> int:
        """Cells behind them hold people without a value, or outside."""
        return len(self.attribute.edges) - 1

    def _by_group(self, answers: Array) -> Array:
        """Answers to the term (the last axis) as groups × bins."""
        axes = term_axes(self.domain, self.table)
        shape = [len(axis.labels) for axis in axes]
        split = answers.reshape(*answers.shape[:-1], *shape)
        along = np.moveaxis(split, answers.ndim - 1 + self._place, -1)
        by_group = along.reshape(*answers.shape[:-1], -1, shape[self._place])

        return by_group[..., : self._bins]

    def _test_errors(self, noisy: Noisy) -> FloatArray:
        """Standard errors of people up to every bin less a share of all: groups × levels × bins."""
        std = self._by_group(noisy.std)
        shares = np.asarray(self.levels)[None, :, None]
        below = std[:, None, :]
        people = std[:, None, -1:]
        places = self._by_group(np.arange(noisy.std.size))
        last = places[:, -1]
        covariance = noisy.covariance(tuple(last.tolist()))
        if covariance is None:  # whatever it is, errors add up to no more than this
            return np.asarray(below + shares * people)

        groups = np.arange(len(places))[:, None]
        own = covariance[places, groups][:, None, :]
        squares = below**2 + (shares * people) ** 2
        variance = squares - 2 * shares * own

        # What is left of what is exactly nothing, as of a public number of people, is rounding.
        known = np.where(variance > 1e-12 * squares, variance, 0.0)
        return np.sqrt(known)

    def spread(self, parts: Sequence[Noisy]) -> float:
        (noisy,) = parts
        together = self._test_errors(replace(noisy, covariance=lambda _: None))

        ratios = standardised_errors(together, self._test_errors(noisy))

        return float(ratios.max(initial=0.0))

    def judged(
        self, parts: Sequence[Noisy], errors: Sequence[FloatArray]
    ) -> FloatArray:
        (noisy,), (drawn,) = parts, errors
        std = self._test_errors(noisy)
        by_group = self._by_group(drawn)
        groups = watched_places(std.shape[0], _WATCHED_GROUPS)
        bins = watched_places(self._bins, _WATCHED_BINS)
        columns = []

        for g in groups:
            below = by_group[:, g, bins]
            people = by_group[:, g, -1:]
            for k, level in enumerate(self.levels):
                errors_of_test = below - level * people
                columns.append(standardised_errors(errors_of_test, std[g, k, bins]))

        return np.hstack(columns)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (noisy,) = parts
        tests = self._test_errors(noisy)
        each = self._found(noisy, widths.each_test(1.0) * tests)
        all_ = self._found(noisy, widths.all_tests(1.0) * tests)
        estimates = np.array([quantile.estimate for quantile in each])

        return Column.without_errors(estimates, _ends(each), _ends(all_))

    def _found(self, noisy: Noisy, margins: FloatArray) -> list[Quantile]:
        """The quantiles of every group, with intervals of such margins."""
        values = self._by_group(noisy.values)
        std = self._by_group(noisy.std)
        found: list[Quantile] = []

        for group, errors, margin in zip(values, std, margins, strict=True):
            edges = self.attribute.edges
            found += quantiles(group, errors, margin, edges, self.levels)

        return found


def _ends(found: Sequence[Quantile]) -> Ends:
    lower = np.array([quantile.lower for quantile in found])
    upper = np.array([quantile.upper for quantile in found])

    return lower, upper
