"""What plans with a curator and their releases are kept as."""

from __future__ import annotations

from math import inf, prod
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from noisewright.arrays import Array
from noisewright.central.blocks.mechanism import StoredBlocks
from noisewright.central.carry.mechanism import StoredCarry
from noisewright.central.combined import StoredCombined
from noisewright.central.composite import StoredComposite
from noisewright.central.geometry.balls import StoredBalls
from noisewright.central.geometry.fitted import StoredFit
from noisewright.central.geometry.k_norm import StoredKNorm
from noisewright.central.groups import RowBounds
from noisewright.central.mechanism import Measurement, Mechanism
from noisewright.central.problem import Proposal
from noisewright.errors import FileFormatError
from noisewright.planning.after.postprocess import Steps, check_order, check_steps
from noisewright.planning.budgets.spending import LedgerNote
from noisewright.planning.budgets.together import Together
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.files import (
    Arrays,
    Kept,
    Number,
    Text,
    domain_beside,
    domain_of,
    inside,
)
from noisewright.planning.release import Release
from noisewright.privacy.promise.budget import Contribution, Privacy
from noisewright.privacy.promise.calibration import row_budget
from noisewright.workload.forms.stored import decode_workload, encode_workload
from noisewright.workload.questions.measures import CentredSum, Count

StoredCentral = (
    StoredBalls
    | StoredBlocks
    | StoredCarry
    | StoredCombined
    | StoredComposite
    | StoredFit
    | StoredKNorm
)
Size = Annotated[float, msgspec.Meta(ge=1e-200, le=1e200)]


class CentralFile(Kept, frozen=True, tag="central-plan"):
    """A plan with a curator."""

    workload: Any
    domain: dict[str, Any] | None
    sizes: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    privacy: dict[str, Any]
    mechanism: Text
    norm: float | None
    strategy: StoredCentral
    value: Size | None
    bound: Number | None
    certificate: Text
    status: Text
    neighbours: Text
    seconds: Number = 0.0
    """Only read, from files of before: the same question makes the same file."""
    asked: dict[str, Any] | None = None

    @classmethod
    def of(cls, plan: CentralPlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        strategy = plan.mechanism.packed(arrays)
        proposal = plan.proposal
        if not isinstance(strategy, StoredCentral):
            raise FileFormatError(
                f"plans by {plan.mechanism.name} cannot be kept; release them now"
            )

        return cls(
            workload=encode_workload(plan.workload, arrays),
            domain=domain_beside(plan.workload, plan.domain),
            sizes=plan.sizes,
            privacy=plan.calibrated.to_dict(),
            mechanism=plan.mechanism.name,
            norm=None if plan.norm == inf else plan.norm,
            strategy=strategy,
            value=proposal.value,
            bound=proposal.bound,
            certificate=proposal.certificate,
            status=proposal.status,
            neighbours=proposal.neighbours,
            asked=None if plan.asked is None else plan.asked.to_dict(),
        )

    def content(self, arrays: Arrays) -> CentralPlan:
        """The plan again."""
        workload = decode_workload(self.workload, arrays)
        domain = domain_of(workload, self.domain)
        norm = inf if self.norm is None else self.norm
        cells = {workload.size, prod(self.sizes)} | (
            set() if domain is None else {domain.size}
        )
        if len(cells) > 1 or not norm >= 1:
            raise FileFormatError(
                "the plan's parts are over different cells; plan again"
            )

        privacy = Privacy.from_dict(self.privacy)
        bounds = RowBounds.of(domain, self.sizes)
        own = row_budget(privacy, Contribution(bounds.rows))
        method: Mechanism = self.strategy.unpacked(arrays, own, self.sizes)
        if bounds.grouped:
            method = method.at(row_budget(privacy, bounds.contribution(method)))
            _ = method.spend  # refuses budgets for which no noise can be drawn

        if _counts_missing(method):
            workload = workload.reading("zero")

        proposal = Proposal(
            method.named(self.mechanism),
            self.value,
            self.bound,
            self.certificate,
            self.status,
            self.neighbours,
        )
        return CentralPlan(
            workload,
            domain,
            self.sizes,
            norm,
            proposal,
            self.seconds,
            promise=None if bounds.rows == 1 else privacy,
            asked=None if self.asked is None else Privacy.from_dict(self.asked),
        )


def _counts_missing(method: Mechanism) -> bool:
    """Whether sums take every missing value for zero.

    Files written before a mean was of those who have a value sum so without a word in the
    questions. They keep that meaning, and their records say so.
    """
    sums = {
        factor.missing
        for table in method.tables
        if not isinstance(table.measure, Count)
        for factor in table.measure.factors
        if isinstance(factor, CentredSum)
    }
    return True in sums and "left-out" not in sums


class TogetherFile(Kept, frozen=True, tag="plans"):
    """Several plans under one budget."""

    privacy: dict[str, Any]
    plans: list[CentralFile]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, together: Together, arrays: dict[str, Array]) -> Self:
        """What the plans are kept as; every plan has arrays of its own."""
        plans = []
        for number, plan in enumerate(together.plans):
            own: dict[str, Array] = {}
            plans.append(CentralFile.of(plan, own))
            arrays |= {f"{number}/{name}": array for name, array in own.items()}

        return cls(
            privacy=together.privacy.to_dict(), plans=plans, shares=together.shares
        )

    def content(self, arrays: Arrays) -> Together:
        """The plans again; together they keep the budget, or are refused."""
        plans = tuple(
            stored.content(inside(arrays, f"{number}/"))
            for number, stored in enumerate(self.plans)
        )
        together = Together(Privacy.from_dict(self.privacy), plans, self.shares)
        if len(plans) != len(self.shares) or not together.keeps_budget:
            raise FileFormatError(
                "the plans spend more than the budget together; plan again"
            )

        return together


class StoredMeasurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of the arrays of a measurement, and of its parts."""

    values: list[str]
    parts: list[StoredMeasurement]

    @classmethod
    def of(cls, measurement: Measurement, arrays: dict[str, Array]) -> Self:
        """What a measurement is kept as."""
        names = []
        for values in measurement.values:
            name = f"measured.{len(arrays)}"
            arrays[name] = values
            names.append(name)
        return cls(names, [cls.of(part, arrays) for part in measurement.parts])

    def content(self, arrays: Arrays, mechanism: Mechanism) -> Measurement:
        """The measurement again, if the mechanism could have made one of this form."""
        measurement = self._rebuilt(arrays)
        if not mechanism.fits(measurement):
            raise FileFormatError(
                "the measurement is not of this plan; it was damaged or edited"
            )
        return measurement

    def _rebuilt(self, arrays: Arrays) -> Measurement:
        values = tuple(arrays[name] for name in self.values)
        if any(v.dtype != np.float64 or not np.isfinite(v).all() for v in values):
            raise FileFormatError(
                "the measurement holds what no measurement can; release again"
            )
        return Measurement(values, tuple(part._rebuilt(arrays) for part in self.parts))


class ReleaseFile(Kept, frozen=True, tag="release"):
    """A release by a curator: its plan, what was measured, and the steps taken after the noise."""

    plan: CentralFile
    measurement: StoredMeasurement
    steps: tuple[Steps, ...]
    identity: Text | None
    time: Text | None
    ledger: LedgerNote | None = None

    @classmethod
    def of(cls, release: Release, arrays: dict[str, Array]) -> Self:
        """What a release is kept as."""
        if not isinstance(release.plan, CentralPlan):
            raise FileFormatError(
                "estimates are kept as aggregates; save the aggregate and plan"
            )

        plan = CentralFile.of(release.plan, arrays)
        measurement = StoredMeasurement.of(release.measurement, arrays)
        return cls(
            plan=plan,
            measurement=measurement,
            steps=release.steps,
            identity=release.identity,
            time=release.time,
            ledger=release.ledger,
        )

    def content(self, arrays: Arrays) -> Release:
        """The release again: its answers are worked out anew."""
        plan = self.plan.content(arrays)
        # answers are worked out from what was measured
        plan.mechanism.check_reach(plan.terms)
        for number, steps in enumerate(self.steps):
            check_steps(plan, steps)
            check_order(self.steps[:number], steps)

        measurement = self.measurement.content(arrays, plan.mechanism)
        return Release(
            plan, measurement, self.steps, self.identity, self.time, self.ledger
        )
