"""Random small matrices of every awkward kind: no bound above an error that is reached, exactly.

Plans are checked in rational arithmetic (see `oracles.exact_plans`), which shares nothing with the
planner: their strategies answer every query, their errors are no less than the bounds printed, and
no bound is above the error of another factorization of the same matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import Contradiction, InvalidParameter
from noisewright.privacy.promise.budget import Privacy
from oracles.blocks import whole_matrix
from oracles.exact_plans import mean, unit_value

BUDGETS: list[dict[str, Any]] = [
    {"epsilon": 1.0},
    {"rho": 0.5},
    {"epsilon": 4.0, "delta": 1e-6},
]


def hostile_matrix(seed: int) -> np.ndarray:
    """Up to 6 × 6: scales of 1e±8, offsets of 1e±8, repeated and zero rows, equal columns."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 7)), int(rng.integers(2, 7))
    matrix = rng.normal(size=(rows, columns))
    if rng.random() < 0.4:
        matrix = rng.integers(-2, 3, size=(rows, columns)).astype(np.float64)
    kind = rng.integers(6)
    if kind == 1:
        matrix = matrix * 10 ** rng.uniform(-8, 8)
    if kind in (2, 5):
        matrix = matrix * 10 ** rng.uniform(-8, 8, size=(rows, 1))
    if kind == 3:
        matrix = matrix + 10 ** rng.uniform(0, 8)
    if kind == 4:
        matrix = matrix * 10 ** rng.uniform(-4, 4, size=(1, columns))
    if kind == 5:
        matrix = matrix + 10 ** rng.uniform(-8, 8, size=(rows, 1))
    if rng.random() < 0.3:
        matrix[-1] = matrix[0]
    if rng.random() < 0.2:
        matrix[rng.integers(rows)] = 0.0
    if rng.random() < 0.2:
        matrix[:, 0] = matrix[:, -1]
    return matrix


def reached(plan: Any, matrix: np.ndarray) -> float | None:
    """The error of the plan's own strategy; None where rounding of 1e-9 is all that is missed."""
    exact = unit_value(plan, matrix)
    if exact is None:
        rows = whole_matrix(plan.mechanism.strategy)
        back = matrix @ np.linalg.pinv(rows) @ rows
        sizes = np.abs(matrix).max(axis=1)
        assert (np.abs(back - matrix).max(axis=1) <= 1e-9 * sizes).all()
    return exact


def other_error(matrix: np.ndarray, norm: float, neighbours: str) -> float:
    """What the best factorization found by itself has, from its matrices alone."""
    solved = nw.factorize(matrix, norm, neighbours=neighbours)
    strategy, back = solved.strategy.dense(), solved.reconstruction.dense()
    shifts = solved.offsets()[:, None]
    sizes = (
        np.ptp(matrix, axis=1)
        if neighbours == "replace-one"
        else np.abs(matrix).max(axis=1)
    )
    lost = np.abs(back @ strategy + shifts - matrix).max(axis=1)
    assert (lost <= 1e-6 * sizes + 1e-15 * np.abs(matrix).max(axis=1)).all()
    assert solved.gap >= 0
    changes = strategy
    if neighbours == "replace-one":
        first, second = np.triu_indices(matrix.shape[1], 1)
        changes = strategy[:, first] - strategy[:, second]
    length = float(np.linalg.norm(changes, axis=0).max(initial=0.0))
    return mean(np.linalg.norm(back, axis=1), norm) * length


def attack(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    matrix = hostile_matrix(seed)
    neighbours = str(rng.choice(["add-remove", "replace-one"]))
    error: Any = ["rmse", 4.0, "max"][rng.integers(3)]
    budget = BUDGETS[rng.integers(3)]
    nothing = not (
        np.ptp(matrix, axis=1) if neighbours == "replace-one" else matrix
    ).any()
    refusal = "asks for something"
    try:
        privacy = Privacy(**budget, neighbours=neighbours)
        # Bounds are on linear strategies; noise of another kind has none of them.
        mechanism = "laplace-strategy" if privacy.kind == "pure" else "auto"
        gaussian = "many" if "delta" in budget else "one"
        plan = nw.plan(
            matrix,
            privacy,
            nw.Central(error=error, mechanism=mechanism, composition=gaussian),
        )
    except InvalidParameter as refused:
        refusal, plan = str(refused), None
    assert (plan is None) <= (nothing or "double precision" in refusal)
    if plan is None:
        return
    exact, bound = reached(plan, matrix), plan.proposal.bound
    forecast = plan.forecast()
    if exact is not None and bound is not None:
        assert bound <= exact * (1 + 1e-9)
        assert plan.achieved >= plan.lower_bound * (1 - 1e-9)
        assert forecast.ratio is not None
        assert forecast.ratio >= 1
    if "rho" in budget or "delta" in budget:
        assert forecast.ratio is not None
        assert forecast.ratio < 1.05
        norm = {"rmse": 2.0, "max": math.inf}.get(error, error)
        assert bound is not None
        assert bound <= other_error(matrix, norm, neighbours) * (1 + 1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_no_bound_is_above_what_is_reached(seed: int) -> None:
    attack(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_bound_is_above_what_is_reached_by_a_thousand_more(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        attack(seed)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_offsets_and_scales_change_no_plan(neighbours: str) -> None:
    rng = np.random.default_rng(5)
    matrix = rng.integers(-3, 4, size=(4, 6)).astype(np.float64)
    privacy = Privacy(rho=0.5, neighbours=neighbours)
    plain = nw.plan(matrix, privacy).achieved
    assert nw.plan(1e-7 * matrix, privacy).achieved == pytest.approx(
        1e-7 * plain, rel=1e-3
    )
    # the number of people is public, so constants are free
    if neighbours == "replace-one":
        offset = nw.plan(matrix + 1e8, privacy).achieved
        assert offset == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("shape", [(3, 6), (4, 8), (5, 12), (8, 16), (20, 24)])
@pytest.mark.parametrize("error", ["rmse", "max"])
def test_plans_for_replaced_people_are_as_good_as_the_factorization(
    shape: tuple[int, int], error: str
) -> None:
    rng = np.random.default_rng(shape[1])
    matrix = rng.integers(0, 2, size=shape).astype(np.float64)
    plan = nw.plan(
        matrix, Privacy(rho=0.5, neighbours="replace-one"), nw.Central(error=error)
    )
    best = nw.factorize(matrix, plan.norm, neighbours="replace-one")
    assert plan.achieved <= 1.001 * best.value
    assert plan.forecast().ratio < 1.001


def test_a_plan_that_contradicts_its_bound_is_none() -> None:
    from dataclasses import replace

    plan = nw.plan("prefix:6", Privacy(rho=0.5))
    with pytest.raises(Contradiction, match="contradicts"):
        replace(plan.proposal, bound=2 * plan.proposal.value)
    forged = replace(plan.proposal, value=9.0, bound=8.0)
    with pytest.raises(Contradiction, match="contradicts"):
        replace(plan, proposal=forged).forecast()
