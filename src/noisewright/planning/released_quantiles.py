"""Quantiles of numeric attributes from the cumulative tables of a release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noisewright.domain import Numeric
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan
from noisewright.planning.release import Release
from noisewright.workload.quantiles import check_levels
from noisewright.workload.spec import Questions
from noisewright.workload.statistics import Counts, Noisy, Quantiles


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

    Intervals are edges of bins; they come from the release's simultaneous intervals, so all of
    them hold at once with the same 95 % probability.
    """
    plan = release.plan
    if not isinstance(plan, CentralPlan):
        raise InvalidParameter("release", type(plan).__name__, "is no release by a curator")
    check_quantiles(plan, levels, table)
    if release.steps:
        raise InvalidParameter(
            "release", "post-processed", "has intervals of another kind", "use it as it was before"
        )
    quantiles: list[GroupQuantile] = []
    for rows, question in _cdfs(plan, levels, table):
        noisy = Noisy(release.answers[rows], release.std[rows])
        column = question.derive([noisy], plan.widths)
        places = zip(question.labelled(), column.answers, *column.all, strict=True)
        quantiles += [
            GroupQuantile(question.name, question.attribute.name, group, level, *map(float, ends))
            for (group, level), *ends in places
        ]
    return quantiles


def check_quantiles(plan: CentralPlan, levels: Sequence[float], table: str | None = None) -> None:
    """Refuse what no release of the plan can tell; ask this before one spends its budget."""
    check_levels(levels)
    if not any(_cdfs(plan, levels, table)):
        raise InvalidParameter(
            "table", table, "is no CDF of one numeric attribute in this plan", "ask `cdf: name`"
        )


def _cdfs(
    plan: CentralPlan, levels: Sequence[float], table: str | None
) -> Iterator[tuple[slice, Quantiles]]:
    """The rows of every CDF of a numeric attribute by group, and the quantiles it tells."""
    if not isinstance(plan.workload, Questions):
        return
    start = 0
    for statistic in plan.workload.statistics:
        rows = slice(start, start + statistic.queries)
        start = rows.stop
        kinds = [axis.kind for axis in statistic.axes]
        if not isinstance(statistic, Counts) or table not in (None, statistic.name):
            continue
        if sorted(kinds) != ["cumulative"] + ["value"] * (len(kinds) - 1):
            continue
        name = statistic.axes[kinds.index("cumulative")].name
        if isinstance(statistic.domain[name], Numeric):
            yield (
                rows,
                Quantiles(statistic.domain, statistic.name, statistic.table, levels=tuple(levels)),
            )
