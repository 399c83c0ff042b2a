"""Matrices of one's own in both models: exact in whole numbers, valued independently."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.registry import CENTRAL
from noisewright.errors import InvalidParameter, NoisewrightError, OutOfReach
from noisewright.local.registry import MECHANISMS

RNG = np.random.default_rng(7)
CURATOR = nw.Privacy(epsilon=1, delta=1e-9)
MATRICES = {
    "cells": np.eye(6),
    "cells and total": np.vstack([np.eye(6), np.ones((1, 6))]),
    "real": RNG.normal(size=(9, 6)),
    "large whole numbers": RNG.integers(-1000, 1000, size=(7, 6)).astype(float),
}


def measured(plan: nw.Plan) -> np.ndarray:
    """The integers that the plan's mechanism measures."""
    return plan.mechanism.strategy.matrix


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("pure", [False, True], ids=["gaussian", "laplace"])
def test_sensitivity_and_errors_are_those_of_the_integers(
    matrix, neighbours, pure
) -> None:
    delta = None if pure else 1e-9
    privacy = nw.Privacy(epsilon=1, delta=delta, neighbours=neighbours)
    composition = "one" if pure else "many"
    plan = nw.plan(
        "prefix:6", privacy, nw.Central(strategy=matrix, composition=composition)
    )
    whole, order = measured(plan), 1 if pure else 2
    assert whole.dtype == np.int64
    assert (
        np.abs(whole / np.abs(whole).max() - matrix / np.abs(matrix).max()).max() < 1e-4
    )
    moves = [whole[:, i] for i in range(6)]
    if neighbours == "replace-one":
        moves = [a - b for a in moves for b in moves]
    multiplier = plan.mechanism.strategy.blocks[0].multiplier
    most = (
        max(float(np.linalg.norm(move.astype(float), order)) for move in moves)
        * multiplier
    )
    assert plan.mechanism.sensitivity == pytest.approx(most, rel=1e-8)
    assert plan.mechanism.sensitivity >= most * (1 - 1e-15)
    back = np.tril(np.ones((6, 6))) @ np.linalg.pinv(whole.astype(float))
    noise = np.sqrt(plan.mechanism.law.variance) / multiplier
    np.testing.assert_allclose(
        plan.forecast().std, noise * np.linalg.norm(back, axis=1), rtol=1e-6
    )


def test_a_plan_by_ones_own_strategy_is_like_any_other(tmp_path) -> None:
    best = nw.factorize("prefix:6")
    plan = nw.plan(
        "prefix:6", CURATOR, nw.Central(strategy=best.strategy, composition="many")
    )
    assert plan.mechanism.name == "own-strategy"
    assert plan.forecast().ratio == pytest.approx(1, abs=1e-4)
    assert (
        nw.plan("prefix:6", CURATOR, nw.Central(strategy=np.eye(6), composition="many"))
        .forecast()
        .ratio
        > 1.2
    )
    plan.save(tmp_path / "own.nw")
    again = nw.load(tmp_path / "own.nw")
    np.testing.assert_array_equal(measured(again), measured(plan))
    assert again.release(np.arange(6)).answers.shape == (6,)


@pytest.mark.parametrize(
    ("matrix", "error", "said"),
    [
        (np.ones((1, 6)), OutOfReach, "query 0 does not follow"),
        (np.vstack([np.eye(6)[:5], np.zeros((1, 6))]), OutOfReach, "query 5"),
        (np.eye(5), InvalidParameter, r"one column per cell \(6\)"),
        (np.full((6, 6), np.nan), InvalidParameter, "finite"),
        (np.zeros((6, 6)), InvalidParameter, "not all zero"),
        ("identity", InvalidParameter, "matrix of numbers"),
        ([[1, 2], [3]], InvalidParameter, "matrix of numbers"),
    ],
)
def test_strategies_that_do_not_support_the_queries_are_refused(
    matrix, error, said
) -> None:
    with pytest.raises(error, match=said):
        nw.plan("prefix:6", CURATOR, nw.Central(strategy=matrix, composition="many"))


def test_a_strategy_that_rounding_would_break_is_refused() -> None:
    total = nw.workload(np.ones((1, 4)))
    # spans more than the queries
    half = np.vstack([np.pi * np.ones((1, 4)), [[np.e, 1, 0, 0]]])
    with pytest.raises(InvalidParameter, match="scale it to whole numbers"):
        nw.plan(total, CURATOR, nw.Central(strategy=half, composition="many"))
    assert (
        nw.plan(
            total,
            CURATOR,
            nw.Central(strategy=np.pi * np.ones((1, 4)), composition="many"),
        )
        .forecast()
        .ratio
        < 1.001
    )


def test_a_strategy_is_not_a_mechanism_as_well() -> None:
    with pytest.raises(InvalidParameter, match="a strategy or a mechanism"):
        nw.plan(
            "prefix:6", CURATOR, nw.Central(strategy=np.eye(6), mechanism="gaussian")
        )


def response(cells: int, epsilon: float) -> np.ndarray:
    chances = np.ones((cells, cells)) + (exp(epsilon) - 1) * np.eye(cells)
    return chances / (exp(epsilon) + cells - 1)


def test_epsilon_of_ones_own_chances_is_verified_from_whole_numbers() -> None:
    rough = np.random.default_rng(3).uniform(1, 2.5, size=(9, 5))
    rough /= rough.sum(axis=0)
    plan = nw.plan("identity:5", nw.Privacy(epsilon=2), nw.Local(strategy=rough))
    weights = [[int(w) for w in row] for row in plan.strategy.weights]
    assert all(sum(column) == 2**62 for column in zip(*weights, strict=True))
    ratio = max(Fraction(max(row), min(row)) for row in weights)
    assert ratio <= Fraction(exp(plan.epsilon)) * (1 + Fraction(1, 10**15))
    assert plan.epsilon == pytest.approx(
        log((rough.max(axis=1) / rough.min(axis=1)).max())
    )
    np.testing.assert_allclose(np.asarray(plan.strategy)[:9], rough, atol=1e-9)


def test_ones_own_randomized_response_is_that_of_the_registry(tmp_path) -> None:
    privacy = nw.Privacy(epsilon=1)
    own = nw.plan("prefix:5", privacy, nw.Local(strategy=response(5, 1.0)))
    ours = nw.plan("prefix:5", privacy, nw.Local(mechanism="randomized-response"))
    assert own.sample_complexity() == pytest.approx(ours.sample_complexity(), rel=1e-9)
    own.save(tmp_path / "own.nw")
    again = nw.load(tmp_path / "own.nw")
    assert (again.mechanism.name, again.epsilon) == ("own-strategy", own.epsilon)
    reports = again.randomize([0, 1, 2, 3, 4] * 20)
    assert again.estimate(reports).answers[-1] == pytest.approx(100)


@pytest.mark.parametrize(
    ("chances", "said"),
    [
        (response(5, 1.5), "whose reports spend 1.5"),
        (np.eye(5), "not private at any epsilon"),
        (2 * response(5, 1.0), "must sum to one"),
        (np.full((2, 5), 0.5), "out of reach"),
        (response(4, 1.0), "one column per cell"),
        (np.vstack([response(5, 1.0)] * 2).T, "one column per cell"),
    ],
)
def test_chances_that_break_the_promise_or_miss_the_queries_are_refused(
    chances, said
) -> None:
    with pytest.raises(NoisewrightError, match=said):
        nw.plan("prefix:5", nw.Privacy(epsilon=1), nw.Local(strategy=chances))


def test_entries_of_ones_own_are_mechanisms() -> None:
    plan = nw.plan("prefix:6", CURATOR, nw.Central(mechanism=CENTRAL["gaussian-tree"]))
    assert plan.mechanism.name == "gaussian-tree"
    entry = MECHANISMS["unary"]
    assert nw.plan(
        "prefix:6", nw.Privacy(epsilon=1), nw.Local(mechanism=entry)
    ).mechanism


def test_explanations_name_every_mechanism_once() -> None:
    told = nw.explain("prefix:6", nw.Privacy(epsilon=1))
    plan = nw.plan("prefix:6", nw.Privacy(epsilon=1))
    assert told.plan.mechanism.name == plan.mechanism.name
    assert {plan.mechanism.name, *(other.mechanism for other in told.others)} == set(
        CENTRAL
    )
    assert len(told.others) == len(CENTRAL) - 1
    rows = {row.mechanism: row for row in nw.compare("prefix:6", nw.Privacy(epsilon=1))}
    for other in told.others:
        if other.achieved is not None:
            assert other.achieved == pytest.approx(
                rows[other.mechanism].achieved, rel=1e-9
            )
            assert other.times >= 1
    named = nw.explain("prefix:6", CURATOR, nw.Central(mechanism="gaussian"))
    assert "by name" in named.why
