"""Which noise a projection is put behind, and where it is nearest: both by forecast.

Johnson-Lindenstrauss releases [004, Algorithms 1 and 2]: noise on few signed sums of queries.

A random matrix T of signs turns the queries W into few rows TW; balls (`hardt_talwar`) are drawn
around the rows of just this T, whole numbers that they are, and the histogram whose rows are
nearest to the noisy ones gives the answers. Fewer rows need less noise and tell answers less well:
how many there are is decided by forecast, all of them (T = 1) among the choices. The coarse
release first moves every cell's answers to the nearest of a net of cells, which biases answers by
half the net's distance at most and leaves fewer directions to protect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, isfinite, prod

import numpy as np

from noisewright.arrays import IntArray
from noisewright.central.geometry.balls import LARGEST_ENTRY
from noisewright.central.geometry.fitted import (
    MOST_CELLS,
    FittedMechanism,
    Space,
)
from noisewright.central.geometry.hardt_talwar import (
    balls_of_queries,
    best_balls,
    refuses_balls,
    whole_queries,
)
from noisewright.central.geometry.limits.packing import farthest_first
from noisewright.central.geometry.sketch import SketchMechanism
from noisewright.central.mechanism import Mechanism
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
)
from noisewright.errors import OutOfReach, require
from noisewright.workload import workload
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.questions.measures import COUNT

_NEEDS_PEOPLE = (
    "its error depends on how many people there are: give their public number (people)"
)
_MOST_NOISES = 2  # that are tried in answer space: the best ones by themselves


def refuses_fit(problem: CentralProblem) -> str | None:
    """Why no histogram can be fitted, or its errors be told."""
    if problem.given is None:
        return _NEEDS_PEOPLE
    if prod(problem.sizes) > MOST_CELLS:
        return f"histograms are fitted to at most {MOST_CELLS:,} cells"
    if problem.domain is not None and (
        problem.domain.boxes or problem.domain.unit is not None
    ):
        return (
            "impossible cells and several rows of a person are not for projections yet"
        )
    if problem.workload.measures != (COUNT,):
        return "projections are for numbers of people"

    return None


def _unbiased_proposals(
    problem: CentralProblem,
) -> list[tuple[float, str, Mechanism]]:
    """All that measure without bias, and noise on cells, with their errors, best first."""
    from noisewright.central.registry import CENTRAL

    result = []
    for entry in CENTRAL.values():
        cells = entry.name.endswith("-cells")
        if (
            entry.biased
            or (entry.baseline and not cells)
            or entry.refuses(problem) is not None
        ):
            continue
        if entry.slow is not None and entry.slow(problem):
            continue

        mechanism = problem.once(entry.plan).mechanism
        error = mean_error(mechanism.accuracy(problem.terms).error, problem.norm)
        result.append((error, entry.name, mechanism))

    return sorted(result, key=lambda proposal: proposal[0])


def _plan(problem: CentralProblem) -> Proposal:
    assert problem.given is not None
    noises = _unbiased_proposals(problem)
    options: list[tuple[str, Space, Mechanism]] = [
        (name, "answers", mechanism) for _, name, mechanism in noises[:_MOST_NOISES]
    ]

    for _, name, mechanism in noises:
        if name.endswith("-cells"):
            options += [
                (name, "cells", mechanism),
                (name, "answers", mechanism),
            ]

    planned: list[tuple[float, int, Proposal]] = []
    for name, space, inner in options:
        fitted = FittedMechanism(
            inner,
            problem.workload,
            problem.sizes,
            space,
            problem.given,
        )
        try:
            fitted.check_reach(problem.terms)
        except OutOfReach:
            continue

        error = mean_error(fitted.accuracy(problem.terms).error, problem.norm)
        status = f"noise of {name}, projected in {space}"
        proposal = Proposal.unbounded(fitted, status)
        planned.append((error, len(planned), proposal))

    return min(planned)[2]


PROJECTION = CentralMechanism(
    "projection",
    "any noise, then the nearest possible answers: biased, nearer where people are few",
    refuses_fit,
    _plan,
    biased=True,
)

_ROWS = (
    8,
    32,
    128,
)  # of a sketch, beside as many as the theory asks for and all
# of the largest distance between cells: nets that are tried
_SCALES = (0.25, 0.5, 0.75)
_QUICK_ENTRIES = 2**18  # of the queries, beyond which planning is told to be slow
# of a sketch: its directions are then turned finely enough
_LARGEST_SUM = LARGEST_ENTRY // 64

Planned = tuple[float, int, Proposal]


@dataclass(frozen=True, eq=False)
class Net:
    """Cells that stand for all others: `nearest` gives every cell the one that stands for it."""

    cells: IntArray
    nearest: IntArray

    @classmethod
    def at_distance(cls, matrix: IntArray, distance: float) -> Net:
        """Cells whose columns are farther than this apart, until no other is from all of them."""
        columns = matrix.T.astype(np.float64)
        order, distances = farthest_first(columns, distance)
        cells = np.sort(order[distances > distance])
        chosen = columns[cells]
        apart = (chosen**2).sum(axis=1) - 2 * columns @ chosen.T
        nearest = cells[apart.argmin(axis=1)]
        nearest[cells] = cells

        return cls(cells, nearest)


def sketch_candidates(matrix: IntArray, rows: int) -> Iterator[IntArray]:
    """Sums of the queries under random signs, of several numbers of rows; last the queries."""
    centred = matrix - matrix.mean(axis=1, keepdims=True)
    dimension = int(np.linalg.matrix_rank(centred))
    # any signs are private, and these come back when asked again
    rng = np.random.default_rng(0)

    for count in sorted({*_ROWS, rows}):
        if count >= dimension:
            break
        signs = rng.choice(np.array([-1, 1]), size=(count, len(matrix)))
        sums = signs.astype(np.float64) @ matrix.astype(np.float64)  # whole, and exact
        if np.abs(sums).max() <= _LARGEST_SUM:
            yield sums.astype(np.int64)

    yield matrix


def _planned(
    problem: CentralProblem,
    measured: IntArray,
    number: int,
    net: Net | None,
) -> Planned:
    """A sketch under the balls that suit it, with its forecast."""
    assert problem.given is not None
    # their own transforms are faster than a matrix
    if measured is problem.once(whole_queries):
        fitted_to = problem.workload
        balls = problem.once(balls_of_queries)
    else:
        fitted_to = workload(measured.astype(np.float64))
        balls = best_balls(problem.sizes, problem.privacy, measured)

    fitted = FittedMechanism(
        SketchMechanism(
            problem.sizes,
            balls.parts,
            balls.shares,
            problem.privacy,
            problem.given.people,
        ),
        fitted_to,
        problem.sizes,
        "answers",
        problem.given,
        None if net is None else net.cells,
    )
    error = mean_error(fitted.accuracy(problem.terms).error, problem.norm)
    status = f"{len(measured)} rows under {len(balls.parts)} balls"
    if net is not None:
        status += f", a net of {len(net.cells)} cells"

    return error, number, Proposal.unbounded(fitted, status)


def _best(problem: CentralProblem, nets: list[Net | None]) -> Proposal:
    matrix = problem.once(whole_queries)
    assert matrix is not None
    assert problem.given is not None
    most_rows = max(1, ceil(problem.epsilon * problem.given.people))
    planned: list[Planned] = []

    for net in nets:
        columns = matrix if net is None else matrix[:, net.nearest]
        for measured in sketch_candidates(columns, most_rows):
            planned.append(
                _planned(
                    problem,
                    measured,
                    len(planned),
                    net,
                )
            )

    return min(planned)[2]


def _plan_sketch(problem: CentralProblem) -> Proposal:
    return _best(problem, [None])


def _plan_coarse(problem: CentralProblem, alpha: float | None) -> Proposal:
    matrix = problem.once(whole_queries)
    assert matrix is not None
    columns = matrix.T.astype(np.float64)
    widest = float(np.sqrt(((columns - columns[0]) ** 2).sum(axis=1).max()))
    distances = [share * widest for share in _SCALES]
    if alpha is not None:
        distances = [alpha * np.sqrt(len(matrix)) / 2]

    nets = [Net.at_distance(matrix, distance) for distance in distances]
    usable = [net for net in nets if len(net.cells) > 1]
    require(
        usable,
        "alpha",
        alpha,
        "leaves one cell for all",
        "ask for less",
    )

    return _best(problem, list({len(net.cells): net for net in usable}.values()))


def _refuses(problem: CentralProblem) -> str | None:
    if problem.neighbours != "replace-one":
        return (
            "sketches need a public number of people; plan with replace-one neighbours"
        )

    if not problem.workload.counts_only:
        return "sketches are for numbers of people alone"
    return refuses_balls(problem) or refuses_fit(problem)


def _slow(problem: CentralProblem) -> bool:
    return problem.workload.size * problem.workload.queries > _QUICK_ENTRIES


def coarse_jl(alpha: float | None = None) -> CentralMechanism:
    """The coarse release with a net for errors of α people in one; without, the best of some."""
    require(
        alpha is None or (isfinite(alpha) and alpha > 0),
        "alpha",
        alpha,
        "must be > 0",
    )
    return CentralMechanism(
        "coarse-jl",
        "pure privacy: the same over a net of cells that stand for all others",
        _refuses,
        partial(_plan_coarse, alpha=alpha),
        slow=_slow,
        biased=True,
    )


JL = CentralMechanism(
    "jl",
    "pure privacy: balls around few signed sums of the queries, then the nearest histogram",
    _refuses,
    _plan_sketch,
    slow=_slow,
    biased=True,
)
COARSE_JL = coarse_jl()
