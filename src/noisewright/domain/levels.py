"""Coarser levels of an attribute: district → region → country.

A table is counted at the finest level only; every coarser level is a sum of its cells. Tables at
different levels are therefore answers about the same cells, and a plan makes them consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter

Refuse = Callable[[str, object, str, str], InvalidParameter]


@dataclass(frozen=True)
class Level:
    """A named way to put the cells of an attribute into groups."""

    name: str
    labels: tuple[str, ...]
    groups: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.labels)

    def locate(self, constant: object) -> int:
        """Return the group whose label is a constant written in a query."""
        if str(constant) not in self.labels:
            remedy = f"the groups are {', '.join(self.labels[:8])}" + ", …" * (self.size > 8)
            raise InvalidParameter(self.name, constant, "has no declared group", remedy)
        return self.labels.index(str(constant))

    def matrix(self) -> npt.NDArray[np.float64]:
        """Return the sums: one row per group, one column per cell of the attribute."""
        return np.equal.outer(np.arange(self.size), self.groups).astype(np.float64)


def from_members(
    name: str, members: Mapping[Any, Sequence[Any]], finer: Level, refuse: Refuse
) -> Level:
    """Return the level whose groups list labels of the next finer level, each exactly once."""
    group_of: dict[str, int] = {}
    for group, listed in enumerate(members.values()):
        if isinstance(listed, str) or not isinstance(listed, Sequence) or not listed:
            raise refuse(f"levels.{name}", listed, "must list the labels that a group holds", "")
        for label in map(str, listed):
            if label not in finer.labels:
                raise refuse(f"levels.{name}", label, f"is not a label of {finer.name!r}", "")
            if label in group_of:
                raise refuse(f"levels.{name}", label, "must be in one group only", "")
            group_of[label] = group
    if left := [label for label in finer.labels if label not in group_of]:
        raise refuse(f"levels.{name}", left, "must be in a group too", "put every label in one")
    of_finer = [group_of[label] for label in finer.labels]
    return Level(name, tuple(map(str, members)), tuple(of_finer[cell] for cell in finer.groups))


def to_members(level: Level, finer: Level) -> dict[str, list[str]]:
    """Return the groups of a level as lists of labels of the next finer one."""
    members: dict[str, dict[str, None]] = {label: {} for label in level.labels}
    for group, part in zip(level.groups, finer.groups, strict=True):
        members[level.labels[group]][finer.labels[part]] = None
    return {label: list(parts) for label, parts in members.items()}


def is_coarser(level: Level, finer: Level) -> bool:
    """Whether every group of the finer level lies within one group of the coarser."""
    return len(set(zip(finer.groups, level.groups, strict=True))) == len(set(finer.groups))
