"""Ordered domains at scale: a dense strategy on coarse bins mixed with orbits on the fine domain.

Prefix sums differ from a turning workload by one ramp. Low frequencies, where the ramp lives, are
asked on bins, where a dense strategy can be optimised; the rest is asked by orbits of patterns over
all cells. Each part is optimised knowing what the other contributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.composed.coarse_fine import (
    Bins,
    CoarseFine,
    CoarseFineInverse,
    Sandwich,
    full_spectrum,
    sandwich,
)
from noisewright.local.composed.mixture import Coarsening
from noisewright.local.listed import MatrixStrategy
from noisewright.local.optimise.dense.descent import descend
from noisewright.local.optimise.dense.design import Design, rounded
from noisewright.local.optimise.dense.growth import Growth
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.search import Effort, Question, search
from noisewright.local.optimise.kept import saved_design, saved_patterns, saved_shares
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.orbit_search import flip_cells
from noisewright.local.optimise.symmetry import (
    Orbits,
    SymmetricProblem,
    orbit_information,
)
from noisewright.local.optimise.task import Task
from noisewright.local.strategy import Arrays
from noisewright.local.transform.invariants import Decomposition, ramp_vector
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.transform.translations import Translations
from noisewright.workload.linear.gram import Gram, PrefixGram

# Multiplicative steps of shares between two changes of patterns.
_MIXING_STEPS = 30
# Of the largest eigenvalue: below it the digits of the smallest are lost.
_UNSEEN = 1e-9
_SHARE_STEP, _SHARE_TRIALS = 0.3, 8  # of the log-odds of a fine report
_LEAST_FINE = 1e-3  # share of reports that every frequency needs to be seen at all
_HURRY = 5.0  # seconds in which many bins cannot even be looked at


@dataclass(frozen=True)
class OrderedEffort:
    """How hard the search tries."""

    bins: int = 64
    rounds: int = 3
    flips: int = 25
    reports: int = 2**20

    def orbits(self, cells: int) -> int:
        """Number of fine patterns."""
        return int(np.clip(self.reports // cells, 8, 96))


@dataclass(frozen=True, eq=False)
class FineProblem:
    """The error as a function of the fine spectrum, the coarse information being given."""

    group: Translations
    epsilon: float
    bins: Bins
    coarse: FloatArray
    share: float
    workload: Decomposition

    def _sandwich(self, eigenvalues: FloatArray) -> Sandwich:
        return sandwich(self.bins, self.share * eigenvalues, self.coarse, self.workload)

    def value(self, eigenvalues: FloatArray) -> float:
        """tr(M X⁻¹); infinite where a frequency is as good as unseen and digits are lost."""
        if eigenvalues[1:].min() <= _UNSEEN * eigenvalues[1:].max():
            return float("inf")
        return self._sandwich(eigenvalues).value

    def gains(self, eigenvalues: FloatArray) -> FloatArray:
        """Minus the derivative in each eigenvalue."""
        gains = self._sandwich(eigenvalues).on_characters()[: len(eigenvalues)]
        gains[0] = 0.0
        return np.asarray(gains)

    def variance(self, value: float) -> float:
        """Variance per person at a value."""
        return value - self.known

    @cached_property
    def known(self) -> float:
        """Mean squared answer off the total."""
        n = self.bins.cells
        spectrum = float((self.workload.eigenvalues * self.group.counts)[1:].sum()) / n
        return spectrum + self.workload.ramp * float((ramp_vector(n) ** 2).mean())


def bins_for(cells: int, target: int) -> int:
    """The divisor of `cells` nearest, by ratio, to the wanted number of bins."""
    divisors = [d for d in range(1, min(cells, 4 * target) + 1) if cells % d == 0]
    return min(divisors, key=lambda d: abs(np.log(d / target)))


def search_ordered(
    task: Task,
    workload: Decomposition,
    effort: OrderedEffort,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None = None,
) -> CoarseFine:
    """Coarse and fine parts optimised in turn, with the share of reports each gets.

    What is made small is the mean error over types; where the worst type counts, shares are then
    chosen for it. `state` is what a snapshot of an earlier run held; the search goes on from there.
    """
    n = task.size
    epsilon = task.epsilon
    if state is None and control.limit.over(_HURRY):
        effort = replace(
            effort, bins=min(effort.bins, 32), reports=min(effort.reports, 2**19)
        )

    bins = Bins(n, bins_for(n, effort.bins))
    group = Translations((n,))
    design, orbits, share = _start(bins, group, workload, epsilon, effort, rng, state)

    for _ in range(effort.rounds):
        coarse = (1.0 - share) * _centred_information(design)
        problem = FineProblem(group, epsilon, bins, coarse, share, workload)
        orbits = flip_cells(problem, orbits, effort.flips, control)
        share, shares = _mixed(problem, orbits, design, share)
        orbits = Orbits(group, orbits.patterns, shares, epsilon)
        if control.expired:
            break

        design = _coarse_step(problem, orbits, design, share)
        state = {
            "coarse": design.patterns,
            "weights": design.weights,
            "fine": orbits.patterns,
            "shares": orbits.shares,
            "share": np.array([share]),
        }
        control.keep("ordered", state.copy, now=True)

    coarse_part = MatrixStrategy.from_chances(design.chances(), epsilon)
    fine_part = OrbitStrategy.from_patterns(
        (n,), orbits.patterns, orbits.shares, epsilon
    )
    coarsenings = [Coarsening(n, bins.width), Coarsening(n)]

    def mixed(share: float) -> CoarseFine:
        return CoarseFine.of(
            [coarse_part, fine_part], coarsenings, [1.0 - share, share]
        )

    if not task.worst_case:
        return mixed(share)
    return _for_the_worst(mixed, share, task.gram, control)


def _for_the_worst(
    mixed: Callable[[float], CoarseFine], share: float, gram: Gram, control: Control
) -> CoarseFine:
    """The mixture whose worst type varies least: shares searched from the one best in the mean.

    Types at both ends are told by bins rather than by translates, which turn around: on prefix:96
    at ε = 3 they ask for a sixth more reports on bins, and vary 5 % less then.
    """
    best = mixed(share)
    odds = log(share / (1.0 - share))
    step = -_SHARE_STEP
    for _ in range(_SHARE_TRIALS):
        if control.expired:
            break
        trial = mixed(1.0 / (1.0 + exp(-odds - step)))
        if trial.worst_variance(gram) < best.worst_variance(gram):
            best = trial
            odds = odds + step
        else:
            step /= -2

    return best


def _start(
    bins: Bins,
    group: Translations,
    workload: Decomposition,
    epsilon: float,
    effort: OrderedEffort,
    rng: np.random.Generator,
    state: Arrays | None,
) -> tuple[Design, Orbits, float]:
    saved = saved_design(state, bins.bins, epsilon, "coarse")
    fine = saved_patterns(state, group.cells, "fine")
    parts = None if fine is None else saved_shares(state, "shares", len(fine))
    share = saved_shares(state, "share", 1)
    if (
        saved is not None
        and fine is not None
        and parts is not None
        and share is not None
    ):
        mixed = float(np.clip(share[0], _LEAST_FINE, 1 - _LEAST_FINE))
        return saved, Orbits(group, fine, parts / parts.sum(), epsilon), mixed

    uniform = np.full(bins.bins, 1.0 / bins.bins)
    # Not grown: later steps descend from here, and from few patterns end 0.2 to 1 % higher.
    quick = Effort(growth=Growth(up_to=0), iterations=60)
    gram = PrefixGram(bins.bins).dense()
    asked = Question(gram, epsilon, uniform, worst_case=False)
    design, _ = search(asked, quick, rng, Control())
    symmetric = SymmetricProblem(group, _energies(workload, group), epsilon)
    patterns = symmetric.spectral_patterns(effort.orbits(group.cells), rng, 0.5)
    shares = np.full(len(patterns), 1.0 / len(patterns))

    return design, Orbits(group, patterns, shares, epsilon), 0.7


def _energies(workload: Decomposition, group: Translations) -> FloatArray:
    ramp = group.power(ramp_vector(group.cells)[None])[0] / group.cells
    energies = workload.eigenvalues + workload.ramp * ramp
    energies[0] = 0.0
    return np.asarray(energies)


def _centred_information(design: Design) -> FloatArray:
    q = design.chances()
    prior = np.full(q.shape[1], 1.0 / q.shape[1])
    chance = q @ prior
    return Objective(np.eye(q.shape[1]), prior).information(
        q / chance[:, None] - 1.0, chance
    )


def _mixed(
    problem: FineProblem, orbits: Orbits, design: Design, share: float
) -> tuple[float, FloatArray]:
    """Shares of the orbits and of the coarse part, by multiplicative steps: the value is convex."""
    coarse = _centred_information(design)
    information = orbit_information(orbits.group, orbits.patterns, orbits.epsilon)
    counts = orbits.group.counts
    w = np.append(share * orbits.shares, 1.0 - share)

    for _ in range(_MIXING_STEPS):
        product = sandwich(
            problem.bins, w[:-1] @ information, w[-1] * coarse, problem.workload
        )
        gains = product.on_characters()[: len(counts)] * counts
        gains[0] = 0.0
        worth = np.append(
            information @ gains, float((product.on_bins() * coarse).sum())
        )
        # No worth is negative, but differences of large numbers may come out so.
        w = w * np.sqrt(np.maximum(worth, 1e-6 * np.abs(worth).max()))
        w[:-1] = np.maximum(w[:-1], _LEAST_FINE / len(w) * w.sum())
        w /= w.sum()

    return float(1.0 - w[-1]), np.asarray(w[:-1] / w[:-1].sum())


def _coarse_step(
    problem: FineProblem, orbits: Orbits, design: Design, share: float
) -> Design:
    """Descend in the coarse strategy, given the information of the fine one.

    tr(M(circ + UCUᵀ)⁻¹) is, up to a constant, tr(M'(G⁻¹ + C)⁻¹) with G = UᵀDU and M' = G⁻¹T'G⁻¹,
    T' = UᵀDMDU: the dense problem again, with information at hand.
    """
    bins = problem.bins
    plain = CoarseFineInverse(
        bins,
        full_spectrum(share * orbits.eigenvalues, bins.cells),
        np.zeros((bins.bins, bins.bins)),
    )
    product = Sandwich(
        plain, full_spectrum(problem.workload.eigenvalues, bins.cells), 0.0
    )
    seen = bins.sums(plain.solve(product.ramp_vector))
    target = product.between_bins + problem.workload.ramp * np.outer(seen, seen)
    filled = plain.gathered + np.trace(plain.gathered) / bins.bins**2
    known = np.linalg.inv(filled)
    centre = np.eye(bins.bins) - 1.0 / bins.bins
    known = centre @ known @ centre
    objective = Objective(
        known @ target @ known / (1.0 - share),
        np.full(bins.bins, 1.0 / bins.bins),
        offset=known / (1.0 - share),
    )
    # Entries at their bounds have no slope; a start a little inside lets all of them move.
    start = np.asarray(0.05 + 0.9 * design.patterns, dtype=np.float64), design.weights
    moved = descend(objective, problem.epsilon, start, 40, Control())
    near = rounded(moved.positions, moved.weights, problem.epsilon)
    if near is None:
        return design

    before, after = (objective.evaluate(d.chances()).value for d in (design, near))
    return near if after < before else design
