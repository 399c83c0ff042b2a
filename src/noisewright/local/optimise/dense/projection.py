"""Projection of columns onto box-bounded simplices, all columns at once.

Every column u is moved by its own shift λ_u and clipped, so that its weighted sum is right:
Σ_o weight_o · clip(r_ou + λ_u, low_o, high_o) = total. That is the nearest point in the norm whose
weights are `weight`. With weight 1, low z and high e^ε z it is the projection of strategy matrices
onto Q ≥ z, Q ≤ e^ε z, columns summing to one; with weight z, low 0 and high 1 it acts on the
position of each entry between its two bounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisewright.parallel import run_blocks
from noisewright.workload.base import FloatArray

_BLOCK_ENTRIES = 2**21
_NEWTON_STEPS = 80
_TOLERANCE = 1e-14

Bound = float | FloatArray


def project(
    r: FloatArray,
    weight: FloatArray,
    low: Bound,
    high: Bound,
    total: float,
    start: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """The projected matrix and the shift of each column; `low` and `high` are per row or scalar.

    The total must lie between weight·low and weight·high. `start` warms up the shifts.
    """
    rows, columns = r.shape
    result = np.empty_like(r)
    shifts = np.empty(columns)
    lower, upper = _per_row(low, rows), _per_row(high, rows)
    block = max(1, _BLOCK_ENTRIES // rows)

    def fill(first: int) -> None:
        part = slice(first, min(first + block, columns))
        guess = None if start is None else start[part]
        shifts[part] = _shifts(r[:, part], weight, lower, upper, total, guess)
        np.clip(r[:, part] + shifts[part], lower, upper, out=result[:, part])

    # Blocks of columns have nothing to do with each other.
    run_blocks(fill, range(0, columns, block))
    return result, shifts


def _per_row(bound: Bound, rows: int) -> FloatArray:
    return np.broadcast_to(np.asarray(bound, dtype=np.float64), (rows,))[:, None]


def _shifts(
    r: FloatArray,
    weight: FloatArray,
    low: FloatArray,
    high: FloatArray,
    total: float,
    guess: FloatArray | None,
) -> FloatArray:
    """Roots of monotone piecewise linear functions, by Newton steps kept inside a bracket.

    Newton from any point of a bracket is exact once it meets the right linear piece; the bracket
    is halved where the step would leave it or the function is flat.
    """
    left, right = (low - r).min(axis=0), (high - r).max(axis=0)
    shift = (left + right) / 2 if guess is None else np.clip(guess, left, right)
    active: npt.NDArray[np.intp] = np.arange(r.shape[1])
    for _ in range(_NEWTON_STEPS):
        moved = r[:, active] + shift[active]
        excess = weight @ np.clip(moved, low, high) - total
        open_columns = np.abs(excess) > _TOLERANCE * total
        if not open_columns.any():
            break
        moved, excess, active = moved[:, open_columns], excess[open_columns], active[open_columns]
        slope = weight @ ((moved > low) & (moved < high))
        here = shift[active]
        left[active] = np.where(excess < 0, here, left[active])
        right[active] = np.where(excess > 0, here, right[active])
        step = here - excess / np.where(slope > 0, slope, np.inf)
        inside = (step > left[active]) & (step < right[active])
        shift[active] = np.where(inside, step, (left[active] + right[active]) / 2)
    return shift
