"""The main job from the command line, and every wrong input it may meet."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

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
TABLE = "age,sex\n17,F\n70,M\n30,F\n"
BUDGET = ["--epsilon", "1", "--delta", "1e-9"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(SCHEMA)
    Path("queries.yaml").write_text(QUERIES)
    Path("people.csv").write_text(TABLE)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def planned() -> Result:
    return run(
        "plan",
        "--queries",
        "queries.yaml",
        "--schema",
        "schema.yaml",
        *BUDGET,
        "-o",
        "p.nw",
    )


def test_a_table_goes_in_and_private_answers_come_out(here: Path) -> None:
    assert planned().exit_code == 0
    result = run("release", "p.nw", "people.csv", "-o", "answers.csv")
    assert result.exit_code == 0, result.output
    lines = Path("answers.csv").read_text().splitlines()
    assert len(lines) == 1 + 7
    assert lines[0].startswith(
        '"table","statistic","age_from","age_to","sex","query","answer"'
    )
    metadata = json.loads(Path("answers.csv.meta.json").read_text())
    assert metadata["asked"]["delta"] == 1e-9
    assert metadata["privacy"]["epsilon"] == 1


def test_a_plan_is_drawn_with_its_runners_up(here: Path) -> None:
    result = run(
        "plan", "prefix:8", *BUDGET[:2], "--explain", "--json", "--report", "plan.html"
    )
    assert result.exit_code == 0, result.output
    others = [
        one
        for one in json.loads(result.stdout)["others"]
        if one["achieved"] is not None
    ]
    page = Path("plan.html").read_text()
    assert others
    assert all(one["mechanism"] in page for one in others)
    local = [
        "prefix:8",
        *BUDGET[:2],
        "--model",
        "local",
        "--effort",
        "low",
        "--report",
        "l.html",
    ]
    assert run("plan", *local).exit_code == 0
    assert "randomized-response" in Path("l.html").read_text()
    refused = run("plan", "--columns", "a,b", "--epsilon", "1", "--report", "rows.html")
    assert refused.exit_code != 0
    assert "report" in refused.output


def test_json_has_the_fields_scripts_rely_on(here: Path) -> None:
    result = run("plan", "prefix:64", *BUDGET, "--json")
    fields = json.loads(result.output)
    expected = {
        "mechanism", "privacy", "rmse", "max", "lower_bound", "ratio", "queries", "size", "seconds",
    }  # fmt: skip
    assert expected <= set(fields)
    assert all(bound["lower_bound"] <= fields["rmse"] for bound in fields["bounds"])
    assert fields["bounds"]
    planned()
    released = json.loads(
        run("release", "p.nw", "people.csv", "-o", "a.parquet", "--json").output
    )
    assert {"privacy", "noise", "neighbours", "strategy_hash"} <= set(released)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prefix:8", "--epsilon", "0", "--delta", "1e-9"], "epsilon=0"),
        (["prefix:8", "--epsilon", "-1", "--delta", "1e-9"], "epsilon=-1"),
        (["prefix:8", "--epsilon", "nan", "--delta", "1e-9"], "epsilon=nan"),
        (["prefix:8", "--epsilon", "1", "--delta", "1"], "delta=1"),
        (["prefix:8", "--epsilon", "1", "--delta", "1.5"], "delta=1.5"),
        (["prefix:8"], "epsilon"),
        (["nonsense:8", *BUDGET], "workload='nonsense:8'"),
        (
            ["prefix:8", "--schema", "schema.yaml", *BUDGET],
            "8 cells where the domain has 6",
        ),
        (["identity:1000000000000", *BUDGET], "1000000000000"),
        (["prefix:8", *BUDGET, "-o", "no/such/folder/p.nw"], "output="),
        (["--queries", "queries.yaml", *BUDGET], "schema"),
        (["prefix:8", "--error", "median", *BUDGET], "error='median'"),
        (["prefix:8", "--mechanism", "magic", *BUDGET], "mechanism='magic'"),
    ],
)
def test_wrong_plans_exit_2_with_the_rule(
    here: Path, arguments: list[str], message: str
) -> None:
    before = sorted(here.iterdir())
    result = run("plan", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert sorted(here.iterdir()) == before


def test_duplicate_attribute_names_are_refused(here: Path) -> None:
    doubled = SCHEMA + "  - {name: age, kind: boolean}\n"
    Path("schema.yaml").write_text(doubled)
    result = planned()
    assert result.exit_code == 2
    assert "age" in result.stderr
    assert not Path("p.nw").exists()


@pytest.mark.parametrize(
    ("table", "message", "private"),
    [
        ("age,gender\n17,F\n", "sex", "17"),
        ("age,sex\n170,F\n", "age", "170"),
        ("age,sex\n17,Q\n", "sex", "Q"),
        ("age,sex\nabc,F\n", "age", "abc"),
    ],
)
def test_tables_that_do_not_fit_are_refused_without_a_value(
    here: Path, table: str, message: str, private: str
) -> None:
    planned()
    Path("people.csv").write_text(table)
    before = sorted(here.iterdir())
    result = run("release", "p.nw", "people.csv", "-o", "answers.csv")
    assert result.exit_code == 2
    assert message in result.stderr
    assert private not in result.stderr
    assert sorted(here.iterdir()) == before


def test_an_empty_table_is_a_valid_secret(here: Path) -> None:
    planned()
    Path("people.csv").write_text("age,sex\n")
    assert run("release", "p.nw", "people.csv", "-o", "answers.csv").exit_code == 0


def test_a_truncated_plan_and_an_unwritable_output_are_refused(here: Path) -> None:
    planned()
    result = run("release", "p.nw", "people.csv", "-o", "no/such/answers.csv")
    assert result.exit_code == 2
    assert "output=" in result.stderr
    content = Path("p.nw").read_bytes()
    Path("p.nw").write_bytes(content[: len(content) // 2])
    result = run("release", "p.nw", "people.csv", "-o", "answers.csv")
    assert result.exit_code == 2
    assert "p.nw" in result.stderr
    assert not Path("answers.csv").exists()


def test_nothing_is_counted_when_the_record_cannot_be_written(here: Path) -> None:
    planned()
    Path("answers.csv.meta.json").mkdir()
    result = run("release", "p.nw", "absent.csv", "-o", "answers.csv")
    assert result.exit_code == 2
    assert "meta.json" in result.stderr


@pytest.mark.parametrize("output", ["people.csv", "./p.nw"])
def test_inputs_are_never_overwritten(here: Path, output: str) -> None:
    planned()
    result = run("release", "p.nw", "people.csv", "-o", output)
    assert result.exit_code == 2
    assert "is read from" in result.stderr
    assert Path("people.csv").read_text() == TABLE


def test_a_draft_schema_cannot_be_planned_from(here: Path) -> None:
    Path("schema.yaml").write_text(SCHEMA.replace("reviewed: true", "reviewed: false"))
    result = planned()
    assert result.exit_code == 2
    assert "reviewed" in result.stderr


@pytest.mark.parametrize("output", ["a.xlsx", "a.XLSX", "a.ods", "a.csv.gz", "a.json"])
def test_formats_that_are_not_written_are_refused_before_anything_else(
    here: Path, output: str
) -> None:
    """Also where a release of the name is there: no file is named like what it does not hold."""
    planned()
    Path("a.nwr").write_bytes(b"")
    for more in ([output], ["b.csv", "--synthetic", "5", output]):
        result = run("release", "p.nw", "people.csv", "-o", *more)
        assert result.exit_code == 2
        assert "would hold CSV" in result.stderr
        assert ".parquet; nothing was spent" in result.stderr
    assert not Path(output).exists()
    assert not Path(f"{output}.meta.json").exists()


def test_answers_below_one_are_printed_with_the_digits_that_their_errors_allow(
    here: Path,
) -> None:
    """A share of 0.1234 ± 0.001 is not `0.1 0.1 … 0.1`: both ends of an interval can be told."""
    schema = "attributes: [{name: x, kind: numeric, edges: [0, 0.5, 1], outside: clip}]"
    Path("shares.yaml").write_text(f"reviewed: true\n{schema}\n")
    Path("means.yaml").write_text("queries: [{mean: x, unit: 0.001}]")
    Path("x.csv").write_text("x\n" + "0.125\n" * 50_000)
    asked = [
        "plan",
        "--queries",
        "means.yaml",
        "--schema",
        "shares.yaml",
        "--epsilon",
        "1",
    ]
    assert run(*asked, "-o", "m.nw").exit_code == 0
    told = run("release", "m.nw", "x.csv", "-o", "m.csv").stdout
    low, high = re.search(r"total +[\d.]+ +([\d.]+) … ([\d.]+)", told).groups()
    assert low != high
    assert len(low) > 4


def test_intervals_are_printed_as_they_are_written(here: Path) -> None:
    planned()
    result = run("release", "p.nw", "people.csv", "-o", "a.csv", "--non-negative")
    with Path("a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    printed = re.findall(r"([\d.,]+) … ([\d.,]+) +([\d.,]+) … ([\d.,]+)", result.stdout)
    assert len(printed) == len(rows) == 7
    for row, told in zip(rows, printed, strict=True):
        for name, figure in zip(
            ("lower", "upper", "lower_all", "upper_all"), told, strict=True
        ):
            digits = len(figure.partition(".")[2])
            assert digits >= 1
            assert figure == f"{float(row[name]):,.{digits}f}"
    assert " -" not in result.stdout.split("all at once")[1]


def test_quantiles_are_written_beside_the_answers(here: Path) -> None:
    planned()
    levels = ["--quantile", "0.25", "--quantile", "0.5"]
    assert run("release", "p.nw", "people.csv", "-o", "a.csv", *levels).exit_code == 0
    with Path("a.csv.quantiles.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "table",
        "attribute",
        "group",
        "level",
        "estimate",
        "lower",
        "upper",
    ]
    assert [(row["group"], float(row["level"])) for row in rows] == [
        (f"sex = {sex}", level) for sex in "FM" for level in (0.25, 0.5)
    ]
    assert all(0 <= float(r["lower"]) <= float(r["upper"]) <= 100 for r in rows)


def test_made_up_rows_are_written_beside_the_answers(here: Path) -> None:
    planned()
    result = run(
        "release",
        "p.nw",
        "people.csv",
        "-o",
        "a.csv",
        "--synthetic",
        "40",
        "rows.csv",
        "--json",
    )
    assert result.exit_code == 0
    assert "made up" in json.loads(result.stdout)["synthetic_note"]
    with Path("rows.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 40
    refused = run(
        "release", "p.nw", "people.csv", "-o", "b.csv", "--synthetic", "0", "r.csv"
    )
    assert refused.exit_code == 2
    assert not Path("b.csv").exists()
