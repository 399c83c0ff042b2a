"""Bounds for any protocol: brute force over all two-valued reports never beats the certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import noisewright as nw
from noisewright.errors import Contradiction, InvalidParameter, NoisewrightError
from noisewright.local.bounds.people import telling
from noisewright.local.bounds.people.hard_instances import HardInstance

SIGNS = np.where(np.tril(np.ones((4, 4))) > 0, 1.0, -1.0)
QUERIES = ["prefix:6", "identity:5", "parity:3:1", "random:4x6:1"]
LABELLED = [nw.local.hard_refutation, nw.local.hard_learning, nw.local.hard_realizable]


def most_told(instance: HardInstance) -> float:
    """The most that one report tells: a linear program over all two-valued rows of chances.

    Σ_S μ_S E_V (v_S·M_V)²/min(v_S·a_V, v_S·b_V), a and b the families, subject to Σ_S μ_S v_S = 1:
    convex and homogeneous in a row, so that two-valued rows suffice.
    """
    moved = instance.first - instance.second
    cells = moved.shape[1]
    rows = 1 + math.expm1(instance.epsilon) * np.array(
        list(product((0, 1), repeat=cells))
    )
    chances = np.minimum(rows @ instance.first.T, rows @ instance.second.T)
    gains = ((rows @ moved.T) ** 2 / chances) @ instance.weights
    answer = linprog(
        -gains, A_eq=rows.T, b_eq=np.ones(cells), bounds=(0, None), method="highs"
    )
    assert answer.success
    return float(-answer.fun)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("text", QUERIES)
def test_no_report_tells_more_of_queries_than_certified(
    text: str, epsilon: float
) -> None:
    alpha = 0.05
    instance = nw.local.hard_instance(text, alpha, epsilon=epsilon)
    assert most_told(instance) <= instance.information * (1 + 1e-9)
    matrix = nw.workload(text).dense()[instance.rows]
    gap = np.abs((matrix * (instance.first - instance.second)).sum(axis=1))
    assert (gap > 2 * alpha).all()
    assert (gap < 2 * alpha * 1.001).all()


@pytest.mark.parametrize("task", LABELLED)
def test_no_report_tells_more_of_labels_than_certified(
    task: Callable[..., HardInstance],
) -> None:
    instance = task(SIGNS, 0.1)
    assert most_told(instance) <= instance.information * (1 + 1e-9)


@pytest.mark.parametrize("text", QUERIES[:2])
def test_planted_bugs_are_caught(text: str) -> None:
    """A forgotten factor two in M, and weights that are not those that κ was found for."""
    instance = nw.local.hard_instance(text, 0.05, epsilon=0.2)
    # κ of halved differences, claimed of whole ones.
    forgotten = replace(instance, second=(instance.first + instance.second) / 2)
    assert most_told(instance) > forgotten.information * 1.05
    # No reweighting: all weight on one row, with the κ that was found for many.
    one = np.zeros(len(instance.weights))
    one[len(one) // 2] = 1.0
    unweighted = replace(instance, weights=one)
    assert most_told(unweighted) > instance.information * 1.05
    # The certificate itself notices: its κ is worked out again from the weights that it has.
    assert unweighted.kappa > 1.5 * instance.kappa
    assert most_told(unweighted) <= unweighted.information * (1 + 1e-9)


def test_the_constant_of_a_reference_is_for_pairs_that_share_it() -> None:
    """Pairs whose rest is their own tell more than it says, and are not said to share anything."""
    near = nw.local.hard_instance("prefix:6", 0.05, epsilon=3.0)
    assert near.information == pytest.approx(
        telling.reference_constant(3.0) * near.kappa / near.shares.min(), rel=1e-6
    )
    one = np.maximum(near.first - near.second, 0.0)
    one /= one.sum(axis=1, keepdims=True)
    own = replace(near, first=one, second=one - near.first + near.second)
    assert own.kappa == pytest.approx(near.kappa)
    assert own.information == telling.pair_constant(3.0) * own.kappa
    assert most_told(own) > telling.reference_constant(3.0) * own.kappa * 1.05


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_reports_tell_families_apart_more_often_than_certified(
    epsilon: float,
) -> None:
    """True less false alarms of the best test that is told v, exactly, over all pairs of reports.

    Random two-valued strategies of two people each, which need not be alike.
    """
    instance = nw.local.hard_instance("prefix:5", 0.05, epsilon=epsilon)
    rng, cells = np.random.default_rng(3), 5
    rows = 1 + math.expm1(epsilon) * np.array(list(product((0, 1), repeat=cells)))
    best = 0.0
    for _ in range(40):
        strategies = [two_valued(rows, rng) for _ in range(2)]
        first, second = (
            np.einsum("ov,pv->vop", *(q @ family.T for q in strategies))
            for family in (instance.first, instance.second)
        )
        told = np.abs(first - second).sum(axis=(1, 2)) / 2
        best = max(best, float(instance.weights @ told))
    assert 0.3 * instance.advantage(2) < best <= instance.advantage(2)


def two_valued(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A strategy that is best for random prices of rows: a corner of all two-valued ones."""
    answer = linprog(
        rng.standard_exponential(len(rows)), A_eq=rows.T, b_eq=np.ones(rows.shape[1]),
        bounds=(0, None), method="highs",
    )  # fmt: skip
    return np.asarray(answer.x[:, None] * rows)


def test_families_are_what_each_task_says() -> None:
    alpha, points = 0.1, SIGNS.shape[1]
    refuted = nw.local.hard_refutation(SIGNS, alpha)
    np.testing.assert_allclose(refuted.first[:, :points], refuted.first[:, points:])
    correlation = (
        (refuted.second[:, :points] - refuted.second[:, points:]) * SIGNS[refuted.rows]
    ).sum(axis=1)
    assert (correlation > 2 * alpha).all()  # loss below ½ − α
    learnt = nw.local.hard_learning(SIGNS, alpha)
    both = learnt.first + learnt.second
    np.testing.assert_allclose(both[:, :points], both[:, points:])  # losses sum to one
    one, other = (side[learnt.rows] for side in np.triu_indices(len(SIGNS), 1))
    tilted = learnt.first[:, :points] - learnt.first[:, points:]
    assert (((SIGNS[one] - SIGNS[other]) / 2 * tilted).sum(axis=1) > 2 * alpha).all()
    realizable = nw.local.hard_realizable(SIGNS, alpha)
    own = np.hstack([SIGNS > 0, SIGNS < 0])[realizable.rows]
    assert np.abs(np.where(own, 0.0, realizable.first)).max() < 1e-12
    least = np.minimum(
        realizable.second[:, :points], realizable.second[:, points:]
    ).sum(axis=1)
    assert (least >= alpha).all()  # every hypothesis


def test_drawn_people_follow_the_families() -> None:
    instance, rng = nw.local.hard_instance("prefix:6", 0.1), np.random.default_rng(1)
    v, second, cells = instance.draw(40_000, rng, second=True)
    assert second
    shares = np.bincount(cells, minlength=6) / len(cells)
    # Six shares of 40,000 people: 0.0125 is five standard deviations, a false alarm below 1e-5.
    assert np.abs(shares - instance.second[v]).max() < 0.0125
    assert instance.advantage(instance.people) <= 1
    assert instance.advantage(1) < 0.2


def test_an_instance_that_is_none_is_refused() -> None:
    instance = nw.local.hard_instance("prefix:4", 0.1)
    with pytest.raises(Contradiction):
        replace(instance, first=instance.first * 0.9)
    with pytest.raises(NoisewrightError, match="smaller error"):
        nw.local.hard_instance(np.array([[0.0, 0.1], [0.1, 0.0]]), 0.2)
    with pytest.raises(InvalidParameter, match="concepts="):
        nw.local.hard_refutation("prefix:4", 0.1)
    with pytest.raises(InvalidParameter, match="alpha="):
        nw.local.hard_instance("prefix:4", 0.0)


def test_squared_errors_of_cells_are_below_what_is_reached() -> None:
    """Subset selection, shrunk or not, never goes below the bounds for any protocol.

    Against the population an unbiased estimate from N people has its own variance and 1 − Σp² of
    sampling over N; the bounds are for the worst distribution.
    """
    plan = nw.plan(
        "identity:16", nw.Privacy(epsilon=1), nw.Local(mechanism="subset-selection")
    )
    for people in (10, 300, 10_000, 1_000_000):
        unbiased = plan.analysis.worst_case / people + 1 / people
        ignorant = 1.0  # answers nothing at all: Σ(p − 1/n)² < 1
        floor = max(
            nw.local.assouad_bound(16, people), nw.local.van_trees_bound(16, people)
        )
        assert 0 < floor <= min(unbiased, ignorant)
    assert floor > 0.5 * unbiased


def test_affinities_of_pairs_against_all_rows() -> None:
    """The mean affinity by kinds of rows is the least over all two-valued strategies, 4 cells."""
    from noisewright.local.bounds.people.population import _pair_loss

    delta, epsilon, cells = 0.4, 1.0, 4
    rows = 1 + math.expm1(epsilon) * np.array(list(product((0, 1), repeat=cells)))
    affinity = np.zeros(len(rows))
    for flipped in range(2):
        for other in (1, -1):
            signs = [
                np.array([s, other]) if flipped == 0 else np.array([other, s])
                for s in (1, -1)
            ]
            laws = [
                np.concatenate([(1 + delta * s[:, None] * np.array([1, -1])).ravel()])
                / cells
                for s in signs
            ]
            affinity += np.sqrt((rows @ laws[0]) * (rows @ laws[1])) / 4
    answer = linprog(
        affinity, A_eq=rows.T, b_eq=np.ones(cells), bounds=(0, None), method="highs"
    )
    least = math.sqrt(1 - (math.expm1(1) * delta / (cells + math.expm1(1))) ** 2)
    expected = (1 - answer.fun) * (-math.log(least)) / (1 - least)
    assert _pair_loss(cells, delta, epsilon) == pytest.approx(expected, rel=1e-6)
