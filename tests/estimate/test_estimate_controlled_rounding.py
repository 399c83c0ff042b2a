"""Sums over rounded cells against bounds that are proved, and against exhaustive programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array

from noisewright.estimate.rounding import Sums, controlled_rounding, on_grid
from noisewright.estimate.whole import cells_alike, shared_out, whole_near


def sums_of(near: np.ndarray, people: float) -> Sums:
    everyone = csr_array(np.ones((1, near.shape[1])))
    return Sums(csr_array(near), everyone, np.array([people]))


def margins(shape: tuple[int, ...], tables: list[tuple[int, ...]]) -> np.ndarray:
    """All sums of some tables, written out cell by cell."""
    cells = np.arange(int(np.prod(shape))).reshape(shape)
    rows = []
    for table in tables:
        for place in np.ndindex(*(shape[i] for i in table)):
            index: list[object] = [slice(None)] * len(shape)
            for axis, value in zip(table, place, strict=True):
                index[axis] = value
            row = np.zeros(cells.size)
            row[np.ravel(cells[tuple(index)])] = 1
            rows.append(row)
    return np.array(rows)


def drawn(seed: int, cells: int) -> np.ndarray:
    """Values on the grid, some of them zero, some all alike."""
    rng = np.random.default_rng(seed)
    if seed % 5 == 0:
        return on_grid(np.full(cells, 0.3))
    values = rng.exponential(rng.choice([0.1, 1.0, 20.0]), cells)
    return on_grid(values * (rng.random(cells) < rng.choice([0.4, 1.0])))


FLOWS = {
    "cells": margins((7,), [(0,)]),
    "margins": margins((3, 5), [(0,), (1,)]),
    "table and margins": margins((4, 3), [(0,), (1,), (0, 1)]),
    "cumulative": np.tril(np.ones((9, 9))),
    "ranges": np.array([np.r_[np.zeros(a), np.ones(b - a), np.zeros(8 - b)]
                        for a in range(8) for b in range(a + 1, 9)]),
    "cumulative by group, and in all": np.kron(
        np.vstack([np.eye(3), np.ones((1, 3))]), np.tril(np.ones((4, 4)))
    ),
    "levels": np.vstack([np.kron(np.eye(12 // n), np.ones(n)) for n in (1, 3, 6)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("seed", range(12))
def test_where_sums_form_a_flow_none_moves_by_one(name: str, seed: int) -> None:
    near = FLOWS[name]
    values = drawn(seed, near.shape[1])
    people = float(np.rint(values.sum()))
    whole = controlled_rounding(values, sums_of(near, people))
    assert whole is not None
    assert whole.min() >= 0
    assert whole.sum() == people
    assert np.abs(near @ (whole - values)).max() < 1


@pytest.mark.parametrize("name", ["margins", "table and margins", "ranges"])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_rounding_to_neighbours_moves_sums_less(name: str, seed: int) -> None:
    """Against an integer program over the same choices, by the squares of all movements."""
    near = FLOWS[name]
    values = drawn(seed + 1, near.shape[1])
    targets = near @ values
    people = float(np.rint(values.sum()))
    whole = controlled_rounding(values, sums_of(near, people))
    assert whole is not None
    fractions = targets - np.floor(targets)
    costs = near.T @ np.where(fractions > 0, 1 - 2 * fractions, 0.0)
    best = milp(
        costs,
        integrality=np.ones(len(values)),
        bounds=(np.floor(values), np.ceil(values)),
        constraints=[
            LinearConstraint(near, np.floor(targets), np.ceil(targets)),
            LinearConstraint(np.ones((1, len(values))), people, people),
        ],
    )
    squares = np.sum((near @ whole - targets) ** 2)
    # Ties are broken at a cost of up to 2^-10 a cell.
    assert (
        squares
        <= np.sum((near @ np.rint(best.x) - targets) ** 2) + len(values) * 2.0**-10
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_sum_moves_by_as_much_as_the_sums_that_a_cell_counts_towards(
    seed: int,
) -> None:
    """Any 0/1 sums: the bound of Beck and Fiala, the number of people counted as a sum."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 30))
    near = (
        rng.random((int(rng.integers(1, 12)), cells)) < rng.uniform(0.1, 0.7)
    ).astype(float)
    values = drawn(seed, cells)
    people = float(np.rint(values.sum()))
    whole = whole_near(values, sums_of(near, people))
    counted = near[near.sum(axis=1) > 1].sum(axis=0).max(initial=0.0) + 1
    assert whole.sum() == people
    assert whole.min() >= 0
    # Cells that all sums treat alike are added up first.
    assert np.abs(near @ (whole - values)).max() < max(counted, 1.0)
    np.testing.assert_array_equal(whole, whole_near(values, sums_of(near, people)))


def test_equal_fractions_are_not_dumped_on_the_first_cells() -> None:
    """The fault itself: 700 and 300 people evenly in 2 × 400 cells, asked by halves of them."""
    values = on_grid(np.repeat([300 / 400, 700 / 400], 400))
    near = np.kron(np.eye(2), np.ones(400))
    np.testing.assert_array_equal(
        near @ whole_near(values, sums_of(near, 1000.0)), [300, 700]
    )
    # And of cells that are asked one by one, every run has its share.
    alone = controlled_rounding(
        on_grid(np.full(1000, 0.3)), sums_of(np.eye(1000), 300.0)
    )
    assert alone is not None
    assert np.abs(np.cumsum(alone) - 0.3 * np.arange(1, 1001)).max() < 5


def test_exact_sums_come_out() -> None:
    rng = np.random.default_rng(3)
    near = margins((4, 5), [(0,), (1,)])
    values = on_grid(rng.exponential(3, 20))
    values[0] += np.ceil(values[:5].sum()) - values[:5].sum()
    exact = csr_array(np.vstack([np.ones(20), near[0]]))
    people = float(np.rint(values.sum()))
    sums = Sums(csr_array(near), exact, np.array([people, values[:5].sum()]))
    whole = whole_near(values, sums)
    np.testing.assert_array_equal(exact @ whole, sums.values)


def test_cells_that_all_sums_treat_alike_are_told() -> None:
    near = np.array([[1.0, 1, 0, 0, 1], [0, 0, 1, 0, 0]])
    firsts, kinds = cells_alike(sums_of(near, 5.0))
    np.testing.assert_array_equal(firsts, [0, 2, 3])
    np.testing.assert_array_equal(kinds, [0, 0, 1, 2, 0])
    whole = shared_out(np.array([5, 2, 0]), kinds)
    np.testing.assert_array_equal(np.bincount(kinds, whole), [5, 2, 0])
    assert np.ptp(whole[kinds == 0]) <= 1


@pytest.mark.parametrize("cells", [3, 1000, 2**20])
@pytest.mark.parametrize("people", [10.0, 1e5])
def test_no_sum_is_moved_by_the_grid_and_sums_on_it_are_exact(
    cells: int, people: float
) -> None:
    values = np.full(cells, people / cells)
    put = on_grid(values)
    assert abs(put.sum() - people) <= 2.0**-16
    step = 2.0 ** -(16 + cells.bit_length())
    np.testing.assert_array_equal(put / step, np.rint(put / step))
    assert put.sum() == put[::-1].sum() == np.cumsum(put)[-1]
