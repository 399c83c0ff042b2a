"""Quantiles of numeric attributes from the cumulative tables of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from noisewright.domain import Numeric
from noisewright.errors import InvalidParameter
from noisewright.estimate.quantiles import Quantile, quantiles
from noisewright.planning.central import CentralPlan
from noisewright.planning.release import Release, ReleasedTable


@dataclass(frozen=True)
class GroupQuantile:
    """One quantile of an attribute within one group of people."""

    table: str
    attribute: str
    group: str
    quantile: Quantile

    def to_dict(self) -> dict[str, str | float]:
        """The quantile as one row of a table."""
        group = {"table": self.table, "attribute": self.attribute, "group": self.group}
        return group | asdict(self.quantile)


def release_quantiles(
    plan: CentralPlan, release: Release, levels: Sequence[float], table: str | None = None
) -> list[GroupQuantile]:
    """Quantiles from every CDF of a numeric attribute in the release, or from the one named.

    Intervals are edges of bins; they come from the release's simultaneous intervals, so all of
    them hold at once with the same 95 % probability.
    """
    check_quantiles(plan, levels, table)
    if release.bounds is not None:
        raise InvalidParameter(
            "release", "post-processed", "has intervals of another kind", "use it as it was before"
        )
    found: list[GroupQuantile] = []
    start = 0
    for part in release.tables:
        rows = slice(start, start + part.queries)
        start += part.queries
        if table in (None, part.name) and _is_cdf(plan, part):
            found += _of_table(plan, release, part, rows, levels)
    return found


def check_quantiles(plan: CentralPlan, levels: Sequence[float], table: str | None = None) -> None:
    """Refuse what no release of the plan can tell; ask this before one spends its budget."""
    for level in levels:
        if not 0 < level < 1:
            raise InvalidParameter("level", level, "must lie in (0, 1)", "0.5 is the median")
    if not any(table in (None, part.name) and _is_cdf(plan, part) for part in plan.tables()):
        raise InvalidParameter(
            "table", table, "is no CDF of one numeric attribute in this plan", "ask `cdf: name`"
        )


def _is_cdf(plan: CentralPlan, part: ReleasedTable) -> bool:
    cumulative = [axis for axis in part.axes if axis.kind == "cumulative"]
    others = [axis for axis in part.axes if axis.kind not in ("cumulative", "value")]
    if plan.domain is None or len(cumulative) != 1 or others:
        return False
    return isinstance(plan.domain[cumulative[0].name], Numeric)


def _of_table(
    plan: CentralPlan,
    release: Release,
    part: ReleasedTable,
    rows: slice,
    levels: Sequence[float],
) -> list[GroupQuantile]:
    assert plan.domain is not None
    place = next(k for k, axis in enumerate(part.axes) if axis.kind == "cumulative")
    name = part.axes[place].name
    attribute = plan.domain[name]
    assert isinstance(attribute, Numeric)
    edges = np.asarray(attribute.edges, dtype=np.float64)
    bins = len(edges) - 1
    shape = [len(axis.labels) for axis in part.axes]
    arrays = [
        np.moveaxis(values[rows].reshape(shape), place, -1).reshape(-1, shape[place])[:, :bins]
        for values in (release.answers, release.std, release.simultaneous_halfwidth)
    ]
    others = [axis for k, axis in enumerate(part.axes) if k != place]
    groups = [
        ", ".join(f"{axis.name} = {label}" for axis, label in zip(others, labels, strict=True))
        for labels in product(*(axis.labels for axis in others))
    ]
    return [
        GroupQuantile(part.name, name, group, quantile)
        for group, answers, std, half in zip(groups, *arrays, strict=True)
        for quantile in quantiles(answers, std, half, edges, levels)
    ]
