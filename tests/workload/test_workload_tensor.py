"""Means of errors, whole and counted, at any scale."""

from __future__ import annotations

import math

import numpy as np
import pytest

from noisewright.workload.linear.tensor import mean_error


@pytest.mark.parametrize("norm", [2, 3.5, 40, math.inf])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_the_mean_counts_every_error(norm: float, scale: float) -> None:
    errors, counts = np.array([1.0, 2.0, 0.5]), np.array([3.0, 1.0, 2.0])
    plain = np.repeat(errors, counts.astype(int))
    expected = plain.max() if math.isinf(norm) else np.mean(plain**norm) ** (1 / norm)
    assert mean_error(scale * errors, norm, counts) == pytest.approx(scale * expected)
    assert mean_error(scale * plain, norm) == pytest.approx(scale * expected)


def test_the_mean_of_no_error_is_zero() -> None:
    assert mean_error(np.zeros(3), 2) == mean_error(np.zeros(0), 4) == 0.0
