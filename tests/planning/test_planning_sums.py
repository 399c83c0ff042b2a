"""Sums and means by group: unbiased, covered, and no neighbour moves them too far."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, norm

import noisewright as nw
from noisewright.domain import Categorical, Domain, Numeric
from noisewright.errors import InvalidParameter
from noisewright.privacy.budget import Privacy
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
        rows += [tuple(grouped.loc[key]) if key in grouped.index else (0, 0.0) for key in full]
    return rows


def pd_index(names: list[str], order: dict[str, list[str]]) -> list[object]:
    if len(names) == 1:
        return list(order[names[0]])
    return [(a, b) for a in order[names[0]] for b in order[names[1]]]


@pytest.mark.parametrize(
    "privacy",
    [Privacy(rho=0.5), Privacy(epsilon=2), Privacy(rho=0.5, neighbours="replace-one")],
)
def test_sums_are_unbiased_and_intervals_cover(privacy: Privacy) -> None:
    """200 releases; all bands together have a false-alarm rate of 1e-6."""
    made = nw.plan_sums("income", BY, privacy, DOMAIN, unit=1.0)
    table = people(400, 0)
    exact = np.array(truth(table), dtype=float)
    source = SeededSource(7)
    trials = 200
    counts, sums = made._counted(table, made.groups.counter)
    object.__setattr__(made, "_counted", lambda data, engine: (counts, sums))
    count, total, hits, mean_hits = [], [], np.zeros(len(exact)), np.zeros(len(exact))
    for _ in range(trials):
        frame = made._release(table, None, source).to_pandas()
        count.append(frame["count"].to_numpy())
        total.append(frame["sum"].to_numpy())
        hits += frame["sum_lower"].le(exact[:, 1]) & frame["sum_upper"].ge(exact[:, 1])
        mean = exact[:, 1] / exact[:, 0]
        mean_hits += frame["mean_lower"].le(mean) & frame["mean_upper"].ge(mean)
    alarm = 1e-6 / (4 * len(exact))
    for drawn, column, std in ((count, 0, made.errors[0]), (total, 1, made.errors[1])):
        z = np.sqrt(trials) * (np.mean(drawn, axis=0) - exact[:, column]) / std
        assert np.abs(z).max() < norm.isf(alarm / 2)
    assert hits.min() >= binom.ppf(alarm, trials, 0.95)
    assert mean_hits.min() >= binom.ppf(alarm, trials, 0.95)


@pytest.mark.parametrize("kind", ["rho", "epsilon"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_no_neighbour_moves_measurements_further_than_the_noise_allows(
    kind: str, neighbours: str
) -> None:
    privacy = Privacy(**{kind: 1.0}, neighbours=neighbours)
    made = nw.plan_sums("income", BY, privacy, DOMAIN, unit=5.0)
    strategy = made.groups.strategy
    base = people(6, 1)

    def measured(table: pa.Table) -> np.ndarray:
        both = made._counted(table, made.groups.counter)
        parts = []
        for tables, law in zip(both, made.laws, strict=True):
            exact = strategy.measure(tables.__getitem__)
            laws = strategy.laws(law)
            parts += [e / block.scale for e, block in zip(exact, laws, strict=True)]
        return np.concatenate(parts)

    worst = 0.0
    extremes = [
        {"region": r, "sex": s, "income": v} for r in "NSE" for s in "FM" for v in (0.0, 100.0)
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
    made = nw.plan_sums("income", BY, Privacy(rho=1), DOMAIN)
    table = people(20, 3)
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    whole, once = (made._counted(source, made.groups.counter) for source in (table, stream))
    for expected, found in zip(whole, once, strict=True):
        assert {t: c.tolist() for t, c in found.items()} == {
            t: c.tolist() for t, c in expected.items()
        }


def test_the_reach_does_not_depend_on_the_type_of_the_unit() -> None:
    """Bounds divided in single precision would lie inside the values they bound."""
    wide = nw.Domain((nw.Numeric("x", edges=(0, 2**24 + 1)),))
    made = nw.plan_sums("x", [[]], Privacy(rho=1), wide, unit=np.float32(1))
    assert made.reach == 2**24 + 1


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
def test_means_of_small_groups_are_covered_or_left_out(privacy: Privacy, value: int) -> None:
    """600 releases; coverage and bias alarm in 1e-6 of all runs of all cases."""
    groups = {"one": 1, "few": 10, "many": 300}
    domain = Domain(
        [Categorical("group", list(groups)), Numeric("x", [0, 500, 1000], integer=True)]
    )
    made = nw.plan_sums("x", [["group"]], privacy, domain)
    names = np.repeat(list(groups), list(groups.values()))
    table = pa.table({"group": names, "x": np.full(len(names), value)})
    counted = made._counted(table, made.groups.counter)
    object.__setattr__(made, "_counted", lambda data, engine: counted)
    source, trials = SeededSource(3), 600
    frames = [made._release(table, None, source).table.to_pydict() for _ in range(trials)]
    lower, upper, mean = (
        np.array([frame[name] for frame in frames], dtype=float)
        for name in ("mean_lower", "mean_upper", "mean")
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
    assert abs(np.mean(mean[:, 2]) - value) < 0.01 * 1000 + norm.isf(1e-6 / 100) * spread
    assert "left out" in made.metadata()["means"]


def test_means_with_missing_values_are_covered() -> None:
    """Who has no value adds nothing to the sum, so that a mean may lie below all bounds."""
    income = Numeric("income", [100, 200], outside="other")
    domain = Domain([Categorical("sex", ["F", "M"]), income])
    made = nw.plan_sums("income", [["sex"]], Privacy(rho=50), domain)
    table = pa.table({"sex": ["F"] * 60 + ["M"] * 60, "income": [None] * 90 + [150.0] * 30})
    frame = made._release(table, None, SeededSource(1)).to_pandas()
    for row, exact in zip(frame.to_dict("records"), (0.0, 75.0), strict=True):
        assert row["mean_lower"] <= exact <= row["mean_upper"]
        assert row["mean"] == pytest.approx(exact, abs=5)


def test_bad_sums_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="numeric"):
        nw.plan_sums("sex", BY, Privacy(rho=1), DOMAIN)
    with pytest.raises(InvalidParameter, match="group"):
        nw.plan_sums("income", [["income"]], Privacy(rho=1), DOMAIN)
    with pytest.raises(InvalidParameter, match="unit"):
        nw.plan_sums("income", BY, Privacy(rho=1), DOMAIN, unit=-1.0)


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
    base = ["sums", "--schema", str(schema), "--value", "income", "--by", "sex", "--rho", "5"]
    forecast = CliRunner().invoke(main, [*base, "--json"])
    assert forecast.exit_code == 0, forecast.stderr
    assert len(json.loads(forecast.stdout)) == 2
    out = tmp_path / "sums.csv"
    done = CliRunner().invoke(main, [*base[:1], str(table), *base[1:], "-o", str(out)])
    assert done.exit_code == 0, done.stderr
    assert out.read_text().splitlines()[0].replace('"', "").startswith("table,group,count")
    refused = CliRunner().invoke(main, [*base, "-o", str(out)])
    assert refused.exit_code == 2


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0}])
def test_everybody_together_with_one_replaced(budget: dict[str, float]) -> None:
    domain = Domain([Numeric("x", [0, 10, 20], integer=True)])
    privacy = Privacy(**budget, neighbours="replace-one")
    plan = nw.plan_sums("x", [[]], privacy, domain)
    counts, sums = plan.errors
    assert counts[0] == 0  # public, so it takes nothing from the budget of the sum
    alone = nw.plan_sums("x", [[]], Privacy(**budget), domain)
    assert sums[0] < 2 * alone.errors[1][0]
    row = plan.release(pa.table({"x": [1, 5, 19]})).to_pandas().iloc[0]
    assert row["count"] == 3
    assert row["sum_lower"] <= row["sum"] <= row["sum_upper"]


def test_metadata_states_what_the_sums_themselves_cost() -> None:
    domain = Domain([Categorical("r", ["a", "b"]), Numeric("x", [0, 10, 20], integer=True)])
    plan = nw.plan_sums("x", [["r"], []], Privacy(rho=0.5), domain)
    told = plan.metadata()
    assert told["sensitivity"]["centred_sums"] == pytest.approx(20 * told["sensitivity"]["counts"])
    assert sum(share**2 for share in told["shares"].values()) == pytest.approx(1)
    # Both parts share one budget, so each is above what the whole of it would give.
    assert 1 <= told["ratio"]["sums"] < 2
    assert 1 <= told["ratio"]["counts"] < 2
