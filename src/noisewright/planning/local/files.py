"""What plans without a curator and estimates from reports are kept as."""

from __future__ import annotations

from math import inf, isfinite
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from noisewright.arrays import Array, ByteArray, FloatArray
from noisewright.errors import FileFormatError
from noisewright.local.bounds.proof import Proof
from noisewright.planning.files import (
    Kept,
    Text,
    domain_beside,
    domain_of,
)
from noisewright.planning.local.plan import (
    LocalPlan,
    NamedStrategy,
    RunnerUp,
    runner_up,
)
from noisewright.planning.local.reading import Reading
from noisewright.planning.release import Release
from noisewright.workload.forms.stored import (
    StoredWorkload,
    restored_workload,
    stored_workload,
)


class StoredRunnerUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mechanism that was planned and not taken."""

    mechanism: Text
    sample_complexity: float | None
    people_for_max_error: Annotated[int, msgspec.Meta(ge=1)] | None = None


class StoredGoal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A largest error that a plan was made for."""

    error: float
    beta: float


class LocalFile(Kept, frozen=True, tag="local-plan"):
    """A plan without a curator."""

    workload: StoredWorkload
    domain: dict[str, Any] | None
    mechanism: Text
    strategy: dict[str, Any]
    arrays: dict[str, Array]
    """What belongs to the strategy beside its settings."""
    proof: dict[str, Array]
    """The arrays of the proof that came with the plan; none where there is no such proof."""
    targets: FloatArray | None
    """What is answered in place of the queries."""
    runners_up: list[StoredRunnerUp]
    people: int | None
    alpha: float | None
    goal: StoredGoal | None
    cut_short: bool

    @classmethod
    def of(cls, plan: LocalPlan) -> Self:
        """What a plan is kept as."""
        from noisewright.local.storage import pack

        settings, arrays = pack(plan.strategy)
        return cls(
            workload=stored_workload(plan.workload),
            domain=domain_beside(plan.workload, plan.domain),
            mechanism=plan.mechanism.name,
            strategy=settings,
            arrays=arrays,
            proof={} if plan.proof is None else dict(vars(plan.proof)),
            targets=plan.targets,
            runners_up=[
                StoredRunnerUp(
                    row["mechanism"],
                    _finite(row["sample_complexity"]),
                    row.get("people_for_max_error"),
                )
                for row in plan.runners_up
            ],
            people=plan.people,
            alpha=plan.alpha,
            goal=None
            if plan.goal is None
            else StoredGoal(plan.goal.error, plan.goal.beta),
            cut_short=plan.cut_short,
        )

    def content(self) -> LocalPlan:
        """The plan again: its promise is what its clients' specification keeps."""
        from noisewright.local.analysis.analysis import check_alpha
        from noisewright.local.choose.cost import check_people
        from noisewright.local.storage import unpack
        from noisewright.local.vector.tails import MaxError

        workload = restored_workload(self.workload)

        return LocalPlan(
            workload=workload,
            domain=domain_of(workload, self.domain),
            mechanism=NamedStrategy(self.mechanism, unpack(self.strategy, self.arrays)),
            runners_up=tuple(map(_runner_up, self.runners_up)),
            people=None if self.people is None else check_people(self.people),
            alpha=None if self.alpha is None else check_alpha(self.alpha),
            proof=_proof_of(self.proof, workload.size),
            goal=None
            if self.goal is None
            else MaxError(self.goal.error, self.goal.beta),
            cut_short=self.cut_short,
            targets=self.targets,
        )


def _runner_up(row: StoredRunnerUp) -> RunnerUp:
    known = inf if row.sample_complexity is None else row.sample_complexity
    return runner_up(row.mechanism, known, row.people_for_max_error)


def _proof_of(arrays: dict[str, Array], cells: int) -> Proof | None:
    """The proof in a file, if one is there."""
    from noisewright.local.bounds.proved import MOST_LISTED, stored_proof

    proof = stored_proof(arrays) if arrays else None
    if proof is not None and proof.cells[-1] >= min(cells, MOST_LISTED):
        raise FileFormatError(
            "the proof is about cells that the plan does not have; plan again"
        )

    return proof


class EstimateFile(Kept, frozen=True, tag="estimate"):
    """Estimates from people's reports: the plan, the reports' statistics, how they are read."""

    plan: LocalFile
    aggregate: ByteArray
    reading: Reading
    time: Text | None

    @classmethod
    def of(cls, release: Release) -> Self:
        """What estimates are kept as."""
        assert isinstance(release.plan, LocalPlan)
        aggregate = np.frombuffer(release.measurement.to_bytes(), dtype=np.uint8)
        return cls(
            plan=LocalFile.of(release.plan),
            aggregate=aggregate,
            reading=release.steps[0],
            time=release.time,
        )

    def content(self) -> Release:
        """The estimates again."""
        from noisewright.local.reports.aggregate import Aggregate

        plan = self.plan.content()
        aggregate = Aggregate.from_bytes(self.aggregate.tobytes(), plan.format)
        return Release(plan, aggregate, (self.reading,), time=self.time)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
