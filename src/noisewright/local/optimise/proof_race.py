"""Searches for proofs of different kinds, from the reports of one strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, inf

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.cuts.proof import MOST_CELLS as MOST_CUT_CELLS
from noisewright.local.bounds.cuts.search import CutSearch
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.sets.proof import MOST_CELLS
from noisewright.local.bounds.sets.search import SetSearch
from noisewright.local.bounds.start import Reports
from noisewright.local.bounds.tables.scheme import scheme_of
from noisewright.local.bounds.tables.search import TripleSearch
from noisewright.local.optimise.dense.cell_types import CellTypes
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.strategy import IndexStrategy
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.work import Work
from noisewright.workload.linear.gram import Gram

# Reports of a strategy that a proof starts from: only bounds memory.
MOST_REPORTS = 2**15
# Of a search for a proof: only bounds time.
_ROUNDS = 16
_TRIES, _PATIENCE, _LEAST_GAIN = 2, 2, 2e-4  # a first proof says little about a search
# Cells from which priors are evened.
_MANY_CELLS = 128
# Of the prior, tried in turn, the more even first.
_POWERS = (0.6, 0.8)
# Of the error, that a more even prior may cost.
_EVENING_LOSS = 2e-3
# of the cells: cuts prove more below, sets above
_FEW_QUERIES = 0.75
# Of the cells, as the rank of what is asked.
_MOST_QUERIES = 0.95


def _evened(gram: FloatArray, prior: FloatArray, chances: FloatArray) -> FloatArray:
    """A prior nearer to an even one, under which the strategy's error is next to the same.

    What is left of a condition costs a proof the more the lighter the lightest cells are.
    """

    def mean_variance(prior: FloatArray) -> float:
        objective = Objective(gram, prior)
        return objective.variance(objective.evaluate(chances).value)

    least = (1 - _EVENING_LOSS) * mean_variance(prior)
    for power in _POWERS:
        evened = prior**power / float((prior**power).sum())
        if mean_variance(evened) >= least:
            return np.asarray(evened)

    return prior


@dataclass(frozen=True, eq=False)
class ProofRace:
    """The search ahead goes on while it gains."""

    gram: FloatArray
    """Of the cells that some query tells apart."""
    epsilon: float
    cells: IntArray
    searches: tuple[Iterator[Proof], ...]
    doubtful: bool
    """Whether all searches are tried before one is ahead; else a second one waits for its end."""

    @classmethod
    def of(
        cls, asked: Gram, strategy: IndexStrategy, work: Work | None = None
    ) -> ProofRace:
        """The searches that fit the number of cells, with few queries cuts first.

        Where cells are alike, sets averaged over symmetries are the linear program for tables,
        and triples of cells say more. What they do is counted in `work`.
        """
        work = work or Work()
        gram = asked.dense()
        scheme = scheme_of(asked)
        if scheme is not None and TripleSearch.fits(scheme):
            search = TripleSearch(scheme, strategy.epsilon, _sets(strategy), work)
            cells = np.arange(len(gram), dtype=np.int64)
            return cls(
                gram, strategy.epsilon, cells, (search.proofs(_ROUNDS),), doubtful=False
            )

        types = CellTypes.of(gram)
        epsilon = strategy.epsilon
        cells = np.sort(types.first_cells)
        chances = strategy.dense()[:, cells]
        low = chances.min(axis=1)
        prior = types.merged(strategy.prior)[types.of_cell[cells]]
        inner = gram[np.ix_(cells, cells)]
        if len(cells) >= _MANY_CELLS:
            prior = _evened(inner, prior, chances)

        reports = Reports(_favoured(chances, epsilon), low, prior)
        searches: list[Iterator[Proof]] = []
        if len(cells) <= MOST_CELLS and scheme is None:
            searches.append(SetSearch(inner, epsilon, reports, work).proofs(_ROUNDS))

        rank = int(np.linalg.matrix_rank(inner, hermitian=True))
        few = rank < _FEW_QUERIES * len(cells)
        most = rank >= _MOST_QUERIES * len(cells)
        if len(cells) <= MOST_CUT_CELLS:
            searches.insert(
                0 if few else 1,
                CutSearch(inner, epsilon, reports, work).proofs(_ROUNDS),
            )

        doubtful = not few and not most
        return cls(inner, epsilon, cells.astype(np.int64), tuple(searches), doubtful)

    def proofs(self) -> Iterator[tuple[float, Proof]]:
        """Proofs about the cells with the variance they prove, from whichever search is ahead."""
        best = dict.fromkeys(self.searches, -inf)
        idle = dict.fromkeys(self.searches, 0)
        tried = dict.fromkeys(self.searches, 0 if self.doubtful else _TRIES)
        while best:
            fresh = [search for search in best if tried[search] < _TRIES]
            # first of equals
            search = fresh[0] if fresh else max(best, key=lambda one: best[one])
            proof = next(search, None)
            if proof is None:
                del best[search]
                continue

            tried[search] += 1
            value = proof.variance(self.gram, self.epsilon)
            gained = best[search] == -inf or value > best[search] * (1 + _LEAST_GAIN)
            idle[search] = 0 if gained else idle[search] + 1
            best[search] = max(best[search], value)
            if idle[search] >= _PATIENCE:
                del best[search]

            yield value, replace(proof, cells=self.cells)


def _favoured(chances: FloatArray, epsilon: float) -> BoolArray:
    """The set that each report of a two-valued strategy is likelier in."""
    return np.asarray(chances > chances.min(axis=1)[:, None] * exp(epsilon / 2))


def _sets(strategy: IndexStrategy) -> BoolArray:
    """Sets that a strategy reports, up to translations; none where they are too many to list."""
    if isinstance(strategy, OrbitStrategy):
        return strategy.representatives()
    if strategy.outputs > MOST_REPORTS:
        return np.zeros((0, strategy.size), dtype=bool)
    return _favoured(strategy.dense(), strategy.epsilon)
