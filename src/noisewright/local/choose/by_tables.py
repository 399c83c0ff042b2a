"""Questions about several tables, each person asked about one: a strategy of its own per table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import NoisewrightError
from noisewright.local.composed.parts import Block, Parts, person_moments, table_grams
from noisewright.local.composed.union import union
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.strategy import IndexStrategy, Strategy
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Stack, Weighted
from noisewright.workload.structure import terms

if TYPE_CHECKING:
    from noisewright.local.choose.candidates import Candidate

_LARGEST_TABLE = 1024
"""Cells of a table: planning one takes matrices over pairs of them. Only bounds the time."""

_MOST_TABLES = 64
"""Tables that are planned one by one. Only bounds the time."""


def _plan(problem: LocalProblem) -> Strategy:
    """A mechanism that treats cells alike for every table of counts; else the best of each."""
    try:
        return union(problem.gram, problem.epsilon)
    except NoisewrightError:
        if problem.workload.domain is None:
            raise
    return _parts(problem, problem.workload.domain.shape)


def _parts(problem: LocalProblem, sizes: tuple[int, ...]) -> Parts:
    # it reads the list that has this
    from noisewright.local.choose.candidates import candidates

    asked = problem.workload
    tables = _by_table(asked, sizes)
    if not 2 <= len(tables) <= _MOST_TABLES:
        raise NoisewrightError(
            f"{len(tables)} tables are asked, not 2 to {_MOST_TABLES}"
        )

    grams = table_grams(asked, sizes)
    known: dict[str, IndexStrategy] = {}
    components = []
    costs = []

    for table, workload in tables.items():
        if workload.size > _LARGEST_TABLE:
            raise NoisewrightError(
                f"a table of {workload.size} cells is too large to be a part"
            )
        text = workload.text()
        if text not in known:
            known[text] = _component(candidates(replace(problem, workload=workload)))
        components.append(known[text])
        costs.append(float(person_moments(known[text], grams[table])[0].max()))

    # Σ cost/share is least where shares follow the roots of the costs.
    shares: FloatArray = np.sqrt(np.maximum(costs, 1e-12 * max(costs)))
    return Parts.of(sizes, tuple(tables), tuple(components), shares / shares.sum())


def _by_table(asked: Workload, sizes: tuple[int, ...]) -> dict[Block, Workload]:
    """What is asked of every table, as one workload on its cells."""
    by_table: dict[Block, list[Workload]] = {}
    for term in terms(asked, sizes):
        if term.attributes:
            plain = (
                term.inner if term.weight == 1.0 else Weighted(term.weight, term.inner)
            )
            by_table.setdefault(term.attributes, []).append(plain)

    return {
        table: parts[0] if len(parts) == 1 else Stack(tuple(parts))
        for table, parts in by_table.items()
    }


def _component(ranked: list[Candidate]) -> IndexStrategy:
    """The best mechanism that reports a number and sees every cell of its table."""
    for candidate in ranked:
        strategy = None if candidate.analysis is None else candidate.analysis.strategy
        if isinstance(strategy, IndexStrategy) and strategy.information.full_rank:
            return strategy
    raise NoisewrightError("no mechanism sees every cell of a table")


ENTRY = LocalMechanism("union", "one of the tables asked", _plan)
