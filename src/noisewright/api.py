"""The front door: planning with the default counting engine handed in."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from noisewright import container
from noisewright.central.mechanism import Given
from noisewright.domain import Domain
from noisewright.errors import (
    InvalidParameter,
    WeakPrivacyWarning,
    refuse_given,
    require,
    unknown_name,
)
from noisewright.parallel import one_thread_if_small
from noisewright.planning import files as plan_files
from noisewright.planning.budgets import together
from noisewright.planning.budgets.targets import Fit, Target, plan_for_targets
from noisewright.planning.budgets.together import Together
from noisewright.planning.central import sums
from noisewright.planning.central.choice import choose as choice
from noisewright.planning.central.choice import comparing
from noisewright.planning.central.choice.comparing import Comparison
from noisewright.planning.central.choice.explain import Explanation, explain_central
from noisewright.planning.central.choice.problems import Composition
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.promise.budget import Neighbours, Privacy
from noisewright.workload import Queries, Workload, workload
from noisewright.workload.kinds.conjunctions import pairs_of_many

if TYPE_CHECKING:
    import numpy.typing as npt

    from noisewright.central.problem import CentralMechanism
    from noisewright.learn.plans.plan import LearningPlan
    from noisewright.learn.selection.plan import Selection
    from noisewright.local.choose.cost import LocalComparison
    from noisewright.local.choose.options import Local, LocalOptions
    from noisewright.local.mechanism import LocalMechanism
    from noisewright.planning.budgets.spending import Again, LedgerLike
    from noisewright.planning.counting import Counter, Source
    from noisewright.planning.found.bounds import BoundsSearch
    from noisewright.planning.found.open_values import OpenPlan
    from noisewright.planning.found.values import ValuePlan
    from noisewright.planning.local.plan import LocalPlan
    from noisewright.planning.rows.covariance import CovariancePlan
    from noisewright.planning.rows.pairs import PairsPlan
    from noisewright.workload.questions.measures import Missing


@overload
def plan(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["central"] = "central",
    error: str | float = "rmse",
    mechanism: str | CentralMechanism = "auto",
    strategy: npt.ArrayLike | None = None,
    domain: Domain | None = None,
    people: int | None = None,
    public: Sequence[npt.ArrayLike] = (),
    composition: Composition = "one",
) -> CentralPlan: ...


@overload
def plan(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["local"],
    mechanism: str | LocalMechanism = "auto",
    strategy: npt.ArrayLike | None = None,
    domain: Domain | None = None,
    error: str | float = "rmse",
    people: int | None = None,
    local: Local | None = None,
    **options: Unpack[LocalOptions],
) -> LocalPlan: ...


def plan(
    queries: Queries,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    mechanism: Any = "auto",
    strategy: npt.ArrayLike | None = None,
    domain: Domain | None = None,
    people: int | None = None,
    public: Sequence[npt.ArrayLike] = (),
    composition: Composition = "one",
    local: Local | None = None,
    **options: Unpack[LocalOptions],
) -> CentralPlan | PairsPlan | LocalPlan:
    """Plan answers to `queries` under `privacy`; nothing touches data until the plan is released.

    `queries` is a workload, its text form, or a matrix with one row per query. `error` is what to
    make small: "rmse", "max" or an exponent between 2 and infinity. With a `domain` (or questions
    that carry one), a plan can be released from a table of people; without one, from a histogram.
    All pairs of many binary attributes (`conjunctions:200:2`) become a plan of second moments
    (`plan_pairs`), which is released from rows.

    `mechanism` is a name, or an entry of one's own as the registries hold. `strategy` is a matrix
    of one's own instead: rows to be measured, with a column per cell; in the local model chances,
    with a row per report and a column per value. It is made exact in whole numbers, from which
    sensitivity or ε are computed, and refused where the queries do not follow from it.

    A promise (ε, δ) is kept by Gaussian noise and, more strongly, by noise for pure ε: the plan has
    whichever errs less, and `plan.privacy` says what it keeps. With `composition="many"` the
    release is one of many about the same people, as where a ledger adds up ρ: then it has Gaussian
    noise, which costs less there.

    With `people`, their public number, mechanisms compete whose errors depend on it (`projection`):
    biased, and nearer where people are few. Errors are then simulated at the histograms `public`,
    or at three kinds of made-up ones, never at the data.

    With `model="local"` there is no curator: every person sends a report that is private by itself
    and the plan says how many people are needed. With `error="max"`, `max_error` (a share of
    people) and `beta`, the plan is the one that reaches that largest error with the fewest people,
    but with probability β. `people` and `alpha` are what its summary and forecasts are about;
    `effort` ("low", "normal", "high"), `time_limit` (seconds), `seed` and more steer the search for
    the best strategy. All of these are fields of `nw.Local`, and `local=nw.Local(...)` gives them
    together; whatever does not apply to the model or the mechanism is refused.
    """
    asked = workload(queries)
    _check_model(model)
    _check_domain(asked, domain)
    _warn(privacy)
    _check_one(mechanism, strategy)

    with one_thread_if_small(max(asked.structure.sizes)):
        if model == "local":
            from noisewright.planning.local.make import plan_local

            _check_alone(composition)
            own = _local(local, options, people, public)
            own.check_error(error)

            return plan_local(
                asked,
                privacy,
                mechanism,
                domain,
                local=own,
                counter=_counter(),
                strategy=strategy,
            )

        _refuse_local("plan", local, options)
        norm = choice.error_norm(error)
        if (
            pairs_of_many(asked)
            and domain is None
            and mechanism in ("auto", "second-moments")
        ):
            _check_plain_pairs(norm, strategy, people, public, composition)
            return plan_pairs(len(asked.structure.sizes), privacy)

        counter = _counter()
        given = _given(people, public)
        return choice.plan_central(
            asked,
            privacy,
            norm,
            mechanism,
            domain,
            counter,
            strategy,
            given,
            composition,
        )


def explain(
    queries: Queries,
    privacy: Privacy,
    *,
    error: str | float = "rmse",
    mechanism: str | CentralMechanism = "auto",
    strategy: npt.ArrayLike | None = None,
    domain: Domain | None = None,
    people: int | None = None,
    public: Sequence[npt.ArrayLike] = (),
    composition: Composition = "one",
) -> Explanation:
    """The plan with a curator that `plan` gives, and why it is by the mechanism it is by.

    `.why` says it in a sentence; `.others` lists the runners-up with the errors that they would
    reach, and the mechanisms that were not asked with the reason.
    """
    asked = workload(queries)
    norm = choice.error_norm(error)
    _check_domain(asked, domain)
    _warn(privacy)
    _check_one(mechanism, strategy)

    with one_thread_if_small(max(asked.structure.sizes)):
        given = _given(people, public)
        return explain_central(
            asked,
            privacy,
            norm,
            mechanism,
            domain,
            _counter(),
            strategy,
            given,
            composition,
        )


def plan_for(
    queries: Queries,
    targets: Sequence[Target],
    *,
    pure: bool = False,
    delta: float | None = None,
    neighbours: Neighbours = "add-remove",
    error: str | float = "rmse",
    mechanism: str = "auto",
    domain: Domain | None = None,
    composition: Composition = "one",
) -> Fit:
    """The plan with the smallest budget that keeps every error below its target.

    The budget is ε at `delta` where that is given, ε alone with `pure`, and ρ (zCDP) otherwise.
    With `delta`, the noise is Gaussian or for pure ε, whichever needs less of it; `composition` is
    as in `plan`.
    Where targets limit the largest errors, a strategy made for just these limits is tried as well.
    """
    require(
        not pure or delta is None,
        "delta",
        delta,
        "cannot be combined with pure privacy",
        "drop one",
    )

    start: dict[str, Any] = (
        {"rho": 1.0} if delta is None and not pure else {"epsilon": 1.0}
    )
    privacy = Privacy(delta=delta, neighbours=neighbours, **start)
    norm = choice.error_norm(error)
    asked = workload(queries)
    _check_domain(asked, domain)

    with one_thread_if_small(max(asked.structure.sizes)):
        fit = plan_for_targets(
            asked, targets, privacy, norm, mechanism, domain, _counter(), composition
        )

    _warn(fit.plan.privacy)
    return fit


def plan_together(
    queries: Sequence[Queries],
    privacy: Privacy,
    *,
    shares: Sequence[float] | None = None,
    importance: Sequence[float] | None = None,
    error: str | float = "rmse",
    domain: Domain | None = None,
    composition: Composition = "one",
) -> Together:
    """Plan several releases about the same people under one budget.

    `shares` (adding up to at most one) or `importance` decide who gets how much of it; see
    `planning.budgets.together`. `composition` is as in `plan`: whether the budget is for these
    alone.
    """
    _warn(privacy)
    asked = [workload(query) for query in queries]
    for one in asked:
        _check_domain(one, domain)

    return together.plan_together(
        asked,
        privacy,
        shares=shares,
        importance=importance,
        error=error,
        domain=domain,
        counter=_counter(),
        composition=composition,
    )


def plan_sums(
    value: str,
    by: Sequence[Sequence[str]],
    privacy: Privacy,
    domain: Domain,
    *,
    unit: float = 1.0,
    missing: Missing = "left-out",
    composition: Composition = "one",
) -> CentralPlan:
    """Plan counts, sums and means of the numeric attribute `value` for tables of groups.

    `by` lists the tables, each a list of attributes (an empty one is everybody together). Values
    are clipped to the attribute's bounds and rounded to whole multiples of `unit`. Means are of
    those who have a value; with `missing="zero"` of all, whoever has none counting as zero.
    `composition` is as in `plan`.
    """
    _warn(privacy)
    return sums.plan_sums(
        value,
        by,
        privacy,
        domain,
        unit=unit,
        missing=missing,
        counter=_counter(),
        composition=composition,
    )


def plan_covariance(
    columns: int | Sequence[str],
    privacy: Privacy,
    *,
    radius: float = 1.0,
    means: bool = True,
) -> CovariancePlan:
    """Plan second moments, means and covariances of numeric columns, however many cells they span.

    Rows are clipped to the Euclidean length `radius`, which is public and never read off the data.
    The release has `.second_moment`, `.mean`, `.covariance` and `.regression`; with `means=False`,
    where the number of people is public, second moments alone are measured, with less noise.
    """
    from noisewright.planning.rows import covariance
    from noisewright.tables.rows import numeric_rows

    _warn(privacy)

    return covariance.plan_covariance(
        columns, privacy, radius=radius, means=means, reader=numeric_rows
    )


def plan_pairs(columns: int | Sequence[str], privacy: Privacy) -> PairsPlan:
    """Plan how many people have both of any two of these binary columns, hundreds of them.

    No cells are listed: 200 columns have 2^200. The release has `.proportions`, `.means` and
    `.answers`, in the order of `conjunctions:200:2`.
    """
    from noisewright.planning.rows import pairs
    from noisewright.tables.rows import numeric_rows

    _warn(privacy)
    return pairs.plan_pairs(columns, privacy, reader=numeric_rows)


def plan_open(
    queries: str | Path | Mapping[str, Any],
    schema: str | Path | Mapping[str, Any],
    privacy: Privacy,
    *,
    share: float = 0.25,
    error: str = "rmse",
) -> OpenPlan:
    """Plan questions over a schema with attributes of `kind: open`, whose values nobody listed.

    `share` of the budget (ε, δ) tells values that enough people hold; the rest measures the tables
    over them and `other`. Both are one spend.
    """
    from noisewright.planning.found.open_values import plan_open

    _warn(privacy)
    return plan_open(
        queries, schema, privacy, share=share, error=error, counter=_counter()
    )


def plan_values(column: str, privacy: Privacy, *, unit: object = None) -> ValuePlan:
    """Plan which values of a column that no schema lists are told, with their own (ε, δ).

    `unit` is a `Unit` or the name of the column that names people, where one has several rows.
    """
    from noisewright.planning.found.values import plan_values

    return plan_values(column, privacy, unit=unit, counter=_counter())


@overload
def compare(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["central"] = "central",
    error: str | float = "rmse",
    domain: Domain | None = None,
    people: int | None = None,
    public: Sequence[npt.ArrayLike] = (),
    composition: Composition = "one",
) -> list[Comparison]: ...


@overload
def compare(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["local"],
    domain: Domain | None = None,
    local: Local | None = None,
    **options: Unpack[LocalOptions],
) -> list[LocalComparison]: ...


def compare(
    queries: Queries,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    domain: Domain | None = None,
    people: int | None = None,
    public: Sequence[npt.ArrayLike] = (),
    composition: Composition = "one",
    local: Local | None = None,
    **options: Unpack[LocalOptions],
) -> list[Comparison] | list[LocalComparison]:
    """Every mechanism of the model side by side, best first; those that refuse come last.

    `people` and `public` add mechanisms whose errors depend on them, as in `plan`; in the local
    model `alpha` and what steers a search are options, by name or in `local`.
    """
    _check_model(model)
    asked = workload(queries)
    _check_domain(asked, domain)

    with one_thread_if_small(max(asked.structure.sizes)):
        if model == "local":
            from noisewright.local.choose.candidates import compare_local

            _check_alone(composition)
            own = _local(local, options, people, public)
            own.check_error(error)
            return compare_local(asked, privacy, domain, local=own)

        _refuse_local("compare", local, options)
        given = _given(people, public)
        return comparing.compare_central(
            asked, privacy, choice.error_norm(error), domain, given, composition
        )


def find_bounds(
    table: Source,
    columns: Sequence[str],
    privacy: Privacy,
    *,
    unit: object = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    again: Again = "refuse",
) -> BoundsSearch:
    """Find lower and upper bounds of numeric columns privately, each under its share of the budget.

    `.columns` holds what was found, `.domain()` a schema with it, `.spend` what it cost. With
    `unit`, a column or a `Unit`, one row of a person counts, and rows per person are bounded too.
    `ledger` and `dataset` enter the search into a ledger, as in `plan.release`.
    """
    from noisewright.planning.found.bounds import search_bounds

    return search_bounds(
        table,
        columns,
        privacy,
        _counter(),
        unit=unit,
        ledger=ledger,
        dataset=dataset,
        again=again,
    )


def load(path: str | Path) -> plan_files.Content | LearningPlan | Selection:
    """Read a plan or a release that was saved; a running stream goes on where it was kept."""
    if container.kind_of(path)[0] in ("learning-plan", "selection"):
        from noisewright.learn.plans.files import load

        return load(path)

    content = plan_files.load(path, _counter())
    from noisewright.planning.rows.covariance import CovariancePlan
    from noisewright.planning.rows.pairs import PairsPlan

    if isinstance(content, CovariancePlan | PairsPlan):
        from noisewright.tables.rows import numeric_rows

        return replace(content, reader=numeric_rows)

    return content


def _given(people: int | None, public: Sequence[npt.ArrayLike]) -> Given | None:
    """What is public of the people, where their number is."""
    import numpy as np

    if people is not None:
        return Given(people, tuple(np.asarray(own, dtype=np.float64) for own in public))
    require(
        not len(public),
        "public",
        len(public),
        "needs a number of people",
        "give people=",
    )

    return None


def _check_model(model: str) -> None:
    require(
        model in ("central", "local"),
        "model",
        model,
        "must be 'central' or 'local'",
        "local needs no trusted curator",
    )


def _check_one(mechanism: object, strategy: object) -> None:
    require(
        strategy is None or mechanism == "auto",
        "strategy",
        "a matrix",
        "is a mechanism of its own",
        "give a strategy or a mechanism",
    )


def _check_domain(asked: Workload, domain: Domain | None) -> None:
    """Refuse a domain beside questions that are over another one."""
    if domain is None or asked.domain is None:
        return
    if domain.fingerprint != asked.domain.fingerprint:
        rule = "is not the one that the questions are over"
        raise InvalidParameter(
            "domain", domain.names, rule, "leave it out: questions carry theirs"
        )


def _check_plain_pairs(
    norm: float,
    strategy: object,
    people: int | None,
    public: Sequence[npt.ArrayLike],
    composition: Composition,
) -> None:
    """Refuse what the second moments by which all pairs are planned do not take."""
    given = {
        "error": norm != 2 and norm,
        "strategy": strategy is not None and "a matrix",
        "people": people,
        "public": _histograms(public),
        "composition": composition != "one" and composition,
    }
    refuse_given(
        given, "does not go with all pairs of many attributes (see `plan_pairs`)"
    )


def _local(
    local: Local | None,
    options: LocalOptions,
    people: int | None,
    public: Sequence[npt.ArrayLike],
) -> Local:
    """The options of the local model, none of them of the other."""
    from noisewright.local.choose.options import Local

    known = {"public": [f"{len(public)} histograms"] * bool(len(public))}
    refuse_given(
        known, "is for the central model", "leave it out: no error here is simulated"
    )

    return Local.of(
        {**options, **({} if people is None else {"people": people})}, local
    )


def _check_alone(composition: Composition) -> None:
    """Refuse what is said of a curator's noise, where there is none."""
    given = {"composition": composition != "one" and composition}
    refuse_given(
        given, "is for the central model", "leave it out: reports add up as they are"
    )


def _histograms(public: Sequence[npt.ArrayLike]) -> str | None:
    """What was given of them, in a word."""
    return f"{len(public)} histograms" if len(public) else None


def _refuse_local(call: str, local: Local | None, options: LocalOptions) -> None:
    """Refuse arguments that a plan with a curator does not take."""
    if local is None and not options:
        return

    from noisewright.local.choose.options import Local

    name = min(options, default="local")
    require(
        name not in ("local", *Local.names()),
        "argument",
        name,
        "is for the local model",
        "set model='local'",
    )

    known = ["model", "error", "domain", "people", "public", "composition"]
    if call == "plan":
        known += ["mechanism", "strategy"]

    raise unknown_name("argument", name, f"is no argument of `{call}`", known)


def _warn(privacy: Privacy) -> None:
    """Say it where a promise is so weak that few would call it one."""
    if privacy.caution is not None:
        warnings.warn(privacy.caution, WeakPrivacyWarning, stacklevel=3)


def _counter() -> Counter:
    """The engine that counts tables unless another is given."""
    from noisewright.tables.engines import Engines

    return Engines()
