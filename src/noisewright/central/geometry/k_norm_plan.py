"""Which tables K-norm noise is put on: those asked, the queries' own groups, or the cells."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from noisewright.central.geometry.k_norm import (
    LARGEST_EPSILON,
    LEAST_EPSILON,
    MOST_DIMENSIONS,
    KNormMechanism,
)
from noisewright.central.geometry.partition import (
    MOST_CELLS,
    Partition,
    by_value,
)
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_laplace,
)
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.structure import Term

# that sort people each by themselves: every one costs a dimension at least
_MOST_QUERIES = 64
_MOST_VALUES = 8  # of a query: each costs a dimension
_MOST_GROUPS = 64  # of one table: with more, noise for each of them by itself is less

Parts = tuple[Partition, ...]


def _options(problem: CentralProblem) -> dict[str, Parts]:
    """Ways to sort people that tell all that is asked."""
    options = {
        "tables asked": _tables(problem, largest=False),
        "the largest tables asked": _tables(problem, largest=True),
        "groups of cells that the queries tell apart": _by_queries(problem),
        "all cells": _cells(problem),
    }
    return {name: parts for name, parts in options.items() if _fits(problem, parts)}


def _fits(problem: CentralProblem, parts: Parts) -> bool:
    dimensions = sum(part.groups - 1 for part in parts) + (
        problem.neighbours == "add-remove"
    )
    overlaps = len({i for part in parts for i in part.attributes}) < sum(
        len(part.attributes) for part in parts
    )
    small = prod(problem.sizes) <= MOST_CELLS or not overlaps
    small = small and all(part.groups <= _MOST_GROUPS for part in parts)

    return bool(parts) and small and 0 < dimensions <= MOST_DIMENSIONS


def _tables(problem: CentralProblem, largest: bool) -> Parts:
    counts = problem.structure.counts
    if counts is None:
        counts = problem.terms
        if not all(map(_of_single_cells, counts)):
            return ()

    asked = sorted({t.attributes for t in counts if prod(t.inner.shape[1:]) > 1})
    if largest:
        asked = _largest(asked)

    if len(asked) > MOST_DIMENSIONS:  # every table has one at least
        return ()

    cells = [prod(problem.sizes[i] for i in table) for table in asked]
    return tuple(map(Partition, asked, cells))


def _of_single_cells(term: Term) -> bool:
    """Whether each query is one cell of a table, though perhaps not every cell is asked."""
    if term.factors is None:
        return False

    small = all(factor.size <= _MOST_GROUPS for factor in term.factors)
    return small and all(
        (np.count_nonzero(factor.dense(), axis=1) == 1).all()
        for factor in set(term.factors)
    )


def _largest(
    tables: Sequence[tuple[int, ...]],
) -> list[tuple[int, ...]]:
    """Tables within no other, in order; those found so far where there are too many."""
    found: list[frozenset[int]] = []
    for table in sorted(map(frozenset, tables), key=len, reverse=True):
        if not any(table < other for other in found):
            found.append(table)
        if len(found) > MOST_DIMENSIONS:
            break

    return sorted(tuple(sorted(table)) for table in found)


def _by_queries(problem: CentralProblem) -> Parts:
    workload = problem.workload
    if workload.queries > _MOST_QUERIES or workload.size > MOST_CELLS:
        return ()
    every = tuple(range(len(problem.sizes)))
    labels = by_value(workload.dense(), _MOST_VALUES)
    return tuple(Partition(every, workload.size, grouping) for grouping in labels or ())


def _cells(problem: CentralProblem) -> Parts:
    if problem.neighbours != "replace-one" or problem.workload.size > _MOST_GROUPS:
        # under add-remove, noise in the shape of what one person changes is Laplace's
        return ()
    return (Partition(tuple(range(len(problem.sizes))), problem.workload.size),)


def _refuses(problem: CentralProblem) -> str | None:
    if refuses_laplace(problem):
        return "K-norm noise is for pure privacy; leave delta and rho out"
    if not LEAST_EPSILON <= problem.epsilon <= LARGEST_EPSILON:
        return f"K-norm noise is drawn for epsilon from 2^-30 to {LARGEST_EPSILON:g}"
    if not _options(problem):
        return "only few queries of few values each, or tables of few cells together, sort people"
    return None


def _plan(problem: CentralProblem) -> Proposal:
    proposals = []
    for name, parts in _options(problem).items():
        mechanism = KNormMechanism(problem.sizes, parts, problem.privacy)
        error = mean_error(mechanism.accuracy(problem.terms).error, problem.norm)
        status = f"one draw for {len(parts)} partitions of people: {name}"
        proposals.append(
            (
                error,
                Proposal.unbounded(mechanism, status),
            )
        )

    return min(proposals, key=lambda pair: pair[0])[1]


K_NORM = CentralMechanism(
    "k-norm",
    "pure privacy: one draw in the shape of what a person can change in few tables or queries",
    _refuses,
    _plan,
)
