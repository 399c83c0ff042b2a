"""A strategy that somebody brings: their matrix on an integer grid, measured and valued like ours.

Entries that are whole numbers are measured as they are. Others are rounded to a fine grid, without
moving the row space that the queries need; sensitivity, noise and answers are then those of the
integers, so that the promise is exact whatever the matrix was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.quantise import (
    bits_each,
    grid_bits,
    integer_basis,
    rounded,
    small_integers,
)
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.products import as_one_axis, fine_grid, refuses_dense
from noisewright.central.problem import Candidate, CentralProblem
from noisewright.errors import InvalidParameter, OutOfReach, TooLarge, require
from noisewright.workload import Workload

NAME = "own-strategy"

_MOST_BITS = 18
_LARGEST_WHOLE = 2**20  # whole numbers up to here are taken as they are
_LOST = 1e-6  # of a query's largest entry: what may not come back from the measurements
_RANK = 1e-9
_MOST_ENTRIES = 2**26


def own_candidate(problem: CentralProblem, matrix: npt.ArrayLike) -> Candidate:
    """The given matrix (a row per measurement, a column per cell) as a candidate for a problem."""
    workload = problem.workload
    real = checked_matrix(matrix, workload.size)
    _check_support(real, workload)
    whole = _on_grid(
        real, workload, bits_each(_bits(problem, len(real)), 1, _MOST_BITS)
    )
    block = Block((0,), (whole,), multiplier=fine_grid([whole]))
    strategy = BlockStrategy((workload.size,), (block,))
    asked = [as_one_axis(workload)]
    value = unit_error(
        strategy,
        asked,
        problem.norm,
        problem.order,
        problem.neighbours,
    )
    status = f"{len(whole):,} measurements, as given"

    return Candidate(
        strategy,
        value,
        None,
        "none",
        status,
        problem.neighbours,
    )


def _bits(problem: CentralProblem, rows: int) -> int:
    """Bits of the entries with which the budget's noise can be drawn."""
    epsilon = problem.privacy.epsilon
    pure = problem.order == 1 and epsilon is not None
    return grid_bits(rows / epsilon) if pure and epsilon else problem.grid_bits


def checked_matrix(matrix: npt.ArrayLike, cells: int) -> FloatArray:
    """The matrix as numbers, one column per cell."""
    if reason := refuses_dense(cells):
        raise TooLarge(reason)

    try:
        real = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "strategy", type(matrix).__name__, "must be a matrix of numbers"
        ) from None

    require(
        real.ndim == 2
        and real.shape[1] == cells
        and len(real)
        and real.size <= _MOST_ENTRIES,
        "strategy",
        f"array of shape {real.shape}",
        f"must have one column per cell ({cells}) and at least one row",
        "give one row per measurement",
    )
    require(
        np.isfinite(real).all() and real.any(),
        "strategy",
        f"array of shape {real.shape}",
        "must have finite entries, not all zero",
    )

    return np.asarray(real[np.abs(real).max(axis=1) > 0])


def _check_support(real: FloatArray, workload: Workload) -> None:
    """Refuse a strategy from whose measurements a query does not follow."""
    lengths = np.abs(real).max(axis=1, keepdims=True)
    _, s, vt = np.linalg.svd(real / lengths, full_matrices=False)
    span = vt[s > _RANK * s[0]]
    if len(span) == workload.size:
        return

    for where, rows in workload.blocks_of_rows():
        lost = np.abs(rows - (rows @ span.T) @ span).max(axis=1)
        missed = np.flatnonzero(lost > _LOST * np.abs(rows).max(axis=1))
        if missed.size:
            raise OutOfReach(
                f"query {where.start + int(missed[0])} does not follow from the measurements of "
                f"`strategy` (it lies outside its row space); add rows that determine it"
            )


def _on_grid(
    real: FloatArray,
    workload: Workload,
    bits: int,
) -> IntArray:
    if (real == np.rint(real)).all() and np.abs(real).max() <= _LARGEST_WHOLE:
        return real.astype(np.int64)

    exact = small_integers(real)
    if exact is not None:
        return exact

    rank = int(np.linalg.matrix_rank(real))
    if rank == real.shape[1]:
        return rounded(real, bits)

    basis = integer_basis(workload)
    if basis is None or rank != len(basis):
        raise InvalidParameter(
            "strategy",
            f"matrix of rank {rank} over {real.shape[1]} cells",
            "cannot be rounded to a grid without losing queries",
            "scale it to whole numbers, or let its rows span all cells or just the queries",
        )

    return rounded(real @ np.linalg.pinv(basis.astype(np.float64)), bits) @ basis
