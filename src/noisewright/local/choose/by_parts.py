"""Questions about several tables, each person asked about one: a strategy of its own per table."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from noisewright.errors import NoisewrightError
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.composed.parts import Block, Parts, person_moments, table_grams
from noisewright.local.registry import Candidate
from noisewright.local.strategy import IndexStrategy
from noisewright.workload.algebra import Stack, Weighted
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.spec import Questions
from noisewright.workload.terms import terms

UNION = "union"
_LARGEST_TABLE = 1024
_MOST_TABLES = 64

Rank = Callable[[Workload], list[Candidate]]
"""All mechanisms for a workload, the best first."""


def with_parts(asked: Workload, found: list[Candidate], rank: Rank) -> list[Candidate]:
    """The candidates, with parts in place of a union that refused."""
    refused = any(c.mechanism == UNION and c.analysis is None for c in found)
    if not refused or not isinstance(asked, Questions):
        return found
    others = [candidate for candidate in found if candidate.mechanism != UNION]
    return [*others, _parts(asked, rank)]


def _parts(asked: Questions, rank: Rank) -> Candidate:
    began = time.perf_counter()
    try:
        analysis = Analysis(_strategy(asked, rank), asked)
        _ = analysis.worst_case
    except NoisewrightError as error:
        return Candidate(UNION, time.perf_counter() - began, refusal=str(error))
    return Candidate(UNION, time.perf_counter() - began, analysis)


def _strategy(asked: Questions, rank: Rank) -> Parts:
    sizes = asked.domain.shape
    tables = _by_table(asked, sizes)
    if not 2 <= len(tables) <= _MOST_TABLES:
        raise NoisewrightError(f"{len(tables)} tables are asked, not 2 to {_MOST_TABLES}")
    grams = table_grams(asked, sizes)
    known: dict[str, IndexStrategy] = {}
    components, costs = [], []
    for table, workload in tables.items():
        if workload.size > _LARGEST_TABLE:
            raise NoisewrightError(f"a table of {workload.size} cells is too large to be a part")
        text = workload.text()
        if text not in known:
            known[text] = _component(rank(workload))
        components.append(known[text])
        costs.append(float(person_moments(known[text], grams[table])[0].max()))
    # Σ cost/share is least where shares follow the roots of the costs.
    shares: FloatArray = np.sqrt(np.maximum(costs, 1e-12 * max(costs)))
    return Parts.of(sizes, tuple(tables), tuple(components), shares / shares.sum())


def _by_table(asked: Questions, sizes: tuple[int, ...]) -> dict[Block, Workload]:
    """What is asked of every table, as one workload on its cells."""
    found: dict[Block, list[Workload]] = {}
    for term in terms(asked, sizes):
        if term.attributes:
            plain = term.inner if term.weight == 1.0 else Weighted(term.weight, term.inner)
            found.setdefault(term.attributes, []).append(plain)
    return {
        table: parts[0] if len(parts) == 1 else Stack(tuple(parts))
        for table, parts in found.items()
    }


def _component(ranked: list[Candidate]) -> IndexStrategy:
    """The best mechanism that reports a number and sees every cell of its table."""
    for candidate in ranked:
        strategy = None if candidate.analysis is None else candidate.analysis.strategy
        if isinstance(strategy, IndexStrategy) and strategy.information.full_rank:
            return strategy
    raise NoisewrightError("no mechanism sees every cell of a table")
