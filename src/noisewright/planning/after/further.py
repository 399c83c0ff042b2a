"""Further questions to a release: answered from what was measured, at no cost.

What is measured determines more than what was asked. A further question becomes a plan of the same
mechanism with other queries, so that answers, exact errors, steps after the noise and files are
those of any release; it is told to be out of reach where the measurement does not determine it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from noisewright.central.combined import Combined
from noisewright.central.mechanism import Measurement
from noisewright.central.problem import Proposal
from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter, OutOfReach, require
from noisewright.planning.central.answers import statistic_widths, term_parts
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.release import Release
from noisewright.planning.spending import LedgerNote
from noisewright.workload import Queries, Workload, workload
from noisewright.workload.questions.quantiles import Quantiles, check_levels
from noisewright.workload.questions.statistics import Counts, Widths
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from noisewright.planning.release import Release


Further: TypeAlias = (
    "Queries | Mapping[str, object] | Sequence[Mapping[str, object]] | Path"
)
"""A workload, or questions by name: a path, YAML text, or one or several as plain values."""

_MOST_SHOWN = 8  # tables that a message names of each measure
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


COMBINED = "two releases combined"  # the state of a plan that is two others
_JOIN = "+"


def combine(first: Release, second: Release, queries: Further | None = None) -> Release:
    """One release from two of the same table: answers weighed by the inverse of their covariance.

    It answers what either was asked, or `queries`; its spending is both of theirs. That the two are
    of the same people is the caller's word; that they are of the same schema, neighbours, dataset
    where a ledger names it, and of different noise is checked.
    """
    mine, theirs = _weighable(first), _weighable(second)
    if mine.domain != theirs.domain or mine.sizes != theirs.sizes:
        rule = "are over different schemas"
        asked = mine.workload.brief()
        raise InvalidParameter("releases", asked, rule, "combine like with like")

    _check_rows(mine)
    identities = _measurements(first), _measurements(second)
    if identities[0] & identities[1] or "" in identities[0] | identities[1]:
        raise InvalidParameter(
            "releases",
            first.identity,
            "share a measurement: the same noise twice tells nothing new",
            "ask one of them more with release.answer",
        )

    name = f"{mine.mechanism.name} and {theirs.mechanism.name}"
    both = Combined(mine.mechanism, theirs.mechanism, name=name)
    plan = replace(
        mine,
        workload=mine.workload.joined(theirs.workload),
        proposal=Proposal(both, None, None, "none", COMBINED, mine.privacy.neighbours),
        seconds=0.0,
        asked=None,
        known_accuracy=None,
    )
    measurement = Measurement(parts=(first.measurement, second.measurement))
    identity = _JOIN.join(sorted(identities[0] | identities[1]))
    time = max(first.time or "", second.time or "") or None
    note = _note(first.ledger, second.ledger)
    whole = Release(plan, measurement, (), identity, time, note)

    return whole if queries is None else further_answers(whole, queries)


def _weighable(release: Release) -> CentralPlan:
    """The plan of a release whose answers are unbiased, so that they can be weighed."""
    plan = release.plan
    if not isinstance(plan, CentralPlan):
        rule = "are merged as aggregates"
        raise InvalidParameter("release", "estimates", rule, "merge those")
    if plan.measures_only is not plan.mechanism:
        raise InvalidParameter(
            "releases",
            plan.mechanism.name,
            "is biased, and is not weighed with others",
            "combine releases without projection",
        )

    return plan


def _measurements(release: Release) -> set[str]:
    """The names of the measurements that a release is made of."""
    return set((release.identity or "").split(_JOIN))


def _check_rows(plan: CentralPlan) -> None:
    """Refuse where some rows of a person count and others do not.

    Which rows are kept follows from all columns that were read with them, also for other plans of
    the same reading, so that two releases need not be about the same rows: their truths differ.
    """
    require(
        plan.domain is None or plan.domain.unit is None,
        "releases",
        plan.person,
        "need not be about the same rows of a person, so their answers differ by more than"
        " noise",
        "plan all of it at once, or ask one of them more with release.answer",
    )


def _note(first: LedgerNote | None, second: LedgerNote | None) -> LedgerNote | None:
    """The later entry of a ledger, whose hash covers the other; none unless it has both."""
    if first is None or second is None or first.ledger != second.ledger:
        return None
    if first.dataset != second.dataset:
        raise InvalidParameter(
            "releases",
            [first.dataset, second.dataset],
            "are of different datasets, so of different people",
            "combine releases of one",
        )

    return max(first, second, key=lambda note: note.entry)


@dataclass(frozen=True)
class GroupQuantile:
    """One quantile of an attribute within one group; `lower` and `upper` are edges of bins."""

    table: str
    attribute: str
    group: str
    level: float
    estimate: float
    lower: float
    upper: float


def release_quantiles(
    release: Release, levels: Sequence[float], table: str | None = None
) -> list[GroupQuantile]:
    """Quantiles from every CDF of a numeric attribute in the release, or from the one named.

    Intervals are edges of bins; all of those that are asked for hold at once with 95 % probability.
    """
    plan = release.plan
    if not isinstance(plan, CentralPlan):
        raise InvalidParameter(
            "release", type(plan).__name__, "is no release by a curator"
        )

    check_quantiles(plan, levels, table)
    require(
        not release.steps,
        "release",
        "post-processed",
        "has intervals of another kind",
        "use it as it was before",
    )

    accuracy = plan.interval_accuracy
    if accuracy.bias is not None:
        rule = "is biased by more than noise, which no quantile is read from"
        raise InvalidParameter(
            "release", plan.mechanism.name, rule, "plan with another mechanism"
        )

    questions, widths = _quantiles_asked(plan, tuple(levels), table)
    terms = [need for question in questions for need in question.needs]
    parts = term_parts(accuracy, plan.terms, plan.linear_answers(release.measurement))
    quantiles: list[GroupQuantile] = []

    for question, term in zip(questions, terms, strict=True):
        column = question.derive([parts[term.key]], widths)
        places = zip(question.labelled(), column.answers, *column.all, strict=True)
        quantiles += [
            GroupQuantile(
                question.name, question.attribute.name, group, level, *map(float, ends)
            )
            for (group, level), *ends in places
        ]

    return quantiles


@lru_cache(maxsize=4)
def _quantiles_asked(
    plan: CentralPlan, levels: tuple[float, ...], table: str | None
) -> tuple[list[Quantiles], Widths]:
    """What is read off, and how wide; kept, as the same is read off every release of a plan."""
    questions = list(_cdfs(plan, levels, table))
    return questions, statistic_widths(plan.interval_accuracy, plan.terms, questions)


def check_quantiles(
    plan: CentralPlan, levels: Sequence[float], table: str | None = None
) -> None:
    """Refuse what no release of the plan can tell; ask this before one spends its budget."""
    check_levels(levels)
    require(
        any(_cdfs(plan, levels, table)),
        "table",
        table,
        "is no CDF of one numeric attribute in this plan",
        "ask `cdf: name`",
    )


def _cdfs(
    plan: CentralPlan, levels: Sequence[float], table: str | None
) -> Iterator[Quantiles]:
    """What every CDF of a numeric attribute by group tells of its quantiles."""
    for statistic in plan.workload.statistics:
        kinds = [axis.kind for axis in statistic.axes]
        if not isinstance(statistic, Counts) or table not in (None, statistic.name):
            continue
        if sorted(kinds) != ["cumulative"] + ["value"] * (len(kinds) - 1):
            continue
        name = statistic.axes[kinds.index("cumulative")].name
        if isinstance(statistic.domain[name], Numeric):
            yield Quantiles(
                statistic.domain, statistic.name, statistic.table, levels=tuple(levels)
            )
