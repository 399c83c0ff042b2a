"""Symmetries beyond translations: permutations of like attributes, of values, and reflections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.local.optimise.dense.starts import BoolArray
from noisewright.local.optimise.orbits.translations import Translations
from noisewright.workload.base import FloatArray

_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Automorphisms:
    """What else leaves an invariant matrix unchanged, read off its eigenvalues.

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
        tensor = _full(group, energies)
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


def _full(group: Translations, energies: FloatArray) -> FloatArray:
    """Eigenvalues at all characters, as a tensor, from those at the kept ones."""
    kept = energies.reshape(group.shape)
    if group.binary:
        return kept
    full = np.empty(group.sizes)
    half = group.shape[-1]
    full[..., :half] = kept
    rest = group.sizes[-1] - half
    if rest:
        opposite = kept[..., 1 : rest + 1][..., ::-1]
        for axis in range(kept.ndim - 1):
            opposite = np.take(opposite, -np.arange(group.sizes[axis]), axis=axis)
        full[..., half:] = opposite
    return full


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
