"""Sums of Walsh characters, and the domains that Hadamard response is offered for."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import TooLarge
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.transform.invariants import prefix_sums
from reproductions.paper_strategies import people_needed


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_prefix_sums_of_characters(size):
    signs = np.array(
        [[(-1) ** (o & i).bit_count() for i in range(size)] for o in range(size)]
    )
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


def _favouring(size: int, epsilon: float, width: int, blocks: int) -> np.ndarray:
    """Chances of Hadamard response as its definition has them, a column per cell."""
    chances = np.ones((width * blocks, size))
    for cell in range(size):
        block, column = cell // (width - 1), 1 + cell % (width - 1)
        inside = [x for x in range(width) if (x & column).bit_count() % 2 == 0]
        chances[block * width + np.array(inside), cell] = np.exp(epsilon)
    return chances / chances.sum(axis=0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    "text", ["identity:16", "prefix:21", "marginals:2^5:2", "ranges:31"]
)
def test_no_width_and_number_of_blocks_needs_fewer_people_than_the_planned_one(
    text, epsilon
):
    asked = nw.workload(text)
    n, gram = asked.size, asked.gram().dense()
    needed = [
        people_needed(_favouring(n, epsilon, width, blocks), gram, asked.queries)
        for width in (2**bits for bits in range(1, 7))
        for blocks in range(-(-n // (width - 1)), 40)
        if blocks * (width - 1) < 8 * n
    ]
    plan = nw.plan(asked, nw.Privacy(epsilon=epsilon), nw.Local(mechanism="hadamard"))
    assert plan.sample_complexity(0.01) <= min(needed) * (1 + 1e-9)


def test_blocks_suit_what_is_asked():
    # Far cells of prefix sums are told apart by which block they are in.
    counts = {
        text: nw.plan(
            text, nw.Privacy(epsilon=1), nw.Local(mechanism="hadamard")
        ).strategy.parts
        for text in ("identity:128", "prefix:128")
    }
    assert counts["identity:128"] < counts["prefix:128"]
