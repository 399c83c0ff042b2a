"""The front door: planning with the default counting engine handed in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.parallel import one_thread_if_small
from noisewright.planning import choice, plan_files, sums, together
from noisewright.planning.central import CentralPlan
from noisewright.planning.choice import Comparison
from noisewright.planning.plan import Plan
from noisewright.planning.release import Release
from noisewright.planning.targets import Fit, Target, plan_for_targets
from noisewright.planning.together import Together
from noisewright.privacy.budget import Neighbours, Privacy
from noisewright.workload import Queries, workload

if TYPE_CHECKING:
    from noisewright.local.choose.cost import LocalComparison
    from noisewright.planning.counting import Counter
    from noisewright.planning.local import LocalPlan


@overload
def plan(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["central"] = "central",
    error: str | float = "rmse",
    mechanism: str = "auto",
    domain: Domain | None = None,
) -> CentralPlan: ...


@overload
def plan(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["local"],
    mechanism: str = "auto",
    domain: Domain | None = None,
    **local: Any,
) -> LocalPlan: ...


def plan(
    queries: Queries,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    mechanism: str = "auto",
    domain: Domain | None = None,
    **local: Any,
) -> CentralPlan | LocalPlan:
    """Plan answers to `queries` under `privacy`; nothing touches data until the plan is released.

    `queries` is a workload, its text form, or a matrix with one row per query. `error` is what to
    make small: "rmse", "max" or an exponent between 2 and infinity. With a `domain` (or questions
    that carry one), a plan can be released from a table of people; without one, from a histogram.

    With `model="local"` there is no curator: every person sends a report that is private by itself
    and the plan says how many people are needed. `error` is then not used; `people` and `alpha` are
    what its summary and forecasts are about; `effort` ("low", "normal", "high"), `time_limit`
    (seconds), `seed` and more (see `planning.local_make`) steer the search for the best strategy.
    """
    asked = workload(queries)
    _check_model(model)
    with one_thread_if_small(max(asked.structure.sizes)):
        if model == "local":
            from noisewright.planning.local_make import plan_local

            return plan_local(asked, privacy, mechanism, domain, counter=_counter(), **local)
        if local:
            name = sorted(local)[0]
            raise InvalidParameter(name, "", "is for the local model", "set model='local'")
        norm = choice.error_norm(error)
        return choice.plan_central(asked, privacy, norm, mechanism, domain, _counter())


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
) -> Fit:
    """The plan with the smallest budget that keeps every error below its target.

    The budget is ε at `delta` where that is given, ε alone with `pure`, and ρ (zCDP) otherwise.
    Where targets limit the largest errors, a strategy made for just these limits is tried as well.
    """
    if pure and delta is not None:
        raise InvalidParameter("delta", delta, "cannot be combined with pure privacy", "drop one")
    start: dict[str, Any] = {"rho": 1.0} if delta is None and not pure else {"epsilon": 1.0}
    privacy = Privacy(delta=delta, neighbours=neighbours, **start)
    norm = choice.error_norm(error)
    asked = workload(queries)
    with one_thread_if_small(max(asked.structure.sizes)):
        return plan_for_targets(asked, targets, privacy, norm, mechanism, domain, _counter())


def plan_together(queries: Sequence[Queries], privacy: Privacy, **choices: Any) -> Together:
    """Plan several releases about the same people under one budget.

    `shares` (adding up to at most one) or `importance` decide who gets how much of it; see
    `planning.together`.
    """
    return together.plan_together(queries, privacy, counter=_counter(), **choices)


def plan_sums(
    value: str,
    by: Sequence[Sequence[str]],
    privacy: Privacy,
    domain: Domain,
    *,
    unit: float = 1.0,
) -> CentralPlan:
    """Plan counts, sums and means of the numeric attribute `value` for tables of groups.

    `by` lists the tables, each a list of attributes (an empty one is everybody together). Values
    are clipped to the attribute's bounds and rounded to whole multiples of `unit`.
    """
    return sums.plan_sums(value, by, privacy, domain, unit=unit, counter=_counter())


@overload
def compare(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["central"] = "central",
    error: str | float = "rmse",
    domain: Domain | None = None,
) -> list[Comparison]: ...


@overload
def compare(
    queries: Queries,
    privacy: Privacy,
    *,
    model: Literal["local"],
    domain: Domain | None = None,
    **local: Any,
) -> list[LocalComparison]: ...


def compare(
    queries: Queries,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    domain: Domain | None = None,
    **local: Any,
) -> list[Comparison] | list[LocalComparison]:
    """Every mechanism of the model side by side, best first; those that refuse come last."""
    _check_model(model)
    asked = workload(queries)
    with one_thread_if_small(max(asked.structure.sizes)):
        if model == "local":
            from noisewright.local.choose.candidates import compare_local

            return compare_local(asked, privacy, domain, **local)
        return choice.compare_central(asked, privacy, choice.error_norm(error), domain)


def load(path: str | Path) -> Plan | Release:
    """Read a plan or a release that was saved."""
    return plan_files.load(path, _counter())


def _check_model(model: str) -> None:
    if model not in ("central", "local"):
        raise InvalidParameter(
            "model", model, "must be 'central' or 'local'", "local needs no trusted curator"
        )


def _counter() -> Counter:
    """The engine that counts tables unless another is given."""
    from noisewright.tables.counter import DuckDBCounter

    return DuckDBCounter()
