"""A toy kind of plan: how many people there are.

Its only purpose is to show that a kind is one file, and a line for each kind of file it is kept as.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright import __version__
from noisewright.display import Shown
from noisewright.estimate.intervals import laplace_multiplier
from noisewright.planning.files import FileKind, Kept
from noisewright.planning.plan import LEVEL, CuratorPlan, Forecast
from noisewright.planning.release import Answers
from noisewright.planning.spending import UNRECORDED, LedgerNote, Spending
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import Laplace, Spend

KINDS = {
    "headcount-plan": FileKind("planning.headcount.HeadcountFile", "a toy plan"),
    "headcount": FileKind("planning.headcount.HeadcountReleaseFile", "a toy release"),
}


@dataclass(frozen=True)
class Headcount:
    """How many people there are: what `nw.plan` takes."""

    def plan_under(self, budget: Privacy, options: None = None) -> HeadcountPlan:
        return HeadcountPlan(budget)


@dataclass(frozen=True, eq=False, repr=False)
class HeadcountPlan(CuratorPlan[int, "HeadcountRelease"]):
    privacy: Privacy

    kind = "headcount-plan"
    release_kind = "headcount"
    title = "number of people"

    @property
    def law(self):
        return calibrate(self.privacy, l1=1.0)

    @property
    def spend(self):
        return Spend(self.privacy.neighbours, (Laplace(1 / self.law.scale),))

    def exact(self, data, counter=None):
        return int(np.sum(data))

    def noisy(self, exact, spending=None, source=None):
        paid = spending or Spending()
        people = exact + int(self.law.sample(1, source)[0])
        return HeadcountRelease(self, people, paid.identity, paid.note)

    def forecast(self):
        std = np.array([self.law.standard_deviation])
        halfwidth = laplace_multiplier(LEVEL) * std
        return Forecast(std, halfwidth, halfwidth)

    def summary(self):
        told = {"mechanism": "discrete-laplace", "privacy": self.privacy.to_dict()}
        return {**told, **self.forecast().summary()}

    def _facts(self):
        return [("privacy", self.privacy.text())]


@dataclass(frozen=True, eq=False, repr=False)
class HeadcountRelease(Shown, Answers):
    plan: HeadcountPlan
    people: int
    identity: str
    ledger: LedgerNote | None

    kind = "headcount"

    @property
    def metadata(self):
        return {
            "format": "noisewright-release",
            "version": __version__,
            "release": self.identity,
            **self.plan.summary(),
            "spend": self.plan.spend.to_dict(),
            "ledger": UNRECORDED if self.ledger is None else self.ledger.to_dict(),
        }

    def to_arrow(self):
        import pyarrow as pa

        return pa.table({"people": [self.people]})

    def _facts(self):
        return [("people", f"{self.people:,}")]


class HeadcountFile(Kept, frozen=True, tag="headcount-plan"):
    privacy: Privacy

    def content(self) -> Any:
        return HeadcountPlan(self.privacy)


class HeadcountReleaseFile(Kept, frozen=True, tag="headcount"):
    plan: HeadcountFile
    people: int
    identity: str
    ledger: LedgerNote | None

    def content(self) -> Any:
        plan = self.plan.content()
        return HeadcountRelease(plan, self.people, self.identity, self.ledger)
