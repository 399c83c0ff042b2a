"""Bounds rounded outward, and the factor between an ℓp norm and a p-th mean."""

from __future__ import annotations

import math

import numpy as np

EPSILON = float(np.finfo(np.float64).eps)


def outward(value: float, terms: int) -> float:
    """Rounded up by the error that a computation over `terms` terms can have made."""
    return float(value) * (1 + 4 * (terms + 4) * EPSILON)


def inward(value: float, terms: int) -> float:
    """Rounded down by the error that a computation over `terms` terms can have made."""
    return float(value) * (1 - 4 * (terms + 4) * EPSILON)


def mean_factor(queries: int, norm: float) -> float:
    """What turns an ℓp norm over queries into a p-th mean."""
    return 1.0 if math.isinf(norm) else math.pow(queries, -1 / norm)
