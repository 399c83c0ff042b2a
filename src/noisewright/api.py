"""The front door: a question, a budget and options in, a plan out; nothing touches data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, overload

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, WeakPrivacyWarning, refuse_given
from noisewright.parallel import one_thread_if_small
from noisewright.planning import files as plan_files
from noisewright.planning.central.choose import plan_central
from noisewright.planning.central.comparing import (
    Comparison,
    Explanation,
    compare_central,
    explain_central,
)
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.targets import Accuracy, Target, plan_for_targets
from noisewright.privacy.promise.budget import Privacy
from noisewright.questions import (
    Linear,
    OptionsT,
    Pairs,
    PlanT_co,
    Question,
    default_counter,
    linear_queries,
    options_of,
)
from noisewright.workload import Queries, Workload
from noisewright.workload.kinds.conjunctions import pairs_of_many

if TYPE_CHECKING:
    from noisewright.local.choose.cost import LocalComparison
    from noisewright.local.choose.options import Local
    from noisewright.planning.counting import Source
    from noisewright.planning.files import Keepable
    from noisewright.planning.found.bounds import BoundsSearch
    from noisewright.planning.local.plan import LocalPlan
    from noisewright.planning.spending import Again, LedgerLike

Budget: TypeAlias = Privacy | Accuracy | Target
"""What may be spent, or how wrong answers may be, for which the least budget is found."""


@overload
def plan(
    question: Question[PlanT_co, OptionsT],
    budget: Privacy,
    options: OptionsT | None = None,
) -> PlanT_co: ...


@overload
def plan(
    question: Queries | Linear,
    budget: Budget,
    options: Central | None = None,
    *,
    domain: Domain | None = None,
) -> CentralPlan: ...


@overload
def plan(
    question: Queries | Linear,
    budget: Privacy,
    options: Local,
    *,
    domain: Domain | None = None,
) -> LocalPlan: ...


def plan(
    question: Queries | Linear | Question[Any, Any],
    budget: Budget,
    options: object = None,
    *,
    domain: Domain | None = None,
) -> object:
    """Plan the answer to a question; nothing touches data until the plan is released.

    A question is linear queries: a workload, its text form, a matrix with one row per query,
    questions read from YAML, a table's builder, or `nw.Sums`. With a `domain` (or questions that
    carry one), the plan can be released from a table of people; without one, from a histogram. Or
    it is one of `nw.Moments`, `nw.Pairs`, `nw.RunningCount`, `nw.OpenQuestions`, `nw.Values` and
    `nw.Several`, or of `nw.learn`. All pairs of many binary attributes (`conjunctions:200:2`) are
    planned as `nw.Pairs`.

    The budget is a `nw.Privacy`; or, for linear queries, how wrong their answers may be: a
    `nw.Target` or `nw.Accuracy`, for which the smallest budget is found.

    Options are `nw.Central`, which is so unless told; `nw.Local`, where there is no curator: every
    person sends a report that is private by itself and the plan says how many people are needed; or
    what the question names, as `nw.Stream` of a running count.
    """
    if isinstance(question, Question):
        refuse_given(
            {"domain": domain and domain.names}, "does not go with this question"
        )
        privacy = _privacy(budget)
        _warn(privacy)
        return question.plan_under(privacy, options)

    asked = linear_queries(question, domain)
    if _is_local(options):
        privacy = _privacy(budget)
        _warn(privacy)
        return _plan_local(asked, privacy, options, domain)

    chosen = options_of(Central, options)
    if not isinstance(budget, Privacy):
        met = _meeting(asked, budget, chosen, domain)
        _warn(met.plan.privacy)
        return met.plan

    _warn(budget)
    measured = chosen.mechanism in ("auto", "second-moments")
    if measured and domain is None and pairs_of_many(asked):
        rule = "does not go with all pairs of many attributes (see nw.Pairs)"
        chosen.refuse_but("mechanism", "composition", rule=rule)
        pairs = Pairs(len(asked.structure.sizes))
        return pairs.plan_under(budget, Central(composition=chosen.composition))

    with one_thread_if_small(max(asked.structure.sizes)):
        return plan_central(asked, budget, chosen, domain, default_counter())


def explain(
    question: Queries | Linear,
    budget: Budget,
    options: Central | None = None,
    *,
    domain: Domain | None = None,
) -> Explanation:
    """The plan with a curator that `plan` gives, and why it is by the mechanism it is by.

    `.why` says it in a sentence; `.others` lists the runners-up with the errors that they would
    reach, and the mechanisms that were not asked with the reason. With targets in place of a
    budget, `.binding` is the one that decides it.
    """
    asked = linear_queries(question, domain)
    chosen = options_of(Central, options)
    if not isinstance(budget, Privacy):
        met = _meeting(asked, budget, chosen, domain)
        _warn(met.plan.privacy)
        return met

    _warn(budget)
    with one_thread_if_small(max(asked.structure.sizes)):
        return explain_central(asked, budget, chosen, domain, default_counter())


@overload
def compare(
    question: Queries | Linear,
    privacy: Privacy,
    options: Central | None = None,
    *,
    domain: Domain | None = None,
) -> list[Comparison]: ...


@overload
def compare(
    question: Queries | Linear,
    privacy: Privacy,
    options: Local,
    *,
    domain: Domain | None = None,
) -> list[LocalComparison]: ...


def compare(
    question: Queries | Linear,
    privacy: Privacy,
    options: Central | Local | None = None,
    *,
    domain: Domain | None = None,
) -> list[Comparison] | list[LocalComparison]:
    """Every mechanism of the model side by side, best first; those that refuse come last.

    `people` and `public` of `nw.Central` add mechanisms whose errors depend on them; with
    `nw.Local`, those of the model without a curator are compared at its `alpha`.
    """
    asked = linear_queries(question, domain)

    with one_thread_if_small(max(asked.structure.sizes)):
        if _is_local(options):
            from noisewright.local.choose.candidates import compare_local

            return compare_local(asked, privacy, options, domain)

        chosen = options_of(Central, options)
        chosen.refuse_but(
            "error",
            "people",
            "public",
            "composition",
            rule="is for a plan, not for a comparison",
        )
        return compare_central(asked, privacy, chosen, domain)


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
    from noisewright.planning.spending import purse_of

    return search_bounds(
        table,
        columns,
        privacy,
        default_counter(),
        unit=unit,
        purse=purse_of(ledger, dataset, again),
    )


def load(path: str | Path) -> Keepable:
    """Read a plan or a release that was saved; a running stream goes on where it was kept."""
    return plan_files.load(path, default_counter())


def _plan_local(
    asked: Workload, privacy: Privacy, options: Local, domain: Domain | None
) -> LocalPlan:
    """The plan without a curator."""
    from noisewright.planning.local.make import plan_local

    with one_thread_if_small(max(asked.structure.sizes)):
        return plan_local(asked, privacy, options, domain, counter=default_counter())


def _meeting(
    asked: Workload,
    accuracy: Accuracy | Target,
    options: Central,
    domain: Domain | None,
) -> Explanation:
    """The plan with the smallest budget that keeps every error below its target."""
    aim = accuracy if isinstance(accuracy, Accuracy) else Accuracy(accuracy)
    options.refuse_but(
        "error",
        "mechanism",
        "composition",
        rule="cannot be combined with targets",
        remedy="give a budget instead",
    )

    with one_thread_if_small(max(asked.structure.sizes)):
        fit = plan_for_targets(asked, aim, options, domain, default_counter())

    why = "it meets the targets with the least budget"
    return Explanation(fit.plan, why, (), fit.binding, fit.limited)


def _is_local(options: object) -> TypeGuard[Local]:
    """Whether the plan is one without a curator; its room is imported only then."""
    if options is None or isinstance(options, Central):
        return False
    from noisewright.local.choose.options import Local

    return isinstance(options, Local)


def _privacy(budget: Budget) -> Privacy:
    """The budget, where no target may stand for it."""
    if isinstance(budget, Privacy):
        return budget
    raise InvalidParameter(
        "budget",
        type(budget).__name__,
        "must be a Privacy: budgets are found for linear queries of the central model",
        "nw.Privacy(epsilon=1), say",
    )


def _warn(privacy: Privacy) -> None:
    """Say it where a promise is so weak that few would call it one."""
    if privacy.caution is not None:
        warnings.warn(privacy.caution, WeakPrivacyWarning, stacklevel=3)
