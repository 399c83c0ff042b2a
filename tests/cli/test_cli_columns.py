"""Second moments and pairs of columns on the command line: no cells, one budget."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import noisewright as nw
from noisewright.cli import main

MOMENTS = ("plan", "--columns", "height,weight,age", "--radius", "1", "--epsilon", "5")
PAIRS = ("plan", "conjunctions:20:2", "--columns", "@names.txt", "--epsilon", "1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    height = rng.normal(0, 0.3, 5000)
    weight = 0.5 * height + rng.normal(0, 0.1, 5000)
    columns = {"height": height, "weight": weight, "age": rng.normal(0, 0.2, 5000)}
    pd.DataFrame(columns).to_csv("t.csv", index=False)
    names = [f"q{i}" for i in range(20)]
    binary = (rng.normal(size=(800, 1)) + rng.normal(size=(800, 20)) > 0).astype(int)
    pd.DataFrame(binary, columns=names).to_parquet("b.parquet")
    Path("names.txt").write_text("\n".join(names) + "\n")


def test_moments_are_planned_released_and_regressed() -> None:
    planned = json.loads(
        run(*MOMENTS, "--people", "5000", "-o", "m.nw", "--json").output
    )
    assert planned["columns"] == ["height", "weight", "age"]
    assert (
        planned["expected"]["covariance"] < planned["expected"]["covariance_by_halves"]
    )
    told = json.loads(run("release", "m.nw", "t.csv", "-o", "m.csv", "--json").output)
    release, frame = nw.load(told["kept"]), pd.read_csv("m.csv")
    written = frame.set_index(["statistic", "first", "second"])["value"]
    assert written["covariance", "height", "weight"] == pytest.approx(
        release.covariance[0, 1]
    )
    assert len(frame) == 6 + 3 + 6
    record = json.loads(Path("m.csv.meta.json").read_text())
    assert record["release"] == release.identity
    assert record["spend"]["losses"][0]["epsilon"] == 5
    fit = run("answer", "m.nwr", "--regress", "weight", "--on", "height", "--json")
    first = json.loads(fit.output)["coefficients"][0]
    assert first["term"] == "height"
    assert first["coefficient"] == pytest.approx(0.5, abs=0.05)
    assert first["lower"] < first["coefficient"] < first["upper"]


def test_pairs_of_many_columns_are_sent_to_second_moments() -> None:
    planned = json.loads(run(*PAIRS, "-o", "p.nw", "--json").output)
    assert planned["mechanism"] == "second-moments"
    assert planned["queries"] == 190
    assert run("plan", "conjunctions:200:2", "--epsilon", "1", "--json").exit_code == 0
    result = run("release", "p.nw", "b.parquet", "-o", "p.parquet")
    assert result.exit_code == 0, result.output
    frame = pd.read_parquet("p.parquet")
    assert len(frame) == 210
    assert frame["share"].between(0, 1).all()


def test_a_ledger_is_charged_once_and_a_dry_run_spends_nothing() -> None:
    run(*PAIRS, "-o", "p.nw")
    run("ledger", "create", "b.db", "people", "--epsilon", "3")
    charged = ("--ledger", "b.db", "--dataset", "people")
    dry = json.loads(
        run(
            "release",
            "p.nw",
            "b.parquet",
            "-o",
            "p.csv",
            *charged,
            "--dry-run",
            "--json",
        ).output
    )
    assert dry["columns_read"] == 20
    assert not Path("p.csv").exists()
    assert run("release", "p.nw", "b.parquet", "-o", "p.csv", *charged).exit_code == 0
    again = run(
        "release", "p.nw", "b.parquet", "-o", "q.csv", *charged, "--again", "stored"
    )
    assert again.exit_code == 0
    assert Path("q.csv").read_text() == Path("p.csv").read_text()
    shown = json.loads(run("ledger", "show", "b.db", "--json").output)
    assert "0.33" in json.dumps(shown)  # ε = 1 of 3, once


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("plan", "--columns", "a,b", "--epsilon", "1"), "radius must be given"),
        (("plan", "prefix:4", "--radius", "1", "--epsilon", "1"), "goes with --columns"),
        (("plan", "prefix:4", "--columns", "a,b", "--epsilon", "1"), "conjunctions of 2"),
        ((*PAIRS, "--radius", "2"), "length of their own"),
        ((*MOMENTS, "--mechanism", "laplace"), "does not go with second moments"),
        (("plan", "conjunctions:20:2", "--columns", "a,b", "--epsilon", "1"), "must be the 20"),
        (("plan", "--columns", "@none.txt", "--radius", "1", "--epsilon", "1"), "file of text"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(
    arguments: tuple[str, ...], rule: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert rule in result.output


def test_options_over_cells_are_refused_before_anything_is_spent() -> None:
    run(*MOMENTS, "-o", "m.nw")
    result = run("release", "m.nw", "t.csv", "-o", "m.csv", "--non-negative")
    assert result.exit_code == 2
    assert "measures columns" in result.output
    assert not Path("m.csv").exists()
    run("release", "m.nw", "t.csv", "-o", "m.csv")
    assert "cells were not counted" in run("answer", "m.nwr", "prefix:3").output
    assert run("answer", "m.nwr", "--on", "height").exit_code == 2


def test_rows_that_lack_a_value_are_left_out_unless_zero_is_said() -> None:
    rows = ["a,b", *["0.5,0.5"] * 300, *["0.5,"] * 100, *["0.5,unknown"] * 100]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    means = {}
    for words in ((), ("--missing", "zero")):
        name = "-".join(("m", *words))
        plan = ("plan", "--columns", "a,b", "--radius", "1", "--epsilon", "1e4")
        assert run(*plan, *words, "-o", f"{name}.nw").exit_code == 0
        assert run("release", f"{name}.nw", "t.csv", "-o", f"{name}.csv").exit_code == 0
        told = pd.read_csv(f"{name}.csv").query("statistic == 'mean'")
        means[words] = list(told["value"])
    assert means[()] == pytest.approx([0.5, 0.5], abs=0.01)
    assert means["--missing", "zero"] == pytest.approx([0.5, 0.3], abs=0.01)
    refused = run("plan", "conjunctions:20:2", "--missing", "zero", "--epsilon", "1")
    assert refused.exit_code == 2
