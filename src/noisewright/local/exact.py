"""Sums of machine words that are refused where they would wrap around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.workload.base import Array


def exact_sum(numbers: Array) -> npt.NDArray[np.int64]:
    """Sums over the first axis; those that 64 bits do not hold are refused, never wrapped around.

    Halves of machine words cannot overflow in sums of less than 2^31 of them.
    """
    low = (numbers & 0xFFFFFFFF).sum(axis=0, dtype=np.int64)
    high = (numbers >> 32).sum(axis=0, dtype=np.int64) + (low >> 32)
    if np.abs(high).max(initial=0) >= 2**31:
        raise InvalidParameter(
            "reports",
            f"{len(numbers)} to add",
            "sum to more than 64 bits hold",
            "collect them apart, or set a cap on what a report may say",
        )
    return np.asarray((high << 32) + (low & 0xFFFFFFFF))


def largest_magnitude(numbers: npt.NDArray[np.int64]) -> int:
    """The farthest from zero, also where that is −2^63."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
