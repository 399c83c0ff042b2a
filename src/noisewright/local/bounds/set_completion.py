"""From Φ to a proof: Z made definite, prices with a little room, multipliers for all set sizes."""

from __future__ import annotations

import numpy as np

from noisewright.local.bounds.joint_problem import split_phi
from noisewright.local.bounds.set_blocks import SetBlocks
from noisewright.local.bounds.set_proof import SetProof
from noisewright.local.strategy import IntArray
from noisewright.workload.base import FloatArray

_ROOM = 3e-4  # share by which prices rise, so that most sizes have room
_FINISHING, _ADDED_SIZES, _ADDING = 40, 24, 3

_Kept = tuple[IntArray, FloatArray, FloatArray]
"""Sizes, ν and E."""


def completed(phi: FloatArray, prior: FloatArray, blocks: SetBlocks) -> SetProof:
    """The proof near Φ: blocks settle for good, and sizes that fail join them."""
    factor, prices = split_phi(phi, prior)
    prices = _covering_singles(factor, prices, prior, blocks.slope)
    prices = prices + _ROOM * float(prices.sum()) / len(prior)
    phi = factor @ factor.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    kept = [_settled(blocks.beyond_singles(), phi)]
    proof = _assembled(prior, factor, prices, kept)
    for _ in range(_ADDING):
        failing = _failing(proof, phi, blocks.slope)
        if not failing:
            break
        kept.append(_settled(SetBlocks.of(failing, blocks.slope, blocks.scale), phi))
        proof = _assembled(prior, factor, prices, kept)
    return proof


def _assembled(
    prior: FloatArray, factor: FloatArray, prices: FloatArray, kept: list[_Kept]
) -> SetProof:
    sizes = np.concatenate([part[0] for part in kept])
    tilts = np.concatenate([part[1] for part in kept])
    excess = np.concatenate([part[2] for part in kept])
    order = np.argsort(sizes)
    rows, columns = np.triu_indices(len(prior))
    packed = excess[:, rows, columns].astype(np.float32)
    every = np.arange(len(prior), dtype=np.int64)
    return SetProof(every, prior, factor, prices, sizes[order], tilts[order], packed[order])


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
    """Sizes, ν and E after a number of steps with Φ fixed; sizes without fault stop moving."""
    image = blocks.forward(phi * np.outer(blocks.scale, blocks.scale))
    best = np.full(len(blocks.sizes), np.inf)
    tilts, excess = blocks.plain(phi)
    for step in range(_FINISHING):
        left = image + blocks.settle(image)
        blocks.push(left)
        if step % 5 == 4:
            fresh_tilts, fresh_excess = blocks.plain(phi)
            tops = np.linalg.eigvalsh(left - blocks.definite)[:, -1]
            better = tops < best
            best[better] = tops[better]
            tilts[better], excess[better] = fresh_tilts[better], fresh_excess[better]
            if best.max() <= 0:
                break
    return blocks.sizes, tilts, excess


def _failing(proof: SetProof, phi: FloatArray, slope: float) -> list[int]:
    """Sizes that need dearer prices than those looked after, the worst first, not all at once."""
    n, kept = proof.size, set(proof.sizes.tolist())
    least = 1 + slope * np.cumsum(np.sort(proof.prior))
    sums = phi.sum(axis=1)
    base = slope**2 * phi + np.diag(2 * slope * sums)
    shortfall: dict[int, float] = {}
    for d in range(2, n):
        tilt, excess = proof.multipliers(d)
        g = base + (tilt[:, None] + tilt) / 2 + excess
        g[np.diag_indices(n)] += float(sums.sum()) / d - d * tilt
        top = d * float(np.linalg.eigvalsh(g)[-1])
        shortfall[d] = max(top, 0.0) / ((1 + slope * d / n) * least[d - 1])
    allowed = max([shortfall[d] for d in kept if d in shortfall], default=0.0)
    failing = sorted(
        (d for d in shortfall if d not in kept and shortfall[d] > allowed),
        key=lambda d: -shortfall[d],
    )
    return failing[:: max(1, len(failing) // _ADDED_SIZES)][:_ADDED_SIZES]
