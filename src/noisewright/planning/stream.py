"""Plans of running counts: one private answer per step of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisewright.central.stream import StreamMechanism, stream_mechanism
from noisewright.display import Shown
from noisewright.estimate.intervals import normal_multiplier, sidak_multiplier
from noisewright.norm.prefix import BAND, Kind
from noisewright.planning.plan import LEVEL, Forecast
from noisewright.privacy.budget import Privacy


@dataclass(frozen=True, eq=False, repr=False)
class StreamPlan(StreamMechanism, Shown):
    """A planned stream: a person counts once, at one step, and one person is the neighbour."""

    @property
    def model(self) -> str:
        """Who adds the noise."""
        return "central"

    def forecast(self) -> Forecast:
        """The error of the running count at every step."""
        std = self.errors
        return Forecast(
            std=std,
            halfwidth=normal_multiplier(LEVEL) * std,
            simultaneous_halfwidth=sidak_multiplier(len(std), LEVEL) * std,
        )

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": self.factorization.kind,
            "privacy": self.privacy.to_dict(),
            "steps": self.factorization.steps,
            "memory": self.factorization.memory,
            "rmse": forecast.rmse,
            "max": forecast.max,
            "noise": self.law.to_dict(),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan, whole or not at all; a running stream is kept by its position."""
        from noisewright.planning.plan_files import save

        save(self, path)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("steps", f"{self.factorization.steps:,}"),
            ("mechanism", self.factorization.kind),
            ("privacy", self.privacy.text()),
        ]


def plan_stream(
    steps: int, privacy: Privacy, kind: Kind = "column-normalised", *, band: int = BAND
) -> StreamPlan:
    """Plan the private running count of a stream of at most `steps` steps."""
    mechanism = stream_mechanism(steps, privacy, kind, band)
    return StreamPlan(
        mechanism.factorization, mechanism.privacy, mechanism.law, mechanism.grid_bits
    )
