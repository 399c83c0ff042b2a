"""The search for a proof by cuts: the joint problem, and cuts that its moments violate.

A cut b takes off the more of a relaxation the further its moments are beyond it, as a distance
between matrices: by (f(1 − f) − Var bᵀx)/‖b‖², about, f the fractional part of the mean of bᵀx. So
sparse vectors come first; cuts with many entries say much less for the same breach, and hold up
those who weigh them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.cuts.block import CutBlock, weighing
from noisewright.local.bounds.cuts.proof import CutProof
from noisewright.local.bounds.folding import Folding
from noisewright.local.bounds.joint_problem import JointProblem
from noisewright.local.bounds.proof_search import ProofSearch
from noisewright.local.bounds.start import Start, phi_of, split_phi
from noisewright.local.work import touched

_FIRST_CUTS = 30  # steps before: the first moments are the strategy's, and violate none
_CUT_EVERY = 30  # steps: 15 and 60 prove as much
_UNCUT = 40  # last steps before a proof, in which no cut joins: 20 and 80 prove as much
_FINISHING = 100  # steps of a block with Φ fixed, at the most: 50 and 200 prove as much
_LOOK_EVERY = 20  # of these: 10 and 40 prove as much
_MARGIN = 4e-3
"""Share by which prices rise at first, so that the multipliers have room: twice as much proves
0.2 % less after two proofs, and half as much 0.1 % more."""

_LEAST_MARGIN = 5e-5  # where multipliers settle no closer
_CLOSER = 0.5  # a margin that was plenty shrinks by this, one that was not grows by it
_SELDOM = 1e-3  # cells that hardly any report favours are scaled like this one
_MOST_CUTS = 700  # whose products are inverted: 350 prove as much at 16 and 64 cells
_MOST_NEW = 150  # cuts that join at once: 300 lose the floor of prefix:16 at ε = 4
_MOST_IDLE = 4  # looks without a weight after which a cut goes: 2 and 8 prove as much

_STARTS = 2000  # of a search for cuts: half as many prove as much
_ENTRIES = (
    2.0,
    3.0,
    4.0,
    6.0,
    8.0,
)  # mean numbers of them in a start: all twos prove as much
_LEAST_BREACH = 1e-3  # ten times more loses little, ten times less gains nothing
_LEAST_GAIN = 1e-6  # of a change in depth: below it is rounding
_CONSTANT = 2.0  # added to ‖b‖²: a cut has a constant too
_CHANGES = 6  # of a vector in the mean: for counting operations
_PASSES = 30  # over all neighbours of a vector, for a change


@dataclass(eq=False)
class CutSearch(ProofSearch[CutProof]):
    """A search from a strategy, by one block for sets of all sizes."""

    first_proof = 120
    later_proofs = 60

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.margin = _MARGIN
        self.block = self._block()
        start = Start.of(self.gram, self.epsilon, self.reports, self.block.folding)
        self.problem = JointProblem.of(start, self.block, self.reports.prior)

    def _block(self) -> CutBlock:
        """A block whose multipliers are the moments of the strategy's reports."""
        slope = expm1(self.epsilon)
        x = self.reports.patterns.astype(np.float64)
        shares = self.reports.weights / (1.0 + slope * (x @ self.reports.prior))
        scale = np.sqrt(np.maximum(shares @ x / shares.sum(), _SELDOM))
        y = np.column_stack([np.ones(len(x)), x / scale])
        moments = (y * shares[:, None]).T @ y
        return CutBlock(slope, scale, Folding.none(len(scale)), moments)

    def follow(self, left: int) -> None:
        """New cuts from time to time."""
        steps = self.problem.steps
        if left > _UNCUT and steps >= _FIRST_CUTS and steps % _CUT_EVERY == 0:
            self._cut()

    def _cut(self) -> None:
        """Let go of cuts that have long carried nothing, and take the deepest that are violated."""
        cuts = self.block.cuts.seen()
        used = np.flatnonzero(cuts.idle < _MOST_IDLE)
        heaviest = np.argsort(-cuts.weights[used], kind="stable")[:_MOST_CUTS]
        cuts = cuts.only(np.sort(used[heaviest]))

        self.work.add(finding(len(self.gram)))
        vectors, offsets = violated(*self.block.moments, self.rng)
        known = {row.tobytes() for row in np.column_stack([cuts.vectors, cuts.offsets])}
        rows = np.column_stack([vectors, offsets])
        new = [i for i, row in enumerate(rows) if row.tobytes() not in known]
        new = new[:_MOST_NEW]
        self.block.cut_by(cuts.joined(vectors[new], offsets[new]))
        self.work.add(weighing(len(self.block.cuts), len(self.gram)))

    def proof(self) -> CutProof:
        """What the present Φ proves with dearer prices, once the multipliers have settled."""
        self.work.add(_FINISHING * self.block.operations)
        prior = self.reports.prior
        block = self.block.copy()
        factor, prices = split_phi(self.problem.plain_phi, prior, block.folding)
        size = float(np.abs(prices).sum())
        prices = prices + self.margin * size / len(prior)
        phi = phi_of(factor, prices, prior)
        image = block.forward(phi * np.outer(block.scale, block.scale))
        least = np.inf

        for step in range(1, _FINISHING + 1):
            block.dual_step(image + block.slack_step(image))
            if step % _LOOK_EVERY:
                continue
            proof = self._stated(factor, prices, block)
            rise = proof.rise(self.epsilon)
            if step == _LOOK_EVERY or rise < least:
                least = rise
                best = proof
            if rise == 0.0:
                break

        plenty = least / size < self.margin
        closer = max(self.margin * _CLOSER, _LEAST_MARGIN)
        self.margin = closer if plenty else self.margin / _CLOSER
        return best

    def _stated(
        self, factor: FloatArray, prices: FloatArray, block: CutBlock
    ) -> CutProof:
        """The proof that these multipliers are."""
        n = len(prices)
        cuts = block.cuts.only(np.flatnonzero(block.cuts.weights > 0))
        excess = block.excess[1:, 1:] / np.outer(block.scale, block.scale)
        mean, _ = self.block.moments
        return CutProof(
            cells=np.arange(n, dtype=np.int64),
            prior=self.reports.prior,
            factor=factor,
            prices=prices,
            squares=block.squares.copy(),
            pairs=excess[np.triu_indices(n)].astype(np.float32),
            vectors=cuts.vectors,
            offsets=cuts.offsets,
            weights=cuts.weights,
            centre=np.clip(mean, _SELDOM, 1 - _SELDOM),
        )


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
    shape = _STARTS, len(mean)
    filled = rng.random(shape) < rng.choice(_ENTRIES, (_STARTS, 1)) / len(mean)
    starts = np.where(filled, rng.choice([-1.0, 1.0], shape), 0.0)
    b = _Descent.of(starts, mean, covariance).ends()

    # A single cell's cut is zero for every set, and b and −b are one cut.
    b = b[np.abs(b).sum(axis=1) > 1]
    leading = b[np.arange(len(b)), np.argmax(b != 0, axis=1)]
    b = np.unique(np.where(leading[:, None] < 0, -b, b), axis=0)

    breach = -_excess(np.einsum("bi,bi->b", b @ covariance, b), b @ mean)
    deep = breach > _LEAST_BREACH
    b = b[deep]
    depth = breach[deep] / (np.square(b).sum(axis=1) + _CONSTANT)
    whole = b[np.argsort(-depth)].astype(np.int64)
    return whole, np.floor(whole @ mean).astype(np.int64)


def _excess(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Var − f(1 − f): negative where no whole number has this variance and mean."""
    part = mean - np.floor(mean)
    return np.asarray(variance - part * (1 - part))


@dataclass(eq=False)
class _Descent:
    """Vectors b that still change: the best entry of each by one, until none gets deeper."""

    mean: FloatArray
    covariance: FloatArray
    b: FloatArray
    covariances: FloatArray
    """Of bᵀx with every x_i; then mean and variance of bᵀx."""
    means: FloatArray
    variances: FloatArray
    squares: FloatArray
    """‖b‖² and a constant."""
    depths: FloatArray
    """(Var − f(1 − f))/‖b‖², the least being the deepest."""

    @classmethod
    def of(cls, b: FloatArray, mean: FloatArray, covariance: FloatArray) -> _Descent:
        """All vectors at their start."""
        covariances = b @ covariance
        means = b @ mean
        variances = np.einsum("bi,bi->b", covariances, b)
        squares = np.square(b).sum(axis=1) + _CONSTANT
        depths = _excess(variances, means) / squares
        return cls(mean, covariance, b, covariances, means, variances, squares, depths)

    def _changed_depths(self, sign: float) -> FloatArray:
        """What the depth of each becomes with an entry changed by `sign`, for every entry."""
        variances = 2 * sign * self.covariances
        variances += self.variances[:, None]
        variances += np.diagonal(self.covariance)
        squares = 2 * sign * self.b
        squares += self.squares[:, None] + 1.0
        depths = _excess(variances, self.means[:, None] + sign * self.mean)
        depths /= squares
        return depths

    def ends(self) -> FloatArray:
        """Where all of them end."""
        n = len(self.mean)
        ended = []
        for _ in range(3 * n):
            depths = np.hstack([self._changed_depths(1.0), self._changed_depths(-1.0)])
            choice = depths.argmin(axis=1)
            best = depths[np.arange(len(choice)), choice]
            falling = best < self.depths - _LEAST_GAIN
            ended.append(self.b[~falling])
            if not falling.any():
                break
            self._change(falling, choice[falling], best[falling])
        else:
            ended.append(self.b)

        return np.concatenate(ended)

    def _change(self, falling: BoolArray, choice: IntArray, depths: FloatArray) -> None:
        """Go on with those that fall, each by its best change."""
        n = len(self.mean)
        sign = np.where(choice < n, 1.0, -1.0)
        cell = choice % n
        row = np.arange(len(choice))
        b = self.b[falling]
        covariances = self.covariances[falling]
        variances = self.variances[falling] + 2 * sign * covariances[row, cell]
        self.variances = variances + np.diagonal(self.covariance)[cell]
        self.means = self.means[falling] + sign * self.mean[cell]
        self.squares = self.squares[falling] + 2 * sign * b[row, cell] + 1.0
        covariances += sign[:, None] * self.covariance[cell]
        b[row, cell] += sign
        self.b = b
        self.covariances = covariances
        self.depths = depths
