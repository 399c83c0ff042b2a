"""A plan with a trusted curator: a mechanism with its noise, and what its answers are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.mechanism import continuous_deviation
from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.central.groups import RowBounds
from noisewright.central.mechanism import Counts, Measurement, Mechanism, Table
from noisewright.central.problem import CentralProblem, Proposal
from noisewright.display import Shown
from noisewright.domain import Domain
from noisewright.domain.unit import ROW_IS_PERSON
from noisewright.errors import InvalidParameter, refusing, require, shortened
from noisewright.estimate.accuracy import Accuracy
from noisewright.planning.after.postprocess import Steps
from noisewright.planning.budgets.spending import (
    Again,
    Cost,
    LedgerLike,
    Reservation,
    noise_of,
    purse_of,
)
from noisewright.planning.central.answers import (
    derived,
    linear_answers,
    outcome,
    planned_widths,
    standard_errors,
)
from noisewright.planning.central.counts import counting_sql, exact_counts
from noisewright.planning.central.empty_cells import (
    Known,
    contradictions,
    given_empty_cells,
    warn_of,
)
from noisewright.planning.central.summary import (
    central_record,
    central_summary,
    measured,
)
from noisewright.planning.counting import (
    Counter,
    Data,
)
from noisewright.planning.plan import (
    Forecast,
    ReleasedTable,
    TableError,
    answer_tables,
    certified_ratio,
    class_bounds,
    error_name,
    table_errors,
)
from noisewright.planning.release import Release, fresh_name, now
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Contribution, Privacy, pure_promise
from noisewright.privacy.promise.calibration import row_budget
from noisewright.privacy.promise.spend import Spend
from noisewright.solution import ClassBound
from noisewright.stages import stage
from noisewright.workload import Workload
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.questions.statistics import Column, Widths
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.planning.central.rehearsal import Rehearsal


@dataclass(frozen=True, eq=False, repr=False)
class CentralPlan(Shown):
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
    mechanism: str
    proposal: Proposal
    seconds: float = 0.0
    counter: Counter | None = None
    promise: Privacy | None = None
    asked: Privacy | None = None
    known_accuracy: Accuracy | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Cells and bounds follow from the schema: a file that states others is refused."""
        require(
            set(self.workload.measures)
            <= {table.measure for table in self.method.tables},
            "measure",
            self.mechanism,
            "is not what the questions sum",
            "plan again",
        )
        require(
            self.domain is None or self.sizes == self.domain.shape,
            "sizes",
            self.sizes,
            "are not those of the schema's attributes",
            "plan again",
        )
        if self.method.privacy != row_budget(self.calibrated, self.contribution):
            raise InvalidParameter(
                "privacy",
                self.method.privacy.text(),
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
        return self._row_bounds.contribution(self.method)

    def error_of_rows(self, rows: int) -> float:
        """The root mean square error of the same measurement where so many rows count."""
        grown = self._row_bounds.of_rows(rows).contribution(self.method)
        return self.forecast().rmse * float(grown.multiple / self.contribution.multiple)

    @property
    def person(self) -> str:
        """Whose privacy it is, in words."""
        return ROW_IS_PERSON if self.domain is None else self.domain.person

    @property
    def model(self) -> str:
        """Who adds the noise."""
        return "central"

    @property
    def method(self) -> Mechanism:
        """What measures and answers."""
        return self.proposal.mechanism

    @property
    def measures_only(self) -> Mechanism:
        """What answers without bias: the method, or what it is fitted to."""
        return (
            self.method.inner
            if isinstance(self.method, FittedMechanism)
            else self.method
        )

    @property
    def calibrated(self) -> Privacy:
        """The budget that the noise is calibrated to."""
        return self.promise or self.method.privacy

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
        return self.method.spend.of_rows(self.contribution)

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
        return self.method.accuracy(self.terms)

    @cached_property
    def impossible(self) -> Known | None:
        """What impossible cells tell about the answers."""
        if self.domain is None or not self.domain.boxes or not self.spend.losses:
            return None
        return given_empty_cells(self.method, self.domain, self.terms)

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
        if isinstance(self.method, FittedMechanism):
            return self.method.inner.accuracy(self.terms)
        return self.accuracy

    @property
    def achieved(self) -> float:
        """The plan's own error, in the sense it was planned for, weights included."""
        return mean_error(self.accuracy.error * self.weights, self.norm)

    @property
    def unit_error(self) -> float | None:
        """The plan's own error per unit of noise at sensitivity one."""
        unit = self.method.unit_noise
        return self.achieved / unit if unit else self.proposal.value

    def at(self, privacy: Privacy) -> CentralPlan:
        """The same plan under another budget; pure noise that keeps (ε, δ) stays pure."""
        pure = None if self.asked is None else pure_promise(privacy)
        drawn = privacy if pure is None else pure
        own = row_budget(drawn, self.contribution)

        return replace(
            self,
            proposal=replace(self.proposal, mechanism=self.method.at(own)),
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
        return replace(derived(self, nothing, self.widths), std=self.standard_errors)

    def forecast(self) -> Forecast:
        """Errors of all answers, in counts of people, before any budget is spent."""
        return self._forecast

    @cached_property
    def _forecast(self) -> Forecast:
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
            bounds=self.bounds,
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
        unit = self.method.unit_noise
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
            achieved / (self.proposal.value * continuous_deviation(self.method.privacy))
            - 1
        )

    # --- the release ------------------------------------------------------------------------------

    def release(
        self,
        data: Data,
        *,
        counter: Counter | None = None,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
    ) -> Release:
        """Measure, add fresh noise from the operating system, answer. Each call spends the budget.

        `data` is a table of people (CSV or Parquet path, Arrow table, pandas or polars frame,
        DuckDB relation) or an integer histogram over the cells. With a `ledger`, the budget is
        taken from that of `dataset` (NAME or NAME@VERSION) before any noise is drawn, or the
        release is refused; where this plan was released from it before, `again` decides:
        "refuse", "stored" (those answers, at no cost) or "spend".
        """
        purse = purse_of(ledger, dataset, again)
        if purse is None:
            return self._release(data, counter, None)

        self.check_usable()
        if (stored := purse.stored(self.cost.plan)) is not None:
            return self._restored(stored, counter)

        purse.check(self.cost)
        counts = self.counts(data, counter)
        return purse.spend(
            self.cost, lambda r: self.release_counts(counts, reservation=r)
        )

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

    @cached_property
    def cost(self) -> Cost:
        """What a ledger is told of a release."""
        from noisewright.planning.files import plan_digest

        asked = "; ".join(table.name for table in self.tables())
        title = f"{shortened(asked, 80)} ({self.mechanism})"
        noise = noise_of(measured(self))
        unit = None if self.domain is None else self.domain.unit

        return Cost(self.spend, self.privacy, plan_digest(self), title, noise, unit)

    def _restored(self, content: bytes, counter: Counter | None) -> Release:
        from noisewright.planning.files import from_bytes

        release = from_bytes(content, counter or self.counter)
        assert isinstance(release, Release)
        return release

    def _release(
        self, data: Data, counter: Counter | None, source: ByteSource | None
    ) -> Release:
        self.check_usable()
        return self.release_counts(self.counts(data, counter), source)

    def check_usable(self) -> None:
        """Whatever a forged plan fails at, it fails at before anybody's data are read."""
        with refusing("the plan cannot answer its own queries; plan again"):
            _ = self._record

    def release_counts(
        self,
        counts: Counts,
        source: ByteSource | None = None,
        reservation: Reservation | None = None,
    ) -> Release:
        """Release exact tables that were counted before; only tests pass a source."""
        stage("drawing noise")
        measurement = self.method.measure(counts, source)
        name = fresh_name()
        note = None
        if reservation is not None:
            name = reservation.identity
            note = reservation.note

        release = Release(self, measurement, (), name, now(), note)
        warn_of(self.contradictions(measurement))
        return release

    def counts(
        self,
        data: Data,
        counter: Counter | None = None,
        tables: Sequence[Table] | None = None,
    ) -> Counts:
        """The exact tables that the mechanism measures (or others): as private as the data."""
        asked = self.method.tables if tables is None else tables
        return exact_counts(self, data, counter, asked)

    def counting_sql(self, data: Data, counter: Counter | None = None) -> str:
        """What the counting engine would run on a table: nothing is counted or spent."""
        return counting_sql(self, data, counter, self.method.tables)

    def noisy(self, measurement: Measurement) -> FloatArray:
        """Linear answers to the terms: unbiased, or within the bias that their accuracy tells."""
        return linear_answers(self, measurement)

    def outcome(self, measurement: Measurement, steps: Sequence[Steps]) -> Column:
        """What a measurement says, after the steps of post-processing taken."""
        return outcome(self, measurement, steps)

    def changes(self, steps: Sequence[Steps]) -> bool:
        """Whether steps change answers, so that they need not be unbiased."""
        return bool(steps) or isinstance(self.method, FittedMechanism)

    @property
    def tells_unbiased(self) -> bool:
        """Whether what is measured gives unbiased answers."""
        return self.interval_accuracy.bias is None

    def unbiased(self, measurement: Measurement, steps: Sequence[Steps]) -> Column:
        """What a measurement says by itself."""
        return derived(self, self.noisy(measurement), self.widths)

    @cached_property
    def widths(self) -> Widths:
        """How many standard errors hold an answer to a term; simulated laws are drawn once."""
        return planned_widths(self)

    def contradictions(self, measurement: Measurement) -> Mapping[str, Any] | None:
        """What a measurement says of declared impossible cells; None where nothing is tested."""
        if self.domain is None or not self.domain.boxes or not self.spend.losses:
            return None
        return contradictions(self.method, self.domain, measurement)

    # --- what people and scripts see --------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """What a release spends and how: ready for JSON, nothing private in it."""
        return dict(self._record)

    @cached_property
    def _record(self) -> dict[str, Any]:
        return central_record(self)

    def outcome_record(self, measurement: Measurement) -> dict[str, Any]:
        """What the record of a release adds to that of its plan."""
        impossible = self.contradictions(measurement)
        return {} if impossible is None else {"impossible": impossible}

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        return central_summary(self)

    def save(self, path: str | Path) -> None:
        """Write the plan: safetensors with a JSON header, whole or not at all."""
        from noisewright.planning.files import save

        save(self, path)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("workload", self.workload.brief()),
            ("mechanism", self.mechanism),
            ("privacy", self.privacy.text()),
            ("queries", f"{self.queries:,}"),
            ("cells", f"{prod(self.sizes):,}"),
        ]


def check_answerable(plan: CentralPlan) -> CentralPlan:
    """Refuse, before anything is spent, a plan without noise or that misses its own queries."""
    _ = plan.spend  # refuses budgets for which no noise can be drawn
    plan.method.check_reach(plan.terms)
    return plan
