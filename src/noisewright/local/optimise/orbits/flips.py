"""Descent by flipping cells of the patterns of a fixed number of orbits.

The gradient of Σ_χ M_χ/λ_χ in a pattern costs two transforms. The cells whose flip promises most
are flipped together in all patterns; the number flipped grows while the value falls and shrinks
when it does not. Every character is matched on its own here, where column generation would need an
orbit each.
"""

from __future__ import annotations

from math import expm1
from typing import Protocol

import numpy as np

from noisewright.local.optimise.control import Control
from noisewright.local.optimise.dense.starts import BoolArray
from noisewright.local.optimise.orbits.symmetric_search import Orbits
from noisewright.local.optimise.orbits.translations import Spectrum, Translations, squared_modulus
from noisewright.workload.base import FloatArray

_SAMPLE = 2**14
_LITTLE = 3e-5
_PATIENCE = 6


class EigenvalueProblem(Protocol):
    """A function of the eigenvalues of invariant information, to be made small."""

    @property
    def group(self) -> Translations:
        """Translations under which the information is invariant."""
        ...

    @property
    def epsilon(self) -> float:
        """The privacy budget."""
        ...

    def value(self, eigenvalues: FloatArray) -> float:
        """What is minimised; infinite where something needed is not seen."""
        ...

    def gains(self, eigenvalues: FloatArray) -> FloatArray:
        """Minus the derivative in each eigenvalue, per character."""
        ...

    def variance(self, value: float) -> float:
        """Variance per person at a value."""
        ...


class _State:
    """Patterns with their spectra, and the information they give together."""

    def __init__(self, problem: EigenvalueProblem, patterns: BoolArray, shares: FloatArray) -> None:
        n, slope = problem.group.cells, expm1(problem.epsilon)
        self.patterns = patterns
        self.spectrum: Spectrum = problem.group.forward(patterns.astype(np.float64))
        self.mass = n + slope * patterns.sum(axis=1)
        scale = shares * (slope / self.mass) ** 2 * n
        self.eigenvalues = scale @ squared_modulus(self.spectrum)
        self.value = problem.value(self.eigenvalues)


def flip_cells(
    problem: EigenvalueProblem, orbits: Orbits, iterations: int, control: Control
) -> Orbits:
    """Improve the patterns of the orbits at fixed shares; never worse than the start."""
    n = problem.group.cells
    state = _State(problem, orbits.patterns, orbits.shares)
    if not np.isfinite(state.value):
        return orbits
    fraction, idle = 0.02, 0
    for _ in range(iterations):
        promise = _promise(problem, state)
        levels = _upper_levels(promise, fraction)
        moved = _State(problem, state.patterns ^ (promise > levels), orbits.shares)
        idle = idle + 1 if moved.value > state.value * (1 - _LITTLE) else 0
        if moved.value < state.value:
            state, fraction = moved, min(1.3 * fraction, 0.5)
        else:
            fraction /= 2
        if control.step("cells", problem.variance(state.value)):
            break
        if fraction * n < 1 or idle == _PATIENCE:
            break
    return Orbits(orbits.group, state.patterns, orbits.shares, orbits.epsilon)


def _promise(problem: EigenvalueProblem, state: _State) -> FloatArray:
    """How much the flip of each cell would lower the value, to first order and up to scale."""
    slope = expm1(problem.epsilon)
    tangent = problem.group.backward(state.spectrum * problem.gains(state.eigenvalues))
    inside = np.einsum("ru,ru->r", tangent, state.patterns)
    tangent -= (slope * inside / state.mass)[:, None]
    np.negative(tangent, out=tangent, where=state.patterns)
    return tangent


def _upper_levels(promise: FloatArray, fraction: float) -> FloatArray:
    """For each row, the level above which a fraction of it lies (from a sample of cells), or 0."""
    n = promise.shape[1]
    part = promise[:, :: max(1, n // _SAMPLE)]
    count = min(max(1, int(fraction * part.shape[1])), part.shape[1] - 1)
    levels = np.partition(part, part.shape[1] - 1 - count, axis=1)[:, -1 - count]
    return np.maximum(levels, 0.0)[:, None]
