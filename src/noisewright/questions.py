"""Questions that `nw.plan` takes beside linear queries: each says what is asked, and plans itself.

To add one, write a dataclass with `plan_under`; `nw.plan` then knows the class of its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, NoisewrightError, refuse_options
from noisewright.norm.exact.prefix import Kind
from noisewright.planning.central.options import Central, Composition
from noisewright.planning.counting import Counter
from noisewright.planning.plan import Forecast
from noisewright.privacy.promise.budget import Privacy, pure_promise
from noisewright.workload import Queries, Workload, workload
from noisewright.workload.questions.measures import Missing

if TYPE_CHECKING:
    from noisewright.planning.found.open_values import OpenPlan
    from noisewright.planning.found.values import ValuePlan
    from noisewright.planning.rows.covariance import CovariancePlan
    from noisewright.planning.rows.pairs import PairsPlan
    from noisewright.planning.streams import StreamPlan
    from noisewright.planning.together import Together

PlanT_co = TypeVar("PlanT_co", covariant=True)
OptionsT = TypeVar("OptionsT")
LeastT = TypeVar("LeastT", bound="Erring")
OptionsT_contra = TypeVar("OptionsT_contra", contravariant=True)


@runtime_checkable
class Question(Protocol[PlanT_co, OptionsT_contra]):
    """A question that plans itself, with options of one kind (None: it has none)."""

    def plan_under(self, budget: Privacy, options: OptionsT_contra | None) -> PlanT_co:
        """The plan that answers it within the budget."""


class Erring(Protocol):
    """A plan whose errors are known before anything is spent."""

    def forecast(self) -> Forecast:
        """These errors."""


@runtime_checkable
class Linear(Protocol):
    """A question that amounts to linear queries: sums by group, or a table's builder."""

    @property
    def workload(self) -> Workload:
        """The queries."""


@dataclass(frozen=True)
class Sums:
    """Counts, sums and means of the numeric attribute `value` for tables of groups.

    Values are clipped to the attribute's bounds and rounded to whole multiples of `unit`. Planned
    as the queries that it amounts to (`.workload`), with `nw.Central` options.
    """

    value: str
    by: Sequence[Sequence[str]]
    """The tables, each a list of attributes; an empty one is everybody together."""

    domain: Domain
    unit: float = 1.0
    missing: Missing = "left-out"
    """Means are of those who have a value; with "zero" of all, none counting as zero."""

    @cached_property
    def workload(self) -> Workload:
        """The queries."""
        from noisewright.planning.central.sums import sums_by_group

        return sums_by_group(self.value, self.by, self.domain, self.unit, self.missing)


@dataclass(frozen=True)
class Several:
    """Several releases about the same people under one budget, which they share.

    Without `shares`, the total squared error is made least, each question's errors counting
    `importance` times. Takes `error` and `composition` of `nw.Central`.
    """

    questions: Sequence[Queries | Linear]
    shares: Sequence[float] | None = None
    """Which part of the budget each has; they add up to at most one."""

    importance: Sequence[float] | None = None
    domain: Domain | None = None

    def plan_under(self, budget: Privacy, options: Central | None) -> Together:
        """One plan for each, with its share of the budget."""
        from noisewright.planning.together import plan_together

        chosen = options_of(Central, options)
        chosen.refuse_but(
            "error", "composition", rule="does not go with several questions"
        )
        asked = [linear_queries(each, self.domain) for each in self.questions]

        return plan_together(
            asked,
            budget,
            chosen,
            shares=self.shares,
            importance=self.importance,
            domain=self.domain,
            counter=default_counter(),
        )


@dataclass(frozen=True)
class Moments:
    """Second moments, means and covariances of numeric columns, however many cells they span.

    The release has `.second_moment`, `.mean`, `.covariance` and `.regression`. Takes `composition`
    of `nw.Central`.
    """

    columns: int | Sequence[str]
    radius: float = 1.0
    """The Euclidean length that rows are clipped to: public, never read off the data."""

    means: bool = True
    """False, where the number of people is public: second moments alone, with less noise."""

    missing: Missing = "left-out"
    """Rows that lack a value are nobody's, so that figures are of those who have all; with "zero"
    what is missing counts as zero. That must be said where the number of people is public."""

    def plan_under(
        self, budget: Privacy, options: Central | None = None
    ) -> CovariancePlan:
        """The plan of one private measurement."""
        from noisewright.planning.rows.covariance import plan_covariance

        planned = partial(
            plan_covariance,
            self.columns,
            radius=self.radius,
            means=self.means,
            missing=self.missing,
            counter=default_counter(),
        )
        return _least_of_both(planned, budget, _composition_of(options))


@dataclass(frozen=True)
class Pairs:
    """How many people have both of any two of these binary columns, hundreds of them.

    No cells are listed: 200 columns have 2^200. The release has `.proportions`, `.means` and
    `.answers`, in the order of `conjunctions:200:2`. Takes `composition` of `nw.Central`.
    """

    columns: int | Sequence[str]

    def plan_under(self, budget: Privacy, options: Central | None = None) -> PairsPlan:
        """The plan of two private measurements."""
        from noisewright.central.geometry.pairs import PairMoments
        from noisewright.planning.rows.pairs import PairsPlan
        from noisewright.planning.rows.plan import column_names

        names = column_names(self.columns)

        def planned(promise: Privacy) -> PairsPlan:
            return PairsPlan(names, PairMoments(len(names), promise), default_counter())

        return _least_of_both(planned, budget, _composition_of(options))


@dataclass(frozen=True)
class Values:
    """Which values of a column that no schema lists are told, with their own (ε, δ)."""

    column: str
    unit: object = None
    """A `Unit`, or the name of the column that names people, where one has several rows."""

    def plan_under(self, budget: Privacy, options: None = None) -> ValuePlan:
        """The plan of a selection of values."""
        from noisewright.domain.unit import read_unit
        from noisewright.planning.found.values import ValuePlan

        refuse_options(self, options)
        return ValuePlan(self.column, budget, read_unit(self.unit), default_counter())


@dataclass(frozen=True)
class OpenQuestions:
    """Questions over a schema with attributes of `kind: open`, whose values nobody listed.

    Both are as in YAML: text, a path, or plain values. Takes `error` of `nw.Central`.
    """

    queries: str | Path | Mapping[str, object]
    schema: str | Path | Mapping[str, object]
    share: float = 0.25
    """Of the budget (ε, δ): it tells values that enough people hold; the rest measures the tables
    over them and `other`. Both are one spend."""

    def plan_under(self, budget: Privacy, options: Central | None) -> OpenPlan:
        """The plan of both."""
        from noisewright.planning.found.open_values import OpenPlan, plain_document

        chosen = options_of(Central, options)
        chosen.refuse_but("error", rule="does not go with attributes that are open")
        if not isinstance(chosen.error, str):
            rule = "must be 'rmse' or 'max' where attributes are open"
            raise InvalidParameter("error", chosen.error, rule)

        return OpenPlan(
            plain_document("schema", self.schema),
            plain_document("queries", self.queries),
            budget,
            self.share,
            chosen.error,
            default_counter(),
        )


@dataclass(frozen=True)
class Stream:
    """Choices of a running count: its Gaussian mechanism, and what else is spent on the people."""

    kind: Kind | None = None
    """The factorization; the best for so many appearances unless told."""

    band: int | None = None
    """Width of a banded one: how many of the latest noises one answer is made of."""

    composition: Composition = "one"
    """As of `nw.Central`: one release keeps (ε, δ) by whichever noise errs less, one of "many" by
    Gaussian noise, which costs less ρ."""


@dataclass(frozen=True)
class RunningCount:
    """The count so far at every step of a stream, released step by step. Takes `nw.Stream`.

    A person counts once, or at up to `appearances` steps of which any two are `apart` steps or more
    apart. Pure privacy takes carry noise, ρ Gaussian noise, and (ε, δ) whichever errs less.
    """

    steps: int
    appearances: int = 1
    apart: int = 1

    def plan_under(self, budget: Privacy, options: Stream | None) -> StreamPlan:
        """The plan, whose `start` begins a stream."""
        from noisewright.planning.streams import plan_stream

        chosen = options_of(Stream, options)
        planned = partial(
            plan_stream,
            self.steps,
            kind=chosen.kind,
            band=chosen.band,
            appearances=self.appearances,
            apart=self.apart,
        )
        return _least_of_both(planned, budget, chosen.composition)


def _composition_of(options: object) -> Composition:
    """What else is spent on the people, which is all that the question takes."""
    chosen = options_of(Central, options)
    chosen.refuse_but("composition", rule="does not go with this question")
    return chosen.composition


def _least_of_both(
    planned: Callable[[Privacy], LeastT], budget: Privacy, composition: Composition
) -> LeastT:
    """Of the plans that keep (ε, δ), under it and under pure ε, the one that errs less."""
    from noisewright.planning.central.problems import check_composition

    check_composition(composition, budget)
    asked = planned(budget)
    pure = None if composition == "many" else pure_promise(budget)
    if pure is None:
        return asked

    try:
        stronger = planned(pure)
    except NoisewrightError:
        return asked

    return min(stronger, asked, key=lambda plan: plan.forecast().rmse)


def options_of(kind: type[OptionsT], options: object) -> OptionsT:
    """The options given, which must be of the kind that the question takes, or its defaults."""
    if options is None:
        return kind()
    if not isinstance(options, kind):
        name = kind.__name__
        rule = f"does not go with this question, which takes nw.{name}"
        raise InvalidParameter("options", type(options).__name__, rule, f"{name}()")

    return options


def linear_queries(question: Queries | Linear, domain: Domain | None) -> Workload:
    """What the question amounts to; a domain beside it must be the one that it is over."""
    asked = workload(question.workload if isinstance(question, Linear) else question)
    if (
        domain is not None
        and asked.domain is not None
        and domain.fingerprint != asked.domain.fingerprint
    ):
        rule = "is not the one that the questions are over"
        remedy = "leave it out: questions carry theirs"
        raise InvalidParameter("domain", domain.names, rule, remedy)

    return asked


def default_counter() -> Counter:
    """The engine that counts tables unless another is given."""
    from noisewright.tables.engines import Engines

    return Engines()
