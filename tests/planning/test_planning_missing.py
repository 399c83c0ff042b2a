"""Numbers that some people lack: means are of those who have one, and nobody moves them too far."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from click.testing import CliRunner
from scipy.stats import binom

import noisewright as nw
from noisewright.cli import main
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.promise.budget import NEIGHBOURS
from noisewright.workload.questions.measures import (
    COUNT,
    CentredSquares,
    CentredSum,
    Measure,
    Respondents,
    WeightedRespondents,
    WeightedSum,
)
from noisewright.workload.questions.statistics import Column
from oracles.plan_parts import read_parts, write_parts
from oracles.privacy_oracles import SeededSource

HOURS = nw.Numeric("hours", (10, 60), outside="clip", missing="other")
DOMAIN = nw.Domain(
    [nw.Categorical("sex", ("F", "M")), HOURS, nw.Numeric("w", (0, 4), outside="clip")]
)


def people(count: int, share: float, seed: int = 0) -> pa.Table:
    """So many people, of whom a share answers: those with few hours the least often."""
    rng = np.random.default_rng(seed)
    sex, hours = rng.choice(["F", "M"], count), rng.integers(10, 61, count)
    answers = rng.random(count) < share * (0.5 + hours / 70)
    values = [
        int(h) if answered else None for h, answered in zip(hours, answers, strict=True)
    ]
    weights = rng.uniform(0, 4, count).round(2)
    return pa.table({"sex": sex, "hours": pa.array(values, pa.int64()), "w": weights})


def planned(
    queries: list[dict[str, Any]], privacy: nw.Privacy, **rest: Any
) -> CentralPlan:
    asked = nw.Workload.from_spec({"queries": queries}, DOMAIN)
    return nw.plan(asked, privacy, nw.Central(**rest))


def released(
    plan: CentralPlan, table: pa.Table, runs: int, seed: int
) -> Iterator[Column]:
    """Releases of a table that is counted once."""
    counts, source = plan.exact(table), SeededSource(seed)
    for _ in range(runs):
        yield plan.outcome(plan.mechanism.measure(counts, source), ())


OF_NUMBERS = [
    {"mean": "hours", "by": "sex"},
    {"mean": "hours", "by": "sex", "weight": "w"},
    {"variance": "hours"},
    {"sum": "hours"},
]


def truth(table: pa.Table, missing: str) -> np.ndarray:
    """By definition, from the rows."""
    frame = table.to_pandas()
    frame = frame.dropna() if missing == "left-out" else frame.fillna({"hours": 0})
    groups = [frame[frame.sex == sex] for sex in "FM"]
    means = [group.hours.mean() for group in groups]
    weighted = [(group.w * group.hours).sum() / group.w.sum() for group in groups]
    return np.array([*means, *weighted, frame.hours.var(ddof=0), frame.hours.sum()])


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("missing", ["left-out", "zero"])
def test_answers_are_of_those_who_have_a_value(missing: str, neighbours: str) -> None:
    """At ρ = 1e6 what is left of the noise is beyond the fourth digit."""
    table = people(4000, 0.7)
    queries = [{**query, "missing": missing} for query in OF_NUMBERS]
    plan = planned(queries, nw.Privacy(rho=1e6, neighbours=neighbours))
    np.testing.assert_allclose(
        plan.release(table).answers, truth(table, missing), rtol=1e-4
    )


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 2.0}], ids=str)
def test_intervals_cover_those_who_have_a_value(
    budget: dict[str, float], neighbours: str
) -> None:
    """300 releases a case; an alarm in 1e-6 of all runs of all cases. Zeros are far outside."""
    table, runs = people(3000, 0.7), 300
    plan = planned(OF_NUMBERS, nw.Privacy(**budget, neighbours=neighbours))
    true, zeros = truth(table, "left-out"), truth(table, "zero")
    inside = np.zeros((2, len(true)))
    for column in released(plan, table, runs, 5):
        low, high = column.each
        inside += [(low <= values) & (values <= high) for values in (true, zeros)]
    assert inside[0].min() >= binom.ppf(1e-6 / (4 * len(true)), runs, 0.95)
    assert inside[1, :5].max() == 0
    notes = plan.record()["notes"]
    assert all("who have a value" in note for note in notes.values())


# --- what one person moves ------------------------------------------------------------------------

VALUES = (None, 10, 35, 60)
WEIGHTS = (0.0, 4.0)


def added(measure: Measure, value: int | None, weight: float) -> int:
    """What one person adds, from the definition; weights in their own units of 0.001."""
    if measure == COUNT:
        return 1
    if isinstance(measure, WeightedRespondents | WeightedSum):
        second = (
            measure.holds
            if isinstance(measure, WeightedRespondents)
            else measure.number
        )
        return round(weight / measure.weight.unit) * added(second, value, weight)
    if value is None:
        return 0
    if isinstance(measure, Respondents):
        return 1
    centred = 2 * value - 70
    if isinstance(measure, CentredSquares):
        return 2 * centred**2 - 50**2
    assert isinstance(measure, CentredSum)
    return centred


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0}], ids=str)
def test_every_part_is_moved_by_what_it_states_and_no_more(
    budget: dict[str, float], neighbours: str
) -> None:
    """All neighbours of one person over groups, values and weights: the largest move, exactly."""
    queries = [
        {"mean": "hours", "by": "sex"},
        {"mean": "hours"},
        {"variance": "hours", "by": "sex"},
        {"mean": "hours", "by": "sex", "weight": "w"},
        {"mean": "hours", "weight": "w"},
    ]
    privacy = nw.Privacy(**budget, neighbours=neighbours)
    # carry noise: its own tests
    mechanism = "laplace-strategy" if "epsilon" in budget else "auto"
    plan = planned(queries, privacy, mechanism=mechanism)
    order = 1 if "epsilon" in budget else 2
    kinds = set()
    for part in plan.mechanism.parts:
        (measure,) = {table.measure for table in part.tables}
        kinds.add(type(measure))
        states = [np.zeros(len(measured(part, measure, "F", None, 0.0)))]
        states += [
            measured(part, measure, *own) for own in product("FM", VALUES, WEIGHTS)
        ]
        pairs = combinations_with_replacement(states[1:], 2)
        if neighbours == "add-remove":
            pairs = ((states[0], one) for one in states[1:])
        moved = max(float(np.linalg.norm(a - b, order)) for a, b in pairs)
        assert moved == pytest.approx(part.sensitivity, rel=1e-12)
    assert kinds >= {
        Respondents,
        CentredSum,
        CentredSquares,
        WeightedRespondents,
        WeightedSum,
    }
    assert (
        plan.spend.promise().rho <= 0.5
        if order == 2
        else plan.spend.promise().epsilon <= 1
    )


def measured(
    part: Any, measure: Measure, sex: str, value: int | None, weight: float
) -> np.ndarray:
    """What a person alone makes of the measurements of a part, in relative scales."""
    cell = "FM".index(sex), len(HOURS.labels) - 1 if value is None else 0, 0
    counts = {}
    for table in part.tables:
        sizes = [DOMAIN.shape[i] for i in table.attributes]
        content = np.zeros(sizes, dtype=np.int64)
        content[tuple(cell[i] for i in table.attributes)] = added(
            measure, value, weight
        )
        counts[table] = content.ravel()
    blocks = zip(part.exact(counts), part.laws, strict=True)
    return np.concatenate(
        [exact * (part.law.scale / law.scale) for exact, law in blocks]
    )


# --- nothing changes where nobody lacks a value ---------------------------------------------------


def test_without_a_cell_for_missing_values_nothing_is_added(tmp_path: Path) -> None:
    domain = nw.Domain([DOMAIN["sex"], nw.Numeric("hours", (10, 60), outside="clip")])
    files = []
    for missing in ("left-out", "zero"):
        plan = nw.plan(
            nw.Sums("hours", [["sex"]], domain, missing=missing), nw.Privacy(rho=1)
        )
        measures = {table.measure for table in plan.mechanism.tables}
        assert measures == {COUNT, CentredSum("hours", 1.0, 10, 60)}
        plan.save(tmp_path / "p.nw")
        content, _ = read_parts(tmp_path / "p.nw")
        files.append(content["strategy"])
        assert {
            part["content"].get("missing") for part in content["strategy"]["members"]
        } == {
            None,
            False,
        }
    assert files[0] == files[1]


# --- files from before, and forged ones -----------------------------------------------------------


def old_file(path: Path, queries: list[dict[str, Any]] = OF_NUMBERS[:1]) -> None:
    """A plan as it was written when a missing value was zero without a word."""
    asked = [{**query, "missing": "zero"} for query in queries]
    planned(asked, nw.Privacy(rho=1)).save(path)
    content, arrays = read_parts(path)
    spec = content["workload"]["queries"]
    assert "missing: zero" in spec
    content["workload"]["queries"] = spec.replace("  missing: zero\n", "")
    write_parts(path, content, arrays)


def test_plans_from_before_keep_their_meaning_and_say_so(tmp_path: Path) -> None:
    old_file(tmp_path / "old.nw")
    plan, table = nw.load(tmp_path / "old.nw"), people(4000, 0.7)
    assert "missing" not in plan.workload.spec
    assert (
        "counts as one person with zero"
        in plan.record()["notes"]["mean of hours by sex"]
    )
    release = plan.release(table)
    np.testing.assert_allclose(release.answers, truth(table, "zero")[:2], atol=1)
    for thing in (plan, release):  # and still do when they are written again
        thing.save(tmp_path / "again.nw")
        again = nw.load(tmp_path / "again.nw")
        plan_again = getattr(again, "plan", again)
        assert plan_again.record()["notes"] == plan.record()["notes"]


@pytest.mark.parametrize("value", [False, True, "left-out", "zero", 1, None])
def test_files_cannot_change_who_is_summed(tmp_path: Path, value: object) -> None:
    path = tmp_path / "p.nw"
    planned(OF_NUMBERS[:1], nw.Privacy(rho=1)).save(path)
    content, arrays = read_parts(path)
    (stored,) = [
        m for m in content["strategy"]["members"] if m["content"]["measure"] == "sum"
    ]
    assert stored["content"]["missing"] == "left-out"
    stored["content"]["missing"] = value
    write_parts(path, content, arrays)
    if value == "left-out":
        assert nw.load(path).spend.promise().rho <= 1
        return
    with pytest.raises(NoisewrightError, match="plan again"):
        nw.load(path)


# --- words ----------------------------------------------------------------------------------------


def test_what_cannot_be_said_of_missing_values_is_refused() -> None:
    for query in ({"marginal": "sex"}, {"quantiles": "hours"}, {"cdf": "hours"}):
        with pytest.raises(
            InvalidParameter, match="is said of sum, mean, variance alone"
        ):
            planned([{**query, "missing": "zero"}], nw.Privacy(rho=1))
    for wrong in ("none", 0, True, None, ["zero"]):
        with pytest.raises(InvalidParameter, match="must be left-out or zero"):
            planned([{"mean": "hours", "missing": wrong}], nw.Privacy(rho=1))


def test_the_builder_and_the_command_line_say_it_too(tmp_path: Path) -> None:
    table, bounds = people(4000, 0.7), (10, 60)
    for missing, said in (("other", "left-out"), ("zero", "zero")):
        asked = nw.table(table).mean("hours", bounds=bounds, unit=1, missing=missing)
        answers = asked.by(sex=["F", "M"]).release(nw.Privacy(rho=1e6)).answers
        np.testing.assert_allclose(answers[:2], truth(table, said)[:2], rtol=1e-3)
    schema, out = tmp_path / "s.yaml", tmp_path / "sums.csv"
    schema.write_text(DOMAIN.to_yaml())
    csv.write_csv(table, tmp_path / "t.csv")
    base = [
        "sums",
        str(tmp_path / "t.csv"),
        "--schema",
        str(schema),
        "--value",
        "hours",
    ]
    base += ["--by", "sex", "--rho", "1e6", "-o", str(out), "--force"]
    for words, said in (([], "left-out"), (["--missing", "zero"], "zero")):
        done = CliRunner().invoke(main, [*base, *words])
        assert done.exit_code == 0, done.stderr
        rows = csv.read_csv(out).to_pandas()
        means = rows[rows.statistic == "mean of hours"].answer
        np.testing.assert_allclose(means, truth(table, said)[:2], rtol=1e-3)
    assert CliRunner().invoke(main, [*base, "--missing", "none"]).exit_code == 2
