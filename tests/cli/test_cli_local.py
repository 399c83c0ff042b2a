"""The local model from the command line: plan, randomise, estimate, compare, and wrong inputs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from noisewright.cli import main

SCHEMA = """
reviewed: true
attributes:
  - {name: age, kind: numeric, edges: [0, 18, 65, 100], integer: true}
  - {name: sex, kind: categorical, values: [F, M]}
"""
QUERIES = """
queries:
  - cdf: age
    by: sex
  - count: age >= 65
"""
LOCAL = ["--model", "local", "--epsilon", "1", "--effort", "low"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(SCHEMA)
    Path("queries.yaml").write_text(QUERIES)
    rng = np.random.default_rng(0)
    rows = zip(rng.integers(0, 100, 400), rng.choice(["F", "M"], 400), strict=True)
    Path("people.csv").write_text(
        "age,sex\n" + "\n".join(f"{a},{s}" for a, s in rows) + "\n"
    )
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_table_becomes_reports_and_reports_become_answers(here: Path) -> None:
    made = run(
        "plan",
        "--queries",
        "queries.yaml",
        "--schema",
        "schema.yaml",
        *LOCAL,
        "-o",
        "p.nw",
    )
    assert made.exit_code == 0, made.output
    assert "What others would need" in made.output
    for output in ("r.parquet", "r.csv"):
        result = run("randomize", "p.nw", "people.csv", "-o", output, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.output)["reports"] == 400
    result = run(
        "estimate",
        "p.nw",
        "r.parquet",
        "r.csv",
        "-o",
        "a.csv",
        "--aggregate",
        "all.agg",
    )
    assert result.exit_code == 0, result.output
    assert "800" in result.output
    lines = Path("a.csv").read_text().splitlines()
    assert lines[0].startswith('"table",')
    assert '"query","answer"' in lines[0]
    assert len(lines) == 1 + 7
    metadata = json.loads(Path("a.csv.meta.json").read_text())
    assert metadata["people"] == 800
    drawn = run("estimate", "p.nw", "all.agg", "--report", "page.html", "--json")
    assert json.loads(drawn.output)["report"] == "page.html"
    assert "Private estimates" in Path("page.html").read_text(encoding="utf-8")
    assert (
        "report: b.html"
        in run("estimate", "p.nw", "all.agg", "--report", "b.html").output
    )
    shown = run("estimate", "p.nw", "all.agg", "--distribution", "shares.csv")
    assert shown.exit_code == 0, shown.output
    header, *rows = Path("shares.csv").read_text().splitlines()
    shares = [float(row.rpartition(",")[2]) for row in rows]
    assert next(csv.reader([header])) == ["cell", "share"]
    assert len(shares) == 6
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1)
    again = run(
        "estimate", "p.nw", "all.agg", "--non-negative", "--population", "--json"
    )
    document = json.loads(again.output)
    assert min(document["answers"]) >= 0
    assert document["people"] == 800
    robust = ["--robust", "median:5", "--worst-case", "--json"]
    assert json.loads(run("estimate", "p.nw", "r.csv", *robust).output)["groups"] == 5
    useless = run("estimate", "p.nw", "r.csv", "--robust", "cap:6")
    assert useless.exit_code == 2
    assert "can do nothing" in useless.output


def test_json_has_the_fields_scripts_rely_on(here: Path) -> None:
    result = run(
        "plan", "prefix:8", *LOCAL, "--people", "1000", "--alpha", "0.001", "--json"
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    fields = [
        "mechanism",
        "epsilon",
        "objective",
        "objective_lower_bound",
        "sample_complexity",
        "sample_complexity_lower_bound",
        "ratio",
        "two_valued",
        "seconds",
        "bound_class",
    ]
    assert set(fields) <= set(document)
    assert document["people_needed"] == pytest.approx(
        10 * document["sample_complexity"], abs=1
    )
    assert document["shuffled"]["epsilon"] < 1
    assert document["ratio"] >= 1
    steered = [
        "--target-ratio",
        "1.5",
        "--checkpoint",
        "state",
        "--seed",
        "3",
        "--json",
    ]
    assert json.loads(run("plan", "prefix:8", *LOCAL, *steered).output)["ratio"] >= 1
    Path("prior.txt").write_text("1, 2, 3, 4\n5 6 7 8\n", encoding="utf-8")
    for error in (
        ["--prior", "prior.txt"],
        ["--objective", "average", "--norm", "inf"],
    ):
        other = json.loads(run("plan", "prefix:8", *LOCAL, *steered, *error).output)
        assert other["mechanism"] == "optimised"
    Path("prior.txt").write_text("one, two", encoding="utf-8")
    assert "prior" in run("plan", "prefix:8", *LOCAL, "--prior", "prior.txt").output
    rows = json.loads(run("compare", "prefix:8", *LOCAL, "--json").output)
    assert all(list(row) == fields for row in rows)
    needed = [row["sample_complexity"] for row in rows]
    assert needed == sorted(needed)
    assert needed[0] == pytest.approx(document["sample_complexity"])


def test_compare_shows_and_draws(here: Path) -> None:
    result = run("compare", "identity:16", *LOCAL, "--chart", "c.svg")
    assert result.exit_code == 0, result.output
    assert "subset-selection" in result.output
    assert Path("c.svg").read_text().startswith("<svg")


def test_cells_by_number_need_no_schema(here: Path) -> None:
    run(
        "plan", "identity:4", *LOCAL, "--mechanism", "randomized-response", "-o", "p.nw"
    )
    Path("cells.csv").write_text("cell\n0\n1\n3\n")
    assert run("randomize", "p.nw", "cells.csv", "-o", "r.parquet").exit_code == 0
    assert run("estimate", "p.nw", "r.parquet").exit_code == 0
    Path("cells.csv").write_text("cell\n0\n7777\n")
    result = run("randomize", "p.nw", "cells.csv", "-o", "r.parquet")
    assert result.exit_code == 2
    assert "7777" not in result.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan", "prefix:8", "--model", "local", "--epsilon", "0"], "epsilon"),
        (["plan", "prefix:8", "--model", "local", "--rho", "1"], "rho"),
        (
            ["plan", "prefix:8", *LOCAL, "--mechanism", "gaussian"],
            "not a local mechanism",
        ),
        (["plan", "identity:1", *LOCAL], "collect nothing"),
        (["plan", "prefix:8", *LOCAL, "--norm", "4"], "norm"),
        (["plan", "prefix:8", *LOCAL, "--people", "0"], "people"),
        (["plan", "prefix:8", *LOCAL, "--alpha", "-1"], "alpha"),
        (["plan", "prefix:8", *LOCAL, "--time-limit", "0"], "time_limit"),
        (["estimate", "p.nw", "absent.parquet"], "is not a file"),
        (["estimate", "p.nw", "absent.agg"], "is not a file"),
        (["estimate", "p.nw", "people.csv"], "report"),
        (["estimate", "p.nw", "empty.csv"], "no valid report"),
        (["estimate", "p.nw", "foreign.csv"], "no valid report"),
        (["estimate", "p.nw", "empty.csv", "--robust", "mean:3"], "robust"),
        (["estimate", "central.nw", "empty.csv"], "has a curator"),
        (["randomize", "central.nw", "people.csv", "-o", "r.parquet"], "has a curator"),
        (["release", "p.nw", "people.csv", "-o", "a.csv"], "has no curator"),
    ],
)
def test_wrong_inputs_get_one_message_and_code_2(
    here: Path, arguments: list[str], told: str
) -> None:
    run(
        "plan", "identity:4", *LOCAL, "--mechanism", "randomized-response", "-o", "p.nw"
    )
    run("plan", "identity:4", "--epsilon", "1", "--delta", "1e-9", "-o", "central.nw")
    Path("empty.csv").write_text("report\n")
    Path("foreign.csv").write_text("report\nd1000000000000000000\n")
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert told in result.output


def test_inputs_are_never_overwritten(here: Path) -> None:
    run("plan", "identity:6", "--mechanism", "hadamard", *LOCAL, "-o", "p.nw")
    Path("cells.csv").write_text("cell\n0\n1\n5\n")
    assert run("randomize", "p.nw", "cells.csv", "-o", "r.csv").exit_code == 0
    before = {name: Path(name).read_bytes() for name in ("p.nw", "cells.csv", "r.csv")}
    commands = [
        ("randomize", "p.nw", "cells.csv", "-o", "cells.csv"),
        ("randomize", "p.nw", "cells.csv", "-o", "./p.nw"),
        ("estimate", "p.nw", "r.csv", "-o", "r.csv"),
        ("estimate", "p.nw", "r.csv", "--aggregate", "p.nw"),
    ]
    for command in commands:
        result = run(*command)
        assert result.exit_code == 2
        assert "is read from" in result.stderr
    assert {name: Path(name).read_bytes() for name in before} == before
