"""The search for a proof by cuts: the joint problem, and cuts that its moments violate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import expm1

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.cuts.block import CutBlock, weighing
from noisewright.local.bounds.cuts.proof import CutProof
from noisewright.local.bounds.joint_problem import (
    JointProblem,
    Reports,
    Start,
    split_phi,
)
from noisewright.local.work import Work, touched

_STARTS = 2000
_FILLED = (2.0, 3.0, 4.0, 6.0, 8.0)
_LEAST_BREACH = 1e-3
_LEAST_RISE = 1e-6
# of a vector in the mean, and over all its neighbours at each
_CHANGES = 6
_PASSES = 30
_SHIFT = 2.0  # a cut has a constant too


def finding(cells: int) -> float:
    """Operations of a search for cuts, about."""
    return _CHANGES * _PASSES * touched(2 * _STARTS * cells)


def violated(
    mean: FloatArray, covariance: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Whole vectors b with Var(bᵀx) < f(1 − f), f the fractional part of the mean of bᵀx.

    No x of zeros and ones has such moments. The deepest come first; c is the whole part of the
    mean.
    """
    n = len(mean)
    filled = rng.random((_STARTS, n)) < rng.choice(_FILLED, (_STARTS, 1)) / n
    starts = np.where(filled, rng.choice([-1.0, 1.0], (_STARTS, n)), 0.0)
    b = _Descent.of(starts, mean, covariance).ended()
    b = b[np.abs(b).sum(axis=1) > 1]  # a single cell's cut is zero for every set
    leading = b[np.arange(len(b)), np.argmax(b != 0, axis=1)]
    b = np.unique(np.where(leading[:, None] < 0, -b, b), axis=0)
    breach = -_excess(np.einsum("bi,bi->b", b @ covariance, b), b @ mean)
    b = b[breach > _LEAST_BREACH]
    breach = breach[breach > _LEAST_BREACH]
    depth = breach / (np.square(b).sum(axis=1) + _SHIFT)
    whole = b[np.argsort(-depth)].astype(np.int64)

    return whole, np.floor(whole @ mean).astype(np.int64)


def _excess(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Var − f(1 − f): negative where no whole number has this variance and mean."""
    part = mean - np.floor(mean)
    return variance - part * (1 - part)


class _Descent:
    """Vectors that still change: the best entry of each by one, until none gets deeper."""

    def __init__(
        self, mean: FloatArray, covariance: FloatArray, *parts: FloatArray
    ) -> None:
        self.mean = mean
        self.covariance = covariance
        self.b, self.pulled, self.middle, self.spread, self.squares, self.worth = parts

    @classmethod
    def of(cls, b: FloatArray, mean: FloatArray, covariance: FloatArray) -> _Descent:
        """All vectors at their start."""
        pulled = b @ covariance
        middle = b @ mean
        spread = np.einsum("bi,bi->b", pulled, b)
        squares = np.square(b).sum(axis=1) + _SHIFT
        worth = _excess(spread, middle) / squares
        return cls(mean, covariance, b, pulled, middle, spread, squares, worth)

    def _worths(self, sign: float) -> FloatArray:
        """What each becomes with an entry changed by `sign`, for every entry."""
        spread = 2 * sign * self.pulled
        spread += self.spread[:, None]
        spread += np.diagonal(self.covariance)
        squares = 2 * sign * self.b
        squares += self.squares[:, None] + 1.0
        worths = _excess(spread, self.middle[:, None] + sign * self.mean)
        worths /= squares

        return worths

    def ended(self) -> FloatArray:
        """Where all of them end."""
        n = len(self.mean)
        done = []
        for _ in range(3 * n):
            worths = np.hstack([self._worths(1.0), self._worths(-1.0)])
            choice = worths.argmin(axis=1)
            best = worths[np.arange(len(choice)), choice]
            falling = best < self.worth - _LEAST_RISE
            done.append(self.b[~falling])
            if not falling.any():
                break
            self._change(falling, choice[falling], best[falling])
        else:
            done.append(self.b)

        return np.concatenate(done)

    def _change(self, falling: FloatArray, choice: IntArray, worth: FloatArray) -> None:
        """Go on with those that fall, each by its best change."""
        n = len(self.mean)
        sign = np.where(choice < n, 1.0, -1.0)
        cell = choice % n
        row = np.arange(len(choice))
        b = self.b[falling]
        pulled = self.pulled[falling]
        self.spread = self.spread[falling] + 2 * sign * pulled[row, cell]
        self.spread += np.diagonal(self.covariance)[cell]
        self.middle = self.middle[falling] + sign * self.mean[cell]
        self.squares = self.squares[falling] + 2 * sign * b[row, cell] + 1.0
        pulled += sign[:, None] * self.covariance[cell]
        b[row, cell] += sign
        self.b = b
        self.pulled = pulled
        self.worth = worth


_FIRST_PROOF = 120
_LATER_PROOFS = 60
# the last steps before a proof take no more cuts
_FIRST_CUTS = 30
_CUT_EVERY = 30
_UNCUT = 40
_FINISHING = 100
_LOOK_EVERY = 20
_ROOM = 4e-3
_LEAST_ROOM = 5e-5
_CLOSER = 0.5
"""Shares by which prices rise, so that the multipliers have room: less where that was plenty."""
_SEEN = 1e-3  # cells that hardly any report favours are scaled like this one
_MOST_CUTS = 700
_FRESH = 150
_MOST_IDLE = 4


@dataclass(eq=False)
class CutSearch:
    """A search from a strategy; `proofs` yields better and better ones."""

    gram: FloatArray
    epsilon: float
    reports: Reports
    work: Work = field(default_factory=Work)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.block = self._block()
        start = Start.of(self.gram, self.epsilon, self.reports, self.block.folding)
        self.problem = JointProblem.of(start, self.block, self.reports.prior)

    def _block(self) -> CutBlock:
        """A block whose multipliers are the moments of the strategy's reports."""
        slope = expm1(self.epsilon)
        x = self.reports.patterns.astype(np.float64)
        shares = self.reports.weights / (1.0 + slope * (x @ self.reports.prior))
        scale = np.sqrt(np.maximum(shares @ x / shares.sum(), _SEEN))
        y = np.column_stack([np.ones(len(x)), x / scale])
        return CutBlock(slope, scale, (y * shares[:, None]).T @ y)

    def proofs(self, rounds: int) -> Iterator[CutProof]:
        """The proof at hand, after more and more steps each."""
        room = _ROOM
        for shown in range(rounds):
            steps = _FIRST_PROOF + shown * _LATER_PROOFS
            for left in range(steps, 0, -1):
                self.problem.step()
                self.work.add(self.problem.operations)
                at = self.problem.steps
                if left > _UNCUT and at >= _FIRST_CUTS and at % _CUT_EVERY == 0:
                    self._cut()

            self.work.add(_FINISHING * self.block.operations)
            proof, lacking = self._proof(room)
            room = (
                max(room * _CLOSER, _LEAST_ROOM) if lacking < room else room / _CLOSER
            )
            yield proof

    def _cut(self) -> None:
        """Let go of cuts that have long carried nothing, and take the deepest that are violated."""
        cuts = self.block.cuts.seen()
        kept = np.flatnonzero(cuts.idle < _MOST_IDLE)
        kept = np.sort(
            kept[np.argsort(-cuts.weights[kept], kind="stable")[:_MOST_CUTS]]
        )
        cuts = cuts.only(kept)
        self.work.add(finding(len(self.gram)))
        vectors, offsets = violated(*self.block.moments, self.rng)
        known = {row.tobytes() for row in np.column_stack([cuts.vectors, cuts.offsets])}
        rows = np.column_stack([vectors, offsets])
        fresh = [i for i, row in enumerate(rows) if row.tobytes() not in known][:_FRESH]
        self.block.cut_by(cuts.joined(vectors[fresh], offsets[fresh]))
        self.work.add(weighing(len(self.block.cuts), len(self.gram)))

    def _proof(self, room: float) -> tuple[CutProof, float]:
        """What the present Φ proves with dearer prices, once the multipliers have settled.

        Also by which share the check makes them dearer still.
        """
        prior = self.reports.prior
        block = self.block.copy()
        scale = self.block.scale
        factor, prices = split_phi(self.problem.plain_phi, prior, block.folding)
        unit = float(np.abs(prices).sum())
        prices = prices + room * unit / len(prior)
        phi = (
            factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
        )
        image = block.forward(phi * np.outer(scale, scale))
        best: tuple[float, CutProof] | None = None

        for step in range(1, _FINISHING + 1):
            block.push(image + block.settle(image))
            if step % _LOOK_EVERY:
                continue
            proof = self._stated(factor, prices, block)
            short = proof.rise(self.epsilon)
            if best is None or short < best[0]:
                best = short, proof
            if short == 0.0:
                break

        assert best is not None
        return best[1], best[0] / unit

    def _stated(
        self, factor: FloatArray, prices: FloatArray, block: CutBlock
    ) -> CutProof:
        """The proof that these multipliers are."""
        prior = self.reports.prior
        scale = block.scale
        carrying = block.cuts.weights > 0
        rows, columns = np.triu_indices(len(prior))
        pairs = (block.excess[1:, 1:] / np.outer(scale, scale))[rows, columns]
        centre = np.clip(self.block.moments[0], _SEEN, 1 - _SEEN)

        return CutProof(
            np.arange(len(prior), dtype=np.int64),
            prior,
            factor,
            prices,
            block.squares.copy(),
            pairs.astype(np.float32),
            block.cuts.vectors[carrying],
            block.cuts.offsets[carrying],
            block.cuts.weights[carrying],
            centre,
        )
