"""The search for a falling kernel and a prior that prove most, on cells merged until they are few.

Kernel and prior are functions on [0, 1], so that what is found for few cells says what to try on
many: neighbours share their cell's part of the prior evenly. `intervals.Claim` proves either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, expm1

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.intervals import (
    Claim,
    FallingKernel,
    centred_root,
)

_MOST_CELLS = 64
_MORE_CELLS = 256
_WIDTHS = 24
_SHARPNESS = (30.0, 300.0, 3000.0)
_EVALUATIONS = 25
_START = 1e-3
_WAVES = 6
_TURNS = 3
_SLOPE_STEP = 1e-4
_MOVES = 40  # of a prior that goes on rising: most stop after ten


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
    searches = [_KernelSearch(few, epsilon, start, steps) for start in (coarse, even)]
    claim = max(
        (search.kernel() for search in searches), key=lambda c: c.floor(few, epsilon)
    )
    claim = _KernelSearch(few, epsilon, claim.prior, steps).improved(claim)
    prior = _even_total((claim.prior / even)[runs])
    more, middle, _ = merged(gram, prior, _MORE_CELLS)
    if len(more) > len(few):
        claim = _KernelSearch(more, epsilon, middle, steps).kernel(claim)

    return replace(claim, prior=prior)


def _steps(cells: int) -> FallingKernel:
    """Steps of all widths, closer when small."""
    line = np.geomspace(0.5 / cells, 0.9, _WIDTHS)
    widths = np.concatenate([line, line[line < 0.45]])
    circular = np.concatenate([np.zeros(_WIDTHS), np.ones(len(widths) - _WIDTHS)])
    return FallingKernel(0.0, widths, circular, np.zeros(len(widths)))


def _even_total(prior: FloatArray) -> FloatArray:
    return np.asarray(prior / prior.sum())


@dataclass(frozen=True, eq=False)
class _KernelSearch:
    """Weights of steps and β for one prior, by descent with a softened maximum over m."""

    gram: FloatArray
    epsilon: float
    prior: FloatArray
    steps: FallingKernel

    @cached_property
    def _problem(
        self,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """T of the point mass and all steps; nodes m; τ − m²ḡ and extreme sums of g − ḡπ there."""
        prior = self.prior
        stack = np.concatenate([np.diag(prior)[None], self.steps.matrices(prior)])
        m = np.unique(
            np.concatenate([np.geomspace(1e-3, 1, 60), np.linspace(0.01, 1, 60)])
        )
        intervals = np.concatenate([m[None], self.steps.interval(m)])
        gains = []
        small = []
        large = []

        for t, interval in zip(stack, intervals, strict=True):
            sums = t.sum(axis=1)
            above = sums - sums.sum() * prior
            order = np.argsort(above / prior)
            ends = np.concatenate([[0.0], np.cumsum(prior[order])])
            low = np.concatenate([[0.0], np.cumsum(above[order])])
            gains.append(interval - m * m * sums.sum())
            small.append(np.interp(m, ends, low))
            large.append(np.interp(m, 1 - ends[::-1], low[-1] - low[::-1]))

        return stack, m, np.array(gains), np.array(small), np.array(large)

    @cached_property
    def _root(self) -> FloatArray:
        return centred_root(self.gram, self.prior)[0]

    def _loss(self, point: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """−log of t²/Λ and its gradient in the roots of weights and in β."""
        r = expm1(self.epsilon)
        heights = point[:-1] ** 2
        tilt = float(point[-1])
        stack, m, gains, small, large = self._problem
        inner = self._root @ np.tensordot(heights, stack, 1) @ self._root.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        roots = np.sqrt(np.maximum(values, 1e-12 * np.abs(values).max()))
        half = (vectors / np.sqrt(roots)).T @ self._root
        pull = np.tensordot(stack, half.T @ half, 2) / roots.sum()
        slope = r * tilt * (1 + r * m) - 2 * r * r * m
        extreme = np.where(slope > 0, large, small)
        table = (r * r * gains + slope * extreme) / (1 + r * m) ** 2
        limits = np.maximum(heights @ table, 1e-300)
        logs = sharpness * np.log(limits)
        soft = np.exp(logs - logs.max())
        weights = soft / soft.sum() / limits
        by_tilt = float((heights @ extreme * r / (1 + r * m)) @ weights)
        value = -2 * np.log(roots.sum()) + (logs.max() + np.log(soft.sum())) / sharpness

        return float(value), np.append(
            (table @ weights - pull) * 2 * point[:-1], by_tilt
        )

    def _claim(self, point: FloatArray) -> Claim:
        heights = point[:-1] ** 2 / (point[:-1] ** 2).sum()
        kernel = replace(self.steps, point=float(heights[0]), heights=heights[1:])
        return Claim(kernel, self.prior, float(point[-1]))

    def kernel(self, start: Claim | None = None) -> Claim:
        """The best kernel found for this prior, from a point mass on, or from another's."""
        from scipy.optimize import minimize

        r = expm1(self.epsilon)
        likely = 1 / (1 + exp(self.epsilon))
        count = 1 + len(self.steps.widths)
        heights = np.full(count, _START)
        tilt = 2 * r * likely / (1 + r * likely)
        heights[0] = 1.0
        claims = [self._claim(np.append(np.eye(count)[0], 0.0))]
        if start is not None:
            claims = [replace(start, prior=self.prior)]
            tilt = start.tilt
            heights = (
                np.append(start.kernel.point, start.kernel.heights) + _START / count
            )

        point = np.append(np.sqrt(heights), tilt)
        for sharpness in _SHARPNESS if start is None else _SHARPNESS[-1:]:
            try:
                point = minimize(
                    self._loss,
                    point,
                    (sharpness,),
                    jac=True,
                    method="L-BFGS-B",
                    options={"maxiter": _EVALUATIONS, "maxfun": _EVALUATIONS},
                ).x
            except np.linalg.LinAlgError:
                # a step beyond double precision: every point before it proves its floor
                break
            claims.append(self._claim(point))

        return max(claims, key=lambda claim: claim.floor(self.gram, self.epsilon))

    def improved(self, claim: Claim) -> Claim:
        """Prior and kernel in turn: the prior along slow waves, by slopes of the floor itself."""
        floor = claim.floor(self.gram, self.epsilon)
        places = (np.arange(len(self.prior)) + 0.5) / len(self.prior)
        waves = np.cos(np.pi * np.outer(np.arange(1, _WAVES + 1), places))

        for _ in range(_TURNS):
            moved = self._moved(claim, floor, waves)
            if moved is claim:
                return moved
            fresh = replace(self, prior=moved.prior).kernel(moved)
            claim = max(
                (moved, fresh), key=lambda one: one.floor(self.gram, self.epsilon)
            )
            floor = claim.floor(self.gram, self.epsilon)

        return claim

    def _moved(self, claim: Claim, floor: float, waves: FloatArray) -> Claim:
        """The claim with a prior uphill of its own, kernel and β fixed."""

        def along(move: FloatArray) -> Claim:
            return replace(claim, prior=_even_total(claim.prior * np.exp(move @ waves)))

        steps = _SLOPE_STEP * np.eye(len(waves))
        slopes = np.array(
            [along(s).floor(self.gram, self.epsilon) - floor for s in steps]
        )
        length = 0.3 / max(float(np.abs(slopes).max()), 1e-300)
        best = claim

        for _ in range(_MOVES):
            if length * float(np.abs(slopes).max()) <= 1e-3:
                break
            trial = along(length * slopes)
            value = trial.floor(self.gram, self.epsilon)
            if value > floor:
                best = trial
                floor = value
                claim = trial
            else:
                length /= 3

        return best
