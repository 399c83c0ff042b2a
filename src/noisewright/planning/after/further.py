"""Further questions to a release: answered from what was measured, at no cost.

What is measured determines more than what was asked. A further question becomes a plan of the same
mechanism with other queries, so that answers, exact errors, steps after the noise and files are
those of any release; it is told to be out of reach where the measurement does not determine it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.local.plan import LocalPlan
from noisewright.workload import Queries, Workload, workload
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.planning.release import Release

Further: TypeAlias = "Queries | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Path"
"""A workload, or questions by name: a path, YAML text, or one or several as plain values."""

_MOST_SHOWN = 8
ASKED_LATER = "asked later"  # the state of a plan that nobody made before its release
_REMEDY = "ask for sums of what was released, or plan for it with a budget of its own"


def further_answers(release: Release, queries: Further) -> Release:
    """The answers of the same measurement to other queries; steps of the release are not taken."""
    plan = release.plan
    if isinstance(plan, CentralPlan):
        return replace(
            release, plan=_asked(plan, _read(queries, plan.domain)), steps=()
        )
    if isinstance(plan, LocalPlan):
        return _estimated(release, plan, _read(queries, plan.domain))

    raise InvalidParameter(
        "release",
        type(plan).__name__,
        "answers no further questions",
        "it is not of tables",
    )


def _read(queries: Further, domain: Domain | None) -> Workload:
    if isinstance(queries, Mapping):
        named: Any = queries if "queries" in queries else {"queries": [dict(queries)]}
    elif (
        isinstance(queries, list | tuple)
        and queries
        and isinstance(queries[0], Mapping)
    ):
        named = {"queries": list(queries)}
    elif isinstance(queries, Path) or (isinstance(queries, str) and _is_yaml(queries)):
        named = queries
    else:
        return workload(cast(Queries, queries))

    if domain is None:
        raise InvalidParameter(
            "queries",
            queries,
            "name attributes, and the release knows none",
            "ask a workload",
        )

    return Workload.from_spec(named, domain)


def _is_yaml(text: str) -> bool:
    return "\n" in text or text.lower().endswith((".yaml", ".yml"))


def _asked(plan: CentralPlan, queries: Workload) -> CentralPlan:
    """A plan of the same mechanism, with nothing said of how good it is for these queries."""
    _check_cells(queries, plan.domain, plan.workload.size)
    measured = {table.measure for table in plan.mechanism.tables}

    for measure in queries.measures:
        if measure not in measured:
            raise OutOfReach(f"the release measured no {measure.words}; {_REMEDY}")

    proposal = replace(
        plan.proposal, value=None, bound=None, certificate="none", status=ASKED_LATER
    )
    later = replace(
        plan, workload=queries, proposal=proposal, seconds=0.0, known_accuracy=None
    )
    for name, terms in _by_name(queries, later.terms):
        try:
            later.mechanism.check_reach(terms)
        except OutOfReach:
            raise OutOfReach(
                f"{name!r} cannot be told from what was measured ({_measured(plan)}); {_REMEDY}"
            ) from None

    return later


def _by_name(queries: Workload, terms: list[Term]) -> list[tuple[str, list[Term]]]:
    """What is needed, by the name of the question that needs it."""
    if queries.statistics:
        return [
            (statistic.name, list(statistic.needs)) for statistic in queries.statistics
        ]
    return [(queries.brief(), terms)]


def _measured(plan: CentralPlan) -> str:
    """What a release measured, in words: every measure with the tables that it was taken over."""
    names = (
        [str(i) for i in range(len(plan.sizes))]
        if plan.domain is None
        else plan.domain.names
    )
    by_measure: dict[str, list[str]] = {}
    for table in plan.mechanism.tables:
        text = " × ".join(names[i] for i in table.attributes) or "everybody"
        by_measure.setdefault(table.measure.words, []).append(text)

    return "; ".join(
        f"{words} by {', '.join(texts[:_MOST_SHOWN])}"
        + (
            f" and {len(texts) - _MOST_SHOWN} more tables"
            if len(texts) > _MOST_SHOWN
            else ""
        )
        for words, texts in by_measure.items()
    )


def _check_cells(queries: Workload, domain: Domain | None, cells: int) -> None:
    other = queries.domain is not None and queries.domain != domain
    if other or queries.size != cells:
        raise InvalidParameter(
            "queries",
            queries.brief(),
            "are over other cells than the release",
            "ask about the schema that it was released with",
        )


def _estimated(release: Release, plan: LocalPlan, queries: Workload) -> Release:
    """Estimates of other queries from the same reports, read in the same way."""
    _check_cells(queries, plan.domain, plan.workload.size)
    if not queries.counts_only:
        raise OutOfReach("reports of cells tell numbers of people only; ask for counts")

    plan.strategy.check_reach(queries)
    later = replace(
        plan, workload=queries, runners_up=(), people=None, alpha=None, seconds=0.0
    )
    answers = replace(release, plan=later)
    _ = answers.intervals  # whatever cannot be estimated is refused here

    return answers
