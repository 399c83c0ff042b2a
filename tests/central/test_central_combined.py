"""Two releases of one table combined: least squares over both, with exact errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

import noisewright as nw
from noisewright.central.mechanism import Measurement
from noisewright.errors import InvalidParameter
from oracles.blocks import whole_matrix
from oracles.privacy_oracles import SeededSource

DOMAIN = nw.Domain(
    [nw.Numeric("age", (0, 20, 40, 60)), nw.Categorical("sex", ("F", "M"))]
)
X = np.array([[50, 40], [30, 60], [20, 10]])
PURE, RHO = nw.Privacy(epsilon=1), nw.Privacy(rho=0.05)


def released(query: dict, privacy: nw.Privacy) -> nw.Release:
    mechanism = "laplace-strategy" if privacy.kind == "pure" else "gaussian-strategy"
    asked = nw.Workload.from_spec({"queries": [query]}, DOMAIN)
    return nw.plan(asked, privacy, nw.Central(mechanism=mechanism)).release(X)


def information(release: nw.Release) -> np.ndarray:
    method = release.plan.mechanism
    blocks = method.strategy.blocks
    units = [
        b.noise / law.standard_deviation
        for b, law in zip(blocks, method.laws, strict=True)
    ]
    matrix = (
        whole_matrix(method.strategy)
        * np.repeat(units, [b.rows for b in blocks])[:, None]
    )
    return matrix.T @ matrix


@pytest.mark.parametrize("privacy", [PURE, RHO], ids=lambda p: p.text())
def test_errors_are_those_of_least_squares_over_both(privacy: nw.Privacy) -> None:
    """The oracle adds the information of both measurements over all cells and inverts it."""
    first = released({"marginal": ["age", "sex"]}, privacy)
    second = released({"cdf": "age", "by": ["sex"]}, RHO)
    both = nw.combine(first, second)
    covariance = np.linalg.inv(information(first) + information(second))
    rows = both.plan.plain_workload.dense()
    expected = np.einsum("ij,jk,ik->i", rows, covariance, rows)
    np.testing.assert_allclose(both.std**2, expected, rtol=1e-6)
    whole = both.plan.accuracy.covariance(np.arange(len(expected)))
    np.testing.assert_allclose(whole, rows @ covariance @ rows.T, rtol=1e-6, atol=1e-9)
    assert (both.std[:6] < first.std).all()


def test_what_one_of_them_measured_improves_by_the_other() -> None:
    """A table of two attributes and a total measured elsewhere: the total helps where it can."""
    first = released({"marginal": ["age", "sex"]}, nw.Privacy(rho=0.01))
    second = released({"marginal": ["sex"]}, nw.Privacy(rho=1))
    both = nw.combine(first, second, {"marginal": ["sex"]})
    assert (both.std < first.answer({"marginal": ["sex"]}).std / 2).all()
    assert (both.std < second.std).all()


def test_combined_answers_are_unbiased_with_the_forecast_variance() -> None:
    """Bands for every answer at a false-alarm rate of 1e-6 altogether (Bonferroni)."""
    first = released({"marginal": ["age", "sex"]}, PURE)
    second = released({"cdf": "age", "by": ["sex"]}, PURE)
    plan = nw.combine(first, second).plan
    source, runs = SeededSource(8), 1500
    counts = plan.exact(X)
    drawn = [
        plan.linear_answers(plan.mechanism.measure(counts, source)) for _ in range(runs)
    ]
    errors = np.array(drawn) - plan.plain_workload.matvec(X.ravel())
    alarm = 1e-6 / (2 * plan.queries)
    z = np.sqrt(runs) * errors.mean(axis=0) / plan.accuracy.std
    assert np.abs(z).max() < norm.isf(alarm / 2)
    # Sums of Laplace noise have fourth moments up to twice a Gaussian's: bands are for five times.
    ratio = errors.var(axis=0, ddof=1) / plan.accuracy.variance
    band = chi2.ppf([alarm / 2, 1 - alarm / 2], (runs - 1) / 2.5) / ((runs - 1) / 2.5)
    assert band[0] < ratio.min()
    assert ratio.max() < band[1]


def test_a_combined_release_lives_on(tmp_path: Path) -> None:
    first = released({"marginal": ["age", "sex"]}, PURE)
    second = released({"cdf": "age"}, nw.Privacy(epsilon=0.5))
    both = nw.combine(first, second)
    both.save(tmp_path / "b.nwr")
    loaded = nw.load(tmp_path / "b.nwr")
    np.testing.assert_allclose(loaded.answers, both.answers)
    np.testing.assert_allclose(loaded.std, both.std)
    assert loaded.plan.privacy.epsilon == pytest.approx(1.5, rel=1e-9)
    assert loaded.answer({"total": True}).std[0] < first.answer({"total": True}).std[0]
    assert {first.identity, second.identity} == set(str(both.identity).split("+"))


def test_the_same_noise_or_another_schema_is_not_combined() -> None:
    first = released({"marginal": ["age", "sex"]}, PURE)
    with pytest.raises(InvalidParameter, match="share a measurement"):
        nw.combine(first, first.answer({"marginal": ["sex"]}))
    third = nw.combine(first, released({"cdf": "age"}, PURE))
    with pytest.raises(InvalidParameter, match="share a measurement"):
        nw.combine(third, first)
    with pytest.raises(InvalidParameter, match="different schemas"):
        nw.combine(first, nw.plan("prefix:6", PURE).release(X.ravel()))
    replaced = released(
        {"marginal": ["sex"]}, nw.Privacy(epsilon=1, neighbours="replace-one")
    )
    with pytest.raises(InvalidParameter, match="differ"):
        nw.combine(first, replaced)


def test_a_measurement_of_another_form_is_refused() -> None:
    both = nw.combine(
        released({"cdf": "age"}, PURE), released({"marginal": ["sex"]}, PURE)
    )
    parts = both.measurement.parts
    assert both.plan.mechanism.fits(both.measurement)
    assert not both.plan.mechanism.fits(Measurement(parts=parts[:1]))
    assert not both.plan.mechanism.fits(Measurement(parts=parts[::-1]))
