"""What the answers of a table stand for: one axis per attribute, or per level of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from noisewright.domain import Domain
from noisewright.domain.attribute import Level
from noisewright.workload.atoms import Explicit, Identity, Prefix, Ranges
from noisewright.workload.base import Workload
from noisewright.workload.structure import Term


@dataclass(frozen=True)
class Axis:
    """One attribute of a released table: what its queries are, in the order of the answers."""

    name: str
    kind: Literal["value", "cumulative", "range", "query"]
    labels: tuple[str, ...]


def term_axes(domain: Domain, term: Term) -> tuple[Axis, ...]:
    """The axes of a term that is a product of one workload per attribute; none otherwise."""
    kinds: dict[type[Workload], Literal["value", "cumulative", "range"]] = {
        Identity: "value",
        Prefix: "cumulative",
        Ranges: "range",
    }
    if term.factors is None:
        return ()
    axes: list[Axis] = []
    for i, factor in zip(term.attributes, term.factors, strict=True):
        attribute = domain.attributes[i]
        level = next((one for one in attribute.coarser if _sums_to(factor, one)), None)
        if level is not None:
            axes.append(Axis(level.name, "value", level.labels))
        elif type(factor) in kinds:
            axes.append(Axis(attribute.name, kinds[type(factor)], attribute.labels))
        else:
            return ()
    return tuple(axes)


def _sums_to(factor: Workload, level: Level) -> bool:
    return isinstance(factor, Explicit) and factor.names == level.queries
