"""The search for a proof by cuts: the joint problem, and cuts that its moments violate."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, inf

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.cuts.block import CutBlock, cut_start_work
from noisewright.local.bounds.cuts.proof import CutProof
from noisewright.local.bounds.cuts.violated import cut_search_work, violated_cuts
from noisewright.local.bounds.folding import Folding
from noisewright.local.bounds.joint_problem import JointProblem
from noisewright.local.bounds.proof_search import ProofSearch
from noisewright.local.bounds.start import Start, phi_of, split_phi


@dataclass(frozen=True)
class Cutting:
    """When cuts join, and how many."""

    first: int = 30
    """Steps before: the first moments are the strategy's, and violate none."""
    every: int = 30
    """Steps between: 15 and 60 prove as much."""
    uncut: int = 40
    """Last steps before a proof, in which no cut joins: 20 and 80 prove as much."""
    most: int = 700
    """Whose products are inverted: 350 prove as much at 16 and 64 cells."""
    most_new: int = 150
    """That join at once: 300 lose the floor of prefix:16 at ε = 4."""
    most_idle: int = 4
    """Looks without a weight after which a cut goes: 2 and 8 prove as much."""


@dataclass(frozen=True)
class Finish:
    """How multipliers settle while Φ is fixed, under prices with a margin."""

    steps: int = 100
    """At the most: 50 and 200 prove as much."""
    look_every: int = 20
    """Steps between looks for a proof without fault: 10 and 40 prove as much."""
    margin: float = 4e-3
    """Share by which prices rise at first, so that the multipliers have room: twice as much proves
    0.2 % less after two proofs, and half as much 0.1 % more."""
    least_margin: float = 5e-5
    """Where multipliers settle no closer."""
    closer: float = 0.5
    """A margin that was plenty shrinks by this, one that was not grows by it."""


_CUTTING = Cutting()
_FINISH = Finish()

_SELDOM = 1e-3
"""Cells that hardly any report favours are scaled like one that this share does."""


@dataclass(eq=False)
class CutSearch(ProofSearch[CutProof]):
    """A search from a strategy, by one block for sets of all sizes."""

    first_proof = 120
    later_proofs = 60

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.margin = _FINISH.margin
        self.block = self._block()
        folding = self.block.folding
        start = Start.of(self.gram, self.epsilon, self.reports, folding)
        self.problem = JointProblem.of(start, self.block, self.reports.prior)

    def _block(self) -> CutBlock:
        """A block whose multipliers are the moments of the strategy's reports."""
        slope = expm1(self.epsilon)
        x = self.reports.patterns.astype(np.float64)
        mass = 1.0 + slope * (x @ self.reports.prior)
        shares = self.reports.weights / mass
        frequency = shares @ x / shares.sum()
        scale = np.sqrt(np.maximum(frequency, _SELDOM))

        y = np.column_stack([np.ones(len(x)), x / scale])
        moments = (y * shares[:, None]).T @ y
        return CutBlock(slope, scale, Folding.none(len(scale)), moments)

    def follow(self, left: int) -> None:
        """New cuts from time to time."""
        steps = self.problem.steps
        due = steps >= _CUTTING.first and steps % _CUTTING.every == 0
        if due and left > _CUTTING.uncut:
            self._cut()

    def _cut(self) -> None:
        """Let go of cuts that have long carried nothing, and take the deepest that are violated."""
        cuts = self.block.cuts.seen()
        used = np.flatnonzero(cuts.idle < _CUTTING.most_idle)
        heaviest = np.argsort(-cuts.weights[used], kind="stable")
        cuts = cuts.only(np.sort(used[heaviest[: _CUTTING.most]]))

        self.work.add(cut_search_work(len(self.gram)))
        vectors, offsets = violated_cuts(*self.block.moments, self.rng)
        known = _written(cuts.vectors, cuts.offsets)
        rows = _written(vectors, offsets)
        new = [place for row, place in rows.items() if row not in known]
        new = new[: _CUTTING.most_new]

        self.block.cut_by(cuts.joined(vectors[new], offsets[new]))
        self.work.add(cut_start_work(len(self.block.cuts), len(self.gram)))

    def proof(self) -> CutProof:
        """What the present Φ proves with dearer prices, once the multipliers have settled."""
        self.work.add(_FINISH.steps * self.block.operations)
        prior = self.reports.prior
        block = self.block.copy()
        factor, prices = split_phi(self.problem.plain_phi, prior, block.folding)
        size = float(np.abs(prices).sum())
        prices = prices + self.margin * size / len(prior)
        phi = phi_of(factor, prices, prior)
        image = block.forward(phi * block.scales)

        least = inf
        best = self._stated(factor, prices, block)
        for step in range(1, _FINISH.steps + 1):
            block.dual_step(image + block.slack_step(image))
            if step % _FINISH.look_every:
                continue
            proof = self._stated(factor, prices, block)
            rise = proof.rise(self.epsilon)
            if rise < least:
                least = rise
                best = proof
            if rise == 0.0:
                break

        self._adapt_margin(least / size)
        return best

    def _adapt_margin(self, needed: float) -> None:
        """Closer to what multipliers needed, from above."""
        if needed < self.margin:
            closer = self.margin * _FINISH.closer
            self.margin = max(closer, _FINISH.least_margin)
        else:
            self.margin /= _FINISH.closer

    def _stated(
        self,
        factor: FloatArray,
        prices: FloatArray,
        block: CutBlock,
    ) -> CutProof:
        """The proof that these multipliers are."""
        n = len(prices)
        cuts = block.cuts.only(np.flatnonzero(block.cuts.weights > 0))
        excess = block.excess[1:, 1:] / block.scales
        mean, _ = self.block.moments
        return CutProof(
            cells=np.arange(n, dtype=np.int64),
            prior=self.reports.prior,
            factor=factor,
            prices=prices,
            squares=block.squares,
            pairs=excess[np.triu_indices(n)].astype(np.float32),
            vectors=cuts.vectors,
            offsets=cuts.offsets,
            weights=cuts.weights,
            centre=np.clip(mean, _SELDOM, 1 - _SELDOM),
        )


def _written(vectors: IntArray, offsets: IntArray) -> dict[bytes, int]:
    """The places of cuts, by their numbers."""
    rows = np.column_stack([vectors, offsets])
    return {row.tobytes(): place for place, row in enumerate(rows)}
