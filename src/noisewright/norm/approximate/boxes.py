"""The least γ2 of any matrix in a box: lower and upper limits of every entry, some without limit.

min { γ2(Z) : lower ≤ Z − s1ᵀ ≤ upper }, with s zero or a free shift of every row. Two searches
look for the matrix Z and a dual witness U (`box_search`, `tall_search`). Neither is trusted: the
value is that of an exact factorization of Z, the bound is recomputed from U.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import Contradiction, TooLarge, require
from noisewright.norm.approximate.box import Box, BoxWitness, Pair
from noisewright.norm.approximate.box_search import BoxSearch
from noisewright.norm.approximate.tall_search import TallSearch
from noisewright.norm.factorize import Factorization, factorize
from noisewright.solution import SLACK, Solution, Status, quotient

TOLERANCE = 1e-4
LARGEST = 3072  # rows plus columns: an eigenproblem of that size per step
UNPOLISHED = 2**19  # entries
MANY = 700  # rows plus columns above which tall boxes are searched by their columns
WIDEST = 1024  # columns of those
MOST_ENTRIES = 9_000_000  # and their entries, half a gigabyte in all


@dataclass(frozen=True, eq=False, kw_only=True)
class BoxedNorm(Solution):
    """The least γ2 in a box, between `lower_bound` and `value`.

    `approximation` is the matrix itself, after the row `shifts`; `factorization` its exact
    factorization at norm ∞, columns no longer than one.
    """

    box: Box
    approximation: FloatArray
    shifts: FloatArray
    factorization: Factorization
    certificate: BoxWitness

    def __post_init__(self) -> None:
        """No matrix outside its box survives, nor a bound that its witness does not prove."""
        box = self.box
        rounding = SLACK * max(self.box.size, float(np.abs(self.shifts).max()))
        away = self.approximation - self.shifts[:, None]
        outside = np.maximum(box.lower - away, away - box.upper).max()
        bound = self.certificate.bound(box.lower, box.upper, box.shift)
        if outside > rounding or self.lower_bound > bound:
            raise Contradiction(
                "a matrix lies outside its box, or its witness proves less than the bound; please "
                "report the limits"
            )

        super().__post_init__()


def boxed_norm(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    *,
    shift: bool = False,
    tolerance: float = TOLERANCE,
    iterations: int = 2000,
) -> BoxedNorm:
    """The least γ2 of any matrix whose entries lie between limits, which may be infinite.

    With `shift`, a constant may be added to every row for free.
    """
    began = time.perf_counter()
    box = Box.of(lower, upper, shift)
    check_tolerance(tolerance)
    check_rows_and_columns(box.shape, "a box of limits")
    pair, steps = search_box(box, tolerance, iterations)
    exact = factorize(
        pair.approximation,
        math.inf,
        tolerance=finer(tolerance, box.shape),
        start=pair.weights,
    )
    bound = pair.witness.bound(box.lower, box.upper, shift)

    return BoxedNorm(
        box=box,
        value=exact.value,
        lower_bound=bound,
        approximation=pair.approximation,
        shifts=pair.shifts,
        factorization=exact,
        certificate=pair.witness,
        status=ended(exact.value, bound, tolerance),
        iterations=steps,
        seconds=time.perf_counter() - began,
    )


def finer(tolerance: float, shape: tuple[int, int]) -> float:
    """The gap to which the matrix is factorized; large ones are not polished."""
    return tolerance / 10 if math.prod(shape) <= UNPOLISHED else tolerance


def ended(value: float, bound: float, tolerance: float) -> Status:
    """Whether the gap closed."""
    closed = quotient(value, bound) - 1 <= tolerance
    return Status.CONVERGED if closed else Status.ITERATION_LIMIT


def check_tolerance(tolerance: float) -> None:
    """Refuse gaps that are none."""
    require(
        0 < tolerance < 1,
        "tolerance",
        tolerance,
        "must lie between 0 and 1",
        "try 1e-4",
    )


def check_rows_and_columns(shape: tuple[int, int], what: str) -> None:
    """Refuse what takes hours."""
    rows, columns = shape
    tall = columns <= WIDEST and rows * columns <= MOST_ENTRIES
    if rows + columns > LARGEST and not tall:
        raise TooLarge(
            f"{what} has {rows} rows and {columns} columns; approximate norms are computed for at "
            f"most {LARGEST} rows and columns together, or {WIDEST} columns and {MOST_ENTRIES:,} "
            f"entries"
        )


def search_box(box: Box, tolerance: float, iterations: int) -> tuple[Pair, int]:
    """The best approximation and witness, and the steps they took; limits are scaled first."""
    offsets = -box.zero_shifts if box.shift and box.zero_shifts is not None else None
    if offsets is None:
        middles = box.middle.max(axis=1) / 2 + box.middle.min(axis=1) / 2
        offsets = middles if box.shift else np.zeros(len(middles))

    near = box.moved(offsets)
    scale = math.ldexp(1.0, math.frexp(near.size or 1.0)[1] - 1)  # rounds nothing
    scaled = near.moved(np.zeros(len(offsets)), scale)
    search = TallSearch(scaled) if _many_rows(box.shape) else BoxSearch(scaled)
    steps = search.run(tolerance, iterations)
    best = search.best
    shifts = best.shifts * scale - offsets

    return replace(best, approximation=best.approximation * scale, shifts=shifts), steps


def quickly_searched(shape: tuple[int, int]) -> bool:
    """Whether a box of this shape takes a minute rather than an hour."""
    rows, columns = shape
    tall = (
        _many_rows(shape) and columns <= WIDEST // 2 and rows * columns <= MOST_ENTRIES
    )
    return rows + columns <= MANY or tall


def _many_rows(shape: tuple[int, int]) -> bool:
    rows, columns = shape
    return rows + columns > LARGEST or (rows >= 2 * columns and rows + columns > MANY)
