"""Pure privacy: gradients, strategies and whole tables against dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from test_central_mixed import MIXED

from noisewright.central.families import compile_family
from noisewright.central.gaussian import as_one_axis
from noisewright.central.laplace import _total_variance, laplace_product, weighted_identity
from noisewright.central.laplace_tables import _needed, _Objective, cover, laplace_tables
from noisewright.central.variance import query_variances
from noisewright.privacy.law import NoiseLaw
from noisewright.workload import Marginals, Workload, workload
from noisewright.workload.terms import terms

LAW = NoiseLaw("discrete-laplace", 300.0)


def dense_value(asked: Workload, a: np.ndarray) -> float:
    """RMSE per unit of Laplace scale of a strategy matrix, by least squares."""
    reconstruction = asked.dense() @ np.linalg.pinv(a)
    return float(
        np.linalg.norm(reconstruction) * np.abs(a).sum(axis=0).max() / np.sqrt(asked.queries)
    )


def test_gradient_of_the_total_variance() -> None:
    rng = np.random.default_rng(0)
    gram = workload("prefix:7").gram().dense()
    point = rng.random(3 * 7)
    error = check_grad(
        lambda t: _total_variance(t, gram)[0], lambda t: _total_variance(t, gram)[1], point
    )
    assert error < 1e-3 * np.linalg.norm(_total_variance(point, gram)[1])


@pytest.mark.parametrize("text", ["prefix:9", "ranges:8", "identity:5", "prefix:4+total:4"])
def test_weighted_identity_has_unit_sensitivity_and_the_stated_covariance(text: str) -> None:
    asked = workload(text)
    found = weighted_identity(asked.gram().dense())
    a = found.strategy
    np.testing.assert_allclose(np.abs(a).sum(axis=0), 1)
    np.testing.assert_allclose(found.covariance(), np.linalg.inv(a.T @ a), rtol=1e-8, atol=1e-9)
    identity = np.sqrt(asked.gram().trace() / asked.queries)
    assert dense_value(asked, a) <= identity * (1 + 1e-9)


@pytest.mark.parametrize(
    ("text", "sizes", "target"),
    [
        ("prefix:64", (64,), 3.764),
        ("ranges:64", (64,), 3.927),
        ("prefix:16*prefix:16*identity:4", (16, 16, 4), 6.613238),
        ("allmarginals:2^8", (2,) * 8, 3.160494),
    ],
)
def test_named_figures(text: str, sizes: tuple[int, ...], target: float) -> None:
    planned = laplace_product(terms(workload(text), sizes)[0], sizes, 2)
    assert planned.unit_value <= target
    block = planned.strategy.blocks[0]
    value = planned.strategy.sensitivity(1) * block.noise
    for factor, asked in zip(block.factors, terms(workload(text), sizes)[0].factors, strict=True):
        inverse = np.linalg.inv((factor.T @ factor).astype(np.float64))
        value *= np.sqrt(np.trace(inverse @ asked.gram().dense()) / asked.queries)
    assert value / block.multiplier == pytest.approx(planned.unit_value, rel=1e-3)


def test_three_way_tables_of_bits() -> None:
    asked = workload("marginals:2^8:3")
    planned = laplace_tables(terms(asked, (2,) * 8), (2,) * 8)
    assert planned.unit_value <= 5.657


@pytest.mark.parametrize("name", MIXED)
def test_whole_tables_are_combined_by_least_squares(name: str) -> None:
    asked, sizes = MIXED[name]
    split = terms(asked, sizes)
    family = compile_family(sizes, split)
    objective = _Objective(sizes, [t.attributes for t in split], _needed(family))
    point = np.random.default_rng(1).normal(size=len(split))
    slope = check_grad(lambda z: objective(z)[0], lambda z: objective(z)[1], point)
    assert slope < 1e-5
    strategy = laplace_tables(split, sizes).strategy
    rows = []
    for block, law in zip(strategy.blocks, strategy.laws(LAW), strict=True):
        full = np.ones((1, 1))
        by_axis = dict(zip(block.attributes, block.factors, strict=True))
        for i, n in enumerate(sizes):
            full = np.kron(full, by_axis.get(i, np.ones((1, n))))
        rows.append(block.multiplier * full / law.standard_deviation)
    a = np.concatenate(rows)
    expected = ((asked.dense() @ np.linalg.pinv(a)) ** 2).sum(axis=1)
    found = np.concatenate(query_variances(strategy, split, LAW))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    x = np.random.default_rng(3).integers(0, 1000, size=sizes)
    measured = strategy.measure(
        lambda table: x.sum(axis=tuple(i for i in range(x.ndim) if i not in table))
    )
    answers = np.concatenate(strategy.answers(split, measured))
    np.testing.assert_allclose(answers, asked.dense() @ x.ravel(), rtol=1e-9, atol=1e-6)
    assert strategy.sensitivity(1) == pytest.approx(1, rel=1e-9)


def test_a_stack_over_one_attribute_is_planned_as_one() -> None:
    asked = workload("prefix:8+total:8")
    planned = laplace_product(as_one_axis(asked), (8,), 2)
    assert planned.unit_bound <= planned.unit_value


@pytest.mark.parametrize("cells", [4, 16, 64, 256])
def test_covers_hold_every_table_within_their_size(cells: int) -> None:
    sizes = (2, 3, 2, 2, 4, 2, 2)
    needed = [t.attributes for t in terms(Marginals.of_order(sizes, 2, at_most=True), sizes)]
    found = cover(sizes, needed, cells)
    if cells < 12:
        assert found == []  # a needed table is larger
        return
    assert all(np.prod([sizes[i] for i in table]) <= cells for table in found)
    assert all(any(set(t) <= set(table) for table in found) for t in needed)


def test_covers_beat_measuring_every_table_by_itself() -> None:
    sizes = (2,) * 16
    asked = Marginals.of_order(sizes, 2)
    planned = laplace_tables(terms(asked, sizes), sizes)
    separate = len(asked.tables)  # one weight per table: the error of a cell is the number of them
    assert planned.unit_value < 0.5 * separate
    assert planned.unit_bound <= planned.unit_value
