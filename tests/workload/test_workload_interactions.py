"""Interactions: subsets of attributes, and tables taken apart and put together again."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from noisewright.workload.linear.interactions import (
    centred,
    downward_closure,
    interactions,
    subsets,
    subsets_of,
    table_of,
)


def test_subsets_hold_the_empty_one_and_interactions_do_not() -> None:
    assert subsets((2, 5)) == [(), (2,), (5,), (2, 5)]
    assert interactions((2, 5)) == [(2,), (5,), (2, 5)]


def test_the_closure_of_tables_is_all_their_subsets_in_order() -> None:
    tables = [(1, 4), (0, 1, 2), (4, 1), ()]
    expected = {
        s for t in tables for k in range(len(t) + 1) for s in combinations(sorted(t), k)
    }
    assert downward_closure(tables) == tuple(
        sorted(expected, key=lambda s: (len(s), s))
    )
    assert downward_closure([]) == ()
    assert downward_closure([()]) == ((),)


def test_subsets_know_the_tables_that_hold_them() -> None:
    tables = [(0, 2), (1, 2), (2,)]
    blocks, incidence = subsets_of(tables, [True, False, True])
    # an attribute of one value has no interaction
    assert blocks == ((), (0,), (2,), (0, 2))
    for row, table in zip(incidence.toarray(), tables, strict=True):
        assert [bool(x) for x in row] == [set(block) <= set(table) for block in blocks]


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_table_is_the_sum_of_its_interactions(batch: tuple[int, ...]) -> None:
    sizes, attributes = (2, 3, 4, 5), (0, 2, 3)
    shape = tuple(sizes[i] for i in attributes)
    table = np.random.default_rng(1).normal(size=shape + batch)
    parts = {}
    for block in subsets(attributes):
        others = tuple(k for k, i in enumerate(attributes) if i not in block)
        parts[block] = centred(table.sum(axis=others), range(len(block)))
        for axis in range(len(block)):
            np.testing.assert_allclose(parts[block].sum(axis=axis), 0, atol=1e-12)
    np.testing.assert_allclose(
        table_of(sizes, attributes, parts), table.reshape(-1, *batch), atol=1e-12
    )
