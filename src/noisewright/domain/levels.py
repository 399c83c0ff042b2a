"""Levels: coarser groupings of cells, such as district → region → country.

A table is counted at the finest level only; every coarser one is a sum of its cells. Tables at
different levels are therefore answers about the same cells, and a plan makes them consistent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, is_listed, require

LONGEST_LABEL = 200
"""Characters of a name or a label: what a table, a page and a form can still show as one."""


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
        require(
            str(constant) in self.labels,
            self.name,
            constant,
            "has no declared group",
            f"the groups are {first_of(self.labels)}",
        )
        return self.labels.index(str(constant))

    @property
    def queries(self) -> tuple[str, ...]:
        """Every group as a query in words."""
        return tuple(f"{self.name} = {label}" for label in self.labels)

    def matrix(self) -> FloatArray:
        """Return the sums: one row per group, one column per cell of the attribute."""
        return np.equal.outer(np.arange(self.size), self.groups).astype(np.float64)


def check_label(parameter: str, text: str, most: int = LONGEST_LABEL) -> None:
    """Refuse a name or label that is too long to be shown."""
    if len(text) > most:
        rule = f"has {len(text):,} characters, where {most} are the most"
        raise InvalidParameter(parameter, f"{text[:40]}…", rule, "shorten it")


def first_of(labels: Sequence[str], most: int = 8) -> str:
    """The first labels, and that there are more."""
    return ", ".join(labels[:most]) + ", …" * (len(labels) > most)


def from_members(
    attribute: str, name: str, members: Mapping[object, object], finer: Level
) -> Level:
    """Return the level whose groups list labels of the next finer level, each exactly once."""
    subject = f"{attribute}.levels.{name}"
    group_of: dict[str, int] = {}
    for group, (title, listed) in enumerate(members.items()):
        check_label(f"levels.{name}", str(title))
        if not is_listed(listed) or not listed:
            rule = "must list the labels that a group holds"
            raise InvalidParameter(subject, listed, rule)

        for label in map(str, listed):
            rule = f"is not a label of {finer.name!r}"
            require(label in finer.labels, subject, label, rule)
            rule = "must be in one group only"
            require(label not in group_of, subject, label, rule)
            group_of[label] = group

    left = [label for label in finer.labels if label not in group_of]
    require(not left, subject, left, "must be in a group too", "put every label in one")

    of_finer = [group_of[label] for label in finer.labels]
    groups = tuple(of_finer[cell] for cell in finer.groups)
    return Level(name, tuple(map(str, members)), groups)


def to_members(level: Level, finer: Level) -> dict[str, list[str]]:
    """Return the groups of a level as lists of labels of the next finer one."""
    members: dict[str, dict[str, None]] = {label: {} for label in level.labels}
    for group, part in zip(level.groups, finer.groups, strict=True):
        members[level.labels[group]][finer.labels[part]] = None
    return {label: list(parts) for label, parts in members.items()}


def is_coarser(level: Level, finer: Level) -> bool:
    """Whether every group of the finer level lies within one group of the coarser."""
    pairs = set(zip(finer.groups, level.groups, strict=True))
    return len(pairs) == len(set(finer.groups))
