"""Figures are made row by row, go on where they stopped, and rest on what is checked here."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import FileFormatError, InvalidParameter
from reproductions.geometry_figures import crossover
from reproductions.paper_strategies import (
    PAPER,
    fourier,
    people_needed,
    singular_bound,
    type_variances,
)
from reproductions.projected_gradient import (
    projected_gradient,
    through_projection,
)
from reproductions.run import FIGURES, reproduce
from reproductions.study import Settings, Study

PREFIX = np.tril(np.ones((8, 8)))
GRAM = PREFIX.T @ PREFIX


@pytest.mark.parametrize("name", [*PAPER, "fourier (paper)"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_papers_strategies_are_private_and_answer(
    name: str, epsilon: float
) -> None:
    chances = (
        fourier(8, epsilon, 3)
        if name.startswith("fourier")
        else PAPER[name](8, epsilon)
    )
    assert chances.sum(axis=0) == pytest.approx(np.ones(8))
    ratios = chances.max(axis=1) / chances.min(axis=1)
    assert ratios.max() == pytest.approx(exp(epsilon))
    # The variance of a report's score, summed over answers, by its definition.
    overall = chances.mean(axis=1)
    inverse = np.linalg.pinv(chances.T @ (chances / overall[:, None]))
    reconstruction = PREFIX @ inverse @ (chances / overall[:, None]).T
    assert reconstruction @ chances == pytest.approx(PREFIX)
    expected = (reconstruction**2) @ chances - PREFIX**2
    assert type_variances(chances, GRAM) == pytest.approx(expected.sum(axis=0))


def test_the_plain_competitor_needs_as_many_people_as_ours() -> None:
    ours = nw.plan(
        "prefix:8", nw.Privacy(epsilon=1), nw.Local(mechanism="randomized-response")
    )
    theirs = people_needed(PAPER["randomized-response (paper)"](8, 1.0), GRAM, 8)
    assert theirs == pytest.approx(ours.sample_complexity(0.01))


def test_what_cannot_answer_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="cannot answer"):
        people_needed(fourier(8, 1.0, 1), GRAM, 8)
    with pytest.raises(InvalidParameter, match="power of two"):
        fourier(6, 1.0, 1)


def test_projected_gradient_is_private_and_better_than_where_it_began() -> None:
    chances = projected_gradient(GRAM, 1.0, 32, 120, np.random.default_rng(5))
    assert chances.sum(axis=0) == pytest.approx(np.ones(8))
    assert (chances.max(axis=1) / chances.min(axis=1)).max() <= exp(1) * (1 + 1e-9)
    optimum = nw.plan("prefix:8", nw.Privacy(epsilon=1), nw.Local(effort="low"))
    started = projected_gradient(GRAM, 1.0, 32, 0, np.random.default_rng(5))
    needed = people_needed(chances, GRAM, 8)
    assert (
        optimum.sample_complexity(0.01) * 0.999
        < needed
        < people_needed(started, GRAM, 8)
    )
    assert singular_bound(GRAM, 1.0, 8) < needed
    with pytest.raises(InvalidParameter, match="at least 8"):
        projected_gradient(GRAM, 1.0, 4, 1, np.random.default_rng(0))


def test_the_gradient_through_the_projection_is_its_difference_quotient() -> None:
    """Moving one lower end and projecting again changes a linear function as the gradient says."""
    from noisewright.local.optimise.dense.descent import project

    rng = np.random.default_rng(11)
    least, weights = np.full(12, (1 + exp(-1)) / 24), rng.normal(size=(12, 4))
    point = rng.random((12, 4)) * 0.2

    def value(z: np.ndarray) -> float:
        chances, _ = project(point, np.ones(12), z, exp(1) * z, 1.0)
        return float((weights * chances).sum())

    chances, _ = project(point, np.ones(12), least, exp(1) * least, 1.0)
    step = 1e-7
    slopes = [
        (value(least + step * e) - value(least - step * e)) / (2 * step)
        for e in np.eye(12)
    ]
    assert through_projection(chances, least, weights, 1.0) == pytest.approx(
        slopes, abs=1e-5
    )


def test_a_study_computes_every_row_once(tmp_path: Path) -> None:
    computed = []

    def compute(value: float) -> dict[str, float]:
        computed.append(value)
        return {"y": value}

    first = Study(tmp_path / "rows.csv", ("x", "name"))
    first.row({"x": 1.0, "name": "a, b"}, lambda: compute(2.0))
    again = Study(tmp_path / "rows.csv", ("x", "name"))
    assert again.row({"x": 1.0, "name": "a, b"}, lambda: compute(3.0))["y"] == 2.0
    again.row({"x": 0.5, "name": "a, b"}, lambda: compute(4.0))
    assert computed == [2.0, 4.0]
    assert again.series("x", "y", "name") == {"a, b": [(0.5, 4.0), (1.0, 2.0)]}
    (tmp_path / "other.csv").write_text("z\n1\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="no rows of this figure"):
        Study(tmp_path / "other.csv", ("x",))


def test_a_figure_is_written_with_its_chart_and_remarks(tmp_path: Path) -> None:
    result = reproduce("parity-lp", Settings(tmp_path, quick=True))
    assert (
        result["rows"]
        == len((tmp_path / "parity-lp-quick.csv").read_text().splitlines()) - 1
    )
    assert "<svg" in (tmp_path / "parity-lp-quick.svg").read_text(encoding="utf-8")
    assert (tmp_path / "parity-lp-quick.txt").read_text().splitlines() == result[
        "remarks"
    ]
    with pytest.raises(InvalidParameter, match="is no figure"):
        reproduce("fig9", Settings(tmp_path))
    assert "fig1" in FIGURES


def test_curves_cross_where_they_are_equal() -> None:
    people = [2.0**k for k in range(4, 10)]
    flat, falling = [(n, 0.5) for n in people], [(n, 50 / n) for n in people]
    assert crossover(flat, falling) == pytest.approx(100)
    assert crossover(falling, flat) is None


KEPT = sorted((Path(__file__).parents[2] / "docs" / "reproduced").glob("*.csv"))


@pytest.mark.parametrize("path", KEPT, ids=[path.name for path in KEPT])
def test_rows_that_are_kept_are_of_their_figure_and_listed(path: Path) -> None:
    figure = FIGURES[path.stem.removesuffix("-quick")]
    study = Study(path, figure.keys)
    assert len({tuple(row[key] for key in figure.keys) for row in study.rows}) == len(
        study.rows
    )
    assert figure.remarks(study)
    assert (
        f"| `{path.name}` | `reproductions {figure.name}"
        in (path.parent / "README.md").read_text()
    )
