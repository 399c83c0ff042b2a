"""What plans of running counts, running streams and their answers are kept as.

A running stream is secret: sums of past counts, and noise that is still to be taken back, are as
private as the data. Its answers are public, and a kind of file of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec
import numpy as np

from noisewright import container
from noisewright.arrays import FloatArray
from noisewright.central.carry.stream import CarryState, CarryStreamMechanism
from noisewright.central.running import Position, SumsState
from noisewright.errors import (
    FileFormatError,
    NoisewrightError,
    refusing_unforeseen,
    shortened_text,
)
from noisewright.norm.exact.prefix import Kind
from noisewright.planning.files import Kept, Text, stored_struct
from noisewright.planning.spending import LedgerNote, Spending
from noisewright.planning.streams import (
    RunningStream,
    StreamPlan,
    StreamRelease,
    plan_stream,
)
from noisewright.privacy.promise.budget import Privacy

_LARGEST_STEPS = 10**9  # and widest band that a file may state: bounds what is allotted
# the name of a kind is the first thing that is seen of a file
SECRET = "secret-running-stream"


class StreamFile(Kept, frozen=True, tag="stream-plan"):
    """A plan of a running count: all else follows from these."""

    steps: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_STEPS)]
    factorization: Kind | Literal["carry"]
    band: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_STEPS)]
    privacy: Privacy
    appearances: int
    apart: int

    @classmethod
    def of(cls, plan: StreamPlan) -> Self:
        """What a plan is kept as."""
        mechanism = plan.mechanism
        if isinstance(mechanism, CarryStreamMechanism):
            return cls(
                steps=plan.steps,
                factorization="carry",
                band=0,
                privacy=plan.privacy,
                appearances=1,
                apart=1,
            )

        factors = mechanism.factorization
        return cls(
            steps=factors.steps,
            factorization=factors.kind,
            band=factors.band.size,
            privacy=plan.privacy,
            appearances=mechanism.appearances.times,
            apart=mechanism.appearances.apart,
        )

    def content(self) -> StreamPlan:
        """The plan again."""
        given = {"appearances": self.appearances, "apart": self.apart}
        given |= {"band": self.band} if self.factorization == "banded" else {}
        if self.factorization != "carry":
            return plan_stream(self.steps, self.privacy, self.factorization, **given)

        if self.privacy.kind != "pure":
            raise FileFormatError("the plan's noise is for pure privacy; plan again")
        return plan_stream(self.steps, self.privacy)


class StreamReleaseFile(Kept, frozen=True, tag="stream-release"):
    """The answers of a stream so far: its plan, and one running count a step."""

    plan: StreamFile
    answers: FloatArray
    identity: Text
    ledger: LedgerNote | None
    time: Text | None

    def content(self) -> StreamRelease:
        """The answers again; their errors follow from the plan."""
        answers = self.answers
        whole = answers.ndim == 1 and answers.size <= self.plan.steps
        if not whole or not np.isfinite(answers).all():
            raise FileFormatError(
                "the answers are not of this plan; the file was damaged or edited"
            )

        return StreamRelease(
            self.plan.content(), answers, self.identity, self.ledger, self.time
        )


class RunningFile(Kept, frozen=True, tag=SECRET):
    """A running stream, as private as the data: its plan, its state, and where its position is."""

    answers: StreamReleaseFile
    position: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    name: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{48}\Z")]
    state: SumsState | CarryState

    @classmethod
    def of(cls, stream: RunningStream) -> Self:
        """What a running stream is kept as; noise not yet used is no part of it."""
        position = stream.stream.position
        if position is None:
            raise NoisewrightError(
                "a stream without a position is not kept, lest a copy answer a step again; start it"
                " with start(position=...)"
            )

        return cls(
            answers=StreamReleaseFile.of(stream.release),
            position=str(position.folder),
            name=position.name,
            state=stream.stream.state(),
        )

    def is_latest(self) -> bool:
        """Whether the position on this disk is where this state is."""
        steps = len(self.answers.answers)
        return Position(Path(self.position), self.name).is_at(steps)

    def content(self) -> RunningStream:
        """The stream again, where its position on disk is that of this plan and this state."""
        release = self.answers.content()
        position = Position(Path(self.position), self.name)
        if not position.is_of(release.plan.mechanism.mark):
            raise FileFormatError(
                "the stream was started from another plan than the file states; it was edited, or"
                " written by another version"
            )

        if not position.is_at(len(release)):
            place = shortened_text(repr(self.position))
            raise NoisewrightError(
                f"the position in {place} is not at step {len(release)}: this state is not the"
                " latest, or the position is gone; answering a step again would spend its budget"
                " again: load the latest state, or start a new stream"
            )

        spending = Spending(release.identity, release.ledger)
        stream = RunningStream.of(release.plan, position, spending, release.time)
        stream.stream.resume(release.answers.tolist(), self.state)

        return stream


def stored_stream(path: str | Path) -> tuple[StreamRelease, str, bool]:
    """Of a running stream its answers, where its position is, and whether it can go on there."""
    content = container.content_of(path)
    header = stored_struct(content, "secret-running-stream", str(path))
    assert isinstance(header, RunningFile)
    with refusing_unforeseen(
        f"{path}: the content is incomplete or damaged; restore the file"
    ):
        return header.answers.content(), header.position, header.is_latest()
