"""Sums and means by group: unbiased, covered, and no neighbour moves them too far."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, norm

import noisewright as nw
from noisewright.central.registry import CENTRAL
from noisewright.domain import Categorical, Domain, Numeric
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.promise.budget import Privacy
from noisewright.tables.counter import DuckDBCounter
from noisewright.workload.questions.measures import CentredSum
from noisewright.workload.questions.statistics import Column
from oracles.plan_parts import read_parts, write_parts
from oracles.privacy_oracles import SeededSource

DOMAIN = nw.Domain(
    (
        nw.Categorical("region", ("N", "S", "E")),
        nw.Categorical("sex", ("F", "M")),
        nw.Numeric("income", edges=(0, 20, 50, 100), lower=10.0, upper=60.0),
    )
)
BY = [["region"], ["region", "sex"], []]


def people(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "region": rng.choice(["N", "S", "E"], count),
            "sex": rng.choice(["F", "M"], count),
            "income": rng.uniform(0, 100, count).round(2),
        }
    )


def truth(table: pa.Table) -> list[tuple[int, float]]:
    frame = table.to_pandas()
    frame["income"] = frame["income"].clip(10, 60).round(0)
    rows = []
    for names in BY:
        if not names:
            rows.append((len(frame), frame["income"].sum()))
            continue
        grouped = frame.groupby(names)["income"].agg(["count", "sum"])
        order = {"region": ["N", "S", "E"], "sex": ["F", "M"]}
        full = pd_index(names, order)
        rows += [
            tuple(grouped.loc[key]) if key in grouped.index else (0, 0.0)
            for key in full
        ]
    return rows


def pd_index(names: list[str], order: dict[str, list[str]]) -> list[object]:
    if len(names) == 1:
        return list(order[names[0]])
    return [(a, b) for a in order[names[0]] for b in order[names[1]]]


def columns(release: nw.Release) -> dict[str, Column]:
    """Counts, sums and means of a release, each over all groups of all tables."""
    kinds = np.repeat(
        [table.says.split()[0] for table in release.tables],
        [table.queries for table in release.tables],
    )
    return {
        kind: release.intervals.part(kinds == kind) for kind in ("count", "sum", "mean")
    }


def inside(values: np.ndarray, ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return (ends[0] <= values) & (values <= ends[1])


def frozen(plan: CentralPlan, table: pa.Table) -> CentralPlan:
    """The plan with its exact tables counted once, for many releases."""
    counts = plan.exact(table)
    object.__setattr__(plan, "counts", lambda *_: counts)
    return plan


@pytest.mark.parametrize(
    "privacy",
    [Privacy(rho=0.5), Privacy(epsilon=2), Privacy(rho=0.5, neighbours="replace-one")],
)
def test_sums_are_unbiased_and_intervals_cover(privacy: Privacy) -> None:
    """200 releases; all bands together have a false-alarm rate of 1e-6."""
    made = nw.plan(nw.Sums("income", BY, DOMAIN, unit=1.0), privacy)
    table = people(400, 0)
    exact = np.array(truth(table), dtype=float)
    source = SeededSource(7)
    trials = 200
    frozen(made, table)
    joint, count, total, hits, mean_hits = (
        0,
        [],
        [],
        np.zeros(len(exact)),
        np.zeros(len(exact)),
    )
    for _ in range(trials):
        parts = columns(made.noisy(made.exact(table), source=source))
        count.append(parts["count"].answers)
        total.append(parts["sum"].answers)
        hits += inside(exact[:, 1], parts["sum"].each)
        joint += bool(inside(exact[:, 1], parts["sum"].all).all())
        mean_hits += inside(exact[:, 1] / exact[:, 0], parts["mean"].each)
    alarm = 1e-6 / (4 * len(exact) + 1)
    errors = {name: parts[name].std for name in ("count", "sum")}
    assert joint >= binom.ppf(alarm, trials, 0.95)
    for drawn, column, std in ((count, 0, errors["count"]), (total, 1, errors["sum"])):
        off = np.mean(drawn, axis=0) - exact[:, column]
        # a public count has no error
        z = np.sqrt(trials) * off / np.where(std > 0, std, 1.0)
        assert np.abs(z).max() < norm.isf(alarm / 2)
    assert hits.min() >= binom.ppf(alarm, trials, 0.95)
    assert mean_hits.min() >= binom.ppf(alarm, trials, 0.95)


COUNTED: dict[Any, Any] = {}
"""Exact tables of the same people: those of plans under every budget."""


@pytest.mark.parametrize("kind", ["rho", "epsilon"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_no_neighbour_moves_measurements_further_than_the_noise_allows(
    kind: str, neighbours: str
) -> None:
    privacy = Privacy(**{kind: 1.0}, neighbours=neighbours)
    queries = [
        {what: "income", "by": by, "unit": 5.0} for by in BY for what in ("sum", "mean")
    ]
    # Carry noise is not per number; its privacy is tested beside it.
    mechanism = "laplace-strategy" if kind == "epsilon" else "auto"
    made = nw.plan(
        nw.Workload.from_spec({"queries": queries}, DOMAIN),
        privacy,
        nw.Central(mechanism=mechanism),
    )
    base = people(6, 1)

    def measured(table: pa.Table) -> np.ndarray:
        key = tuple(made.mechanism.tables), repr(table.to_pylist())
        if key not in COUNTED:
            COUNTED[key] = made.exact(table)
        counts = COUNTED[key]
        return np.concatenate(
            [
                exact / law.scale
                for part in (getattr(p, "measured", p) for p in made.mechanism.parts)
                for exact, law in zip(part.exact(counts), part.laws, strict=True)
            ]
        )

    worst = 0.0
    extremes = [
        {"region": r, "sex": s, "income": v}
        for r in "NSE"
        for s in "FM"
        for v in (0.0, 100.0)
    ]
    one = [measured(pa.Table.from_pylist([*base.to_pylist(), e])) for e in extremes]
    start = measured(base)
    pairs = (
        [(a, start) for a in one]
        if neighbours == "add-remove"
        else [(a, b) for a in one for b in one]
    )
    for a, b in pairs:
        change = np.abs(a - b).sum() if kind == "epsilon" else ((a - b) ** 2).sum() / 2
        worst = max(worst, float(change))
    assert worst <= 1.0 + 1e-9
    assert worst >= 0.3  # and the noise is not far too much


def test_counts_and_sums_of_a_stream_are_about_the_same_people() -> None:
    """A stream can be read once: sums of nothing beside counts of everybody move far too much."""
    made = nw.plan(nw.Sums("income", BY, DOMAIN), Privacy(rho=1))
    table = people(20, 3)
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    whole, once = made.exact(table), made.exact(stream)
    assert {t: c.tolist() for t, c in once.items()} == {
        t: c.tolist() for t, c in whole.items()
    }


def test_the_reach_does_not_depend_on_the_type_of_the_unit() -> None:
    """Bounds divided in single precision would lie inside the values they bound."""
    wide = nw.Domain((nw.Numeric("x", edges=(0, 2**24 + 1)),))
    made = nw.plan(nw.Sums("x", [[]], wide, unit=np.float32(1)), Privacy(rho=1))
    assert max(table.measure.reach for table in made.mechanism.tables) == 2**24 + 1


@pytest.mark.parametrize("value", [1000, 100])
@pytest.mark.parametrize(
    "privacy",
    [
        Privacy(rho=0.5),
        Privacy(epsilon=1),
        Privacy(rho=8),
        Privacy(rho=1, neighbours="replace-one"),
    ],
)
def test_means_of_small_groups_are_covered_or_left_out(
    privacy: Privacy, value: int
) -> None:
    """600 releases; coverage and bias alarm in 1e-6 of all runs of all cases."""
    groups = {"one": 1, "few": 10, "many": 300}
    domain = Domain(
        [Categorical("group", list(groups)), Numeric("x", [0, 500, 1000], integer=True)]
    )
    made = nw.plan(nw.Sums("x", [["group"]], domain), privacy)
    names = np.repeat(list(groups), list(groups.values()))
    table = pa.table({"group": names, "x": np.full(len(names), value)})
    frozen(made, table)
    source, trials = SeededSource(3), 600
    means = [
        columns(made.noisy(made.exact(table), source=source))["mean"]
        for _ in range(trials)
    ]
    lower, upper, mean = (
        np.array(x) for x in zip(*((*m.each, m.answers) for m in means), strict=True)
    )
    covered = ((lower <= value) & (value <= upper)).sum(axis=0)
    assert covered.min() >= binom.ppf(1e-6 / 100, trials, 0.95)
    stated = np.isfinite(mean)
    # The noise of one person's count exceeds 4 half-widths - 1 with a probability below 1e-6.
    assert stated.sum(axis=0)[0] <= 2
    assert stated[:, 2].all()
    assert (np.where(stated, mean, lower) >= lower).all()
    assert (np.where(stated, mean, upper) <= upper).all()
    spread = np.std(mean[:, 2]) / np.sqrt(trials)
    assert (
        abs(np.mean(mean[:, 2]) - value) < 0.01 * 1000 + norm.isf(1e-6 / 100) * spread
    )
    assert "left out" in made.record()["notes"]["mean of x by group"]


def test_means_that_count_missing_values_as_zero_are_covered() -> None:
    """Who has no value adds nothing to the sum, so that a mean may lie below all bounds."""
    income = Numeric("income", [100, 200], outside="other")
    domain = Domain([Categorical("sex", ["F", "M"]), income])
    made = nw.plan(
        nw.Sums("income", [["sex"]], domain, missing="zero"), Privacy(rho=50)
    )
    table = pa.table(
        {"sex": ["F"] * 60 + ["M"] * 60, "income": [None] * 90 + [150.0] * 30}
    )
    means = columns(made.noisy(made.exact(table), source=SeededSource(1)))["mean"]
    assert inside(np.array([0.0, 75.0]), means.each).all()
    np.testing.assert_allclose(means.answers, [0.0, 75.0], atol=5)


def test_bad_sums_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="numeric"):
        nw.plan(nw.Sums("sex", BY, DOMAIN), Privacy(rho=1))
    with pytest.raises(InvalidParameter, match="group"):
        nw.plan(nw.Sums("income", [["income"]], DOMAIN), Privacy(rho=1))
    with pytest.raises(InvalidParameter, match="unit"):
        nw.plan(nw.Sums("income", BY, DOMAIN, unit=-1.0), Privacy(rho=1))


def test_the_command_line_forecasts_and_releases(tmp_path) -> None:
    import json

    from click.testing import CliRunner

    from noisewright.cli import main

    schema = tmp_path / "s.yaml"
    schema.write_text(
        "attributes:\n  - {name: sex, kind: categorical, values: [F, M]}\n"
        "  - {name: income, kind: numeric, edges: [0, 50, 100]}\n"
    )
    table = tmp_path / "t.csv"
    table.write_text("sex,income\n" + "F,30\n" * 50 + "M,60\n" * 40)
    base = [
        "sums",
        "--schema",
        str(schema),
        "--value",
        "income",
        "--by",
        "sex",
        "--rho",
        "5",
    ]
    forecast = CliRunner().invoke(main, [*base, "--json"])
    assert forecast.exit_code == 0, forecast.stderr
    assert [row["name"] for row in json.loads(forecast.stdout)] == [
        "sex", "sum of income by sex", "mean of income by sex"
    ]  # fmt: skip
    out = tmp_path / "sums.csv"
    done = CliRunner().invoke(main, [*base[:1], str(table), *base[1:], "-o", str(out)])
    assert done.exit_code == 0, done.stderr
    assert (
        out.read_text()
        .splitlines()[0]
        .replace('"', "")
        .startswith("table,statistic,sex,query,answer")
    )
    refused = CliRunner().invoke(main, [*base, "-o", str(out)])
    assert refused.exit_code == 2


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0}])
def test_everybody_together_with_one_replaced(budget: dict[str, float]) -> None:
    domain = Domain([Numeric("x", [0, 10, 20], integer=True)])
    privacy = Privacy(**budget, neighbours="replace-one")
    plan = nw.plan(nw.Sums("x", [[]], domain), privacy)
    errors = {error.name: error for error in plan.table_errors()}
    # public, so it takes nothing from the budget of the sum
    assert errors["total"].max == 0
    alone = nw.plan(nw.Sums("x", [[]], domain), Privacy(**budget))
    others = {error.name: error for error in alone.table_errors()}
    assert errors["sum of x"].max < 2 * others["sum of x"].max
    count, total, _ = (
        plan.release(pa.table({"x": [1, 5, 19]})).to_pandas().to_dict("records")
    )
    assert count["answer"] == pytest.approx(3, abs=1e-9)
    assert total["lower"] <= total["answer"] <= total["upper"]


def test_metadata_states_what_the_sums_themselves_cost() -> None:
    domain = Domain(
        [Categorical("r", ["a", "b"]), Numeric("x", [0, 10, 20], integer=True)]
    )
    plan = nw.plan(nw.Sums("x", [["r"], []], domain), Privacy(rho=0.5))
    counts, sums = plan.record()["parts"]
    assert sums["sensitivity"] == pytest.approx(20 * counts["sensitivity"])
    assert sum(plan.record()["shares"]) == pytest.approx(1)
    # Both parts share one budget, so all is above what the whole of it would give each.
    assert 1 <= plan.record()["ratio"] < 2


def test_shares_make_the_weighted_errors_least() -> None:
    domain = Domain(
        [Categorical("r", ["a", "b"]), Numeric("x", [0, 10, 20], integer=True)]
    )
    plan = nw.plan(nw.Sums("x", [["r"]], domain), Privacy(rho=0.5))
    for share in (0.3, 0.45, 0.55, 0.7):
        other = replace(plan.mechanism, shares=(share, 1 - share))
        tried = replace(
            plan, proposal=replace(plan.proposal, mechanism=other), known_accuracy=None
        )
        assert plan.achieved <= tried.achieved * (1 + 1e-9)


def test_files_cannot_narrow_the_bounds_of_what_is_summed(tmp_path: Path) -> None:
    """Noise for a narrow number on sums of a wide one would hide nobody."""
    file = tmp_path / "p.nw"
    nw.plan(nw.Sums("income", BY, DOMAIN), Privacy(rho=0.5)).save(file)
    header, arrays = read_parts(file)
    (stored,) = [
        m for m in header["strategy"]["members"] if m["content"]["measure"] == "sum"
    ]
    for name, value in (
        ("high", 11),
        ("low", 59),
        ("unit", 10.0),
        ("attribute", "age"),
    ):
        kept = dict(stored["content"])
        stored["content"][name] = value
        write_parts(file, header, arrays)
        with pytest.raises(NoisewrightError, match="plan again"):
            nw.load(file)
        stored["content"] = kept
    write_parts(file, header, arrays)
    assert nw.load(file).spend.promise().rho <= 0.5


def test_one_person_moves_a_sum_by_no_more_than_the_noise_is_for() -> None:
    measure = CentredSum("income", 1.0, 10, 20)  # narrower than the schema's own bounds
    table = pa.table({"region": ["N"], "sex": ["F"], "income": [100.0]})
    (total,) = DuckDBCounter().tables(table, DOMAIN, [((), measure)])
    assert abs(int(total[0])) <= measure.reach


def test_sums_and_means_survive_their_file(tmp_path: Path) -> None:
    plan = nw.plan(nw.Sums("income", BY, DOMAIN), Privacy(rho=0.5))
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    np.testing.assert_array_equal(again.accuracy.variance, plan.accuracy.variance)
    assert again.record() == plan.record()
    release = again.release(people(50, 1))
    release.save(tmp_path / "r.nwr")
    np.testing.assert_array_equal(nw.load(tmp_path / "r.nwr").answers, release.answers)
    with pytest.raises(InvalidParameter, match="numbers of people"):
        nw.post_process(release, non_negative=True)
    with pytest.raises(InvalidParameter, match="sums"):
        again.release(np.ones(DOMAIN.shape, dtype=int))


@pytest.mark.parametrize("mechanism", ["auto", *CENTRAL])
def test_counts_beside_a_mean_survive_their_file_whatever_measures_them(
    mechanism: str, tmp_path: Path
) -> None:
    spec = {
        "queries": [
            {"marginal": ["region", "sex"]},
            {"marginal": ["sex"]},
            {"mean": "income"},
        ]
    }
    try:
        plan = nw.plan(
            nw.Workload.from_spec(spec, DOMAIN),
            Privacy(epsilon=1),
            nw.Central(mechanism=mechanism),
        )
    except NoisewrightError:
        pytest.skip(f"{mechanism} measures no counts beside a mean")
    plan.save(tmp_path / "p.nw")
    assert nw.load(tmp_path / "p.nw").record() == plan.record()


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
def test_a_coarse_unit_is_told_beside_the_answers(kind: str) -> None:
    for unit, told in ((10.0, True), (0.1, False)):
        asked = {"queries": [{kind: "income", "unit": unit}]}
        plan = nw.plan(nw.Workload.from_spec(asked, DOMAIN), Privacy(epsilon=1.0))
        notes = str(plan.record())
        assert (f"rounding to multiples of {unit:g}" in notes) == told
