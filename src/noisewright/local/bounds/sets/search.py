"""The search for a proof by set size: the joint problem at some of them, then all the others.

The multipliers of the condition are the moments of a strategy's reports, so that a good strategy
gives a good start. What is found here is completed for all sizes in `completion`, and proved
elsewhere (`sets.proof.SetProof`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import expm1, inf

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.folding import folding_of
from noisewright.local.bounds.joint_problem import JointProblem
from noisewright.local.bounds.proof_search import ProofSearch
from noisewright.local.bounds.sets.blocks import SetBlocks
from noisewright.local.bounds.sets.completion import completed_proof, completion_work
from noisewright.local.bounds.sets.proof import SetProof
from noisewright.local.bounds.start import Roots, Start


@dataclass(frozen=True)
class Sizes:
    """Which set sizes are looked after, and how their cells are scaled."""

    most: int = 13
    """Between the least and the largest that a strategy uses: 7 and 26 prove as much."""
    least_used: float = 5e-3
    """Share of people who report sets of a size, for that size to be used: half and double prove
    as much."""
    rarest: float = 0.1
    """Scale of rare cells: a smaller one proves as much."""
    most_frequent: float = 10.0
    """Scale of frequent cells: a larger one proves as much."""


@dataclass(frozen=True)
class PriorSteps:
    """How the prior follows the types that would raise the floor."""

    first: int = 75
    """Steps before: relaxed reports say too little about types at first. After 50 a proof of 125
    steps says 0.3 % less, after 100 up to 2 % more."""
    every: int = 25
    """Steps between: 12 and 50 prove as much."""
    longest: float = 0.6
    """Of the logarithm of the prior: half or double proves as much."""
    shorter: float = 0.5
    """By which the pace falls where types got less even: 0.25 proves 1 % less, 0.75 up to 1.5 %
    more or 0.5 % less."""
    longer: float = 1.1
    """By which it grows where they did not: 1 and 1.3 prove up to 0.7 % less."""
    largest_step: float = 0.5
    """In the logarithm of one type's share: half proves 0.2 % less at ε = 4, double as much."""
    least_share: float = 0.1
    """Of an even one: what is left of a condition costs more the lighter a cell is. Half and
    double prove as much."""


_SIZES = Sizes()
_PRIOR = PriorSteps()


@dataclass(eq=False)
class SetSearch(ProofSearch[SetProof]):
    """A search from a strategy, by blocks for some set sizes."""

    first_proof = 50
    later_proofs = 25

    def __post_init__(self) -> None:
        self.order, self.folding = folding_of(self.gram)
        self.gram = self.gram[np.ix_(self.order, self.order)]
        prior = self.reports.prior[self.order]
        self.reports = replace(
            self.reports,
            patterns=self.reports.patterns[:, self.order],
            prior=self.folding.averaged(prior),
        )

        start = Start.of(self.gram, self.epsilon, self.reports, self.folding)
        self.gram = start.gram
        self.roots = start.roots
        self.blocks = self._blocks()
        self.problem = JointProblem.of(start, self.blocks, self.reports.prior)
        self.pace = _PRIOR.longest
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

        # Moments are those of x/√d, a report counting by how much of ℓ² it is.
        mass = 1.0 + slope * (x @ prior)
        lengths = 1 + slope * counts / n
        shares = weights * lengths**2 / (mass * counts)
        diagonal = shares @ x
        scale = np.sqrt(diagonal / diagonal.mean())
        scale = np.clip(scale, _SIZES.rarest, _SIZES.most_frequent)
        scale = self.folding.averaged(scale)

        sizes = _sizes(counts, weights * mass, n)
        blocks = SetBlocks.of(sizes, slope, scale, self.folding)
        ratios = np.log(counts)[:, None] - np.log(blocks.sizes)
        nearest = np.abs(ratios).argmin(axis=1)
        for block in range(len(blocks.sizes)):
            rows = x[nearest == block] / scale
            weighted = rows * shares[nearest == block, None]
            blocks.duals[block] = self.folding.averaged(weighted.T @ rows)

        return blocks

    def follow(self, left: int) -> None:
        """Another prior from time to time."""
        steps = self.problem.steps
        if steps >= _PRIOR.first and steps % _PRIOR.every == 0:
            self._follow()

    def _follow(self) -> None:
        """Move the prior to types that would raise the floor, as far as Φ can be kept.

        Steps shorten where types get less even by them: at little privacy a small change of the
        prior is a large one of the variances.
        """
        prior = self.reports.prior
        variances = self.problem.type_variances(self.roots, prior)
        mean = float(prior @ variances)
        known = np.diagonal(self.roots.centred)
        uneven = (variances - mean) / (mean + float(prior @ known))

        unevenness = float(prior @ np.abs(uneven))
        worse = unevenness > self.unevenness
        pace = self.pace * (_PRIOR.shorter if worse else _PRIOR.longer)
        self.pace = min(pace, _PRIOR.longest)
        self.unevenness = unevenness

        for step in (self.pace, self.pace / 4):
            moved = self._moved(step * uneven)
            roots = Roots.of(self.gram, moved, self.folding)
            if self.problem.centre(roots, moved):
                self.roots = roots
                self.reports = replace(self.reports, prior=moved)
                return

    def _moved(self, logs: FloatArray) -> FloatArray:
        """The prior after a step in its logarithms, no share too light."""
        prior = self.reports.prior
        largest = _PRIOR.largest_step
        moved = prior * np.exp(np.clip(logs, -largest, largest))
        least = min(_PRIOR.least_share / len(prior), prior.min())
        moved = np.maximum(moved / moved.sum(), least)
        return self.folding.averaged(moved / moved.sum())

    def proof(self) -> SetProof:
        """What the present Φ proves, completed for all set sizes."""
        self.work.add(completion_work(self.blocks, len(self.gram)))
        phi = self.problem.plain_phi
        return completed_proof(phi, self.reports.prior, self.blocks, self.order)


def _sizes(
    counts: FloatArray,
    mass: FloatArray,
    n: int,
) -> list[int]:
    """Set sizes to look after: those that the strategy uses, and coarsely all the others."""
    shares = np.bincount(counts.astype(int), mass)
    least = _SIZES.least_used * shares.sum()
    used = np.flatnonzero(shares > least)
    low = max(1, int(used.min()) - 1)
    high = min(n - 1, int(used.max()) + 1)

    count = min(_SIZES.most, high - low + 1)
    spaced = np.rint(np.geomspace(low, high, count))
    sizes = {1, 2, high * 10 // 7, *spaced.astype(int).tolist()}
    while high < n / 2:
        high = 2 * high
        sizes.add(high)

    while low > 1:
        low = low * 2 // 3
        sizes.add(low)

    return sorted({min(max(size, 1), n - 1) for size in sizes})
