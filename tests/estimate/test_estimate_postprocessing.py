"""Non-negativity, declared values and quantiles: optimality and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import binom, norm

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate import newton_fit, nonnegative
from noisewright.estimate.accuracy import Accuracy, Conditioned
from noisewright.estimate.intervals import normal_multiplier
from noisewright.estimate.nearest import project_to_total
from noisewright.estimate.nonnegative import (
    Facts,
    check_agreement,
    fixes_total,
    nonnegative_histogram,
)
from noisewright.workload import workload
from noisewright.workload.questions.quantiles import monotone_counts, quantiles

ARRAYS = st.lists(st.floats(-50, 50), min_size=1, max_size=12).map(np.array)


@pytest.mark.parametrize(
    "text", ["prefix:9", "identity:4+prefix:4", "marginals:2^3:<=2"]
)
def test_fit_agrees_with_active_sets(text: str) -> None:
    rng = np.random.default_rng(4)
    asked = workload(text)
    answers = asked.dense() @ rng.integers(0, 4, asked.size) + rng.normal(
        0, 3, asked.queries
    )
    std = rng.uniform(1, 3, asked.queries)
    fit = nonnegative_histogram(asked, answers, std, tolerance=1e-10, steps=20000)
    _, best = nnls(asked.dense() / std[:, None], answers / std)
    found = np.linalg.norm((asked.dense() @ fit.histogram - answers) / std)
    assert fit.histogram.min() >= 0
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    "text", ["prefix:9", "marginals:3^4:<=2+prefix:81", "ranges:12"]
)
def test_both_ways_to_fit_agree(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    asked = workload(text)
    answers = asked.dense() @ rng.poisson(1, asked.size) + rng.normal(
        0, 4, asked.queries
    )
    std = rng.uniform(1, 3, asked.queries)

    def cost() -> float:
        fit = nonnegative_histogram(asked, answers, std, total=60.0, steps=20000)
        return float(np.sum(((asked.dense() @ fit.histogram - answers) / std) ** 2))

    newton = cost()
    monkeypatch.setattr(nonnegative, "_by_newton", lambda *_: None)
    assert newton == pytest.approx(cost(), rel=1e-5)


def test_fit_keeps_a_declared_total() -> None:
    asked = workload("prefix:6")
    fit = nonnegative_histogram(
        asked, np.array([-3.0, 2, 1, 8, 7, 12]), np.ones(6), total=10.0
    )
    assert fit.histogram.sum() == pytest.approx(10)
    assert fit.histogram.min() >= 0
    with pytest.raises(InvalidParameter, match="total"):
        nonnegative_histogram(asked, np.zeros(6), np.ones(6), total=-1.0)
    with pytest.raises(TooLarge):
        nonnegative_histogram(workload("identity:3000000"), np.zeros(1), np.ones(1))


def test_fit_keeps_declared_sums_and_empty_cells() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(8)
    asked = workload("prefix:6*identity:4+identity:6*prefix:4")
    truth = rng.integers(0, 5, 24).astype(float)
    possible = np.ones(24, dtype=bool)
    possible[[3, 10]] = False
    truth[~possible] = 0
    rows = np.zeros((2, 24))
    rows[0], rows[1, :8] = 1, 1
    values = rows @ truth
    std = rng.uniform(1, 3, asked.queries)
    answers = asked.dense() @ truth + std * rng.normal(size=asked.queries)
    facts = Facts(possible, rows, values)
    fit = nonnegative_histogram(asked, answers, std, facts=facts).histogram
    assert fit.min() >= 0
    assert not fit[~possible].any()
    np.testing.assert_allclose(rows @ fit, values, rtol=1e-7)
    x = cvxpy.Variable(24)
    cost = cvxpy.sum_squares((asked.dense() @ x - answers) / std)
    known = [x >= 0, x[~possible] == 0, rows @ x == values]
    best = cvxpy.Problem(cvxpy.Minimize(cost), known).solve(solver="CLARABEL")
    found = np.sum(((asked.dense() @ fit - answers) / std) ** 2)
    assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(40))
def test_cells_declared_beside_the_total_are_kept_and_the_others_share_what_is_left(
    seed: int,
) -> None:
    """The best fit of the other cells is their nearest point of that sum."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 20))
    truth = rng.multinomial(300, rng.dirichlet(np.full(cells, 0.3))).astype(float)
    known = rng.permutation(cells)[: int(rng.integers(1, cells + 1))]
    others = np.setdiff1d(np.arange(cells), known)

    rows = np.vstack([np.ones(cells), np.eye(cells)[known]])
    std = np.full(cells, 10.0 ** rng.uniform(-1, 2))
    std[known] = 0.0
    answers = truth + std * rng.normal(size=cells)

    facts = Facts(None, rows, rows @ truth)
    fit = nonnegative_histogram(
        workload(f"identity:{cells}"), answers, std, facts=facts
    ).histogram
    np.testing.assert_allclose(fit[known], truth[known], atol=1e-4)
    best = project_to_total(answers[others], truth[others].sum())
    np.testing.assert_allclose(fit[others], best, atol=1e-2 * max(1.0, std.max()))


def test_declared_values_that_no_people_have_are_refused() -> None:
    rows = np.array([[1.0, 1, 1], [1, 1, 0]])
    check_agreement(rows, np.array([5.0, 5.0]))
    with pytest.raises(InvalidParameter, match="contradict"):
        check_agreement(rows, np.array([5.0, 6.0]))
    with pytest.raises(InvalidParameter, match="contradict"):
        check_agreement(rows, np.array([5.0, 3.0]), np.array([True, True, False]))


@given(ARRAYS, st.floats(0.01, 100))
def test_projection_is_feasible_and_nearest(values: np.ndarray, total: float) -> None:
    found = project_to_total(values, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, rel=1e-9, abs=1e-9)
    # Nearest: the residual is constant on the support and no larger elsewhere.
    residual = values - found
    level = residual[found > 0].max()
    np.testing.assert_allclose(residual[found > 0], level, atol=1e-8)
    assert (residual[found == 0] <= level + 1e-8).all()


class Known(Accuracy):
    """Gaussian errors of a given covariance."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    @property
    def variance(self) -> np.ndarray:
        return np.diag(self.matrix)

    def covariance(self, chosen: np.ndarray) -> np.ndarray:
        return self.matrix[:, chosen]

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return rng.multivariate_normal(
            np.zeros(len(self.matrix)), self.matrix, size=count
        )

    def multiplier(self, level: float) -> float:
        return normal_multiplier(level)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_conditioning_is_the_gaussian_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.integers(0, 2, size=(6, 4)).astype(float)
    factor = rng.normal(size=(6, 7))
    covariance = factor @ factor.T
    answers = rng.normal(size=6) * 5
    x = rng.integers(0, 9, size=4)
    numbers = [1, 4]
    declared = w[numbers] @ x
    fitted = Conditioned(Known(covariance), np.array(numbers), 6)
    better = fitted.correct(answers, declared)
    np.testing.assert_allclose(better[numbers], declared, atol=1e-9)
    assert (fitted.std[numbers] == 0).all()
    assert (fitted.std <= np.sqrt(np.diag(covariance)) + 1e-9).all()
    own = np.linalg.inv(covariance[np.ix_(numbers, numbers)])
    expected = answers + covariance[:, numbers] @ own @ (declared - answers[numbers])
    np.testing.assert_allclose(better, expected, atol=1e-6)


def test_contradicting_conditions_are_refused() -> None:
    rows = np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, 1]])
    check_agreement(rows, np.array([10.0, 4, 6]))
    with pytest.raises(InvalidParameter, match="contradict"):
        check_agreement(rows, np.array([10.0, 4, 7]))
    assert fixes_total(rows[:1])
    assert fixes_total(rows[1:])
    assert not fixes_total(rows[1:2])


def test_monotone_counts_never_fall() -> None:
    found = monotone_counts(np.array([-3.0, 5, 4, 9, 8]), np.ones(5))
    assert found.min() >= 0
    assert (np.diff(found) >= 0).all()


def differences(levels: list[float], bins: int, std: float) -> np.ndarray:
    """Standard errors of people up to each bin less a share of all, from independent counts."""
    shares = np.array(levels)[:, None]
    apart = np.sqrt(1 + shares**2).repeat(bins, 1)
    apart[:, -1] = 1 - shares[:, 0]
    return std * apart


def test_quantile_intervals_cover_and_are_sharp() -> None:
    """4,000 releases of a noisy CDF with fine bins; alarm rate 1e-6 on either side; fixed seed.

    Near a quantile bins hold hardly anybody, so that each of its two sides fails half as often as
    it may; what is above 95 % is left by bins that more than one test would have to rule out.
    """
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 60, 20)
    truth, edges = np.cumsum(counts), np.arange(21.0)
    people = np.repeat(np.arange(20) + 0.5, counts)
    levels = [0.1, 0.25, 0.5, 0.9]
    exact = [np.sort(people)[int(np.ceil(q * len(people))) - 1] for q in levels]
    std, apart = np.full(20, 12.0), differences(levels, 20, 12.0)
    trials, held, held_all = 4000, np.zeros(4), 0
    for _ in range(trials):
        noisy = truth + rng.normal(0, 12, 20)
        for z, at_once in ((norm.isf(0.025), False), (norm.isf(0.025 / 4), True)):
            found = quantiles(noisy, std, z * apart, edges, levels)
            inside = [
                f.lower <= e <= f.upper for f, e in zip(found, exact, strict=True)
            ]
            held, held_all = (
                (held, held_all + all(inside)) if at_once else (held + inside, held_all)
            )
    assert held.min() >= binom.ppf(1e-6, trials, 0.95)
    assert held_all >= binom.ppf(1e-6, trials, 0.95)


def test_quantile_intervals_miss_as_often_as_they_may() -> None:
    """Where nobody is near the quantile and noise is common to all bins, 95 % are 95 %.

    4,000 releases; alarm rate 1e-6 on either side; fixed seed. Half of the people are below the
    median's empty bins and half above, so that both tests stand at zero.
    """
    rng = np.random.default_rng(9)
    counts = np.array([500.0, 0, 0, 0, 500])
    apart, std = np.full((1, 5), 10.0), np.full(5, 10.0)
    apart[0, -1] = 0.0  # of all people, who are public
    trials, held = 4000, 0
    for _ in range(trials):
        noisy = np.cumsum(counts) + np.array([1, 1, 1, 1, 0]) * rng.normal(0, 10)
        (found,) = quantiles(noisy, std, norm.isf(0.025) * apart, range(6), [0.5])
        held += found.lower <= 1 and found.upper >= 4
    assert binom.ppf(1e-6, trials, 0.95) <= held <= binom.ppf(1 - 1e-6, trials, 0.95)


def test_quantiles_of_exact_counts_are_exact() -> None:
    nothing = np.zeros((2, 4))
    found = quantiles(
        np.array([1.0, 2, 3, 4]), np.zeros(4), nothing, range(5), [0.5, 0.25]
    )
    assert [f.estimate for f in found] == [2.0, 1.0]
    assert (found[0].lower, found[0].upper) == (1.0, 2.0)
    ones = np.ones((2, 4))
    with pytest.raises(InvalidParameter):
        quantiles(np.ones(4), np.ones(4), ones, range(4), [0.5])
    with pytest.raises(InvalidParameter):
        quantiles(np.ones(4), np.ones(4), ones, range(5), [1.5])


def test_hardly_more_queries_than_cells_stay_as_sparse_as_they_are() -> None:
    """A table and one of its margins: written through the Gram matrix, every entry is full."""
    asked = workload("identity:12*identity:6*identity:20+total:12*identity:6*total:20")
    answers = asked.matvec(np.random.default_rng(0).poisson(0.3, asked.size) - 0.2)
    inside = np.arange(asked.size)
    rows = newton_fit.gathered_rows(asked, answers, np.ones(asked.queries), inside)
    assert rows is not None
    assert rows.columns.nnz == 2 * asked.size
    reduced = newton_fit._reduced(asked, answers, np.ones(asked.queries), inside)
    start = np.full(asked.size, answers[:-6].mean().clip(0))
    sparse, full = (newton_fit.newton_fit(r, start, 1e-7)[0] for r in (rows, reduced))
    np.testing.assert_allclose(asked.matvec(sparse), asked.matvec(full), atol=1e-3)
