"""Approximate norms: the least γ2 of any matrix within α of the workload, entry by entry.

γ2(W, α) = min { γ2(W̃) : |W̃ − W| ≤ α } and, with a free shift of every row, γ̂2(W, α): a box of
width 2α around the workload (see `box`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import Contradiction, TooLarge, require
from noisewright.norm.approximate.alike import MOST_ENTRIES, alike_pair
from noisewright.norm.approximate.box import Box, BoxWitness, Pair, gap_status
from noisewright.norm.approximate.box_search import BoxSearch, TallSearch
from noisewright.norm.factorize import Factorization, factorize
from noisewright.norm.kernel.certificate import row_middles, witness_bound
from noisewright.solution import SLACK, Solution
from noisewright.workload.base import Workload
from noisewright.workload.forms.text import Queries
from noisewright.workload.forms.text import workload as as_workload
from noisewright.workload.structure import check_magnitudes

TOLERANCE = 1e-4  # relative gap at which a search ends, unless another is asked for

# Only bound the work: a step is an eigenproblem of rows and columns together, in cubic time, and
# one of the columns alone where rows are many.
_MOST_ROWS_AND_COLUMNS = 3072
_MOST_COLUMNS = 1024  # the same, of the columns alone
_MOST_TALL_ENTRIES = 9_000_000  # only bounds memory, to half a gigabyte in all

# Rows and columns together, above which boxes of twice as many rows as columns and more are
# searched by their columns. Less might serve better: of all 528 intervals on 32 points within 0.1,
# the columns alone close a gap of 1e-3 in 170 steps, and both together do not in 600.
_MOST_AT_ONCE = 700
# Entries of an approximation of which the exact factorization is worth a tenth of the tolerance;
# only bounds the work.
_MOST_POLISHED = 2**19


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
        rounding = SLACK * max(box.size, float(np.abs(self.shifts).max()))
        unshifted = self.approximation - self.shifts[:, None]
        outside = np.maximum(box.lower - unshifted, unshifted - box.upper).max()
        if outside > rounding or self.lower_bound > self.certificate.bound(box):
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
    _check_tolerance(tolerance)
    _check_rows_and_columns(box.shape, "a box of limits")
    pair, steps = _search_box(box, tolerance, iterations)
    exact = _factorized(pair, tolerance)
    bound = pair.witness.bound(box)

    return BoxedNorm(
        box=box,
        value=exact.value,
        lower_bound=bound,
        approximation=pair.approximation,
        shifts=pair.shifts,
        factorization=exact,
        certificate=pair.witness,
        status=gap_status(exact.value, bound, tolerance),
        iterations=steps,
        seconds=time.perf_counter() - began,
    )


def _factorized(pair: Pair, tolerance: float) -> Factorization:
    """The exact factorization of an approximation; large ones are not polished."""
    small = pair.approximation.size <= _MOST_POLISHED
    return factorize(
        pair.approximation,
        math.inf,
        tolerance=tolerance / 10 if small else tolerance,
        start=pair.weights,
    )


def _check_tolerance(tolerance: float) -> None:
    """Refuse gaps that are none."""
    require(
        0 < tolerance < 1,
        "tolerance",
        tolerance,
        "must lie between 0 and 1",
        "try 1e-4",
    )


def _check_rows_and_columns(shape: tuple[int, int], what: str) -> None:
    """Refuse what takes hours."""
    rows, columns = shape
    tall = columns <= _MOST_COLUMNS and rows * columns <= _MOST_TALL_ENTRIES
    if rows + columns > _MOST_ROWS_AND_COLUMNS and not tall:
        raise TooLarge(
            f"{what} has {rows} rows and {columns} columns; approximate norms are computed for at "
            f"most {_MOST_ROWS_AND_COLUMNS} rows and columns together, or {_MOST_COLUMNS} columns "
            f"and {_MOST_TALL_ENTRIES:,} entries"
        )


def _search_box(box: Box, tolerance: float, iterations: int) -> tuple[Pair, int]:
    """The best approximation and witness, and the steps they took; limits are scaled first."""
    if not box.shift:
        offsets = np.zeros(box.shape[0])
    elif box.zero_shifts is not None:
        offsets = -box.zero_shifts
    else:
        offsets = row_middles(box.middle)

    centred = box.moved(offsets)
    # A power of two, which rounds nothing.
    scale = math.ldexp(1.0, math.frexp(centred.size or 1.0)[1] - 1)
    scaled = centred.moved(np.zeros(len(offsets)), scale)
    by_columns = _searched_by_columns(box.shape)
    search = TallSearch(scaled) if by_columns else BoxSearch(scaled)
    steps = search.run(tolerance, iterations)

    best = search.best
    approximation = best.approximation * scale
    shifts = best.shifts * scale - offsets
    return replace(best, approximation=approximation, shifts=shifts), steps


def quickly_searched(shape: tuple[int, int]) -> bool:
    """Whether a box of this shape takes a minute rather than an hour."""
    rows, columns = shape
    if rows + columns <= _MOST_AT_ONCE:
        return True
    narrow = columns <= _MOST_COLUMNS // 2 and rows * columns <= _MOST_TALL_ENTRIES
    return narrow and _searched_by_columns(shape)


def _searched_by_columns(shape: tuple[int, int]) -> bool:
    """Whether rows are so many that an eigenproblem of the columns alone is taken in each step."""
    rows, columns = shape
    together = rows + columns
    tall = rows >= 2 * columns and together > _MOST_AT_ONCE
    return tall or together > _MOST_ROWS_AND_COLUMNS


@dataclass(frozen=True, eq=False, kw_only=True)
class ApproximateNorm(Solution):
    """γ2(W, α) or γ̂2(W, α), between `lower_bound` and `value`.

    `approximation` is W̃ (after the row `shifts`, if any), `factorization` its exact factorization
    at norm ∞.
    """

    workload: Workload
    entrywise: float
    shift: bool
    approximation: FloatArray
    shifts: FloatArray
    factorization: Factorization
    certificate: BoxWitness

    def _facts(self) -> list[tuple[str, str]]:
        workload = "workload", self.workload.brief()
        entrywise = "entrywise", f"{self.entrywise:g}"
        return [workload, entrywise, *super()._facts()]

    def __post_init__(self) -> None:
        """No approximation outside its box survives, nor a bound that its witness does not prove.

        Distances are rounded within SLACK of the entries less the middle of their rows.
        """
        matrix = self.workload.dense()
        entries, middles = _less_row_middles(matrix, self.shift)
        errors = self.approximation - entries - (self.shifts + middles)[:, None]
        largest = np.abs(errors).max()
        rounding = SLACK * np.abs(entries).max() + 1e-15 * np.abs(middles).max()
        allowed = self.entrywise * (1 + SLACK) + rounding

        bound = _proven_bound(self.certificate, matrix, self.entrywise, self.shift)
        if largest > allowed or self.lower_bound > bound:
            raise Contradiction(
                f"{self.subject}: the result does not keep to its tolerance, or its witness proves "
                f"less than the bound; please report the workload"
            )

        super().__post_init__()

    @property
    def subject(self) -> str:
        return f"approximate norm of {self.workload.brief()}"


def approximate_norm(
    workload: Queries,
    entrywise: float,
    *,
    shift: bool = False,
    tolerance: float = TOLERANCE,
    iterations: int = 2000,
) -> ApproximateNorm:
    """γ2(W, α), α = `entrywise`, or with `shift` γ̂2(W, α): the least γ2 of any matrix that close.

    With `shift`, a constant may be added to every row for free, as is right when the number of
    people is public (replace-one neighbours, the local model).
    """
    began = time.perf_counter()
    workload = as_workload(workload)
    _check(workload, entrywise, tolerance)
    entrywise = float(entrywise)
    pair, steps = _searched(workload, entrywise, shift, tolerance, iterations)
    exact = _factorized(pair, tolerance)
    bound = _proven_bound(pair.witness, workload.dense(), entrywise, shift)

    return ApproximateNorm(
        workload=workload,
        entrywise=entrywise,
        shift=shift,
        value=exact.value,
        lower_bound=bound,
        approximation=pair.approximation,
        shifts=pair.shifts,
        factorization=exact,
        certificate=pair.witness,
        status=gap_status(exact.value, bound, tolerance),
        iterations=steps,
        seconds=time.perf_counter() - began,
    )


def _searched(
    workload: Workload, entrywise: float, shift: bool, tolerance: float, iterations: int
) -> tuple[Pair, int]:
    """By symmetry where all cells are alike, else by a search in the box."""
    if workload.queries * workload.size <= MOST_ENTRIES:
        by_symmetry = alike_pair(workload, entrywise, shift, tolerance)
        if by_symmetry is not None:
            return by_symmetry

    _check_rows_and_columns(workload.shape, f"workload {workload.brief()}")
    entries, middles = _less_row_middles(workload.dense(), shift)
    box = Box(entries - entrywise, entries + entrywise, shift)
    pair, steps = _search_box(box, tolerance, iterations)

    return replace(pair, shifts=pair.shifts - middles), steps


def _less_row_middles(matrix: FloatArray, shift: bool) -> tuple[FloatArray, FloatArray]:
    """The entries less the middle of their rows, and the middles: zeros unless rows may shift."""
    middles = row_middles(matrix) if shift else np.zeros(len(matrix))
    return matrix - middles[:, None], middles


def _proven_bound(
    witness: BoxWitness, matrix: FloatArray, entrywise: float, shift: bool
) -> float:
    """What a witness proves of all matrices within a tolerance of this one."""
    weights = witness.row_weights, witness.column_weights
    return witness_bound(matrix, entrywise, witness.matrix, *weights, shift)


def _check(workload: Workload, entrywise: float, tolerance: float) -> None:
    check_magnitudes(workload)
    require(
        math.isfinite(entrywise) and entrywise >= 0,
        "entrywise",
        entrywise,
        "must be finite and >= 0",
        "try 0.1",
    )
    _check_tolerance(tolerance)
