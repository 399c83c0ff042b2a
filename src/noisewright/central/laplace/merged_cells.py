"""Cells that no query tells apart, counted as one: under pure privacy the sum costs no more.

Two cells whose columns of W are equal, or equal up to sign, enter every answer only through their
sum or difference. A strategy for the merged cells, spread back with the signs, has the same L1
sensitivity and the same errors; a column of zeros needs no measurement at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.errors import InvalidParameter
from noisewright.workload import Identity, Prefix, Ranges, Total, Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import DenseGram, Gram

_BITS = 36  # of an entry of the Gram matrix that agree where columns may be the same
_TINY = 1e-300
_BLOCK = 2**22  # numbers that are compared at once


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
    """The cells of a workload up to columns that agree, or agree up to sign, exactly."""
    size = workload.size
    each, one = np.arange(size), np.ones(size, dtype=np.int64)
    if isinstance(workload, Total):
        return MergedCells(0 * each, one, each[:1])
    if isinstance(workload, Identity | Prefix | Ranges):
        return MergedCells(each, one, each)
    owners, signs = _similar(workload.gram().dense())
    apart = _differing(workload, owners, signs)
    owners[apart], signs[apart] = apart, 1
    representatives = np.unique(owners[signs != 0])
    if not len(representatives):
        raise InvalidParameter("workload", workload.brief(), "is zero everywhere", "ask something")
    labels = np.where(signs != 0, np.searchsorted(representatives, owners), 0)
    return MergedCells(labels, signs, representatives)


def _similar(gram: FloatArray) -> tuple[Integers, Integers]:
    """For every cell the first whose column is the same, within rounding, and their sign."""
    each = np.arange(len(gram))
    rounded = np.rint(gram / max(float(np.abs(gram).max()), _TINY) * 2.0**_BITS)
    leading = np.sign(rounded[each, (rounded != 0).argmax(axis=1)])
    _, first, found = np.unique(
        rounded * leading[:, None], axis=0, return_index=True, return_inverse=True
    )
    owners = first[found.ravel()]
    return owners, (leading * leading[owners]).astype(np.int64)


def _differing(workload: Workload, owners: Integers, signs: Integers) -> Integers:
    """Cells whose column is not exactly what it is taken for: W(e_u − s·e_v) is not zero."""
    merged = np.flatnonzero((owners != np.arange(len(owners))) | (signs == 0))
    wrong = []
    step = max(1, _BLOCK // (workload.queries + workload.size))
    for start in range(0, len(merged), step):
        block = merged[start : start + step]
        differences = np.zeros((workload.size, len(block)))
        differences[owners[block], np.arange(len(block))] = -signs[block]
        differences[block, np.arange(len(block))] = 1.0
        wrong.append(block[np.asarray(workload.matvec(differences) != 0).any(axis=0)])
    return np.concatenate([np.zeros(0, dtype=np.int64), *wrong])
