"""Every lower bound that is shown names the methods it limits, and limits what it stands by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright.cli import main
from noisewright.report.pages.release import release_page
from noisewright.solution import BoundClass

pytestmark = pytest.mark.filterwarnings("ignore::noisewright.errors.WeakPrivacyWarning")

LINEAR, UNBIASED = BoundClass.LINEAR.value, BoundClass.UNBIASED.value
GAUSSIAN = ["--epsilon", "1", "--delta", "1e-9", "--composition", "many"]
LOCAL = ["--model", "local", "--epsilon", "1"]
SHOWN = [
    (["plan", "prefix:6", *GAUSSIAN], LINEAR),
    (["plan", "prefix:6", "--epsilon", "1", "--mechanism", "laplace-strategy"], LINEAR),
    (["plan", "prefix:6", *LOCAL, "--effort", "low"], UNBIASED),
    (["compare", "prefix:6", *GAUSSIAN], LINEAR),
    (["compare", "prefix:6", *LOCAL, "--effort", "low"], UNBIASED),
    (["norm", "prefix:6"], LINEAR),
    (["norm", "prefix:6", "--entrywise", "0.1"], BoundClass.WITHIN_TOLERANCE.value),
]


def told(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("command", "name"),
    SHOWN,
    ids=lambda v: v if isinstance(v, str) else " ".join(v[:3]),
)
def test_json_and_tables_name_the_class_of_a_bound(
    command: list[str], name: str
) -> None:
    documents = json.loads(told(*command, "--json"))
    for document in documents if isinstance(documents, list) else [documents]:
        assert document["bound_class"] == name
    assert BoundClass(name).statement in told(*command)


@pytest.mark.parametrize("budget", [["--epsilon", "1"], GAUSSIAN, ["--rho", "0.1"]])
@pytest.mark.parametrize("command", ["plan", "compare"])
def test_wider_classes_are_told_with_their_figures(
    command: str, budget: list[str]
) -> None:
    documents = json.loads(told(command, "prefix:6", *budget, "--json"))
    text = told(command, "prefix:6", *budget)
    for document in documents if command == "compare" else [documents]:
        assert len(document["bounds"]) == (2 if budget is GAUSSIAN else 3)
        for bound in document["bounds"]:
            own = document["rmse"] / bound["lower_bound"]
            assert bound["ratio"] == pytest.approx(own, rel=1e-9)
            assert bound["ratio"] >= 1
            assert f"{bound['lower_bound']:,.4g}" in text
            assert BoundClass(bound["class"]).statement in text


def test_without_a_linear_bound_its_class_is_not_named() -> None:
    command = ["plan", "prefix:3*prefix:2", *GAUSSIAN, "--mechanism", "gaussian-cells"]
    document = json.loads(told(*command, "--json"))
    assert (document["lower_bound"], document["ratio"]) == (None, None)
    assert document["bound_class"] is None
    assert f"Bound for {LINEAR}" not in told(*command)
    assert [b["class"] for b in document["bounds"]] == [
        BoundClass.ANY_NOISE,
        BoundClass.ANY_MECHANISM,
    ]


def test_releases_estimates_and_pages_name_the_class() -> None:
    release = nw.plan("prefix:4", nw.Privacy(rho=0.5)).release(np.arange(4))
    assert release.metadata["bound_class"] == LINEAR
    text = release_page(release)
    assert f"bound for {LINEAR}" in text
    assert BoundClass.LINEAR.statement in text
    for bound in release.metadata["bounds"]:
        assert BoundClass(bound["class"]).statement in text
        assert f"{bound['lower_bound']:,.4g}" in text
    plan = nw.plan("prefix:4", nw.Privacy(epsilon=1), nw.Local(effort="low"))
    assert plan.record()["bound_class"] == UNBIASED
    unbounded = nw.plan(
        "prefix:4", nw.Privacy(rho=0.5), nw.Central(mechanism="gaussian-cells")
    )
    # Without one for linear strategies, the headline is the one for any mechanism whatever.
    widest = unbounded.forecast().bounds[-1]
    assert f"bound for {widest.bound_class}" in release_page(
        unbounded.release(np.arange(4))
    )
    assert f"Bound for {LINEAR}" not in release_page(unbounded.release(np.arange(4)))


@pytest.mark.parametrize("delta", [1e-6, 0.1])
def test_strategies_with_a_delta_are_outside_the_class_of_local_bounds(
    delta: float,
) -> None:
    """At δ = 0.1 Gaussian reports need fewer people than any strategy of ε alone could."""
    promise = nw.Privacy(epsilon=0.2, delta=delta, neighbours="replace-one")
    plan = nw.plan("identity:8", promise, nw.Local(mechanism="matrix-l2"))
    summary = plan.summary()
    bounds = [
        name
        for name in summary
        if "bound" in name or "ratio" in name or name == "bound"
    ]
    assert bounds
    assert {name: summary[name] for name in bounds} == dict.fromkeys(bounds)
    rows = {row.mechanism: row for row in nw.compare("identity:8", promise, nw.Local())}
    assert rows["matrix-l2"].ratio is None
    assert rows["matrix-l2"].to_dict()["bound_class"] is None
    assert rows["subset-selection"].to_dict()["bound_class"] == UNBIASED


@pytest.mark.parametrize(
    "text", ["identity:8", "total:4", "prefix:3", "allmarginals:2^2"]
)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 20.0])
def test_the_noise_of_a_bound_is_the_noise_of_the_plan(
    text: str, epsilon: float
) -> None:
    """A discrete Laplace law has less variance than 2/ε²: no plan may go below its own bound."""
    privacy = nw.Privacy(epsilon=epsilon)
    plan = nw.plan(text, privacy, nw.Central(mechanism="laplace-strategy"))
    bound = plan.lower_bound
    assert bound is not None
    assert plan.achieved >= bound * (1 - 1e-12)
    for row in nw.compare(text, privacy):
        if row.ratio is not None:
            assert row.achieved >= row.lower_bound * (1 - 1e-12)


@pytest.mark.parametrize("error", ["rmse", "max"])
def test_charts_draw_the_error_that_the_bound_is_about(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        "noisewright.report.charts.draw_comparison",
        lambda *given: drawn.append(given),
    )
    chart = str(tmp_path / "chart.svg")
    told("compare", "prefix:4+5@total:4", *GAUSSIAN, "--error", error, "--chart", chart)
    ((values, least, bound_class, _, axis, _),) = drawn
    assert bound_class is BoundClass.LINEAR
    assert error in axis
    assert [v / least for _, v, _ in values] == pytest.approx(
        [r for *_, r in values], rel=1e-9
    )
