"""What every plan is, whoever adds the noise and whatever is asked."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, isnan, nan
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    cast,
)

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.problem import CentralProblem
from noisewright.central.wider_bounds import wider_bounds
from noisewright.display import Shown
from noisewright.domain import Unit
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.planning.counting import Counter
from noisewright.planning.files import Keepable, from_bytes
from noisewright.planning.spending import (
    Again,
    Cost,
    LedgerLike,
    Spending,
    purse_of,
)
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend
from noisewright.solution import BoundClass, ClassBound, lifted_to_bound, quotient
from noisewright.workload import Workload
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.questions.statistics import PEOPLE
from noisewright.workload.questions.table_axes import Axis

LEVEL = 0.95
"""With which probability an interval holds its answer, by custom."""

Exact = TypeVar("Exact")
Result_co = TypeVar("Result_co", covariant=True)


class Outlook(Protocol):
    """What any forecast tells."""

    def summary(self) -> dict[str, object]:
        """The figures that fit on a line."""


class Plan(Shown, Keepable):
    """What every plan is, whoever adds the noise: a promise, what it costs, and what it gives."""

    model: ClassVar[str] = "central"
    """Who adds the noise: a curator ("central"), or every person ("local")."""
    release_kind: ClassVar[str | None] = None
    """The kind of file that a release of the plan is kept as; None where none is."""
    counter: Counter | None = None
    """The engine that counts tables unless another is given."""

    # Properties of some plans and fields of others, so that no base can define them.
    if TYPE_CHECKING:

        @property
        def privacy(self) -> Privacy:
            """The promise that one execution keeps."""

        @property
        def spend(self) -> Spend:
            """What one execution costs, from the noise that is drawn."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is asked, in words, and by which mechanism."""

    @property
    def laws(self) -> Sequence[dict[str, object]]:
        """Every law that is drawn, with its scale and sensitivity, ready for JSON."""
        return ()

    @property
    def unit(self) -> Unit | None:
        """Whose loss the spend is: that of whoever has all rows of one name, or of one row."""
        return None

    @cached_property
    def cost(self) -> Cost:
        """What a ledger is told of an execution."""
        told = self.digest, self.title, self.laws, self.unit
        return Cost(self.spend, self.privacy, *told)

    def equipped(self, counter: Counter | None) -> Self:
        """With the engine that counts tables: all that was checked and worked out still holds."""
        plan = copy(self)
        object.__setattr__(plan, "counter", counter)  # plans are frozen
        return plan

    @abstractmethod
    def forecast(self) -> Outlook:
        """How good the answers will be, before any budget is spent."""

    @abstractmethod
    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""

    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it, ready for JSON."""
        facts = {"privacy": self.privacy.to_dict(), "spend": self.spend.to_dict()}
        return {**facts, **{n: v for n, v in self.summary().items() if n not in facts}}


class Extent(NamedTuple):
    """How much a release reads and answers, before anything is read."""

    answers: int
    mechanism: str
    reads: str = ""
    """What is read, if that is counted: `columns` or `tables`."""
    number: int = 0
    """How many of them."""
    assumed: bool = False
    """Whether the figures depend on what is told first."""


class CuratorPlan(Plan, Generic[Exact, Result_co]):
    """A plan that a curator releases: exact values are read from data, and noise is added once.

    A kind of plan says what is read (`exact`) and what is released (`noisy`); buying from a ledger,
    keeping a release and giving it back are here.
    """

    @abstractmethod
    def forecast(self) -> Forecast:
        """Standard errors before anything is spent."""

    @abstractmethod
    def exact(self, data: Any, counter: Counter | None = None) -> Exact:
        """What is measured, before any noise: as private as the data."""

    @abstractmethod
    def noisy(
        self,
        exact: Exact,
        spending: Spending | None = None,
        source: ByteSource | None = None,
    ) -> Result_co:
        """The release of exact values under fresh noise; only tests pass a source.

        This spends the budget: without a `spending` of its own, as one that no ledger knows.
        """

    def check_usable(self) -> None:
        """Whatever a forged plan fails at, it fails at before anybody's data are read."""

    def extent(self) -> Extent:
        """How much a release reads and answers."""
        known = self.summary()
        return Extent(len(self.forecast().std), str(known["mechanism"]))

    def release(
        self,
        data: Any,
        *,
        counter: Counter | None = None,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
    ) -> Result_co:
        """Measure, add fresh noise from the operating system, answer. Each call spends the budget.

        `data` is a table of people (CSV or Parquet path, Arrow table, pandas or polars frame,
        DuckDB relation), an integer histogram over the cells, or, where columns are measured, an
        array with a row per person. With a `ledger`, the budget is taken from that of `dataset`
        (NAME or NAME@VERSION) before any noise is drawn, or the release is refused; where this plan
        was released from it before, `again` decides: "refuse", "stored" (those answers, at no cost)
        or "spend".
        """
        purse = purse_of(ledger, dataset, again)
        self.check_usable()
        if purse is None:
            return self.noisy(self.exact(data, counter))

        if self.release_kind is not None:
            stored = purse.stored(self.cost.plan)
            if stored is not None:
                engine = counter or self.counter
                return cast("Result_co", from_bytes(stored, engine, self.release_kind))

        purse.check(self.cost)
        exact = self.exact(data, counter)
        make = partial(self.noisy, exact)

        return purse.spend(self.cost, make, self._kept)

    def _kept(self, result: object) -> bytes | None:
        """What a ledger keeps of a release, so that it need never be bought again."""
        if self.release_kind is None or not isinstance(result, Keepable):
            return None
        try:
            return result.to_bytes()
        except FileFormatError:
            return None

    def engine(self, counter: Counter | None) -> Counter:
        """The engine given, or the plan's own."""
        engine = counter or self.counter
        if engine is None:
            raise InvalidParameter(
                "counter",
                None,
                "must be given to count a table",
                "pass a counting engine",
            )

        return engine


@dataclass(frozen=True, eq=False)
class Forecast(Shown):
    """Errors in counts of people.

    `halfwidth` covers each answer with 95 % probability, `simultaneous_halfwidth` all of them at
    once; an error that depends on how many people there are is NaN. `lower_bound` limits the error
    (in the plan's own sense) of every method in `bound_class`, and `ratio` is the plan's error over
    it; None where no bound is known. `bounds` are those for wider classes, which limit other noise
    and other mechanisms too. `quantisation_loss` is what the integer grid costs, relative to the
    same error. Where errors depend on the people, `worst_rmse` is one that no data exceed.
    """

    std: FloatArray
    halfwidth: FloatArray
    simultaneous_halfwidth: FloatArray
    error: str = "rmse"
    lower_bound: float | None = None
    ratio: float | None = None
    quantisation_loss: float | None = None
    worst_rmse: float | None = None
    bounds: tuple[ClassBound, ...] = ()

    def _facts(self) -> list[tuple[str, str]]:
        ratios = [self.ratio, *(bound.ratio for bound in reversed(self.bounds))]
        ratio = next((f"{r:.4f}" for r in ratios if r is not None), "no bound known")
        told = self.rmse, self.max
        words = ["unknown" if isnan(error) else f"{error:,.4g}" for error in told]
        errors = ("rmse", words[0]), ("max", words[1])

        return [
            ("answers", f"{len(self.std):,}"),
            *errors,
            (f"ratio ({self.error})", ratio),
        ]

    @property
    def rmse(self) -> float:
        """Root mean square of the standard errors that are known; NaN where none is."""
        known = self._known
        return mean_error(known, 2) if len(known) else nan

    @property
    def max(self) -> float:
        """The largest standard error that is known; NaN where none is."""
        return float(self._known.max()) if len(self._known) else nan

    @property
    def _known(self) -> FloatArray:
        """Errors that do not depend on how many people there are."""
        return self.std[np.isfinite(self.std)]

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that `lower_bound` limits."""
        return central_class(self.lower_bound)

    def summary(self) -> dict[str, object]:
        """The figures that fit on a line."""
        return {
            "rmse": None if isnan(self.rmse) else self.rmse,
            "max": None if isnan(self.max) else self.max,
            "lower_bound": self.lower_bound,
            "ratio": self.ratio,
            "bound_class": self.bound_class,
            "bounds": [bound.to_dict() for bound in self.bounds],
            "quantisation_loss": self.quantisation_loss,
            **({} if self.worst_rmse is None else {"worst_rmse": self.worst_rmse}),
        }


def central_class(bound: float | None) -> BoundClass | None:
    """The methods that a central bound limits, or None where there is no bound."""
    return None if bound is None else BoundClass.LINEAR


def certified_ratio(achieved: float, bound: float | None) -> float | None:
    """Error over its lower bound, at least one: a contradiction beyond rounding is no result."""
    if bound is None:
        return None
    return quotient(lifted_to_bound(achieved, bound, "error of a plan"), bound)


def class_bounds(
    problem: CentralProblem, rows: int, achieved: float, exact: bool
) -> tuple[ClassBound, ...]:
    """The bounds for wider classes, each with how many times it the error achieved is.

    An error that is not `exact`, or depends on the data, may be below what holds for the worst.
    """
    return tuple(
        ClassBound(limited, bound, certified_ratio(achieved, bound) if exact else None)
        for limited, bound in wider_bounds(problem, rows)
    )


def error_name(norm: float) -> str:
    """The name of an error by its exponent."""
    return {2.0: "rmse", inf: "max"}.get(norm, f"{norm:g}-mean")


@dataclass(frozen=True)
class ReleasedTable:
    """A named part of a release; its answers form a tensor over its axes, in C order."""

    name: str
    queries: int
    axes: tuple[Axis, ...] = ()
    unit: str = PEOPLE
    says: str = "answer"


def table_number(
    tables: Sequence[ReleasedTable], name: str, parameter: str = "table"
) -> int:
    """The place of a table: by its name, or by its attributes in any order (`a*b` is `a × b`).

    `income*region` also finds the CDF of income by region, where no table of counts is asked.
    """
    for key in (_key, _attributes):
        for number, table in enumerate(tables):
            if key(table.name) == key(name):
                return number

    names = ", ".join(table.name for table in tables[:20])
    raise InvalidParameter(
        parameter, name, "names no table of the plan", f"choose one of {names}"
    )


def _attributes(name: str) -> tuple[str, ...]:
    return tuple(sorted(re.sub(r"^(cdf|ranges) of ", "", part) for part in _key(name)))


def _key(name: str) -> tuple[str, ...]:
    return tuple(sorted(part.strip() for part in re.split(r"[*×]| by ", name)))


class TableError(NamedTuple):
    """The errors of one table: standard errors, and the widest half-widths of its intervals."""

    name: str
    queries: int
    rmse: float
    max: float
    halfwidth: float
    simultaneous_halfwidth: float


def table_errors(
    tables: Sequence[ReleasedTable], std: FloatArray, each: FloatArray, all_: FloatArray
) -> list[TableError]:
    """The errors of every table of a release."""
    ends = np.cumsum([table.queries for table in tables])[:-1]
    pieces = zip(
        tables, *(np.split(values, ends) for values in (std, each, all_)), strict=True
    )
    return [
        TableError(
            t.name,
            t.queries,
            mean_error(s, 2),
            *(float(v.max()) for v in (s, half, wide)),
        )
        for t, s, half, wide in pieces
    ]


def told_errors(errors: Sequence[TableError]) -> list[dict[str, object]]:
    """The errors of tables, ready for JSON."""
    names = ("name", "queries", "rmse", "max")
    return [{name: getattr(row, name) for name in names} for row in errors]


def answer_tables(workload: Workload) -> tuple[ReleasedTable, ...]:
    """The named parts of the answers, with what their queries stand for."""
    if not workload.statistics:
        return (ReleasedTable(workload.brief(), workload.queries),)
    return tuple(
        ReleasedTable(s.name, s.queries, s.axes, s.unit, s.says)
        for s in workload.statistics
    )
