"""The search for a proof by set size: the joint problem at some of them, then all the others.

The multipliers of the condition are the moments of a strategy's reports, so that a good strategy
gives a good start. Whatever is found here is proved elsewhere (`set_proof.SetProof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import expm1, inf

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.folding import folding_of
from noisewright.local.bounds.joint_problem import JointProblem, Reports, Roots, Start
from noisewright.local.bounds.sets.blocks import SetBlocks
from noisewright.local.bounds.sets.completion import completed, completing
from noisewright.local.bounds.sets.proof import SetProof
from noisewright.local.work import Work

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
