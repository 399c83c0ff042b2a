"""A plan without a curator: what clients send, what it will be worth, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, NoisewrightError, require
from noisewright.local.analysis.accuracy import Errors, LocalAccuracy
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.distribution import distribution, lines_of
from noisewright.local.analysis.goodness import goodness_of_fit
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.shrinkage import (
    Shrinkage,
    minimax_affine,
)
from noisewright.local.bounds.floors import best_bound, even_bound
from noisewright.local.bounds.people.hard_instances import HardInstance
from noisewright.local.bounds.people.hard_tasks import hard_instance
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.proved import proved_bound
from noisewright.local.bounds.trace import LowerBound
from noisewright.local.choose.cost import ALPHA, LocalComparison, check_people
from noisewright.local.fixedpoint import check_planned
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.exchange import round_in
from noisewright.local.reports.format import Client, ReportFormat
from noisewright.local.strategy import Strategy
from noisewright.local.vector.max_error import strategy_tails
from noisewright.local.vector.tails import MaxError, Tails, biases
from noisewright.planning.counting import Counter, Source
from noisewright.planning.local.forecast import (
    LocalForecast,
    Rehearsal,
    local_forecast,
    local_record,
    local_summary,
    rehearse,
)
from noisewright.planning.local.reading import (
    Margins,
    Reading,
    liars_limit,
    read_reports,
)
from noisewright.planning.plan import (
    Plan,
    ReleasedTable,
    TableError,
    answer_tables,
    table_errors,
    told_errors,
)
from noisewright.planning.release import Release, release_time
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Promise, Spend
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Identity
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.questions.statistics import Column

_QUICK_INSTANCE = 640  # queries and cells together: some seconds


class NamedStrategy(NamedTuple):
    """A strategy, and what plans and records call it."""

    name: str
    strategy: Strategy


class RunnerUp(TypedDict):
    """A mechanism that was planned and not taken, and the people that it needs."""

    mechanism: str
    sample_complexity: float
    people_for_max_error: NotRequired[int]


def runner_up(mechanism: str, variance: float, error: int | None) -> RunnerUp:
    """What another mechanism needs for a small variance, and for a largest error if asked."""
    needed: RunnerUp = {"mechanism": mechanism, "sample_complexity": variance}
    if error is not None:
        needed["people_for_max_error"] = error
    return needed


@dataclass(frozen=True, eq=False, repr=False)
class LocalPlan(Plan):
    """A strategy for a workload: its clients, its errors and its estimates.

    `privacy` follows from the strategy's chances, whatever a file or a caller states, and always
    speaks of replacing one person: a report hides which value its person holds.
    `people` and `alpha`, where the plan was made for them, are what forecasts are about unless told
    otherwise. A `proof` that came with the plan counts for what it proves when checked.
    `goal` is a largest error that the plan was made for, and `targets` what is then answered in
    place of the queries: answers are biased by what lies between the two, which is said of them.
    A plan was `cut_short` where a time limit or Ctrl-C ended its search: another run may differ.
    """

    workload: Workload
    domain: Domain | None
    mechanism: NamedStrategy
    seconds: float = 0.0
    runners_up: tuple[RunnerUp, ...] = ()
    people: int | None = None
    alpha: float | None = None
    counter: Counter | None = None
    proof: Proof | None = None
    goal: MaxError | None = None
    targets: FloatArray | None = None
    cut_short: bool = False

    kind = "local-plan"
    model = "local"
    release_kind = "estimate"

    def __post_init__(self) -> None:
        _ = self.privacy
        check_planned(self.epsilon)
        cells = self.strategy.size
        if self.workload.size != cells or (self.domain and self.domain.size != cells):
            raise InvalidParameter(
                "strategy",
                self.strategy.kind,
                "must be over the plan's cells",
                "plan again",
            )
        if self.targets is not None and (
            self.targets.shape != self.workload.shape
            or not np.isfinite(self.targets).all()
        ):
            raise InvalidParameter(
                "targets", self.targets.shape, "must fit the queries"
            )

    @property
    def strategy(self) -> Strategy:
        """How a client reports, and what reports say."""
        return self.mechanism.strategy

    @cached_property
    def privacy(self) -> Privacy:
        """What a report promises."""
        return self.strategy.promise

    @property
    def spend(self) -> Spend:
        """What one report costs the person who sends it."""
        promise = Promise(self.epsilon, self.privacy.delta or 0.0)
        return Spend(self.privacy.neighbours, (promise,))

    @property
    def title(self) -> str:
        """What is asked, and the mechanism."""
        return f"{self.workload.brief()} ({self.mechanism.name})"

    @property
    def epsilon(self) -> float:
        """The ε of every report."""
        return self.strategy.epsilon

    # --- clients ------------------------------------------------------------------------------

    @cached_property
    def format(self) -> ReportFormat:
        """How reports are written and recognised."""
        meaning = "" if self.domain is None else self.domain.fingerprint
        return ReportFormat(self.strategy, meaning)

    @cached_property
    def client(self) -> Client:
        """What runs on a person's device: `client.randomize(value)` gives the bytes to send."""
        return Client(self.format, self.domain)

    def randomize(self, values: npt.ArrayLike) -> Array:
        """Reports of many people at once, one per cell in `values`."""
        return self.strategy.randomize(values)

    def randomize_table(
        self, table: Source, output: str | Path, *, counter: Counter | None = None
    ) -> int:
        """Simulate a client for every row of a table; writes Parquet or CSV, returns the number.

        Without a domain, the table's column `cell` holds the number of each person's cell.
        """
        from noisewright.planning.local.reading import randomize_table

        return randomize_table(self, table, output, counter or self.counter)

    def tally_table(
        self, table: Source, *, counter: Counter | None = None
    ) -> Aggregate:
        """Simulate a client for every row of a table and add the reports up, where the rows are.

        No report is kept; on Spark, executors draw and add up, and send aggregates alone.
        """
        from noisewright.planning.local.reading import tally_table

        return tally_table(self, table, counter or self.counter)

    # --- errors before any report -------------------------------------------------------------

    @cached_property
    def analysis(self) -> Analysis:
        """Exact variances of the strategy on the workload."""
        return Analysis(self.strategy, self.workload, table_gram(self.workload))

    @cached_property
    def bound(self) -> LowerBound | None:
        """What no unbiased linear estimate from an ε-LDP strategy can beat, where it is known."""
        return None if self.strategy.delta else even_bound(self.workload, self.epsilon)

    @property
    def plain_workload(self) -> Workload:
        """The queries as they are answered, without the weights of named questions."""
        return self.workload.plain()

    @cached_property
    def answered(self) -> Workload:
        """What estimates answer: the queries, or the targets in their place."""
        return self.plain_workload if self.targets is None else Explicit(self.targets)

    @cached_property
    def tails(self) -> Tails:
        """How far all answers together stray, as shares of people, bias included."""
        return strategy_tails(self.strategy, self.plain_workload, self.targets)

    @property
    def bias(self) -> FloatArray | None:
        """The largest bias of every answer, as a share of people; None where there is none."""
        if self.targets is None:
            return None
        return np.maximum(*biases(self.targets, self.plain_workload.dense()))

    def max_error(self, people: int | None = None, beta: float | None = None) -> float:
        """All answers, as shares of people, are within this of the truth, but with chance β."""
        count = check_people(self.people if people is None else people)
        return self.tails.error(count, self._failure(beta))

    def people_for_max_error(
        self, error: float | None = None, beta: float | None = None
    ) -> int:
        """The fewest people from whom all answers are within an error of the truth."""
        told = self.goal.error if error is None and self.goal is not None else error
        if told is None:
            raise InvalidParameter(
                "error", None, "must be given", "say how large it may be"
            )
        return self.tails.people_for(told, self._failure(beta))

    def _failure(self, beta: float | None) -> float:
        """β as it is given, or as the plan was made for."""
        return (self.goal or MaxError(1.0)).beta if beta is None else beta

    def sample_complexity(self, alpha: float | None = None) -> float:
        """People needed for a worst-case variance of `alpha` per query, of proportions."""
        told = self.alpha if alpha is None else alpha
        return self.analysis.sample_complexity(ALPHA if told is None else told)

    def people_for(self, alpha: float | None = None) -> int:
        """The same as a whole number of people."""
        return max(1, ceil(self.sample_complexity(alpha)))

    def accuracy(
        self, people: int | None = None, *, population: bool = False
    ) -> LocalAccuracy:
        """How wrong answers from so many people are, spread evenly over the cells."""
        count = check_people(self.people if people is None else people)
        return LocalAccuracy(self.strategy, self.answered, count, population=population)

    def shrinkage(self, people: int | None = None) -> Shrinkage:
        """The affine estimate, biased or not, with the least worst error from so many people."""
        count = check_people(self.people if people is None else people)
        if count not in self._shrinkages:
            gram = table_gram(self.plain_workload)
            self._shrinkages[count] = minimax_affine(self.strategy, gram, count)
        return self._shrinkages[count]

    @cached_property
    def _shrinkages(self) -> dict[int, Shrinkage]:
        """Those that were worked out, by the number of people."""
        return {}

    def rehearse(
        self, histogram: npt.ArrayLike, *, runs: int = 100, rng: np.random.Generator
    ) -> Rehearsal:
        """How far each kind of answer errs on a public table, in simulation, and what holds."""
        return rehearse(self, histogram, runs, rng)

    def forecast(
        self,
        people: int | None = None,
        *,
        population: bool = False,
        shrink: bool = False,
    ) -> LocalForecast:
        """Expected error of every answer from so many people.

        With `shrink`, also the worst error of the best biased estimate, and where it ends to help.
        """
        return local_forecast(
            self, self.accuracy(people, population=population), shrink
        )

    def amplified(self, people: int, delta: float) -> Privacy:
        """The central guarantee of shuffled reports: an extra beside ε, never instead of it."""
        from noisewright.privacy.promise.amplification import shuffled

        require(
            not self.strategy.delta,
            "mechanism",
            self.mechanism.name,
            "is not pure: the bound needs pure local privacy",
        )

        return shuffled(self.epsilon, check_people(people), delta)

    # --- collection ---------------------------------------------------------------------------

    def aggregate(
        self, reports: Any = None, *, groups: int = 1, cap: float | None = None
    ) -> Aggregate:
        """Statistics of reports (none: an empty aggregate to add to).

        Reports are an array as `randomize` gives it, encoded bytes or an iterator of them, an
        Arrow column, a Parquet or CSV file with a column `report`, or a list of such files. See
        `Aggregate` for `groups` and `cap`, which guard against poisoned reports.
        """
        if isinstance(reports, Aggregate):
            self.format.check_same(reports.format.name)
            return reports

        several = isinstance(reports, list | tuple) and bool(reports)
        if several and all(isinstance(source, str | Path) for source in reports):
            parts = [
                self.aggregate(source, groups=groups, cap=cap) for source in reports
            ]
            return reduce(Aggregate.merge, parts)

        name = round_in(reports) if isinstance(reports, str | Path) else None
        total = Aggregate(self.format, groups, cap, name)
        return total if reports is None else total.add(reports)

    def estimate(
        self,
        reports: Any,
        *,
        groups: int = 1,
        cap: float | None = None,
        errors: Errors = "plug-in",
        population: bool = False,
        non_negative: bool = False,
        shrink: bool = False,
        liars: float = 0.0,
        margins: Margins | None = None,
    ) -> Release:
        """Answers with intervals, from reports (as `aggregate` takes them) or an aggregate.

        Answers are unbiased counts of people; with `non_negative` they are those of the best
        fitting table of people, while intervals stay around the unbiased ones. With `liars`, they
        hold even if that share of the reports was sent to deceive; where cells are few, answers are
        then those that remain when as few reports as need be are taken away. With `margins`,
        answers are those of the population that people were drawn from, weighted to its public
        counts. With `shrink` answers are those of the biased estimate with the least worst error;
        intervals stay around the unbiased ones, and hold these too.
        """
        reading = Reading(
            errors=errors,
            population=population or margins is not None,
            non_negative=non_negative,
            shrink=shrink,
            liars=liars,
            margins=margins,
        )
        reading.check(groups)
        collected = self.aggregate(reports, groups=groups, cap=cap).copy()
        release = Release(self, collected, (reading,), time=release_time())
        _ = release.intervals  # whatever cannot be estimated is refused here

        return release

    def outcome(self, measurement: Aggregate, steps: tuple[Reading, ...]) -> Column:
        """What collected reports say."""
        (reading,) = steps
        return read_reports(self, measurement, reading)

    def liars_limit(
        self, reading: Reading
    ) -> Literal["consistent", "influence"] | None:
        """How it is found what liars can have done, where there may be any."""
        return liars_limit(self, reading)

    def changes(self, steps: tuple[Reading, ...]) -> bool:
        """Whether answers are not those that were measured, and need not be unbiased."""
        return any(
            reading.changes or liars_limit(self, reading) == "consistent"
            for reading in steps
        )

    @property
    def tells_unbiased(self) -> bool:
        """Reports always give unbiased estimates."""
        return True

    def unbiased(self, measurement: Aggregate, steps: tuple[Reading, ...]) -> Column:
        """What collected reports say by themselves."""
        (reading,) = steps
        return read_reports(self, measurement, reading.plain)

    def outcome_record(self, measurement: Aggregate) -> dict[str, object]:
        """What the reports add to the record of the plan."""
        return {
            "round": measurement.round,
            "fit": goodness_of_fit(measurement).to_dict(),
            "people": measurement.people,
            "set_aside": dict(measurement.set_aside),
            "groups": measurement.groups,
            "cap": measurement.cap,
        }

    def distribution(
        self, reports: Any, *, groups: int = 1, cap: float | None = None
    ) -> FloatArray:
        """The likeliest share of people in every cell, by a model: none negative, summing to one.

        Nearest to the unbiased estimate in the metric of the reports, and smooth along ordered
        attributes as far as the reports themselves suggest. Biased, and without intervals. What
        the mechanism does not see is spread evenly.
        """
        collected = self.aggregate(reports, groups=groups, cap=cap)
        return distribution(collected, lines_of(self.workload, self.domain))

    # --- what people and scripts see ----------------------------------------------------------

    def each_label(self) -> Iterator[str]:
        """Every query in words, one after the other."""
        return self.workload.each_label(self.domain)

    def labels(self) -> list[str]:
        """Every query in words."""
        return list(self.each_label())

    def cell_labels(self) -> list[str]:
        """Every cell in words."""
        return list(Identity(self.strategy.size).each_label(self.domain))

    def tables(self) -> tuple[ReleasedTable, ...]:
        """The named parts of the answers."""
        return answer_tables(self.workload)

    def table_errors(self, people: int | None = None) -> list[TableError]:
        """Per table: name, queries, rmse, largest standard error, and largest half-widths."""
        forecast = self.forecast(people)
        widths = forecast.halfwidth, forecast.simultaneous_halfwidth
        return table_errors(self.tables(), forecast.std, *widths)

    def record(self) -> dict[str, object]:
        """What reports promise and what they were made with: ready for JSON, nothing private."""
        return local_record(self)

    @cached_property
    def certificate(self) -> LowerBound | None:
        """The highest bound known on the people that unbiased linear estimates need."""
        if self.strategy.delta:
            return None

        best = best_bound(self.workload, self.epsilon)
        if self.proof is None:
            return best

        proved = proved_bound(self.workload, self.epsilon, self.proof)
        return proved if best is None or proved.variance > best.variance else best

    @cached_property
    def comparison(self) -> LocalComparison:
        """What the plan costs, as comparisons of mechanisms state it."""
        return LocalComparison.of(
            self.mechanism.name, self.epsilon, self.analysis, self.bound, self.seconds
        )

    @cached_property
    def hard_instance(self) -> HardInstance | None:
        """Distributions on which no protocol reaches the goal with fewer people; None if unknown.

        It is about answers for the population that people come from, biased or not.
        """
        asked = self.plain_workload
        if (
            self.goal is None
            or self.strategy.delta
            or sum(asked.shape) > _QUICK_INSTANCE
        ):
            return None

        try:
            goal = self.goal
            return hard_instance(
                asked, goal.error, epsilon=self.epsilon, beta=goal.beta
            )
        except NoisewrightError:
            return None

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on, at α = 0.01, and those that the plan was made for."""
        return local_summary(self)

    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it, with the errors of its tables for so many people."""
        facts = super().description()
        if self.people is None:
            return facts
        return {**facts, "tables": told_errors(self.table_errors())}

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("workload", self.workload.brief()),
            ("mechanism", self.mechanism.name),
            ("privacy", self.privacy.text()),
            ("cells", f"{self.workload.size:,}"),
            ("report", f"{self.format.length} bytes"),
        ]
