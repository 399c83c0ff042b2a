"""A strategy and a proof of how good it is, each found with the help of the other.

A search for a proof begins at a strategy's reports, and ends in a condition that is tight at the
reports a best strategy makes. So strategy and proof are improved in turn until they are near each
other or the work is done; whatever was best of each stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from noisewright.errors import NoisewrightError
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.proved import MOST_LISTED, proved_bound
from noisewright.local.bounds.tables.scheme import scheme_of
from noisewright.local.bounds.tables.search import TripleSearch
from noisewright.local.mechanism import Search
from noisewright.local.optimise.dense.growth import Growth
from noisewright.local.optimise.dense.pricing import EVERY_PATTERN
from noisewright.local.optimise.dense.refining import refined
from noisewright.local.optimise.kept import Cache, default_folder, fingerprint
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.proof_race import MOST_REPORTS, ProofRace
from noisewright.local.optimise.task import Task
from noisewright.local.strategy import IndexStrategy, Strategy
from noisewright.local.time_limit import TimeLimit
from noisewright.local.work import SECOND, Work
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

# Ratio at which strategy and proof are near enough unless told.
_TARGET = 1.005
_WORK = {
    "low": (0.0, 0.0),
    "normal": (24 * SECOND, 46 * SECOND),
    "high": (72 * SECOND, 230 * SECOND),
}
"""Operations by which both are looked for, on up to 64 cells and on more."""
# Cells up to which the smaller budget holds.
_FEW_CELLS = 64
_PROOF_SHARE, _STRATEGY_SHARE = 0.35, 0.3  # of the work left, turn by turn
_TURNS = 3  # of proof and strategy, while they gain
_LEAST_SHARE = 0.5  # of the work of a proof, without which the next would take too much
_LEAST_GAIN = 1e-3  # of a strategy, for more rounds to be worth their work
# and for its proof to be looked for anew: a search from nearly the same goes on
_ANEW = 1e-2


@dataclass(frozen=True)
class Kept:
    """What an earlier search for the same question found, where searches are kept."""

    task: Task
    workload: Workload
    question: str
    cache: Cache | None

    @classmethod
    def of(cls, workload: Workload, epsilon: float, search: Search) -> Kept:
        """The place of a question."""
        folder = default_folder() if search.cache is True else Path(str(search.cache))
        task = Task.of(workload, epsilon)
        steering = (
            epsilon,
            search.effort,
            int(search.seed),
            search.target_ratio,
            "proof",
        )
        question = fingerprint(table_gram(workload), *steering)

        return cls(task, workload, question, Cache(folder) if search.cache else None)

    def load(self, strategy: Strategy, floor: float) -> tuple[Strategy, Proof | None]:
        """The strategy, or the one kept if it is better; the proof kept, if it says more."""
        if self.cache is None:
            return strategy, None

        entry = self.cache.load(self.question)
        proof = self.cache.load_proof(self.question)
        value = None if entry is None else self.task.kept_value(entry[0])
        if (
            entry is not None
            and value is not None
            and value < self.task.value(strategy)
        ):
            strategy = entry[0]

        try:
            if proof is not None:
                bound = proved_bound(self.workload, self.task.epsilon, proof)
                proof = proof if bound.variance > floor else None
        except NoisewrightError:
            proof = None

        return strategy, proof

    def save(self, strategy: Strategy | None, proof: Proof | None) -> None:
        """Keep what is new."""
        if self.cache is not None and proof is not None:
            self.cache.save_proof(self.question, proof)
            if strategy is not None:
                self.cache.save(self.question, strategy, "optimised")


def proven(
    workload: Workload,
    strategy: Strategy,
    floor: float,
    effort: str,
    target: float | None = None,
    limit: TimeLimit | None = None,
    told: Callable[[float], None] | None = None,
) -> tuple[Strategy, Proof | None]:
    """The best strategy found, and the best proof if any proves more than a known floor.

    Stops where the strategy's variance is within `target` of the floor proved, where turns bring
    next to nothing, or after the effort's work or the time `limit`; an interruption keeps the best
    so far. `told` hears every ratio.
    """
    work = Work(_WORK[effort][workload.size > _FEW_CELLS])
    if work.over or not 2 < workload.size <= MOST_LISTED:
        return strategy, None
    if strategy.delta or not isinstance(strategy, IndexStrategy):
        return strategy, None

    gram = table_gram(workload)
    alike = TripleSearch.fits(scheme_of(gram))
    if not alike and (strategy.outputs > MOST_REPORTS or not strategy.two_valued):
        return strategy, None

    worst = strategy.worst_variance(gram)
    enough = target or _TARGET
    turns = 0 if alike or gram.size <= EVERY_PATTERN else _TURNS
    limit = limit or TimeLimit()
    pair = _Pair(
        gram, strategy, worst, max(floor, 0.0), enough, work, limit, turns, told
    )

    try:
        pair.improve()  # whatever ends it, what was found before stands
    except KeyboardInterrupt:
        limit.cut_short = True
    except (np.linalg.LinAlgError, NoisewrightError):
        pass

    return pair.strategy, pair.proof


@dataclass(eq=False)
class _Pair:
    """The best strategy and proof so far."""

    gram: Gram
    strategy: IndexStrategy
    worst: float
    floor: float
    enough: float
    work: Work
    limit: TimeLimit
    turns: int
    """How often the strategy is improved: not where it is the best already, or made of orbits."""
    told: Callable[[float], None] | None
    proof: Proof | None = None
    guide: Proof | None = None
    """The best proof found, which need not prove more than is known."""
    guided: float = -inf
    pace: float = 0.0
    """Operations that the last proof took: the next one takes no less."""
    pause: float = 0.0
    """Seconds that it took, which count where there is a time limit."""

    @property
    def done(self) -> bool:
        """Whether they are near each other, or too little is left for another proof."""
        near = self.worst <= self.enough * self.floor
        spent = self.work.left <= _LEAST_SHARE * self.pace
        return near or spent or self.limit.over(_LEAST_SHARE * self.pause)

    def improve(self) -> None:
        """Turn by turn: a proof, then the strategy, while that gains."""
        race = self._race()
        turns = self.turns
        while not self.done:
            ended = self._prove(race, _PROOF_SHARE if turns else 1.0)
            if self.done or (ended and not turns):
                return
            before = self.worst
            turns = turns - 1
            self._refine()
            if self.worst < before * (1 - _ANEW) and self.work.left > 2 * self.pace:
                race = self._race()
            elif ended:
                return
            elif self.worst > before * (1 - _LEAST_GAIN):
                turns = 0

    def _race(self) -> Iterator[tuple[float, Proof]]:
        return ProofRace.of(self.gram, self.strategy, self.work).proofs()

    def _prove(self, race: Iterator[tuple[float, Proof]], share: float) -> bool:
        """Go on with a search for a share of the work left; whether it ended by itself."""
        until = (1 - share) * self.work.left
        while not self.done and self.work.left > until:
            before = self.work.done
            begun = self.limit.seconds
            value, proof = next(race, (-inf, None))
            self.pace, self.pause = self.work.done - before, self.limit.seconds - begun
            if proof is None:
                return True
            if value > self.guided:
                self.guided = value
                self.guide = proof
            if value > self.floor:
                self.floor = value
                self.proof = proof
            self._tell()

        return False

    def _tell(self) -> None:
        if self.told is not None and self.floor > 0:
            self.told(self.worst / self.floor)

    def _refine(self) -> None:
        """Look for a better strategy where the proof is tight, some rounds at a time."""
        until = self.work.left * (1 - _STRATEGY_SHARE)
        while self.guide is not None and self.work.left > until and not self.done:
            effort = Growth(MOST_LISTED, self.work.left - until)
            control = Control(self.floor, self.limit, self.enough, work=self.work)
            better = refined(self.gram, self.strategy, self.guide, effort, control)
            earlier = self.worst
            after = better.worst_variance(self.gram)
            if after < earlier:
                self.strategy = better
                self.worst = after
                self._tell()
            if after > earlier * (1 - _LEAST_GAIN):
                return
