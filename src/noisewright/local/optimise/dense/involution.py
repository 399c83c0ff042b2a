"""Designs that swapping cells in pairs leaves as they are: one pattern stands for its image too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.folding import Folding, folding_of
from noisewright.local.optimise.dense.design import Design


@dataclass(frozen=True, eq=False)
class Involution:
    """A relabelling of cells in pairs that changes no variance, its own inverse."""

    order: IntArray
    """The first cell of each pair, then the second ones, then cells that stay."""
    folding: Folding

    @classmethod
    def of(cls, gram: FloatArray) -> Involution:
        """The one that moves most cells."""
        return cls(*folding_of(gram))

    @classmethod
    def identity(cls, cells: int) -> Involution:
        """All cells stay."""
        return cls(np.arange(cells), Folding.none(cells))

    @cached_property
    def image(self) -> IntArray:
        """Where each cell goes."""
        first, second, _ = np.split(
            self.order, [self.folding.pairs, 2 * self.folding.pairs]
        )
        image = np.arange(len(self.order))
        image[first] = second
        image[second] = first
        return image

    def averaged(self, cells: FloatArray) -> FloatArray:
        """The mean of a vector over cells and its image."""
        return np.asarray((cells + cells[self.image]) / 2)

    def representatives(self, design: Design) -> Design:
        """One of each pattern and its image, with the weight of both."""
        if not self.folding.pairs:
            return design

        patterns = design.patterns
        images: BoolArray = patterns[:, self.image]
        first = (images != patterns).argmax(axis=1)
        rows = np.arange(len(patterns))

        # The one that holds the first cell in which both differ.
        later = images[rows, first] & ~patterns[rows, first]
        chosen = np.where(later[:, None], images, patterns)
        return Design(chosen, design.weights, design.epsilon).merged()

    def symmetrised(self, design: Design) -> Design:
        """The patterns and their images, half the weight each."""
        if not self.folding.pairs:
            return design

        patterns = np.concatenate([design.patterns, design.patterns[:, self.image]])
        weights = np.tile(design.weights / 2, 2)
        return Design(patterns, weights, design.epsilon).merged()
