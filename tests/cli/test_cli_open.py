"""Values that nobody listed, on the command line: one plan, one entry of the ledger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import noisewright as nw
from noisewright.cli import main

SECRET = "Astronomer Royal"
SCHEMA = (
    "attributes:\n- {name: job, kind: open}\n- "
    "{name: sex, kind: categorical, values: [F, M]}\n"
)
QUESTIONS = "queries:\n- marginal: [job, sex]\n"
BUDGET = ("--epsilon", "2", "--delta", "1e-6")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SCHEMA)
    Path("q.yaml").write_text(QUESTIONS)
    jobs = ["clerk"] * 400 + ["nurse"] * 300 + [SECRET]
    rows = [f"{job},{'FM'[i % 2]},{i // 2}" for i, job in enumerate(jobs)]
    Path("t.csv").write_text("\n".join(["job,sex,person", *rows, ""]))


def planned(*more: str) -> Result:
    return run("plan", "--queries", "q.yaml", "--schema", "s.yaml", *BUDGET, *more)


def test_values_and_tables_are_one_entry_and_bought_once() -> None:
    plan = json.loads(planned("-o", "o.nw", "--json").output)
    assert plan["open"] == ["job"]
    assert plan["chances"]["1"] == pytest.approx(1e-6 * 0.25)
    assert run("ledger", "create", "b.db", "staff", "--epsilon", "8", "--delta", "1e-5",
               "--pure", "4", "--aside", "1e-6").exit_code == 0  # fmt: skip
    ledger = ("--ledger", "b.db", "--dataset", "staff")
    dry = json.loads(
        run(
            "release", "o.nw", "t.csv", "-o", "a.csv", "--dry-run", *ledger, "--json"
        ).output
    )
    assert dry["share_before"] == 0
    first = run(
        "release", "o.nw", "t.csv", "-o", "a.csv", *ledger, "--report", "a.html"
    )
    assert first.exit_code == 0, first.output
    assert nw.load("o.nw").digest in Path("a.html").read_text(encoding="utf-8")
    assert (
        "released from staff before"
        in run("release", "o.nw", "t.csv", "-o", "b.csv", *ledger).output
    )
    stored = run(
        "release", "o.nw", "t.csv", "-o", "b.csv", *ledger, "--again", "stored"
    )
    assert stored.exit_code == 0
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    shown = json.loads(run("ledger", "show", "b.db", "--json").output)
    (standing,) = shown if isinstance(shown, list) else [shown]
    assert standing["entries"] == 1
    record = json.loads(run("show", "a.nwr", "--json").output)
    assert record["kind"] == "open-release"
    # δ is spent once: what the selection and the tables may err by adds up to the plan's.
    promised = [loss.get("delta", 0) for loss in record["spend"]["losses"]]
    assert sum(promised) == pytest.approx(2.5e-7)
    assert record["tables_privacy"]["delta"] + sum(promised) <= 1e-6
    written = [p.read_bytes() for p in Path().iterdir() if p.suffix in (".csv", ".html", ".nwr")
               and p.name != "t.csv"]  # fmt: skip
    assert not any(SECRET.encode() in content for content in written)


def test_plans_are_shown_and_explained() -> None:
    text = planned("-o", "o.nw", "--unit", "person", "--rows", "2").output
    for words in ("Values that will appear", "fraction told", "values told"):
        assert words in text
    assert "at most 2 rows" in " ".join(text.split())
    assert json.loads(run("show", "o.nw", "--json").output)["open"] == ["job"]
    assert "attributes whose values are told first" in run(
        "show", "s.yaml"
    ).output.replace("\n", "")
    sql = run("release", "o.nw", "t.csv", "--explain").output
    assert sql.count("GROUP BY v") == 1
    assert "value 0" in sql
    assert run("report", "o.nw", "-o", "p.html").exit_code == 0
    assert "by how many people hold each" in Path("p.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mechanism", "gaussian"), "mechanism='gaussian' does not go with"),
        (("--target-rmse", "3"), "target_rmse=3.0 does not go with"),
        (("--model", "local"), "model='local' does not go with"),
        (("--values-share", "1"), "share=1.0 must lie between 0 and 1"),
    ],
)
def test_what_does_not_go_with_open_values_is_refused(
    options: tuple[str, ...], words: str
) -> None:
    result = planned(*options)
    assert result.exit_code != 0
    assert words in result.output


def test_pure_privacy_is_refused_with_the_reason() -> None:
    result = run("plan", "--queries", "q.yaml", "--schema", "s.yaml", "--epsilon", "1")
    assert "may be told with probability delta at most" in result.output
    planned("-o", "o.nw")
    declared = run(
        "release", "o.nw", "t.csv", "-o", "a.csv", "--invariant", "job = x = 3"
    )
    assert "values that are not told yet" in declared.output
