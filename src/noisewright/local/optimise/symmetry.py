"""Strategies made of orbits: every translate of a few patterns, optimised in the transform domain.

An orbit is a pattern v with all its translates, equally likely. Its information is diagonal in the
characters, with eigenvalues n|v̂(χ)|²/(1ᵀv)², and every column sums to one by itself, so the best
strategy is the best mixture of orbits: min Σ_χ M_χ/λ_χ over mixtures λ. Patterns worth adding are
found by an ascent that costs two transforms a step. Where permutations of attributes or of values
also leave the workload unchanged, eigenvalues are averaged over their classes of characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.histogram.sets import best_subset_size, top_cells
from noisewright.local.transform.translations import Translations

# Of the largest eigenvalue: equal ones differ by rounding.
_TOLERANCE = 1e-9
# Of an ascent: only bounds time.
_ASCENT_STEPS = 30
# Towards a level: only bounds time.
_SPLIT_STEPS = 30


@dataclass(frozen=True, eq=False)
class Automorphisms:
    """What besides translations leaves an invariant matrix unchanged, read off its eigenvalues.

    `blocks` are attributes that may be exchanged; in a `free` attribute any two values may be. All
    are found by asking the eigenvalues; the labels number the classes of characters.
    """

    group: Translations
    blocks: tuple[tuple[int, ...], ...]
    free: tuple[bool, ...]
    labels: FloatArray

    @classmethod
    def of(cls, group: Translations, energies: FloatArray) -> Automorphisms:
        """The symmetries of the matrix with these eigenvalues at the kept characters."""
        tensor = group.everywhere(energies)
        tolerance = _TOLERANCE * float(np.abs(tensor).max(initial=1e-300))
        free = tuple(_is_free(tensor, axis, tolerance) for axis in range(tensor.ndim))
        blocks = _blocks(tensor, tolerance)
        return cls(group, blocks, free, _labels(group, blocks, free))

    def random(self, patterns: BoolArray, rng: np.random.Generator) -> BoolArray:
        """All patterns moved by one random symmetry."""
        sizes = self.group.sizes
        work = patterns.reshape(-1, *sizes)
        axes = np.arange(len(sizes))

        for block in self.blocks:
            axes[list(block)] = rng.permutation(block)

        work = work.transpose(0, *(1 + axes))
        for axis, free in enumerate(self.free):
            if free and sizes[axis] > 2:
                work = np.take(work, rng.permutation(sizes[axis]), axis=axis + 1)

        return np.ascontiguousarray(work).reshape(patterns.shape)


def _is_free(tensor: FloatArray, axis: int, tolerance: float) -> bool:
    """Whether the eigenvalues only ask if this attribute's part of the character is trivial."""
    moved = np.moveaxis(tensor, axis, 0)
    return bool(np.abs(moved[1:] - moved[1:2]).max(initial=0.0) <= tolerance)


def _blocks(tensor: FloatArray, tolerance: float) -> tuple[tuple[int, ...], ...]:
    """Attributes that can be exchanged two by two."""
    blocks: list[list[int]] = []
    for axis in range(tensor.ndim):
        for block in blocks:
            first = block[0]
            if tensor.shape[first] == tensor.shape[axis] and (
                np.abs(tensor - np.swapaxes(tensor, first, axis)).max() <= tolerance
            ):
                block.append(axis)
                break
        else:
            blocks.append([axis])

    return tuple(tuple(block) for block in blocks)


def _labels(
    group: Translations, blocks: tuple[tuple[int, ...], ...], free: tuple[bool, ...]
) -> FloatArray:
    """A number for each kept character, equal for those that a symmetry exchanges."""
    parts = list(np.unravel_index(np.arange(len(group.counts)), group.shape))
    reduced = [
        (part > 0).astype(np.int64) if is_free else part
        for part, is_free in zip(parts, free, strict=True)
    ]
    label = np.zeros(len(group.counts))

    for block in blocks:
        members = np.sort(np.stack([reduced[axis] for axis in block]), axis=0)
        base = float(max(group.sizes[block[0]], 2))
        for row in members:
            label = label * base + row

    # Products of sizes stay below the number of cells, far inside the whole numbers of a double.
    return np.asarray(label)


@dataclass(frozen=True, eq=False)
class Orbits:
    """Patterns with all their translates, and the share of reports each orbit gets."""

    group: Translations
    patterns: BoolArray
    shares: FloatArray
    epsilon: float

    @cached_property
    def information(self) -> FloatArray:
        """Eigenvalues of each orbit's information, one row per orbit."""
        return orbit_information(self.group, self.patterns, self.epsilon)

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of the information of the mixture."""
        return np.asarray(self.shares @ self.information)


def orbit_information(
    group: Translations, patterns: BoolArray, epsilon: float
) -> FloatArray:
    """n|v̂(χ)|²/(1ᵀv)² for each pattern; only the excess over the low value has a spectrum."""
    slope = expm1(epsilon)
    mass = group.cells + slope * patterns.sum(axis=1)
    power = group.power(patterns.astype(np.float64))
    result = power * (slope**2 * group.cells / mass**2)[:, None]
    result[:, 0] = group.cells
    return np.asarray(result)


@dataclass(frozen=True, eq=False)
class SymmetricProblem:
    """An invariant workload: its eigenvalue at every kept character, and its classes of them."""

    group: Translations
    energies: FloatArray
    epsilon: float

    @cached_property
    def automorphisms(self) -> Automorphisms:
        return Automorphisms.of(self.group, self.energies)

    @cached_property
    def needed(self) -> BoolArray:
        """Characters, without the trivial one, on which some query depends."""
        needed = self.energies > 1e-12 * self.energies[1:].max(initial=0.0)
        needed[0] = False
        return np.asarray(needed)

    @cached_property
    def weights(self) -> FloatArray:
        """Eigenvalues times multiplicities: what 1/λ is multiplied by."""
        return np.asarray(np.where(self.needed, self.energies, 0.0) * self.group.counts)

    @cached_property
    def classes(self) -> Classes:
        """Characters that a symmetry takes into each other."""
        return Classes.of(self.automorphisms.labels, self.group.counts, self.weights)

    def variance(self, value: float) -> float:
        """Variance per person of a strategy of this value Σ M_χ/λ_χ."""
        return value - float(self.weights.sum()) / self.group.cells

    def value(self, eigenvalues: FloatArray) -> float:
        """Σ_χ M_χ/λ_χ: infinite where a needed character is not seen."""
        with np.errstate(divide="ignore"):
            return float((self.weights[self.needed] / eigenvalues[self.needed]).sum())

    def gains(self, eigenvalues: FloatArray) -> FloatArray:
        """M_χ/λ_χ²: minus the derivative in each eigenvalue, per character."""
        result = np.zeros(len(eigenvalues))
        result[self.needed] = self.energies[self.needed] / eigenvalues[self.needed] ** 2
        return result

    def spectral_patterns(
        self, rows: int, rng: np.random.Generator, power: float
    ) -> BoolArray:
        """Gaussian rows with spectrum M^power, high at their largest cells."""
        shape = np.where(self.needed, self.energies, 0.0) / self.energies[1:].max()
        draws = self.group.apply(
            shape ** (power / 2), rng.standard_normal((rows, self.group.cells))
        )
        return top_cells(draws, best_subset_size(self.group.cells, self.epsilon))

    def ascend(self, patterns: BoolArray, gains: FloatArray) -> BoolArray:
        """Climb from each pattern to one whose orbit adds most, per unit, where gains are given.

        The gain Σ_χ gains_χ|v̂|²/(1ᵀv)² is a convex function of v/1ᵀv, so it lies above its tangent;
        the best pattern for the tangent holds the cells above a level, found without sorting.
        """
        slope = expm1(self.epsilon)
        gains = np.where(self.needed, gains, 0.0)
        gains = (gains / gains.max()).astype(
            np.float32
        )  # cells are only ranked: half the digits do
        patterns, moving = patterns.copy(), np.arange(len(patterns))

        for _ in range(_ASCENT_STEPS):
            before = patterns[moving]
            tangent = self.group.apply(gains, before.astype(np.float32))
            patterns[moving] = better = _above_level(tangent, slope)
            moving = moving[(better != before).any(axis=1)]
            if not moving.size:
                break

        return patterns


def _above_level(tangent: FloatArray, slope: float) -> BoolArray:
    """In every row, the set S that maximises Σ_S t / (n + slope·|S|), for rows that sum to zero."""
    n = tangent.shape[1]
    level = np.zeros((len(tangent), 1))
    chosen = tangent > level

    for _ in range(_SPLIT_STEPS):
        inside = np.einsum("ru,ru->r", tangent, chosen)
        level = (slope * inside / (n + slope * chosen.sum(axis=1)))[:, None]
        smaller = tangent > level
        if (smaller == chosen).all():
            break
        chosen = smaller

    return chosen


@dataclass(frozen=True, eq=False)
class Classes:
    """A partition of the needed characters, with sums over its parts."""

    labels: IntArray
    sizes: FloatArray
    weights: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, labels: FloatArray, counts: FloatArray, weights: FloatArray) -> Classes:
        """Classes of equal label among characters of positive weight; the rest get −1."""
        needed = weights > 0
        _, inverse = np.unique(labels[needed], return_inverse=True)
        numbers = np.full(len(labels), -1, dtype=np.int64)
        numbers[needed] = inverse
        sizes = np.bincount(inverse, counts[needed]).astype(np.float64)
        sums = np.bincount(inverse, weights[needed]).astype(np.float64)

        return cls(numbers, sizes, sums, counts)

    def mean(self, information: FloatArray) -> FloatArray:
        """Rows of eigenvalues averaged over each class."""
        needed = self.labels >= 0
        picked = (information * self.counts)[:, needed]
        order = np.argsort(self.labels[needed], kind="stable")
        starts = np.searchsorted(self.labels[needed][order], np.arange(len(self.sizes)))

        return np.asarray(
            np.add.reduceat(picked[:, order], starts, axis=1) / self.sizes
        )

    def spread(self, values: FloatArray) -> FloatArray:
        """A value per class, at every character; zero at the others."""
        return np.asarray(np.where(self.labels >= 0, values[self.labels], 0.0))
