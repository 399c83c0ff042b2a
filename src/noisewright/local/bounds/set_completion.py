"""From Φ to a proof: Z made definite, prices with a little room, multipliers for all set sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.local.bounds.joint_problem import split_phi
from noisewright.local.bounds.set_blocks import SetBlocks
from noisewright.local.bounds.set_proof import SetProof
from noisewright.local.strategy import IntArray
from noisewright.workload.base import FloatArray

_ROOM = 3e-4  # share by which prices rise, so that most sizes have room
_FINISHING, _LOOK_EVERY = 40, 5
_ADDED_SIZES, _ADDING = 24, 3
_BATCH = 2**20  # entries of matrices looked at together


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
        return _Kept(sizes[order], tilts, np.concatenate([self.excess, other.excess])[order])


def completed(
    phi: FloatArray, prior: FloatArray, blocks: SetBlocks, order: IntArray | None = None
) -> SetProof:
    """The proof near Φ: blocks settle for good, and sizes that fail join them.

    `order` says which cells those of Φ are, where not all in their own order.
    """
    factor, prices = split_phi(phi, prior, blocks.folding)
    prices = _covering_singles(factor, prices, prior, blocks.slope)
    prices = prices + _ROOM * float(prices.sum()) / len(prior)
    phi = factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    settled = blocks.beyond_singles()
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
        every, prior[back], factor[back], prices[back], kept.sizes, kept.tilts[:, back], packed
    )


def _covering_singles(
    factor: FloatArray, prices: FloatArray, prior: FloatArray, slope: float
) -> FloatArray:
    """Prices raised, each for itself, until no single cell breaks the condition."""
    phi = factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    sums = phi.sum(axis=1)
    short = slope**2 * np.diagonal(phi) + 2 * slope * sums + float(sums.sum())
    needed = np.sort(np.maximum(short / (1 + slope * prior), 0.0))[::-1]
    # Raising λ_i by z_i brings Σz + r·z_i; the least sum s meets Σ max(0, (needed − s)/r) = s.
    running = np.cumsum(needed) / (slope + np.arange(1, len(needed) + 1))
    total = float(running.max(initial=0.0))
    raised = np.maximum(short / (1 + slope * prior) - total, 0.0) / slope
    return np.asarray(prices + raised)


def _settled(blocks: SetBlocks, phi: FloatArray) -> _Kept:
    """ν and E after a number of steps with Φ fixed; sizes without fault stop moving."""
    image = blocks.forward(phi * np.outer(blocks.scale, blocks.scale))
    best = np.full(len(blocks.sizes), np.inf)
    tilts, excess = blocks.plain(phi)
    for step in range(_FINISHING):
        left = image + blocks.settle(image)
        blocks.push(left)
        if step % _LOOK_EVERY == _LOOK_EVERY - 1:
            fresh_tilts, fresh_excess = blocks.plain(phi)
            tops = blocks.folding.largest(left - blocks.definite)
            better = tops < best
            best[better] = tops[better]
            tilts[better], excess[better] = fresh_tilts[better], fresh_excess[better]
            if best.max() <= 0:
                break
    return _Kept(blocks.sizes, tilts, excess)


def _failing(kept: _Kept, phi: FloatArray, prior: FloatArray, blocks: SetBlocks) -> list[int]:
    """Sizes that need dearer prices than those looked after, the worst first, not all at once."""
    n, slope = len(prior), blocks.slope
    sizes = np.arange(2, n)
    tops = np.concatenate(
        [
            _tops(kept, some, phi, blocks)
            for some in np.array_split(sizes, max(n**3 // _BATCH, 1))
            if len(some)
        ]
    )
    least = 1 + slope * np.cumsum(np.sort(prior))
    shortfall = np.maximum(sizes * tops, 0.0) / ((1 + slope * sizes / n) * least[sizes - 1])
    own = np.isin(sizes, kept.sizes)
    allowed = shortfall[own].max(initial=0.0)
    failing = sizes[~own & (shortfall > allowed)]
    worst = failing[np.argsort(-shortfall[failing - 2])]
    return [int(d) for d in worst[:: max(1, len(worst) // _ADDED_SIZES)][:_ADDED_SIZES]]


def _tops(kept: _Kept, sizes: IntArray, phi: FloatArray, blocks: SetBlocks) -> FloatArray:
    """Largest eigenvalues of the matrices of these sizes, multipliers on lines between sizes."""
    after = np.clip(np.searchsorted(kept.sizes, sizes), 0, len(kept.sizes) - 1)
    before = np.maximum(np.searchsorted(kept.sizes, sizes) - 1, 0)
    gap = kept.sizes[after] - kept.sizes[before]
    share = np.where(gap > 0, (sizes - kept.sizes[before]) / np.maximum(gap, 1), 0.0)[:, None]
    tilt = (1 - share) * kept.tilts[before] + share * kept.tilts[after]
    r, sums, d = blocks.slope, phi.sum(axis=1), sizes[:, None]
    g = (1 - share[..., None]) * kept.excess[before] + share[..., None] * kept.excess[after]
    g += r * r * phi
    g += tilt[:, :, None] / 2
    g += tilt[:, None, :] / 2
    cells = np.arange(len(phi))
    g[:, cells, cells] += 2 * r * sums + float(sums.sum()) / d - d * tilt
    return blocks.folding.largest(g)
