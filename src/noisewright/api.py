"""The front door: planning with the default counting engine handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.parallel import one_thread_if_small
from noisewright.planning import make, plan_files, together
from noisewright.planning.compare import Comparison, compare_central
from noisewright.planning.fitness import plan_for_targets
from noisewright.planning.sums import SumsPlan
from noisewright.planning.targets import Fit, Target
from noisewright.planning.together import Together
from noisewright.privacy.budget import Neighbours, Privacy
from noisewright.workload import Workload, workload

if TYPE_CHECKING:
    from noisewright.local.choose.cost import LocalComparison


def plan(
    queries: Workload | str | Any,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    mechanism: str = "auto",
    domain: Domain | None = None,
    **local: Any,
) -> Any:
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
    with one_thread_if_small(max(asked.structure.sizes)):
        made = make.plan(
            asked, privacy, model=model, error=error, mechanism=mechanism, domain=domain, **local
        )
    return _equipped(made)


def plan_for(
    queries: Workload | str | Any,
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
    norm = make.error_norm(error)
    asked = workload(queries)
    with one_thread_if_small(max(asked.structure.sizes)):
        found = plan_for_targets(asked, targets, privacy, norm, mechanism, domain)
    return replace(found, plan=_equipped(found.plan))


def plan_together(
    queries: Sequence[Workload | str | Any], privacy: Privacy, **choices: Any
) -> Together:
    """Plan several releases about the same people under one budget.

    `shares` (adding up to at most one) or `importance` decide who gets how much of it; see
    `planning.together`.
    """
    made = together.plan_together(queries, privacy, **choices)
    return replace(made, plans=tuple(_equipped(one) for one in made.plans))


def plan_sums(
    value: str,
    by: Sequence[Sequence[str]],
    privacy: Privacy,
    domain: Domain,
    *,
    unit: float = 1.0,
) -> SumsPlan:
    """Plan counts, sums and means of the numeric attribute `value` for tables of groups.

    `by` lists the tables, each a list of attributes (an empty one is everybody together). Values
    are clipped to the attribute's bounds and rounded to whole multiples of `unit`.
    """
    tables = [{"marginal": list(names)} if names else {"total": True} for names in by]
    groups = Workload.from_spec({"queries": tables}, domain)
    # A replaced person leaves the number of people as it is, but not their sum: the strategy must
    # not count on the former.
    made = plan(groups, replace(privacy, neighbours="add-remove"))
    return SumsPlan(replace(made, privacy=privacy), value, unit)


def compare(
    queries: Workload | str | Any,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    domain: Domain | None = None,
    **local: Any,
) -> list[Comparison] | list[LocalComparison]:
    """Every mechanism of the model side by side, best first; those that refuse come last."""
    make.check_model(model)
    asked = workload(queries)
    with one_thread_if_small(max(asked.structure.sizes)):
        if model == "local":
            from noisewright.local.choose.candidates import compare_local

            return compare_local(asked, privacy, domain, **local)
        return compare_central(asked, privacy, error, domain)


def load(path: str | Path) -> Any:
    """Read a plan saved by `plan.save`."""
    return _equipped(plan_files.load(path))


def _equipped(made: Any) -> Any:
    from noisewright.tables.engine import DuckDBCounter

    return replace(made, counter=DuckDBCounter())
