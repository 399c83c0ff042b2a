"""All pairs of binary attributes: what is measured keeps its budget, errors are as simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import noisewright as nw
from noisewright.central.geometry.pairs import PairMoments, Rows
from noisewright.central.geometry.second_moments import GRID, SecondMoments
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.estimate.moments import beyond_noise, common_factors, possible_pairs
from noisewright.planning.rows.pairs import made_up
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.kinds.conjunctions import Conjunctions
from oracles.privacy_oracles import SeededSource

PURE = Privacy(1.0, neighbours="replace-one")
BUDGETS = [
    PURE,
    Privacy(1.0),
    Privacy(1.0, 1e-6),
    Privacy(rho=0.5, neighbours="replace-one"),
]


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_both_measurements_together_keep_the_budget(privacy):
    spend = PairMoments(12, privacy).spend
    if privacy.kind == "pure":
        assert spend.promise().epsilon <= privacy.epsilon
        assert spend.promise().epsilon == pytest.approx(privacy.epsilon)
    elif privacy.rho is not None:
        assert spend.promise().rho <= privacy.rho
    else:
        assert spend.promise(privacy.delta).epsilon <= privacy.epsilon


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_one_person_moves_each_measurement_by_no_more_than_its_noise_is_for(privacy):
    method = PairMoments(6, privacy)
    second = method.second(1.7)
    rng = np.random.default_rng(1)
    rows = (rng.random((30, 6)) < 0.4).astype(float)
    centre = rng.random(6)
    before = second.exact([rows - centre])[0]
    limit = GRID**2 * (1 if method.protected else 2)
    for cell in range(64):
        person = (cell >> np.arange(6) & 1).astype(float)
        changed = np.vstack([rows, person]) if method.protected else rows.copy()
        if not method.protected:
            changed[0] = person
        moved = np.abs(changed.sum(axis=0) - rows.sum(axis=0))
        people = np.array([len(changed) - len(rows)])
        if not method.pure:
            assert np.sqrt((np.append(moved, people) ** 2).sum()) <= method._reach
        change = (second.exact([changed - centre])[0] - before).astype(float)
        assert np.abs(np.linalg.eigvalsh(change)).sum() <= limit * (1 + 1e-9)


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_rows_are_taken_relative_to_what_was_measured_and_not_to_the_truth(
    privacy, monkeypatch
):
    """Exact: first noise set far off, none in the second, so that moments tell their centre.

    The noise of the second measurement hides a person only where the centre is public.
    """
    method = PairMoments(3, privacy)
    rows = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0, 0]], dtype=float)
    noisy = 4.5 if method.protected else 4.0, np.array([3.6, 3.9, 3.2])
    monkeypatch.setattr(PairMoments, "_first", lambda *_: noisy)
    monkeypatch.setattr(
        SecondMoments, "measure", lambda _, exact, __=None: exact / GRID**2
    )
    measured = method.measure(Rows.of([rows], 3))
    np.testing.assert_array_equal(measured.totals, noisy[1])

    centre = noisy[1] / noisy[0]
    square = float((centre * (1 - centre)).sum())
    relative = rows - centre
    lengths = np.linalg.norm(relative, axis=1, keepdims=True)
    # Where all rows were clipped, nothing would tell to what length.
    assert lengths.min() < np.sqrt(square) < lengths.max()
    clipped = relative * np.minimum(1.0, np.sqrt(square) / lengths)
    np.testing.assert_allclose(
        measured.moments, clipped.T @ clipped / square, atol=1e-4
    )


def test_rows_are_read_as_yes_or_no_and_kept_packed():
    batch = np.array([[0.0, 1.0, np.nan], [0.5, 0.49, np.inf], [-3.0, 7.0, 1e300]])
    rows = Rows.of([batch, batch[:1]], 3)
    expected = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 1], [0, 1, 0]])
    np.testing.assert_array_equal(np.vstack(list(rows)), expected)
    np.testing.assert_array_equal(rows.totals(), expected.sum(axis=0))
    assert len(rows) == 4
    with pytest.raises(InvalidParameter, match="columns"):
        Rows.of([batch], 4)


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_totals_and_moments_are_unbiased_and_as_wrong_as_said(privacy):
    """Over 400 measurements; eight standard deviations of the mean and of the mean square."""
    method, runs = PairMoments(4, privacy), 400
    rng = np.random.default_rng(2)
    data = (rng.random((500, 4)) < [0.2, 0.5, 0.7, 0.9]).astype(float)
    rows, source = Rows.of([data], 4), SeededSource(3)
    drawn = np.array([method._first(rows, source)[1] for _ in range(runs)])
    errors = drawn - data.sum(axis=0)
    std = np.sqrt(method.total_variance)
    assert (np.abs(errors.mean(axis=0)) < 8 * std / np.sqrt(runs)).all()
    ratio = (errors**2).mean(axis=0) / method.total_variance
    assert (np.abs(ratio - 1) < 8 * np.sqrt(5 / runs)).all()


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
@pytest.mark.parametrize("held", [(1, 1, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)])
def test_shares_err_as_stated_and_pairs_by_no_more_than_forecast(privacy, held):
    """Two kinds of people, or one: 200 releases, five standard deviations of a mean square.

    Everybody has the first two attributes, or halves of the people have them, alike or not.
    """
    people, runs = 2_000, 200
    kinds = np.array([held, held if all(held) else (1, 0, 1, 0)], dtype=float)
    rows = np.repeat(kinds, people // 2, axis=0)
    plan = nw.plan(nw.Pairs(4), privacy)
    packed, source = Rows.of([rows], 4), SeededSource(12)
    drawn = [plan.noisy((packed, people), source=source) for _ in range(runs)]

    # Unclipped: what is stated is the error of totals over people, which may exceed all of them.
    shares = np.array([release.measured.totals / release.people for release in drawn])
    squares = ((shares - rows.mean(axis=0)) ** 2).mean(axis=0)
    stated = plan.mechanism.mean_errors(rows.mean(axis=0)) / people
    assert (np.abs(squares / stated**2 - 1) <= 5 * np.sqrt(5 / runs)).all()

    both = np.array([release.measured_proportions[0, 1] for release in drawn])
    truth = float((rows[:, 0] * rows[:, 1]).mean())
    error = np.sqrt(((both - truth) ** 2).mean())
    assert error <= plan.forecast().max / people * (1 + 5 * np.sqrt(5 / runs) / 2)


def test_pairs_of_many_people_are_near_the_truth():
    rng = np.random.default_rng(4)
    rows = (rng.normal(size=(50_000, 1)) + rng.normal(size=(50_000, 20)) > 0).astype(
        float
    )
    plan = nw.plan("conjunctions:20:2", PURE)
    release = plan.noisy((Rows.of([rows], 20), len(rows)), source=SeededSource(5))
    truth = rows.T @ rows / len(rows)
    assert np.abs(release.proportions - truth).max() < 0.02
    upper = np.triu_indices(20, 1)
    expected = plan.expected(50_000)["one factor"]["estimated"]
    error = np.sqrt(np.mean((release.proportions - truth)[upper] ** 2))
    assert expected / 3 < error < 3 * expected
    np.testing.assert_allclose(release.answers, release.proportions[upper] * 50_000)
    assert len(release.answers) == Conjunctions.of(20, 2).queries == len(release)
    assert release.labels[0] == "x0 and x1"


def test_common_factors_beat_what_was_measured_where_people_are_few():
    rng = np.random.default_rng(6)
    rows = made_up("one factor", 3000, 60, rng)
    release = nw.plan(nw.Pairs(60), PURE).noisy(
        (Rows.of([rows], 60), len(rows)), source=SeededSource(7)
    )
    truth, upper = rows.T @ rows / len(rows), np.triu_indices(60, 1)
    plain, better = (
        np.sqrt(np.mean((shares - truth)[upper] ** 2))
        for shares in (release.measured_proportions, release.proportions)
    )
    assert better < plain / 1.8


def test_eigenvalues_shrink_as_for_gaussian_noise():
    """Against √(λ² - edge²), which holds for a semicircle of noise, and against many draws."""
    rng, size = np.random.default_rng(8), 300
    noise = rng.normal(size=(size, size))
    noise = (noise + noise.T) / np.sqrt(2 * size)
    spectrum = np.linalg.eigvalsh(noise)
    direction = rng.normal(size=size)
    direction /= np.linalg.norm(direction)
    for strength in (2.0, 4.0):
        seen = strength * np.outer(direction, direction) + noise
        top = np.linalg.eigvalsh(seen)[-1]
        left = beyond_noise(seen, spectrum)
        assert np.linalg.eigvalsh(left)[-1] == pytest.approx(
            np.sqrt(top**2 - 4), rel=0.05
        )
    assert not beyond_noise(noise, 1.1 * spectrum).any()


def test_the_diagonal_says_nothing_of_common_factors():
    rng = np.random.default_rng(9)
    loading = rng.normal(size=(40, 1))
    factor = loading @ loading.T
    spectrum = np.linspace(-1.0, 1.0, 40)
    plain = common_factors(factor + np.diag(rng.uniform(0, 50, 40)), spectrum)
    np.testing.assert_allclose(plain, common_factors(factor, spectrum), atol=1e-9)


def test_pairs_lie_within_what_means_allow():
    means = np.array([0.1, 0.8, 0.9])
    shares = possible_pairs(np.full((3, 3), 5.0), means)
    np.testing.assert_allclose(shares[0], [0.1, 0.1, 0.1])
    np.testing.assert_allclose(possible_pairs(np.full((3, 3), -5.0), means)[1, 2], 0.7)


@pytest.mark.parametrize("privacy", BUDGETS[:2], ids=lambda p: p.text())
def test_plans_and_releases_survive_files(privacy, tmp_path):
    frame = pd.DataFrame(
        {"a": [0, 1, 1] * 200, "b": [True, False, True] * 200, "c": [None] * 600}
    )
    plan = nw.plan(nw.Pairs(["a", "b", "c"]), privacy)
    plan.save(tmp_path / "plan.nw")
    release = nw.load(tmp_path / "plan.nw").release(frame)
    release.save(tmp_path / "pairs.nwr")
    again = nw.load(tmp_path / "pairs.nwr")
    np.testing.assert_array_equal(again.proportions, release.proportions)
    assert again.people == release.people == pytest.approx(600, abs=100)
    assert list(release.to_pandas().columns) == ["a", "b", "c"]
    assert release.metadata["spend"] == plan.spend.to_dict()


def test_forged_releases_are_refused(tmp_path):
    from noisewright.planning.files import from_bytes

    release = nw.plan(nw.Pairs(3), PURE).release(np.ones((10, 3)))
    release.measured.moments[0, 1] += 1.0
    with pytest.raises(FileFormatError, match="measurement"):
        from_bytes(release.to_bytes())


@pytest.mark.parametrize("columns", [1, 0, 1000, ["a", "a"]])
def test_bad_columns_are_refused(columns):
    with pytest.raises(InvalidParameter):
        nw.plan(nw.Pairs(columns), PURE)


@pytest.mark.parametrize("epsilon", [1e-6, 20.0])
def test_extreme_budgets_and_no_people_give_possible_answers(epsilon):
    privacy = Privacy(epsilon, neighbours="replace-one")
    release = nw.plan(nw.Pairs(3), privacy).release(np.zeros((0, 3)))
    assert ((release.proportions >= 0) & (release.proportions <= 1)).all()
    assert release.people == 0


def test_a_ledger_is_told_of_both_measurements(tmp_path):
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("people", Privacy(2.0, neighbours="replace-one"))
    plan = nw.plan(nw.Pairs(3), PURE)
    first = plan.release(np.ones((50, 3)), ledger=ledger, dataset="people")
    again = plan.release(
        np.ones((50, 3)), ledger=ledger, dataset="people", again="stored"
    )
    np.testing.assert_array_equal(first.proportions, again.proportions)
