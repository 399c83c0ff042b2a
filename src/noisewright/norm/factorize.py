"""`nw.factorize`: a factorization of nearly least error, and the certificate of how near."""

from __future__ import annotations

import math
import time
from typing import Any

from noisewright.errors import InvalidParameter
from noisewright.norm.dispatch import solve_part
from noisewright.norm.factorization import (
    Certificate,
    Factorization,
    Settings,
    Solved,
    without_offsets,
)
from noisewright.norm.operators import Reconstruction
from noisewright.norm.outward import settled
from noisewright.norm.replace import solve_replace
from noisewright.norm.solver import Progress, Weights
from noisewright.workload.atoms import Explicit
from noisewright.workload.base import Workload, check_neighbours
from noisewright.workload.magnitudes import check_magnitudes
from noisewright.workload.text import workload as as_workload

TOLERANCE = 5e-7
ITERATIONS = 2000
CERTIFICATES = {
    "add-remove": "weighted nuclear norm",
    "replace-one": "nuclear norm weighted over pairs of cells",
}


def factorize(
    workload: Workload | str | Any,
    norm: float | str = 2,
    *,
    neighbours: str = "add-remove",
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    start: Factorization | None = None,
    progress: Progress | None = None,
) -> Factorization:
    """A factorization W = R·A of nearly least ℓ_norm error, 2 ≤ norm ≤ ∞, and a bound for all.

    `workload` is a workload, its text form, or a matrix. The solver stops when the relative gap
    between error and lower bound falls below `tolerance`, or after `iterations` steps. `start`
    warm-starts it from an earlier result over the same cells. Under replace-one `neighbours` the
    number of people is public, and W is factorized up to a shift of every query: see `offsets`.
    `progress` is called with the gap after every step of the solver.
    """
    began = time.perf_counter()
    asked = as_workload(workload)
    if not isinstance(asked, Explicit):  # the entries of a matrix are scaled first
        check_magnitudes(asked)
    settings = Settings(
        check_norm(norm),
        _check_tolerance(tolerance),
        _check_iterations(iterations),
        _warm_start(start, asked),
        check_neighbours(neighbours),
        progress,
    )
    solve_all = solve_part if settings.neighbours == "add-remove" else solve_replace
    solved = solve_all(asked, settings)
    return Factorization(
        workload=asked,
        norm=settings.norm,
        neighbours=settings.neighbours,
        strategy=solved.strategy,
        inverse=solved.inverse,
        reconstruction=Reconstruction(
            asked if settings.neighbours == "add-remove" else without_offsets(asked),
            solved.inverse,
        ),
        value=settled(solved.value, solved.bound, f"factorization of {asked.brief()}"),
        certificate=Certificate(
            CERTIFICATES[settings.neighbours], solved.bound, solved.rows, solved.columns
        ),
        status=describe(solved, settings),
        converged=solved.converged,
        iterations=solved.iterations,
        seconds=time.perf_counter() - began,
        errors=solved.errors,
    )


def describe(solved: Solved, settings: Settings) -> str:
    """How the solver stopped, in words a person can act on."""
    gap = solved.value / solved.bound - 1 if solved.bound > 0 else solved.value
    if solved.converged and solved.iterations == 0 and gap <= 2 * settings.tolerance:
        first = "closed form: no iteration was needed"
    elif solved.converged and gap > 2 * settings.tolerance:
        first = f"certified: at most {gap:.1e} above the least error of any factorization"
    elif solved.converged:
        first = f"converged: gap {gap:.1e} after {solved.iterations} steps"
    else:
        first = (
            f"iteration limit: gap {gap:.1e} after {solved.iterations} steps; the factorization "
            f"and the bound are valid, more iterations would bring them closer"
        )
    return "; ".join([first, *solved.notes])


def check_norm(norm: float | str) -> float:
    """Refuse exponents outside 2 ≤ norm ≤ ∞."""
    try:
        value = float(norm)
    except (TypeError, ValueError):
        value = math.nan
    if not value >= 2:
        raise InvalidParameter(
            "norm", norm, "must be a number >= 2 (or inf)", "use 2 for rmse, inf for the largest"
        )
    return value


def _check_tolerance(tolerance: float) -> float:
    if not (0 < tolerance < 1):
        raise InvalidParameter("tolerance", tolerance, "must lie between 0 and 1", "try 1e-6")
    return float(tolerance)


def _check_iterations(iterations: int) -> int:
    if isinstance(iterations, bool) or int(iterations) != iterations or iterations < 1:
        raise InvalidParameter("iterations", iterations, "must be a whole number >= 1", "try 1000")
    return int(iterations)


def _warm_start(start: Factorization | None, workload: Workload) -> Weights | None:
    if start is None:
        return None
    if start.workload.size != workload.size:
        raise InvalidParameter(
            "start",
            start.workload.brief(),
            f"must be over {workload.size} cells",
            "leave it out, or start from a result over the same cells",
        )
    a = start.certificate.row_weights()
    same_rows = a is not None and a.size == workload.queries
    return Weights(a if same_rows else None, start.certificate.column_weights())
