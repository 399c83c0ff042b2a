"""The kinds of file that plans and releases are kept as, and how they are written and read.

Each kind is one struct: `central_files`, `local_files`, `open_files`, `moment_files`,
`stream_files`.

Every file is hostile: whatever a file says is checked like a user's own input, budgets decide the
noise, sensitivities are computed from the integers that are measured, and answers are worked out
again from the measurement. What a file says of bounds and seconds is the file's own word.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from noisewright import container
from noisewright.arrays import Array
from noisewright.central.mechanism import Mechanism
from noisewright.container import Header, digest
from noisewright.errors import FileFormatError, refusing
from noisewright.planning.budgets.together import Together
from noisewright.planning.central.files import CentralFile, ReleaseFile, TogetherFile
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.counting import Counter
from noisewright.planning.found.open_files import OpenFile, OpenReleaseFile, ValuesFile
from noisewright.planning.found.open_values import OpenPlan, OpenTables
from noisewright.planning.found.values import ValuePlan
from noisewright.planning.kept import Arrays, Kept
from noisewright.planning.local.files import EstimateFile, LocalFile
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.plan import Plan
from noisewright.planning.release import Release
from noisewright.planning.rows.covariance import CovariancePlan, CovarianceRelease
from noisewright.planning.rows.files import (
    CovarianceFile,
    CovarianceReleaseFile,
    PairsFile,
    PairsReleaseFile,
)
from noisewright.planning.rows.pairs import PairsPlan, PairsRelease
from noisewright.planning.streams.files import (
    RunningFile,
    StreamFile,
    StreamReleaseFile,
)
from noisewright.planning.streams.plan import CarryStreamPlan, StreamPlan
from noisewright.planning.streams.running import (
    RunningCarryStream,
    RunningGaussianStream,
    RunningStream,
    StreamRelease,
)
from noisewright.workload.forms.stored import encode_workload

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
Content = (
    Plan | Release | CovarianceRelease | PairsRelease | StreamRelease | RunningStream
)
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
    return _rebuilt(
        *container.decode(content, FileKind, name, "plan again"), name, counter
    )


def _rebuilt(
    header: Header, arrays: Arrays, name: str, counter: Counter | None
) -> Content:
    assert isinstance(header, Kept)
    with refusing(f"{name}: the content is incomplete or damaged; plan again"):
        content: Content = header.content(arrays)
        return _equipped(content, counter)


def _equipped(content: Content, counter: Counter | None) -> Content:
    """With the engine handed in, before anything was worked out that would be lost."""
    if isinstance(content, CentralPlan | LocalPlan | ValuePlan | OpenPlan):
        return replace(content, counter=counter)
    if isinstance(content, Together):
        return replace(
            content, plans=tuple(replace(p, counter=counter) for p in content.plans)
        )
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
    return digest(
        text, *(part for name in sorted(arrays) for part in (name, arrays[name]))
    )


def strategy_hash(mechanism: Mechanism) -> str:
    """A digest of exactly what is measured."""
    arrays: dict[str, Array] = {}
    stored = mechanism.packed(arrays)
    # As a file gives it back: where a fraction is meant, 1024 and 1024.0 are the same number.
    read = msgspec.json.decode(msgspec.json.encode(stored), type=type(stored))
    text = msgspec.json.encode(read, order="sorted")
    return digest(
        text, *(part for name in sorted(arrays) for part in (name, arrays[name]))
    )
