"""Releases on the command line after their process is gone: shown, asked more, reported."""

from __future__ import annotations

import json
import subprocess
import sys
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
QUERIES = "queries:\n  - cdf: age\n    by: sex\n"
MORE = "queries:\n  - histogram: age\n"
TABLE = "age,sex\n17,F\n70,M\n30,F\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "schema.yaml": SCHEMA,
        "queries.yaml": QUERIES,
        "more.yaml": MORE,
        "people.csv": TABLE,
    }
    for name, text in files.items():
        Path(name).write_text(text)
    budget = ["--epsilon", "1", "--delta", "1e-9"]
    asked = ["--queries", "queries.yaml", "--schema", "schema.yaml"]
    assert run("plan", *asked, *budget, "-o", "p.nw").exit_code == 0
    assert run("release", "p.nw", "people.csv", "-o", "a.csv").exit_code == 0
    return tmp_path


def test_a_release_is_asked_more_in_another_process(here: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "noisewright",
        "answer",
        "a.nwr",
        "--queries",
        "more.yaml",
    ]
    done = subprocess.run(
        [*command, "--json"], check=True, capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    assert [row["query"] for row in told["rows"]] == [
        f"age = {a}" for a in ("0–17", "18–64", "65–100")
    ]
    assert told["release"] == json.loads(Path("a.csv.meta.json").read_text())["release"]


def test_further_answers_are_written_with_the_same_spending(here: Path) -> None:
    result = run("answer", "a.nwr", "--queries", "more.yaml", "-o", "more.csv")
    assert result.exit_code == 0, result.output
    assert "nothing was spent" in " ".join(result.output.split())
    first, more = (
        json.loads(Path(f"{n}.csv.meta.json").read_text()) for n in ("a", "more")
    )
    assert first["release"] == more["release"]
    assert (
        run("answer", "a.nwr", "--queries", "more.yaml", "-o", "more.nwr").exit_code
        == 0
    )
    assert json.loads(run("show", "more.nwr", "--json").output)["kind"] == "release"


def test_a_kept_release_is_reported(here: Path) -> None:
    assert run("report", "a.nwr", "-o", "a.html").exit_code == 0
    assert "age up to 0–17" in Path("a.html").read_text(encoding="utf-8")
    assert run("report", "p.nw", "-o", "plan.html").exit_code == 0
    assert "Nothing was spent yet" in Path("plan.html").read_text(encoding="utf-8")
    # the release is kept beside its answers
    for beside in ("a.csv", "a.csv.meta.json"):
        assert run("report", beside, "-o", "again.html").exit_code == 0
        assert Path("again.html").read_bytes() == Path("a.html").read_bytes()
    Path("a.nwr").rename("moved.nwr")
    assert "not beside them" in run("report", "a.csv", "-o", "b.html").stderr
    Path("moved.nwr").rename("a.nwr")
    refused = run("report", "schema.yaml", "-o", "b.html")
    assert refused.exit_code == 2
    assert not Path("b.html").exists()


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("p.nw", "central-plan"),
        ("a.nwr", "release"),
        ("a.csv", "answers"),
        ("a.csv.meta.json", "record"),
        ("schema.yaml", "schema"),
        ("queries.yaml", "questions"),
        ("people.csv", "table"),
    ],
)
def test_every_file_is_described(here: Path, file: str, kind: str) -> None:
    told = json.loads(run("show", file, "--json").output)
    assert told["kind"] == kind
    if kind in ("central-plan", "release", "answers", "record"):
        assert told["privacy"]["epsilon"] == 1
        assert told["spend"]["losses"]
        assert told["version"]
    people = run("show", file)
    assert people.exit_code == 0
    assert kind in people.output
    # a table's rows are nobody's business
    assert "17" not in run("show", "people.csv").output


def test_other_kinds_of_plan_are_described(here: Path) -> None:
    import noisewright as nw

    nw.plan("identity:4", nw.Privacy(epsilon=1), nw.Local()).save("l.nw")
    nw.plan(nw.RunningCount(10), nw.Privacy(rho=1)).save("s.nw")
    nw.plan(nw.Several(["prefix:4", "identity:4"]), nw.Privacy(rho=1)).save("t.nw")
    for file, kind in (
        ("l.nw", "local-plan"),
        ("s.nw", "stream-plan"),
        ("t.nw", "plans"),
    ):
        told = run("show", file, "--json")
        assert told.exit_code == 0, told.output
        assert json.loads(told.output)["kind"] == kind
        assert run("show", file).exit_code == 0


def test_a_file_cut_short_or_foreign_is_refused(here: Path) -> None:
    content = Path("a.nwr").read_bytes()
    Path("cut.nwr").write_bytes(content[: len(content) // 2])
    Path("foreign.nwr").write_bytes(b"something else")
    for file in ("cut.nwr", "foreign.nwr", "absent.nwr"):
        for command in (
            ["show", file],
            ["answer", file, "prefix:3"],
            ["report", file, "-o", "x.html"],
        ):
            result = run(*command)
            assert result.exit_code == 2, result.output
            assert result.stderr.startswith("error: ")
            assert len(result.stderr.splitlines()) == 1


def test_exactly_one_way_to_ask(here: Path) -> None:
    for arguments in ([], ["prefix:6", "--queries", "more.yaml"]):
        result = run("answer", "a.nwr", *arguments)
        assert result.exit_code == 2
        assert "exactly one" in result.stderr


def test_streams_are_shown_and_drawn_and_their_state_is_called_secret(
    here: Path,
) -> None:
    import noisewright as nw

    stream = nw.plan(nw.RunningCount(10), nw.Privacy(rho=1)).start(
        position="s.position"
    )
    stream.step(3)
    stream.save("s.stream")
    stream.release.write("s.nwr")
    shown = run("show", "s.stream")
    assert "SECRET" in shown.output
    facts = json.loads(run("show", "s.stream", "--json").output)
    assert facts["kind"] == "secret-running-stream"
    assert facts["state"].startswith("the latest")
    assert {"state", "sums", "estimates"} & facts.keys() == {"state"}
    # the file is an older state now: shown and drawn, never gone on from
    stream.step(4)
    assert (
        "does not go on"
        in json.loads(run("show", "s.stream", "--json").output)["state"]
    )
    facts = json.loads(run("show", "s.nwr", "--json").output)
    assert (facts["kind"], facts["answered"]) == ("stream-release", 1)
    for file in ("s.stream", "s.nwr"):
        assert run("report", file, "-o", f"{file}.html").exit_code == 0
        assert "<svg" in Path(f"{file}.html").read_text(encoding="utf-8")
        assert run("answer", file, "prefix:4").exit_code != 0
