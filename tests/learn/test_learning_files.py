"""Files of learning plans and selections come back whole, and cannot promise what is false."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from learn.simulated_people import TASKS
from noisewright import container
from noisewright.cli import main
from noisewright.cli.commands.show import description
from noisewright.errors import NoisewrightError
from noisewright.learn.files import LearningFile
from noisewright.learn.selection import SelectionFile

PRIVACY = nw.Privacy(epsilon=1)


@pytest.mark.parametrize(
    "task", ["agnostic", "realizable", "refute", "refute-realizable"]
)
def test_plans_come_back_with_the_same_figures(task: str, tmp_path: Path) -> None:
    plan = nw.plan(TASKS[task]("thresholds:4", alpha=0.3), PRIVACY)
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    assert again.summary() == plan.summary()
    assert again.client.format.name == plan.client.format.name
    reports = plan.randomize([0, 1, 2, 3] * 50, [1, 1, -1, -1] * 50)
    assert repr(again.decide(reports)) == repr(plan.decide(reports))
    shown = description(tmp_path / "p.nw")
    assert (shown["kind"], shown["people"]) == ("learning-plan", plan.people)


def test_classes_of_ones_own_are_kept_with_their_points(tmp_path: Path) -> None:
    given = nw.learn.concepts(
        [lambda x: x > "b", lambda x: x == "a"], points=["a", "b", "c"]
    )
    plan = nw.plan(nw.learn.Agnostic(given, alpha=0.4, loss=False), PRIVACY)
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    assert again.concepts.points == ("a", "b", "c")
    assert again.cells(["c"], [-1]).tolist() == [5]
    sets = [frozenset((1,)), frozenset((2,))]
    holds = [lambda x: 1 in x, lambda x: 2 in x]
    odd = nw.plan(nw.learn.Agnostic(holds, points=sets), PRIVACY)
    with pytest.raises(NoisewrightError, match="cannot be kept"):
        odd.save(tmp_path / "q.nw")


def test_points_and_rows_come_back_as_they_were_given(tmp_path: Path) -> None:
    """Numbers of any kind and tuples; a concept is the row it had before equal ones were joined."""
    table = np.array([[1, 1, 1], [1, 1, 1], [-1, 1, -1]])
    for points in ([("a", 1), ("a", 2), ("b", 1)], [0.5, 1.5, 2.5], np.arange(18, 21)):
        plan = nw.plan(nw.learn.Agnostic(table, alpha=0.4, points=points), PRIVACY)
        plan.save(tmp_path / "p.nw")
        again = nw.load(tmp_path / "p.nw")
        assert again.concepts.points == plan.concepts.points
        assert again.concepts.numbers == (0, 2)
        reports = plan.randomize(points, [-1, 1, -1])
        told, same = plan.decide(reports), again.decide(reports)
        assert same.concept == told.concept
        assert same(points).tolist() == told(points).tolist()


@pytest.mark.parametrize("numbers", [[0], [1, 0], [0, 0], [0, 1, 2]], ids=str)
def test_rows_that_cannot_be_are_refused(numbers: list[int], tmp_path: Path) -> None:
    plan = nw.plan(
        nw.learn.Agnostic(np.array([[1, 1], [1, 1], [-1, 1]]), alpha=0.4), PRIVACY
    )
    plan.save(tmp_path / "p.nw")
    with pytest.raises(NoisewrightError):
        nw.load(_edited(tmp_path / "p.nw", LearningFile, numbers=numbers))


def _edited(path: Path, kind: type, **fields: Any) -> Path:
    header = container.read(path, kind)
    container.write(path, msgspec.structs.replace(header, **fields))
    return path


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    nw.plan(nw.learn.Agnostic("thresholds:4", alpha=0.3), PRIVACY).save(
        tmp_path / "p.nw"
    )
    return tmp_path / "p.nw"


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": 0.5},
        {"epsilon": 2.0},
        {"task": "omniscient"},
        {"task": "realizable"},
        {"task": "refute"},
        {"alpha": 0.0},
        {"beta": 2.0},
        {"text": "thresholds:5"},
        {"text": "parities:9999999999"},
        {"text": None},
        {"strategy": None},
        {"strategy": {"kind": "codebook", "epsilon": 0.1}},
        {"strategy": {}},
    ],
    ids=str,
)
def test_headers_that_say_something_false_are_refused(
    stored: Path, fields: Any
) -> None:
    with pytest.raises(NoisewrightError):
        nw.load(_edited(stored, LearningFile, **fields))


def test_matrices_of_a_file_count_for_what_they_are(stored: Path) -> None:
    """A matrix far from the class's own has a bias, and the people needed say so."""
    honest = nw.load(stored)
    held = container.read(stored, LearningFile).targets
    nearer = nw.load(_edited(stored, LearningFile, targets=held * 0.9))
    assert nearer.tails.bias.max() > honest.tails.bias.max()
    assert nearer.people != honest.people
    for targets in (
        held * 0.1,  # no number of people mends it
        held[:, ::-1][:3].copy(),
        np.full_like(held, np.nan),
        np.abs(held) + np.arange(8),  # out of the clients' reach
        held.astype(np.float32),
    ):
        with pytest.raises(NoisewrightError):
            nw.load(_edited(stored, LearningFile, targets=targets))


def test_losses_do_not_follow_from_differences(stored: Path) -> None:
    with pytest.raises(NoisewrightError, match="loss"):
        nw.load(_edited(stored, LearningFile, subtracted=np.ones(4)))


def test_selections_go_on_where_they_were_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = np.array([0.1, 0.2, 0.9, 0.5])
    for protocol in ("non-interactive", "elimination", "bandit"):
        selection = nw.plan(
            nw.learn.LargestMean(4, alpha=0.5, protocol=protocol), nw.Privacy(6.0)
        )
        for _ in range(40):
            at = selection.ask_many(7)
            selection.tell(rng.random(len(at)) < means[at])
            selection.save(tmp_path / "s.nw")
            again = nw.load(tmp_path / "s.nw")
            assert again.summary() == selection.summary()
            assert repr(again.result()) == repr(selection.result())
            if selection.finished:
                break
            assert again.ask_many(5).tolist() == selection.ask_many(5).tolist()
        assert description(tmp_path / "s.nw")["answers"] == selection.asked


@pytest.mark.parametrize(
    "fields",
    [
        {"coordinates": 0},
        {"coordinates": 10**9},
        {"epsilon": -1.0},
        {"alpha": 0.0},
        {"beta": 1.0},
        {"protocol": "guess"},
        {"protocol": "bandit"},
        {"answers": 10**9},
        {"answers": 100},
        {"protocol": "bandit", "picked": [-1]},
    ],
    ids=str,
)
def test_files_of_selections_that_cannot_be_are_refused(
    tmp_path: Path, fields: Any
) -> None:
    selection = nw.plan(nw.learn.LargestMean(4, alpha=0.5), nw.Privacy(6.0))
    selection.tell([1, 0, 1])
    selection.save(tmp_path / "s.nw")
    with pytest.raises(NoisewrightError):
        nw.load(_edited(tmp_path / "s.nw", SelectionFile, **fields))


def test_clients_of_learning_plans_and_selections_are_exported(
    stored: Path, tmp_path: Path
) -> None:
    nw.plan(nw.learn.LargestMean(4), PRIVACY).save(tmp_path / "s.nw")
    for path in (stored, tmp_path / "s.nw"):
        told = CliRunner().invoke(main, ["client", str(path), "--specification"])
        assert json.loads(told.output)["epsilon"] <= 1
        refused = CliRunner().invoke(main, ["estimate", str(path), str(path)])
        assert "learns or selects" in refused.output
