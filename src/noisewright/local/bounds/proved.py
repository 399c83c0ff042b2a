"""Floors with a proof of their own: found from a plan's strategy, and checked wherever stated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, inf

import numpy as np

from noisewright.errors import NoisewrightError
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.cut_proof import MOST_CELLS as MOST_CUT_CELLS
from noisewright.local.bounds.cut_proof import CutProof
from noisewright.local.bounds.delsarte import scheme_of
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.set_proof import MOST_CELLS, SetProof
from noisewright.local.bounds.trace import LowerBound
from noisewright.local.interruption import interrupted
from noisewright.local.strategy import IndexStrategy, IntArray, Strategy
from noisewright.workload.base import Array, FloatArray, Workload

_MOST_REPORTS = 2**13
MOST_LISTED = 1024
_ROUNDS = 16
_TRIES, _PATIENCE, _LEAST_GAIN = 2, 2, 2e-4  # a first proof says little about a search
_TARGET = 1.005
_SECONDS = {"low": (0.0, 0.0), "normal": (15.0, 40.0), "high": (60.0, 120.0)}
"""How long a proof is looked for, on up to 64 cells and on more."""
_FEW_CELLS = 64
_FEW_QUERIES = 0.75  # of the cells: from here on sets proofs leave the least


@dataclass(frozen=True, eq=False, kw_only=True)
class ProvedBound(LowerBound):
    """A floor and the proof that it was computed from."""

    proof: Proof


def proved_bound(workload: Workload, epsilon: float, proof: Proof) -> ProvedBound:
    """The floor that a proof proves for a workload, whatever the proof was found for."""
    return ProvedBound(
        name=proof.kind,
        variance=proof.variance(table_gram(workload).dense(), epsilon),
        mean_square=float(proof.prior @ workload.gram().diagonal()[proof.cells]),
        size=workload.size,
        queries=workload.queries,
        proof=proof,
    )


def stored_proof(arrays: Mapping[str, Array]) -> Proof:
    """The proof in a file: nothing but numbers, which are checked when used."""
    return CutProof.of(arrays) if "vectors" in arrays else SetProof.of(arrays)


def search_proof(
    workload: Workload,
    strategy: Strategy,
    floor: float,
    effort: str,
    target: float | None = None,
    limit: float = inf,
    told: Callable[[float], None] | None = None,
) -> Proof | None:
    """The best proof found from a strategy's reports, if any proves more than a known floor.

    Stops where the strategy's variance is within `target` of the floor proved, where the rounds
    bring next to nothing, or after the effort's time or `limit` seconds; an interruption keeps the
    best so far. `told` hears every ratio.
    """
    began = time.thread_time()  # a busy machine proves no less
    seconds = min(_SECONDS[effort][workload.size > _FEW_CELLS], limit)
    if interrupted() or seconds <= 0 or not 2 < workload.size <= MOST_LISTED:
        return None
    if strategy.delta or not isinstance(strategy, IndexStrategy):
        return None
    if strategy.outputs > _MOST_REPORTS or not strategy.two_valued:
        return None
    gram = table_gram(workload)
    worst, best, proof = strategy.worst_variance(gram), max(floor, 0.0), None
    enough, dense = target or _TARGET, gram.dense()
    if worst <= enough * best:
        return None
    try:
        alike = scheme_of(gram) is not None
        for candidate in _Race.of(dense, strategy, alike).proofs():
            value = candidate.variance(dense, strategy.epsilon)
            if value > best:
                best, proof = value, candidate
            if told is not None and best > 0:
                told(worst / best)
            late = time.thread_time() - began > seconds or interrupted()
            if late or worst <= enough * best:
                break
    except (KeyboardInterrupt, np.linalg.LinAlgError, NoisewrightError):
        pass  # what was found before stands
    return proof


@dataclass(frozen=True, eq=False)
class _Race:
    """Searches for proofs of different kinds: the one ahead goes on while it gains."""

    gram: FloatArray
    """Of the cells that some query tells apart."""
    epsilon: float
    cells: IntArray
    searches: tuple[Iterator[Proof], ...]

    @classmethod
    def of(cls, gram: FloatArray, strategy: IndexStrategy, alike: bool) -> _Race:
        """The searches that fit the number of cells, with few queries cuts first.

        Where cells are alike, sets averaged over symmetries are the linear program for tables.
        """
        from noisewright.local.bounds.cut_search import CutSearch
        from noisewright.local.bounds.joint_problem import Reports
        from noisewright.local.bounds.set_search import SetSearch
        from noisewright.local.optimise.dense.design import Types

        types, epsilon = Types.of(gram), strategy.epsilon
        cells = np.sort(types.first)
        chances = strategy.dense()[:, cells]
        low = chances.min(axis=1)
        prior = types.merged(strategy.prior)[types.group[cells]]
        reports = Reports(chances > low[:, None] * exp(epsilon / 2), low, prior)
        inner = gram[np.ix_(cells, cells)]
        searches: list[Iterator[Proof]] = []
        if len(cells) <= MOST_CELLS and not alike:
            searches.append(SetSearch(inner, epsilon, reports).proofs(_ROUNDS))
        if len(cells) <= MOST_CUT_CELLS:
            few = np.linalg.matrix_rank(inner, hermitian=True) < _FEW_QUERIES * len(cells)
            searches.insert(0 if few else 1, CutSearch(inner, epsilon, reports).proofs(_ROUNDS))
        return cls(inner, epsilon, cells.astype(np.int64), tuple(searches))

    def proofs(self) -> Iterator[Proof]:
        """Proofs about the cells, from whichever search is ahead."""
        best, idle = dict.fromkeys(self.searches, -inf), dict.fromkeys(self.searches, 0)
        tried = dict.fromkeys(self.searches, 0)
        while best:
            fresh = [search for search in best if tried[search] < _TRIES]
            search = fresh[0] if fresh else max(best, key=lambda one: best[one])
            proof = next(search, None)
            if proof is None:
                del best[search]
                continue
            tried[search] += 1
            value = proof.variance(self.gram, self.epsilon)
            gained = tried[search] == 1 or value > best[search] * (1 + _LEAST_GAIN)
            idle[search] = 0 if gained else idle[search] + 1
            best[search] = max(best[search], value)
            if idle[search] >= _PATIENCE:
                del best[search]
            yield replace(proof, cells=self.cells)
