"""`compare` and `plan --target…` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisewright.cli import main


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_compare_prints_json_rows_and_a_table() -> None:
    code, out, _ = run("compare", "prefix:8", "--rho", "0.5", "--json")
    assert code == 0
    rows = json.loads(out)
    figures = {
        "mechanism",
        "rmse",
        "max",
        "lower_bound",
        "ratio",
        "bound_class",
        "bounds",
        "seconds",
    }
    assert figures | {"errors"} == set(rows[0])
    assert {row["errors"] for row in rows} == {"exact"}
    assert rows[0]["rmse"] <= rows[-1]["rmse"]
    code, out, _ = run("compare", "prefix:8", "--epsilon", "1")
    assert code == 0
    assert "laplace-strategy" in out


@pytest.mark.parametrize("suffix", ["html", "svg"])
def test_compare_draws(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"chart.{suffix}"
    code, _, _ = run("compare", "prefix:8", "--rho", "1", "--chart", str(path))
    assert code == 0
    drawn = path.read_text(encoding="utf-8")
    assert "linear strategies under this noise" in drawn
    assert "gaussian-strategy" in drawn
    assert "cdn.jsdelivr.net" not in drawn


def test_charts_have_a_known_format(tmp_path: Path) -> None:
    code, _, err = run(
        "compare", "prefix:8", "--rho", "1", "--chart", str(tmp_path / "chart.jpg")
    )
    assert code == 2
    assert "svg" in err


def test_plan_finds_the_budget_for_targets() -> None:
    code, out, _ = run("plan", "prefix:8", "--target-rmse", "25", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["rmse"] == pytest.approx(25, rel=1e-6)
    assert found["privacy"]["kind"] == "zcdp"
    assert "25" in found["binding"]
    rho = found["privacy"]["rho"]
    code, out, _ = run("plan", "prefix:8", "--rho", repr(rho), "--json")
    assert json.loads(out)["rmse"] == pytest.approx(25, rel=1e-6)


@pytest.mark.parametrize(
    ("extra", "kind"),
    [
        (["--pure"], "pure"),
        # noise for pure ε keeps any δ, with a smaller ε here
        (["--delta", "1e-9"], "pure"),
        (["--delta", "1e-9", "--composition", "many"], "approximate"),
    ],
)
def test_other_kinds_of_budget(extra: list[str], kind: str) -> None:
    code, out, _ = run("plan", "prefix:4", "--target-max", "10", "--json", *extra)
    assert code == 0
    found = json.loads(out)
    assert found["privacy"]["kind"] == kind
    assert found["max"] <= 10 * (1 + 1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        ["--target-rmse", "25", "--rho", "1"],
        ["--target-rmse", "-1"],
        ["--target-rmse", "1e-12"],
        ["--target", "nowhere: 5"],
        ["--target", "5% of"],
        ["--target-rmse", "25", "--pure", "--delta", "1e-9"],
        [],
    ],
)
def test_bad_targets_are_refused_in_one_line(bad: list[str]) -> None:
    code, _, err = run("plan", "prefix:8", *bad)
    assert code == 2
    assert err.startswith("error:")
    assert "Traceback" not in err


def test_no_bound_is_unknown_below_one_that_is_printed() -> None:
    """So many tables have no bound for all noise; a packing of data sets limits everybody."""
    asked = ("conjunctions:100:1", "--epsilon", "1", "--neighbours", "replace-one")
    code, out, _ = run("compare", *asked, "--people", "500")
    assert code == 0
    assert "packing of their data sets" in out
    assert "no bound known" not in out
    code, out, _ = run("compare", *asked)
    assert code == 0
    assert "no bound known" in out


def test_a_composition_decides_between_kinds_of_noise() -> None:
    budget = ("prefix:8", "--epsilon", "1", "--delta", "1e-9", "--json")
    one, many = (
        json.loads(run("plan", *budget, *extra)[1])
        for extra in ([], ["--composition", "many"])
    )
    assert one["privacy"]["kind"] == "pure"
    assert one["asked"] == many["privacy"]
    assert one["rmse"] < many["rmse"]
    assert one["spends"]["rho"] > many["spends"]["rho"]
    code, out, _ = run("plan", *budget[:-1], "--explain")
    assert code == 0
    assert "where ρ adds up" in " ".join(out.split())
    rows = {row["mechanism"] for row in json.loads(run("compare", *budget)[1])}
    assert {"carry", "gaussian-strategy"} <= rows


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "prefix:8", "--epsilon", "1", "--composition", "many"],
        ["compare", "prefix:8", "--rho", "1", "--composition", "many"],
        [
            "plan",
            "prefix:8",
            "--epsilon",
            "1",
            "--model",
            "local",
            "--composition",
            "many",
        ],
        [
            "compare",
            "prefix:8",
            "--epsilon",
            "1",
            "--model",
            "local",
            "--composition",
            "one",
        ],
        [
            "plan",
            "--columns",
            "a,b",
            "--radius",
            "1",
            "--epsilon",
            "1",
            "--composition",
            "many",
        ],
        ["plan", "prefix:8", "--target-rmse", "5", "--composition", "many"],
    ],
    ids=" ".join,
)
def test_a_composition_is_refused_where_it_says_nothing(arguments: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "composition" in err
