"""The search for a falling kernel and a prior that prove most, on cells merged until they are few.

A kernel T = Σ_k h_k T_k of steps with heights h_k ≥ 0 and a tilt β prove t²/Λ, with t = tr(RTRᵀ)^½
and Λ the largest limit of any set size (`rearrangement`, `intervals`). Heights are searched as
squares, Λ with a softened maximum that hardens from descent to descent.

For intervals kernel and prior are functions on [0, 1], so that what is found for few cells says
what to try on many: neighbours share their cell's part of the prior evenly. `intervals.Claim`
proves either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, expm1

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.bounds.ordered.intervals import (
    Claim,
    FallingKernel,
    centred_root,
)


@dataclass(frozen=True)
class Descent:
    """How heights of steps are looked for."""

    sharpness: tuple[float, ...] = (30.0, 300.0, 3000.0)
    """Exponents of the softened maximum, descent by descent: the first alone proves up to 2 % less
    at ε = 4, half or double of all three changes the fourth digit."""
    start_height: float = 1e-3
    """Of all steps together at the start, beside a point mass of one: a height of zero would stay
    zero, and ten times more or less changes the fourth digit."""
    evaluations: int = 25
    """In a descent: half of them prove up to 2 % less at ε = 4, twice as many up to 0.1 % more."""


@dataclass(frozen=True)
class Grid:
    """On what cells, steps and sizes a claim about intervals is looked for."""

    cells: int = 64
    """Of the search for a prior: only bounds time."""
    more_cells: int = 256
    """Of the kernel's last descent: without it floors at 96 cells are 1 % lower."""
    widths: int = 24
    """Of steps on the line: half as many prove up to 2.5 % less, 48 take longer for 0.1 %."""
    sizes: int = 60
    """Nodes of the measure of a set, on a logarithmic line and on an even one each: half and
    double prove 0.1 % less or more, but 10 % on prefix:64 at ε = 6."""


@dataclass(frozen=True)
class PriorMoves:
    """How a prior moves under a claim."""

    waves: int = 6
    """Slow waves along which it moves: half as many prove 1 % less at ε = 4."""
    turns: int = 3
    """Of prior and kernel: a single one proves 0.2 % less at ε = 4."""
    most: int = 40
    """Moves of a prior that goes on rising: most stop after ten."""
    slope_step: float = 1e-4
    """Of a difference quotient: ten times more or less changes the fourth digit."""
    first: float = 0.3
    """In the logarithms of the prior, along the steepest wave: half and double prove up to 2 %
    less."""
    last: float = 1e-3
    """Shorter moves change nothing that is seen; at 1e-2 prefix:16 proves 0.1 % less."""


DESCENT = Descent()
_GRID = Grid()
_PRIOR = PriorMoves()

_FLAT = 1e-12
"""Of the largest eigenvalue: what its square root is kept from, for the slopes."""

_TINY = 1e-300
"""Keeps logarithms and quotients finite."""


@dataclass(frozen=True, eq=False)
class SizeLimits:
    """What sets of every size (column) gain by every step (row), for each size the numbers in

    Λ = max [r²·gains + slope·sums]/scale,  slope = β·rates − offsets,

    where `sums` are the largest or the smallest of row sums, whichever makes Λ larger.
    """

    gains: FloatArray
    smallest: FloatArray
    largest: FloatArray
    rates: FloatArray
    offsets: FloatArray
    scale: FloatArray

    def at(self, tilt: float, r: float) -> tuple[FloatArray, FloatArray]:
        """Limits by step and size at β, and their slopes in β."""
        slope = tilt * self.rates - self.offsets
        sums = np.where(slope > 0, self.largest, self.smallest)
        limits = (r**2 * self.gains + slope * sums) / self.scale
        return limits, sums * self.rates / self.scale


@dataclass(frozen=True, eq=False)
class KernelLoss:
    """−log of t²/Λ as a function of the roots of heights, and of β at last."""

    root: FloatArray
    """R."""
    r: float
    limits: SizeLimits
    kernel: Callable[[FloatArray], FloatArray]
    """T of given heights."""
    traces: Callable[[FloatArray], FloatArray]
    """tr(T_k A) of every step, for a matrix A."""

    def __call__(self, point: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """The loss and its gradient."""
        roots = point[:-1]
        heights = roots**2
        fidelity, fidelity_slopes = self._fidelity(heights)

        # log Λ, the maximum softened: shares of the sizes that decide it.
        tilt = float(point[-1])
        by_step, by_tilt = self.limits.at(tilt, self.r)
        limits = np.maximum(heights @ by_step, _TINY)
        logs = sharpness * np.log(limits)
        soft = np.exp(logs - logs.max())
        total = soft.sum()
        limit = (logs.max() + np.log(total)) / sharpness

        shares = soft / total / limits
        slopes = by_step @ shares - fidelity_slopes / fidelity
        tilt_slope = (heights @ by_tilt) @ shares
        loss = float(limit - 2 * np.log(fidelity))
        return loss, np.append(2 * roots * slopes, tilt_slope)

    def _fidelity(self, heights: FloatArray) -> tuple[float, FloatArray]:
        """t = tr(RTRᵀ)^½, and twice its slopes: along a step ½·tr(T_k Rᵀ(RTRᵀ)^-½R)."""
        inner = self.root @ self.kernel(heights) @ self.root.T
        values, vectors = np.linalg.eigh(symmetrised(inner))
        least = _FLAT * np.abs(values).max()
        roots = np.sqrt(np.maximum(values, least))
        half = (vectors / np.sqrt(roots)).T @ self.root
        slopes = self.traces(half.T @ half)
        return float(roots.sum()), slopes

    def descents(
        self, point: FloatArray, sharpness: Sequence[float]
    ) -> Iterator[FloatArray]:
        """Where descents end, each from the end of the one before."""
        from scipy.optimize import minimize

        most = DESCENT.evaluations
        for exponent in sharpness:
            try:
                point = minimize(
                    self,
                    point,
                    (exponent,),
                    jac=True,
                    method="L-BFGS-B",
                    options={"maxiter": most, "maxfun": most},
                ).x
            except np.linalg.LinAlgError:
                # A step beyond double precision: every point before it proves its floor.
                return
            yield point


def merged(
    gram: FloatArray,
    prior: FloatArray,
    most: int = _GRID.cells,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Gram matrix and prior over runs of cells, few enough, and the run of each cell."""
    n = len(gram)
    runs = np.arange(n) // -(-n // most)
    shares = np.zeros((n, int(runs[-1]) + 1))
    shares[np.arange(n), runs] = 1.0
    shares /= shares.sum(axis=0)
    sums = np.asarray(np.bincount(runs, prior), dtype=np.float64)
    return shares.T @ gram @ shares, sums, runs.astype(np.int64)


def best_claim(
    gram: FloatArray,
    epsilon: float,
    prior: FloatArray,
) -> Claim:
    """A claim over all cells: kernel and prior from a search over few, the kernel again over more.

    From the prior given and from an even one, whichever leads further.
    """
    steps = _steps(len(gram))
    few, coarse, runs = merged(gram, prior)
    even = np.bincount(runs) / len(gram)
    given = _ClaimSearch(few, epsilon, coarse, steps)
    spread = replace(given, prior=even)
    best = max(given.claim(), spread.claim(), key=given.floor)
    best = replace(given, prior=best.prior).improved(best)

    prior = _normalised((best.prior / even)[runs])
    more, middle, _ = merged(gram, prior, _GRID.more_cells)
    if len(more) > len(few):
        best = _ClaimSearch(more, epsilon, middle, steps).claim(best)
    return replace(best, prior=prior)


def _steps(cells: int) -> FallingKernel:
    """Steps of all widths, closer when small."""
    line = np.geomspace(0.5 / cells, 0.9, _GRID.widths)
    circle = line[line < 0.45]
    widths = np.append(line, circle)
    circular = np.zeros(len(widths))
    circular[len(line) :] = 1.0
    return FallingKernel(0.0, widths, circular, np.zeros(len(widths)))


def _normalised(prior: FloatArray) -> FloatArray:
    return np.asarray(prior / prior.sum())


@dataclass(frozen=True, eq=False)
class _ClaimSearch:
    """Weights of steps and β for one prior; a point mass stands before the steps."""

    gram: FloatArray
    epsilon: float
    prior: FloatArray
    steps: FallingKernel

    @cached_property
    def _loss(self) -> KernelLoss:
        r = expm1(self.epsilon)
        prior = self.prior
        point_mass = np.diag(prior)
        stack = np.concatenate([point_mass[None], self.steps.matrices(prior)])
        return KernelLoss(
            root=centred_root(self.gram, prior)[0],
            r=r,
            limits=self._limits(stack, r),
            kernel=lambda heights: np.tensordot(heights, stack, 1),
            traces=lambda matrix: np.tensordot(stack, matrix, 2),
        )

    def _limits(self, stack: FloatArray, r: float) -> SizeLimits:
        """Sets of measure m: τ − m²ḡ, and the extreme sums of g − ḡπ, cells taken in part."""
        prior = self.prior
        small = np.geomspace(1e-3, 1, _GRID.sizes)
        even = np.linspace(0.01, 1, _GRID.sizes)
        m = np.unique(np.append(small, even))
        # A point mass stands before the steps.
        intervals = np.vstack([m, self.steps.interval(m)])

        gains = np.empty_like(intervals)
        smallest = np.empty_like(intervals)
        largest = np.empty_like(intervals)
        for k, t in enumerate(stack):
            sums = t.sum(axis=1)
            above = sums - sums.sum() * prior
            order = np.argsort(above / prior)
            ends = np.append(0.0, np.cumsum(prior[order]))
            rising = np.append(0.0, np.cumsum(above[order]))
            falling = rising[-1] - rising[::-1]

            gains[k] = intervals[k] - m * m * sums.sum()
            smallest[k] = np.interp(m, ends, rising)
            largest[k] = np.interp(m, 1 - ends[::-1], falling)

        return SizeLimits(
            gains=gains,
            smallest=smallest,
            largest=largest,
            rates=r * (1 + r * m),
            offsets=2 * r * r * m,
            scale=(1 + r * m) ** 2,
        )

    def _claim_at(self, point: FloatArray) -> Claim:
        heights = point[:-1] ** 2
        heights = heights / heights.sum()
        mass = float(heights[0])
        kernel = replace(self.steps, point=mass, heights=heights[1:])
        return Claim(kernel, self.prior, float(point[-1]))

    def claim(self, start: Claim | None = None) -> Claim:
        """The best kernel found for this prior, from a point mass on, or from another's."""
        count = 1 + len(self.steps.widths)
        point_mass = np.eye(count)[0]
        if start is None:
            heights = np.full(count, DESCENT.start_height)
            heights[0] = 1.0
            tilt = self._likely_tilt()
            sharpness = DESCENT.sharpness
            claims = [self._claim_at(np.append(point_mass, 0.0))]
        else:
            heights = np.append(start.kernel.point, start.kernel.heights)
            heights = heights + DESCENT.start_height / count
            tilt = start.tilt
            sharpness = DESCENT.sharpness[-1:]
            claims = [replace(start, prior=self.prior)]

        # Where no query tells people apart, there is nothing to descend on.
        if len(self._loss.root):
            point = np.append(np.sqrt(heights), tilt)
            claims += map(self._claim_at, self._loss.descents(point, sharpness))
        return max(claims, key=self.floor)

    def _likely_tilt(self) -> float:
        """The β at which sets of the likeliest measure have no slope."""
        r = expm1(self.epsilon)
        share = 1 / (1 + exp(self.epsilon))
        return 2 * r * share / (1 + r * share)

    def floor(self, claim: Claim) -> float:
        """What a claim proves over these cells."""
        return claim.floor(self.gram, self.epsilon)

    # --- the prior ------------------------------------------------------------------------------

    def improved(self, claim: Claim) -> Claim:
        """Prior and kernel in turn: the prior along slow waves, by slopes of the floor itself."""
        cells = len(self.prior)
        places = (np.arange(cells) + 0.5) / cells
        numbers = np.arange(1, _PRIOR.waves + 1)
        waves = np.cos(np.pi * np.outer(numbers, places))
        for _ in range(_PRIOR.turns):
            moved = self._moved(claim, waves)
            if moved is claim:
                break
            again = replace(self, prior=moved.prior).claim(moved)
            claim = max(moved, again, key=self.floor)
        return claim

    def _moved(self, claim: Claim, waves: FloatArray) -> Claim:
        """The claim with a prior uphill of its own, kernel and β fixed."""

        def along(claim: Claim, move: FloatArray) -> Claim:
            moved = _normalised(claim.prior * np.exp(move @ waves))
            return replace(claim, prior=moved)

        floor = self.floor(claim)
        nudges = _PRIOR.slope_step * np.eye(len(waves))
        nudged = [self.floor(along(claim, nudge)) for nudge in nudges]
        slopes = np.array(nudged) - floor
        steepest = float(np.abs(slopes).max())

        length = _PRIOR.first / max(steepest, _TINY)
        for _ in range(_PRIOR.most):
            if length * steepest <= _PRIOR.last:
                break
            trial = along(claim, length * slopes)
            value = self.floor(trial)
            if value > floor:
                claim = trial
                floor = value
            else:
                length /= 3

        return claim
