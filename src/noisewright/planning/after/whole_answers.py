"""Answers in whole numbers, from whole numbers of people in tables that agree.

Only what was asked is rounded, and judged by how far answers move. Attributes are grouped so that
all tables lie in groups which make a tree (`workload/cliques`). Where one linear program over the
cells of all groups comes out whole, no answer moves by one or more. Else the cells of all
attributes asked are rounded together, as near as `estimate/whole` finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.estimate.rounding import Sums, on_grid
from noisewright.estimate.whole import (
    evenly_rounded,
    exchange_people,
    flow_rounding,
    whole_near,
)
from noisewright.planning.after.asked_cells import AskedCells, spread_rows
from noisewright.workload.cliques import CliqueTree, clique_tree
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.tensor import sum_out
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FEWEST = 2**10  # cells among which moving people is of any use


@dataclass(frozen=True, eq=False)
class Kept:
    """What whole numbers must come to: people in all, and queries by their numbers."""

    people: int
    numbers: Sequence[int] = ()
    values: Sequence[float] = ()


def whole_answers(asked: AskedCells, histogram: FloatArray, kept: Kept) -> FloatArray:
    """Answers of whole numbers of people near a histogram of the cells asked."""
    cells = on_grid(histogram)
    tree = clique_tree(
        asked.sizes, [*(t.attributes for t in asked.terms), *asked.forbidden]
    )
    if len(tree.cliques) > 1:
        answers = _from_groups(asked, tree, cells, kept)
        if answers is not None:
            return answers

    whole = whole_histogram(asked, cells, kept).astype(np.float64)
    return np.asarray(asked.workload.matvec(whole), dtype=np.float64)


def whole_histogram(asked: AskedCells, histogram: FloatArray, kept: Kept) -> IntArray:
    """Whole numbers of people in the cells asked, near a histogram of them."""
    inside = asked.inside
    cells = on_grid(histogram)
    near = spread_rows(asked.terms, asked.sizes, inside)
    if near is None:
        return _beyond_writing(asked, cells, kept)

    result = np.zeros(asked.size, dtype=np.int64)
    result[inside] = whole_near(cells[inside], _sums(near, kept, asked))
    return result


def _beyond_writing(asked: AskedCells, cells: FloatArray, kept: Kept) -> IntArray:
    """Whole numbers where the questions over all cells are too many to be written out.

    In the order of cells every run of them is kept; in any order no pattern of theirs meets that of
    the rounding. The better one is taken, and people move among as many cells as can be.
    """
    exact = _sums(_nothing(len(asked.inside)), kept, asked)
    shuffled = np.random.default_rng(0).permutation(asked.inside)
    starts: list[tuple[float, IntArray, FloatArray]] = []

    for order in (asked.inside, shuffled):
        result = np.zeros(asked.size, dtype=np.int64)
        result[order] = evenly_rounded(cells[order], exact)
        strayed = np.asarray(asked.workload.matvec(result - cells)) / asked.weights
        starts.append((float(np.abs(strayed).max(initial=0.0)), result, strayed))

    worst, result, strayed = min(starts, key=lambda start: start[0])
    some = shuffled if worst >= 1 else shuffled[:0]
    while len(some) > _FEWEST:
        some = some[: len(some) // 2]
        near = spread_rows(asked.terms, asked.sizes, some)
        if near is not None:
            result[some] = exchange_people(
                result[some], strayed, _sums(near, kept, asked)
            )
            break

    return result


def _nothing(cells: int) -> csr_array[np.float64]:
    from scipy.sparse import csr_array

    return csr_array((0, cells))


def _sums(
    near: csr_array[np.float64],
    kept: Kept,
    asked: AskedCells,
    links: csr_array[np.float64] | None = None,
    first: int = 0,
) -> Sums:
    """Sums to stay near, and those to come out: all people, links of zero, whole declared values.

    All people are those of the `first` cells, where others count them again.
    """
    from scipy.sparse import csr_array, vstack

    numbers = np.array(kept.numbers if near.shape[0] else (), dtype=np.int64)
    values = np.array(kept.values if near.shape[0] else ()) / asked.weights[numbers]
    whole = values == np.rint(values)
    everyone = (np.arange(near.shape[1]) < (first or near.shape[1])).astype(np.float64)
    zeros = np.zeros(0 if links is None else links.shape[0])
    parts = [csr_array(everyone[None]), links, csr_array(near[numbers[whole]])]
    exact = csr_array(
        vstack([part for part in parts if part is not None], format="csr")
    )

    return Sums(
        near, exact, np.concatenate([[float(kept.people)], zeros, values[whole]])
    )


# --- groups of attributes -------------------------------------------------------------------------


def _from_groups(
    asked: AskedCells, tree: CliqueTree, cells: FloatArray, kept: Kept
) -> FloatArray | None:
    """Answers from the tables of all groups; None where one would move by one or more."""
    groups = _Groups.of(asked, tree, cells)
    near = groups.questions(asked.terms)
    if near is None:
        return None

    sums = _sums(near, kept, asked, groups.links(), len(groups.filled[0]))
    whole = flow_rounding(groups.values, sums)
    return None if whole is None else groups.answers(asked.terms, whole)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The tables of all groups one after the other, without the cells of nobody."""

    sizes: tuple[int, ...]
    tree: CliqueTree
    tables: tuple[FloatArray, ...]
    filled: tuple[IntArray, ...]

    @classmethod
    def of(cls, asked: AskedCells, tree: CliqueTree, cells: FloatArray) -> _Groups:
        tensor = cells.reshape(asked.sizes)
        tables = tuple(
            sum_out(tensor, asked.sizes, own).ravel() for own in tree.cliques
        )
        # A cell is kept of an empty table: the number of people may still be rounded up.
        filled = tuple(
            np.flatnonzero(table) if table.any() else np.arange(1) for table in tables
        )

        return cls(asked.sizes, tree, tables, filled)

    @property
    def values(self) -> FloatArray:
        pairs = zip(self.tables, self.filled, strict=True)
        return np.concatenate([table[cells] for table, cells in pairs])

    def shape(self, number: int) -> list[int]:
        """The sizes of a group's attributes."""
        return [self.sizes[i] for i in self.tree.cliques[number]]

    def within(self, number: int, table: Table) -> Table:
        """The axes of a table among those of a group."""
        return tuple(self.tree.cliques[number].index(i) for i in table)

    def questions(self, terms: Sequence[Term]) -> csr_array[np.float64] | None:
        """Every question over the cells of the first group that holds its table."""
        from scipy.sparse import block_diag, csr_array

        homes = [self.tree.home(term.attributes) for term in terms]
        parts = []

        for number, cells in enumerate(self.filled):
            own = [
                replace(term, attributes=self.within(number, term.attributes))
                for term, home in zip(terms, homes, strict=True)
                if home == number
            ]
            rows = (
                spread_rows(own, self.shape(number), cells)
                if own
                else _nothing(len(cells))
            )
            if rows is None:
                return None

            parts.append(rows)

        # Rows came group by group: back to the order of the answers.
        by_group = np.repeat(homes, [term.queries for term in terms])
        order = np.argsort(np.argsort(by_group, kind="stable"), kind="stable")
        return csr_array(csr_array(block_diag(parts, format="csr"))[order])

    def links(self) -> csr_array[np.float64]:
        """A group's table less that of the group it meets, for every cell that they share."""
        from scipy.sparse import csr_array, vstack

        starts = np.cumsum([0, *map(len, self.filled)])
        rows: list[Any] = []

        for number in range(1, len(self.filled)):
            shared = self.tree.separator(number)
            parent = self.tree.parents[number]
            size = prod(self.sizes[i] for i in shared)
            places = [self._places(k, shared) for k in (number, parent)]
            columns = [
                starts[k] + np.arange(len(self.filled[k])) for k in (number, parent)
            ]
            signs = np.repeat([1.0, -1.0], [len(own) for own in places])
            index = (np.concatenate(places), np.concatenate(columns))
            rows.append(csr_array((signs, index), shape=(size, int(starts[-1]))))

        return csr_array(vstack(rows, format="csr"))

    def _places(self, number: int, shared: Table) -> IntArray:
        """Where the cells of a group lie in a table of some of its attributes."""
        places = np.unravel_index(self.filled[number], self.shape(number))
        chosen = tuple(places[k] for k in self.within(number, shared))
        small = [self.sizes[i] for i in shared]
        return (
            np.ravel_multi_index(chosen, small) if small else np.zeros_like(places[0])
        )

    def answers(self, terms: Sequence[Term], whole: IntArray) -> FloatArray:
        """Answers from whole numbers in all groups."""
        parts = np.split(whole, np.cumsum([len(cells) for cells in self.filled])[:-1])
        pieces = []
        for term in terms:
            number = self.tree.home(term.attributes)
            table = np.zeros(prod(self.shape(number)))
            table[self.filled[number]] = parts[number]
            kept = self.within(number, term.attributes)
            tensor = table.reshape(self.shape(number))
            pieces.append(
                term.answers(sum_out(tensor, self.shape(number), kept).ravel())
            )

        return np.concatenate(pieces)
