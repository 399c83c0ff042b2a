"""Local estimates rehearsed on a public table: how far each kind errs, and what intervals hold.

Unbiased answers, the shrunk ones and those of the best fitting table of people, from the same
simulated reports. Nothing is proved by it, and nobody's data belongs here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisewright.arrays import BoolArray, FloatArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, require
from noisewright.local.storage import whole

if TYPE_CHECKING:
    from noisewright.planning.local.plan import LocalPlan

KINDS = ("unbiased", "shrunk", "non_negative")


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Shown):
    """Means over `runs`, by kind of answer: `unbiased`, `shrunk` and `non_negative`.

    `rmse` is the root mean square error over all answers in people, `coverage` the share of answers
    inside their own 95 % intervals, `joint` the share of runs with all inside the joint ones.
    """

    people: int
    runs: int
    rmse: dict[str, float]
    coverage: dict[str, float]
    joint: dict[str, float]

    def _facts(self) -> list[tuple[str, str]]:
        told = [("people", f"{self.people:,}"), ("runs", f"{self.runs:,}")]
        return told + [
            (kind, f"rmse {error:,.4g}") for kind, error in self.rmse.items()
        ]


def rehearse(
    plan: LocalPlan, histogram: npt.ArrayLike, runs: int, rng: np.random.Generator
) -> Rehearsal:
    """Simulate reports of the people of a public table, cell by cell."""
    from noisewright.planning.local.reading import Reading

    people = np.asarray(histogram)
    if (
        people.shape != (plan.strategy.size,)
        or people.dtype.kind not in "iu"
        or people.min() < 0
    ):
        rule = f"must hold {plan.strategy.size} counts, the cells of the plan in their order"
        raise InvalidParameter("histogram", f"{people.dtype} {people.shape}", rule)

    require(people.any(), "histogram", 0, "must hold at least one person")

    whole("runs", runs, 1, 10**6)
    truth = np.asarray(
        plan.plain_workload.matvec(people.astype(float)), dtype=np.float64
    )
    cells = np.repeat(np.arange(len(people)), people)
    readings = [Reading(), Reading(shrink=True), Reading(non_negative=True)]
    squares, inside, together = (np.zeros(len(KINDS)) for _ in range(3))

    for _ in range(runs):
        collected = plan.aggregate(plan.strategy.randomize(cells, rng))
        for k, reading in enumerate(readings):
            column = plan.outcome(collected, (reading,))
            squares[k] += float(np.mean((column.answers - truth) ** 2))
            inside[k] += float(np.mean(_holds(column.each, truth)))
            together[k] += bool(_holds(column.all, truth).all())

    def means(totals: FloatArray) -> dict[str, float]:
        return dict(zip(KINDS, (totals / runs).tolist(), strict=True))

    roots = {kind: float(np.sqrt(square)) for kind, square in means(squares).items()}
    return Rehearsal(
        people=len(cells),
        runs=runs,
        rmse=roots,
        coverage=means(inside),
        joint=means(together),
    )


def _holds(limits: tuple[FloatArray, FloatArray], truth: FloatArray) -> BoolArray:
    low, high = limits
    rounding = 1e-9 * (1 + np.abs(truth))
    return np.asarray((low <= truth + rounding) & (truth <= high + rounding))
