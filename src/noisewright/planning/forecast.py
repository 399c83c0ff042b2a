"""How wrong each answer will be, before any budget is spent."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from noisewright.solution import BoundClass, settled
from noisewright.workload.base import FloatArray


@dataclass(frozen=True, eq=False)
class Forecast:
    """Errors in counts of people.

    `halfwidth` covers each answer with 95 % probability, `simultaneous_halfwidth` all of them at
    once. `lower_bound` limits the error (in the plan's own sense) of every method in `bound_class`,
    and `ratio` is the plan's error over it; None where no bound is known.
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

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that `lower_bound` limits."""
        return central_class(self.lower_bound)

    def summary(self) -> dict[str, Any]:
        """The figures that fit on a line."""
        return {
            "rmse": self.rmse,
            "max": self.max,
            "lower_bound": self.lower_bound,
            "ratio": self.ratio,
            "bound_class": self.bound_class,
            "quantisation_loss": self.quantisation_loss,
        }


def central_class(bound: float | None) -> BoundClass | None:
    """The methods that a central bound limits, or None where there is no bound."""
    return None if bound is None else BoundClass.LINEAR


def certified_ratio(achieved: float, bound: float | None) -> float | None:
    """Error over its lower bound, at least one: a contradiction beyond rounding is no result."""
    if bound is None:
        return None
    lifted = settled(achieved, bound, "error of a plan")
    return lifted / bound if bound > 0 else 1.0 if lifted == 0 else inf
