"""A plan with a trusted curator: fixed strategy, fixed noise, answers on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright import __version__
from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.block import Table
from noisewright.central.blocks.block_mechanism import BlockMechanism
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.variance import query_variances
from noisewright.central.gaussian.products import as_one_axis
from noisewright.central.problem import Proposal
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, refusing
from noisewright.estimate.intervals import (
    ErrorMap,
    laplace_multiplier,
    normal_multiplier,
    sidak_multiplier,
    simultaneous_multiplier,
)
from noisewright.planning import describe
from noisewright.planning.counting import (
    Counter,
    checked_histogram,
    histogram_marginal,
    is_histogram,
)
from noisewright.planning.forecast import Forecast, certified_ratio
from noisewright.planning.impossible import ZeroFit, contradictions, warn_of, zero_fit
from noisewright.planning.release import Release, ReleasedTable, fresh_name
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.law import NoiseLaw
from noisewright.privacy.source import ByteSource
from noisewright.workload import Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.spec import Questions
from noisewright.workload.structure import Term, terms
from noisewright.workload.tensor import mean_error

LEVEL = 0.95
_SIMULATED_QUERIES = 20_000  # above this many, Šidák's bound replaces simulation


@dataclass(frozen=True, eq=False)
class CentralPlan:
    """What will be measured, with which noise, and what the answers will be worth."""

    workload: Workload
    domain: Domain | None
    sizes: tuple[int, ...]
    privacy: Privacy
    mechanism: str
    norm: float
    planned: Proposal
    seconds: float = 0.0
    counter: Counter | None = None

    @property
    def model(self) -> str:
        """Who adds the noise."""
        return "central"

    @property
    def strategy(self) -> BlockStrategy:
        """The integer blocks that are measured."""
        mechanism = self.planned.mechanism
        assert isinstance(mechanism, BlockMechanism)
        return mechanism.strategy

    @cached_property
    def terms(self) -> list[Term]:
        """The workload on marginal tables, without the weights of named questions."""
        if not isinstance(self.workload, Questions):
            return terms(self.workload, self.strategy.sizes)
        if self._joint:
            return [as_one_axis(part) for part in self.workload.plain_parts()]
        return self.workload.plain_terms()

    @property
    def plain_workload(self) -> Workload:
        """The queries as they are answered, without the weights of named questions."""
        return describe.plain_workload(self.workload)

    @property
    def _joint(self) -> bool:
        """Whether the strategy sees all cells on one axis, whatever the attributes."""
        return self.strategy.sizes != self.sizes

    @cached_property
    def sensitivity(self) -> float:
        """Change one neighbour makes to the measurements, in L1 or L2 as the noise needs."""
        order = 1 if self.privacy.kind == "pure" else 2
        return self.strategy.sensitivity(order, self.privacy.neighbours)

    @cached_property
    def law(self) -> NoiseLaw:
        """The noise on a block of relative scale one, in grid steps."""
        if self.privacy.kind == "pure":
            return calibrate(self.privacy, l1=self.sensitivity)
        return calibrate(self.privacy, l2=self.sensitivity)

    @cached_property
    def variances(self) -> FloatArray:
        """Exact variance of every answer, impossible cells taken into account."""
        found = np.concatenate(query_variances(self.strategy, self.terms, self.law))
        if self._zeros is None:
            return found
        # What is left of cells that are known to be empty is rounding.
        left = found - self._zeros.reduction
        return np.where(left > 1e-9 * found, left, 0.0)

    @cached_property
    def _zeros(self) -> ZeroFit | None:
        if self.domain is None or not self.domain.boxes or not self.sensitivity:
            return None
        return zero_fit(self.strategy, self.domain, self.terms, self.law)

    @cached_property
    def _multiplier(self) -> float:
        return self.joint_multiplier(np.sqrt(self.variances))

    def joint_multiplier(self, std: FloatArray, change: ErrorMap | None = None) -> float:
        """Standard errors either side that cover all answers at once with 95 % probability.

        `change` is the linear map that post-processing makes of all errors (queries × draws), and
        `std` what it leaves of them.
        """
        if self.workload.queries > _SIMULATED_QUERIES:
            if self.privacy.kind == "pure":  # Šidák's inequality is Gaussian: the union bound
                return laplace_multiplier(1 - (1 - LEVEL) / self.workload.queries)
            return sidak_multiplier(self.workload.queries, LEVEL)
        safe = np.where(std > 0, std, 1.0)

        def errors(draws: int, rng: np.random.Generator) -> FloatArray:
            noise = [
                np.sqrt(law.variance) * self._unit_noise(rng, (block.rows, draws))
                for block, law in zip(
                    self.strategy.blocks, self.strategy.laws(self.law), strict=True
                )
            ]
            drawn = self.answer(noise)
            return ((drawn if change is None else change(drawn)) / safe[:, None]).T

        # Public simulation of the error law: nothing here touches data, so a fixed seed is right
        # and makes a plan's forecast reproducible.
        return simultaneous_multiplier(errors, LEVEL, draws=4000, rng=np.random.default_rng(0))

    def _unit_noise(self, rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        if self.privacy.kind == "pure":
            return rng.laplace(scale=np.sqrt(0.5), size=shape)
        return rng.standard_normal(shape)

    def answer(self, measured: list[npt.NDArray[Any]]) -> FloatArray:
        """Least-squares answers from measurements, or their effect on the answers: a linear map."""
        answers = np.concatenate(self.strategy.answers(self.terms, measured))
        if self._zeros is None:
            return answers
        return self._zeros.correct(self.strategy, measured, answers)

    @property
    def achieved(self) -> float:
        """The plan's own error, in the sense it was planned for, weights included."""
        return mean_error(np.sqrt(self.variances) * self._weights(), self.norm)

    @property
    def unit_error(self) -> float:
        """The plan's own error per unit of noise at sensitivity one."""
        least = self.noise_deviation
        return self.achieved / least if least else self.planned.value or 0.0

    def forecast(self) -> Forecast:
        """Errors of all answers, in counts of people, before any budget is spent."""
        std = np.sqrt(self.variances)
        achieved = self.achieved
        bound = self.lower_bound
        return Forecast(
            std=std,
            rmse=mean_error(std, 2),
            max=float(std.max()),
            halfwidth=self._halfwidth(std),
            simultaneous_halfwidth=self._multiplier * std,
            error=_error_name(self.norm),
            lower_bound=bound,
            ratio=certified_ratio(achieved, bound),
            quantisation_loss=self._loss(achieved),
        )

    def halfwidth_multiplier(self, level: float) -> float:
        """Standard errors either side of an answer that cover it with probability `level`."""
        return (laplace_multiplier if self.privacy.kind == "pure" else normal_multiplier)(level)

    def _halfwidth(self, std: FloatArray) -> FloatArray:
        return np.asarray(self.halfwidth_multiplier(LEVEL) * std)

    def _weights(self) -> FloatArray:
        """Importance of each answer: weights that a named question's plain answer leaves out."""
        if not isinstance(self.workload, Questions):
            return np.ones(self.workload.queries)
        weighted = terms(self.workload, self.sizes)
        return np.repeat([t.weight for t in weighted], [t.queries for t in weighted])

    def _unit_noise_deviation(self) -> float:
        """Standard deviation of continuous noise for sensitivity one under this budget."""
        if self.privacy.kind == "pure":
            assert self.privacy.epsilon is not None
            return float(np.sqrt(2) / self.privacy.epsilon)
        return calibrate(self.privacy, l2=1.0).scale

    @cached_property
    def noise_deviation(self) -> float:
        """Standard deviation per unit of sensitivity that a bound for "this noise" may rest on.

        On this plan's grid noise may vary a little less than the continuous law at the same budget.
        """
        unit = 2.0 if self.privacy.kind == "pure" else 1.0
        free = self.privacy.neighbours == "replace-one"  # a public total: no bound is about it
        laws = zip(self.strategy.blocks, self.strategy.laws(self.law), strict=True)
        moved = [law for block, law in laws if block.attributes or not free]
        least = min((law.variance / (unit * law.scale**2) for law in moved), default=1.0)
        return self._unit_noise_deviation() * float(np.sqrt(min(1.0, least)))

    @property
    def lower_bound(self) -> float | None:
        """What no linear strategy under this noise can go below, in the plan's own error."""
        bound = self.planned.bound
        if bound is None or self._planned_for is not None:
            return None
        return bound * self.noise_deviation or None  # no noise at all, at a vast ε, has no bound

    @property
    def _planned_for(self) -> str | None:
        """What the strategy and its bound were found for, where that is not what is released."""
        if self.planned.neighbours != self.privacy.neighbours:
            return self.planned.neighbours
        if self.domain is not None and self.domain.boxes:
            return "a domain without impossible cells"
        return None

    @property
    def status(self) -> str:
        """How the search for the strategy ended; what it says of optima is for what it names."""
        told = self.planned.status
        return told if self._planned_for is None else f"planned for {self._planned_for}: {told}"

    def _loss(self, achieved: float) -> float | None:
        """Relative cost of the integer grid in the plan's own error."""
        if self._planned_for is not None or self.planned.value is None:
            return None
        return achieved / (self.planned.value * self._unit_noise_deviation()) - 1

    def release(self, data: Any, *, counter: Counter | None = None) -> Release:
        """Measure, add fresh noise from the operating system, answer. Each call spends the budget.

        `data` is a table of people (CSV or Parquet path, Arrow table, pandas or polars frame,
        DuckDB relation) or an integer histogram over the cells.
        """
        return self._release(data, counter, None)

    def _release(self, data: Any, counter: Counter | None, source: ByteSource | None) -> Release:
        with refusing("the plan cannot answer its own queries; plan again"):
            # Whatever a forged plan fails at, it fails at before anybody's data are read.
            std, metadata = np.sqrt(self.variances), self.metadata()
        exact = self.strategy.measure(self._marginals(data, counter))
        noise = self.strategy.draw(self.law, source)
        pairs = zip(exact, noise, strict=True)
        noisy = [(value + drawn).astype(np.float64) for value, drawn in pairs]
        told = self.contradictions(noisy, self.law)
        return Release(
            answers=self.answer(noisy),
            std=std,
            halfwidth=self._halfwidth(std),
            simultaneous_halfwidth=self._multiplier * std,
            tables=self.tables(),
            metadata={**metadata, **told, "release": fresh_name()},
            _labels=self.labels,
        )

    def contradictions(self, noisy: Sequence[npt.NDArray[Any]], law: NoiseLaw) -> dict[str, Any]:
        """What noisy counts say of declared impossible cells, for the record; warns of trouble."""
        if self.domain is None or not self.domain.boxes or not self.sensitivity:
            return {}
        told = contradictions(self.strategy, self.domain, noisy, law)
        warn_of(told)
        return {} if told is None else {"impossible": told}

    def _marginals(self, data: Any, counter: Counter | None) -> Any:
        if self.domain is not None:
            self.domain.require_reviewed()  # its labels are published, whatever the data's form
        if is_histogram(data):
            counts = checked_histogram(data, self.sizes).reshape(self.strategy.sizes)
            return lambda table: histogram_marginal(counts, table)
        if self.domain is None:
            raise InvalidParameter(
                "data",
                type(data).__name__,
                "is a table, and this plan knows no domain",
                "plan with domain=..., or give a histogram of integer counts",
            )
        engine = counter or self.counter
        if engine is None:
            raise InvalidParameter(
                "counter", None, "must be given to count a table", "pass a counting engine"
            )
        return self._counted(data, self.domain, engine)

    def _counted(self, data: Any, domain: Domain, counter: Counter) -> Any:
        wanted = self.strategy.tables
        counted: list[Integers] = counter.marginals(data, domain, self.names_of(wanted, domain))
        by_table = dict(zip(wanted, counted, strict=True))
        return by_table.__getitem__

    def names_of(self, tables: Sequence[Table], domain: Domain) -> list[tuple[str, ...]]:
        """The attributes of the tables that a strategy measures, by name."""
        if self._joint:  # its one axis stands for all attributes
            return [domain.names if table else () for table in tables]
        return [tuple(domain.names[i] for i in table) for table in tables]

    def labels(self) -> list[str]:
        """Every query in words."""
        return describe.labels(self.workload, self.domain)

    def table_errors(self) -> list[tuple[Any, ...]]:
        """Per table: name, queries, rmse, largest standard error, and typical half-widths."""
        forecast = self.forecast()
        widths = forecast.halfwidth, forecast.simultaneous_halfwidth
        return describe.table_errors(self.tables(), forecast.std, *widths)

    def tables(self) -> tuple[ReleasedTable, ...]:
        """The parts of the release, with what their queries stand for."""
        return describe.answer_tables(self.workload)

    def metadata(self) -> dict[str, Any]:
        """What a release spends and how: ready for JSON, nothing private in it."""
        forecast = self.forecast()
        return {
            **self.record(),
            "noise": self.law.to_dict(),
            "sensitivity": self.sensitivity,
            "measurements": self.strategy.measurements,
            "ratio": forecast.ratio,
            "bound_class": forecast.bound_class,
        }

    def record(self) -> dict[str, Any]:
        """What is released, from which strategy and under which promise."""
        from noisewright.planning.plan_files import strategy_hash

        return {
            "format": "noisewright-release",
            "version": __version__,
            "model": "central",
            "mechanism": self.mechanism,
            "privacy": self.privacy.to_dict(),
            "neighbours": self.privacy.neighbours,
            "strategy_hash": strategy_hash(self.strategy),
            "workload": self.workload.brief(),
            "domain": None if self.domain is None else self.domain.fingerprint,
            "queries": self.workload.queries,
            "interval_level": LEVEL,
            "libraries": {"numpy": np.__version__},
        }

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": self.mechanism,
            "privacy": self.privacy.to_dict(),
            **forecast.summary(),
            "error": forecast.error,
            "queries": self.workload.queries,
            "size": prod(self.sizes),
            "noise": self.law.to_dict(),
            "status": self.status,
            "seconds": self.seconds,
        }

    def save(self, path: Any) -> None:
        """Write the plan: safetensors with a JSON header, whole or not at all."""
        from noisewright.planning.plan_files import save_central

        save_central(self, path)


def _error_name(norm: float) -> str:
    return {2.0: "rmse", np.inf: "max"}.get(norm, f"{norm:g}-mean")


def check_answerable(plan: CentralPlan) -> CentralPlan:
    """Refuse, before anything is spent, a plan without noise or that misses its own queries."""
    _ = plan.law  # refuses budgets for which no noise can be drawn
    start = 0
    for term in plan.terms:
        plan.strategy.check_reach(term, start)
        start += term.queries
    return plan
