"""What plans and releases are kept as: one struct per kind of file, and how it is rebuilt.

Every file is hostile: whatever a file says is checked like a user's own input, budgets decide the
noise, sensitivities are computed from the integers that are measured, and answers are worked out
again from the measurement. What a file says of bounds and seconds is the file's own word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isfinite, prod
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from noisewright import container
from noisewright.central.blocks.block_mechanism import StoredBlocks
from noisewright.central.carry.carry_mechanism import StoredCarry
from noisewright.central.combined import StoredCombined
from noisewright.central.composite import StoredComposite
from noisewright.central.geometry.balls import StoredBalls
from noisewright.central.geometry.fitted import StoredFit
from noisewright.central.geometry.k_norm import StoredKNorm
from noisewright.central.groups import RowBounds
from noisewright.central.mechanism import Measurement, Mechanism
from noisewright.central.problem import Proposal
from noisewright.container import Header, digest
from noisewright.domain import Domain
from noisewright.errors import FileFormatError, refusing
from noisewright.local.bounds.proof import Proof
from noisewright.planning.central import CentralPlan
from noisewright.planning.counting import Counter
from noisewright.planning.covariance import CovariancePlan, CovarianceRelease
from noisewright.planning.kept import Arrays, Kept, Text
from noisewright.planning.local import LocalPlan, Reading
from noisewright.planning.moment_files import (
    CovarianceFile,
    CovarianceReleaseFile,
    PairsFile,
    PairsReleaseFile,
)
from noisewright.planning.open_values import OpenPlan, OpenTables, plan_open
from noisewright.planning.pairs import PairsPlan, PairsRelease
from noisewright.planning.plan import Plan
from noisewright.planning.postprocess import Steps, check_order, check_steps
from noisewright.planning.release import Release
from noisewright.planning.running import (
    RunningCarryStream,
    RunningGaussianStream,
    RunningStream,
    StreamRelease,
)
from noisewright.planning.spending import LedgerNote
from noisewright.planning.stream import CarryStreamPlan, StreamPlan
from noisewright.planning.stream_files import RunningFile, StreamFile, StreamReleaseFile
from noisewright.planning.together import Together
from noisewright.planning.values import ValuePlan, plan_values
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import row_budget
from noisewright.privacy.contribution import Contribution
from noisewright.workload.base import Array
from noisewright.workload.spec import Questions
from noisewright.workload.stored import decode_workload, encode_workload

StoredCentral = (
    StoredBalls
    | StoredBlocks
    | StoredCarry
    | StoredCombined
    | StoredComposite
    | StoredFit
    | StoredKNorm
)
Number = Annotated[float, msgspec.Meta(ge=0.0, le=1e200)]  # squares stay within floats
Size = Annotated[float, msgspec.Meta(ge=1e-200, le=1e200)]
_STRATEGY = "strategy."  # names of arrays that belong to a local strategy
_PROOF = "proof."  # and to the proof that came with it
_TARGETS = "targets"  # what is answered in place of the queries


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
    seconds: Number

    @classmethod
    def of(cls, plan: CentralPlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        strategy, proposal = plan.method.packed(arrays), plan.proposal
        if not isinstance(strategy, StoredCentral):
            raise FileFormatError(f"plans by {plan.mechanism} cannot be kept; release them now")
        return cls(
            workload=encode_workload(plan.workload, arrays),
            domain=_domain_beside(plan.workload, plan.domain),
            sizes=plan.sizes,
            privacy=plan.calibrated.to_dict(),
            mechanism=plan.mechanism,
            norm=None if plan.norm == inf else plan.norm,
            strategy=strategy,
            value=proposal.value,
            bound=proposal.bound,
            certificate=proposal.certificate,
            status=proposal.status,
            neighbours=proposal.neighbours,
            seconds=plan.seconds,
        )

    def content(self, arrays: Arrays) -> CentralPlan:
        """The plan again."""
        workload = decode_workload(self.workload, arrays)
        domain = _domain_of(workload, self.domain)
        norm = inf if self.norm is None else self.norm
        cells = {workload.size, prod(self.sizes)} | (set() if domain is None else {domain.size})
        if len(cells) > 1 or not norm >= 1:
            raise FileFormatError("the plan's parts are over different cells; plan again")
        privacy = Privacy.from_dict(self.privacy)
        bounds = RowBounds.of(domain, self.sizes)
        own = row_budget(privacy, Contribution(bounds.rows))
        method: Mechanism = self.strategy.unpacked(arrays, own, self.sizes)
        if bounds.grouped:
            method = method.at(row_budget(privacy, bounds.contribution(method)))
            _ = method.spend  # refuses budgets for which no noise can be drawn
        proposal = Proposal(
            method,
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
            self.mechanism,
            proposal,
            self.seconds,
            promise=None if bounds.rows == 1 else privacy,
        )


class RunnerUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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

    workload: Any
    domain: dict[str, Any] | None
    mechanism: Text
    strategy: dict[str, Any]
    seconds: Number
    runners_up: list[RunnerUp]
    people: int | None
    alpha: float | None
    goal: StoredGoal | None = None

    @classmethod
    def of(cls, plan: LocalPlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        from noisewright.local.storage import pack

        settings, own = pack(plan.strategy)
        arrays |= {f"{_STRATEGY}{name}": array for name, array in own.items()}
        if plan.proof is not None:
            arrays |= {f"{_PROOF}{name}": array for name, array in vars(plan.proof).items()}
        if plan.targets is not None:
            arrays[_TARGETS] = plan.targets
        return cls(
            workload=encode_workload(plan.workload, arrays),
            domain=_domain_beside(plan.workload, plan.domain),
            mechanism=plan.mechanism,
            strategy=settings,
            seconds=plan.seconds,
            runners_up=[
                RunnerUp(
                    row["mechanism"],
                    _finite(row["sample_complexity"]),
                    row.get("people_for_max_error"),
                )
                for row in plan.runners_up
            ],
            people=plan.people,
            alpha=plan.alpha,
            goal=None if plan.goal is None else StoredGoal(plan.goal.error, plan.goal.beta),
        )

    def content(self, arrays: Arrays) -> LocalPlan:
        """The plan again: its promise is what its clients' specification keeps."""
        from noisewright.local.analysis.analysis import check_alpha
        from noisewright.local.approximate.tails import MaxError
        from noisewright.local.choose.cost import check_people
        from noisewright.local.reading import stored
        from noisewright.local.storage import unpack

        workload = decode_workload(self.workload, arrays)
        own = {n.removeprefix(_STRATEGY): a for n, a in arrays.items() if n.startswith(_STRATEGY)}
        return LocalPlan(
            workload=workload,
            domain=_domain_of(workload, self.domain),
            mechanism=self.mechanism,
            strategy=unpack(self.strategy, own),
            seconds=self.seconds,
            runners_up=tuple(map(_runner_up, self.runners_up)),
            people=None if self.people is None else check_people(self.people),
            alpha=None if self.alpha is None else check_alpha(self.alpha),
            proof=_proof_of(arrays, workload.size),
            goal=None if self.goal is None else MaxError(self.goal.error, self.goal.beta),
            targets=stored(arrays, _TARGETS, np.float64, workload.shape)
            if _TARGETS in arrays
            else None,
        )


def _runner_up(row: RunnerUp) -> dict[str, Any]:
    people = row.people_for_max_error
    known = inf if row.sample_complexity is None else row.sample_complexity
    told = {} if people is None else {"people_for_max_error": people}
    return {"mechanism": row.mechanism, "sample_complexity": known, **told}


def _proof_of(arrays: Arrays, cells: int) -> Proof | None:
    """The proof in a file, if one is there."""
    from noisewright.local.bounds.proved import MOST_LISTED, stored_proof

    own = {n.removeprefix(_PROOF): a for n, a in arrays.items() if n.startswith(_PROOF)}
    proof = stored_proof(own) if own else None
    if proof is not None and proof.cells[-1] >= min(cells, MOST_LISTED):
        raise FileFormatError("the proof is about cells that the plan does not have; plan again")
    return proof


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
        return cls(privacy=together.privacy.to_dict(), plans=plans, shares=together.shares)

    def content(self, arrays: Arrays) -> Together:
        """The plans again; together they keep the budget, or are refused."""
        plans = tuple(
            stored.content(_inside(arrays, f"{number}/"))
            for number, stored in enumerate(self.plans)
        )
        together = Together(Privacy.from_dict(self.privacy), plans, self.shares)
        if len(plans) != len(self.shares) or not together.keeps_budget:
            raise FileFormatError("the plans spend more than the budget together; plan again")
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
            raise FileFormatError("the measurement is not of this plan; it was damaged or edited")
        return measurement

    def _rebuilt(self, arrays: Arrays) -> Measurement:
        values = tuple(arrays[name] for name in self.values)
        if any(v.dtype != np.float64 or not np.isfinite(v).all() for v in values):
            raise FileFormatError("the measurement holds what no measurement can; release again")
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
            raise FileFormatError("estimates are kept as aggregates; save the aggregate and plan")
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
        plan.method.check_reach(plan.terms)  # answers are worked out from what was measured
        for number, steps in enumerate(self.steps):
            check_steps(plan, steps)
            check_order(self.steps[:number], steps)
        measurement = self.measurement.content(arrays, plan.method)
        return Release(plan, measurement, self.steps, self.identity, self.time, self.ledger)


class EstimateFile(Kept, frozen=True, tag="estimate"):
    """Estimates from people's reports: the plan, the reports' statistics, how they are read."""

    plan: LocalFile
    reading: Reading
    time: Text | None = None

    @classmethod
    def of(cls, release: Release, arrays: dict[str, Array]) -> Self:
        """What estimates are kept as."""
        assert isinstance(release.plan, LocalPlan)
        plan = LocalFile.of(release.plan, arrays)
        arrays["aggregate"] = np.frombuffer(release.measurement.to_bytes(), dtype=np.uint8)
        return cls(plan=plan, reading=release.steps[0], time=release.time)

    def content(self, arrays: Arrays) -> Release:
        """The estimates again."""
        from noisewright.local.reports.aggregate import Aggregate

        plan = self.plan.content(arrays)
        aggregate = Aggregate.from_bytes(arrays["aggregate"].tobytes(), plan.format)
        return Release(plan, aggregate, (self.reading,), time=self.time)


class ValuesFile(Kept, frozen=True, tag="values-plan"):
    """A plan of values that nobody listed: all else follows from these."""

    column: Text
    privacy: dict[str, Any]
    unit: dict[str, Any] | None

    @classmethod
    def of(cls, plan: ValuePlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        unit = None if plan.unit is None else plan.unit.to_dict()
        return cls(column=plan.column, privacy=plan.privacy.to_dict(), unit=unit)

    def content(self, arrays: Arrays) -> ValuePlan:
        """The plan again."""
        return plan_values(self.column, Privacy.from_dict(self.privacy), unit=self.unit)


class OpenFile(Kept, frozen=True, kw_only=True, tag="open"):
    """Values that nobody listed, and tables over them: all follows from what was declared."""

    schema: dict[str, Any]
    queries: dict[str, Any]
    privacy: dict[str, Any]
    share: float
    error: Text

    @classmethod
    def of(cls, plan: OpenPlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        return cls(
            schema=dict(plan.schema), queries=dict(plan.queries),
            privacy=plan.privacy.to_dict(), share=plan.share, error=plan.error,
        )  # fmt: skip

    def content(self, arrays: Arrays) -> OpenPlan:
        """The plan again."""
        privacy = Privacy.from_dict(self.privacy)
        return plan_open(self.queries, self.schema, privacy, share=self.share, error=self.error)


class OpenReleaseFile(Kept, frozen=True, kw_only=True, tag="open-release"):
    """Values that were told, and a release of tables over them."""

    selection: OpenFile
    values: dict[Text, list[Text]]
    tables: ReleaseFile

    @classmethod
    def of(cls, release: Release, arrays: dict[str, Array]) -> Self:
        """What a release is kept as."""
        plan = release.plan
        assert isinstance(plan, OpenTables)
        return cls(
            selection=OpenFile.of(plan.selection, arrays),
            values={name: list(told) for name, told in plan.values.items()},
            tables=ReleaseFile.of(release, arrays),
        )

    def content(self, arrays: Arrays) -> Release:
        """The release again, if its tables are over these values."""
        tables = self.tables.content(arrays)
        assert isinstance(tables.plan, CentralPlan)
        plan = self.selection.content(arrays).told(tables.plan, self.values)
        return replace(tables, plan=plan)


FileKind = (
    CentralFile
    | LocalFile
    | StreamFile
    | RunningFile
    | StreamReleaseFile
    | TogetherFile
    | ReleaseFile
    | EstimateFile
    | CovarianceFile
    | CovarianceReleaseFile
    | PairsFile
    | PairsReleaseFile
    | ValuesFile
    | OpenFile
    | OpenReleaseFile
)
Content = Plan | Release | CovarianceRelease | PairsRelease | StreamRelease | RunningStream
_KINDS: dict[type, Any] = {
    CentralPlan: CentralFile,
    LocalPlan: LocalFile,
    StreamPlan: StreamFile,
    CarryStreamPlan: StreamFile,
    RunningGaussianStream: RunningFile,
    RunningCarryStream: RunningFile,
    StreamRelease: StreamReleaseFile,
    Together: TogetherFile,
    CovariancePlan: CovarianceFile,
    CovarianceRelease: CovarianceReleaseFile,
    PairsPlan: PairsFile,
    PairsRelease: PairsReleaseFile,
    ValuePlan: ValuesFile,
    OpenPlan: OpenFile,
}


def save(thing: Content, path: str | Path) -> None:
    """Write a plan or a release, whole or not at all; a running stream for its owner's eyes."""
    mode = 0o600 if isinstance(thing, RunningStream) else None
    container.write(path, *_packed(thing), mode=mode)


def to_bytes(thing: Content) -> bytes:
    """The content of the file that keeps a plan or a release."""
    return container.encode(*_packed(thing))


def kept_bytes(result: object) -> bytes | None:
    """What a ledger keeps of a result: a release that files can hold, whole."""
    if not isinstance(result, Release | CovarianceRelease | PairsRelease):
        return None
    try:
        return to_bytes(result)
    except FileFormatError:
        return None


def _packed(thing: Content) -> tuple[Header, dict[str, Array]]:
    arrays: dict[str, Array] = {}
    if isinstance(thing, Release):
        kind: Any = ReleaseFile if isinstance(thing.plan, CentralPlan) else EstimateFile
        kind = OpenReleaseFile if isinstance(thing.plan, OpenTables) else kind
    else:
        kind = _KINDS[type(thing)]
    return kind.of(thing, arrays), arrays


def load(path: str | Path, counter: Counter | None = None) -> Content:
    """Read a plan or a release of any kind; `counter` is what its plan counts tables with."""
    return _rebuilt(*container.read(path, FileKind, "plan again"), str(path), counter)


def stored_stream(path: str | Path) -> tuple[StreamRelease, str, bool]:
    """Of a running stream its answers, where its position is, and whether it can go on there."""
    header, arrays = container.read(path, RunningFile, "restore the file")
    with refusing(f"{path}: the content is incomplete or damaged; restore the file"):
        return header.release(arrays), header.position, header.is_latest(arrays)


def from_bytes(content: bytes, counter: Counter | None = None) -> Content:
    """What `to_bytes` kept."""
    name = "what was kept"
    return _rebuilt(*container.decode(content, FileKind, name, "plan again"), name, counter)


def _rebuilt(header: Header, arrays: Arrays, name: str, counter: Counter | None) -> Content:
    assert isinstance(header, Kept)
    with refusing(f"{name}: the content is incomplete or damaged; plan again"):
        content: Content = header.content(arrays)
        return _equipped(content, counter)


def _equipped(content: Content, counter: Counter | None) -> Content:
    """With the engine handed in, before anything was worked out that would be lost."""
    if isinstance(content, CentralPlan | LocalPlan | ValuePlan | OpenPlan):
        return replace(content, counter=counter)
    if isinstance(content, Together):
        return replace(content, plans=tuple(replace(p, counter=counter) for p in content.plans))
    if isinstance(content, Release) and isinstance(content.plan, CentralPlan):
        return replace(content, plan=replace(content.plan, counter=counter))
    return content


def plan_digest(plan: Plan) -> str:
    """A name for all that decides what a release of the plan measures and answers."""
    if isinstance(plan, Together):
        return digest(*map(plan_digest, plan.plans))
    arrays: dict[str, Array] = {}
    if not isinstance(plan, CentralPlan):
        parts: Any = _KINDS[type(plan)].of(plan, arrays)
    else:
        workload = encode_workload(plan.workload, arrays)
        domain = None if plan.domain is None else plan.domain.fingerprint
        parts = [workload, domain, plan.privacy.to_dict(), strategy_hash(plan.method)]
    text = msgspec.json.encode(parts, order="sorted")
    return digest(text, *(part for name in sorted(arrays) for part in (name, arrays[name])))


def strategy_hash(mechanism: Mechanism) -> str:
    """A digest of exactly what is measured."""
    arrays: dict[str, Array] = {}
    text = msgspec.json.encode(mechanism.packed(arrays), order="sorted")
    return digest(text, *(part for name in sorted(arrays) for part in (name, arrays[name])))


def _inside(arrays: Arrays, prefix: str) -> dict[str, Array]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _domain_beside(workload: Any, domain: Domain | None) -> dict[str, Any] | None:
    """The domain, unless the workload holds it."""
    return None if domain is None or isinstance(workload, Questions) else domain.to_dict()


def _domain_of(workload: Any, stored: Mapping[str, Any] | None) -> Domain | None:
    if isinstance(workload, Questions):
        return workload.domain
    return None if stored is None else Domain.from_dict(stored)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
