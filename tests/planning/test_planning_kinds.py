"""A kind of plan that the package never heard of is kept, bought, shown and drawn like its own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright.cli import main
from noisewright.planning import files
from planning import headcount

PRIVACY = nw.Privacy(epsilon=1.0)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "noisewright.planning.headcount", headcount)
    for tag, kind in headcount.KINDS.items():
        monkeypatch.setitem(files.KINDS, tag, kind)


@pytest.fixture
def plan():
    return nw.plan(headcount.Headcount(), PRIVACY)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_it_is_kept_and_given_back(plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.nw")
    again = nw.load(tmp_path / "plan.nw")
    assert again.digest == plan.digest

    release = again.release(np.full(10, 7))
    release.save(tmp_path / "release.nwr")
    assert nw.load(tmp_path / "release.nwr").people == release.people


def test_it_is_bought_once(plan, tmp_path: Path) -> None:
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("people", PRIVACY)
    first = plan.release([50], ledger=ledger, dataset="people")
    again = plan.release([50], ledger=ledger, dataset="people", again="stored")
    assert (again.people, again.identity) == (first.people, first.identity)
    with pytest.raises(nw.NoisewrightError):
        plan.release([50], ledger=ledger, dataset="people", again="spend")


def test_commands_and_pages_know_it(plan, tmp_path: Path) -> None:
    saved = tmp_path / "plan.nw"
    plan.save(saved)
    assert "root mean square error" in run("show", saved)
    run("report", saved, "-o", tmp_path / "plan.html")
    assert (tmp_path / "plan.html").exists()

    release = plan.release([50])
    release.save(tmp_path / "release.nwr")
    assert "a toy release" in run("show", tmp_path / "release.nwr")
    nw.report(release, tmp_path / "release.html")
    assert "number of people" in (tmp_path / "release.html").read_text()
    assert "would spend" in run("release", saved, saved, "--dry-run", "-o", "a.csv")
