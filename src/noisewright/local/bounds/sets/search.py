"""The search for a proof by set size: the joint problem at some of them, then all the others.

The multipliers of the condition are the moments of a strategy's reports, so that a good strategy
gives a good start. Whatever is found here is proved elsewhere (`set_proof.SetProof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import expm1, inf

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.folding import folding_of
from noisewright.local.bounds.joint_problem import (
    JointProblem,
    Reports,
    Roots,
    Start,
    split_phi,
)
from noisewright.local.bounds.sets.blocks import SetBlocks
from noisewright.local.bounds.sets.proof import LISTED, SetProof
from noisewright.local.work import Work, eigenvalues, product, touched

_ROOM = 3e-4  # share by which prices rise, so that most sizes have room
_FINISHING = 40
_LOOK_EVERY = 5
_ADDED_SIZES = 24
_ADDING = 3
_HALVINGS = 40
_BATCH = 2**20  # entries of matrices looked at together
_PASSES = 20  # over the entries of a matrix, where one size is looked at


@dataclass(frozen=True, eq=False)
class _Kept:
    """Multipliers of some sizes in the cells' own scale."""

    sizes: IntArray
    tilts: FloatArray
    excess: FloatArray

    def joined(self, other: _Kept) -> _Kept:
        sizes = np.concatenate([self.sizes, other.sizes])
        order = np.argsort(sizes)
        tilts = np.concatenate([self.tilts, other.tilts])[order]
        return _Kept(
            sizes[order], tilts, np.concatenate([self.excess, other.excess])[order]
        )


def completed(
    phi: FloatArray, prior: FloatArray, blocks: SetBlocks, order: IntArray | None = None
) -> SetProof:
    """The proof near Φ: blocks settle for good, and sizes that fail join them.

    `order` says which cells those of Φ are, where not all in their own order.
    """
    factor, prices = split_phi(phi, prior, blocks.folding)
    prices = _covering(factor, prices, prior, blocks.slope)
    prices = prices + _ROOM * float(prices.sum()) / len(prior)
    phi = factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    settled = blocks.only(
        (blocks.sizes > LISTED) | (blocks.sizes == blocks.sizes.max())
    )
    kept = _settled(settled, phi)

    for _ in range(_ADDING):
        failing = _failing(kept, phi, prior, blocks)
        if not failing:
            break
        kept = kept.joined(_settled(settled.between(failing), phi))

    back = np.arange(len(prior)) if order is None else np.argsort(order)
    rows, columns = np.triu_indices(len(prior))
    packed = kept.excess[:, back[rows], back[columns]].astype(np.float32)
    every = np.arange(len(prior), dtype=np.int64)

    return SetProof(
        every,
        prior[back],
        factor[back],
        prices[back],
        kept.sizes,
        kept.tilts[:, back],
        packed,
    )


def completing(blocks: SetBlocks, cells: int) -> float:
    """Operations of a proof that is completed, and of its check for every size, about."""
    check = (
        eigenvalues(cells)
        + product(cells, cells, cells) / 3
        + _PASSES * touched(cells**2)
    )
    looks = sum(map(eigenvalues, blocks.folding.sides)) + _PASSES * touched(cells**2)
    return _FINISHING * blocks.operations + cells * (check + _ADDING * looks)


def _covering(
    factor: FloatArray, prices: FloatArray, prior: FloatArray, slope: float
) -> FloatArray:
    """Prices raised, each for itself, until no set of up to three cells breaks the condition.

    Raising λ by z brings Σz + r·Σ_{i∈S} z_i, so that z_i = (c − Σz)/(r·d) does where c is the most
    that a set of d cells with i among them lacks. The least Σz is where both sides meet.
    """
    lacking = _lacking(factor, prices, prior, slope)

    def raised(total: float) -> FloatArray:
        parts = [(most - total) / (slope * d) for d, most in enumerate(lacking, 1)]
        return np.asarray(np.maximum(np.max(parts, axis=0), 0.0))

    low = 0.0
    high = max(float(np.max(lacking)), 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if raised(middle).sum() > middle else (low, middle)

    return prices + raised(high)


def _lacking(
    factor: FloatArray, prices: FloatArray, prior: FloatArray, slope: float
) -> list[FloatArray]:
    """For each cell, the most that a set of one, two or three cells lacks, it among them."""
    phi = factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    sums = phi.sum(axis=1)
    own = slope**2 * np.diagonal(phi) + 2 * slope * sums
    mass = slope * prior
    twice = 2 * slope**2 * phi
    whole = float(sums.sum())
    pairs = own[:, None] + own + twice
    masses = mass[:, None] + mass
    np.fill_diagonal(pairs, -np.inf)
    threes = []

    for i in range(len(prior)):
        sets = pairs + (whole + own[i]) + twice[i][:, None] + twice[i]
        sets[i] = sets[:, i] = -np.inf
        threes.append((sets / (1 + mass[i] + masses)).max())

    ones = (whole + own) / (1 + mass)
    twos = ((whole + pairs) / (1 + masses)).max(axis=1)
    return [ones, twos, np.array(threes)]


def _settled(blocks: SetBlocks, phi: FloatArray) -> _Kept:
    """ν and E after a number of steps with Φ fixed; sizes without fault stop moving."""
    sizes = blocks.sizes
    best = np.full(len(blocks.sizes), np.inf)
    tilts, excess = blocks.plain(phi)
    scaled = phi * np.outer(blocks.scale, blocks.scale)
    moving = np.arange(len(sizes))
    image = blocks.forward(scaled)

    for step in range(_FINISHING):
        left = image + blocks.settle(image)
        blocks.push(left)
        if step % _LOOK_EVERY < _LOOK_EVERY - 1:
            continue

        fresh_tilts, fresh_excess = blocks.plain(phi)
        tops = blocks.folding.largest(left - blocks.definite)
        better = tops < best[moving]
        best[moving[better]] = tops[better]
        tilts[moving[better]], excess[moving[better]] = (
            fresh_tilts[better],
            fresh_excess[better],
        )
        faulty = best[moving] > 0
        if not faulty.any():
            break

        blocks = blocks.only(faulty)
        moving = moving[faulty]
        image = image[faulty]

    return _Kept(sizes, tilts, excess)


def _failing(
    kept: _Kept, phi: FloatArray, prior: FloatArray, blocks: SetBlocks
) -> list[int]:
    """Sizes that need dearer prices than those looked after, the worst first, not all at once."""
    n = len(prior)
    slope = blocks.slope
    sizes = np.arange(LISTED + 1, n)
    if not len(sizes):
        return []

    tops = np.concatenate(
        [
            _tops(kept, some, phi, blocks)
            for some in np.array_split(sizes, max(n**3 // _BATCH, 1))
            if len(some)
        ]
    )
    least = 1 + slope * np.cumsum(np.sort(prior))
    shortfall = np.maximum(sizes * tops, 0.0) / (
        (1 + slope * sizes / n) * least[sizes - 1]
    )
    own = np.isin(sizes, kept.sizes)
    allowed = shortfall[own].max(initial=0.0)
    failing = sizes[~own & (shortfall > allowed)]
    worst = failing[np.argsort(-shortfall[failing - LISTED - 1])]

    return [int(d) for d in worst[:: max(1, len(worst) // _ADDED_SIZES)][:_ADDED_SIZES]]


def _tops(
    kept: _Kept, sizes: IntArray, phi: FloatArray, blocks: SetBlocks
) -> FloatArray:
    """Largest eigenvalues of the matrices of these sizes, multipliers on lines between sizes."""
    after = np.clip(np.searchsorted(kept.sizes, sizes), 0, len(kept.sizes) - 1)
    before = np.maximum(np.searchsorted(kept.sizes, sizes) - 1, 0)
    gap = kept.sizes[after] - kept.sizes[before]
    share = np.where(gap > 0, (sizes - kept.sizes[before]) / np.maximum(gap, 1), 0.0)[
        :, None
    ]
    tilt = (1 - share) * kept.tilts[before] + share * kept.tilts[after]
    r = blocks.slope
    sums = phi.sum(axis=1)
    d = sizes[:, None]
    g = (1 - share[..., None]) * kept.excess[before] + share[..., None] * kept.excess[
        after
    ]
    g += r * r * phi
    g += tilt[:, :, None] / 2
    g += tilt[:, None, :] / 2
    cells = np.arange(len(phi))
    g[:, cells, cells] += 2 * r * sums + float(sums.sum()) / d - d * tilt

    return blocks.folding.largest(g)


_MOST_SIZES = 13
_LEAST_USED = 5e-3
# looking after all sizes takes as long as some steps
_FIRST_PROOF = 50
_LATER_PROOFS = 25
_SCALES = 0.1, 10.0
# steps: before, relaxed reports say too little about types
_FIRST_PRIOR = 75
_PRIOR_EVERY = 25
_LONGEST_PACE = 0.6
_SHORTER = 0.5
_LONGER = 1.1
_LARGEST_STEP = 0.5
_LEAST_SHARE = 0.1


@dataclass(eq=False)
class SetSearch:
    """A search from a strategy; `proofs` yields better and better ones."""

    gram: FloatArray
    epsilon: float
    reports: Reports
    work: Work = field(default_factory=Work)

    def __post_init__(self) -> None:
        self.order, self.folding = folding_of(self.gram)
        self.gram = self.gram[np.ix_(self.order, self.order)]
        prior = self.folding.averaged(self.reports.prior[self.order])
        patterns = self.reports.patterns[:, self.order]
        self.reports = Reports(patterns, self.reports.weights, prior)
        start = Start.of(self.gram, self.epsilon, self.reports, self.folding)
        self.gram, self.roots = start.gram, start.roots
        self.blocks = self._blocks()
        self.problem = JointProblem.of(start, self.blocks, self.reports.prior)
        self.pace = _LONGEST_PACE
        self.spread = inf

    def _blocks(self) -> SetBlocks:
        """Blocks whose multipliers are the moments of the strategy's reports."""
        slope = expm1(self.epsilon)
        prior = self.reports.prior
        n = len(prior)
        counts = self.reports.patterns.sum(axis=1)
        some = counts > 0
        x = self.reports.patterns[some]
        weights = self.reports.weights[some]
        counts = counts[some]
        mass = 1.0 + slope * (x @ prior)
        even = 1 + slope * counts / n
        shares = weights * even**2 / (mass * counts)
        diagonal = shares @ x
        scale = np.clip(np.sqrt(diagonal / diagonal.mean()), *_SCALES)
        scale = self.folding.averaged(scale)
        sizes = _sizes(counts, weights * mass, n)
        blocks = SetBlocks.of(sizes, slope, scale, self.folding)
        nearest = np.abs(np.log(counts)[:, None] - np.log(blocks.sizes)).argmin(axis=1)

        for block in range(len(blocks.sizes)):
            rows = x[nearest == block] / scale
            moments = (rows * shares[nearest == block, None]).T @ rows
            blocks.duals[block] = self.folding.averaged(moments)

        return blocks

    def proofs(self, rounds: int) -> Iterator[SetProof]:
        """The proof at hand, after more and more steps each."""
        for shown in range(rounds):
            for _ in range(_FIRST_PROOF + shown * _LATER_PROOFS):
                self.problem.step()
                self.work.add(self.problem.operations)
                steps = self.problem.steps
                if steps >= _FIRST_PRIOR and steps % _PRIOR_EVERY == 0:
                    self._follow()
            self.work.add(completing(self.blocks, len(self.gram)))
            yield completed(
                self.problem.plain_phi, self.reports.prior, self.blocks, self.order
            )

    def _follow(self) -> None:
        """Move the prior to types that would raise the floor, as far as Φ can be kept.

        Steps shorten where types get less even by them: at little privacy a small change of the
        prior is a large one of the variances.
        """
        prior = self.reports.prior
        variances = self.problem.type_variances(self.roots, prior)
        mean = float(prior @ variances)
        second = mean + float(prior @ np.diagonal(self.roots.centred))
        uneven = (variances - mean) / second
        spread = float(prior @ np.abs(uneven))
        self.pace *= _SHORTER if spread > self.spread else _LONGER
        self.pace, self.spread = min(self.pace, _LONGEST_PACE), spread

        for step in (self.pace, self.pace / 4):
            moved = prior * np.exp(
                np.clip(step * uneven, -_LARGEST_STEP, _LARGEST_STEP)
            )
            moved = np.maximum(
                moved / moved.sum(), min(_LEAST_SHARE / len(prior), prior.min())
            )
            moved = self.folding.averaged(moved / moved.sum())
            roots = Roots.of(self.gram, moved, self.folding)
            if self.problem.centre(roots, moved):
                self.roots, self.reports = roots, replace(self.reports, prior=moved)
                return


def _sizes(counts: FloatArray, mass: FloatArray, n: int) -> list[int]:
    """Set sizes to look after: those that the strategy uses, and coarsely all the others."""
    shares = np.bincount(counts.astype(int), mass, minlength=n + 1)
    used = np.flatnonzero(shares > _LEAST_USED * shares.sum())
    low = max(1, int(used.min()) - 1)
    high = min(n - 1, int(used.max()) + 1)
    spaced = np.geomspace(low, high, min(_MOST_SIZES, high - low + 1))
    sizes = set(np.rint(spaced).astype(int)) | {min(high * 10 // 7, n - 1)}
    sizes |= {1, min(2, n - 1)}

    while high < n / 2:
        high = 2 * high
        sizes.add(min(high, n - 1))

    while low > 1:
        low = low * 2 // 3
        sizes.add(max(low, 1))

    return sorted(int(d) for d in sizes)
