"""What plans with a curator and their releases are kept as."""

from __future__ import annotations

from math import inf, prod
from typing import Annotated, Any, Self

import msgspec

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
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.files import (
    Kept,
    Number,
    Text,
    domain_beside,
    domain_of,
)
from noisewright.planning.release import Release
from noisewright.planning.spending import LedgerNote
from noisewright.planning.together import Together
from noisewright.privacy.promise.budget import Contribution, Privacy
from noisewright.privacy.promise.calibration import row_budget
from noisewright.workload.forms.stored import (
    StoredWorkload,
    restored_workload,
    stored_workload,
)
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

    workload: StoredWorkload
    domain: dict[str, Any] | None
    sizes: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    privacy: Privacy
    mechanism: Text
    norm: float | None
    strategy: StoredCentral
    value: Size | None
    bound: Number | None
    certificate: Text
    status: Text
    neighbours: Text
    asked: Privacy | None

    @classmethod
    def of(cls, plan: CentralPlan) -> Self:
        """What a plan is kept as."""
        strategy = plan.mechanism.packed()
        proposal = plan.proposal
        if not isinstance(strategy, StoredCentral):
            raise FileFormatError(
                f"plans by {plan.mechanism.name} cannot be kept; release them now"
            )

        return cls(
            workload=stored_workload(plan.workload),
            domain=domain_beside(plan.workload, plan.domain),
            sizes=plan.sizes,
            privacy=plan.calibrated,
            mechanism=plan.mechanism.name,
            norm=None if plan.norm == inf else plan.norm,
            strategy=strategy,
            value=proposal.value,
            bound=proposal.bound,
            certificate=proposal.certificate,
            status=proposal.status,
            neighbours=proposal.neighbours,
            asked=plan.asked,
        )

    def content(self) -> CentralPlan:
        """The plan again."""
        workload = restored_workload(self.workload)
        domain = domain_of(workload, self.domain)
        norm = inf if self.norm is None else self.norm
        cells = {workload.size, prod(self.sizes)} | (
            set() if domain is None else {domain.size}
        )
        if len(cells) > 1 or not norm >= 1:
            raise FileFormatError(
                "the plan's parts are over different cells; plan again"
            )

        privacy = self.privacy
        bounds = RowBounds.of(domain, self.sizes)
        own = row_budget(privacy, Contribution(bounds.rows))
        method: Mechanism = self.strategy.unpacked(own, self.sizes)
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
            0.0,
            promise=None if bounds.rows == 1 else privacy,
            asked=self.asked,
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

    privacy: Privacy
    plans: tuple[CentralFile, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, together: Together) -> Self:
        """What the plans are kept as."""
        plans = tuple(map(CentralFile.of, together.plans))
        return cls(privacy=together.privacy, plans=plans, shares=together.shares)

    def content(self) -> Together:
        """The plans again; together they keep the budget, or are refused."""
        plans = tuple(stored.content() for stored in self.plans)
        together = Together(self.privacy, plans, self.shares)
        if len(plans) != len(self.shares) or not together.keeps_budget:
            raise FileFormatError(
                "the plans spend more than the budget together; plan again"
            )

        return together


class ReleaseFile(Kept, frozen=True, tag="release"):
    """A release by a curator: its plan, what was measured, and the steps taken after the noise."""

    plan: CentralFile
    measurement: Measurement
    steps: tuple[Steps, ...]
    identity: Text | None
    time: Text | None
    ledger: LedgerNote | None = None

    @classmethod
    def of(cls, release: Release) -> Self:
        """What a release is kept as."""
        if not isinstance(release.plan, CentralPlan):
            raise FileFormatError(
                "estimates are kept as aggregates; save the aggregate and plan"
            )

        return super().of(release)

    def content(self) -> Release:
        """The release again: its answers are worked out anew."""
        plan = self.plan.content()
        # answers are worked out from what was measured
        plan.mechanism.check_reach(plan.terms)

        for number, steps in enumerate(self.steps):
            check_steps(plan, steps)
            check_order(self.steps[:number], steps)

        if not plan.mechanism.fits(self.measurement):
            raise FileFormatError(
                "the measurement is not of this plan; it was damaged or edited"
            )

        return Release(
            plan, self.measurement, self.steps, self.identity, self.time, self.ledger
        )
