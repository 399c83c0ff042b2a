"""Closed forms of people that known tasks take, against the families written out."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.local.bounds.people.hard_instances import HardInstance
from noisewright.local.bounds.people.tasks import threshold_kappa

C = math.expm1(1) ** 2 / 4


def kappa(moved: np.ndarray) -> float:
    """n times the largest eigenvalue, all rows alike."""
    return moved.shape[1] * float(np.linalg.eigvalsh(moved.T @ moved)[-1]) / len(moved)


def most_told(moved: np.ndarray, trials: int = 2000) -> float:
    """4 times the largest mean of <g - 1/2, M_v>² over many functions 0 <= g <= 1 at corners."""
    rng = np.random.default_rng(0)
    signs = rng.integers(0, 2, (trials, moved.shape[1])) - 0.5
    return 4 * float(((signs @ moved.T) ** 2).mean(axis=1).max())


def most_by_reports(moved: np.ndarray, laws: np.ndarray) -> float:
    """The most that any two-valued report tells on average over v, of all 2^n of them.

    Its chance under v moves by (e − 1)<g, M_v>, over its chance: what a report adds to the
    divergence per share of reports that are this one.
    """
    g = np.array(list(product((0.0, 1.0), repeat=moved.shape[1])))
    chances = 1 + math.expm1(1) * g @ laws.T
    typical = 1 + math.expm1(1) * g.mean(axis=1)
    told = (math.expm1(1) * g @ moved.T) ** 2 / chances
    return float((told.mean(axis=1) / typical).max())


def test_parities_by_fano_and_from_one_reference() -> None:
    own = C / math.e
    assert nw.local.parity_people(28, 0.1) == math.ceil(
        (0.95 * math.log(28) - math.log(2)) * 28 / (own * 0.01)
    )
    sequential = nw.local.parity_people(28, 0.1, protocols="sequential")
    assert sequential == math.ceil(2 * (0.95 - 1 / 28) ** 2 * 28 / (own / 0.9 * 0.01))
    signs = np.array(
        [[(-1) ** bin(s & x).count("1") for x in range(4)] for s in range(1, 4)]
    )
    moved = 0.1 * np.hstack([signs, -signs]) / 8  # points with label +1, then -1
    assert kappa(moved) == pytest.approx(0.1**2 / 3, rel=1e-9)
    assert most_told(moved) <= kappa(moved) * (1 + 1e-9)
    even = np.full_like(moved, 1 / 8)
    assert most_by_reports(moved, even) <= own * kappa(moved) * (1 + 1e-9)
    assert most_by_reports(moved, even + moved) <= own / 0.9 * kappa(moved) * (1 + 1e-9)


def test_selection_is_told_as_if_by_coins() -> None:
    """κ = 4α²/d of coins; adaptive protocols do without the logarithm, others do not."""
    d, alpha = 5, 0.1
    cells = np.array(list(product((0, 1), repeat=d)))
    moved = (2 * cells.T - 1) * 2 * alpha / 2**d
    assert kappa(moved) == pytest.approx(4 * alpha**2 / d, rel=1e-9)
    assert most_told(moved) <= 4 * alpha**2 / d * (1 + 1e-9)
    # four coordinates, all 65,536 reports
    few = (2 * cells[:16, 1:].T - 1) * 2 * alpha / 16
    even = np.full_like(few, 1 / 16)
    assert most_by_reports(few, even) <= C / math.e * alpha**2 * (1 + 1e-9)
    assert most_by_reports(few, even + few) <= C / math.e / 0.8 * alpha**2 * (1 + 1e-9)
    people = [
        nw.local.selection_people(200, alpha, protocols=each)
        for each in ("sequential", "non-interactive")
    ]
    assert people[0] < people[1]
    proved = nw.plan(
        nw.learn.LargestMean(200, alpha=alpha), nw.Privacy(epsilon=1)
    ).needs
    assert people[1] <= proved["non-interactive"]
    assert people[0] <= min(proved.values())


def threshold_pairs(
    points: int, reach: int, alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """A share 2α left or right of every threshold with `reach` points on both sides."""
    weights = 1 / (np.arange(1, reach + 1) - 0.5)
    weights /= weights.sum()
    places = range(reach, points - reach + 1)
    left, right = np.zeros((2, len(places), points))
    for v, at in enumerate(places):
        left[v, at - reach : at], right[v, at : at + reach] = weights[::-1], weights
    return 2 * alpha * left, 2 * alpha * right


@pytest.mark.parametrize(("points", "reach"), [(9, 1), (24, 5), (40, 12), (40, 20)])
def test_thresholds_written_out(points: int, reach: int) -> None:
    """Every threshold with `reach` points on both sides; families differ by 2α in its answer."""
    alpha = 0.05
    left, right = threshold_pairs(points, reach, alpha)
    for at, row in enumerate(left - right, start=reach):
        assert row[:at].sum() == pytest.approx(2 * alpha)
    exact = kappa(left - right)
    assert exact <= threshold_kappa(points, reach, alpha)
    assert most_told(left - right) <= threshold_kappa(points, reach, alpha)


def test_people_for_thresholds_are_proved_by_pairs_written_out() -> None:
    points, alpha = 24, 0.05
    rest = (1 - 2 * alpha) / points
    proved = [
        telling_people(*(rest + side for side in threshold_pairs(points, reach, alpha)))
        for reach in range(1, points // 2 + 1)
    ]
    closed = nw.local.threshold_people(points, alpha)
    assert 0.5 * max(proved) < closed <= max(proved)


def test_thresholds_are_below_what_plans_need_and_grow_with_the_logarithm() -> None:
    closed = nw.local.threshold_people(64, 0.05)
    assert closed <= nw.local.hard_instance("prefix:64", 0.05).people * 1.05
    many = [nw.local.threshold_people(10**k, 0.05) for k in (2, 4, 6)]
    assert many[2] - many[1] > many[1] - many[0] > many[0]


@pytest.mark.parametrize(("attributes", "ways"), [(4, 2), (5, 3)])
def test_marginals_written_out(attributes: int, ways: int) -> None:
    """The witness over matches, spread over rows and cells: its families prove the same."""
    alpha, best = 0.05, 0
    cells = np.array(list(product((0, 1), repeat=attributes)))
    matches = np.array(
        [
            (cells[:, list(table)] == pattern).sum(axis=1)
            for table in combinations(range(attributes), ways)
            for pattern in product((0, 1), repeat=ways)
        ]
    )
    for multiple in (1, 2, 4):
        norm = nw.marginal_norm(attributes, ways, multiple * alpha, shift=True)
        y = norm.certificate.weights[0].copy()
        y[int(np.abs(y).argmax())] -= math.fsum(y)
        spread = (y / np.bincount(matches[0]))[matches]
        first, away = np.maximum(spread, 0), np.maximum(-spread, 0)
        first, away = (f / f.sum(axis=1, keepdims=True) for f in (first, away))
        gaps = np.abs(((first - away) * (matches == ways)).sum(axis=1))
        assert np.ptp(gaps) < 1e-9
        if gaps[0] > 2 * alpha:
            share, even = 2 * alpha / gaps[0], np.full(first.shape, 1 / len(cells))
            best = max(
                best,
                telling_people(
                    *((1 - share) * even + share * f for f in (first, away))
                ),
            )
    closed = nw.local.marginal_people(attributes, ways, alpha)
    assert closed == pytest.approx(best, rel=1e-3, abs=1)


def telling_people(first: np.ndarray, second: np.ndarray) -> int:
    """What pairs prove that are written out: all alike, in even shares of all cells."""
    count, cells = first.shape
    weights, even = np.full(count, 1 / count), np.full(cells, 1 / cells)
    return HardInstance(
        first, second, weights, even, 1.0, 0.05, "", np.arange(count)
    ).people


def test_a_hundred_attributes_need_so_many_people_and_bad_input_is_refused() -> None:
    assert nw.local.marginal_people(100, 8, 0.01) > nw.local.marginal_people(
        20, 8, 0.01
    )
    with pytest.raises(InvalidParameter, match="parities="):
        nw.local.parity_people(1, 0.1)
    with pytest.raises(InvalidParameter, match="coordinates="):
        nw.local.selection_people(1, 0.1)
    with pytest.raises(InvalidParameter, match="points="):
        nw.local.threshold_people(1, 0.1)
    for alpha in (0.0, 0.6, math.nan):
        with pytest.raises(InvalidParameter, match="alpha="):
            nw.local.threshold_people(16, alpha)
    with pytest.raises(InvalidParameter, match="protocols="):
        nw.local.selection_people(5, 0.1, protocols="fully interactive")  # type: ignore[arg-type]
