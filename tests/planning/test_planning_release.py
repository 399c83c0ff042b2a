"""Plans forecast what releases do, and files bring them back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

import noisewright as nw
from noisewright import plan
from noisewright.central.mechanism import Measurement
from noisewright.errors import FileFormatError, InvalidParameter, NoisewrightError
from noisewright.estimate.intervals import laplace_multiplier
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.files import load
from noisewright.privacy.promise.budget import Privacy
from oracles.privacy_oracles import SeededSource
from oracles.workloads import TEXTS, matrix

APPROXIMATE = Privacy(epsilon=1, delta=1e-9)
RELEASES = 2000


def repeated(
    p: CentralPlan, x: np.ndarray, seed: int, releases: int = RELEASES
) -> np.ndarray:
    """Answers of many releases at once: one exact measurement, fresh noise for each."""
    source = SeededSource(seed)
    exact = p.mechanism.exact(p.exact(x))
    laws = p.mechanism.strategy.laws(p.mechanism.law)
    noise = [
        law.sample((len(e), releases), source)
        for e, law in zip(exact, laws, strict=True)
    ]
    noisy = (e[:, None] + n for e, n in zip(exact, noise, strict=True))
    return p.linear_answers(Measurement(tuple(noisy))).T


@pytest.mark.parametrize("text", TEXTS)
def test_releases_are_unbiased_with_the_forecast_variance(text: str) -> None:
    """Two-sided bands for every query at a false-alarm rate of 1e-6 per workload (Bonferroni)."""
    p = plan(text, APPROXIMATE, nw.Central(composition="many"))
    x = np.random.default_rng(11).integers(0, 500, size=p.workload.size)
    errors = repeated(p, x, seed=12) - matrix(text) @ x
    alarm = 1e-6 / (2 * p.workload.queries)
    z = np.sqrt(RELEASES) * errors.mean(axis=0) / np.sqrt(p.accuracy.variance)
    assert np.abs(z).max() < norm.isf(alarm / 2)
    ratio = errors.var(axis=0, ddof=1) / p.accuracy.variance
    band = chi2.ppf([alarm / 2, 1 - alarm / 2], RELEASES - 1) / (RELEASES - 1)
    assert band[0] < ratio.min()
    assert ratio.max() < band[1]


@pytest.mark.parametrize("text", TEXTS)
def test_the_error_is_near_its_certified_bound(text: str) -> None:
    forecast = plan(text, APPROXIMATE, nw.Central(composition="many")).forecast()
    assert forecast.lower_bound is not None
    assert 1 <= forecast.ratio < 1.001
    assert abs(forecast.quantisation_loss) < 1e-3


def test_half_the_noise_would_be_noticed() -> None:
    """The variance test above has teeth: a planted bug that halves σ is caught."""
    p = plan("prefix:9", APPROXIMATE, nw.Central(composition="many"))
    x = np.arange(9)
    errors = repeated(p, x, seed=13, releases=300) - np.cumsum(x)
    assert (errors / 2).var(axis=0).max() < 0.5 * p.accuracy.variance.min()


def test_a_single_count_has_the_analytic_optimum() -> None:
    p = plan("total:5", APPROXIMATE, nw.Central(composition="many"))
    from noisewright.privacy.noise.gaussian import gaussian_sigma

    assert p.forecast().rmse == pytest.approx(gaussian_sigma(1, 1e-9, 1.0), rel=1e-3)


@pytest.mark.parametrize(
    "privacy",
    [APPROXIMATE, Privacy(rho=0.1), Privacy(rho=0.5, neighbours="replace-one")],
)
def test_noise_matches_the_claimed_sensitivity(privacy: Privacy) -> None:
    from oracles.privacy_oracles import guarantee

    gaussian = "one" if privacy.rho else "many"
    p = plan("prefix:3*identity:2", privacy, nw.Central(composition=gaussian))
    spent = guarantee(
        p.mechanism.law,
        l2=p.mechanism.sensitivity,
        delta=privacy.delta,
        neighbours=privacy.neighbours,
    )
    if privacy.rho is not None:
        assert spent.rho == pytest.approx(privacy.rho, rel=1e-9)
        assert spent.rho <= privacy.rho * (1 + 1e-15)
    else:
        assert spent.epsilon == pytest.approx(privacy.epsilon, rel=1e-6)


def test_intervals_cover_at_their_level() -> None:
    """Per-query 95 % over 2,000 releases: binomial band at a false-alarm rate of 1e-6."""
    p = plan("ranges:8", APPROXIMATE, nw.Central(composition="many"))
    f = p.forecast()
    x = np.arange(8)
    errors = np.abs(repeated(p, x, seed=14) - matrix("ranges:8") @ x)
    inside = (errors <= f.halfwidth).mean(axis=0)
    slack = norm.isf(1e-6 / 72) * np.sqrt(0.95 * 0.05 / RELEASES)
    assert np.abs(inside - 0.95).max() < slack
    jointly = (errors <= f.simultaneous_halfwidth).all(axis=1).mean()
    assert jointly > 0.95 - norm.isf(1e-6) * np.sqrt(0.95 * 0.05 / RELEASES)


def test_plans_come_back_from_files(tmp_path: Path) -> None:
    for text in TEXTS:
        p = plan(
            text, APPROXIMATE, nw.Central(error="max" if "prefix" in text else "rmse")
        )
        p.save(tmp_path / "p.nw")
        again = load(tmp_path / "p.nw")
        assert again.record() == p.record()
        timeless = {"seconds": 0.0}  # no file keeps how long planning took
        assert again.summary() | timeless == p.summary() | timeless
        np.testing.assert_array_equal(again.workload.dense(), p.workload.dense())


@pytest.mark.parametrize(
    "damage", ["truncated", "flipped", "foreign", "empty", "missing"]
)
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "p.nw"
    plan("prefix:4", APPROXIMATE).save(file)
    content = file.read_bytes()
    file.write_bytes(
        {
            "truncated": content[:-20],
            "flipped": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
            "foreign": b"PK\x03\x04" + content,
            "empty": b"",
            "missing": b"",
        }[damage]
    )
    if damage == "missing":
        file.unlink()
    with pytest.raises(FileFormatError, match=r"p\.nw"):
        load(file)


@pytest.mark.parametrize(
    "bad",
    [
        np.array([1.5, 2, 3]),
        np.array([-1, 2, 3]),
        np.arange(4),
        np.array([np.nan, 1, 1]),
    ],
)
def test_histograms_that_count_no_people_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidParameter) as caught:
        plan("prefix:3", APPROXIMATE).release(bad)
    assert "1.5" not in str(caught.value)


def test_a_release_cannot_be_seeded() -> None:
    p = plan("identity:64", APPROXIMATE)
    with pytest.raises(TypeError):
        p.release(np.zeros(64, dtype=int), seed=1)  # type: ignore[call-arg]
    np.random.seed(0)  # noqa: NPY002
    first = p.release(np.zeros(64, dtype=int)).answers
    np.random.seed(0)  # noqa: NPY002
    assert (p.release(np.zeros(64, dtype=int)).answers != first).any()


def test_metadata_and_answers_are_written_together(tmp_path: Path) -> None:
    release = plan("prefix:4", APPROXIMATE, nw.Central(composition="many")).release(
        np.array([5, 0, 2, 9])
    )
    beside = release.write(tmp_path / "answers.csv")
    metadata = json.loads(beside.read_text())
    assert metadata["privacy"]["epsilon"] == 1
    assert metadata["noise"]["law"] == "rounded-gaussian"
    assert (tmp_path / "answers.csv").read_text().count("\n") == 5
    assert release.to_pandas().shape == release.to_polars().shape
    assert len(release.to_pandas()) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"error": "median"}, "error='median'"),
        ({"error": 1.5}, "error=1.5"),
        ({"mechanism": "magic"}, "mechanism='magic'"),
    ],
)
def test_wrong_choices_name_the_parameter(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(NoisewrightError, match=message):
        nw.plan("prefix:4", APPROXIMATE, nw.Central(**change))


def test_laplace_intervals_cover_every_mixture() -> None:
    """The quantile of one Laplace covers sums of two of the same variance from 95 % on."""
    from scipy.integrate import quad
    from scipy.special import erfc

    def outside(a: float, level: float) -> float:
        t = laplace_multiplier(level)
        # |Z|·√V with V = a·E₁ + (1−a)·E₂, E exponential: one layer integrated in closed form.
        if a in (0.0, 1.0):
            return float(
                quad(lambda v: np.exp(-v) * erfc(t / np.sqrt(2 * v)), 0, np.inf)[0]
            )
        b = 1 - a
        if a == b:
            density = lambda v: v / a**2 * np.exp(-v / a)  # noqa: E731
        else:
            density = lambda v: (np.exp(-v / a) - np.exp(-v / b)) / (a - b)  # noqa: E731
        return float(
            quad(lambda v: density(v) * erfc(t / np.sqrt(2 * v)), 0, np.inf)[0]
        )

    for level in (0.95, 0.99, 0.9999):
        assert outside(1.0, level) == pytest.approx(1 - level, rel=1e-4)
        assert (
            max(outside(a, level) for a in np.linspace(0.02, 0.98, 49))
            <= 1 - level + 1e-9
        )


@pytest.mark.parametrize(
    "form", ["csv", "parquet", "arrow", "pandas", "polars", "duckdb"]
)
def test_a_table_of_any_form_is_released(form: str, tmp_path: Path) -> None:
    """With a budget so large that the noise is invisible, answers are the exact counts."""
    import duckdb
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"age": [3, 17, 40, 70, 99], "sex": ["F", "M", "F", "F", "M"]})
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    forms = {
        "csv": lambda: str(tmp_path / "t.csv"),
        "parquet": lambda: tmp_path / "t.parquet",
        "arrow": lambda: table,
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: __import__("polars").from_arrow(table),
        "duckdb": lambda: duckdb.from_arrow(table),
    }
    domain = nw.Domain(
        [
            nw.Numeric("age", (0, 18, 65, 100), integer=True),
            nw.Categorical("sex", ("F", "M")),
        ]
    )
    asked = nw.Workload.from_spec(
        {"queries": [{"cdf": "age"}, {"marginal": "sex"}]}, domain
    )
    release = nw.plan(asked, nw.Privacy(rho=1e6)).release(forms[form]())
    np.testing.assert_allclose(release.answers, [2, 3, 5, 3, 2], atol=0.05)


@pytest.mark.parametrize("privacy", [Privacy(rho=0.1), Privacy(epsilon=1)])
def test_questions_that_are_no_product_join_those_that_are(privacy: Privacy) -> None:
    """Unbiased with the forecast variance; the band has a false-alarm rate of 1e-6."""
    domain = nw.Domain(
        (
            nw.Numeric("age", edges=tuple(range(0, 101, 10))),
            nw.Categorical("sex", ("F", "M")),
            nw.Categorical("region", tuple("abcdefghijklmnopqrstuvwxyz")),
            nw.Categorical("work", tuple("pqrst")),
        )
    )
    asked = nw.Workload.from_spec(
        {
            "queries": [
                {"cdf": "age", "by": "sex"},
                {"marginal": ["region", "work"]},
                {"count": "age >= 60 or sex == 'F'", "weight": 3.0},
            ]
        },
        domain,
    )
    p = plan(asked, privacy)
    x = np.random.default_rng(5).integers(0, 9, size=domain.shape)
    errors = repeated(p, x, seed=6) - p.plain_workload.matvec(x.ravel())
    alarm = 1e-6 / (2 * asked.queries)
    z = np.sqrt(RELEASES) * errors.mean(axis=0) / np.sqrt(p.accuracy.variance)
    assert np.abs(z).max() < norm.isf(alarm / 2)
    # Laplace errors have heavier tails: their sample variance spreads up to √(5/2) times as much.
    ratio = errors.var(axis=0, ddof=1) / p.accuracy.variance
    assert np.abs(ratio - 1).max() < norm.isf(alarm / 2) * np.sqrt(5 / RELEASES)


def test_the_number_of_people_is_free_when_people_are_replaced() -> None:
    privacy = Privacy(rho=0.1, neighbours="replace-one")
    p = plan("marginals:3x2x4:<=2", privacy, nw.Central(mechanism="residual"))
    assert np.sqrt(p.accuracy.variance[0]) < 0.05  # the total comes first
    x = np.arange(24)
    release = p.release(x)
    assert release.answers[0] == pytest.approx(x.sum(), abs=0.5)
    spent = [
        b.change(2, "replace-one")
        for b in p.mechanism.strategy.blocks
        if not b.attributes
    ]
    assert spent == [0]
