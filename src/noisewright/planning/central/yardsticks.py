"""What plans are measured against where the number of people is public.

Two ways to answer that take little: not to look at anybody, and to know every attribute by itself
alone. And what limits everybody: packings of data sets, the volume of what one person can change,
and the Gaussian width, which says how much projections can gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.gaussian.residual import RESIDUAL
from noisewright.central.geometry.fitted_plans import refuses_fit
from noisewright.central.geometry.k_norm_plan import K_NORM
from noisewright.central.geometry.limits.packing import (
    Width,
    gaussian_width,
    packing_bound,
)
from noisewright.central.geometry.limits.volume import VolumeBound, volume_bound
from noisewright.central.problem import CentralProblem
from noisewright.estimate.nearest import project_to_total
from noisewright.solution import BoundClass
from noisewright.workload import Identity
from noisewright.workload.kinds.algebra import stack
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.linear.tensor import mean_error

NO_DATA = "no-data"
"""The yardstick that answers without looking at anybody."""

ONE_WAY = "one-way"
"""The yardstick that knows every attribute by itself, and takes them to be independent."""

# releases simulated: the error of one answer is known to a sixth, of all much better
_DRAWS = 20
_MOST_WIDTH_ENTRIES = 2**20  # of a workload that is written out for its width: 8 MB


@dataclass(frozen=True)
class Yardstick:
    """Errors on the worst of the public histograms, in the sense that is compared and plainly."""

    name: str
    achieved: float
    rmse: float
    max: float


def yardsticks(problem: CentralProblem) -> list[Yardstick]:
    """What is easily had of so many people; none where their number is not given."""
    if problem.given is None or refuses_fit(problem) is not None:
        return []
    one_way = _one_way(problem)
    return [_no_data(problem), *([] if one_way is None else [one_way])]


def _no_data(problem: CentralProblem) -> Yardstick:
    """The answers that people spread evenly over cells would give, whoever they are: no noise."""
    assert problem.given is not None
    cells = problem.workload.size
    people = problem.given.people
    shares = problem.given.shares(cells)
    misses = [
        people * problem.workload.matvec(histogram - 1 / cells) for histogram in shares
    ]
    return _worst(problem, NO_DATA, [miss[None] for miss in misses])


def _one_way(problem: CentralProblem) -> Yardstick | None:
    """Noisy tables of every attribute, as people and independent: simulated."""
    assert problem.given is not None
    sizes = problem.sizes
    if len(sizes) < 2:
        return None

    asked = stack(
        [OnAttributes(sizes, (i,), Identity(size)) for i, size in enumerate(sizes)]
    )
    one_way = CentralProblem(asked, sizes, problem.privacy, 2.0)
    entry = K_NORM if problem.order == 1 else RESIDUAL
    if entry.refuses(one_way) is not None:
        return None

    accuracy = entry.plan(one_way).mechanism.accuracy(one_way.terms)
    rng = np.random.default_rng(0)
    misses = []

    for shares in problem.given.shares(problem.workload.size):
        people = rng.multinomial(problem.given.people, shares).astype(np.float64)
        noisy = asked.matvec(people) + accuracy.draw(_DRAWS, rng)
        truth = problem.workload.matvec(people)
        histograms = [_independent(row, sizes, problem.given.people) for row in noisy]
        misses.append(problem.workload.matvec(np.array(histograms).T).T - truth)

    return _worst(problem, ONE_WAY, misses)


def _independent(tables: FloatArray, sizes: tuple[int, ...], people: int) -> FloatArray:
    """So many people, of whom each table is known and nothing else."""
    pieces = np.split(tables, np.cumsum(sizes)[:-1])
    shares = [
        project_to_total(piece[None], 1.0 * people)[0] / people for piece in pieces
    ]
    return np.asarray(people * reduce(np.kron, shares))


def _worst(problem: CentralProblem, name: str, misses: list[FloatArray]) -> Yardstick:
    errors = [np.sqrt((miss**2).mean(axis=0)) for miss in misses]
    worst = max(errors, key=lambda error: float((error**2).sum()))
    achieved = mean_error(worst, problem.norm)
    return Yardstick(name, achieved, mean_error(worst, 2), float(worst.max()))


@dataclass(frozen=True)
class Limits:
    """What nobody goes below, and the width of one person's answers; None where not known."""

    packing: float | None
    volume: VolumeBound | None
    width: Width | None

    @classmethod
    def of(cls, problem: CentralProblem) -> Limits:
        """All that is known of a problem."""
        workload = problem.workload
        domain = problem.domain
        if domain is not None and (domain.boxes or domain.unit is not None):
            # one person moves other things than one cell's answers
            return cls(None, None, None)

        small = workload.size * workload.queries <= _MOST_WIDTH_ENTRIES
        width = (
            gaussian_width(workload) if small and problem.given is not None else None
        )
        return cls(packing_bound(problem), volume_bound(problem), width)

    def any_bound(self, people: int | None) -> bool:
        """Whether the sentences tell a bound."""
        return self.volume is not None or (
            self.packing is not None and people is not None
        )

    def to_dict(self) -> dict[str, object]:
        """The figures, ready for JSON."""
        record: dict[str, object] = {}
        if self.packing is not None:
            record["packing_bound"] = self.packing

        if self.volume is not None:
            record["volume_bound"] = self.volume.value

        if self.width is not None:
            record["gaussian_width"] = self.width.to_dict()

        return record

    def sentences(self, people: int | None) -> list[str]:
        """The same in words, each with the class that it limits."""
        notes = []
        if self.packing is not None and people is not None:
            notes.append(
                f"With {people:,} people, {BoundClass.ANY_MECHANISM.value}, has a root mean"
                f" square error of at least {self.packing:.4g} (packing of their data sets)."
            )

        if self.volume is not None:
            notes.append(
                f"{BoundClass.ANY_PARTS.value.capitalize()} has a root mean square error of at"
                f" least {self.volume.value:.4g} (volume {self.volume.found})."
            )

        if self.width is not None:
            notes.append(
                f"Gaussian width of one person's answers: {self.width.value:.4g}"
                f" ({self.width.lower:.4g} to {self.width.upper:.4g} at 99.9 %)."
            )

        return notes
