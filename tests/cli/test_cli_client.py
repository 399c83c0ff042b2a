"""`noisewright client`: a plan's specification, and what it spends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import noisewright as nw
from noisewright.cli import main
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.specification import decode
from noisewright.local.randomizer.verify import verify

PAGE = Path(__file__).parents[2] / "docs/reference/randomizer.md"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def plan_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    plan = nw.plan("identity:9", nw.Privacy(1.0), nw.Local(mechanism="local-hashing"))
    plan.save("p.nw")
    return "p.nw"


def test_the_specification_runs_and_its_reports_are_estimated(plan_file: str) -> None:
    document = json.loads(run("client", plan_file, "--specification").output)
    specification = decode(json.dumps(document["specification"]))
    assert document["digest"] == specification.digest
    assert document["epsilon"] == verify(specification).epsilon <= 1.0
    assert document["delta"] == 0
    header = bytes.fromhex(document["header"])
    plan = nw.load(plan_file)
    reports = [header + interpret(specification, i % 9) for i in range(90)]
    aggregate = plan.aggregate(reports)
    assert aggregate.people == 90
    assert not any(aggregate.set_aside.values())
    assert sum(plan.estimate(aggregate).answers) == pytest.approx(90)


def test_without_it_people_read_what_a_client_does(plan_file: str) -> None:
    shown = run("client", plan_file).output
    assert "spends exactly" in shown
    assert "favour, project" in shown
    about = json.loads(run("client", plan_file, "--json").output)
    assert about["report_bytes"] == nw.load(plan_file).format.length


def test_plans_with_a_curator_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "central.nw")
    nw.plan("identity:4", nw.Privacy(1.0, 1e-9)).save(path)
    result = run("client", path)
    assert result.exit_code == 2
    assert "curator" in result.stderr


def test_the_worked_example_of_the_reference_holds() -> None:
    text = PAGE.read_text(encoding="utf-8")
    specification = decode(re.findall(r"```json\n(.*?)\n```", text)[0])
    value, random = re.findall(
        r"cell `(\d+)`, with the random bytes `([0-9a-f]+)`", text
    )[0]
    written = re.findall(r"the report is `([0-9a-f]+)`", text)[0]
    left = bytearray.fromhex(random)

    class Given:
        def bytes(self, count: int) -> bytes:
            taken = bytes(left[:count])
            del left[:count]
            return taken

    assert interpret(specification, int(value), Given()).hex() == written
    assert not left
    assert f"ε = {verify(specification).epsilon}" in text
