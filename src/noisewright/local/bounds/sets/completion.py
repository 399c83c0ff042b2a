"""From Φ to a proof: Z definite, prices with a little margin, multipliers for all set sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.sets.blocks import SetBlocks, neighbouring_sizes
from noisewright.local.bounds.sets.proof import LISTED, SetProof
from noisewright.local.bounds.start import phi_of, split_phi
from noisewright.local.work import eigenvalues, pass_over, product


@dataclass(frozen=True)
class Finish:
    """How multipliers settle while Φ is fixed, and sizes join them."""

    margin: float = 3e-4
    """Share by which prices rise: at 1e-3 prefix:16 proves 12 % less at ε = 4."""
    steps: int = 40
    """20 prove 12 % less there, 80 prove 6 % more."""
    look_every: int = 5
    """Steps between looks for faults: 10 prove as much."""
    added_sizes: int = 24
    """That join at once: 12 and 48 prove as much."""
    additions: int = 3
    """Times that sizes join: one was enough on 16 and 64 cells."""
    halvings: int = 40
    """Of the sum by which prices rise: 20 leave six digits of it."""
    batch: int = 2**20
    """Entries of matrices looked at together: only bounds memory."""


_FINISH = Finish()

_PASSES = 20
"""Over the entries of a matrix, where one size is looked at: for counting operations."""


class _Multipliers(NamedTuple):
    """ν and E of some sizes in the cells' own scale."""

    sizes: IntArray
    tilts: FloatArray
    excess: FloatArray

    def joined(self, other: _Multipliers) -> _Multipliers:
        """Those of both, by size."""
        both = [np.concatenate(pair) for pair in zip(self, other, strict=True)]
        order = np.argsort(both[0])
        return _Multipliers(*(array[order] for array in both))


def completed_proof(
    phi: FloatArray,
    prior: FloatArray,
    blocks: SetBlocks,
    order: IntArray,
) -> SetProof:
    """The proof near Φ: multipliers settle for good, and sizes that fail join them.

    `order` says which cells those of Φ are.
    """
    n = len(prior)
    factor, prices = split_phi(phi, prior, blocks.folding)
    prices = _covering(factor, prices, prior, blocks.slope)
    prices = prices + _FINISH.margin * float(prices.sum()) / n
    phi = phi_of(factor, prices, prior)

    last = blocks.sizes == blocks.sizes.max()
    settled = blocks.only((blocks.sizes > LISTED) | last)
    multipliers = _settled(settled, phi)
    for _ in range(_FINISH.additions):
        failing = _failing(multipliers, phi, prior, blocks)
        if not failing:
            break
        added = _settled(settled.at(failing), phi)
        multipliers = multipliers.joined(added)

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


def completion_work(blocks: SetBlocks, cells: int) -> float:
    """Operations of a proof that is completed, and of its check for every size, about."""
    passes = _PASSES * pass_over(cells**2)
    check = eigenvalues(cells) + product(cells, cells, cells) / 3 + passes
    looks = sum(map(eigenvalues, blocks.folding.sides)) + passes
    steps = _FINISH.steps * blocks.operations
    return steps + cells * (check + _FINISH.additions * looks)


# --- prices -------------------------------------------------------------------------------------


def _covering(
    factor: FloatArray,
    prices: FloatArray,
    prior: FloatArray,
    slope: float,
) -> FloatArray:
    """Prices raised, each for itself, until no set of up to three cells breaks the condition.

    Raising λ by z brings Σz + r·Σ_{i∈S} z_i, so that z_i = (c − Σz)/(r·d) does where c is the most
    that a set of d cells with i among them lacks. The least Σz is where both sides meet.
    """
    phi = phi_of(factor, prices, prior)
    shortfalls = _shortfalls(phi, prior, slope)

    def raised(total: float) -> FloatArray:
        prices = np.zeros(len(prior))
        for d, most in enumerate(shortfalls, 1):
            prices = np.maximum(prices, (most - total) / (slope * d))
        return prices

    low = 0.0
    high = max(float(np.max(shortfalls)), 0.0)
    for _ in range(_FINISH.halvings):
        middle = (low + high) / 2
        if raised(middle).sum() > middle:
            low = middle
        else:
            high = middle

    return prices + raised(high)


def _shortfalls(
    phi: FloatArray,
    prior: FloatArray,
    slope: float,
) -> list[FloatArray]:
    """For each cell, the most that a set of one, two or three cells lacks, it among them."""
    sums = phi.sum(axis=1)
    total = float(sums.sum())
    single = slope**2 * np.diagonal(phi) + 2 * slope * sums
    mass = slope * prior
    ones = (total + single) / (1 + mass)

    twice = 2 * slope**2 * phi
    pairs = single[:, None] + single + twice
    np.fill_diagonal(pairs, -np.inf)
    masses = mass[:, None] + mass
    twos = ((total + pairs) / (1 + masses)).max(axis=1)

    threes = np.empty(len(prior))
    for i in range(len(prior)):
        sets = pairs + twice[i][:, None] + twice[i]
        sets[i] = -np.inf
        sets[:, i] = -np.inf
        lacks = (total + single[i] + sets) / (1 + mass[i] + masses)
        threes[i] = lacks.max()

    return [ones, twos, threes]


# --- multipliers --------------------------------------------------------------------------------


def _settled(blocks: SetBlocks, phi: FloatArray) -> _Multipliers:
    """ν and E after a number of steps with Φ fixed; sizes without fault stop moving."""
    sizes = blocks.sizes
    least = np.full(len(sizes), np.inf)
    tilts, excess = blocks.plain(phi)
    moving = np.arange(len(sizes))
    image = blocks.forward(phi * blocks.scales)

    for step in range(1, _FINISH.steps + 1):
        residual = image + blocks.slack_step(image)
        blocks.dual_step(residual)
        if step % _FINISH.look_every:
            continue

        # The fault of a size is what its condition lacks without S.
        fault = blocks.folding.largest(residual - blocks.definite)
        better = fault < least[moving]
        improved = moving[better]
        new_tilts, new_excess = blocks.plain(phi)
        least[improved] = fault[better]
        tilts[improved] = new_tilts[better]
        excess[improved] = new_excess[better]

        faulty: BoolArray = least[moving] > 0
        if not faulty.any():
            break
        blocks = blocks.only(faulty)
        moving = moving[faulty]
        image = image[faulty]

    return _Multipliers(sizes, tilts, excess)


def _failing(
    known: _Multipliers,
    phi: FloatArray,
    prior: FloatArray,
    blocks: SetBlocks,
) -> list[int]:
    """Sizes that need dearer prices than those looked after, the worst first, not all at once."""
    n = len(prior)
    sizes = np.arange(LISTED + 1, n)
    if not len(sizes):
        return []

    count = max(n**3 // _FINISH.batch, 1)
    batches = [some for some in np.array_split(sizes, count) if len(some)]
    faults = [_largest(known, some, phi, blocks) for some in batches]

    # What prices must rise by: the fault over the least mass of so many cells.
    slope = blocks.slope
    least = 1 + slope * np.cumsum(np.sort(prior))
    mass = (1 + slope * sizes / n) * least[sizes - 1]
    fault = np.maximum(np.concatenate(faults), 0.0)
    shortfall = sizes * fault / mass

    looked_after = np.isin(sizes, known.sizes)
    allowed = shortfall[looked_after].max(initial=0.0)
    failing = np.flatnonzero(~looked_after & (shortfall > allowed))
    worst = sizes[failing[np.argsort(-shortfall[failing])]]
    every = max(1, len(worst) // _FINISH.added_sizes)
    return [int(d) for d in worst[::every][: _FINISH.added_sizes]]


def _largest(
    known: _Multipliers,
    sizes: IntArray,
    phi: FloatArray,
    blocks: SetBlocks,
) -> FloatArray:
    """Largest eigenvalues of G of these sizes (see `sets.proof`), multipliers interpolated."""
    low, high, shares = neighbouring_sizes(known.sizes, sizes)
    share = shares[:, None]
    tilt = known.tilts[low] * (1 - share)
    tilt += known.tilts[high] * share
    share = share[:, :, None]
    g = known.excess[low] * (1 - share)
    g += known.excess[high] * share

    r = blocks.slope
    g += r * r * phi
    g += tilt[:, :, None] / 2
    g += tilt[:, None, :] / 2

    d = sizes[:, None]
    sums = phi.sum(axis=1)
    cells = np.arange(len(phi))
    diagonal = 2 * r * sums + float(sums.sum()) / d
    g[:, cells, cells] += diagonal - d * tilt
    return blocks.folding.largest(g)
