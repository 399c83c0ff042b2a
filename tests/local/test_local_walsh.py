"""Sums of Walsh characters, and the domains that Hadamard response is offered for."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.errors import TooLarge
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.transform.walsh import prefix_sums


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_prefix_sums_of_characters(size):
    signs = np.array([[(-1) ** (o & i).bit_count() for i in range(size)] for o in range(size)])
    sums = np.cumsum(signs, axis=1)
    total, first, second = prefix_sums(size)
    np.testing.assert_array_equal(total, sums[:, -1])
    np.testing.assert_array_equal(first, sums.sum(axis=1))
    np.testing.assert_array_equal(second, (sums**2).sum(axis=1))


def test_hadamard_response_is_refused_where_others_need_far_fewer_people():
    assert HadamardResponse(4096, 1.0).loss.epsilon <= 1.0
    for size in (4097, 2**20, (1 << 62) - 1):
        with pytest.raises(TooLarge, match="local-hashing"):
            HadamardResponse(size, 1.0)
