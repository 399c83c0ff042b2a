"""Explicit matrices of many queries over few cells, sparse or dense, from their Gram matrices.

What a strategy over n cells costs depends on the queries through WᵀW (or WᵀD_aW) alone: nothing is
sorted, merged or made dense but n × n matrices. Squares halve the digits, so that this is for
matrices whose queries span the cells they use well; others are solved in full.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noisewright.arrays import FloatArray, IndexArray
from noisewright.norm.kernel.factorization import (
    Part,
    Settings,
    dense_weights,
    solve_numerically,
)
from noisewright.norm.kernel.problems import (
    WELL_CONDITIONED,
    GramProblem,
    RowwiseProblem,
)
from noisewright.norm.kernel.solver import Weights
from noisewright.workload.kinds.atoms import Explicit
from noisewright.workload.linear.maps import Adjoint, Folded

_FEWEST_ENTRIES = 2**21  # smaller matrices are solved in full within a second
_MOST_CELLS = 4096
_LOST = 1e-6  # of a query's largest entry: what may not come back from the measurements


def solve_tall(workload: Explicit, settings: Settings) -> Part | None:
    """The factorization by Gram matrices; None where the matrix is none for them."""
    queries, size = workload.shape
    if queries * size < _FEWEST_ENTRIES or queries < 2 * size:
        return None

    lengths = workload.column_norms()
    used = np.flatnonzero(lengths)
    if not 0 < used.size <= _MOST_CELLS or not np.isfinite(lengths).all():
        return None

    narrow = workload if used.size == size else Explicit(workload.matrix[:, used])
    gram = narrow.gram().dense()
    if not _well_conditioned(gram):
        return None

    if settings.start is not None:
        settings = _narrowed(settings, used)

    problem = GramProblem(gram) if settings.norm == 2 else RowwiseProblem(narrow)
    part = solve_numerically(narrow, problem, settings)
    if not _comes_back(narrow, part):
        return None

    return part if narrow is workload else _widened(part, used, size)


def _well_conditioned(gram: FloatArray) -> bool:
    """Whether squares keep enough digits, also of cells that are seen far less than others."""
    if not np.isfinite(gram).all():
        return False
    lengths = np.sqrt(np.diagonal(gram))
    values = np.linalg.eigvalsh(gram / lengths[:, None] / lengths)
    far = float(lengths.min() / lengths.max()) ** 2
    return bool(min(values[0] / values[-1], far) > 1e3 * WELL_CONDITIONED)


def _comes_back(workload: Explicit, part: Part) -> bool:
    """Whether W·A⁺·A is W again in every query, by the largest that any entry can be off."""
    strategy = part.strategy.dense()
    inverse = part.inverse.dense()
    off = float(np.abs(np.eye(workload.size) - inverse @ strategy).max())
    sizes = abs(workload.matrix)
    largest = sizes.max(axis=1)
    most = np.ravel(largest if workload.sparse is None else largest.toarray())
    return not (np.ravel(sizes.sum(axis=1)) * off > _LOST * most).any()


def _narrowed(settings: Settings, used: IndexArray) -> Settings:
    assert settings.start is not None
    return replace(settings, start=Weights(settings.start.a, settings.start.b[used]))


def _widened(part: Part, used: IndexArray, size: int) -> Part:
    """The same over all cells, those that no query uses left out of every measurement."""
    position = np.zeros(size, dtype=np.intp)
    scale = np.zeros(size)
    position[used], scale[used] = np.arange(used.size), 1.0
    b = np.zeros(size)
    b[used] = part.certificate.column_weights()

    return replace(
        part,
        strategy=Folded(part.strategy, position, scale),
        inverse=Adjoint(Folded(Adjoint(part.inverse), position, scale)),
        certificate=dense_weights(part.certificate.row_weights(), b),
    )
