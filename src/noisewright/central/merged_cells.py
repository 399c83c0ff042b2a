"""Cells that no query tells apart, counted as one: under pure privacy the sum costs no more.

Two cells whose columns of W are equal, or equal up to sign, enter every answer only through their
sum or difference. A strategy for the merged cells, spread back with the signs, has the same L1
sensitivity and the same errors; a column of zeros needs no measurement at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.central.axes import Integers
from noisewright.errors import InvalidParameter
from noisewright.workload import Identity, Prefix, Ranges, Total, Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import DenseGram, Gram

_BITS = 36  # of an entry of the Gram matrix that must agree: what is beyond is rounding
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class MergedCells:
    """Class and sign of every cell (sign 0: in no query), and one cell of each class."""

    labels: Integers
    signs: Integers
    representatives: Integers

    @property
    def classes(self) -> int:
        """Number of merged cells."""
        return len(self.representatives)

    def merge(self, gram: Gram) -> Gram:
        """The Gram matrix over the merged cells."""
        kept = self.representatives
        return DenseGram(gram.dense()[np.ix_(kept, kept)])

    def spread(self, strategy: Integers) -> Integers:
        """A strategy over the merged cells as one over all cells."""
        return np.ascontiguousarray(strategy[:, self.labels] * self.signs)

    def covariance(self, merged: FloatArray) -> FloatArray:
        """A matrix over all cells with the merged cells' variance for every query."""
        if self.classes == len(self.labels):
            return merged
        full = np.zeros((len(self.labels),) * 2)
        full[np.ix_(self.representatives, self.representatives)] = merged
        return full


def merged_cells(workload: Workload) -> MergedCells:
    """The cells of a workload up to columns that agree."""
    size = workload.size
    each, one = np.arange(size), np.ones(size, dtype=np.int64)
    if isinstance(workload, Total):
        return MergedCells(0 * each, one, each[:1])
    if isinstance(workload, Identity | Prefix | Ranges):
        return MergedCells(each, one, each)
    gram = workload.gram().dense()
    rounded = np.rint(gram / max(float(np.abs(gram).max()), _TINY) * 2.0**_BITS)
    leading = rounded[each, (rounded != 0).argmax(axis=1)]
    signs = np.sign(leading).astype(np.int64)
    kept = np.flatnonzero(signs)
    if not len(kept):
        raise InvalidParameter("workload", workload.brief(), "is zero everywhere", "ask something")
    _, first, found = np.unique(
        rounded[kept] * signs[kept, None], axis=0, return_index=True, return_inverse=True
    )
    labels = 0 * each
    labels[kept] = np.argsort(np.argsort(first))[found.ravel()]
    representatives = kept[np.sort(first)]
    return MergedCells(labels, signs * signs[representatives][labels], representatives)
