"""`nw.factorize`: a factorization of nearly least error, and the certificate of how near."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import Contradiction, InvalidParameter, require
from noisewright.norm.dispatch import solve_part
from noisewright.norm.kernel.factorization import Part, Settings, without_offsets
from noisewright.norm.kernel.problems import LARGEST_EIGENPROBLEM
from noisewright.norm.kernel.solver import Progress, Weights
from noisewright.norm.replace import solve_replace
from noisewright.solution import Status
from noisewright.workload.base import Workload
from noisewright.workload.forms.text import Queries
from noisewright.workload.forms.text import workload as as_workload
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.linear.linear_map import LinearMap, check_neighbours
from noisewright.workload.linear.maps import Product
from noisewright.workload.linear.tensor import DENSE_LIMIT
from noisewright.workload.structure import check_magnitudes

PRODUCT_SLACK = 1e-6
"""Relative rounding allowed where a factorization is multiplied back."""

_PROBES = 8  # random histograms: the largest answer to them tells how large a query is
_PROBED_CELLS = LARGEST_EIGENPROBLEM  # beyond, forms are closed
TOLERANCE = 5e-7
"""Relative gap at which the solver stops: errors and bounds then agree in six digits."""
ITERATIONS = 2000
"""Steps of the solver at most: ranges:33 at norm ∞ takes 1,100, where people are replaced."""
CERTIFICATES = {
    "add-remove": "weighted nuclear norm",
    "replace-one": "nuclear norm weighted over pairs of cells",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Factorization(Part):
    """W = R·A with the least error found, and a lower bound on the error of every W = R·A.

    `value` is the p-th mean over queries of ‖R_i‖ times the sensitivity ‖A‖₁→₂ (the strategy is
    scaled to sensitivity one under the `neighbours` asked for); `lower_bound` is recomputed from
    the dual weights in `certificate` and rounded down, `value` is rounded up, so `gap` is never
    negative.
    """

    workload: Workload
    norm: float
    neighbours: str

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("workload", self.workload.brief()),
            ("norm", f"{self.norm:g}"),
            *super()._facts(),
        ]

    def __post_init__(self) -> None:
        """No result survives that contradicts its bound or does not multiply back."""
        super().__post_init__()
        self._check_product()

    @property
    def subject(self) -> str:
        return f"factorization of {self.workload.brief()}"

    @cached_property
    def reconstruction(self) -> LinearMap:
        """Answers from measurements, R = W·A⁺."""
        return Product(self._factorized, self.inverse)

    @cached_property
    def _factorized(self) -> Workload:
        """The queries up to their free shifts."""
        if self.neighbours == "add-remove":
            return self.workload
        return without_offsets(self.workload)

    def _check_product(self) -> None:
        """R·A = W on random histograms, up to PRODUCT_SLACK of a query's answers to them.

        Under replace-one neighbours on differences of histograms: constants of rows are free.
        Structured workloads too large for a dense strategy have closed forms and are not probed.
        """
        queries, size = self.workload.shape
        if size > _PROBED_CELLS or queries * size > DENSE_LIMIT:
            return

        probes = np.random.default_rng(0).standard_normal((size, _PROBES))
        if self.neighbours == "replace-one":
            probes[-1] -= probes.sum(axis=0)

        both = self._factorized.matvec(np.hstack([probes, np.abs(probes)]))
        answers, bulk = np.hsplit(np.asarray(both, dtype=np.float64), 2)
        returned = self.reconstruction.matvec(self.strategy.matvec(probes))

        sizes = np.abs(answers) + 1e-3 * np.abs(bulk)
        away = np.abs(returned - answers).max(axis=1)
        lost = away - PRODUCT_SLACK * sizes.max(axis=1)
        if not (lost <= 0).all():  # NaN fails as well
            raise Contradiction(
                f"{self.subject}: query {int(lost.argmax())} does not come back from the "
                f"measurements; bring the queries to comparable sizes with weights"
            )

    def offsets(self) -> FloatArray:
        """What to add to every answer per person in the table: W = R·A + offsets·1ᵀ.

        Zero under add-remove neighbours. Under replace-one the number of people is public, so
        shifting a query costs nothing and the factorization is of the best shift.
        """
        if self.neighbours == "add-remove":
            return np.zeros(self.workload.queries)

        first = np.zeros(self.workload.size)
        first[0] = 1.0
        answers = np.asarray(self.workload.matvec(first), dtype=np.float64)
        return answers - self.reconstruction.matvec(self.strategy.matvec(first))

    @classmethod
    def of(cls, part: Part, workload: Workload, settings: Settings) -> Factorization:
        """What was found for a workload, checked."""
        name = CERTIFICATES[settings.neighbours]
        return cls(
            workload=workload,
            norm=settings.norm,
            neighbours=settings.neighbours,
            strategy=part.strategy,
            inverse=part.inverse,
            errors=part.errors,
            value=part.value,
            lower_bound=part.lower_bound,
            certificate=replace(part.certificate, name=name),
            status=_status(part, 2 * settings.tolerance),
            notes=part.notes,
            iterations=part.iterations,
            seconds=part.seconds,
        )


def factorize(
    workload: Queries,
    norm: float | str = 2,
    *,
    neighbours: str = "add-remove",
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    start: Factorization | Weights | None = None,
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
    workload = as_workload(workload)
    if not isinstance(workload, Explicit):  # the entries of a matrix are scaled first
        check_magnitudes(workload)

    settings = Settings(
        check_norm(norm),
        _check_tolerance(tolerance),
        _check_iterations(iterations),
        _warm_start(start, workload),
        check_neighbours(neighbours),
        progress,
    )
    solve_all = solve_part if settings.neighbours == "add-remove" else solve_replace
    part = solve_all(workload, settings)
    timed = replace(part, seconds=time.perf_counter() - began)
    return Factorization.of(timed, workload, settings)


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

    require(
        value >= 2,
        "norm",
        norm,
        "must be a number >= 2 (or inf)",
        "use 2 for rmse, inf for the largest",
    )

    return value


def _check_tolerance(tolerance: float) -> float:
    require(
        0 < tolerance < 1,
        "tolerance",
        tolerance,
        "must lie between 0 and 1",
        "try 1e-6",
    )
    return float(tolerance)


def _check_iterations(iterations: int) -> int:
    require(
        not isinstance(iterations, bool)
        and int(iterations) == iterations
        and iterations >= 1,
        "iterations",
        iterations,
        "must be a whole number >= 1",
        "try 1000",
    )
    return int(iterations)


def _warm_start(
    start: Factorization | Weights | None, workload: Workload
) -> Weights | None:
    if start is None or isinstance(start, Weights):
        return start
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
