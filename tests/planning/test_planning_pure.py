"""Pure privacy from plan to release: every family keeps its promise, its forecast and its price."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from noisewright import Central, plan
from noisewright.domain import Categorical, Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.targets import Target, fit_budget, with_budget
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Marginals, Workload, workload
from planning.test_planning_release import repeated

RANDOM = np.random.default_rng(8).integers(0, 2, size=(5, 9)).astype(float)
FAMILIES: dict[str, tuple[Any, str]] = {
    "sums of cells": ("prefix:24", "laplace-strategy"),
    "cells": ("identity:6", "laplace-strategy"),
    "merged cells": (
        np.array([[1, 1, 0, -1, 0], [0, 2, 1, 0, 0]], dtype=float),
        "laplace-strategy",
    ),
    "few queries": (RANDOM, "laplace-strategy"),
    "factor by factor": ("prefix:46*prefix:47", "laplace-strategy"),
    "attributes at once": ("prefix:8*total:2*ranges:10", "laplace-strategy"),
    "tables": (Marginals.of_order((2, 3, 2, 2, 5, 2, 3), 1), "laplace-strategy"),
    "one cell": ("prefix:1", "laplace-strategy"),
    "answers": ("prefix:6", "laplace"),
    "counts": ("prefix:6*identity:2", "laplace-cells"),
    "tree": ("ranges:7*total:2", "laplace-tree"),
}
PLANS: dict[str, CentralPlan] = {}


def planned(name: str, neighbours: Any = "add-remove") -> CentralPlan:
    key = f"{name}, {neighbours}"
    if key not in PLANS:
        asked, mechanism = FAMILIES[name]
        privacy = Privacy(epsilon=0.8, neighbours=neighbours)
        PLANS[key] = plan(workload(asked), privacy, Central(mechanism=mechanism))
    return PLANS[key]


def exact_share(made: CentralPlan, cell: int, other: int | None = None) -> Fraction:
    """The part of ε spent on a person in a cell instead of nobody, or of one in another cell."""
    x, y = np.zeros((2, made.workload.size), dtype=np.int64)
    x[cell] = 1
    if other is not None:
        y[other] = 1
    moved = zip(*(made.mechanism.exact(made.exact(h)) for h in (x, y)), strict=True)
    lengths = [int(abs(a.astype(object) - b).sum()) for a, b in moved]
    scales = [
        Fraction(law.scale) for law in made.mechanism.strategy.laws(made.mechanism.law)
    ]
    spent = sum(length / scale for length, scale in zip(lengths, scales, strict=True))
    return Fraction(spent) / Fraction(made.privacy.epsilon)


@pytest.mark.parametrize("name", FAMILIES)
def test_adding_a_person_spends_the_budget_and_no_more(name: str) -> None:
    made = planned(name)
    cells = np.random.default_rng(0).permutation(made.workload.size)[:100]
    shares = [exact_share(made, int(cell)) for cell in cells]
    assert max(shares) <= 1
    # the sensitivity is that of the integers measured, not a guess
    assert max(shares) > 0.95


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "one cell"])
def test_replacing_a_person_spends_no_more_than_the_budget(name: str) -> None:
    made = planned(name, "replace-one")
    rng = np.random.default_rng(1)
    size = made.workload.size
    pairs = [rng.choice(size, 2, replace=False) for _ in range(60)]
    shares = [exact_share(made, int(u), int(v)) for u, v in pairs]
    assert max(shares) <= 1


@pytest.mark.parametrize(
    "name", ["sums of cells", "merged cells", "few queries", "tree"]
)
def test_one_block_on_one_axis_has_the_tight_replace_one_sensitivity(name: str) -> None:
    made = planned(name, "replace-one")
    (block,) = made.mechanism.strategy.blocks
    columns = block.factors[0].T.astype(object)
    largest = max(int(abs(a - b).sum()) for a in columns for b in columns)
    scale = Fraction(block.multiplier) / Fraction(block.noise)
    assert made.mechanism.sensitivity == pytest.approx(
        float(largest * scale), rel=1e-12
    )


MOVED = ("sums of cells", "cells", "attributes at once", "tables", "few queries")


@pytest.mark.parametrize(
    ("name", "neighbours"),
    [(name, "add-remove") for name in FAMILIES]
    + [(name, "replace-one") for name in MOVED],
)
def test_releases_have_the_variance_forecast_and_no_bias(
    name: str, neighbours: str
) -> None:
    made = planned(name, neighbours)
    releases = 4000
    x = np.random.default_rng(2).integers(0, 50, size=made.workload.size)
    errors = repeated(made, x, seed=3, releases=releases) - made.workload.matvec(x)
    # A sum of Laplace errors has kurtosis at most 6, so the sample variance has relative deviation
    # at most √(5/N). Six deviations each way for at most 2,200 queries a case: false alarms of the
    # whole test below 1e-4, heavier tails of squares included.
    expected = made.accuracy.variance
    seen = expected > 0
    assert (np.abs(errors[:, ~seen]) < 1e-6).all()
    spread = errors[:, seen].var(axis=0) / expected[seen]
    assert np.abs(spread - 1).max() <= 6 * np.sqrt(5 / releases)
    bias = np.abs(errors[:, seen].mean(axis=0)) / np.sqrt(expected[seen] / releases)
    assert bias.max() <= 6


@pytest.mark.parametrize("measure", ["rmse", "max"])
@pytest.mark.parametrize(
    "name", ["sums of cells", "attributes at once", "tables", "few queries"]
)
@pytest.mark.parametrize("epsilon", [0.003, 0.4, 7.0])
def test_budgets_from_targets_are_inverse(
    name: str, measure: Any, epsilon: float
) -> None:
    made = planned(name)
    forecast = with_budget(made, "epsilon", epsilon).forecast()
    fit = fit_budget(made, [Target(measure, getattr(forecast, measure))])
    assert fit.plan.privacy.epsilon == pytest.approx(epsilon, rel=1e-6)


def test_a_named_table_decides_the_budget() -> None:
    domain = Domain(
        [Categorical(n, list(range(k))) for n, k in (("a", 4), ("b", 3), ("c", 6))]
    )
    queries = [{"marginal": ["a", "b"]}, {"marginal": ["c"]}, {"total": True}]
    made = plan(Workload.from_spec({"queries": queries}, domain), Privacy(epsilon=1.0))
    fit = fit_budget(made, [Target("rmse", 1e6), Target.parse("a*b: 5% of 60")])
    assert fit.binding == Target("max", 3.0, "a*b")
    table = {t.name: t for t in made.tables()}["a × b"]
    assert fit.plan.forecast().std[: table.queries].max() == pytest.approx(
        3.0, rel=1e-6
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [1e-4, 1e-7])
def test_small_budgets_are_planned_on_coarser_grids(
    epsilon: float, neighbours: Any
) -> None:
    made = plan(
        "prefix:12*prefix:6*prefix:40", Privacy(epsilon=epsilon, neighbours=neighbours)
    )
    fine = plan(
        "prefix:12*prefix:6*prefix:40", Privacy(epsilon=1.0, neighbours=neighbours)
    )
    assert made.achieved * epsilon == pytest.approx(fine.achieved, rel=0.05)


def test_budgets_beyond_any_grid_name_what_would_do() -> None:
    with pytest.raises(InvalidParameter, match="choose it between"):
        plan("prefix:12", Privacy(epsilon=1e-14))
