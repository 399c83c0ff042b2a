"""Patterns worth adding: those that the prices of a design undervalue, found one flip at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.optimise.dense.design import (
    Priced,
    every_pattern,
    spectral_patterns,
)
from noisewright.local.work import Work, eigenvectors, pass_over

EVERY_PATTERN = 9
"""Up to so many cells all patterns are listed, 510 at most: the optimum is exact."""

_SHAKES = (1.0, 2.0, 4.0, 8.0)  # cells flipped, in the mean
_FEW_CELLS = 64
"""Beyond, an ascent that is still going after many flips follows prices far off."""

_FLIPS = 8.0  # of an ascent in the mean, as counted
_PASSES = 60  # over all cells at each, gathered ones, as timed
_BLOCK_ENTRIES = 2**15  # of patterns improved together: what lies near the processor


def undervalued(
    quadratic: FloatArray, prices: FloatArray, prior: FloatArray
) -> FloatArray:
    """Φ with vᵀΦv = vᵀΣv − (λᵀv)(πᵀv): positive where a pattern is worth more than its price."""
    sides = np.outer(prices, prior)
    return np.asarray(quadratic - (sides + sides.T) / 2)


def relative_values(
    patterns: BoolArray, phi: FloatArray, prior: FloatArray, epsilon: float
) -> FloatArray:
    """vᵀΦv/(πᵀv)²: worth beyond the price, per unit of mass and relative to it."""
    v = 1.0 + expm1(epsilon) * patterns
    return np.asarray(np.einsum("ou,ou->o", v @ phi, v) / (v @ prior) ** 2)


# --- where flips of single cells lead -------------------------------------------------------------


def best_flips(
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
    patterns = patterns.copy()
    cells = patterns.shape[1]
    flips = 2 * cells
    if cells > _FEW_CELLS:  # where to go next: seven digits do, in half the time
        flips = cells // 4
        phi = phi.astype(np.float32)
        prior = prior.astype(np.float32)

    slope = phi.dtype.type(expm1(epsilon))
    least_rise = 8 * float(np.finfo(phi.dtype).eps)
    diagonal = np.diagonal(phi)

    v = 1 + slope * patterns
    product = v @ phi
    energy = np.einsum("ou,ou->o", product, v)
    mass = v @ prior
    active = np.arange(len(patterns))

    for _ in range(flips):
        # What energy, mass and worth would be with each cell flipped.
        steps = np.where(patterns[active], -slope, slope)
        energies = (
            energy[active, None] + 2 * steps * product[active] + steps**2 * diagonal
        )
        masses = mass[active, None] + steps * prior
        worth = energies / masses**2

        cell = worth.argmax(axis=1)
        best = worth[np.arange(len(active)), cell]
        least = energy[active] / mass[active] ** 2 + least_rise * np.abs(best)
        rising = np.flatnonzero(best > least)
        if not len(rising):
            break

        active = active[rising]
        cell = cell[rising]
        energy[active] = energies[rising, cell]
        mass[active] = masses[rising, cell]
        patterns[active, cell] ^= True
        product[active] += steps[rising, cell][:, None] * phi[cell]

    return patterns, energy / mass**2


# --- a look for patterns to add -------------------------------------------------------------------


@dataclass(eq=False)
class Candidates:
    """Patterns to add, round by round.

    Prices jump from round to round, and ascents that chase them take half as many rounds again: so
    they climb at a running mean of Φ. A `guide`, positive for no pattern's vᵀΦv and near zero for
    those of a best design, is where that mean begins.
    """

    rng: np.random.Generator
    work: Work
    guide: FloatArray | None = None
    starts_per_cell: int = 16
    """Ascents in a round."""
    most_starts: int = 4096
    """Only bounds the time of a round on many cells."""
    found_per_cell: int = 4
    most_found: int = 1000
    mean: FloatArray | None = None

    def better(self, priced: Priced) -> BoolArray:
        """Patterns worth more than their price, the best at steady prices first."""
        design = priced.design
        n = design.patterns.shape[1]
        now = undervalued(priced.quadratic, priced.prices, priced.prior)
        if n <= EVERY_PATTERN:
            patterns = every_pattern(n)
            return patterns[
                relative_values(patterns, now, priced.prior, design.epsilon) > 0
            ]

        if self.mean is None:
            self.mean = now
            if self.guide is not None:
                # Both are −1ᵀλ in sum: so they are brought to one scale.
                self.mean = self.guide * float(now.sum() / self.guide.sum())

        self.mean = (self.mean + now) / 2
        starts = min(self.starts_per_cell * n, self.most_starts)
        most = min(self.found_per_cell * n, self.most_found)
        fresh = design.patterns[:0]
        for phi in (self.mean, now):
            found = _climbed(priced, phi, starts, self.rng)
            self.work.add(_operations(starts, n))
            fresh = found[relative_values(found, now, priced.prior, design.epsilon) > 0]
            if len(fresh) >= n:
                break

        return fresh[:most]


def _climbed(
    priced: Priced, phi: FloatArray, starts: int, rng: np.random.Generator
) -> BoolArray:
    """Patterns of positive worth, the best first: from shaken present ones and random ones.

    The starts count as well as where they lead to: while prices are far off, all ascents end at a
    few patterns, which alone would say too little.
    """
    design = priced.design
    prior = priced.prior
    epsilon = design.epsilon
    n = design.patterns.shape[1]

    shares = design.weights * (design.relative @ prior)
    parents = rng.choice(len(shares), starts, p=shares / shares.sum())
    rates = rng.choice(_SHAKES, (starts, 1)) / n
    shaken = design.patterns[parents] ^ (rng.random((starts, n)) < rates)

    values, vectors = np.linalg.eigh(priced.quadratic)
    factor = vectors * np.sqrt(np.clip(values, 0.0, None))
    random = spectral_patterns(factor, epsilon, starts // 4, rng)

    begun = np.concatenate([shaken, random])
    better, worth = best_flips(begun, phi, prior, epsilon)
    patterns = np.concatenate([better, begun])
    worth = np.concatenate([worth, relative_values(begun, phi, prior, epsilon)])

    order = np.argsort(-worth)
    order = order[worth[order] > 0]
    packed = np.packbits(patterns[order], axis=1)
    _, first = np.unique(packed, axis=0, return_index=True)
    return patterns[order[np.sort(first)]]


def _operations(starts: int, cells: int) -> float:
    """What a look takes, about."""
    flips = min(_FLIPS, cells / 4)
    return eigenvectors(cells) + _PASSES * pass_over(
        1.25 * starts * cells * (1 + flips)
    )
