"""Tables on the command line: several files, folders as Arrow and Spark write them, a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from noisewright.cli import main
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.tables.counter import DuckDBCounter

SCHEMA = """
reviewed: true
attributes:
  - {name: age, kind: numeric, edges: [0, 18, 65, 100], integer: true}
  - {name: sex, kind: categorical, values: ["1", "2"]}
"""
PEOPLE = pa.table({"age": [17, 70, 30, 31, 5], "sex": ["1", "2", "1", "1", "2"]})


def run(*arguments: str, **options: bytes) -> Result:
    return CliRunner().invoke(main, list(arguments), **options)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(SCHEMA)
    folder, by_sex = Path("folder"), Path("by-sex")
    (folder / "deeper").mkdir(parents=True)
    pq.write_table(PEOPLE[:2], folder / "a.parquet")
    pq.write_table(PEOPLE[2:], folder / "deeper" / "b.parquet")
    (folder / "_SUCCESS").touch()
    pq.write_to_dataset(PEOPLE, by_sex, partition_cols=["sex"])
    pa.csv.write_csv(PEOPLE[:1], "a.csv")
    pa.csv.write_csv(PEOPLE[1:], "b.csv")
    pq.write_table(PEOPLE, "all.parquet")


@pytest.mark.parametrize(
    "source",
    ["all.parquet", "folder", "by-sex", ["a.csv", "b.csv"], ["folder"], "*.csv"],
)
def test_every_source_counts_everybody_once(source: str | list[str]) -> None:
    counts = DuckDBCounter().marginals(
        source, Domain.from_yaml("schema.yaml"), [("age", "sex")]
    )
    assert counts[0].tolist() == [1, 1, 2, 0, 0, 1]


def test_folders_with_anything_else_in_them_are_refused() -> None:
    domain = Domain.from_yaml("schema.yaml")
    for name in ("folder/readme.md", "folder/c.csv"):
        Path(name).write_text("age,sex\n1,1\n")
        with pytest.raises(InvalidParameter, match=r"must end in one of|of one format"):
            DuckDBCounter().marginals("folder", domain, [("age",)])
        Path(name).unlink()
    Path("empty").mkdir()
    with pytest.raises(InvalidParameter, match="without files"):
        DuckDBCounter().marginals("empty", domain, [("age",)])
    with pytest.raises(InvalidParameter, match="each person counts once"):
        DuckDBCounter().marginals(["folder", "folder/a.parquet"], domain, [("age",)])


def plan() -> None:
    Path("queries.yaml").write_text("queries:\n  - cdf: age\n")
    asked = ["--queries", "queries.yaml", "--schema", "schema.yaml"]
    assert run("plan", *asked, "--rho", "500000", "-o", "p.nw").exit_code == 0


@pytest.mark.parametrize("tables", [["a.csv", "b.csv"], ["folder"]], ids=" ".join)
def test_releases_take_several_tables_and_draw_a_report(tables: list[str]) -> None:
    plan()
    done = run(
        "release", "p.nw", *tables, "-o", "out.csv", "--report", "out.html", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["report"] == "out.html"
    assert "age up to 0–17" in Path("out.html").read_text(encoding="utf-8")
    # The standard error is 0.001 people: 0.1 is a hundred of them.
    answers = pa.csv.read_csv("out.csv")["answer"].to_pylist()
    assert answers == pytest.approx([2, 4, 5], abs=0.1)
    refused = run("release", "p.nw", *tables, "-o", "more.csv", "--report", "out.html")
    assert (refused.exit_code, "exists" in refused.stderr) == (2, True)
    refused = run(
        "release", "p.nw", *tables, "-o", "more.csv", "--report", "no/where.html"
    )
    assert refused.exit_code == 2
    assert not Path("more.csv.meta.json").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_standard_input_is_a_table_that_touches_no_disk(kind: str) -> None:
    plan()
    content = Path("all.parquet").read_bytes()
    if kind == "csv":
        pa.csv.write_csv(PEOPLE, "all.csv")
        content = Path("all.csv").read_bytes()
    command = [
        sys.executable,
        "-m",
        "noisewright",
        "release",
        "p.nw",
        "-",
        "-o",
        f"{kind}.csv",
    ]
    Path("temporary").mkdir()
    environment = os.environ | {"TMPDIR": str(Path("temporary").resolve())}
    subprocess.run(
        command, input=content, check=True, capture_output=True, env=environment
    )
    assert Path(f"{kind}.csv").exists()
    assert list(Path("temporary").iterdir()) == []


def test_standard_input_is_read_once() -> None:
    plan()
    done = run("release", "p.nw", "-", "-", "-o", "out.csv", input=b"age,sex\n1,1\n")
    assert (done.exit_code, "can be read once" in done.stderr) == (2, True)


def test_numbers_that_are_codes_are_flagged_and_decided() -> None:
    rows = [f"{i % 3},{10_000 + i},{i % 4}" for i in range(60)]
    Path("t.csv").write_text("region,zip,children\n" + "\n".join(rows) + "\n")
    draft = run("schema", "suggest", "t.csv").stdout
    assert "'region': few numbers, taken for codes" in draft
    assert "'zip': numbers all written alike, taken for quantities" in draft
    decided = run(
        "schema",
        "suggest",
        "t.csv",
        "--numbers",
        "children",
        "--codes",
        "region",
        "--json",
    )
    told = json.loads(decided.stdout)
    kinds = {attribute["name"]: attribute["kind"] for attribute in told["attributes"]}
    assert kinds == {"region": "categorical", "zip": "numeric", "children": "numeric"}
    assert list(told["notes"]) == ["zip"]
    left = run("schema", "suggest", "t.csv", "--codes", "zip", "--json")
    assert "list them by hand" in json.loads(left.stdout)["left_out"]["zip"]
    wrong = run("schema", "suggest", "t.csv", "--codes", "ziip")
    assert (wrong.exit_code, "is no column" in wrong.stderr) == (2, True)
    assert "zip" not in wrong.stderr.replace("ziip", "")


def test_plans_of_queries_in_text_are_released_from_counts(tmp_path: Path) -> None:
    assert run("plan", "prefix:4", "--rho", "50", "-o", "plan.nw").exit_code == 0
    np.save("counts.npy", np.array([3, 0, 2, 9]))
    done = run("release", "plan.nw", "counts.npy", "-o", "answers.csv")
    assert done.exit_code == 0, done.output
    answers = pa.csv.read_csv("answers.csv")["answer"].to_pylist()
    # Noise of variance below one: all four within 10 but for a chance below 1e-20.
    assert np.abs(np.array(answers) - [3, 3, 5, 14]).max() < 10


@pytest.mark.parametrize("content", ["pickle", "fractions", "too few", "none"])
def test_other_arrays_are_refused_and_not_quoted(content: str) -> None:
    arrays = {"pickle": np.array([{"secret": 77_123}]), "fractions": np.array([77.123, 1, 2, 3]),
              "too few": np.array([77_123, 1])}  # fmt: skip
    assert run("plan", "prefix:4", "--rho", "50", "-o", "plan.nw").exit_code == 0
    if content in arrays:
        np.save("counts.npy", arrays[content], allow_pickle=content == "pickle")
    done = run("release", "plan.nw", "counts.npy", "-o", "answers.csv")
    assert done.exit_code == 2
    assert "77" not in done.output
    assert not Path("answers.csv").exists()
