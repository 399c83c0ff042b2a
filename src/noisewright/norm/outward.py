"""Bounds rounded outward, and the factor between an ℓp norm and a p-th mean."""

from __future__ import annotations

import math

import numpy as np

from noisewright.errors import Contradiction

EPSILON = float(np.finfo(np.float64).eps)


def outward(value: float, terms: int) -> float:
    """Rounded up by the error that a computation over `terms` terms can have made."""
    return float(value) * (1 + 4 * (terms + 4) * EPSILON)


def inward(value: float, terms: int) -> float:
    """Rounded down by the error that a computation over `terms` terms can have made."""
    return float(value) * (1 - 4 * (terms + 4) * EPSILON)


SLACK = 1e-9
"""Relative rounding allowed between a value and a bound that both end at the optimum."""


def settled(value: float, bound: float, what: str) -> float:
    """The value, lifted to its bound where rounding alone put it below.

    No optimum lies between a bound and a smaller value: anything beyond rounding is an error here.
    """
    if not (math.isfinite(value) and value >= bound * (1 - SLACK) and bound >= 0):
        raise Contradiction(
            f"{what}: a value of {value!r} contradicts its lower bound of {bound!r}; this is a "
            f"fault of the program and not a result, please report it with the workload"
        )
    return max(value, bound)


def mean_factor(queries: int, norm: float) -> float:
    """What turns an ℓp norm over queries into a p-th mean."""
    return 1.0 if math.isinf(norm) else math.pow(queries, -1 / norm)
