"""Structural zeros: combinations that nobody can have, declared as public knowledge.

Each is a box: for some attributes (or levels) a set of cells, and every combination of them is
impossible. `{age: {below: 15}, employment: [employed, retired]}` says that nobody under 15 is
either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import BoolArray
from noisewright.domain.attribute import Attribute
from noisewright.domain.levels import Level
from noisewright.domain.ordered import Ordered
from noisewright.errors import InvalidParameter, is_listed, require

if TYPE_CHECKING:
    from noisewright.domain.product import Domain


@dataclass(frozen=True)
class Box:
    """For every attribute mentioned, its cells; all combinations of them are impossible."""

    sides: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes mentioned."""
        return tuple(name for name, _ in self.sides)

    def holds(self, domain: Domain, names: Sequence[str]) -> BoolArray:
        """Return where the box lies in the marginal table of `names`, one axis per name."""
        inside = np.ones((1,) * len(names), dtype=np.bool_)
        for name, cells in self.sides:
            shape = [1] * len(names)
            shape[names.index(name)] = -1
            side = np.isin(np.arange(domain[name].size), cells)
            inside = inside & side.reshape(shape)

        return inside

    def to_dict(self, domain: Domain) -> dict[str, list[str]]:
        """Return the box by the labels of its cells."""
        return {
            name: [domain[name].labels[cell] for cell in cells]
            for name, cells in self.sides
        }


def read_box(declared: Box | Mapping[str, object], domain: Domain) -> Box:
    """Read a box: for every name a list of values or labels, or `{from: …, below: …}`."""
    if isinstance(declared, Box):
        return declared
    if not isinstance(declared, Mapping) or not declared:
        raise InvalidParameter("impossible", declared, "must map attributes to values")

    sides: dict[str, set[int]] = {}
    for name, values in declared.items():
        position, level = domain.find(name)
        attribute = domain.attributes[position]
        cells = _cells(level or attribute, values)
        if level is not None:
            cells = {cell for cell, group in enumerate(level.groups) if group in cells}
        sides[attribute.name] = sides.get(attribute.name, cells) & cells

    ordered = sorted(sides, key=domain.index)
    return Box(tuple((name, tuple(sorted(sides[name]))) for name in ordered))


def _cells(subject: Attribute | Level, values: object) -> set[int]:
    if isinstance(values, Mapping):
        return _interval(subject, values)
    if not is_listed(values) or not values:
        rule = (
            "must be a list of values, or {from: …, below: …} for an ordered attribute"
        )
        raise InvalidParameter(f"impossible.{subject.name}", values, rule)

    labels = subject.labels
    return {labels.index(v) if v in labels else subject.locate(v) for v in values}


def _interval(subject: Attribute | Level, values: Mapping[str, object]) -> set[int]:
    name = f"impossible.{subject.name}"
    ends = {"from", "below"} & set(values)
    if not isinstance(subject, Ordered) or not ends or len(ends) < len(values):
        rule = (
            "may have `from` and `below` only, and only where the attribute is ordered"
        )
        raise InvalidParameter(name, dict(values), rule)

    first = subject.cells_below(values["from"]) if "from" in ends else 0
    declared = len(subject.declared_labels)
    end = subject.cells_below(values["below"]) if "below" in ends else declared
    require(first < end, name, dict(values), "holds no cell")

    return set(range(first, end))
