"""How answers are read from collected reports: unbiased, fitted, shrunk, weighted or despite liars.

Intervals lie around the unbiased answers, and are widened where needed to hold what is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.analysis.accuracy import Errors
from noisewright.local.analysis.analysis import influence
from noisewright.local.analysis.answers import estimate
from noisewright.local.analysis.robust import can_be_robust, robust_answers
from noisewright.planning.local.population import Margins, in_population
from noisewright.planning.plan import LEVEL
from noisewright.workload.questions.statistics import Column

if TYPE_CHECKING:
    from noisewright.local.reports.aggregate import Aggregate
    from noisewright.planning.local.plan import LocalPlan


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How answers are read from collected reports."""

    errors: Errors = "plug-in"
    population: bool = False
    non_negative: bool = False
    shrink: bool = False
    """Answers of the affine estimate with the least worst error, which is biased."""
    liars: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the reports that may say anything; intervals hold for all of these as well."""
    margins: Margins | None = None
    """Where given, answers are those of the population that these margins are of."""

    def check(self, groups: int) -> None:
        """Refuse what cannot be had together."""
        if self.shrink and (
            self.non_negative or self.liars or self.margins or groups > 1
        ):
            raise InvalidParameter(
                "shrink",
                self.shrink,
                "stands alone: no non_negative, liars, margins or median",
            )
        if not 0 <= self.liars < 1:
            raise InvalidParameter(
                "liars", self.liars, "must be a share of the reports, 0 <= liars < 1"
            )
        if self.margins is not None and (self.liars or self.non_negative):
            raise InvalidParameter(
                "margins",
                self.margins.attributes,
                "cannot be combined with liars or non_negative",
            )

    @property
    def changes(self) -> bool:
        """Whether it asks for other answers than those that were measured."""
        return self.non_negative or self.shrink

    @property
    def plain(self) -> Reading:
        """The same of unbiased answers, trusting everybody."""
        return msgspec.structs.replace(
            self, non_negative=False, shrink=False, liars=0.0
        )

    def told(self, plan: LocalPlan, before: Mapping[str, Any]) -> dict[str, Any]:
        """What the record says of it."""
        return {
            **before,
            "standard_errors": self.errors,
            "population": self.population,
            "non_negative": self.non_negative,
            "shrink": self.shrink,
            "liars": self.liars,
            "liars_limit": plan.liars_limit(self),
            "margins": None if self.margins is None else list(self.margins.attributes),
        }


def read(plan: LocalPlan, collected: Aggregate, reading: Reading) -> Column:
    """What collected reports say, read like this."""
    estimates = estimate(
        plan.answered,
        collected,
        errors=reading.errors,
        population=reading.population,
        non_negative=reading.non_negative,
    )
    # About the unbiased answers, and widened where needed to hold the fitted ones.
    accuracy = estimates.accuracy
    if reading.margins is not None:
        require(
            plan.targets is None,
            "margins",
            reading.margins.attributes,
            "need exact queries",
        )
        return in_population(plan, reading.margins, estimates.histogram, accuracy)

    if reading.liars and collected.groups > 1:
        raise InvalidParameter(
            "liars", reading.liars, "cannot be combined with medians over groups",
            "leave out median",
        )  # fmt: skip

    if liars_limit(plan, reading) == "consistent":
        robust = robust_answers(plan.plain_workload, collected, reading.liars)
        limits = robust.lower, robust.upper
        return Column(robust.answers, accuracy.std, limits, limits)

    widths = accuracy.multiplier(LEVEL), accuracy.joint_multiplier(LEVEL)
    around = Column.around(estimates.centre, accuracy.std, *widths)
    answers = _shrunk(plan, collected) if reading.shrink else estimates.answers
    moved = _moved(plan, collected, reading.liars)
    if plan.bias is not None:
        moved = moved + collected.people * plan.bias

    each, all_ = (
        (np.minimum(low - moved, answers), np.maximum(high + moved, answers))
        for low, high in (around.each, around.all)
    )
    return Column(answers, accuracy.std, each, all_)


def liars_limit(
    plan: LocalPlan, reading: Reading
) -> Literal["consistent", "influence"] | None:
    """How it is found what liars can have done, where there may be any.

    `consistent`: answers and limits are of all tables of people that explain the reports with
    so few liars. `influence`: intervals are wider by what so many reports move an answer at
    most; larger, and for any number of cells.
    """
    if not reading.liars:
        return None
    plain = not (reading.non_negative or reading.population) and plan.targets is None
    small = can_be_robust(plan.strategy, plan.plain_workload)
    return "consistent" if plain and small else "influence"


def _shrunk(plan: LocalPlan, collected: Aggregate) -> FloatArray:
    require(
        collected.groups <= 1,
        "shrink",
        True,
        "cannot be combined with medians over groups",
    )
    cells = plan.shrinkage(collected.people).histogram(collected.total)
    return np.asarray(plan.answered.matvec(cells), dtype=np.float64)


def _moved(plan: LocalPlan, collected: Aggregate, liars: float) -> FloatArray | float:
    """How far liars can have moved each answer, at most."""
    if not liars:
        return 0.0
    number = ceil(liars * collected.people)
    return number * influence(plan.strategy, plan.answered, collected.cap)
