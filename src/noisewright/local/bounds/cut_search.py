"""The search for a proof by cuts: the joint problem, and cuts that its moments violate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.local.bounds.cut_block import CutBlock, Cuts
from noisewright.local.bounds.cut_proof import CutProof
from noisewright.local.bounds.joint_problem import JointProblem, Reports, Start, split_phi
from noisewright.local.strategy import IntArray
from noisewright.workload.base import FloatArray

_FIRST_PROOF, _LATER_PROOFS = 60, 40
_FIRST_CUTS, _CUT_EVERY = 40, 30
_FINISHING, _LATER_FINISHING, _LOOK_EVERY = 100, 30, 25
_ROOMS = (4e-3, 1e-3)  # shares by which prices rise, so that the multipliers have room
_SEEN = 1e-3  # cells that hardly any report favours are scaled like this one
_STARTS, _MOST_CUTS, _FRESH = 1200, 600, 120
_LEAST_BREACH = 2e-3
_IDLE = 1e-6


@dataclass(eq=False)
class CutSearch:
    """A search from a strategy; `proofs` yields better and better ones."""

    gram: FloatArray
    epsilon: float
    reports: Reports

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.block = self._block()
        start = Start.of(self.gram, self.epsilon, self.reports, self.block.folding)
        self.problem = JointProblem.of(start, self.block, self.reports.prior)

    def _block(self) -> CutBlock:
        """A block whose multipliers are the moments of the strategy's reports."""
        slope, x = expm1(self.epsilon), self.reports.patterns.astype(np.float64)
        shares = self.reports.weights / (1.0 + slope * (x @ self.reports.prior))
        scale = np.sqrt(np.maximum(shares @ x / shares.sum(), _SEEN))
        y = np.column_stack([np.ones(len(x)), x / scale])
        return CutBlock(slope, scale, (y * shares[:, None]).T @ y)

    def proofs(self, rounds: int) -> Iterator[CutProof]:
        """The proof at hand, after more and more steps each."""
        for shown in range(rounds):
            for _ in range(_FIRST_PROOF + shown * _LATER_PROOFS):
                self.problem.step()
                steps = self.problem.steps
                if steps >= _FIRST_CUTS and steps % _CUT_EVERY == 0:
                    self._cut()
            finishing = _FINISHING + shown * _LATER_FINISHING
            yield self._proof(_ROOMS[shown % len(_ROOMS)], finishing)

    def _cut(self) -> None:
        """Let go of cuts that carry nothing, and take those that the moments violate most."""
        cuts = self.block.cuts
        carrying = np.argsort(-cuts.weights)[:_MOST_CUTS]
        carrying = carrying[cuts.weights[carrying] > _IDLE * cuts.weights.max(initial=0.0)]
        vectors, offsets = violated(*self.block.moments, self.rng)
        known = {tuple(row) for row in np.column_stack([cuts.vectors, cuts.offsets])[carrying]}
        rows = np.column_stack([vectors, offsets])
        fresh = [i for i, row in enumerate(rows) if tuple(row) not in known]
        fresh = fresh[: min(_FRESH, _MOST_CUTS + _FRESH - len(carrying))]
        self.block.cut_by(
            Cuts(
                np.concatenate([cuts.vectors[carrying], vectors[fresh]]),
                np.concatenate([cuts.offsets[carrying], offsets[fresh]]),
                np.concatenate([cuts.weights[carrying], np.zeros(len(fresh))]),
            )
        )

    def _proof(self, room: float, finishing: int) -> CutProof:
        """What the present Φ proves with dearer prices, once the multipliers have settled."""
        prior, block, scale = self.reports.prior, self.block.copy(), self.block.scale
        factor, prices = split_phi(self.problem.plain_phi, prior, block.folding)
        prices = prices + room * float(np.abs(prices).sum()) / len(prior)
        phi = factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
        image = block.forward(phi * np.outer(scale, scale))
        best: tuple[float, CutProof] | None = None
        for step in range(1, finishing + 1):
            block.push(image + block.settle(image))
            if step % _LOOK_EVERY and step < finishing:
                continue
            proof = self._stated(factor, prices, block)
            short = proof.rise(self.epsilon)
            if best is None or short < best[0]:
                best = short, proof
            if short == 0.0:
                break
        assert best is not None
        return best[1]

    def _stated(self, factor: FloatArray, prices: FloatArray, block: CutBlock) -> CutProof:
        """The proof that these multipliers are."""
        prior, scale = self.reports.prior, block.scale
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


def violated(
    mean: FloatArray, covariance: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Whole vectors b with Var(bᵀx) < f(1 − f), f the fractional part of the mean of bᵀx.

    No x of zeros and ones has such moments. The vectors are found by changes of one entry by one,
    from sparse ones and from directions of little variance; c is the whole part of the mean.
    """
    b = _starts(len(mean), covariance, rng)
    worth = _descended(b, mean, covariance)
    leading = b[np.arange(len(b)), np.argmax(b != 0, axis=1)]
    whole, first = np.unique(
        np.where(leading[:, None] < 0, -b, b).astype(np.int64), axis=0, return_index=True
    )
    order = np.argsort(worth[first])
    order = order[worth[first][order] < -_LEAST_BREACH]
    whole = whole[order]
    return whole, np.floor(whole @ mean).astype(np.int64)


def _starts(n: int, covariance: FloatArray, rng: np.random.Generator) -> FloatArray:
    filled = rng.random((_STARTS, n)) < rng.choice([2.0, 3.0, 4.0, 6.0, 8.0], (_STARTS, 1)) / n
    sparse = np.where(filled, rng.choice([-1.0, 1.0], (_STARTS, n)), 0.0)
    flat = np.linalg.eigh(covariance)[1][:, : max(n // 2, 1)]
    draws = rng.standard_normal((_STARTS // 2, flat.shape[1])) @ flat.T
    draws *= rng.uniform(0.7, 2.0, (len(draws), 1)) / np.abs(draws).max(axis=1, keepdims=True)
    return np.concatenate([sparse, np.rint(draws)])


def _excess_variance(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Var − f(1 − f): negative where no whole number has this variance and mean."""
    part = mean - np.floor(mean)
    return np.asarray(variance - part * (1 - part))


def _descended(b: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Change the best entry of each row by one, in place, until none is better; their worths."""
    n, rows = len(mean), np.arange(len(b))
    pulled, middle, diagonal = b @ covariance, b @ mean, np.diagonal(covariance)
    spread = np.einsum("bi,bi->b", pulled, b)
    worth = _excess_variance(spread, middle)
    for _ in range(3 * n):
        spreads = [spread[:, None] + sign * 2 * pulled + diagonal for sign in (1, -1)]
        middles = [middle[:, None] + sign * mean for sign in (1, -1)]
        both = _excess_variance(np.hstack(spreads), np.hstack(middles))
        choice = both.argmin(axis=1)
        falling = np.flatnonzero(both[rows, choice] < worth - 1e-9)
        if not len(falling):
            break
        choice = choice[falling]
        sign, cell = np.where(choice < n, 1.0, -1.0), choice % n
        worth[falling] = both[falling, choice]
        spread[falling] += 2 * sign * pulled[falling, cell] + diagonal[cell]
        middle[falling] += sign * mean[cell]
        pulled[falling] += sign[:, None] * covariance[cell]
        b[falling, cell] += sign
    return worth
