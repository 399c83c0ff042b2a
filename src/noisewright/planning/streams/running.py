"""Streams that run, and what may be shown of them: their answers so far, with errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright import __version__
from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.stream import CarryStream
from noisewright.central.running import Position, Stream
from noisewright.display import Shown
from noisewright.planning.budgets.spending import UNRECORDED, LedgerNote
from noisewright.planning.files import Keepable
from noisewright.planning.release import FORM, Answers
from noisewright.planning.statement import adaptivity

if TYPE_CHECKING:
    import pyarrow as pa

    from noisewright.planning.streams.plan import CarryStreamPlan, StreamPlan


@dataclass(frozen=True, eq=False, repr=False)
class StreamRelease(Shown, Answers):
    """The answers of a stream so far, which may be published; nothing private is in it.

    `lower` and `upper` cover each true count with 95 % probability; `lower_all` and `upper_all`
    those of all planned steps at once. `identity` names the one spending of the budget, `time` is
    when the stream was started.
    """

    plan: StreamPlan | CarryStreamPlan
    answers: FloatArray
    identity: str
    ledger: LedgerNote | None = None
    time: str | None = None

    kind = "stream-release"

    @property
    def steps(self) -> IntArray:
        """Numbers of the steps, from 1."""
        return np.arange(1, len(self) + 1)

    @cached_property
    def _halfwidths(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        forecast = self.plan.forecast()
        part = slice(len(self))
        ends = forecast.halfwidth, forecast.simultaneous_halfwidth
        return forecast.std[part], ends[0][part], ends[1][part]

    @property
    def std(self) -> FloatArray:
        """Standard errors."""
        return self._halfwidths[0]

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the intervals of each step."""
        return np.asarray(self.answers - self._halfwidths[1])

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the intervals of each step."""
        return np.asarray(self.answers + self._halfwidths[1])

    @property
    def lower_all(self) -> FloatArray:
        """Lower ends of the intervals that hold at all steps at once."""
        return np.asarray(self.answers - self._halfwidths[2])

    @property
    def upper_all(self) -> FloatArray:
        """Upper ends of the intervals that hold at all steps at once."""
        return np.asarray(self.answers + self._halfwidths[2])

    @property
    def metadata(self) -> dict[str, Any]:
        """What was spent and how: ready for JSON, and the same after every step."""
        plan = self.plan
        return {
            "format": "noisewright-stream",
            "version": __version__,
            "model": plan.model,
            "neighbours": plan.privacy.neighbours,
            "spend": plan.spend.to_dict(),
            **plan.summary(),
            "release": self.identity,
            **({} if self.time is None else {"time": self.time}),
            "ledger": UNRECORDED if self.ledger is None else self.ledger.to_dict(),
            "statement": self.statement(),
        }

    def statement(self) -> dict[str, Any]:
        """What is promised to whom and by which noise, for the whole stream: ready for JSON."""
        plan = self.plan
        return {
            "unit": plan.person,
            "neighbours": plan.privacy.neighbours,
            "promise": plan.privacy.text(),
            "spend": plan.spend.to_dict(),
            "noise": plan.laws or [plan.summary()["noise"]],
            "adaptivity": adaptivity(self.ledger),
            "post_processing": [],
            "versions": {"noisewright": __version__, "numpy": np.__version__},
        }

    def to_dp_accounting(self) -> Any:
        """What the whole stream spends, as an event of dp-accounting."""
        return self.plan.spend.to_dp_accounting()

    def to_arrow(self) -> pa.Table:
        """One row per step: step, answer, standard error and the ends of the intervals."""
        import pyarrow as pa

        columns = {"step": self.steps, "answer": self.answers, "std_error": self.std}
        ends = {
            name: getattr(self, name)
            for name in ("lower", "upper", "lower_all", "upper_all")
        }

        return pa.table({**columns, **ends})

    def description(self) -> dict[str, Any]:
        """What `noisewright show` says of it: the latest answer with the record."""
        record = dict(self.metadata)
        facts = {name: record.pop(name) for name in ("privacy", "spend")}
        figures: dict[str, Any] = {"answered": len(self)}
        if len(self):
            figures |= {
                "latest_answer": float(self.answers[-1]),
                "std_error": self.std[-1],
            }

        hidden = (*FORM, "statement")
        told = {n: value for n, value in record.items() if n not in hidden}
        return {**facts, **figures, **told}

    def __len__(self) -> int:
        return len(self.answers)

    def _facts(self) -> list[tuple[str, str]]:
        return [("answered", f"{len(self):,}"), *self.plan._facts()]


class RunningStream(Shown, Keepable, Stream):
    """A stream that runs: secret, for it holds sums of past counts. `release` may be shown.

    Its file is readable by its owner alone, and `nw.load` goes on with it: no step is answered
    twice, and a state older than the stream's position is refused.
    """

    kind = "secret-running-stream"
    file_mode = 0o600

    _plan: StreamPlan | CarryStreamPlan
    _identity: str
    _ledger: LedgerNote | None
    _time: str | None

    @property
    def release(self) -> StreamRelease:
        """The answers so far with their errors: no further cost."""
        return StreamRelease(
            self._plan, self.answers, self._identity, self._ledger, self._time
        )

    def description(self) -> dict[str, Any]:
        """What may be shown of it."""
        return self.release.description()

    def _facts(self) -> list[tuple[str, str]]:
        return [("answered", f"{self.steps:,}"), *self._plan._facts()]


class RunningGaussianStream(RunningStream):
    """A running stream under Gaussian noise."""


class RunningCarryStream(RunningStream, CarryStream):
    """A running stream under carry noise."""


def running(
    plan: StreamPlan | CarryStreamPlan,
    position: Position | None,
    identity: str,
    ledger: LedgerNote | None,
    time: str | None,
) -> RunningStream:
    """A stream of the plan before its first step; its noise comes from the operating system."""
    from noisewright.planning.streams.plan import CarryStreamPlan

    kind = (
        RunningCarryStream
        if isinstance(plan, CarryStreamPlan)
        else RunningGaussianStream
    )
    stream: RunningStream = kind(plan, None, position)  # type: ignore[arg-type]
    stream._identity = identity
    stream._ledger = ledger
    stream._time = time

    return stream
