"""Tables that agree and are not negative, against a solver that knows nothing of the structure."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.estimate.agreeing_tables import agreeing_tables

SIZES = (2, 3, 2)
BLOCKS = [(0,), (0, 1), (1, 2), (0, 2)]


def margin(x, block):
    away = tuple(i for i in range(len(SIZES)) if i not in block)
    return x.sum(axis=away).ravel()


def by_solver(tables, std, total):
    """Minimise the weighted distance, with every shared margin spelled out."""
    import cvxpy as cp

    cells = {
        b: cp.Variable([SIZES[i] for i in b] if len(b) > 1 else SIZES[b[0]])
        for b in tables
    }
    rules = [v >= 0 for v in cells.values()] + [
        cp.sum(v) == total for v in cells.values()
    ]

    def sums(block, attribute):
        if len(block) == 1:
            return cells[block]
        return cp.sum(cells[block], axis=1 - block.index(attribute))

    for attribute in range(len(SIZES)):
        holding = [b for b in tables if attribute in b]
        rules += [
            sums(holding[0], attribute) == sums(b, attribute) for b in holding[1:]
        ]
    distance = 0
    for block, variable in cells.items():
        flat = cp.vec(variable, order="C") - tables[block]
        distance += cp.sum_squares(flat) / std[block] ** 2
    cp.Problem(cp.Minimize(distance), rules).solve(solver=cp.CLARABEL)
    return {block: np.ravel(variable.value) for block, variable in cells.items()}


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_tables(seed):
    rng = np.random.default_rng(seed)
    noisy = rng.normal(10, 15, SIZES)
    total = 120.0
    noisy += (total - noisy.sum()) / noisy.size
    tables = {block: margin(noisy, block) for block in BLOCKS}
    assert min(table.min() for table in tables.values()) < 0
    std = {
        block: float(s) for block, s in zip(BLOCKS, rng.uniform(0.5, 2, 4), strict=True)
    }
    found = agreeing_tables(SIZES, tables, std, total)
    expected = by_solver(tables, std, total)
    for block in BLOCKS:
        assert found[block].min() >= 0
        np.testing.assert_allclose(found[block], expected[block], atol=2e-3)


def test_tables_that_make_sense_stay_as_they_are():
    x = np.random.default_rng(0).uniform(1, 5, SIZES)
    tables = {block: margin(x, block) for block in [*BLOCKS, ()]}
    found = agreeing_tables(SIZES, tables, dict.fromkeys(tables, 1.0), float(x.sum()))
    for block, table in tables.items():
        np.testing.assert_allclose(found[block], table, atol=1e-6)
