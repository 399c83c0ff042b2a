"""Plans of running counts: one private answer per step of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from noisewright.central.blocks.mechanism import continuous_deviation
from noisewright.central.carry.stream import CarryStreamMechanism, carry_stream
from noisewright.central.problem import CentralProblem
from noisewright.central.running import Position
from noisewright.central.stream import (
    ONCE,
    Appearances,
    StreamMechanism,
    stream_mechanism,
)
from noisewright.central.wider_bounds import least_factorization
from noisewright.errors import InvalidParameter
from noisewright.estimate.intervals import normal_multiplier, sidak_multiplier
from noisewright.norm.exact.prefix import BAND, Kind
from noisewright.planning.budgets.spending import (
    Again,
    LedgerLike,
    Purse,
    Spending,
    purse_of,
)
from noisewright.planning.plan import (
    LEVEL,
    Forecast,
    Plan,
    certified_ratio,
    class_bounds,
)
from noisewright.planning.release import now
from noisewright.planning.streams.running import RunningStream, running
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.kinds.atoms import Prefix
from noisewright.workload.linear.tensor import mean_error


class _Planned(Plan):
    """What planned streams share."""

    kind = "stream-plan"

    @property
    def person(self) -> str:
        """Whom the promise is about, in words."""
        return self.appearances.person if isinstance(self, StreamPlan) else ONCE.person

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
        assert isinstance(self, StreamPlan | CarryStreamPlan)
        return _started(self, position, purse_of(ledger, dataset, again))


@dataclass(frozen=True, eq=False, repr=False)
class StreamPlan(StreamMechanism, _Planned):
    """A planned stream: one person, who counts at one step or several, is the neighbour."""

    @property
    def title(self) -> str:
        """What is counted, and how."""
        factors = self.factorization
        return f"running count of {factors.steps:,} steps, {factors.kind}"

    @property
    def laws(self) -> list[dict[str, Any]]:
        """The one law that is drawn."""
        return [{**self.law.to_dict(), "sensitivity": self.sensitivity}]

    def forecast(self) -> Forecast:
        """The error of the running count at every step."""
        std = self.errors
        return Forecast(
            std=std,
            halfwidth=normal_multiplier(LEVEL) * std,
            simultaneous_halfwidth=sidak_multiplier(len(std), LEVEL) * std,
            **(
                _limits(len(std), self.privacy, mean_error(std, 2))
                if self._counts_once
                else {}
            ),
        )

    @property
    def _counts_once(self) -> bool:
        """Whether the bounds of `_limits` are about these people.

        Each is for one appearance. Somebody who comes back needs more noise than it knows of, so
        that a ratio against it would say nothing of how good the plan is.
        """
        return self.appearances.within(self.factorization.steps) == 1

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": self.factorization.kind,
            "privacy": self.privacy.to_dict(),
            "person": self.person,
            "steps": self.factorization.steps,
            "appearances": self.appearances.times,
            "steps_apart": self.appearances.apart,
            "memory": self.factorization.memory,
            "error": forecast.error,
            **forecast.summary(),
            "noise": self.law.to_dict(),
            "grid_step": 2.0**-self.grid_bits,
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("steps", f"{self.factorization.steps:,}"),
            ("mechanism", self.factorization.kind),
            ("privacy", self.privacy.text()),
        ]


@dataclass(frozen=True, eq=False, repr=False)
class CarryStreamPlan(CarryStreamMechanism, _Planned):
    """A planned stream under pure privacy: carry noise, one number of memory a level."""

    @property
    def title(self) -> str:
        """What is counted, and how."""
        return f"running count of {self.steps:,} steps, carry"

    @cached_property
    def _forecast(self) -> Forecast:
        std = self.errors
        return Forecast(
            std=std,
            halfwidth=self.multiplier(LEVEL) * std,
            simultaneous_halfwidth=self.simultaneous_multiplier(LEVEL) * std,
            **_limits(len(std), self.privacy, mean_error(std, 2)),
        )

    def forecast(self) -> Forecast:
        """The error of the running count at every step."""
        return self._forecast

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": "carry",
            "privacy": self.privacy.to_dict(),
            "person": self.person,
            "steps": self.steps,
            "memory": len(self.levels),
            "error": forecast.error,
            **forecast.summary(),
            "noise": {"law": "carried-laplace", "scale": self.levels[0].scale},
            "grid_step": 1.0,
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("steps", f"{self.steps:,}"),
            ("mechanism", "carry"),
            ("privacy", self.privacy.text()),
        ]


def _limits(steps: int, privacy: Privacy, achieved: float) -> dict[str, Any]:
    """Bounds for running counts of people who count once, streaming or offline."""
    problem = CentralProblem(Prefix(steps), (steps,), privacy, 2.0)
    bounds = class_bounds(problem, 1, achieved, exact=True)
    if privacy.kind == "pure":
        return {"bounds": bounds}

    least = least_factorization(
        problem.workload, problem.sizes, 2.0, privacy.neighbours
    )
    linear = least * continuous_deviation(privacy) if least else None
    ratio = certified_ratio(achieved, linear)

    return {"bounds": bounds, "lower_bound": linear, "ratio": ratio}


def _started(
    plan: StreamPlan | CarryStreamPlan, position: str | Path | None, purse: Purse | None
) -> RunningStream:
    """A stream before its first step, paid for where there is a purse."""

    def begin(spending: Spending) -> RunningStream:
        place = None if position is None else Position.new(position, plan.mark)
        return running(plan, place, spending.identity, spending.note, now())

    return begin(Spending()) if purse is None else purse.spend(plan.cost, begin)


def plan_stream(
    steps: int,
    privacy: Privacy,
    kind: Kind | None = None,
    *,
    band: int | None = None,
    appearances: int = 1,
    apart: int = 1,
) -> StreamPlan | CarryStreamPlan:
    """Plan the private running count of a stream of at most `steps` steps.

    Pure privacy takes carry noise; `kind` chooses between the Gaussian mechanisms of the others. A
    person counts once, or at up to `appearances` steps of which any two are `apart` steps or more
    apart: without a `kind`, the band is then at most so wide that nobody's columns overlap.
    """
    counted = Appearances(appearances, apart)
    if counted != ONCE and privacy.kind == "pure":
        raise InvalidParameter(
            "appearances", appearances, "more than one need Gaussian noise",
            "give delta or rho, or a share of epsilon to each appearance",
        )  # fmt: skip
    if counted.times > 1 and kind is None:
        return _narrowest(steps, privacy, counted, band)

    band = BAND if band is None else band
    if privacy.kind == "pure" and kind is None:
        carried = carry_stream(steps, privacy)
        return CarryStreamPlan(carried.steps, carried.privacy, carried.levels)

    kind = kind or "column-normalised"
    return _planned(stream_mechanism(steps, privacy, kind, band, counted))


def _planned(mechanism: StreamMechanism) -> StreamPlan:
    return StreamPlan(
        mechanism.factorization,
        mechanism.privacy,
        mechanism.law,
        mechanism.grid_bits,
        mechanism.appearances,
    )


def _narrowest(
    steps: int, privacy: Privacy, counted: Appearances, band: int | None
) -> StreamPlan:
    """The least error among bands that keep a person's steps apart, and the best for one step."""
    bands = {max(1, counted.apart // k) for k in (1, 2, 4)} if band is None else {band}
    kinds: list[tuple[Kind, int]] = [("banded", width) for width in sorted(bands)]
    kinds += [("column-normalised", BAND)] if band is None else []
    plans = [
        _planned(stream_mechanism(steps, privacy, *kind, counted)) for kind in kinds
    ]

    return min(plans, key=lambda plan: mean_error(plan.errors, 2))
