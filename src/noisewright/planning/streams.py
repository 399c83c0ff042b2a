"""Plans of running counts, the streams that run by them, and what may be shown of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from noisewright import __version__
from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.mechanism import continuous_deviation
from noisewright.central.carry.stream import (
    CarryStream,
    CarryStreamMechanism,
    carry_stream,
)
from noisewright.central.problem import CentralProblem
from noisewright.central.running import Position, Stream
from noisewright.central.stream import (
    ONCE,
    Appearances,
    StreamMechanism,
    stream_mechanism,
)
from noisewright.central.wider_bounds import least_factorization
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, refuse_given
from noisewright.norm.exact.prefix import BAND, Kind
from noisewright.planning.files import Keepable
from noisewright.planning.plan import (
    LEVEL,
    Forecast,
    Plan,
    certified_ratio,
    class_bounds,
)
from noisewright.planning.release import FORM, Answers, release_time
from noisewright.planning.spending import (
    UNRECORDED,
    Again,
    LedgerLike,
    LedgerNote,
    Spending,
    purse_of,
)
from noisewright.planning.statement import adaptivity
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend
from noisewright.workload.kinds.atoms import Prefix
from noisewright.workload.linear.tensor import mean_error

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class StreamPlan(Plan):
    """A planned stream: one person, who counts at one step or several, is the neighbour."""

    mechanism: StreamMechanism | CarryStreamMechanism

    kind = "stream-plan"

    @property
    def privacy(self) -> Privacy:
        """What the whole stream promises."""
        return self.mechanism.privacy

    @property
    def spend(self) -> Spend:
        """What the whole stream costs."""
        return self.mechanism.spend

    @property
    def steps(self) -> int:
        """How many answers are given at most."""
        return self.mechanism.steps

    @property
    def errors(self) -> FloatArray:
        """Standard deviation of the answer at every step, in counts."""
        return self.mechanism.errors

    @property
    def person(self) -> str:
        """Whom the promise is about, in words."""
        return self.mechanism.appearances.person

    @property
    def title(self) -> str:
        """What is counted, and how."""
        return f"running count of {self.steps:,} steps, {self.mechanism.name}"

    @property
    def laws(self) -> list[dict[str, object]]:
        """The laws that are drawn by themselves."""
        return list(self.mechanism.laws)

    def start(
        self,
        position: str | Path | None = None,
        *,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
    ) -> RunningStream:
        """Begin a stream, which spends the budget; its noise comes from the operating system.

        A stream that is to be stored and restored needs a `position`: a new folder that keeps, on
        disk, how many steps were answered. Without one it lives and ends with this process. With a
        `ledger`, the budget is taken from that of `dataset` before anything starts.
        """
        purse = purse_of(ledger, dataset, again)

        def begin(spending: Spending) -> RunningStream:
            place = (
                None
                if position is None
                else Position.new(position, self.mechanism.mark)
            )
            return RunningStream.of(self, place, spending, release_time())

        return begin(Spending()) if purse is None else purse.spend(self.cost, begin)

    def forecast(self) -> Forecast:
        """The error of the running count at every step."""
        return self._forecast

    @cached_property
    def _forecast(self) -> Forecast:
        mechanism = self.mechanism
        std = mechanism.errors

        # Each bound is for one appearance. Somebody who comes back needs more noise than it knows
        # of, so that a ratio against it would say nothing of how good the plan is.
        once = mechanism.appearances.within(self.steps) == 1
        achieved = mean_error(std, 2)

        problem = CentralProblem(Prefix(self.steps), (self.steps,), self.privacy, 2.0)
        linear = _least_error(problem) if once else None

        return Forecast(
            std=std,
            halfwidth=mechanism.multiplier(LEVEL) * std,
            simultaneous_halfwidth=mechanism.simultaneous_multiplier(LEVEL) * std,
            lower_bound=linear,
            ratio=certified_ratio(achieved, linear),
            bounds=class_bounds(problem, 1, achieved, exact=True) if once else (),
        )

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        mechanism = self.mechanism
        return {
            "mechanism": mechanism.name,
            "privacy": self.privacy.to_dict(),
            "person": self.person,
            "steps": self.steps,
            "appearances": mechanism.appearances.times,
            "steps_apart": mechanism.appearances.apart,
            "memory": mechanism.memory,
            "error": forecast.error,
            **forecast.summary(),
            **mechanism.record(),
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("steps", f"{self.steps:,}"),
            ("mechanism", self.mechanism.name),
            ("privacy", self.privacy.text()),
        ]


@dataclass(frozen=True, eq=False, repr=False)
class StreamRelease(Shown, Answers):
    """The answers of a stream so far, which may be published; nothing private is in it.

    `lower` and `upper` cover each true count with 95 % probability; `lower_all` and `upper_all`
    those of all planned steps at once. `identity` names the one spending of the budget, `time` is
    when the stream was started.
    """

    plan: StreamPlan
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
    def metadata(self) -> dict[str, object]:
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

    def statement(self) -> dict[str, object]:
        """What is promised to whom and by which noise, for the whole stream: ready for JSON."""
        plan = self.plan
        return {
            "unit": plan.person,
            "neighbours": plan.privacy.neighbours,
            "promise": plan.privacy.text(),
            "spend": plan.spend.to_dict(),
            "noise": plan.laws or [plan.mechanism.record()["noise"]],
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

    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it: the latest answer with the record."""
        record = dict(self.metadata)
        facts = {name: record.pop(name) for name in ("privacy", "spend")}

        figures: dict[str, object] = {"answered": len(self)}
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


@dataclass(frozen=True, eq=False, repr=False)
class RunningStream(Shown, Keepable):
    """A stream that runs: secret, for it holds sums of past counts. `release` may be shown.

    Its file is readable by its owner alone, and `nw.load` goes on with it: no step is answered
    twice, and a state older than the stream's position is refused.
    """

    plan: StreamPlan
    stream: Stream
    spending: Spending
    time: str | None

    kind = "secret-running-stream"
    file_mode = 0o600

    @classmethod
    def of(
        cls,
        plan: StreamPlan,
        position: Position | None,
        spending: Spending,
        time: str | None,
    ) -> RunningStream:
        """A stream before its first step; its noise comes from the operating system."""
        mechanism = plan.mechanism
        if isinstance(mechanism, CarryStreamMechanism):
            return cls(plan, CarryStream(mechanism, None, position), spending, time)
        return cls(plan, Stream(mechanism, None, position), spending, time)

    def step(self, increment: int) -> float:
        """Take the exact count of this step and return the private running count."""
        return self.stream.step(increment)

    @property
    def steps(self) -> int:
        """Number of answers given so far."""
        return self.stream.steps

    @property
    def answers(self) -> FloatArray:
        """The running counts given so far."""
        return self.stream.answers

    @property
    def release(self) -> StreamRelease:
        """The answers so far with their errors: no further cost."""
        paid = self.spending
        return StreamRelease(
            self.plan, self.answers, paid.identity, paid.note, self.time
        )

    def description(self) -> dict[str, object]:
        """What may be shown of it."""
        return self.release.description()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.stream.__reduce_ex__(protocol)

    def _facts(self) -> list[tuple[str, str]]:
        return [("answered", f"{self.steps:,}"), *self.plan._facts()]


def _least_error(problem: CentralProblem) -> float | None:
    """The least error of linear strategies for people who count once, streaming or offline."""
    privacy = problem.privacy
    if privacy.kind == "pure":
        return None
    least = least_factorization(
        problem.workload, problem.sizes, 2.0, privacy.neighbours
    )

    return least * continuous_deviation(privacy) if least else None


def plan_stream(
    steps: int,
    privacy: Privacy,
    kind: Kind | None = None,
    *,
    band: int | None = None,
    appearances: int = 1,
    apart: int = 1,
) -> StreamPlan:
    """Plan the private running count of a stream of at most `steps` steps.

    Pure privacy takes carry noise; `kind` chooses between the Gaussian mechanisms of the others,
    and a `band` is of the banded one. A person counts once, or at up to `appearances` steps of
    which any two are `apart` steps or more apart: without a `kind`, the band is then at most so
    wide that nobody's columns overlap.
    """
    counted = Appearances(appearances, apart)

    if counted != ONCE and privacy.kind == "pure":
        raise InvalidParameter(
            "appearances", appearances, "more than one need Gaussian noise",
            "give delta or rho, or a share of epsilon to each appearance",
        )  # fmt: skip

    if kind not in (None, "banded"):
        rule = "is the width of a banded one"
        refuse_given({"band": band}, rule, "take kind='banded', or leave it out")

    if privacy.kind == "pure":
        rule = "is for Gaussian noise, and pure noise is carried"
        refuse_given({"kind": kind, "band": band}, rule)
        return StreamPlan(carry_stream(steps, privacy))

    if counted.times > 1 and kind is None:
        return _least_for_appearances(steps, privacy, counted, band)

    kind = kind or ("column-normalised" if band is None else "banded")
    width = BAND if band is None else band
    return StreamPlan(stream_mechanism(steps, privacy, kind, width, counted))


def _least_for_appearances(
    steps: int, privacy: Privacy, counted: Appearances, band: int | None
) -> StreamPlan:
    """The least error among bands that keep a person's steps apart, and the best for one step."""
    # No row of a band no wider than `apart` holds two steps of one person.
    bands = {max(1, counted.apart // k) for k in (1, 2, 4)} if band is None else {band}
    kinds: list[tuple[Kind, int]] = [("banded", width) for width in sorted(bands)]
    kinds += [("column-normalised", BAND)] if band is None else []

    plans = [
        StreamPlan(stream_mechanism(steps, privacy, *kind, counted)) for kind in kinds
    ]

    return min(plans, key=lambda plan: mean_error(plan.mechanism.errors, 2))
