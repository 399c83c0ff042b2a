"""Families of marginals: the residual closed forms against dense matrices and the dense solver."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.norm.exact.residual_basis import ResidualSolution, residual_plan
from noisewright.workload import Explicit
from noisewright.workload.linear.interactions import subsets_of
from oracles.factorizations import nuclear_bound

FAMILIES = [
    ((2, 3, 4), [(0, 1), (2,), (1, 2)], [1.0, 2.0, 0.5]),
    ((2, 2, 2), [(), (0,), (1,), (2,)], None),
    ((1, 3, 2), [(0, 1), (1, 2), ()], None),
    ((5,), [(), (0,)], [3.0, 1.0]),
    ((3, 2, 2, 2), [t for k in range(3) for t in combinations(range(4), k)], None),
]


def table_rows(sizes: tuple[int, ...], table: tuple[int, ...]) -> np.ndarray:
    cells = list(product(*(range(n) for n in sizes)))
    wanted = product(*(range(sizes[i]) for i in table))
    return np.array(
        [[float(all(c[i] == v for i, v in zip(table, values, strict=True))) for c in cells]
         for values in wanted]
    )  # fmt: skip


def dense(sizes: tuple[int, ...], tables: list, weights: list | None) -> np.ndarray:
    weights = weights or [1.0] * len(tables)
    return np.concatenate(
        [w * table_rows(sizes, table) for table, w in zip(tables, weights, strict=True)]
    )


@pytest.mark.parametrize(("sizes", "tables", "weights"), FAMILIES)
@pytest.mark.parametrize("norm", [2.0, 3.0, 8.0, math.inf])
def test_agrees_with_the_dense_solver_and_its_certificate_holds(
    sizes: tuple[int, ...], tables: list, weights: list | None, norm: float
) -> None:
    plan = residual_plan(sizes, tables, weights, norm)
    matrix = dense(sizes, tables, weights)
    by_hand = nw.factorize(Explicit(matrix), norm)
    assert plan.value == pytest.approx(by_hand.value, rel=2e-6)
    assert 0 <= plan.gap <= 1e-6
    cells = math.prod(sizes)
    a = None if norm == 2 else np.repeat(plan.certificate.tables, plan.table_cells)
    bound = nuclear_bound(matrix, norm, a, np.full(cells, 1 / cells))
    assert plan.lower_bound <= bound * (1 + 1e-13)
    assert plan.lower_bound == pytest.approx(bound, rel=1e-9)


def covariance(plan: ResidualSolution) -> np.ndarray:
    """Covariance of the least-squares cell estimates, block by block, from the definition."""
    total = np.zeros((math.prod(plan.sizes),) * 2)
    for block, variance in zip(plan.blocks, plan.block_variances, strict=True):
        part = np.ones((1, 1))
        for i, n in enumerate(plan.sizes):
            flat = np.full((n, n), 1 / n**2)
            part = np.kron(part, np.eye(n) - 1 / n if i in block else flat)
        total += variance * part
    return total


@pytest.mark.parametrize(("sizes", "tables", "weights"), FAMILIES)
def test_table_variances_are_those_of_the_measured_blocks(
    sizes: tuple[int, ...], tables: list, weights: list | None
) -> None:
    plan = residual_plan(sizes, tables, weights, 4.0)
    cov = covariance(plan)
    for table, variance in zip(tables, plan.table_variances, strict=True):
        rows = table_rows(sizes, table)
        np.testing.assert_allclose(np.diag(rows @ cov @ rows.T), variance, rtol=1e-9)
    sensitivity = sum(
        math.prod(1 - 1 / sizes[i] for i in block) / variance
        for block, variance in zip(plan.blocks, plan.block_variances, strict=True)
    )
    assert sensitivity == pytest.approx(1, rel=1e-12)


def test_a_hundred_attributes_are_planned_without_a_cell() -> None:
    tables = [t for k in range(3) for t in combinations(range(100), k)]
    plan = residual_plan([10] * 100, tables, norm=math.inf)
    assert len(plan.blocks) == 5051
    assert 0 <= plan.gap <= 1e-6


def test_subsets_of_long_tables_do_not_overflow_their_codes() -> None:
    tables = [tuple(range(0, 24, 2)), (998, 999)]
    blocks, incidence = subsets_of(tables, [True] * 1000)
    assert len(blocks) == 2**12 + 3
    assert incidence.sum() == 2**12 + 4
    assert set(blocks[-1]) == set(tables[0])
    assert list(blocks) == sorted(blocks, key=lambda b: (len(b), b))


def test_stacked_products_of_counts_and_totals_are_recognised_as_a_family() -> None:
    text = "identity:3*total:4+2.0@(total:3*identity:4)+total:12"
    found = nw.factorize(text)
    plan = residual_plan((3, 4), [(0,), (1,), ()], [1.0, 2.0, 1.0])
    assert found.iterations == 0
    assert found.value == pytest.approx(plan.value, rel=1e-12)


@pytest.mark.parametrize(
    ("tables", "weights", "name"),
    [
        ([], None, "tables"),
        ([(0, 0)], None, "tables"),
        ([(0, 7)], None, "tables"),
        ([(0,)], [-1.0], "weights"),
        ([(0,)], [math.nan], "weights"),
        ([(0,)], [1.0, 2.0], "weights"),
    ],
)
def test_bad_families_are_refused(
    tables: list, weights: list | None, name: str
) -> None:
    with pytest.raises(InvalidParameter, match=f"{name}="):
        residual_plan((2, 3), tables, weights)
