"""Cells that no query tells apart, taken together.

If W has equal columns at two cells, M = PMP for the mean P over groups of such cells, and giving
all cells of a group the mean of their chances turns X into PXP. The inverse of a compression is at
most the compression of the inverse, so no error rises: a search over groups loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.local.strategy import IntArray
from noisewright.workload.base import FloatArray

_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Types:
    """The group of every cell, and one cell of each group."""

    group: IntArray
    first: IntArray

    @classmethod
    def of(cls, gram: FloatArray) -> Types:
        """Groups of equal rows of a Gram matrix, told apart by their products with random vectors.

        Rows that differ have equal products only by a coincidence of nine digits in all of them.
        """
        random = np.random.default_rng(0).standard_normal((len(gram), 3))
        image = gram @ random
        scale = max(float(np.abs(image).max(initial=0.0)), 1e-300)
        # Rounding after a shift: equal numbers but for the last bit round alike almost surely.
        keys = np.round(image / scale + 0.314159e-9, _DIGITS)
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return cls(group.ravel(), first)

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.first)

    def merged_gram(self, gram: FloatArray) -> FloatArray:
        """The Gram matrix over groups."""
        return gram[np.ix_(self.first, self.first)]

    def merged(self, prior: FloatArray) -> FloatArray:
        """A distribution over cells, summed over groups."""
        return np.bincount(self.group, prior, minlength=self.count).astype(np.float64)

    def spread(self, merged: FloatArray, prior: FloatArray) -> FloatArray:
        """A distribution over groups, spread over their cells as `prior` is."""
        return np.asarray(prior * (merged / self.merged(prior))[self.group])
