"""Ball noise: radii are those of the integers measured, errors as said, and where it is better."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.geometry import balls, hardt_talwar
from noisewright.central.geometry.balls import BallMechanism, reach_square
from noisewright.central.geometry.hardt_talwar import turned_parts
from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.structure import terms
from oracles.privacy_oracles import SeededSource

REPLACED = Privacy(1.0, neighbours="replace-one")
BOTH = [REPLACED, Privacy(1.0)]


class _NoSums:
    """A generator whose weights are all zero, so that all columns have one sum."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def integers(self, low: int, high: int, count: int) -> np.ndarray:
        return np.zeros(count, dtype=np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_nobody_moves_rows_by_more_than_the_radius(seed, monkeypatch):
    """Every pair of columns, in Python's own whole numbers; and the ball around the middle."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-(2**17), 2**17, (3, 9))
    columns = [[int(v) for v in column] for column in rows.T]
    squares = [sum(v * v for v in c) for c in columns]
    apart = [
        sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
        for a, b in combinations(columns, 2)
    ]
    assert reach_square(rows, replaced=False) == max(squares)
    assert reach_square(rows, replaced=True) == max(apart)
    # columns that occur twice, and sums that tell none apart
    doubled = np.hstack([rows, rows])
    assert reach_square(doubled, replaced=True) == max(apart)
    monkeypatch.setattr(balls.np.random, "default_rng", _NoSums)
    assert reach_square(doubled, replaced=True) == max(apart)
    monkeypatch.undo()
    monkeypatch.setattr(balls, "_PAIRED", 1)
    assert reach_square(rows, replaced=True) >= max(apart)


@pytest.mark.parametrize("privacy", BOTH, ids=lambda p: p.text())
@pytest.mark.parametrize(
    "text", ["prefix:6", "marginals:2^3:2", "parity:3:<=2", "total:3+prefix:3"]
)
def test_parts_keep_the_budget_and_errors_are_as_said(text, privacy):
    """300 measurements; the mean square of all answers within eight of its deviations."""
    plan = nw.plan(text, privacy, nw.Central(mechanism="hardt-talwar"))
    assert plan.spend.promise().epsilon <= 1.0
    people = np.arange(plan.workload.size) * 7
    truth, source = plan.workload.matvec(people), SeededSource(2)
    answers = [
        plan.noisy(plan.exact(people), source=source).answers for _ in range(300)
    ]
    squares = ((np.array(answers) - truth) ** 2).mean(axis=1)
    expected = float((plan.accuracy.variance).mean())
    assert abs(squares.mean() - expected) < 8 * squares.std() / np.sqrt(300)
    drawn = plan.accuracy.draw(4000, np.random.default_rng(3))
    assert (drawn**2).mean() == pytest.approx(expected, rel=0.2)


def test_one_ball_has_the_error_of_the_paper():
    """√(k + 1)·diameter/ε for k independent queries."""
    rng = np.random.default_rng(4)
    queries = rng.choice([-1.0, 1.0], size=(6, 200))
    plan = nw.plan(queries, REPLACED, nw.Central(mechanism="hardt-talwar"))
    farthest = max(np.linalg.norm(a - b) for a, b in combinations(queries.T, 2))
    assert plan.forecast().rmse <= np.sqrt(7) * farthest * 1.01


def test_directions_in_which_people_differ_little_get_less_noise(monkeypatch):
    """Queries that hardly tell people apart beside some that do: two balls are better than one."""
    monkeypatch.setattr(hardt_talwar, "_MOST_WEIGHED", 0)  # no ellipsoids
    rng = np.random.default_rng(5)
    queries = rng.integers(-1, 2, (16, 60)).astype(float)
    queries[:8] *= 100
    plan = nw.plan(queries, REPLACED, nw.Central(mechanism="hardt-talwar"))
    assert len(plan.mechanism.parts) > 1
    one = turned_parts(queries.astype(np.int64), True)[0][0]
    single = BallMechanism((60,), (one.rows,), (1.0,), REPLACED)
    small = terms(workload(queries[8:]), (60,))
    assert (
        single.accuracy(small).std.max()
        > 1.5 * plan.mechanism.accuracy(small).std.max()
    )


@pytest.mark.parametrize("privacy", BOTH, ids=lambda p: p.text())
@pytest.mark.parametrize("text", ["prefix:8", "ranges:6", "total:5+identity:5"])
def test_ellipsoids_are_at_most_as_large_as_balls(text, privacy, monkeypatch):
    """And their error is that of the best L2 factorization with ball noise, within 3 %."""
    plan = nw.plan(text, privacy, nw.Central(mechanism="hardt-talwar"))
    asked = plan.workload
    best = nw.factorize(asked, neighbours=privacy.neighbours).value
    dimension = np.linalg.matrix_rank(asked.dense()) - (
        privacy.neighbours == "replace-one"
    )
    one = turned_parts(
        asked.dense().astype(np.int64), privacy.neighbours == "replace-one"
    )[0][0]
    single = BallMechanism(plan.sizes, (one.rows,), (1.0,), privacy)
    error = np.sqrt(np.mean(single.accuracy(terms(asked, plan.sizes)).variance))
    assert error >= best * np.sqrt(dimension + 1) * (1 - 1e-6)
    if privacy.neighbours == "add-remove":
        assert error <= best * np.sqrt(dimension + 1) * 1.03
    monkeypatch.setattr(hardt_talwar, "_MOST_WEIGHED", 0)
    balls_alone = nw.plan(text, privacy, nw.Central(mechanism="hardt-talwar"))
    assert plan.forecast().rmse <= balls_alone.forecast().rmse * (1 + 1e-9)


def test_few_queries_of_many_values_are_planned_by_balls():
    queries = np.random.default_rng(6).integers(0, 50, (10, 300)).astype(float)
    assert nw.plan(queries, REPLACED).mechanism.name == "hardt-talwar"


@pytest.mark.parametrize("privacy", BOTH, ids=lambda p: p.text())
def test_files_hold_rows_and_radii_are_computed_anew(privacy, tmp_path):
    plan = nw.plan("prefix:5", privacy, nw.Central(mechanism="hardt-talwar"))
    release = plan.release(np.arange(5))
    release.save(tmp_path / "r.nwr")
    again = nw.load(tmp_path / "r.nwr")
    np.testing.assert_array_equal(again.answers, release.answers)
    assert again.plan.mechanism.reaches == plan.mechanism.reaches


def test_forged_mechanisms_are_refused():
    method = nw.plan(
        "prefix:5", REPLACED, nw.Central(mechanism="hardt-talwar")
    ).mechanism
    forged = [
        {"shares": (-1.0,) * len(method.parts)},
        {"shares": ()},
        {"parts": (np.zeros((1, 5), dtype=np.int64),), "shares": (1.0,)},
        {"parts": (np.full((1, 5), 2**30),), "shares": (1.0,)},
        {"parts": (np.ones((1, 4), dtype=np.int64),), "shares": (1.0,)},
        {"privacy": Privacy(1.0, 1e-6)},
    ]
    for change in forged:
        with pytest.raises(InvalidParameter):
            replace(method, **change)
    narrow = BallMechanism((5,), (np.array([[1, 0, 0, 0, 0]]),), (1.0,), REPLACED)
    with pytest.raises(OutOfReach):
        narrow.check_reach(terms(workload("prefix:5"), (5,)))
