"""Patterns worth adding: those that the prices of a design undervalue, found one flip at a time."""

from __future__ import annotations

from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.optimise.dense.design import spectral_patterns
from noisewright.local.work import eigenvectors, touched

_SHAKES = (1.0, 2.0, 4.0, 8.0)  # cells flipped, in the mean
# beyond, an ascent that is still going after many flips follows prices far off
_FEW_CELLS = 64
# of an ascent in the mean, and over all cells at each, gathered ones
_FLIPS = 8.0
_PASSES = 60
_BLOCK_ENTRIES = 2**15  # of patterns improved together: what lies near the processor


def undervalued(
    quadratic: FloatArray, prices: FloatArray, prior: FloatArray
) -> FloatArray:
    """Φ with vᵀΦv = vᵀΣv − (λᵀv)(πᵀv): positive where a pattern is worth more than its price."""
    sides = np.outer(prices, prior)
    return np.asarray(quadratic - (sides + sides.T) / 2)


def worths(
    patterns: BoolArray, phi: FloatArray, prior: FloatArray, epsilon: float
) -> FloatArray:
    """vᵀΦv/(πᵀv)²: worth beyond the price, per unit of mass and relative to it."""
    v = 1.0 + expm1(epsilon) * patterns
    return np.asarray(np.einsum("ou,ou->o", v @ phi, v) / (v @ prior) ** 2)


def improve(
    patterns: BoolArray, phi: FloatArray, prior: FloatArray, epsilon: float
) -> tuple[BoolArray, FloatArray]:
    """From each pattern the best flip again and again, until none raises its worth."""
    some = max(_BLOCK_ENTRIES // patterns.shape[1], 1)
    parts = [
        _improved(patterns[first : first + some], phi, prior, epsilon)
        for first in range(0, len(patterns), some)
    ]
    better, worth = zip(*parts, strict=True)

    return np.concatenate(better), np.concatenate(worth)


def _improved(
    patterns: BoolArray, phi: FloatArray, prior: FloatArray, epsilon: float
) -> tuple[BoolArray, FloatArray]:
    patterns, cells = patterns.copy(), patterns.shape[1]
    if cells > _FEW_CELLS:  # where to go next: seven digits do, in half the time
        phi = phi.astype(np.float32)
        prior = prior.astype(np.float32)

    slope = phi.dtype.type(expm1(epsilon))
    least_rise = 8 * float(np.finfo(phi.dtype).eps)
    v = 1 + slope * patterns
    pulled = v @ phi
    energy = np.einsum("ou,ou->o", pulled, v)
    mass = v @ prior
    active = np.arange(len(patterns))
    diagonal = np.diagonal(phi)

    for _ in range(2 * cells if cells <= _FEW_CELLS else cells // 4):
        steps = np.where(patterns[active], -slope, slope)
        energies = (
            energy[active, None] + 2 * steps * pulled[active] + steps**2 * diagonal
        )
        masses = mass[active, None] + steps * prior
        worth = energies / masses**2
        cell = worth.argmax(axis=1)
        best = worth[np.arange(len(active)), cell]
        rising = np.flatnonzero(
            best > energy[active] / mass[active] ** 2 + least_rise * np.abs(best)
        )
        if not len(rising):
            break

        active = active[rising]
        cell = cell[rising]
        energy[active], mass[active] = energies[rising, cell], masses[rising, cell]
        patterns[active, cell] ^= True
        pulled[active] += steps[rising, cell][:, None] * phi[cell]

    return patterns, energy / mass**2


def searching(starts: int, cells: int) -> float:
    """Operations of a search for proposals, about."""
    flips = min(_FLIPS, cells / 4)
    return eigenvectors(cells) + _PASSES * touched(1.25 * starts * cells * (1 + flips))


def proposals(
    present: BoolArray,
    shares: FloatArray,
    quadratic: FloatArray,
    phi: FloatArray,
    prior: FloatArray,
    epsilon: float,
    starts: int,
    rng: np.random.Generator,
    family: BoolArray,
) -> tuple[BoolArray, FloatArray]:
    """Patterns of positive worth, the best first: from shaken present ones, random ones, a family.

    The starts count as well as where they lead to: while prices are far off, all ascents end at a
    few patterns, which alone would say too little.
    """
    parents = present[rng.choice(len(present), starts, p=shares / shares.sum())]
    rates = rng.choice(_SHAKES, (starts, 1)) / present.shape[1]
    shaken = parents ^ (rng.random(parents.shape) < rates)
    values, vectors = np.linalg.eigh(quadratic)
    factor = vectors * np.sqrt(np.clip(values, 0.0, None))
    random = spectral_patterns(factor, epsilon, starts // 4, rng)
    begun = np.concatenate([shaken, random, family])
    better, worth = improve(begun, phi, prior, epsilon)
    patterns = np.concatenate([better, begun])
    worth = np.concatenate([worth, worths(begun, phi, prior, epsilon)])
    order = np.argsort(-worth)
    order = order[worth[order] > 0]
    _, first = np.unique(
        np.packbits(patterns[order], axis=1), axis=0, return_index=True
    )
    order = order[np.sort(first)]

    return patterns[order], worth[order]
