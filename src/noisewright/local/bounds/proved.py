"""Floors with a proof of their own: found from a plan's strategy, and checked wherever stated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf

import numpy as np

from noisewright.errors import NoisewrightError
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.delsarte import scheme_of
from noisewright.local.bounds.set_proof import MOST_CELLS, SetProof, proved_variance
from noisewright.local.bounds.trace import LowerBound
from noisewright.local.interruption import interrupted
from noisewright.local.strategy import IndexStrategy, Strategy
from noisewright.workload.base import Workload

_MOST_REPORTS = 2**13
_ROUNDS = 12
_LEAST_GAIN = 2e-4
_TARGET = 1.005
_SECONDS = {"low": (0.0, 0.0), "normal": (10.0, 40.0), "high": (60.0, 120.0)}
"""How long a proof is looked for, on up to 64 cells and on more."""
_FEW_CELLS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class ProvedBound(LowerBound):
    """A floor and the proof that it was computed from."""

    name: str = "sets"
    proof: SetProof


def proved_bound(workload: Workload, epsilon: float, proof: SetProof) -> ProvedBound:
    """The floor that a proof proves for a workload, whatever the proof was found for."""
    gram = table_gram(workload)
    return ProvedBound(
        variance=proved_variance(proof, gram.dense(), epsilon),
        mean_square=float(proof.prior @ workload.gram().diagonal()),
        size=workload.size,
        queries=workload.queries,
        proof=proof,
    )


def search_proof(
    workload: Workload,
    strategy: Strategy,
    floor: float,
    effort: str,
    target: float | None = None,
    limit: float = inf,
    told: Callable[[float], None] | None = None,
) -> SetProof | None:
    """The best proof found from a strategy's reports, if any proves more than a known floor.

    Stops where the strategy's variance is within `target` of the floor proved, where the rounds
    bring next to nothing, or after the effort's time or `limit` seconds; an interruption keeps the
    best so far. `told` hears every ratio.
    """
    from noisewright.local.bounds.set_search import Reports, SetSearch

    began, epsilon = time.thread_time(), strategy.epsilon  # a busy machine proves no less
    seconds = min(_SECONDS[effort][workload.size > _FEW_CELLS], limit)
    if interrupted() or seconds <= 0 or not 2 < workload.size <= MOST_CELLS or strategy.delta:
        return None
    if not isinstance(strategy, IndexStrategy):
        return None
    if strategy.outputs > _MOST_REPORTS or not strategy.two_valued:
        return None
    gram = table_gram(workload)
    if scheme_of(gram) is not None:
        return None  # averaged over symmetries it is the linear program for tables
    worst, best, proof = strategy.worst_variance(gram), max(floor, 0.0), None
    enough = target or _TARGET
    if worst <= enough * best:
        return None
    chances = strategy.dense()
    low = chances.min(axis=1)
    reports = Reports(chances > low[:, None] * exp(epsilon / 2), low, strategy.prior)
    try:
        for candidate in SetSearch(gram.dense(), epsilon, reports).proofs(_ROUNDS):
            value = proved_variance(candidate, gram.dense(), epsilon)
            gain = value / best - 1 if best > 0 else 1.0
            if value > best:
                best, proof = value, candidate
            if told is not None and best > 0:
                told(worst / best)
            late = time.thread_time() - began > seconds or interrupted()
            if late or worst <= enough * best or 0 <= gain < _LEAST_GAIN:
                break
    except (KeyboardInterrupt, np.linalg.LinAlgError, NoisewrightError):
        pass  # what was found before stands
    return proof
