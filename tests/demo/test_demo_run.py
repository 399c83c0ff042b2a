"""The demonstration does the main job end to end, on people who hang together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from noisewright.cli import main
from noisewright.demo.people import domain, people


def test_the_demo_writes_answers_and_a_report(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["demo", "--output", str(tmp_path / "out"), "--json"]
    )
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["queries"] > 800
    # The least error of Gaussian noise for the same promise is above 15; pure ε keeps it too.
    assert summary["rmse"] <= 12.2
    assert summary["asked"] == {
        **summary["privacy"],
        "kind": "approximate",
        "delta": 1e-9,
    }
    for name in (
        "answers.csv",
        "answers.csv.meta.json",
        "report.html",
        "plan.nw",
        "people.csv",
    ):
        assert (tmp_path / "out" / name).stat().st_size > 0


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = CliRunner().invoke(
        main, ["demo", "--output", str(tmp_path / "taken" / "in")]
    )
    assert result.exit_code == 2
    assert "output=" in result.stderr


def test_people_are_reproducible_and_fit_their_schema() -> None:
    table = people(5000)
    assert table.equals(people(5000))
    assert not table.equals(people(5000, seed=1))
    columns = {
        name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names
    }
    assert domain().encode(columns).max() < domain().size
    age, job = columns["age"], columns["employment"]
    assert set(np.unique(job[age < 16])) == {"under 16"}
    assert (job[age > 75] == "retired").mean() > 0.9
    incomes = columns["income"]
    assert incomes[job == "employed"].mean() > 2 * incomes[job == "student"].mean()
