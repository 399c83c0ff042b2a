"""Interaction strategies end to end: integers measured, tables rebuilt, variances exact."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from central.test_central_mixed import MIXED, up_to
from noisewright.central.blocks.reach import check_reach
from noisewright.central.blocks.variance import query_variances
from noisewright.central.gaussian.residual import interaction_strategy
from noisewright.norm.factorize import factorize
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.workload import Identity, Marginals, Prefix, Workload, workload
from noisewright.workload.structure import terms

LAW = NoiseLaw("rounded-gaussian", 50.0)
SHARED = Path(
    os.environ.get("NOISEWRIGHT_SHARED", Path(__file__).parents[3] / "shared")
)


@pytest.mark.parametrize("name", MIXED)
def test_exact_measurements_give_exact_answers(name: str) -> None:
    asked, sizes = MIXED[name]
    split = terms(asked, sizes)
    strategy = interaction_strategy(split, sizes, 2).strategy
    x = np.random.default_rng(3).integers(0, 1000, size=sizes)
    measured = strategy.measure(
        {
            t: x.sum(axis=tuple(i for i in range(x.ndim) if i not in t))
            for t in strategy.tables
        }
    )
    answers = np.concatenate([strategy.term_answers(term, measured) for term in split])
    np.testing.assert_allclose(answers, asked.dense() @ x.ravel(), rtol=1e-9, atol=1e-6)
    for term in split:
        check_reach(strategy, term)


@pytest.mark.parametrize("name", MIXED)
def test_variances_are_those_of_dense_least_squares(name: str) -> None:
    asked, sizes = MIXED[name]
    split = terms(asked, sizes)
    strategy = interaction_strategy(split, sizes, 2).strategy
    rows, noise = [], []
    for block, law in zip(strategy.blocks, strategy.laws(LAW), strict=True):
        full = np.ones((1, 1))
        by_axis = dict(zip(block.attributes, block.factors, strict=True))
        for i, n in enumerate(sizes):
            full = np.kron(full, by_axis.get(i, np.ones((1, n))))
        rows.append(block.multiplier * full / law.standard_deviation)
        noise.append(law.variance)
    a = np.concatenate(rows)
    expected = ((asked.dense() @ np.linalg.pinv(a)) ** 2).sum(axis=1)
    found = np.concatenate(query_variances(strategy, split, LAW))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", [2, 4, np.inf])
def test_counts_are_optimal_at_every_norm(norm: float) -> None:
    sizes = (3, 2, 4)
    asked = Marginals.of_order(sizes, 2, at_most=True)
    planned = interaction_strategy(terms(asked, sizes), sizes, norm)
    best = factorize(asked, norm=norm)
    assert planned.value == pytest.approx(best.value, rel=1e-4)
    assert planned.bound <= planned.value * (1 + 1e-12)
    sensitivity = planned.strategy.sensitivity(2)
    std = np.sqrt(
        np.concatenate(query_variances(planned.strategy, terms(asked, sizes), LAW))
    )
    error = std.max() if norm == np.inf else np.mean(std**norm) ** (1 / norm)
    assert error * sensitivity / LAW.scale == pytest.approx(planned.value, rel=1e-4)


def test_three_way_tables_of_a_real_domain() -> None:
    path = SHARED / "data" / "adult" / "adult-domain.json"
    if not path.exists():
        pytest.skip("the shared data folder is absent")
    sizes = tuple(json.loads(path.read_text()).values())
    asked = Marginals.of_order(sizes, 3, at_most=True)
    planned = interaction_strategy(terms(asked, sizes), sizes, 2)
    assert planned.value <= 10.666
    assert planned.value <= planned.bound * (1 + 1e-9)
    assert planned.strategy.sensitivity(2) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_no_pair_of_neighbours_moves_more_than_the_sensitivity(neighbours: str) -> None:
    cases: list[tuple[Workload, tuple[int, ...]]] = [
        (up_to([Prefix(4), Identity(3), Identity(2)], 2), (4, 3, 2)),
        (workload("marginals:2^3:<=2"), (2, 2, 2)),
    ]
    for asked, sizes in cases:
        strategy = interaction_strategy(terms(asked, sizes), sizes, 2).strategy
        columns = []
        for cell in np.ndindex(*sizes):
            x = np.zeros(sizes, dtype=np.int64)
            x[cell] = 1
            parts = []
            for block in strategy.blocks:
                others = tuple(i for i in range(x.ndim) if i not in block.attributes)
                parts.append(block.measure(x.sum(axis=others)) / block.noise)
            columns.append(np.concatenate(parts))
        a = np.array(columns)
        if neighbours == "add-remove":
            exact = np.linalg.norm(a, axis=1).max()
            assert strategy.sensitivity(2, neighbours) == pytest.approx(exact, rel=1e-9)
        else:
            exact = np.linalg.norm(a[:, None] - a[None], axis=2).max()
        assert exact <= strategy.sensitivity(2, neighbours) * (1 + 1e-12)


@pytest.mark.parametrize("norm", [4.0, np.inf])
@pytest.mark.parametrize("name", MIXED)
def test_other_norms_are_bracketed_by_the_dense_optimum(name: str, norm: float) -> None:
    asked, sizes = MIXED[name]
    split = terms(asked, sizes)
    planned = interaction_strategy(split, sizes, norm)
    best = factorize(asked, norm=norm)
    assert planned.bound <= best.value * (1 + 1e-6)
    assert planned.value >= best.lower_bound * (1 - 1e-6)
    assert planned.value <= 1.35 * planned.bound
    std = np.sqrt(np.concatenate(query_variances(planned.strategy, split, LAW)))
    error = std.max() if norm == np.inf else np.mean(std**norm) ** (1 / norm)
    stated = error * planned.strategy.sensitivity(2) / LAW.scale
    assert stated == pytest.approx(planned.value, rel=1e-3)
