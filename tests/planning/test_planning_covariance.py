"""Second moments: what is measured is exact and bounded, errors are as forecast, files survive."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import noisewright as nw
from noisewright.central.geometry.second_moments import GRID, SecondMoments
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.estimate.moments import (
    above_noise,
    nearest_correlation,
    possible_moments,
)
from noisewright.estimate.nearest import Possible
from noisewright.privacy.promise.budget import Privacy
from oracles.privacy_oracles import SeededSource

PURE = Privacy(1.0, neighbours="replace-one")
BUDGETS = [
    PURE,
    Privacy(1.0),
    Privacy(1.0, 1e-6),
    Privacy(rho=0.5, neighbours="replace-one"),
]


def rows_of(seed: int, people: int = 300, columns: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((people, columns)) * 0.4


@pytest.mark.parametrize("scale", [1e-12, 0.3, 1.0, 1e3, 1e200])
def test_no_row_is_longer_than_the_radius_and_short_ones_stay(scale):
    method = SecondMoments(5, 2.0, 0.5, PURE)
    rows = rows_of(1, 2000, 5) * scale
    rows[0] = 0.0
    rows[1, 2] = np.nan
    rows[2] = [np.inf, 0.0, 0.0, -np.inf, 0.0]
    grid = method.on_grid(rows)
    assert ((grid[:, :5] ** 2).sum(axis=1) <= GRID**2).all()
    assert (grid[:, 5] == method.constant).all()
    assert (grid == np.rint(grid)).all()
    length = np.linalg.norm(np.nan_to_num(rows).clip(-1e100, 1e100), axis=1)
    short = length <= 2.0
    np.testing.assert_allclose(
        grid[short, :5] * 2.0 / GRID, np.nan_to_num(rows)[short], atol=1e-5
    )


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_one_person_moves_the_matrix_by_no_more_than_the_noise_is_for(privacy):
    """In nuclear norm for Wishart differences, in the root of summed squares for Gaussian noise."""
    method = SecondMoments(4, 1.0, 0.4, privacy)
    rows = rows_of(2, 50) * 5
    before, _ = method.exact([rows])
    for seed in range(40):
        changed = rows.copy()
        if method.protected:
            changed = np.vstack([rows, rows_of(seed + 9, 1) * 5])
        else:
            changed[seed] = rows_of(seed + 9, 1)[0] * 5
        change = (method.exact([changed])[0] - before).astype(float)
        sizes = np.abs(np.linalg.eigvalsh(change))
        limit = method.length * (1 if method.protected else 2)
        assert sizes.sum() <= limit * (1 + 1e-9)
        if method.pure:
            assert float(method.scale) * privacy.epsilon >= limit / 2 * (1 - 1e-12)
        else:
            assert np.sqrt((sizes**2).sum()) <= method.moved


def test_sums_are_exact_whatever_the_batches():
    method = SecondMoments(3, 1.0, 0.3, PURE)
    rows = rows_of(3, 70_000, 3)
    whole, people = method.exact([rows])
    parts, again = method.exact([rows[:1000], rows[1000:1001], rows[1001:]])
    np.testing.assert_array_equal(whole, parts)
    assert people == again == 70_000
    grid = method.on_grid(rows[:500]).astype(object)
    np.testing.assert_array_equal(
        method.exact([rows[:500]])[0], (grid.T @ grid).astype(np.int64)
    )


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_errors_are_as_forecast(privacy):
    """Mean square over 300 releases, within eight standard deviations of itself."""
    plan = nw.plan(nw.Moments(4, missing="zero"), privacy)
    rows, source, runs = rows_of(4, 2000), SeededSource(1), 300
    exact, people = plan.mechanism.exact([rows])
    on, off = plan.mechanism.variances
    drawn = np.array([plan.mechanism.measure(exact, source) for _ in range(runs)])
    errors = drawn - exact / GRID**2
    expected = np.where(np.eye(5, dtype=bool), on, off)
    assert (
        np.abs((errors**2).mean(axis=0) / expected - 1) < 8 * np.sqrt(12 / runs)
    ).all()
    errors_of = plan.errors(people)
    second = np.sqrt((errors[:, :4, :4] ** 2).sum(axis=(1, 2)).mean()) / people
    assert second == pytest.approx(errors_of["second_moment"], rel=0.25)


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_a_release_tells_moments_means_and_regressions(privacy, tmp_path):
    rng = np.random.default_rng(5)
    x = rng.uniform(-0.5, 0.5, 200_000)
    frame = pd.DataFrame(
        {"x": x, "y": 0.3 + 0.5 * x + rng.normal(0, 0.05, len(x)), "other": "b"}
    )
    plan = nw.plan(nw.Moments(["x", "y"], missing="zero"), privacy)
    release = plan.release(frame)
    truth = frame[["x", "y"]].to_numpy()
    np.testing.assert_allclose(
        release.second_moment, truth.T @ truth / len(x), atol=2e-3
    )
    np.testing.assert_allclose(release.mean, truth.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(release.covariance, np.cov(truth.T), atol=3e-3)
    fitted = release.regression("y")
    assert fitted.names == ("x", "constant")
    np.testing.assert_allclose(fitted.coefficients, [0.5, 0.3], atol=0.03)
    assert (fitted.lower < fitted.coefficients).all()
    release.save(tmp_path / "moments.nwr")
    again = nw.load(tmp_path / "moments.nwr")
    np.testing.assert_array_equal(again.covariance, release.covariance)
    plan.save(tmp_path / "plan.nw")
    assert nw.load(tmp_path / "plan.nw").release(frame).people == pytest.approx(
        200_000, rel=1e-3
    )


def test_intervals_of_coefficients_cover_the_noise():
    """400 releases of the same people: at least 0.95 less five standard deviations."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-0.6, 0.6, 20_000)
    rows = np.column_stack([x, 0.4 * x + 0.1 + rng.normal(0, 0.05, len(x))])
    plan = nw.plan(nw.Moments(["x", "y"], missing="zero"), PURE)
    exact, people = plan.mechanism.exact([rows])
    truth = np.linalg.lstsq(
        np.column_stack([x, np.ones_like(x)]), rows[:, 1], rcond=None
    )[0]
    source, runs = SeededSource(7), 400
    fits = [
        plan.noisy((exact, people), source=source).regression("y") for _ in range(runs)
    ]
    inside = np.array([(f.lower <= truth) & (truth <= f.upper) for f in fits])
    assert (inside.mean(axis=0) >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / runs)).all()


def test_projections_are_nearest():
    rng = np.random.default_rng(8)
    values = rng.normal(0, 1, 30)
    nearest = Possible(1.0, at_most=True).nearest(values)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(1.0)
    for _ in range(50):  # no other point of the set is nearer
        other = rng.dirichlet(np.ones(30)) * rng.random()
        assert ((values - nearest) ** 2).sum() <= ((values - other) ** 2).sum()
    np.testing.assert_array_equal(
        Possible(1.0, at_most=True).nearest(np.array([0.2, -1.0])), [0.2, 0.0]
    )
    matrix = rng.normal(0, 1, (6, 6))
    matrix = matrix + matrix.T
    possible = possible_moments(matrix, 2.0)
    assert np.linalg.eigvalsh(possible).min() > -1e-12
    assert np.trace(possible) <= 2.0 + 1e-9
    kept = above_noise(np.diag([5.0, 0.1, -0.1]), np.array([-1.0, 1.0]), 4.8)
    # 1/(λ - ν) averages to g = λ/(λ² - 1): -g/g' is λ(λ² - 1)/(λ² + 1).
    np.testing.assert_allclose(
        kept, np.diag([5 * 24 / 26, 0.1 - 0.0077, 0.1 - 0.0077]), atol=1e-3
    )


@pytest.mark.parametrize("size", [2, 5, 12])
def test_correlations_are_the_nearest_of_the_elliptope(size):
    """Against a convex solver, and none of many other correlation matrices is nearer."""
    import cvxpy

    rng = np.random.default_rng(size)
    noisy = rng.normal(0, 1, (size, size))
    noisy = (noisy + noisy.T) / 2
    nearest = nearest_correlation(noisy)
    np.testing.assert_array_equal(np.diag(nearest), np.ones(size))
    assert np.linalg.eigvalsh(nearest).min() > -1e-9
    other = cvxpy.Variable((size, size), PSD=True)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(other - noisy)), [cvxpy.diag(other) == 1]
    )
    problem.solve(solver=cvxpy.SCS, eps=1e-8)
    assert ((nearest - noisy) ** 2).sum() <= problem.value * (1 + 1e-4) + 1e-6


def test_correlations_of_a_release_are_near_those_of_many_people():
    rng = np.random.default_rng(3)
    common = rng.normal(0, 0.1, (200_000, 1))
    rows = common + rng.normal(0, 0.1, (200_000, 4))
    plan = nw.plan(nw.Moments(4, missing="zero"), PURE)
    exact, people = plan.mechanism.exact([rows])
    told = plan.noisy((exact, people), source=SeededSource(5)).correlation
    np.testing.assert_allclose(told, np.corrcoef(rows.T), atol=0.05)
    few = plan.release(np.zeros((0, 4))).correlation
    assert np.linalg.eigvalsh(few).min() > -1e-9


def test_projection_helps_where_people_are_few():
    rng, size = np.random.default_rng(9), 40
    direction = rng.standard_normal(size) / np.sqrt(size)
    rows = rng.standard_normal((400, 1)) * direction * 0.5
    plan = nw.plan(nw.Moments(size, means=False, missing="zero"), PURE)
    exact, people = plan.mechanism.exact([rows])
    release = plan.noisy((exact, people), source=SeededSource(2))
    truth = rows.T @ rows / len(rows)
    raw = np.linalg.norm(release.second_moment - truth)
    assert np.linalg.norm(release.projected - truth) < raw / 2
    assert np.linalg.norm(release.denoised - truth) < raw / 2


@pytest.mark.parametrize(
    ("columns", "choices"),
    [
        (0, {}),
        (3, {"radius": 0.0}),
        (["a", "a"], {}),
        (3, {"radius": float("nan")}),
        (3, {"radius": 1e300}),
        (3, {"radius": 1e-300}),
    ],
)
def test_bad_plans_are_refused(columns, choices):
    with pytest.raises(InvalidParameter):
        nw.plan(nw.Moments(columns, **choices), PURE)


def test_second_moments_alone_need_a_public_number_of_people():
    with pytest.raises(InvalidParameter, match="protected"):
        nw.plan(nw.Moments(3, means=False), Privacy(1.0))
    release = nw.plan(nw.Moments(1, means=False, missing="zero"), PURE).release(
        np.zeros((0, 1))
    )
    assert np.isfinite(release.second_moment).all()
    with pytest.raises(InvalidParameter, match="no means"):
        _ = release.mean


def test_a_forged_matrix_is_refused(tmp_path):
    plan = nw.plan(nw.Moments(2, missing="zero"), PURE)
    release = plan.release(rows_of(1, 10, 2))
    release.measured[0, 1] += 1.0  # no longer symmetric
    release.save(tmp_path / "forged.nwr")
    with pytest.raises(FileFormatError):
        nw.load(tmp_path / "forged.nwr")


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_a_ledger_takes_the_budget_once_and_gives_the_release_back(privacy, tmp_path):
    # A ledger of ε at δ adds up Gaussian noise: it takes the whole budget, pure noise more.
    many = nw.Central(composition="many") if privacy.kind == "approximate" else None
    plan = nw.plan(nw.Moments(2, missing="zero"), privacy, many)
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("people", privacy)
    rows = rows_of(1, 10, 2)
    release = plan.release(rows, ledger=ledger, dataset="people")
    with pytest.raises(nw.NoisewrightError):
        plan.release(rows, ledger=ledger, dataset="people")
    again = plan.release(rows, ledger=ledger, dataset="people", again="stored")
    np.testing.assert_array_equal(again.measured, release.measured)
    assert len(ledger.account("people").releases) == 1


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_sums_over_the_most_people_fit_a_word(privacy):
    for columns in (1, 2, 50):
        method = nw.plan(nw.Moments(columns, missing="zero"), privacy).mechanism
        entry = max(GRID, method.constant)
        assert entry**2 * 2**26 < 2**63
        assert entry**2 * 2**15 <= 2**53  # exact in floats, batch by batch
    with pytest.raises(InvalidParameter, match="share"):
        SecondMoments(2, 1.0, 100.0, privacy)


def lacking(share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which some lack a value, and those that lack none."""
    rows = rows_of(9, people=4_000, columns=3) * 0.2 + 0.5
    rows[np.random.default_rng(9).random(4_000) < share, 1] = np.nan
    return rows, rows[~np.isnan(rows).any(axis=1)]


@pytest.mark.parametrize("privacy", [Privacy(1e4), Privacy(rho=1e6)])
def test_figures_are_of_rows_that_lack_no_value(privacy, tmp_path) -> None:
    rows, whole = lacking()
    plan = nw.plan(nw.Moments(["a", "b", "c"], radius=2.0), privacy)
    pd.DataFrame(rows, columns=["a", "b", "c"]).to_csv(tmp_path / "t.csv", index=False)
    plan.save(tmp_path / "p.nw")
    for release in (
        plan.release(rows),
        plan.release(tmp_path / "t.csv"),
        nw.load(tmp_path / "p.nw").release(rows),
    ):
        assert release.people == pytest.approx(len(whole), rel=0.01)
        np.testing.assert_allclose(release.mean, whole.mean(axis=0), atol=5e-3)
        moved = release.covariance - np.cov(whole.T, bias=True)
        np.testing.assert_allclose(moved, 0, atol=5e-3)


def test_zero_for_missing_values_is_asked_for_in_words(tmp_path) -> None:
    rows, _ = lacking()
    public = Privacy(1e4, neighbours="replace-one")
    with pytest.raises(InvalidParameter, match="missing='zero'"):
        nw.plan(nw.Moments(3, radius=2.0), public)
    for privacy in (Privacy(1e4), public):
        plan = nw.plan(nw.Moments(3, radius=2.0, missing="zero"), privacy)
        plan.save(tmp_path / f"{privacy.neighbours}.nw")
        for each in (plan, nw.load(tmp_path / f"{privacy.neighbours}.nw")):
            means = each.release(rows).mean
            filled = np.nan_to_num(rows).mean(axis=0)
            np.testing.assert_allclose(means, filled, atol=5e-3)
    with pytest.raises(InvalidParameter, match="missing"):
        nw.plan(nw.Moments(3, missing="none"), public)  # type: ignore[arg-type]


def test_who_lacks_a_value_is_as_nobody() -> None:
    """What a row that is left out moves is nothing: the neighbour without it has the same sums."""
    plan = nw.plan(nw.Moments(2), Privacy(1.0))
    own = np.array([[0.3, 0.4], [0.1, np.nan], [np.nan, np.nan]])
    for rows in (own, own[:1]):
        exact, people = plan.exact(rows)
        assert people == 1
        np.testing.assert_array_equal(exact, plan.mechanism.exact([own[:1]])[0])
