"""Long work says what it is doing, to those who listen, and nothing of anybody."""

import json
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.cli import main
from noisewright.cli.failures import Failure
from noisewright.stages import listening, stage
from noisewright.tables.counter import DuckDBCounter


def test_stages_are_heard_inside_and_only_there() -> None:
    heard: list[str] = []
    stage("nobody listens")
    with listening(heard.append):
        plan = nw.plan("prefix:8", nw.Privacy(rho=1))
        release = plan.release(np.full(8, 12_345))
        nw.post_process(release, non_negative=True).answers
    stage("nobody listens any more")
    assert heard[0].startswith("planning by ")
    assert any(
        text.startswith("factorizing 8 queries over 8 cells: gap") for text in heard
    )
    assert heard[-3:] == [
        "counting",
        "drawing noise",
        "fitting a non-negative histogram",
    ]
    assert not any("12" in text for text in heard[-3:])


def test_scans_tell_how_far_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "0\n1\n" * 40_000)
    domain = nw.Domain([nw.Categorical("a", ["0", "1"])])
    heard: list[float] = []
    with listening(lambda _: None, heard.append):
        DuckDBCounter().marginals(path, domain, [("a",)])
    assert heard
    assert all(0 <= fraction <= 1 for fraction in heard)


def test_logs_hold_steps_and_nothing_of_anybody(tmp_path: Path) -> None:
    secret = "Ada Lovelace"
    plan, table, log = (str(tmp_path / name) for name in ("p.nw", "t.csv", "log.jsonl"))
    domain = nw.Domain([nw.Categorical("name", ["x", secret], outside="error")])
    workload = nw.Workload.from_spec({"queries": [{"marginal": ["name"]}]}, domain)
    nw.plan(workload, nw.Privacy(rho=1)).save(plan)
    Path(table).write_text("name\n" + f"{secret}\n" * 7)
    answers = str(tmp_path / "a.csv")
    main(["--log", log, "release", plan, table, "-o", answers], standalone_mode=False)
    steps = [json.loads(line) for line in Path(log).read_text().splitlines()]
    assert [entry["step"] for entry in steps][:3] == [
        "begun",
        "counting",
        "drawing noise",
    ]
    assert steps[-1]["step"] == "done"
    assert {entry["command"] for entry in steps} == {"release"}
    Path(table).write_text("name\nBabbage\n")
    with pytest.raises(Failure, match="outside its declared cells"):
        main(
            ["--log", log, "release", plan, table, "-o", f"{answers}.csv"],
            standalone_mode=False,
        )
    text = Path(log).read_text()
    assert json.loads(text.splitlines()[-1])["step"].startswith("ended by ")
    assert secret not in text
    assert "Babbage" not in text
    assert "7" not in {entry["step"] for entry in steps}
