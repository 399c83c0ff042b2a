"""Sums of cells beside the cells under carry noise: private, exact, and only where they pay."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.arrays import FloatArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.carry import plan as carry_plan
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.mechanism import CarryMechanism
from noisewright.central.carry.sum_rows import LeastSquares, SumRows
from noisewright.errors import NoisewrightError
from oracles.plan_parts import read_parts, write_parts
from oracles.privacy_oracles import SeededSource

PURE = nw.Privacy(epsilon=1)
SUMMED = "prefix:96"


@pytest.fixture(scope="module")
def plan() -> nw.Plan:
    return nw.plan(SUMMED, PURE, nw.Central(mechanism="carry"))


def generalised(
    matrix: FloatArray, covariance: FloatArray, gram: FloatArray
) -> tuple[float, FloatArray]:
    """By the textbook: the variance of all answers, and the weights of errors in the rows."""
    precision = np.linalg.inv(covariance)
    cells = np.linalg.inv(matrix.T @ precision @ matrix)
    back = cells @ matrix.T @ precision
    return float((gram * cells).sum()), back.T @ gram @ back


@pytest.fixture(params=range(4))
def squares(request: pytest.FixtureRequest) -> LeastSquares:
    """Any sums, under any noise."""
    rng = np.random.default_rng(request.param)
    cells, sums = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    root = rng.normal(size=(cells + sums, cells + sums))
    rows = rng.random((sums, cells))
    return LeastSquares(
        1 + rows.sum(axis=0), rows, root @ root.T + np.eye(cells + sums)
    )


def test_few_sums_need_no_large_system(squares: LeastSquares) -> None:
    cells = squares.rows.shape[1]
    gram = nw.workload(f"ranges:{cells}").gram().dense()
    matrix = np.concatenate([np.eye(cells), squares.rows]) / squares.norms
    variance, weights = generalised(matrix, squares.covariance, gram)
    assert squares.variance(gram) == pytest.approx(variance)
    np.testing.assert_allclose(
        squares.weights(gram), weights, atol=1e-9 * weights.max()
    )


def test_slopes_are_those_of_differences(squares: LeastSquares) -> None:
    gram = nw.workload(f"prefix:{squares.rows.shape[1]}").gram().dense()
    _, slopes = squares.slopes(gram)
    step = 1e-6
    for place in np.ndindex(squares.rows.shape):
        values = []
        for sign in (-1, 1):
            rows = squares.rows.copy()
            rows[place] += sign * step
            moved = LeastSquares(1 + rows.sum(axis=0), rows, squares.covariance)
            values.append(moved.variance(gram))
        assert slopes[place] == pytest.approx(
            (values[1] - values[0]) / (2 * step), rel=1e-4
        )


def tiny() -> CarryMechanism:
    """Two cells and their sum, each column of L1 norm 3, with cores that are carried."""
    matrix = np.array([[2, 0], [0, 1], [1, 2]])
    shares = np.array([[-1.0, 0.0], [-0.5, 0.5], [0.0, 0.0]])
    targets = np.array([[2, 0], [0, 2], [0, 0]])
    carries = Carries.rounded(
        np.array([1, 0, 2]), np.array([3.0, 4.0, 0.0]), targets, shares
    )
    strategy = BlockStrategy((2,), (Block((0,), (matrix,)),))
    return CarryMechanism(BlockMechanism(strategy, nw.Privacy(epsilon=1.5)), carries)


def log_densities(
    carries: Carries, scale: float, reach: int
) -> dict[tuple[int, ...], float]:
    """Of the noise on three rows, up to a constant, wherever draws in a box lead."""
    axis = np.arange(-reach, reach + 1)
    draws = np.array(list(product(axis, repeat=carries.rows)), dtype=np.int64).T
    beyond = np.maximum(np.abs(draws) - carries.cores[:, None], 0).sum(axis=0)
    noise = carries.carried(draws)
    densities = {
        tuple(z): -b / scale for z, b in zip(noise.T.tolist(), beyond, strict=True)
    }
    assert len(densities) == draws.shape[1]
    return densities


def largest_loss(mechanism: CarryMechanism, scale: float) -> float:
    """Over a box of outcomes, when one person joins one of the cells."""
    densities = log_densities(mechanism.carries, scale, 9)
    losses = []
    for column in mechanism.measured.strategy.matrix.T.tolist():
        for z, density in densities.items():
            moved = densities.get(tuple(a - b for a, b in zip(z, column, strict=True)))
            losses.append(0.0 if moved is None else abs(moved - density))
    return max(losses)


def test_a_person_in_a_cell_and_its_sums_costs_the_budget_and_no_more() -> None:
    mechanism = tiny()
    assert mechanism.scale == pytest.approx(3 / 1.5)
    assert largest_loss(mechanism, mechanism.scale) == pytest.approx(1.5)
    # A scale for the cells alone, as if nobody entered the sum, is caught.
    assert largest_loss(mechanism, 2 / 1.5) > 1.6


def test_sums_are_measured_where_they_pay_and_forecasts_are_exact(
    plan: nw.Plan,
) -> None:
    method = plan.mechanism
    matrix = method.measured.strategy.matrix
    assert len(matrix) > matrix.shape[1]
    sensitivity = int(np.abs(matrix).sum(axis=0).max())
    assert method.scale == pytest.approx(sensitivity)
    assert plan.spend.promise().epsilon <= 1
    gram = plan.workload.gram().dense()
    noise = method.carries.covariance(method.scale).toarray()
    variance, _ = generalised(matrix.astype(float), noise, gram)
    assert plan.forecast().rmse == pytest.approx(
        np.sqrt(variance / plan.workload.queries)
    )
    drawn = plan.accuracy.draw(4000, np.random.default_rng(3))
    assert (drawn**2).mean() == pytest.approx(
        (plan.standard_errors**2).mean(), rel=0.05
    )


def test_releases_have_the_errors_that_are_forecast(plan: nw.Plan) -> None:
    """2,000 draws of the sampler: seven deviations of a mean square whose draws deviate by 0.8."""
    method = plan.mechanism
    noise = method.carries.draw(method.scale, 2000, SeededSource(5)).astype(np.float64)
    errors = plan.workload.dense() @ method.cells(noise)
    mean = (plan.standard_errors**2).mean()
    assert (errors**2).mean() == pytest.approx(mean, rel=7 * 0.8 / np.sqrt(2000))
    people = np.arange(plan.workload.size)
    released = plan.release(people).answers - plan.workload.matvec(people)
    assert (np.abs(released) <= 40 * plan.standard_errors).all()


@pytest.mark.parametrize(
    ("text", "epsilon"), [("ranges:80", 2.0), ("prefix:9*prefix:9", 0.01)]
)
def test_sums_are_never_worse_than_cells_alone(
    text: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    privacy = nw.Privacy(epsilon=epsilon)
    achieved = nw.plan(text, privacy, nw.Central(mechanism="carry")).achieved
    monkeypatch.setattr(carry_plan, "LEAST_SUMMED", np.inf)
    assert achieved <= nw.plan(text, privacy, nw.Central(mechanism="carry")).achieved


def test_plans_with_sums_are_kept_and_forged_ones_pay_for_their_columns(
    plan: nw.Plan, tmp_path: Path
) -> None:
    plan.save(tmp_path / "plan.nw")
    again = nw.load(tmp_path / "plan.nw")
    np.testing.assert_array_equal(again.standard_errors, plan.standard_errors)
    header, arrays = read_parts(tmp_path / "plan.nw")
    name = str(header["strategy"]["blocks"]["blocks"][0]["factors"][0])
    longer = arrays[name].copy()
    longer[-1] *= 4
    write_parts(tmp_path / "forged.nw", header, {**arrays, name: longer})
    heavy = nw.load(tmp_path / "forged.nw")
    assert heavy.mechanism.scale == pytest.approx(int(np.abs(longer).sum(axis=0).max()))
    assert heavy.mechanism.scale > plan.mechanism.scale
    fewer = {**arrays, name: longer[:-1].copy()}
    write_parts(tmp_path / "forged.nw", header, fewer)
    with pytest.raises(NoisewrightError):
        nw.load(tmp_path / "forged.nw")


def test_rows_that_sum_nothing_are_left_out() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    design = SumRows(rows, np.diag(np.arange(1.0, 6.0))).used()
    np.testing.assert_array_equal(design.rows, rows[1:])
    np.testing.assert_array_equal(design.covariance.diagonal(), [1, 2, 3, 5])
    assert design.order.tolist() == [2, 1, 0, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("prefix:256", 6.044),
        ("ranges:256", 6.765),
        ("prefix:16*prefix:16*identity:4", 7.32),
    ],
)
def test_long_lists_have_the_errors_stated(text: str, error: float) -> None:
    plan = nw.plan(text, PURE)
    assert plan.mechanism.name == "carry"
    assert plan.forecast().rmse <= 1.001 * error
