"""What the answers of a table stand for: one axis per attribute, or per level of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import isfinite
from typing import Literal

from noisewright.domain import Attribute, Domain, Level, Numeric
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.structure import Term


@dataclass(frozen=True)
class Axis:
    """One attribute of a released table: what its queries are, in the order of the answers.

    `ends` holds the largest number of every cell where cells are runs of numbers with an end.
    """

    name: str
    kind: Literal["value", "cumulative", "range", "query"]
    labels: tuple[str, ...]
    ends: tuple[float, ...] = ()


_KINDS: dict[type[Workload], Literal["value", "cumulative", "range"]] = {
    Identity: "value",
    Prefix: "cumulative",
    Ranges: "range",
}


def term_axes(domain: Domain, term: Term) -> tuple[Axis, ...]:
    """The axes of a term that is a product of one workload per attribute; none otherwise."""
    axes: list[Axis] = []
    for i, factor in term.by_attribute.items():
        attribute = domain.attributes[i]
        levels = (level for level in attribute.coarser if _sums_to(factor, level))
        level = next(levels, None)
        kind = _KINDS.get(type(factor))
        if level is not None:
            axes.append(Axis(level.name, "value", level.labels))
        elif kind is not None:
            ends = _ends(attribute)
            axes.append(Axis(attribute.name, kind, attribute.labels, ends))
        else:
            return ()

    return tuple(axes)


def query_labels(domain: Domain, term: Term) -> Iterator[str]:
    """Every query of a term in words, one after the other: `age ≤ 17, sex = F`."""
    if term.factors is None:
        return map(term.inner.label, range(term.queries))

    columns = []
    for i, factor in term.by_attribute.items():
        attribute = domain.attributes[i]
        columns.append(factor.labels_of(attribute.name, attribute.labels))

    if columns and all(map(all, columns)):
        return map(", ".join, product(*columns))

    return (", ".join(filter(None, row)) or "total" for row in product(*columns))


def _ends(attribute: Attribute) -> tuple[float, ...]:
    """The last number of every cell; none where one has no end or holds what was not declared."""
    if not isinstance(attribute, Numeric) or attribute.has_other:
        return ()

    ends = tuple(float(last) for _, last in attribute.spans)
    return ends if all(map(isfinite, ends)) else ()


def _sums_to(factor: Workload, level: Level) -> bool:
    return isinstance(factor, Explicit) and factor.names == level.queries
