"""Post-processing of releases: consistent, covered, refused where it must be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.stats import binom

from noisewright import Central, plan
from noisewright.central.mechanism import Measurement
from noisewright.errors import InvalidParameter
from noisewright.planning.after.postprocess import post_process
from noisewright.privacy.promise.budget import Privacy
from oracles.privacy_oracles import SeededSource

SWAP = Privacy(rho=0.05, neighbours="replace-one")
TEXTS = ["prefix:8", "identity:3*prefix:4", "marginals:3x2x4:<=2"]


@pytest.mark.parametrize("text", TEXTS)
def test_fitted_answers_are_consistent_non_negative_whole_numbers(text: str) -> None:
    p = plan(text, Privacy(rho=0.02))
    x = np.random.default_rng(0).integers(0, 5, p.workload.size)
    raw = p.noisy(p.exact(x), source=SeededSource(1))
    fitted = post_process(raw, integer=True)
    assert fitted.answers.min() >= 0
    np.testing.assert_array_equal(fitted.answers, np.rint(fitted.answers))
    w = p.workload.dense()
    residual = fitted.answers - w @ np.linalg.lstsq(w, fitted.answers, rcond=None)[0]
    np.testing.assert_allclose(residual, 0, atol=1e-8)
    lower, upper = fitted.intervals.each
    assert (lower >= 0).all()
    assert (lower <= fitted.answers).all()
    assert (fitted.answers <= upper).all()
    assert set(fitted.metadata["post_processing"]["steps"]) == {
        "non_negative",
        "integer",
    }


def test_intervals_still_cover_after_all_steps() -> None:
    """150 releases; per query below 95 % with an alarm rate of 1e-6 over all queries."""
    p = plan("prefix:6", SWAP)
    x = np.array([0, 3, 0, 9, 1, 2])
    truth = np.cumsum(x)
    source = SeededSource(5)
    trials = 150
    hits, joint = np.zeros(6), 0
    for _ in range(trials):
        done = post_process(
            p.noisy(p.exact(x), source=source),
            invariants={"[0..5]": 15},
            non_negative=True,
        )
        (low, high), (low_all, high_all) = done.intervals.each, done.intervals.all
        hits += (low - 1e-9 <= truth) & (truth <= high + 1e-9)
        joint += bool(((low_all - 1e-9 <= truth) & (truth <= high_all + 1e-9)).all())
    assert hits.min() >= binom.ppf(1e-6 / 7, trials, 0.95)
    assert joint >= binom.ppf(1e-6 / 7, trials, 0.95)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [("gaussian-cells", {"rho": 0.05}), ("laplace-cells", {"epsilon": 0.5})],
)
def test_declared_values_leave_intervals_that_hold_all_at_once(
    mechanism: str, budget: dict[str, float], neighbours: str
) -> None:
    """4000 draws of the noise itself, conditioned by dense algebra; alarm rate 1e-6 in all."""
    p = plan(
        "prefix:64",
        Privacy(**budget, neighbours=neighbours),
        Central(mechanism=mechanism),
    )
    x = np.random.default_rng(0).integers(0, 50, 64)
    truth, labels, trials = np.cumsum(x), p.labels(), 4000
    source = SeededSource(4)
    laws = zip(
        p.mechanism.strategy.blocks,
        p.mechanism.strategy.laws(p.mechanism.law),
        strict=True,
    )
    drawn = [law.sample((block.rows, trials), source) for block, law in laws]
    errors = p.linear_answers(Measurement(tuple(drawn)))
    covariance = p.accuracy.covariance(np.arange(64))
    for known in (range(3, 63, 4), range(32, 33)):
        numbers = list(known)
        done = post_process(
            p.noisy(p.exact(x), source=source),
            invariants={labels[k]: float(truth[k]) for k in numbers},
        )
        gain = covariance[:, numbers] @ np.linalg.inv(
            covariance[np.ix_(numbers, numbers)]
        )
        left = np.abs(errors - gain @ errors[numbers])
        least = binom.ppf(1e-6 / 260, trials, 0.95)
        assert (left <= done.halfwidth[:, None] + 1e-6).sum(axis=1).min() >= least
        together = (left <= done.simultaneous_halfwidth[:, None] + 1e-6).all(axis=0)
        assert together.sum() >= least


def test_kept_answers_are_covered_all_at_once() -> None:
    """400 releases of empty cells, kept only where their noise is large; alarm rate 1e-6."""
    p = plan("identity:60", Privacy(rho=0.5))
    x = np.zeros(60, dtype=np.int64)
    x[:3] = 1000
    source, trials, held, kept_cells = SeededSource(8), 400, 0, 0
    for _ in range(trials):
        done = post_process(p.noisy(p.exact(x), source=source), suppress=0.4)
        kept = np.isfinite(done.answers)
        kept_cells += int(kept.sum()) - 3
        low, high = (end[kept] for end in done.intervals.each)
        held += bool(((low <= x[kept]) & (x[kept] <= high)).all())
        assert np.isnan(done.intervals.each[0][~kept]).all()
    assert kept_cells > trials / 4  # cells of nobody were picked out by their noise
    assert held >= binom.ppf(1e-6, trials, 0.95)
    assert "all kept ones" in done.metadata["post_processing"]["effects"]["suppress"]


@pytest.mark.parametrize(
    "value", [np.nan, np.inf, -np.inf, 1e300, "5", None, True, -3.0]
)
def test_values_that_nothing_can_have_are_refused(value: object) -> None:
    p = plan("prefix:6+identity:6", SWAP)
    raw = p.noisy(p.exact(np.arange(6)), source=SeededSource(3))
    with pytest.raises(InvalidParameter, match="invariants"):
        post_process(raw, invariants={"[0..1]": value})  # type: ignore[dict-item]


def test_declared_values_are_kept_and_help() -> None:
    p = plan("prefix:6", SWAP)
    raw = p.noisy(p.exact(np.arange(6)), source=SeededSource(3))
    done = post_process(raw, invariants={"[0..5]": 15, "[0]": 0})
    assert done.answers[5] == 15
    assert done.answers[0] == 0
    assert done.std[[0, 5]].tolist() == [0, 0]
    assert (done.std[1:5] < raw.std[1:5]).all()


def test_declaring_a_total_that_is_public_anyway_changes_nothing() -> None:
    p = plan("marginals:3x2x4:<=2", SWAP, Central(mechanism="residual"))
    x = np.arange(24)
    raw = p.noisy(p.exact(x), source=SeededSource(3))
    done = post_process(raw, invariants={"total": float(x.sum())})
    np.testing.assert_allclose(done.answers, raw.answers, atol=0.5)


@pytest.mark.parametrize("text", [*TEXTS, "marginals:2^3:1"])
@pytest.mark.parametrize("privacy", [Privacy(rho=0.1), Privacy(epsilon=1)])
def test_covariances_have_the_variances_on_their_diagonal(
    text: str, privacy: Privacy
) -> None:
    p = plan(text, privacy)
    everything = list(range(p.workload.queries))
    full = p.accuracy.covariance(np.array(everything))
    np.testing.assert_allclose(np.diagonal(full), p.accuracy.variance, rtol=1e-7)
    assert np.linalg.eigvalsh(full).min() > -1e-7 * full.max()


def test_uncertain_answers_are_suppressed() -> None:
    p = plan("identity:3", Privacy(rho=0.5))
    raw = p.noisy(p.exact(np.array([0, 1000, 5])), source=SeededSource(2))
    done = post_process(raw, suppress=0.1)
    assert np.isnan(done.answers[0])
    assert done.answers[1] == raw.answers[1]
    frame = done.to_arrow().to_pylist()
    assert frame[0]["answer"] is None
    assert frame[0]["lower"] is None
    with pytest.raises(InvalidParameter, match="suppress"):
        post_process(raw, suppress=-1)


def test_impossible_declarations_are_refused() -> None:
    p = plan("prefix:6+identity:6", SWAP)
    raw = p.noisy(p.exact(np.arange(6)), source=SeededSource(3))
    with pytest.raises(InvalidParameter, match="contradict"):
        post_process(raw, invariants={"[0..1]": 5, "[0]": 1, "[1]": 1})
    with pytest.raises(InvalidParameter, match="no query"):
        post_process(raw, invariants={"nobody": 5})
    private = plan("prefix:6", Privacy(rho=0.05))
    other = private.noisy(private.exact(np.arange(6)), source=SeededSource(3))
    with pytest.raises(InvalidParameter, match="number of people"):
        post_process(other, invariants={"[0..5]": 15})


def test_the_command_line_checks_before_it_spends(tmp_path) -> None:
    import json

    from click.testing import CliRunner

    from noisewright.cli import main

    schema = tmp_path / "s.yaml"
    schema.write_text(
        "attributes:\n  - {name: sex, kind: categorical, values: [F, M]}\n"
    )
    queries = tmp_path / "q.yaml"
    queries.write_text("queries:\n  - histogram: sex\n  - total: true\n")
    table = tmp_path / "t.csv"
    table.write_text("sex\n" + "F\n" * 30 + "M\n" * 20)
    made = tmp_path / "p.nw"
    runner = CliRunner()
    base = ["plan", "--queries", str(queries), "--schema", str(schema), "--rho", "1"]
    code = runner.invoke(main, [*base, "--neighbours", "replace-one", "-o", str(made)])
    assert code.exit_code == 0, code.stderr
    out = tmp_path / "a.csv"
    release = ["release", str(made), str(table), "-o", str(out), "--json"]
    bad = runner.invoke(main, [*release, "--invariant", "nobody = 3"])
    assert bad.exit_code == 2
    assert not out.exists()
    good = runner.invoke(main, [*release, "--integer", "--suppress", "0.9"])
    assert good.exit_code == 0, good.stderr
    assert "integer" in json.loads(good.stdout)["post_processing"]["steps"]


def test_steps_after_steps_keep_the_intervals_that_held() -> None:
    """Fitted answers are biased: intervals stay about the unbiased ones, widened, never moved."""
    p = plan("prefix:6", Privacy(rho=0.5))
    raw = p.noisy(p.exact(np.array([0, 0, 3, 0, 0, 1])), source=SeededSource(4))
    once = post_process(raw, non_negative=True)
    twice = post_process(once, integer=True)
    for before, after in zip(once.intervals.each, twice.intervals.each, strict=True):
        moved = before != after
        np.testing.assert_array_equal(after[moved], twice.answers[moved])
    assert (twice.intervals.each[0] <= once.intervals.each[0]).all()
    with pytest.raises(InvalidParameter, match="before other steps"):
        post_process(once, invariants={p.labels()[0]: 0.0})
    hidden = post_process(raw, suppress=0.1)
    with pytest.raises(InvalidParameter, match="left out"):
        post_process(hidden, integer=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "text", ["identity:3", "identity:4*identity:2", "marginals:3x3x2:<=2"]
)
def test_declared_values_and_the_public_total_come_out_of_the_fit(text: str) -> None:
    """Of 20 releases each: they used to come out as zeros where other cells had noise."""
    p = plan(text, Privacy(epsilon=0.5, neighbours="replace-one"))
    rng, source = np.random.default_rng(7), SeededSource(7)
    matrix, labels = p.workload.dense(), p.labels()
    for _ in range(20):
        x = rng.multinomial(100, rng.dirichlet(np.full(p.workload.size, 0.5)))
        raw = p.noisy(p.exact(x), source=source)
        k = int(rng.integers(len(labels)))
        truth = float(matrix[k] @ x)
        fitted = post_process(
            raw, invariants={labels[k]: truth}, non_negative=True
        ).answers
        assert fitted[k] == pytest.approx(truth, abs=1e-3)
        # Consistent with one histogram of as many people as there are.
        people = np.vstack([matrix, np.ones(matrix.shape[1])])
        _, missed = nnls(people, np.append(fitted, 100.0))
        assert missed < 1e-2
