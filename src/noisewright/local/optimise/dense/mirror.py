"""Designs that swapping cells in pairs leaves as they are: one pattern stands for its image too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.folding import Folding, folding_of
from noisewright.local.optimise.dense.design import Design

_FEW_CELLS = 64


@dataclass(frozen=True, eq=False)
class Mirror:
    """Cells that can be swapped in pairs without a change of any variance, on large domains."""

    order: IntArray
    folding: Folding

    @classmethod
    def of(cls, gram: FloatArray) -> Mirror:
        """Where weights are few, one image less is one start less."""
        return cls(*folding_of(gram)) if len(gram) > _FEW_CELLS else cls.none(len(gram))

    @classmethod
    def none(cls, cells: int) -> Mirror:
        """No cell has a partner."""
        return cls(np.arange(cells), Folding.none(cells))

    def _swapped(self, patterns: BoolArray) -> BoolArray:
        h = self.folding.pairs
        swap = self.order.copy()
        swap[self.order[:h]], swap[self.order[h : 2 * h]] = (
            self.order[h : 2 * h],
            self.order[:h],
        )
        swap[self.order[2 * h :]] = self.order[2 * h :]

        return patterns[:, swap]

    def halved(self, design: Design) -> Design:
        """One of each pattern and its image, with the weight of both."""
        if not self.folding.pairs:
            return design

        images = self._swapped(design.patterns)
        differ = (images != design.patterns).argmax(axis=1)
        later = images[np.arange(len(images)), differ] & ~(
            images == design.patterns
        ).all(axis=1)
        chosen = np.where(later[:, None], images, design.patterns)

        return Design(chosen, design.weights, design.epsilon).merged()

    def doubled(self, design: Design) -> Design:
        """The patterns and their images, half the weight each."""
        if not self.folding.pairs:
            return design
        patterns = np.concatenate([design.patterns, self._swapped(design.patterns)])
        return Design(patterns, np.tile(design.weights / 2, 2), design.epsilon).merged()
