"""Impossible cells: answered by zero without error, and of help to all other answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

import noisewright as nw
from noisewright.central.blocks.mechanism import _chernoff_multiplier, _proxy_variance
from noisewright.central.mechanism import Measurement
from noisewright.estimate.nonnegative import tells_total
from noisewright.planning.after.postprocess import Steps, check_steps
from noisewright.planning.central import empty_cells as zeros
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.promise.budget import Privacy
from oracles.privacy_oracles import SeededSource
from planning.test_planning_release import repeated

ATTRIBUTES = (
    nw.Categorical("age", ("child", "adult", "old")),
    nw.Categorical("work", ("none", "employed", "retired")),
    nw.Categorical("region", tuple("abcdefgh")),
)
SPEC = {"queries": [{"marginal": ["age", "work"]}, {"marginals": 1}]}


def made(zeros: bool, privacy: Privacy, mechanism: str = "auto") -> CentralPlan:
    impossible = [{"age": ["child"], "work": ["employed", "retired"]}] if zeros else []
    domain = nw.Domain(ATTRIBUTES, impossible=impossible)
    return nw.plan(
        nw.Workload.from_spec(SPEC, domain), privacy, nw.Central(mechanism=mechanism)
    )


@pytest.mark.parametrize(
    "mechanism", ["residual", "gaussian-strategy", "laplace-strategy"]
)
def test_known_zeros_are_exact_and_help(mechanism: str) -> None:
    """2,000 releases; the bands of a case have a false-alarm rate of 1e-6."""
    pure = mechanism == "laplace-strategy"
    privacy = Privacy(epsilon=1) if pure else Privacy(rho=0.1)
    with_zeros, without = (
        made(True, privacy, mechanism),
        made(False, privacy, mechanism),
    )
    x = np.random.default_rng(0).integers(0, 50, size=(3, 3, 8))
    x[0, 1:] = 0
    labels = with_zeros.labels()
    empty = [k for k, label in enumerate(labels) if "child" in label and "work = " in label
             and "none" not in label]  # fmt: skip
    assert len(empty) == 2
    assert with_zeros.accuracy.variance[empty].max() == 0
    assert (
        with_zeros.accuracy.variance <= without.accuracy.variance * (1 + 1e-6)
    ).all()
    assert with_zeros.accuracy.variance.sum() < 0.98 * without.accuracy.variance.sum()
    errors = repeated(with_zeros, x, seed=3) - with_zeros.plain_workload.matvec(
        x.ravel()
    )
    np.testing.assert_allclose(errors[:, empty], 0, atol=1e-6)
    open_ = with_zeros.accuracy.variance > 0
    alarm = 1e-6 / (2 * open_.sum())
    z = (
        np.sqrt(len(errors))
        * errors.mean(axis=0)[open_]
        / np.sqrt(with_zeros.accuracy.variance[open_])
    )
    assert np.abs(z).max() < norm.isf(alarm / 2)
    if not pure:
        ratio = errors.var(axis=0, ddof=1)[open_] / with_zeros.accuracy.variance[open_]
        band = chi2.ppf([alarm / 2, 1 - alarm / 2], len(errors) - 1) / (len(errors) - 1)
        assert band[0] < ratio.min()
        assert ratio.max() < band[1]


MECHANISMS = ["residual", "gaussian-strategy", "laplace-strategy"]


def budget(mechanism: str) -> Privacy:
    return Privacy(epsilon=1) if mechanism == "laplace-strategy" else Privacy(rho=0.1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_people_in_impossible_cells_are_told_of(mechanism: str) -> None:
    """Missed with probability 1e-9 at most: 2,000 people stand far above any noise here."""
    p = made(True, budget(mechanism), mechanism)
    x = np.full((3, 3, 8), 20)
    x[0, 1:] = 0
    x[0, 1, 3] = 2000
    with pytest.warns(
        nw.errors.DeclarationWarning, match="people are in cells declared imposs"
    ):
        release = p.noisy(p.exact(x.ravel()), source=SeededSource(1))
    told = release.metadata["impossible"]
    assert told["contradicted"] == [{"age": ["child"], "work": ["employed", "retired"]}]
    assert told["tested"] == told["declared"] == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_few_people_in_each_of_many_impossible_cells_are_told_of(
    mechanism: str,
) -> None:
    """No cell by itself stands out, all of them together do."""
    letters = tuple("abcdefghijklmnopqrstuvwxyz")
    attributes = (nw.Categorical("letter", letters), nw.Categorical("other", (0, 1, 2)))
    domain = nw.Domain(
        attributes, impossible=[{"letter": list(letters), "other": [1, 2]}]
    )
    spec = {"queries": [{"marginal": ["letter", "other"]}, {"marginals": 1}]}
    asked = nw.Workload.from_spec(spec, domain)
    p = nw.plan(asked, budget(mechanism), nw.Central(mechanism=mechanism))
    deviation = np.sqrt(contradictions_variance(p))
    x = np.zeros((26, 3), dtype=np.int64)
    x[:, 1:] = np.ceil(3 * deviation)
    with pytest.warns(nw.errors.DeclarationWarning):
        p.noisy(p.exact(x), source=SeededSource(2))


def contradictions_variance(p: CentralPlan) -> float:
    """Variance of a single cell's estimate before anything is known to be empty."""
    return float(p.mechanism.accuracy(p.terms).variance.max())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_declarations_that_hold_raise_no_alarm(mechanism: str) -> None:
    """The alarm rate is 1e-6 per release, so 300 releases are quiet up to 3e-4.

    The bound behind the rate is checked against the law drawn: no statistic of 20,000 draws may
    exceed the threshold of a rate of 1e-3 more often than binomial chance allows (1e-6).
    """
    p = made(True, budget(mechanism), mechanism)
    x = np.full((3, 3, 8), 20)
    x[0, 1:] = 0
    exact = p.mechanism.exact(p.exact(x))
    source = SeededSource(3)
    for _ in range(300):
        told = p.contradictions(p.mechanism.measure(p.exact(x), source))
        assert told["contradicted"] == []
    assert p.domain is not None
    (_, term), *_ = zeros._testable(p.mechanism, p.domain)
    draws = 20_000
    laws = p.mechanism.strategy.laws(p.mechanism.law)
    noise = [
        law.sample((len(e), draws), source).astype(float)
        for e, law in zip(exact, laws, strict=True)
    ]
    estimates = p.mechanism.answer(Measurement(tuple(noise)), [term])
    accuracy = p.mechanism.accuracy([term])
    beyond = (estimates > (accuracy.tail(1e-3) * accuracy.std)[:, None]).sum(axis=1)
    assert beyond.max() <= binom.isf(1e-6 / len(beyond), draws, 1e-3)


def test_tails_are_bounded_for_every_law() -> None:
    """Against exact tails of single draws, at scales where the grid is coarse and fine."""
    steps = np.arange(4000)
    for scale in (0.3, 0.8, 2.0, 17.0):
        tails = {
            "discrete-laplace": np.exp(-steps / scale),
            "rounded-gaussian": norm.cdf((steps + 0.5) / scale)
            - norm.cdf((steps - 0.5) / scale),
        }
        for name, weights in tails.items():
            law = NoiseLaw(name, scale)
            mass = weights / (2 * weights.sum() - weights[0])
            for alarm in (1e-2, 1e-4, 1e-6, 1e-9):
                bound = _chernoff_multiplier(law, alarm) * np.sqrt(_proxy_variance(law))
                assert mass[steps > bound].sum() <= alarm


def test_sums_tell_of_impossible_cells_too() -> None:
    import pyarrow as pa

    domain = nw.Domain(
        [*ATTRIBUTES[:2], nw.Numeric("income", [0, 10])],
        impossible=[{"age": ["child"], "work": ["employed", "retired"]}],
    )
    p = nw.plan(nw.Sums("income", [["age", "work"]], domain), Privacy(rho=1))
    rows = {"age": ["child"] * 900, "work": ["retired"] * 900, "income": [5.0] * 900}
    with pytest.warns(nw.errors.DeclarationWarning):
        release = p.release(pa.table(rows))
    assert release.metadata["impossible"]["contradicted"]


@pytest.mark.parametrize(
    ("impossible", "declared", "told"),
    [
        ([{"age": ["child"]}], {"age = adult": 5, "age = old": 6}, True),
        ([{"age": ["child"]}], {"age = adult": 5}, False),
        ([], {"age = adult": 5, "age = old": 6}, False),
        ([], {"age = adult": 5, "age = old": 6, "age = child": 0}, True),
    ],
)
def test_what_tells_the_number_of_people_needs_another_promise(
    impossible: list[dict[str, list[str]]], declared: dict[str, float], told: bool
) -> None:
    domain = nw.Domain(ATTRIBUTES[:1], impossible=impossible)
    asked = nw.Workload.from_spec({"queries": [{"marginal": ["age"]}]}, domain)
    p = nw.plan(asked, Privacy(rho=1))
    if told:
        with pytest.raises(nw.errors.InvalidParameter, match="number of people"):
            check_steps(p, Steps(invariants=declared))
    else:
        check_steps(p, Steps(invariants=declared))


def test_sums_of_nothing_tell_that_cells_are_empty() -> None:
    rows = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 3.0]])
    # the first and the last cell hold nobody
    assert tells_total(rows, np.array([5.0, 5.0]))
    # 3 people in the first, or 2 in the last
    assert not tells_total(rows, np.array([5.0, 11.0]))


def test_the_command_line_warns_in_one_line(tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner

    from noisewright.cli import main

    (tmp_path / "s.yaml").write_text(made(True, Privacy(rho=1)).domain.to_yaml())
    (tmp_path / "q.yaml").write_text("queries:\n  - marginal: [age, work]\n")
    (tmp_path / "t.csv").write_text("age,work,region\n" + "child,retired,a\n" * 500)
    names = {"schema": "s.yaml", "queries": "q.yaml"}
    files = [f for n, name in names.items() for f in (f"--{n}", str(tmp_path / name))]
    out, table, plan = (str(tmp_path / name) for name in ("a.csv", "t.csv", "p.nw"))
    runner = CliRunner()
    assert (
        runner.invoke(main, ["plan", *files, "--rho", "1", "-o", plan]).exit_code == 0
    )
    result = runner.invoke(main, ["release", plan, table, "-o", out, "--json"])
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("warning: the noisy counts say")
    assert json.loads(result.stdout)["impossible"]["contradicted"]
