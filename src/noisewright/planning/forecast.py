"""How wrong each answer will be, before any budget is spent."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from noisewright.norm.rounding import settled
from noisewright.workload.base import FloatArray


@dataclass(frozen=True, eq=False)
class Forecast:
    """Errors in counts of people.

    `halfwidth` covers each answer with 95 % probability, `simultaneous_halfwidth` all of them at
    once. `lower_bound` is the least error (in the plan's own sense) that any factorization with
    this noise could have, and `ratio` the plan's error over it; None where no bound is known.
    `quantisation_loss` is what the integer grid costs, relative to the same error.
    """

    std: FloatArray
    rmse: float
    max: float
    halfwidth: FloatArray
    simultaneous_halfwidth: FloatArray
    error: str
    lower_bound: float | None
    ratio: float | None
    quantisation_loss: float | None

    def summary(self) -> dict[str, Any]:
        """The figures that fit on a line."""
        return {
            "rmse": self.rmse,
            "max": self.max,
            "lower_bound": self.lower_bound,
            "ratio": self.ratio,
            "quantisation_loss": self.quantisation_loss,
        }


def certified_ratio(achieved: float, bound: float | None) -> float | None:
    """Error over its lower bound, at least one: a contradiction beyond rounding is no result."""
    if bound is None:
        return None
    lifted = settled(achieved, bound, "error of a plan")
    return lifted / bound if bound > 0 else 1.0 if lifted == 0 else inf
