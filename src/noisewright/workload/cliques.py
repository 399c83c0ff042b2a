"""Attributes in groups that make a tree: every table lies in a group, groups meet in tables.

Tables that agree wherever groups meet are those of some table of people over all attributes, whole
numbers of whole numbers, so that nothing larger than a group need be written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from noisewright.workload.linear.interactions import Table


@dataclass(frozen=True)
class CliqueTree:
    """Groups of attributes; every one but the first meets an earlier one in a separator."""

    cliques: tuple[Table, ...]
    parents: tuple[int, ...]
    """The number of an earlier group for each; of the first, its own."""

    def separator(self, number: int) -> Table:
        """What a group has in common with its parent."""
        parent = self.parents[number]
        return shared_attributes(self.cliques[number], self.cliques[parent])

    def home(self, table: Table) -> int:
        """The first group that holds a table."""
        holds = [set(table) <= set(clique) for clique in self.cliques]
        return holds.index(True)


def shared_attributes(first: Table, second: Table) -> Table:
    """The attributes that two tables share."""
    return tuple(sorted(set(first) & set(second)))


def clique_tree(sizes: Sequence[int], tables: Iterable[Table]) -> CliqueTree:
    """Groups that hold all tables, by taking out the attribute that leaves the smallest first."""
    attributes = range(len(sizes))
    neighbours: dict[int, set[int]] = {i: set() for i in attributes}
    for table in tables:
        for i, j in combinations(table, 2):
            neighbours[i].add(j)
            neighbours[j].add(i)

    def cells(attribute: int) -> int:
        """Of the table that an attribute and its neighbours make."""
        return prod(sizes[j] for j in neighbours[attribute] | {attribute})

    groups: list[set[int]] = []
    while neighbours:
        # The least group first, and of equals the first attribute: the same tree every time.
        out = min(neighbours, key=lambda i: (cells(i), i))
        around = neighbours.pop(out)
        groups.append(around | {out})
        for i in around:
            neighbours[i] |= around - {i}
            neighbours[i].discard(out)

    whole = [group for group in groups if not any(group < other for other in groups)]
    cliques = {tuple(sorted(group)) for group in whole}

    return _joined(sorted(cliques) or [()])


def _joined(cliques: list[Table]) -> CliqueTree:
    """A tree in which neighbours share as many attributes as they can."""
    order = [0]
    parents = [0]
    left = list(range(1, len(cliques)))

    while left:
        pairs = [
            (len(shared_attributes(cliques[new], cliques[k])), -new, -k)
            for new in left
            for k in order
        ]
        _, new, old = max(pairs)
        left.remove(-new)
        parents.append(order.index(-old))
        order.append(-new)

    return CliqueTree(tuple(cliques[k] for k in order), tuple(parents))
