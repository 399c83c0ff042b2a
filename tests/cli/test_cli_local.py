from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from noisewright.cli import main


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def cells(tmp_path):
    path = tmp_path / "people.parquet"
    values = np.random.default_rng(0).integers(0, 16, 500)
    pq.write_table(pa.table({"cell": values}), path)
    return path


def test_plan_randomize_estimate(tmp_path, cells):
    plan, reports = tmp_path / "p.nw", tmp_path / "r.parquet"
    options = ["--model", "local", "--epsilon", 2, "--people", 500, "--alpha", 0.1]
    planned = json.loads(run("plan", "prefix:16", *options, "-o", plan, "--json").stdout)
    assert planned["people_needed"] == pytest.approx(planned["sample_complexity"] / 10)
    assert planned["rmse"] <= planned["worst_rmse"] * 1.000001
    made = json.loads(run("randomize", plan, cells, "-o", reports, "--json").stdout)
    assert made["reports"] == 500
    answers, aggregate = tmp_path / "a.csv", tmp_path / "x.agg"
    found = json.loads(
        run("estimate", plan, reports, "-o", answers, "--aggregate", aggregate, "--json").stdout
    )
    assert found["people"] == 500
    assert len(found["answers"]) == 16
    assert "answer" in answers.read_text().splitlines()[0]
    twice = json.loads(run("estimate", plan, aggregate, aggregate, "--json").stdout)
    assert twice["people"] == 1000
    np.testing.assert_allclose(twice["answers"], 2 * np.array(found["answers"]))


def test_what_people_see(tmp_path, cells):
    plan, reports = tmp_path / "p.nw", tmp_path / "r.csv"
    shown = run(
        "plan", "prefix:16", "--model", "local", "--epsilon", 1, "--people", 999, "-o", plan
    )
    assert "Runners-up" in shown.stdout
    assert "if shuffled" in shown.stdout
    assert "500" in run("randomize", plan, cells, "-o", reports).stdout
    shown = run("estimate", plan, reports, "--population", "--nonnegative", "--groups", 5)
    assert "[0..1]" in shown.stdout


def test_compare(tmp_path):
    chart = tmp_path / "c.svg"
    options = ["--model", "local", "--epsilon", 1]
    rows = json.loads(run("compare", "prefix:16", *options, "--json", "--chart", chart).stdout)
    assert rows[0]["ratio"] >= 1
    assert {"mechanism", "sample_complexity", "sample_complexity_lower_bound"} <= set(rows[0])
    assert chart.read_text().startswith("<svg")
    assert "hierarchical" in run("compare", "prefix:16", *options).stdout


def test_mistakes_are_told_without_values(tmp_path, cells):
    plan, reports = tmp_path / "p.nw", tmp_path / "r.parquet"
    run("plan", "prefix:8", "--model", "local", "--epsilon", 1, "-o", plan)
    told = run("randomize", plan, cells, "-o", reports, code=2).stderr
    assert "outside its declared cells" in told
    assert not reports.exists()
    run("estimate", plan, tmp_path / "none.parquet", code=2)
    central = tmp_path / "c.nw"
    run("plan", "prefix:8", "--epsilon", 1, "-o", central)
    assert "curator" in run("randomize", central, cells, "-o", reports, code=2).stderr
