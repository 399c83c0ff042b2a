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
from noisewright.local.bounds.ordered.intervals import (
    Claim,
    FallingKernel,
    centred_root,
)

SHARPNESS = (30.0, 300.0, 3000.0)
"""Exponents of the softened maximum, descent by descent: the first alone proves up to 2 % less at
ε = 4, half or double of all three changes the fourth digit."""

START_HEIGHT = 1e-3
"""Of all steps together at the start, beside a point mass of one: a height of zero would stay zero,
and ten times more or less changes the fourth digit."""

_EVALUATIONS = 25
"""In a descent: half of them prove up to 2 % less at ε = 4, twice as many up to 0.1 % more."""

_MOST_CELLS = 64  # of the search for a prior
_MORE_CELLS = (
    256  # of the kernel's last descent: without it floors at 96 cells are 1 % lower
)
_WIDTHS = 24  # of steps on the line: half as many prove up to 2.5 % less, 48 take longer for 0.1 %
_SIZES = (
    60  # nodes of the measure of a set, on a logarithmic line and on an even one each
)
_FLAT = 1e-12  # of the largest eigenvalue: what its square root is kept from, for the slopes

_WAVES = 6  # slow waves along which a prior moves: half as many prove 1 % less at ε = 4
_TURNS = 3  # of prior and kernel: a single one proves 0.2 % less at ε = 4
_MOVES = 40  # of a prior that goes on rising: most stop after ten
_SLOPE_STEP = (
    1e-4  # of a difference quotient: ten times more or less changes the fourth digit
)
_FIRST_MOVE = 0.3  # in the logarithms of the prior, along the steepest wave
_LAST_MOVE = 1e-3  # shorter ones change nothing that is seen


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
        heights = point[:-1] ** 2
        tilt = float(point[-1])

        # t = tr(RTRᵀ)^½; its slope along a step is ½·tr(T_k Rᵀ(RTRᵀ)^-½R).
        inner = self.root @ self.kernel(heights) @ self.root.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        roots = np.sqrt(np.maximum(values, _FLAT * np.abs(values).max()))
        fidelity = roots.sum()
        half = (vectors / np.sqrt(roots)).T @ self.root
        fidelity_slopes = self.traces(half.T @ half) / fidelity

        # log Λ, the maximum softened: shares of the sizes that decide it.
        by_step, by_tilt = self.limits.at(tilt, self.r)
        limits = np.maximum(heights @ by_step, 1e-300)
        logs = sharpness * np.log(limits)
        soft = np.exp(logs - logs.max())
        shares = soft / soft.sum() / limits
        limit = (logs.max() + np.log(soft.sum())) / sharpness
        limit_slopes = by_step @ shares
        tilt_slope = (heights @ by_tilt) @ shares

        height_slopes = (limit_slopes - fidelity_slopes) * 2 * point[:-1]
        loss = float(limit - 2 * np.log(fidelity))
        return loss, np.append(height_slopes, tilt_slope)

    def descents(
        self, point: FloatArray, sharpness: Sequence[float]
    ) -> Iterator[FloatArray]:
        """Where descents end, each from the end of the one before."""
        from scipy.optimize import minimize

        for exponent in sharpness:
            try:
                point = minimize(
                    self,
                    point,
                    (exponent,),
                    jac=True,
                    method="L-BFGS-B",
                    options={"maxiter": _EVALUATIONS, "maxfun": _EVALUATIONS},
                ).x
            except np.linalg.LinAlgError:
                # A step beyond double precision: every point before it proves its floor.
                return
            yield point


def merged(
    gram: FloatArray, prior: FloatArray, most: int = _MOST_CELLS
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Gram matrix and prior over runs of cells, few enough, and the run of each cell."""
    n = len(gram)
    runs = np.arange(n) // -(-n // most)
    shares = np.zeros((n, int(runs[-1]) + 1))
    shares[np.arange(n), runs] = 1.0
    shares /= shares.sum(axis=0)
    sums = np.asarray(np.bincount(runs, prior), dtype=np.float64)
    return shares.T @ gram @ shares, sums, runs.astype(np.int64)


def best_claim(gram: FloatArray, epsilon: float, prior: FloatArray) -> Claim:
    """A claim over all cells: kernel and prior from a search over few, the kernel again over more.

    From the prior given and from an even one, whichever leads further.
    """
    steps = _steps(len(gram))
    few, coarse, runs = merged(gram, prior)
    even = np.bincount(runs) / len(gram)
    searches = [_ClaimSearch(few, epsilon, start, steps) for start in (coarse, even)]
    claims = [search.claim() for search in searches]
    best = max(claims, key=lambda claim: claim.floor(few, epsilon))
    best = _ClaimSearch(few, epsilon, best.prior, steps).improved(best)

    prior = _normalised((best.prior / even)[runs])
    more, middle, _ = merged(gram, prior, _MORE_CELLS)
    if len(more) > len(few):
        best = _ClaimSearch(more, epsilon, middle, steps).claim(best)
    return replace(best, prior=prior)


def _steps(cells: int) -> FallingKernel:
    """Steps of all widths, closer when small."""
    line = np.geomspace(0.5 / cells, 0.9, _WIDTHS)
    widths = np.concatenate([line, line[line < 0.45]])
    circular = (np.arange(len(widths)) >= _WIDTHS).astype(float)
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
        stack = np.concatenate([np.diag(prior)[None], self.steps.matrices(prior)])
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
        spread = np.geomspace(1e-3, 1, _SIZES), np.linspace(0.01, 1, _SIZES)
        m = np.unique(np.concatenate(spread))
        intervals = np.concatenate([m[None], self.steps.interval(m)])
        gains = []
        smallest = []
        largest = []

        for t, interval in zip(stack, intervals, strict=True):
            sums = t.sum(axis=1)
            above = sums - sums.sum() * prior
            order = np.argsort(above / prior)
            ends = np.concatenate([[0.0], np.cumsum(prior[order])])
            rising = np.concatenate([[0.0], np.cumsum(above[order])])
            falling = rising[-1] - rising[::-1]
            gains.append(interval - m * m * sums.sum())
            smallest.append(np.interp(m, ends, rising))
            largest.append(np.interp(m, 1 - ends[::-1], falling))

        return SizeLimits(
            gains=np.array(gains),
            smallest=np.array(smallest),
            largest=np.array(largest),
            rates=r * (1 + r * m),
            offsets=2 * r * r * m,
            scale=(1 + r * m) ** 2,
        )

    def _claim_at(self, point: FloatArray) -> Claim:
        heights = point[:-1] ** 2 / (point[:-1] ** 2).sum()
        kernel = replace(self.steps, point=float(heights[0]), heights=heights[1:])
        return Claim(kernel, self.prior, float(point[-1]))

    def claim(self, start: Claim | None = None) -> Claim:
        """The best kernel found for this prior, from a point mass on, or from another's."""
        count = 1 + len(self.steps.widths)
        if start is None:
            r = expm1(self.epsilon)
            share = 1 / (1 + exp(self.epsilon))
            tilt = 2 * r * share / (1 + r * share)
            heights = np.full(count, START_HEIGHT)
            heights[0] = 1.0
            claims = [self._claim_at(np.append(np.eye(count)[0], 0.0))]
        else:
            tilt = start.tilt
            heights = np.append(start.kernel.point, start.kernel.heights)
            heights = heights + START_HEIGHT / count
            claims = [replace(start, prior=self.prior)]

        point = np.append(np.sqrt(heights), tilt)
        sharpness = SHARPNESS if start is None else SHARPNESS[-1:]
        claims += map(self._claim_at, self._loss.descents(point, sharpness))
        return max(claims, key=self._floor)

    def _floor(self, claim: Claim) -> float:
        return claim.floor(self.gram, self.epsilon)

    def improved(self, claim: Claim) -> Claim:
        """Prior and kernel in turn: the prior along slow waves, by slopes of the floor itself."""
        places = (np.arange(len(self.prior)) + 0.5) / len(self.prior)
        waves = np.cos(np.pi * np.outer(np.arange(1, _WAVES + 1), places))
        for _ in range(_TURNS):
            moved = self._moved(claim, waves)
            if moved is claim:
                break
            again = replace(self, prior=moved.prior).claim(moved)
            claim = max((moved, again), key=self._floor)
        return claim

    def _moved(self, claim: Claim, waves: FloatArray) -> Claim:
        """The claim with a prior uphill of its own, kernel and β fixed."""

        def along(claim: Claim, move: FloatArray) -> Claim:
            moved = _normalised(claim.prior * np.exp(move @ waves))
            return replace(claim, prior=moved)

        floor = self._floor(claim)
        nudges = _SLOPE_STEP * np.eye(len(waves))
        slopes = np.array([self._floor(along(claim, nudge)) for nudge in nudges])
        slopes -= floor
        steepest = float(np.abs(slopes).max())
        length = _FIRST_MOVE / max(steepest, 1e-300)

        for _ in range(_MOVES):
            if length * steepest <= _LAST_MOVE:
                break
            trial = along(claim, length * slopes)
            value = self._floor(trial)
            if value > floor:
                claim = trial
                floor = value
            else:
                length /= 3

        return claim
