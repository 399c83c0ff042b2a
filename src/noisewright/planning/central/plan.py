"""A plan with a trusted curator: a mechanism with its noise, and what its answers are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.mechanism import continuous_deviation
from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.central.groups import RowBounds
from noisewright.central.mechanism import Counts, Measurement, Mechanism, Table
from noisewright.central.problem import CentralProblem, Proposal
from noisewright.container import value_digest
from noisewright.domain import Domain, Unit
from noisewright.domain.unit import ROW_IS_PERSON
from noisewright.errors import InvalidParameter, refusing_unforeseen, shortened_text
from noisewright.estimate.accuracy import Accuracy
from noisewright.planning.after.postprocess import Steps
from noisewright.planning.central.answers import (
    derived_columns,
    linear_answers,
    outcome,
    planned_widths,
    standard_errors,
)
from noisewright.planning.central.empty_cells import (
    Known,
    contradictions,
    given_empty_cells,
    warn_of,
)
from noisewright.planning.central.record import (
    central_record,
    central_summary,
    measured_laws,
    strategy_hash,
)
from noisewright.planning.counting import (
    Counter,
    Data,
    counting_sql,
    exact_counts,
)
from noisewright.planning.plan import (
    CuratorPlan,
    Extent,
    Forecast,
    ReleasedTable,
    TableError,
    answer_tables,
    certified_ratio,
    class_bounds,
    error_name,
    table_errors,
    told_errors,
)
from noisewright.planning.release import Release, release_time
from noisewright.planning.spending import (
    Spending,
    noise_of,
)
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Contribution, Privacy, pure_promise
from noisewright.privacy.promise.calibration import row_budget
from noisewright.privacy.promise.spend import Spend
from noisewright.solution import ClassBound
from noisewright.stages import stage
from noisewright.workload import Workload
from noisewright.workload.forms.stored import stored_workload
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.questions.statistics import Column, Widths
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.planning.central.rehearsal import Rehearsal


@dataclass(frozen=True, eq=False, repr=False)
class CentralPlan(CuratorPlan[Counts, Release]):
    """What will be measured, with which noise, and what the answers will be worth.

    `promise` is the budget of a person where several rows of theirs count: the mechanism then has
    the budget of one row. `asked` is the promise (ε, δ) that was asked for, where the noise is for
    pure ε, which keeps it. `known_accuracy` hands over what planning has already worked out about
    the answers.
    """

    workload: Workload
    domain: Domain | None
    sizes: tuple[int, ...]
    norm: float
    proposal: Proposal
    seconds: float = 0.0
    counter: Counter | None = None
    promise: Privacy | None = None
    asked: Privacy | None = None
    known_accuracy: Accuracy | None = field(default=None, compare=False)

    kind = "central-plan"
    release_kind = "release"

    def __post_init__(self) -> None:
        """Cells and bounds follow from the schema: a file that states others is refused."""
        summed = {table.measure for table in self.mechanism.tables}
        if not summed.issuperset(self.workload.measures):
            name = self.mechanism.name
            rule = "is not what the questions sum"
            raise InvalidParameter("measure", name, rule, "plan again")
        if self.domain is not None and self.sizes != self.domain.shape:
            rule = "are not those of the schema's attributes"
            raise InvalidParameter("sizes", self.sizes, rule, "plan again")
        if self.mechanism.privacy != row_budget(self.calibrated, self.contribution):
            raise InvalidParameter(
                "privacy",
                self.mechanism.privacy.text(),
                "is not the share of one row",
                "plan again",
            )
        if self.asked is not None and self.calibrated != pure_promise(self.asked):
            raise InvalidParameter(
                "asked",
                self.asked.text(),
                "is not what the noise was chosen for",
                "plan again",
            )

    @property
    def rows(self) -> int:
        """How many rows of one person count at most."""
        return self._row_bounds.rows

    @cached_property
    def _row_bounds(self) -> RowBounds:
        return RowBounds.of(self.domain, self.sizes)

    @cached_property
    def contribution(self) -> Contribution:
        """How many times what one row moves the measurement, a person does."""
        return self._row_bounds.contribution(self.mechanism)

    def extent(self) -> Extent:
        """How many tables are counted, and answers given."""
        tables = len(self.mechanism.tables)
        return Extent(self.queries, self.mechanism.name, "tables", tables)

    def error_of_rows(self, rows: int) -> float:
        """The root mean square error of the same measurement where so many rows count."""
        grown = self._row_bounds.of_rows(rows).contribution(self.mechanism)
        return self.forecast().rmse * float(grown.multiple / self.contribution.multiple)

    @property
    def person(self) -> str:
        """Whose privacy it is, in words."""
        return ROW_IS_PERSON if self.domain is None else self.domain.person

    @property
    def mechanism(self) -> Mechanism:
        """What measures and answers."""
        return self.proposal.mechanism

    @property
    def measures_only(self) -> Mechanism:
        """What answers without bias: the method, or what it is fitted to."""
        return (
            self.mechanism.inner
            if isinstance(self.mechanism, FittedMechanism)
            else self.mechanism
        )

    @property
    def calibrated(self) -> Privacy:
        """The budget that the noise is calibrated to."""
        return self.promise or self.mechanism.privacy

    @property
    def privacy(self) -> Privacy:
        """What one release promises."""
        return self.calibrated

    @property
    def stated(self) -> Privacy:
        """The promise that was asked for, which the plan keeps or betters."""
        return self.asked or self.privacy

    @property
    def spend(self) -> Spend:
        """What one release costs a person, from the noise that is drawn."""
        return self.mechanism.spend.of_rows(self.contribution)

    @cached_property
    def spends(self) -> dict[str, float]:
        """The same in every currency that budgets are counted in: ε with its δ, and ρ."""
        return self.spend.currencies(self.stated.delta)

    # --- what is asked --------------------------------------------------------------------------

    @cached_property
    def _needs(self) -> list[tuple[Term, float]]:
        """All that is asked, on tables and plainly, with how much each error matters."""
        return self.workload.needs(self.sizes)

    @property
    def terms(self) -> list[Term]:
        """All that is asked, on tables, without the weights of named questions."""
        return [term for term, _ in self._needs]

    @property
    def weights(self) -> FloatArray:
        """How much the error of every answer to the terms matters."""
        return np.repeat(
            [w for _, w in self._needs], [term.queries for term, _ in self._needs]
        )

    @property
    def plain_workload(self) -> Workload:
        """The queries as they are answered, without the weights of named questions."""
        return self.workload.plain()

    @property
    def queries(self) -> int:
        """Number of answers."""
        return self.workload.answers

    @property
    def counts_only(self) -> bool:
        """Whether every answer is a number of people."""
        return self.workload.counts_only

    def each_label(self) -> Iterator[str]:
        """Every answer in words, one after the other."""
        return self.workload.each_label(self.domain)

    def labels(self) -> list[str]:
        """Every answer in words."""
        return list(self.each_label())

    def tables(self) -> tuple[ReleasedTable, ...]:
        """The parts of the release, with what their answers stand for."""
        return answer_tables(self.workload)

    # --- errors before anything is spent ----------------------------------------------------------

    @cached_property
    def measured_accuracy(self) -> Accuracy:
        """How wrong the answers to the terms are, by the measurement alone."""
        if self.known_accuracy is not None:
            return self.known_accuracy
        return self.mechanism.accuracy(self.terms)

    @cached_property
    def impossible(self) -> Known | None:
        """What impossible cells tell about the answers."""
        if self.domain is None or not self.domain.boxes or not self.spend.losses:
            return None
        return given_empty_cells(self.mechanism, self.domain, self.terms)

    @cached_property
    def accuracy(self) -> Accuracy:
        """How wrong the answers to the terms are, impossible cells taken into account."""
        return (
            self.measured_accuracy
            if self.impossible is None
            else self.impossible.accuracy
        )

    @cached_property
    def interval_accuracy(self) -> Accuracy:
        """How wrong the linear answers are, around which intervals lie."""
        if isinstance(self.mechanism, FittedMechanism):
            return self.mechanism.inner.accuracy(self.terms)
        return self.accuracy

    @property
    def achieved(self) -> float:
        """The plan's own error, in the sense it was planned for, weights included."""
        return mean_error(self.accuracy.error * self.weights, self.norm)

    @property
    def unit_error(self) -> float | None:
        """The plan's own error per unit of noise at sensitivity one."""
        unit = self.mechanism.unit_noise
        return self.achieved / unit if unit else self.proposal.value

    def at(self, privacy: Privacy) -> CentralPlan:
        """The same plan under another budget; pure noise that keeps (ε, δ) stays pure."""
        pure = None if self.asked is None else pure_promise(privacy)
        drawn = privacy if pure is None else pure
        own = row_budget(drawn, self.contribution)

        return replace(
            self,
            proposal=replace(self.proposal, mechanism=self.mechanism.at(own)),
            promise=None if self.rows == 1 else drawn,
            asked=None if pure is None else privacy,
            known_accuracy=None,
        )

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Of all answers; NaN for those that depend on how many people there are."""
        return standard_errors(self)

    @cached_property
    def forecast_column(self) -> Column:
        """The same with intervals, around zero."""
        nothing = np.zeros(sum(term.queries for term in self.terms))
        return replace(
            derived_columns(self, nothing, self.widths), std=self.standard_errors
        )

    def forecast(self) -> Forecast:
        """Errors of all answers, in counts of people, before any budget is spent."""
        return self._forecast

    @cached_property
    def _forecast(self) -> Forecast:
        return replace(self.errors, bounds=self.bounds)

    @cached_property
    def errors(self) -> Forecast:
        """The forecast without the bounds for wider classes, each of which takes a proof."""
        column = self.forecast_column
        achieved = self.achieved
        bound = self.lower_bound

        return Forecast(
            std=column.std,
            halfwidth=np.where(np.isnan(column.std), np.nan, column.each[1]),
            simultaneous_halfwidth=np.where(
                np.isnan(column.std), np.nan, column.all[1]
            ),
            error=error_name(self.norm),
            lower_bound=bound,
            ratio=certified_ratio(achieved, bound),
            quantisation_loss=self._loss(achieved),
            worst_rmse=self.accuracy.worst_rmse,
        )

    def table_errors(self) -> list[TableError]:
        """The errors of every table."""
        forecast = self.forecast()
        widths = forecast.halfwidth, forecast.simultaneous_halfwidth
        return table_errors(self.tables(), forecast.std, *widths)

    # --- how close to the best --------------------------------------------------------------------

    @property
    def lower_bound(self) -> float | None:
        """What no linear strategy under this noise can go below, in the plan's own error."""
        bound = self.proposal.bound
        unit = self.mechanism.unit_noise
        if bound is None or unit is None or self._planned_for is not None:
            return None
        if self._row_bounds.grouped:  # people may not put all their rows into one cell
            return None

        return bound * unit or None  # no noise at all, at a vast ε, has no bound

    @cached_property
    def bounds(self) -> tuple[ClassBound, ...]:
        """What mechanisms of wider classes cannot go below either, from what is asked alone."""
        problem = CentralProblem(
            self.workload, self.sizes, self.stated, self.norm, self.domain
        )
        accuracy = self.accuracy
        exact = accuracy.kind == "exact" and accuracy.bias is None
        return class_bounds(problem, self._row_bounds.each, self.achieved, exact)

    @property
    def _planned_for(self) -> str | None:
        """What the strategy and its bound were found for, where that is not what is released."""
        if self.proposal.neighbours != self.privacy.neighbours:
            return self.proposal.neighbours
        if self.domain is not None and self.domain.boxes:
            return "a domain without impossible cells"
        return None

    @property
    def status(self) -> str:
        """How the search for the strategy ended; what it says of optima is for what it names."""
        text = self.proposal.status
        return (
            text
            if self._planned_for is None
            else f"planned for {self._planned_for}: {text}"
        )

    def _loss(self, achieved: float) -> float | None:
        """Relative cost of the integer grid in the plan's own error."""
        if self._planned_for is not None or self.proposal.value is None:
            return None
        return (
            achieved
            / (self.proposal.value * continuous_deviation(self.mechanism.privacy))
            - 1
        )

    # --- the release ------------------------------------------------------------------------------

    def simulate(
        self,
        public_table: Data,
        *,
        seed: int,
        runs: int = 100,
        counter: Counter | None = None,
    ) -> Rehearsal:
        """Rehearse releases on data that are public or made up: errors, clipping, cells lost.

        Never give it people's data: nothing is protected. It is the one place that takes a seed,
        and what it returns holds no answers and cannot be published as a release.
        """
        from noisewright.planning.central.rehearsal import rehearse

        return rehearse(self, public_table, seed, runs, counter)

    @property
    def title(self) -> str:
        """What is asked, shortened, and the mechanism."""
        asked = "; ".join(table.name for table in self.tables())
        return f"{shortened_text(asked, 80)} ({self.mechanism.name})"

    @property
    def laws(self) -> list[dict[str, object]]:
        """Every law that is drawn, with its scale and the sensitivity of a person."""
        return noise_of(measured_laws(self))

    @property
    def unit(self) -> Unit | None:
        """Whose rows are whose."""
        return None if self.domain is None else self.domain.unit

    @cached_property
    def digest(self) -> str:
        """A name for all that decides what a release measures and answers."""
        asked = stored_workload(self.workload)
        domain = None if self.domain is None else self.domain.fingerprint
        return value_digest(
            [asked, domain, self.privacy, strategy_hash(self.mechanism)]
        )

    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it, with the errors of its tables."""
        return {**super().description(), "tables": told_errors(self.table_errors())}

    def check_usable(self) -> None:
        """Whatever a forged plan fails at, it fails at before anybody's data are read."""
        with refusing_unforeseen("the plan cannot answer its own queries; plan again"):
            _ = self._record_of_noise

    def noisy(
        self,
        exact: Counts,
        spending: Spending | None = None,
        source: ByteSource | None = None,
    ) -> Release:
        """The release of exact tables that were counted before."""
        stage("drawing noise")
        measurement = self.mechanism.measure(exact, source)
        paid = spending or Spending()
        release = Release(
            self, measurement, (), paid.identity, release_time(), paid.note
        )
        warn_of(self.contradictions(measurement))
        return release

    def exact(
        self,
        data: Data,
        counter: Counter | None = None,
        tables: Sequence[Table] | None = None,
    ) -> Counts:
        """The exact tables that the mechanism measures (or others): as private as the data."""
        asked = self.mechanism.tables if tables is None else tables
        return exact_counts(self, data, counter, asked)

    def counting_sql(self, data: Data, counter: Counter | None = None) -> str:
        """What the counting engine would run on a table: nothing is counted or spent."""
        return counting_sql(self, data, counter, self.mechanism.tables)

    def linear_answers(self, measurement: Measurement) -> FloatArray:
        """Linear answers to the terms: unbiased, or within the bias that their accuracy tells."""
        return linear_answers(self, measurement)

    def outcome(self, measurement: Measurement, steps: Sequence[Steps]) -> Column:
        """What a measurement says, after the steps of post-processing taken."""
        return outcome(self, measurement, steps)

    def changes(self, steps: Sequence[Steps]) -> bool:
        """Whether steps change answers, so that they need not be unbiased."""
        return bool(steps) or isinstance(self.mechanism, FittedMechanism)

    @property
    def tells_unbiased(self) -> bool:
        """Whether what is measured gives unbiased answers."""
        return self.interval_accuracy.bias is None

    def unbiased(self, measurement: Measurement, steps: Sequence[Steps]) -> Column:
        """What a measurement says by itself."""
        return derived_columns(self, self.linear_answers(measurement), self.widths)

    @cached_property
    def widths(self) -> Widths:
        """How many standard errors hold an answer to a term; simulated laws are drawn once."""
        return planned_widths(self)

    def contradictions(self, measurement: Measurement) -> Mapping[str, object] | None:
        """What a measurement says of declared impossible cells; None where nothing is tested."""
        if self.domain is None or not self.domain.boxes or not self.spend.losses:
            return None
        return contradictions(self.mechanism, self.domain, measurement)

    # --- what people and scripts see --------------------------------------------------------------

    def record(self) -> dict[str, object]:
        """What a release spends and how: ready for JSON, nothing private in it."""
        return dict(self._record)

    @cached_property
    def _record(self) -> dict[str, object]:
        bounds = [bound.to_dict() for bound in self.bounds]
        return {**self._record_of_noise, "bounds": bounds}

    @cached_property
    def _record_of_noise(self) -> dict[str, object]:
        """The same before bounds are proved, which decide nothing that is released."""
        return central_record(self)

    def outcome_record(self, measurement: Measurement) -> dict[str, object]:
        """What the record of a release adds to that of its plan."""
        impossible = self.contradictions(measurement)
        return {} if impossible is None else {"impossible": impossible}

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        return central_summary(self)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("workload", self.workload.brief()),
            ("mechanism", self.mechanism.name),
            ("privacy", self.privacy.text()),
            ("queries", f"{self.queries:,}"),
            ("cells", f"{prod(self.sizes):,}"),
        ]


def check_answerable(plan: CentralPlan) -> CentralPlan:
    """Refuse, before anything is spent, a plan without noise or that misses its own queries."""
    _ = plan.spend  # refuses budgets for which no noise can be drawn
    plan.mechanism.check_reach(plan.terms)
    return plan
