"""A plan without a curator: what clients send, what it will be worth, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from noisewright import __version__
from noisewright.display import Shown
from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter, NoisewrightError, TooLarge
from noisewright.files import check_apart
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.answers import distribution, estimate
from noisewright.local.analysis.goodness import goodness_of_fit
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.influence import influence
from noisewright.local.analysis.local_accuracy import Errors, LocalAccuracy
from noisewright.local.analysis.robust import can_be_robust, robust_answers
from noisewright.local.analysis.shrinkage import (
    Shrinkage,
    minimax_affine,
    people_where_it_ends,
)
from noisewright.local.approximate.largest_error import strategy_tails
from noisewright.local.approximate.tails import MaxError, Tails, biases
from noisewright.local.bounds.hard_instances import HardInstance, hard_instance
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.proved import proved_bound
from noisewright.local.bounds.trace import LowerBound, best_bound, even_bound, prior_floor
from noisewright.local.choose.cost import ALPHA, LocalComparison, check_people
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.exchange import round_in, write_reports
from noisewright.local.reports.format import Client, ReportFormat
from noisewright.local.strategy import LARGEST_VECTOR, Strategy
from noisewright.planning.counting import Counter, Source
from noisewright.planning.local_rehearsal import Rehearsal, rehearse
from noisewright.planning.plan import (
    LEVEL,
    Forecast,
    ReleasedTable,
    TableError,
    answer_tables,
    plain_workload,
    query_names,
    table_errors,
)
from noisewright.planning.population import Margins, in_population
from noisewright.planning.release import Release, now
from noisewright.privacy.budget import Privacy
from noisewright.privacy.spend import Promise, Spend
from noisewright.workload.atoms import Explicit, Identity
from noisewright.workload.base import Array, FloatArray, Workload
from noisewright.workload.statistics import Column

_QUICK_INSTANCE = 640  # queries and cells together: some seconds

SHUFFLE_DELTA = 1e-9
"""The δ at which summaries state what shuffled reports promise together."""


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How answers are read from collected reports."""

    errors: Errors = "plug-in"
    population: bool = False
    non_negative: bool = False
    shrink: bool = False
    """Answers of the affine estimate with the least worst error, which is biased."""
    liars: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the reports that may say anything; intervals hold for all of these as well."""
    margins: Margins | None = None
    """Where given, answers are those of the population that these margins are of."""

    def told(self, plan: LocalPlan, before: Mapping[str, Any]) -> dict[str, Any]:
        """What the record says of it."""
        return {
            **before,
            "standard_errors": self.errors,
            "population": self.population,
            "non_negative": self.non_negative,
            "shrink": self.shrink,
            "liars": self.liars,
            "liars_limit": plan.liars_limit(self),
            "margins": None if self.margins is None else list(self.margins.attributes),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalForecast(Forecast):
    """Errors in counts of people, for so many people spread evenly over the cells.

    `worst_rmse` is the root mean square error on the worst table of as many people.
    """

    people: int
    worst_rmse: float
    bias: FloatArray | None = None
    """The largest bias of every answer, which its intervals include; None where there is none."""
    max_error: float | None = None
    """What all answers together stay within, but with the plan's β; None without such a goal."""
    shrinkage: Shrinkage | None = None
    """The biased estimate with the least worst error, where it was asked for."""
    shrinking_ends: int | None = None
    """People from whom it errs no less than 0.99 times as much as the unbiased one."""

    @property
    def shrunk_worst_rmse(self) -> float | None:
        """Root mean square error of the shrunk answers on the worst table of as many people."""
        if self.shrinkage is None:
            return None
        return float(np.sqrt(self.shrinkage.value / len(self.std)))

    def _facts(self) -> list[tuple[str, str]]:
        errors = {"rmse": self.rmse, "max": self.max, "worst rmse": self.worst_rmse}
        shown = [(name, f"{error:,.4g}") for name, error in errors.items()]
        return [("answers", f"{len(self.std):,}"), ("people", f"{self.people:,}"), *shown]

    def summary(self) -> dict[str, Any]:
        names = ("people", "rmse", "max", "worst_rmse")
        told = {name: getattr(self, name) for name in names}
        if self.max_error is not None:
            told["max_error_share"] = self.max_error / self.people
        if self.shrinkage is not None:
            told["shrunk_worst_rmse"] = self.shrunk_worst_rmse
            told["shrinking_ends"] = self.shrinking_ends
        return told


@dataclass(frozen=True, eq=False, repr=False)
class LocalPlan(Shown):
    """A strategy for a workload: its clients, its errors and its estimates.

    `privacy` follows from the strategy's chances, whatever a file or a caller states, and always
    speaks of replacing one person: a report hides which value its person holds.
    `people` and `alpha`, where the plan was made for them, are what forecasts are about unless told
    otherwise. A `proof` that came with the plan counts for what it proves when checked.
    `goal` is a largest error that the plan was made for, and `targets` what is then answered in
    place of the queries: answers are biased by what lies between the two, which is said of them.
    """

    workload: Workload
    domain: Domain | None
    mechanism: str
    strategy: Strategy
    seconds: float = 0.0
    runners_up: tuple[Mapping[str, Any], ...] = ()
    people: int | None = None
    alpha: float | None = None
    counter: Counter | None = None
    proof: Proof | None = None
    goal: MaxError | None = None
    targets: FloatArray | None = None

    def __post_init__(self) -> None:
        _ = self.privacy
        cells = self.strategy.size
        if self.workload.size != cells or (self.domain and self.domain.size != cells):
            raise InvalidParameter(
                "strategy", self.strategy.kind, "must be over the plan's cells", "plan again"
            )
        if self.targets is not None and (
            self.targets.shape != self.workload.shape or not np.isfinite(self.targets).all()
        ):
            raise InvalidParameter("targets", self.targets.shape, "must fit the queries")

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
    def model(self) -> str:
        """Who adds the noise."""
        return "local"

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
        if isinstance(table, str | Path):
            check_apart(output, table)
        domain = self.domain or _numbered(self.strategy.size)
        domain.require_reviewed()
        engine = counter or self.counter
        if engine is None:
            raise InvalidParameter(
                "counter", None, "must be given to read a table", "pass a counting engine"
            )
        batches = engine.cells(table, domain)
        return write_reports(output, (self.client.randomize_many(cells) for cells in batches))

    def tally_table(self, table: Source, *, counter: Counter | None = None) -> Aggregate:
        """Simulate a client for every row of a table and add the reports up, where the rows are.

        No report is kept; on Spark, executors draw and add up, and send aggregates alone.
        """
        from noisewright.planning.tallying import tally_table

        domain = self.domain or _numbered(self.strategy.size)
        return tally_table(self, table, domain, counter or self.counter)

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
        return plain_workload(self.workload)

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

    def people_for_max_error(self, error: float | None = None, beta: float | None = None) -> int:
        """The fewest people from whom all answers are within an error of the truth."""
        told = self.goal.error if error is None and self.goal is not None else error
        if told is None:
            raise InvalidParameter("error", None, "must be given", "say how large it may be")
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

    def accuracy(self, people: int | None = None, *, population: bool = False) -> LocalAccuracy:
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
        self, people: int | None = None, *, population: bool = False, shrink: bool = False
    ) -> LocalForecast:
        """Expected error of every answer from so many people.

        With `shrink`, also the worst error of the best biased estimate, and where it ends to help.
        """
        accuracy = self.accuracy(people, population=population)
        std, count = accuracy.std, accuracy.people
        worst = count * self.analysis.worst_case
        bias = None if self.bias is None else count * self.bias
        beside = 0.0 if bias is None else bias
        return LocalForecast(
            std=std,
            halfwidth=accuracy.multiplier(LEVEL) * std + beside,
            simultaneous_halfwidth=accuracy.joint_multiplier(LEVEL) * std + beside,
            people=count,
            worst_rmse=float(np.sqrt(worst / self.workload.queries)),
            bias=bias,
            max_error=None if self.goal is None else count * self.max_error(count),
            shrinkage=self.shrinkage(count) if shrink else None,
            shrinking_ends=people_where_it_ends(self.strategy, table_gram(self.plain_workload))
            if shrink
            else None,
        )

    def amplified(self, people: int, delta: float) -> Privacy:
        """The central guarantee of shuffled reports: an extra beside ε, never instead of it."""
        from noisewright.privacy.amplification import shuffled

        if self.strategy.delta:
            raise InvalidParameter(
                "mechanism", self.mechanism, "is not pure: the bound needs pure local privacy"
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
            parts = [self.aggregate(source, groups=groups, cap=cap) for source in reports]
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
        if shrink and (non_negative or liars or margins is not None or groups > 1):
            raise InvalidParameter(
                "shrink", shrink, "stands alone: no non_negative, liars, margins or median"
            )
        if not 0 <= liars < 1:
            raise InvalidParameter("liars", liars, "must be a share of the reports, 0 <= liars < 1")
        if margins is not None and (liars or non_negative):
            raise InvalidParameter(
                "margins", margins.attributes, "cannot be combined with liars or non_negative"
            )
        collected = self.aggregate(reports, groups=groups, cap=cap).copy()
        reading = Reading(
            errors=errors,
            population=population or margins is not None,
            non_negative=non_negative,
            shrink=shrink,
            liars=liars,
            margins=margins,
        )
        release = Release(self, collected, (reading,), time=now())
        _ = release.intervals  # whatever cannot be estimated is refused here
        return release

    def outcome(self, measurement: Aggregate, steps: tuple[Reading, ...]) -> Column:
        """What collected reports say."""
        (reading,) = steps
        estimates = estimate(
            self.answered,
            measurement,
            errors=reading.errors,
            population=reading.population,
            non_negative=reading.non_negative,
        )
        # About the unbiased answers, and widened where needed to hold the fitted ones.
        accuracy = estimates.accuracy
        if reading.margins is not None:
            if self.targets is not None:
                raise InvalidParameter("margins", reading.margins.attributes, "need exact queries")
            return in_population(self, reading.margins, estimates.histogram, accuracy)
        if reading.liars and measurement.groups > 1:
            raise InvalidParameter(
                "liars", reading.liars, "cannot be combined with medians over groups",
                "leave out median",
            )  # fmt: skip
        if self.liars_limit(reading) == "consistent":
            robust = robust_answers(self.plain_workload, measurement, reading.liars)
            limits = robust.lower, robust.upper
            return Column(robust.answers, accuracy.std, limits, limits)
        widths = accuracy.multiplier(LEVEL), accuracy.joint_multiplier(LEVEL)
        around = Column.around(estimates.centre, accuracy.std, *widths)
        answers, moved = estimates.answers, self._moved(measurement, reading.liars)
        if reading.shrink:
            answers = self._shrunk(measurement)
        if self.bias is not None:
            moved = moved + measurement.people * self.bias
        each, all_ = (
            (np.minimum(low - moved, answers), np.maximum(high + moved, answers))
            for low, high in (around.each, around.all)
        )
        return Column(answers, accuracy.std, each, all_)

    def liars_limit(self, reading: Reading) -> Literal["consistent", "influence"] | None:
        """How it is found what liars can have done, where there may be any.

        `consistent`: answers and limits are of all tables of people that explain the reports with
        so few liars. `influence`: intervals are wider by what so many reports move an answer at
        most; larger, and for any number of cells.
        """
        if not reading.liars:
            return None
        plain = not (reading.non_negative or reading.population) and self.targets is None
        small = can_be_robust(self.strategy, self.plain_workload)
        return "consistent" if plain and small else "influence"

    def changes(self, steps: tuple[Reading, ...]) -> bool:
        """Whether answers are not those that were measured, and need not be unbiased."""
        limits = (self.liars_limit(reading) for reading in steps)
        changed = any(reading.non_negative or reading.shrink for reading in steps)
        return "consistent" in limits or changed

    @property
    def tells_unbiased(self) -> bool:
        """Reports always give unbiased estimates."""
        return True

    def unbiased(self, measurement: Aggregate, steps: tuple[Reading, ...]) -> Column:
        """What collected reports say by themselves."""
        plain = [
            msgspec.structs.replace(reading, non_negative=False, shrink=False, liars=0.0)
            for reading in steps
        ]
        return self.outcome(measurement, tuple(plain))

    def _shrunk(self, measurement: Aggregate) -> FloatArray:
        if measurement.groups > 1:
            raise InvalidParameter("shrink", True, "cannot be combined with medians over groups")
        cells = self.shrinkage(measurement.people).histogram(measurement.total)
        return np.asarray(self.answered.matvec(cells), dtype=np.float64)

    def _moved(self, measurement: Aggregate, liars: float) -> FloatArray | float:
        """How far liars can have moved each answer, at most."""
        if not liars:
            return 0.0
        number = ceil(liars * measurement.people)
        return number * influence(self.strategy, self.answered, measurement.cap)

    def outcome_record(self, measurement: Aggregate) -> dict[str, Any]:
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
        """The estimated share of people in every cell: none negative, summing to one.

        What the workload does not ask, and the mechanism does not see, is spread evenly.
        """
        return distribution(self.aggregate(reports, groups=groups, cap=cap))

    # --- what people and scripts see ----------------------------------------------------------

    def each_label(self) -> Iterator[str]:
        """Every query in words, one after the other."""
        return query_names(self.workload, self.domain)

    def labels(self) -> list[str]:
        """Every query in words."""
        return list(self.each_label())

    def cell_labels(self) -> list[str]:
        """Every cell in words."""
        return list(query_names(Identity(self.strategy.size), self.domain))

    def tables(self) -> tuple[ReleasedTable, ...]:
        """The named parts of the answers."""
        return answer_tables(self.workload)

    def table_errors(self, people: int | None = None) -> list[TableError]:
        """Per table: name, queries, rmse, largest standard error, and largest half-widths."""
        forecast = self.forecast(people)
        widths = forecast.halfwidth, forecast.simultaneous_halfwidth
        return table_errors(self.tables(), forecast.std, *widths)

    def record(self) -> dict[str, Any]:
        """What reports promise and what they were made with: ready for JSON, nothing private."""
        return {
            "format": "noisewright-estimate",
            "version": __version__,
            "model": "local",
            "mechanism": self.mechanism,
            "privacy": self.privacy.to_dict(),
            "neighbours": self.privacy.neighbours,
            "plan": self.format.name,
            "workload": self.workload.brief(),
            "domain": None if self.domain is None else self.domain.fingerprint,
            "queries": self.workload.queries,
            "ratio": self.comparison.ratio,
            "bound_class": self.comparison.bound_class,
            "interval_level": LEVEL,
        }

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
            self.mechanism, self.epsilon, self.analysis, self.bound, self.seconds
        )

    @cached_property
    def hard_instance(self) -> HardInstance | None:
        """Distributions on which no protocol reaches the goal with fewer people; None if unknown.

        It is about answers for the population that people come from, biased or not.
        """
        asked = self.plain_workload
        if self.goal is None or self.strategy.delta or sum(asked.shape) > _QUICK_INSTANCE:
            return None
        try:
            goal = self.goal
            return hard_instance(asked, goal.error, epsilon=self.epsilon, beta=goal.beta)
        except NoisewrightError:
            return None

    def _goal_figures(self) -> dict[str, Any]:
        """The largest error that the plan is for, and the people that it needs."""
        if self.goal is None:
            return {}
        hard = self.hard_instance
        return {
            "any_protocol_lower_bound": None if hard is None else hard.people,
            "any_protocol_class": None if hard is None else hard.bound_class,
            "max_error": self.goal.error,
            "beta": self.goal.beta,
            "people_for_max_error": self.people_for_max_error(),
            "largest_bias": 0.0 if self.bias is None else float(self.bias.max()),
        }

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on, at α = 0.01, and those that the plan was made for."""
        best = self.certificate
        prior = best and prior_floor(self.workload, self.epsilon)
        floor = 0.0 if best is None else best.sample_complexity(ALPHA)
        certified = None if best is None else best.ratio(self.analysis.worst_case)
        asked: dict[str, Any] = {}
        if self.alpha is not None:
            asked |= {"alpha": self.alpha, "people_needed": self.people_for()}
        if self.people is not None:
            asked |= {**self.forecast().summary(), "shuffled": self._shuffled(self.people)}
        return {
            **self.comparison.to_dict(),
            "sample_complexity_prior_bound": prior and prior.sample_complexity(ALPHA),
            "certified_lower_bound": floor or None,
            "certified_ratio": certified,
            "certificate": best and best.name,
            "privacy": self.privacy.to_dict(),
            "queries": self.workload.queries,
            "size": self.workload.size,
            "report_bytes": self.format.length,
            "plan": self.format.name,
            "runners_up": [dict(row) for row in self.runners_up],
            **asked,
            **self._goal_figures(),
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("workload", self.workload.brief()),
            ("mechanism", self.mechanism),
            ("privacy", self.privacy.text()),
            ("cells", f"{self.workload.size:,}"),
            ("report", f"{self.format.length} bytes"),
        ]

    def _shuffled(self, people: int) -> dict[str, float | None] | None:
        """What shuffled reports promise together, where the bound says anything."""
        try:
            promise = self.amplified(people, SHUFFLE_DELTA)
        except NoisewrightError:
            return None
        return {"epsilon": promise.epsilon, "delta": promise.delta}

    def save(self, path: str | Path) -> None:
        """Write the plan: safetensors with a JSON header, whole or not at all."""
        from noisewright.planning.plan_files import save

        save(self, path)


def _numbered(size: int) -> Domain:
    """Cells by their number, where a plan knows nothing else about them."""
    if size > LARGEST_VECTOR:
        raise TooLarge(f"{size:.3g} cells by number are too many; plan with a domain")
    return Domain([Numeric.integers("cell", 0, size - 1)])
