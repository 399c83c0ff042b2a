"""What plans of running counts, running streams and their answers are kept as.

A running stream is secret: sums of past counts, and noise that is still to be taken back, are as
private as the data. Its answers are public, and a kind of file of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np

from noisewright import container
from noisewright.arrays import Array, FloatArray
from noisewright.central.carry.stream import CarryState
from noisewright.central.running import Position, SumsState
from noisewright.errors import (
    FileFormatError,
    NoisewrightError,
    refusing,
    shortened,
)
from noisewright.norm.exact.prefix import Kind
from noisewright.planning.budgets.spending import LedgerNote
from noisewright.planning.files import Arrays, Kept, Text, opened
from noisewright.planning.streams.plan import CarryStreamPlan, StreamPlan, plan_stream
from noisewright.planning.streams.running import RunningStream, StreamRelease, running
from noisewright.privacy.promise.budget import Privacy

_LARGEST_STEPS = 10**9
_ANSWERS = "answers"
# the name of a kind is the first thing that is seen of a file
SECRET = "secret-running-stream"


class StreamFile(Kept, frozen=True, tag="stream-plan"):
    """A plan of a running count: all else follows from these."""

    steps: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_STEPS)]
    factorization: Kind | Literal["carry"]
    band: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_STEPS)]
    privacy: dict[str, Any]
    appearances: int = 1
    apart: int = 1

    @classmethod
    def of(cls, plan: StreamPlan | CarryStreamPlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        privacy = plan.privacy.to_dict()
        if isinstance(plan, CarryStreamPlan):
            return cls(steps=plan.steps, factorization="carry", band=0, privacy=privacy)

        factors = plan.factorization
        return cls(
            steps=factors.steps, factorization=factors.kind, band=factors.band.size,
            privacy=privacy,
            appearances=plan.appearances.times, apart=plan.appearances.apart,
        )  # fmt: skip

    def content(self, arrays: Arrays) -> StreamPlan | CarryStreamPlan:
        """The plan again."""
        given = {"appearances": self.appearances, "apart": self.apart}
        given |= {"band": self.band} if self.factorization == "banded" else {}
        privacy = Privacy.from_dict(self.privacy)
        if self.factorization == "carry":
            if privacy.kind != "pure":
                raise FileFormatError(
                    "the plan's noise is for pure privacy; plan again"
                )
            return plan_stream(self.steps, privacy)

        return plan_stream(self.steps, privacy, self.factorization, **given)


class StreamReleaseFile(Kept, frozen=True, tag="stream-release"):
    """The answers of a stream so far: its plan, and one running count a step."""

    plan: StreamFile
    identity: Text
    ledger: LedgerNote | None = None
    time: Text | None = None

    @classmethod
    def of(cls, release: StreamRelease, arrays: dict[str, Array]) -> Self:
        """What answers are kept as."""
        arrays[_ANSWERS] = release.answers
        plan = StreamFile.of(release.plan, arrays)
        return cls(
            plan=plan,
            identity=release.identity,
            ledger=release.ledger,
            time=release.time,
        )

    def content(self, arrays: Arrays) -> StreamRelease:
        """The answers again; their errors follow from the plan."""
        plan = self.plan.content(arrays)
        answers = _answers(arrays, self.plan.steps)
        return StreamRelease(plan, answers, self.identity, self.ledger, self.time)


class RunningFile(Kept, frozen=True, tag=SECRET):
    """A running stream, as private as the data: its plan, its state, and where its position is."""

    plan: StreamFile
    position: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    name: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{48}\Z")]
    state: SumsState | CarryState
    identity: Text
    ledger: LedgerNote | None = None
    time: Text | None = None

    @classmethod
    def of(cls, stream: RunningStream, arrays: dict[str, Array]) -> Self:
        """What a running stream is kept as; noise not yet used is no part of it."""
        release = stream.release
        position = stream.position
        if position is None:
            raise NoisewrightError(
                "a stream without a position is not kept, lest a copy answer a step again; start it"
                " with start(position=...)"
            )

        arrays[_ANSWERS] = release.answers
        return cls(
            plan=StreamFile.of(release.plan, arrays),
            position=str(position.folder),
            name=position.name,
            state=stream.state(),
            identity=release.identity,
            ledger=release.ledger,
            time=release.time,
        )

    def release(self, arrays: Arrays) -> StreamRelease:
        """The answers alone, which no position is asked for."""
        return StreamReleaseFile(
            plan=self.plan, identity=self.identity, ledger=self.ledger, time=self.time
        ).content(arrays)

    def is_latest(self, arrays: Arrays) -> bool:
        """Whether the position on this disk is where this state is."""
        steps = len(_answers(arrays, self.plan.steps))
        return Position(Path(self.position), self.name).is_at(steps)

    def content(self, arrays: Arrays) -> RunningStream:
        """The stream again, where its position on disk is that of this plan and this state."""
        release = self.release(arrays)
        position = Position(Path(self.position), self.name)
        if not position.is_of(release.plan.mark):
            raise FileFormatError(
                "the stream was started from another plan than the file states; it was edited, or"
                " written by another version"
            )

        if not position.is_at(len(release)):
            place = shortened(repr(self.position))
            raise NoisewrightError(
                f"the position in {place} is not at step {len(release)}: this state is not the"
                " latest, or the position is gone; answering a step again would spend its budget"
                " again: load the latest state, or start a new stream"
            )

        stream = running(
            release.plan, position, release.identity, release.ledger, release.time
        )
        stream.resume(release.answers.tolist(), self.state)
        return stream


def stored_stream(path: str | Path) -> tuple[StreamRelease, str, bool]:
    """Of a running stream its answers, where its position is, and whether it can go on there."""
    content = container.content_of(path)
    header, arrays = opened(content, "secret-running-stream", str(path))
    assert isinstance(header, RunningFile)
    with refusing(f"{path}: the content is incomplete or damaged; restore the file"):
        return header.release(arrays), header.position, header.is_latest(arrays)


def _answers(arrays: Arrays, most: int) -> FloatArray:
    answers = arrays[_ANSWERS]
    whole = answers.ndim == 1 and answers.dtype == np.float64 and answers.size <= most
    if not whole or not np.isfinite(answers).all():
        raise FileFormatError(
            "the answers are not of this plan; the file was damaged or edited"
        )
    return answers
