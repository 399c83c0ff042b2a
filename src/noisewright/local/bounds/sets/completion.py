"""From Φ to a proof: Z made definite, prices with a little room, multipliers for all set sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.joint_problem import split_phi
from noisewright.local.bounds.sets.blocks import SetBlocks
from noisewright.local.bounds.sets.proof import LISTED, SetProof
from noisewright.local.work import eigenvalues, product, touched

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

    return np.asarray(prices + raised(high))


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
