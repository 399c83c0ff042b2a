"""What a release may never do, whatever file, histogram or path it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisewright import Central, plan
from noisewright.domain import Categorical, Domain
from noisewright.errors import (
    DomainError,
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
)
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.files import load
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Workload
from oracles.plan_parts import read_parts, write_parts
from oracles.privacy_oracles import guarantee

APPROXIMATE = Privacy(epsilon=1, delta=1e-9)
REPLACE_ONE = Privacy(epsilon=1, delta=1e-9, neighbours="replace-one")


def edited(
    file: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]
) -> CentralPlan:
    """The plan in a file after someone has edited it and written a matching digest."""
    plan("marginals:3x2:<=2", APPROXIMATE, Central(composition="many")).save(file)
    header, arrays = read_parts(file)
    change(header, arrays)
    write_parts(file, header, arrays)
    loaded = load(file)
    assert isinstance(loaded, CentralPlan)
    return loaded


def quieter(header: dict[str, Any], _: dict[str, Any]) -> None:
    for block in header["strategy"]["blocks"]:
        block["noise"] /= 1000


def louder(_: dict[str, Any], arrays: dict[str, Any]) -> None:
    for name in arrays:
        arrays[name] = 1000 * arrays[name]


@pytest.mark.parametrize("change", [quieter, louder])
def test_the_noise_of_an_edited_plan_still_keeps_its_promise(
    tmp_path: Path, change: Any
) -> None:
    """Nothing in a file says how much noise to draw: it follows from what will be measured."""
    made = edited(tmp_path / "p.nw", change)
    moved = Fraction(0)
    for block, law in zip(
        made.mechanism.strategy.blocks,
        made.mechanism.strategy.laws(made.mechanism.law),
        strict=True,
    ):
        column = 1
        for factor in block.factors:
            column *= int((factor.astype(object) ** 2).sum(axis=0).max())
        moved += column * (block.multiplier / Fraction(law.scale)) ** 2
    unit = replace(made.mechanism.law, scale=1.0)
    kept = guarantee(unit, l2=float(moved) ** 0.5 * (1 - 1e-12), delta=1e-9)
    assert kept.epsilon is not None
    assert kept.epsilon <= 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("noise", -1.0),
        ("noise", float("nan")),
        ("noise", 0),
        ("multiplier", -8),
        ("multiplier", 0.5),
        ("multiplier", 0),
        ("attributes", [7]),
    ],
)
def test_files_with_impossible_blocks_are_refused(
    tmp_path: Path, place: str, value: Any
) -> None:
    def change(header: dict[str, Any], _: dict[str, Any]) -> None:
        header["strategy"]["blocks"][1][place] = value

    with pytest.raises(NoisewrightError):
        edited(tmp_path / "p.nw", change)


def test_files_with_factors_of_another_type_are_refused(tmp_path: Path) -> None:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        name = str(header["strategy"]["blocks"][1]["factors"][0])
        arrays[name] = 0.9 * arrays[name]

    with pytest.raises(FileFormatError, match="float64, not int64"):
        edited(tmp_path / "p.nw", change)


def test_a_draft_releases_nothing_even_from_a_histogram() -> None:
    domain = Domain([Categorical("sex", ["F", "M"])])
    made = plan("identity:2", APPROXIMATE, domain=domain)
    draft = replace(made, domain=replace(domain, reviewed=False))
    with pytest.raises(DomainError, match="draft"):
        draft.release(np.array([1, 2]))


def test_histograms_whose_sum_is_not_exact_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="fewer than 2\\^53 people"):
        plan("total:2048", APPROXIMATE).release(np.full(2048, 2**53 - 1))


def test_transposed_histograms_are_refused() -> None:
    made = plan("identity:2*identity:3", APPROXIMATE)
    with pytest.raises(InvalidParameter, match="one axis per attribute"):
        made.release(np.ones((3, 2), dtype=int))
    assert (
        len(made.release(np.ones((2, 3), dtype=int))) == len(made.release([1] * 6)) == 6
    )


def test_answers_are_never_written_without_what_was_spent(tmp_path: Path) -> None:
    release = plan("identity:2", APPROXIMATE).release(np.array([1, 2]))
    (tmp_path / "answers.csv.meta.json").mkdir()
    with pytest.raises(InvalidParameter, match="is a directory"):
        release.write(tmp_path / "answers.csv")
    assert not (tmp_path / "answers.csv").exists()


def test_nothing_is_called_best_for_neighbours_it_was_not_planned_for() -> None:
    made = plan("marginals:3x2:<=2", APPROXIMATE, Central(composition="many"))
    assert made.status.startswith("best linear strategy")
    other = made.at(REPLACE_ONE)
    assert other.summary()["ratio"] is None
    assert other.summary()["status"].startswith("planned for add-remove")


def test_no_bound_is_claimed_where_impossible_cells_help_to_beat_it() -> None:
    attributes = [Categorical("a", ["x", "y"]), Categorical("b", ["p", "q"])]
    asked = {"queries": [{"marginal": ["a", "b"]}]}
    free, known = (
        plan(
            Workload.from_spec(asked, Domain(attributes, impossible=impossible)),
            APPROXIMATE,
            Central(composition="many"),
        )
        for impossible in ([], [{"a": ["x"], "b": ["p"]}])
    )
    assert free.lower_bound is not None
    assert known.achieved < free.lower_bound
    assert known.lower_bound is None
    assert known.forecast().ratio is None
    assert "without impossible cells" in known.status


def test_a_plan_that_can_draw_no_noise_is_refused_at_once() -> None:
    with pytest.raises(InvalidParameter, match="public"):
        plan("total:5", REPLACE_ONE)
