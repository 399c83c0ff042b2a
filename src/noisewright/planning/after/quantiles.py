"""Quantiles of numeric attributes from the cumulative tables of a release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from noisewright.domain import Numeric
from noisewright.errors import InvalidParameter, require
from noisewright.planning.central.interval_widths import statistic_widths, term_parts
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.release import Release
from noisewright.workload.questions.quantiles import check_levels
from noisewright.workload.questions.statistics import Counts, Quantiles, Widths


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

    questions, widths = _asked(plan, tuple(levels), table)
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
def _asked(
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
