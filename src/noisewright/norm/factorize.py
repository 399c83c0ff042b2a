"""`nw.factorize`: a factorization of nearly least error, and the certificate of how near."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from noisewright.errors import InvalidParameter
from noisewright.norm.dispatch import solve_part
from noisewright.norm.factorization import Factorization, Part, Settings
from noisewright.norm.replace import solve_replace
from noisewright.norm.solver import Progress, Weights
from noisewright.solution import Status
from noisewright.workload.atoms import Explicit
from noisewright.workload.base import Workload, check_neighbours
from noisewright.workload.structure import check_magnitudes
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
    part = solve_all(asked, settings)
    return Factorization(
        workload=asked,
        norm=settings.norm,
        neighbours=settings.neighbours,
        strategy=part.strategy,
        inverse=part.inverse,
        errors=part.errors,
        value=part.value,
        lower_bound=part.lower_bound,
        certificate=replace(part.certificate, name=CERTIFICATES[settings.neighbours]),
        status=_status(part, 2 * settings.tolerance),
        notes=part.notes,
        iterations=part.iterations,
        seconds=time.perf_counter() - began,
    )


def _status(part: Part, tolerance: float) -> Status:
    """How the solver stopped."""
    if not part.converged:
        return Status.ITERATION_LIMIT
    if part.gap > tolerance:
        return Status.CERTIFIED
    return Status.CONVERGED if part.iterations else Status.CLOSED_FORM


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
