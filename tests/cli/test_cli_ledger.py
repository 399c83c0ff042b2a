"""Ledgers from the command line: what people type, see and are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.cli import main
from noisewright.planning.release import Release

SCHEMA = """
reviewed: true
attributes:
  - {name: age, kind: numeric, edges: [0, 18, 65, 100], integer: true}
  - {name: sex, kind: categorical, values: [F, M]}
"""
RELEASE = ["release", "p.nw", "people.csv", "--ledger", "b.db", "--dataset", "people@1"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def done(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(SCHEMA)
    Path("queries.yaml").write_text("queries: [{cdf: age, by: sex}]")
    Path("people.csv").write_text("age,sex\n17,F\n70,M\n30,F\n")
    asked = [
        "--queries",
        "queries.yaml",
        "--schema",
        "schema.yaml",
        "--rho",
        "0.04",
        "-o",
        "p.nw",
    ]
    done("plan", *asked)
    done("ledger", "create", "b.db", "people", "--rho", "0.1")
    return tmp_path


def shown() -> dict[str, object]:
    return json.loads(done("ledger", "show", "b.db", "--json"))


def test_the_life_of_a_budget(here: Path) -> None:
    names = {
        "dataset",
        "unit",
        "person",
        "budget",
        "spent",
        "left",
        "groups",
        "entries",
    }
    assert names == set(shown())
    assert "left of people: ε = " in done(*RELEASE, "-o", "a.csv")
    facts = shown()
    assert (facts["dataset"], facts["entries"]) == ("people", 1)
    assert facts["spent"]["rho"] == pytest.approx(0.04, rel=1e-9)
    assert facts["left"]["rho"] == pytest.approx(0.06, rel=1e-3)
    assert facts["spent"]["odometer"] == {"rho": facts["spent"]["rho"]}
    at = json.loads(done("ledger", "show", "b.db", "--delta", "1e-6", "--json"))[
        "spent"
    ]
    assert at["composed"]["epsilon"] < at["odometer"]["epsilon"]
    entries = json.loads(done("ledger", "history", "b.db", "--json"))
    assert [e["entry"] for e in entries] == [
        "opened",
        "created",
        "reserved",
        "committed",
    ]
    assert entries[2]["noise"][0]["law"] == "rounded-gaussian"
    assert "zCDP filter" in entries[2]["rule"]
    assert "(gaussian-strategy)" in done("ledger", "history", "b.db")
    assert "40.0%" in done("ledger", "show", "b.db")
    assert json.loads(done("show", "b.db", "--json"))["kind"] == "ledger"
    metadata = json.loads(Path("a.csv.meta.json").read_text())
    assert metadata["ledger"]["entry"] == 3


def test_nothing_is_spent_by_accident(here: Path) -> None:
    assert "nothing was spent" in done(*RELEASE, "-o", "a.csv", "--dry-run")
    facts = json.loads(done(*RELEASE, "-o", "a.csv", "--dry-run", "--json"))
    assert (facts["share_before"], facts["share_after"]) == (0, pytest.approx(0.4))
    assert facts["spend"]["losses"][0]["loss"] == "gaussian"
    assert not Path("a.csv").exists()
    assert shown()["entries"] == 0
    done(*RELEASE, "-o", "a.csv")
    for arguments, message in (
        (["-o", "a.csv"], "output='a.csv' exists; choose another path, or add --force"),
        (["-o", "b.csv"], "released from people@1 before (entry 3"),
        (["-o", "no/where.csv"], "cannot be written"),
    ):
        result = run(*RELEASE, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "nothing was spent" in result.stderr
    done(*RELEASE, "-o", "b.csv", "--again", "stored")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert shown()["entries"] == 1
    done(*RELEASE, "-o", "b.csv", "--again", "spend", "--force")
    assert shown()["entries"] == 2
    result = run(*RELEASE, "-o", "c.csv", "--again", "spend")
    assert "a plan with --rho 0.02 would fit; nothing was spent" in result.stderr
    absent = run("release", "p.nw", "people.csv", "-o", "c.csv", "--ledger", "b.db")
    assert "dataset must be given with a ledger" in absent.stderr


def test_sums_take_from_the_ledger_too(here: Path) -> None:
    sums = [
        "sums",
        "people.csv",
        "--schema",
        "schema.yaml",
        "--value",
        "age",
        "--by",
        "sex",
    ]
    sums += ["--ledger", "b.db", "--dataset", "people", "-o", "s.csv"]
    assert "would spend" in done(*sums, "--rho", "0.05", "--dry-run")
    done(*sums, "--rho", "0.05")
    assert shown()["spent"]["rho"] == pytest.approx(0.05, rel=1e-6)
    result = run(*sums, "--rho", "0.06", "--force")
    assert (result.exit_code, "would fit" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("method", "owner", "message"),
    [
        ("measure", BlockMechanism, "counts as spent: entry 3"),
        (
            "write",
            Release,
            "the budget was spent (entry 3 of the ledger); --again stored",
        ),
    ],
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
def test_whatever_ends_a_release_says_whether_budget_was_spent(
    here: Path,
    method: str,
    owner: type,
    message: str,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, ended)
        result = run(*RELEASE, "-o", "a.csv")
    assert (
        result.exit_code == {KeyboardInterrupt: 130, RuntimeError: 1, OSError: 2}[error]
    )
    assert message in result.stderr
    assert shown()["entries"] == 1
    assert shown()["spent"]["unfinished"] == (method == "measure")
    if method == "write":
        done(*RELEASE, "-o", "a.csv", "--again", "stored")


def test_an_interruption_before_the_reservation_spent_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("noisewright.tables.counter.DuckDBCounter.tables", ended)
    result = run(*RELEASE, "-o", "a.csv")
    assert (result.exit_code, result.stderr) == (
        130,
        "error: interrupted; nothing was spent\n",
    )
    assert shown()["entries"] == 0


def test_checkpoints_show_an_old_copy(here: Path) -> None:
    old = Path("b.db").read_bytes()
    done(*RELEASE, "-o", "a.csv")
    done("ledger", "export", "b.db", "-o", "c.json")
    assert "sound: 4 entries" in done(
        "ledger", "verify", "b.db", "c.json", "a.csv.meta.json"
    )
    assert "only a checkpoint kept elsewhere" in done("ledger", "verify", "b.db")
    Path("b.db").write_bytes(old)
    for file in Path().glob("b.db-*"):
        file.unlink()
    done("ledger", "verify", "b.db")
    for point in ("c.json", "a.csv.meta.json"):
        result = run("ledger", "verify", "b.db", point)
        assert result.exit_code == 2
        assert "an older copy was put back" in result.stderr
    done(*RELEASE, "-o", "again.csv")
    result = run("ledger", "verify", "b.db", "a.csv.meta.json")
    assert "was written anew" in result.stderr
    assert run("ledger", "verify", "b.db", "people.csv").exit_code == 2


def test_bad_datasets_are_refused(here: Path) -> None:
    for arguments, message in (
        (
            ["create", "b.db", "people", "--rho", "1"],
            "'people' is in this ledger already",
        ),
        (["create", "b.db", "other", "--rho", "-1"], "rho=-1"),
        (
            ["create", "b.db", "other", "--epsilon", "1", "--rule", "zcdp"],
            "rule='zcdp' cannot keep",
        ),
        (
            ["show", "b.db", "--dataset", "nobody"],
            "is not in this ledger; it holds: people",
        ),
        (["show", "absent.db"], "does not exist"),
        (["history", "schema.yaml"], "damaged or no ledger"),
        (["show", "b.db", "--delta", "2"], "delta=2"),
    ):
        result = run("ledger", *arguments)
        assert result.exit_code == 2, arguments
        assert message in result.stderr


def test_what_was_spent_so_far_is_never_told_above_the_budget(here: Path) -> None:
    """Near the end the figure for any stop is above the budget, which holds: so that is told."""
    done("ledger", "create", "small.db", "people", "--epsilon", "1", "--delta", "1e-9")
    taken = [
        "release",
        "p.nw",
        "people.csv",
        "--ledger",
        "small.db",
        "--dataset",
        "people",
    ]
    largest = json.loads(done("ledger", "show", "small.db", "--json"))["left"]["rho"]
    asked = ["--queries", "queries.yaml", "--schema", "schema.yaml"]
    done("plan", *asked, "--rho", str(0.99 * largest), "-o", "p.nw")
    done(*taken, "-o", "a.csv")
    facts = json.loads(done("ledger", "show", "small.db", "--json"))
    assert facts["spent"]["odometer"]["epsilon"] > 1  # the case at hand
    told = " ".join(done("ledger", "show", "small.db").split())
    assert "so far ε ≤ 1 at δ = 1e-09, the budget, which holds at any time" in told
    done("report", "small.db", "-o", "ledger.html")
    assert "together promise ε = 1, δ" in Path("ledger.html").read_text().replace(
        "\u00a0", " "
    )
