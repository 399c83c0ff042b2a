"""The search for a proof by set size: the joint problem at some of them, then all the others.

The multipliers of the condition are the moments of a strategy's reports, so that a good strategy
gives a good start. A proof is completed from Φ: Z made definite, prices with a little margin,
multipliers for all set sizes. Whatever is found here is proved elsewhere (`sets.proof.SetProof`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import expm1, inf
from typing import NamedTuple

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.folding import folding_of
from noisewright.local.bounds.joint_problem import JointProblem
from noisewright.local.bounds.proof_search import ProofSearch
from noisewright.local.bounds.sets.blocks import SetBlocks
from noisewright.local.bounds.sets.proof import LISTED, SetProof
from noisewright.local.bounds.start import Roots, Start, phi_of, split_phi
from noisewright.local.work import eigenvalues, product, touched

_MOST_SIZES = (
    13  # between the least and the largest that a strategy uses: 7 and 26 prove as much
)
_LEAST_USED = (
    5e-3  # share of people who report sets of a size, for that size to be used
)
_SCALES = 0.1, 10.0  # of rare and of frequent cells: wider and narrower prove as much

# The prior follows the types that would raise the floor.
_FIRST_PRIOR = 75  # steps: before, relaxed reports say too little about types
_PRIOR_EVERY = 25  # steps: 12 and 50 prove as much
_LONGEST_PACE = 0.6  # of the logarithm of the prior: half or double proves as much
_SHORTER = 0.5  # by which the pace falls where types got less even
_LONGER = 1.1  # by which it grows where they did not
_LARGEST_STEP = 0.5  # in the logarithm of one type's share
_LEAST_SHARE = (
    0.1  # of an even one: what is left of a condition costs more the lighter a cell is
)

# A proof completed from Φ.
_MARGIN = (
    3e-4  # share by which prices rise: at 1e-3 prefix:16 proves 12 % less at ε = 4
)
_FINISHING = 40  # steps with Φ fixed: 20 prove 12 % less there, 80 prove 6 % more
_LOOK_EVERY = 5  # of these: 10 prove as much
_ADDED_SIZES = 24  # that join at once: 12 and 48 prove as much
_ADDING = 3  # times that sizes join: one was enough on 16 and 64 cells
_HALVINGS = 40  # of the sum by which prices rise: 20 leave six digits of it
_BATCH = 2**20  # entries of matrices looked at together
_PASSES = 20  # over the entries of a matrix, where one size is looked at


@dataclass(eq=False)
class SetSearch(ProofSearch[SetProof]):
    """A search from a strategy, by blocks for some set sizes."""

    first_proof = 50
    later_proofs = 25

    def __post_init__(self) -> None:
        self.order, self.folding = folding_of(self.gram)
        self.gram = self.gram[np.ix_(self.order, self.order)]
        self.reports = replace(
            self.reports,
            patterns=self.reports.patterns[:, self.order],
            prior=self.folding.averaged(self.reports.prior[self.order]),
        )
        start = Start.of(self.gram, self.epsilon, self.reports, self.folding)
        self.gram = start.gram
        self.roots = start.roots
        self.blocks = self._blocks()
        self.problem = JointProblem.of(start, self.blocks, self.reports.prior)
        self.pace = _LONGEST_PACE
        self.unevenness = inf

    def _blocks(self) -> SetBlocks:
        """Blocks whose multipliers are the moments of the strategy's reports."""
        slope = expm1(self.epsilon)
        prior = self.reports.prior
        n = len(prior)
        counts = self.reports.patterns.sum(axis=1)
        some = counts > 0
        counts = counts[some]
        x = self.reports.patterns[some]
        weights = self.reports.weights[some]
        mass = 1.0 + slope * (x @ prior)
        lengths = 1 + slope * counts / n
        shares = weights * lengths**2 / (mass * counts)

        diagonal = shares @ x
        scale = np.clip(np.sqrt(diagonal / diagonal.mean()), *_SCALES)
        scale = self.folding.averaged(scale)
        sizes = _sizes(counts, weights * mass, n)
        blocks = SetBlocks.of(sizes, slope, scale, self.folding)

        distances = np.abs(np.log(counts)[:, None] - np.log(blocks.sizes))
        nearest = distances.argmin(axis=1)
        for block in range(len(blocks.sizes)):
            rows = x[nearest == block] / scale
            moments = (rows * shares[nearest == block, None]).T @ rows
            blocks.duals[block] = self.folding.averaged(moments)

        return blocks

    def follow(self, left: int) -> None:
        """Another prior from time to time."""
        steps = self.problem.steps
        if steps >= _FIRST_PRIOR and steps % _PRIOR_EVERY == 0:
            self._follow()

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
        unevenness = float(prior @ np.abs(uneven))
        pace = self.pace * (_SHORTER if unevenness > self.unevenness else _LONGER)
        self.pace = min(pace, _LONGEST_PACE)
        self.unevenness = unevenness

        for step in (self.pace, self.pace / 4):
            logs = np.clip(step * uneven, -_LARGEST_STEP, _LARGEST_STEP)
            moved = prior * np.exp(logs)
            least = min(_LEAST_SHARE / len(prior), prior.min())
            moved = np.maximum(moved / moved.sum(), least)
            moved = self.folding.averaged(moved / moved.sum())
            roots = Roots.of(self.gram, moved, self.folding)
            if self.problem.centre(roots, moved):
                self.roots = roots
                self.reports = replace(self.reports, prior=moved)
                return

    def proof(self) -> SetProof:
        """What the present Φ proves, completed for all set sizes."""
        self.work.add(completing(self.blocks, len(self.gram)))
        phi = self.problem.plain_phi
        return completed(phi, self.reports.prior, self.blocks, self.order)


def _sizes(counts: FloatArray, mass: FloatArray, n: int) -> list[int]:
    """Set sizes to look after: those that the strategy uses, and coarsely all the others."""
    shares = np.bincount(counts.astype(int), mass, minlength=n + 1)
    used = np.flatnonzero(shares > _LEAST_USED * shares.sum())
    low = max(1, int(used.min()) - 1)
    high = min(n - 1, int(used.max()) + 1)
    spaced = np.geomspace(low, high, min(_MOST_SIZES, high - low + 1))
    sizes = {1, min(2, n - 1), min(high * 10 // 7, n - 1)}
    sizes |= set(np.rint(spaced).astype(int).tolist())

    while high < n / 2:
        high = 2 * high
        sizes.add(min(high, n - 1))

    while low > 1:
        low = low * 2 // 3
        sizes.add(max(low, 1))

    return sorted(sizes)


# --- from Φ to a proof --------------------------------------------------------------------------


class _Multipliers(NamedTuple):
    """ν and E of some sizes in the cells' own scale."""

    sizes: IntArray
    tilts: FloatArray
    excess: FloatArray

    def joined(self, other: _Multipliers) -> _Multipliers:
        """Those of both, by size."""
        sizes = np.concatenate([self.sizes, other.sizes])
        tilts = np.concatenate([self.tilts, other.tilts])
        excess = np.concatenate([self.excess, other.excess])
        order = np.argsort(sizes)
        return _Multipliers(sizes[order], tilts[order], excess[order])


def completed(
    phi: FloatArray, prior: FloatArray, blocks: SetBlocks, order: IntArray
) -> SetProof:
    """The proof near Φ: multipliers settle for good, and sizes that fail join them.

    `order` says which cells those of Φ are.
    """
    n = len(prior)
    factor, prices = split_phi(phi, prior, blocks.folding)
    prices = _covering(factor, prices, prior, blocks.slope)
    prices = prices + _MARGIN * float(prices.sum()) / n
    phi = phi_of(factor, prices, prior)

    last = blocks.sizes == blocks.sizes.max()
    settled = blocks.only((blocks.sizes > LISTED) | last)
    multipliers = _settled(settled, phi)
    for _ in range(_ADDING):
        failing = _failing(multipliers, phi, prior, blocks)
        if not failing:
            break
        multipliers = multipliers.joined(_settled(settled.between(failing), phi))

    back = np.argsort(order)
    rows, columns = np.triu_indices(n)
    packed = multipliers.excess[:, back[rows], back[columns]]
    return SetProof(
        cells=np.arange(n, dtype=np.int64),
        prior=prior[back],
        factor=factor[back],
        prices=prices[back],
        sizes=multipliers.sizes,
        tilts=multipliers.tilts[:, back],
        excess=packed.astype(np.float32),
    )


def completing(blocks: SetBlocks, cells: int) -> float:
    """Operations of a proof that is completed, and of its check for every size, about."""
    passes = _PASSES * touched(cells**2)
    check = eigenvalues(cells) + product(cells, cells, cells) / 3 + passes
    looks = sum(map(eigenvalues, blocks.folding.sides)) + passes
    return _FINISHING * blocks.operations + cells * (check + _ADDING * looks)


def _covering(
    factor: FloatArray, prices: FloatArray, prior: FloatArray, slope: float
) -> FloatArray:
    """Prices raised, each for itself, until no set of up to three cells breaks the condition.

    Raising λ by z brings Σz + r·Σ_{i∈S} z_i, so that z_i = (c − Σz)/(r·d) does where c is the most
    that a set of d cells with i among them lacks. The least Σz is where both sides meet.
    """
    shortfalls = _shortfalls(phi_of(factor, prices, prior), prior, slope)

    def raised(total: float) -> FloatArray:
        parts = [(most - total) / (slope * d) for d, most in enumerate(shortfalls, 1)]
        return np.asarray(np.maximum(np.max(parts, axis=0), 0.0))

    low = 0.0
    high = max(float(np.max(shortfalls)), 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if raised(middle).sum() > middle:
            low = middle
        else:
            high = middle

    return prices + raised(high)


def _shortfalls(phi: FloatArray, prior: FloatArray, slope: float) -> list[FloatArray]:
    """For each cell, the most that a set of one, two or three cells lacks, it among them."""
    sums = phi.sum(axis=1)
    total = float(sums.sum())
    alone = slope**2 * np.diagonal(phi) + 2 * slope * sums
    mass = slope * prior
    twice = 2 * slope**2 * phi
    pairs = alone[:, None] + alone + twice
    masses = mass[:, None] + mass
    np.fill_diagonal(pairs, -np.inf)

    threes = []
    for i in range(len(prior)):
        sets = pairs + (total + alone[i]) + twice[i][:, None] + twice[i]
        sets[i] = sets[:, i] = -np.inf
        threes.append((sets / (1 + mass[i] + masses)).max())

    ones = (total + alone) / (1 + mass)
    twos = ((total + pairs) / (1 + masses)).max(axis=1)
    return [ones, twos, np.array(threes)]


def _settled(blocks: SetBlocks, phi: FloatArray) -> _Multipliers:
    """ν and E after a number of steps with Φ fixed; sizes without fault stop moving."""
    sizes = blocks.sizes
    least = np.full(len(sizes), np.inf)
    tilts, excess = blocks.plain(phi)
    moving = np.arange(len(sizes))
    image = blocks.forward(phi * np.outer(blocks.scale, blocks.scale))

    for step in range(1, _FINISHING + 1):
        residual = image + blocks.slack_step(image)
        blocks.dual_step(residual)
        if step % _LOOK_EVERY:
            continue

        fresh_tilts, fresh_excess = blocks.plain(phi)
        largest = blocks.folding.largest(residual - blocks.definite)
        better = largest < least[moving]
        improved = moving[better]
        least[improved] = largest[better]
        tilts[improved] = fresh_tilts[better]
        excess[improved] = fresh_excess[better]

        faulty: BoolArray = least[moving] > 0
        if not faulty.any():
            break
        blocks = blocks.only(faulty)
        moving = moving[faulty]
        image = image[faulty]

    return _Multipliers(sizes, tilts, excess)


def _failing(
    known: _Multipliers, phi: FloatArray, prior: FloatArray, blocks: SetBlocks
) -> list[int]:
    """Sizes that need dearer prices than those looked after, the worst first, not all at once."""
    n = len(prior)
    slope = blocks.slope
    sizes = np.arange(LISTED + 1, n)
    if not len(sizes):
        return []

    batches = np.array_split(sizes, max(n**3 // _BATCH, 1))
    largest = [_largest(known, some, phi, blocks) for some in batches if len(some)]
    least = 1 + slope * np.cumsum(np.sort(prior))
    mass = (1 + slope * sizes / n) * least[sizes - 1]
    shortfall = np.maximum(sizes * np.concatenate(largest), 0.0) / mass

    looked_after = np.isin(sizes, known.sizes)
    allowed = shortfall[looked_after].max(initial=0.0)
    failing = sizes[~looked_after & (shortfall > allowed)]
    worst = failing[np.argsort(-shortfall[failing - LISTED - 1])]
    every = max(1, len(worst) // _ADDED_SIZES)
    return [int(d) for d in worst[::every][:_ADDED_SIZES]]


def _largest(
    known: _Multipliers, sizes: IntArray, phi: FloatArray, blocks: SetBlocks
) -> FloatArray:
    """Largest eigenvalues of the matrices of these sizes, multipliers on lines between sizes."""
    after = np.clip(np.searchsorted(known.sizes, sizes), 0, len(known.sizes) - 1)
    before = np.maximum(np.searchsorted(known.sizes, sizes) - 1, 0)
    gap = known.sizes[after] - known.sizes[before]
    share = np.where(gap > 0, (sizes - known.sizes[before]) / np.maximum(gap, 1), 0.0)
    share = share[:, None]
    tilt = (1 - share) * known.tilts[before] + share * known.tilts[after]
    share = share[:, :, None]
    g = (1 - share) * known.excess[before] + share * known.excess[after]

    # G = r²Φ + Diag(2r·s + σ/d) + (ν1ᵀ + 1νᵀ)/2 − d·Diag(ν) + E.
    r = blocks.slope
    sums = phi.sum(axis=1)
    d = sizes[:, None]
    cells = np.arange(len(phi))
    g += r * r * phi
    g += tilt[:, :, None] / 2
    g += tilt[:, None, :] / 2
    g[:, cells, cells] += 2 * r * sums + float(sums.sum()) / d - d * tilt
    return blocks.folding.largest(g)
