"""Rehearsals: a whole release, many times over, on data that are public or made up.

Nothing here protects anybody: true answers are compared with noisy ones, and the noise is seeded.
So the result is of a type of its own. It holds errors and no answers, has no file, and nothing that
takes a release takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.mechanism import Table
from noisewright.display import Shown
from noisewright.domain import Attribute, Numeric
from noisewright.errors import require
from noisewright.planning.counting import Counter, Data, is_histogram
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.questions.measures import Count
from noisewright.workload.questions.quantiles import Quantiles, quantiles
from noisewright.workload.questions.statistics import Noisy, Statistic

if TYPE_CHECKING:
    import pandas as pd

    from noisewright.planning.central.plan import CentralPlan

# of a standard error: steps that tell how an answer follows what it is made of
_SMALL = 1e-3


@dataclass(frozen=True)
class RehearsedTable:
    """The errors of one table over all runs.

    `predicted` is what the plan says of these people (None for quantiles, which follow no closed
    form), `realised` the root mean square error found; `relative` is the median of errors over true
    answers that are not zero, `covered` the share of true answers within their own intervals, and
    `left_out` the share of answers that noise made unfit to state.
    """

    name: str
    queries: int
    predicted: float | None
    realised: float
    relative: float | None
    covered: float
    left_out: float


@dataclass(frozen=True)
class DeclarationCost:
    """What declared bounds and bins cost before any noise, for one number.

    `clipped` is the share of people beyond the bounds, `mean_shift` how far clipping and rounding
    move the mean over everybody, `bin_shift` the farthest that bins move a quantile asked.
    """

    attribute: str
    clipped: float
    mean_shift: float
    bin_shift: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Rehearsal(Shown):
    """What releases of a plan would be like, tried on data that need no protection.

    `privacy` is what a release would promise; `plan` is its digest.
    """

    tables: tuple[RehearsedTable, ...]
    declarations: tuple[DeclarationCost, ...]
    runs: int
    seed: int
    privacy: Privacy | None = None
    plan: str | None = None

    def to_pandas(self) -> pd.DataFrame:
        """The errors of every table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame([asdict(table) for table in self.tables])

    def summary(self) -> dict[str, object]:
        """All figures, ready for JSON."""
        return {
            "kind": "rehearsal",
            "note": "on public data with seeded noise: protects nobody, publishes nothing",
            "runs": self.runs,
            "seed": self.seed,
            "privacy": None if self.privacy is None else self.privacy.to_dict(),
            "plan": self.plan,
            "tables": [asdict(table) for table in self.tables],
            "declarations": [asdict(cost) for cost in self.declarations],
        }

    def _facts(self) -> list[tuple[str, str]]:
        shown = [
            f"{t.name} ± {t.realised:,.4g}"
            + ("" if t.predicted is None else f" (predicted {t.predicted:,.4g})")
            for t in self.tables
        ]
        return [("runs", f"{self.runs:,}"), ("errors", "; ".join(shown))]


class _SeededSource:
    """Reproducible bytes, for rehearsals alone."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.bytes(count)


def rehearse(
    plan: CentralPlan, data: Data, seed: int, runs: int, counter: Counter | None
) -> Rehearsal:
    """Run a plan's releases on public data, and compare them with the truth."""

    require(runs >= 2, "runs", runs, "must be at least 2", "errors are means over runs")

    plan.check_usable()
    wanted = [Table(term.attributes, term.measure) for term in plan.terms]
    needed = tuple(dict.fromkeys((*plan.mechanism.tables, *wanted)))
    counts = plan.exact(data, counter, needed)  # one pass, as a release would read
    exact = np.concatenate(
        [
            term.answers(counts[table].ravel().astype(np.float64))
            for term, table in zip(plan.terms, wanted, strict=True)
        ]
    )
    truth = _Truth(plan, exact)
    source = _SeededSource(seed)
    columns = [
        plan.outcome(plan.mechanism.measure(counts, source), ()) for _ in range(runs)
    ]
    answers = np.array([column.answers for column in columns])
    ends = [np.array([column.each[side] for column in columns]) for side in (0, 1)]
    tables = _compared(plan, truth, answers, ends)
    declarations = () if is_histogram(data) else _declared(plan, data, counter)

    return Rehearsal(tables, declarations, runs, seed, plan.privacy, plan.digest)


@dataclass(frozen=True, eq=False)
class _Truth:
    """The true answers, and how wrong noisy ones will be, given these very people."""

    plan: CentralPlan
    exact: FloatArray

    @cached_property
    def answers(self) -> FloatArray:
        return self._derived(self.exact)

    @cached_property
    def predicted(self) -> FloatArray:
        """Standard errors to first order; NaN for quantiles."""
        if self.plan.counts_only:
            return self.plan.accuracy.error

        workload = self.plan.workload
        parts = self._parts(self.exact)
        errors = self._parts(self.plan.accuracy.std)

        return np.concatenate(
            [self._first_order(s, parts, errors) for s in workload.statistics]
        )

    def _first_order(
        self,
        statistic: Statistic,
        parts: dict[tuple[object, ...], FloatArray],
        errors: dict[tuple[object, ...], FloatArray],
    ) -> FloatArray:
        if isinstance(statistic, Quantiles):
            return np.full(statistic.queries, np.nan)

        keys = [need.key for need in statistic.needs]
        variance = np.zeros(statistic.queries)

        for moved in keys:
            ends = [
                self._of(
                    statistic,
                    [parts[k] + side * errors[k] * (k == moved) for k in keys],
                )
                for side in (_SMALL, -_SMALL)
            ]
            variance += ((ends[0] - ends[1]) / (2 * _SMALL)) ** 2

        return np.sqrt(variance)

    def _of(self, statistic: Statistic, values: Sequence[FloatArray]) -> FloatArray:
        parts = [Noisy(value, np.zeros_like(value)) for value in values]
        return statistic.derive(parts, self.plan.widths).answers

    def _parts(self, values: FloatArray) -> dict[tuple[object, ...], FloatArray]:
        ends = np.cumsum([term.queries for term in self.plan.terms])[:-1]
        keys = (term.key for term in self.plan.terms)
        return dict(zip(keys, np.split(values, ends), strict=True))

    def _derived(self, values: FloatArray) -> FloatArray:
        """What linear values say of all that is asked."""
        workload = self.plan.workload
        if workload.counts_only:
            return values

        parts = self._parts(values)
        return np.concatenate(
            [
                self._of(s, [parts[need.key] for need in s.needs])
                for s in workload.statistics
            ]
        )


def _compared(
    plan: CentralPlan, truth: _Truth, answers: FloatArray, ends: Sequence[FloatArray]
) -> tuple[RehearsedTable, ...]:
    rows = []
    start = 0

    for table in plan.tables():
        part = slice(start, start + table.queries)
        start = part.stop
        true = truth.answers[part]
        given = answers[:, part]
        stated = np.isfinite(given) & np.isfinite(true)
        errors = np.where(stated, given - true, np.nan)
        inside = (ends[0][:, part] <= true) & (true <= ends[1][:, part])
        known = truth.predicted[part]
        # Only answers that are stated every time have an error that first order can predict.
        always = stated.all(axis=0) & np.isfinite(known)
        relative = np.abs(errors)[:, true != 0] / np.abs(true[true != 0])
        rows.append(
            RehearsedTable(
                table.name,
                table.queries,
                float(np.sqrt(np.mean(known[always] ** 2))) if always.any() else None,
                _root_mean(errors[:, always] if always.any() else errors),
                float(np.nanmedian(relative)) if np.isfinite(relative).any() else None,
                float(inside[:, np.isfinite(true)].mean())
                if np.isfinite(true).any()
                else 1.0,
                float(1 - np.isfinite(given).mean()),
            )
        )

    return tuple(rows)


def _root_mean(errors: FloatArray) -> float:
    known = errors[np.isfinite(errors)]
    return float(np.sqrt(np.mean(known**2))) if known.size else float("nan")


def _declared(
    plan: CentralPlan, data: Data, counter: Counter | None
) -> tuple[DeclarationCost, ...]:
    """What bounds, units and bins cost the numbers asked about."""
    engine = counter or plan.counter
    if plan.domain is None or engine is None:
        return ()

    units: dict[str, float] = {}
    levels: dict[str, tuple[float, ...]] = {}

    for statistic in plan.workload.statistics:
        if isinstance(statistic, Quantiles):
            levels[statistic.unit] = statistic.levels
            units.setdefault(statistic.unit, 0.0)
        for need in statistic.needs:
            if not isinstance(need.measure, Count):
                units |= {
                    factor.attribute: factor.unit for factor in need.measure.factors
                }

    read = getattr(engine, "numbers", None)
    if not units or read is None:
        return ()

    columns = read(data, plan.domain, list(units))
    return tuple(
        _cost(plan.domain[name], columns[name], units[name], levels.get(name, ()))
        for name in units
    )


def _cost(
    attribute: Attribute, values: FloatArray, unit: float, levels: tuple[float, ...]
) -> DeclarationCost:
    assert isinstance(attribute, Numeric)
    known = values[np.isfinite(values)]
    low = attribute.edges[0]
    high = attribute.edges[-1]
    if attribute.lower is not None and attribute.upper is not None:
        low = attribute.lower
        high = attribute.upper

    clipped = np.clip(known, low, high)
    taken = np.rint(clipped / unit) * unit if unit else clipped
    shift = float(taken.mean() - known.mean()) if known.size else 0.0
    bins = None
    if levels and known.size:
        counts = np.bincount(attribute.encode(clipped), minlength=attribute.size)
        cumulative = np.cumsum(counts)[: len(attribute.edges) - 1].astype(np.float64)
        zeros = np.zeros_like(cumulative)
        told = quantiles(
            cumulative,
            zeros,
            zeros[None].repeat(len(levels), 0),
            attribute.edges,
            levels,
        )
        true = np.quantile(known, levels)
        bins = float(np.abs(np.array([q.estimate for q in told]) - true).max())

    beyond = float(((known < low) | (known > high)).mean()) if known.size else 0.0
    return DeclarationCost(attribute.name, beyond, shift, bins)
