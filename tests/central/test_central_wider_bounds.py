"""Bounds for any noise, any unbiased mechanism and any mechanism whatever, against all of them."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.problem import CentralProblem
from noisewright.central.wider_bounds import least_factorization, wider_bounds
from noisewright.domain.unit import Unit
from noisewright.errors import NoisewrightError
from noisewright.planning.central.choose import plan_central
from noisewright.planning.central.options import Central
from noisewright.solution import BoundClass
from noisewright.workload.forms.text import workload
from oracles.k_norm import changes, k_norm_moments
from oracles.workloads import TEXTS, matrix

BUDGETS = {
    "pure": [{"epsilon": 1.0}, {"epsilon": 0.25}, {"epsilon": 4.0}],
    "other": [
        {"rho": 0.05},
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 1.0, "delta": 0.5},
    ],
}
SAMPLE = TEXTS[::3]
"""Programs for pairs of cells take a second a budget: all texts are among the slow tests."""

EVERY = {BoundClass.ANY_NOISE, BoundClass.ANY_MECHANISM}


def bounds(
    queries: object, privacy: nw.Privacy, norm: float = 2.0
) -> dict[BoundClass, float]:
    asked = workload(queries)  # type: ignore[arg-type]
    return dict(
        wider_bounds(CentralProblem(asked, asked.structure.sizes, privacy, norm))
    )


def check(
    text: str, neighbours: str, kind: str, norm: float, mechanism: str = "auto"
) -> None:
    """The best plan under every budget of a kind: no bound of any class is above its error."""
    first, *others = (nw.Privacy(**b, neighbours=neighbours) for b in BUDGETS[kind])
    try:
        plan = plan_central(workload(text), first, Central(norm, mechanism))
    except NoisewrightError:
        assert neighbours == "replace-one"  # nothing but the number of people is asked
        return
    unbiased = BoundClass.ANY_UNBIASED
    if neighbours == "replace-one":
        unbiased = BoundClass.ANY_UNBIASED_MIXED
    for one in [plan, *(plan.at(privacy) for privacy in others)]:
        classes = {bound.bound_class for bound in one.bounds}
        assert classes == (
            EVERY if one.privacy.delta is not None else EVERY | {unbiased}
        )
        for bound in one.bounds:
            assert one.achieved >= bound.lower_bound * (1 - 1e-12)
            assert bound.ratio == pytest.approx(one.achieved / bound.lower_bound)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_no_gaussian_plan_is_below_a_wider_bound(text: str, neighbours: str) -> None:
    check(text, neighbours, "other", 2.0)


@pytest.mark.parametrize("text", SAMPLE)
@pytest.mark.parametrize("mechanism", ["auto", "laplace-strategy"])
def test_no_pure_plan_is_below_a_wider_bound(text: str, mechanism: str) -> None:
    check(text, "add-remove", "pure", 2.0, mechanism)


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_no_laplace_strategy_is_below_a_wider_bound(text: str) -> None:
    check(text, "add-remove", "pure", 2.0, "laplace-strategy")


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", ["pure", "other"])
def test_no_plan_for_any_mean_is_below_a_wider_bound(
    text: str, neighbours: str, kind: str
) -> None:
    for norm in (2.0, 4.0, math.inf):
        check(text, neighbours, kind, norm)


@pytest.mark.parametrize("text", ["prefix:9", "marginals:2^4:2"])
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.1}])
def test_no_mechanism_compared_is_below_a_wider_bound(
    text: str, budget: dict[str, float]
) -> None:
    rows = [
        row for row in nw.compare(text, nw.Privacy(**budget)) if row.refusal is None
    ]
    assert len(rows) > 2
    for row in rows:
        assert [b.lower_bound for b in row.bounds] == [
            b.lower_bound for b in rows[0].bounds
        ]
        assert len(row.bounds) == 3
        assert all(row.achieved >= bound.lower_bound for bound in row.bounds)
        assert row.widest_ratio == row.bounds[-1].ratio


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_k_norm_noise_is_not_below_the_bounds(neighbours: str, epsilon: float) -> None:
    """Noise shaped by the changes themselves: often the best there is for few queries."""
    rng = np.random.default_rng(5)
    privacy = nw.Privacy(epsilon=epsilon, neighbours=neighbours)
    signs = [np.array(list(product((-1.0, 1.0), repeat=k))).T for k in (1, 2, 3)]
    others = [rng.integers(-2, 3, size=(k, 7)).astype(float) for k in (2, 3)]
    for rows in [*signs, *others, matrix("prefix:9")[:3]]:
        spread = changes(rows, neighbours)
        variances = np.diagonal(k_norm_moments(spread, epsilon))
        for limited, least in bounds(rows, privacy).items():
            assert least <= math.sqrt(variances.mean()), limited
        for limited, least in bounds(rows, privacy, math.inf).items():
            assert least <= math.sqrt(variances.max()), limited


def test_two_signs_are_within_a_few_percent_of_the_bound_for_any_noise() -> None:
    """K-norm noise of the square: no constant of the bound could be much larger."""
    rows = np.array(list(product((-1.0, 1.0), repeat=2))).T
    moments = k_norm_moments(changes(rows, "add-remove"), 0.1)
    least = bounds(rows, nw.Privacy(epsilon=0.1))[BoundClass.ANY_NOISE]
    assert 1 <= math.sqrt(np.diagonal(moments).mean()) / least < 1.005


def test_columns_in_pairs_of_signs_double_once_under_replacement() -> None:
    rows = np.array(list(product((-1.0, 1.0), repeat=2))).T
    added = bounds(rows, nw.Privacy(epsilon=1.0))[BoundClass.ANY_NOISE]
    replaced = bounds(rows, nw.Privacy(epsilon=1.0, neighbours="replace-one"))
    assert replaced[BoundClass.ANY_NOISE] == pytest.approx(2 * added, rel=1e-4)


def test_the_figures_of_unbiased_mechanisms() -> None:
    one = nw.Privacy(epsilon=1.0)
    assert bounds("total:1", one)[BoundClass.ANY_UNBIASED] == pytest.approx(
        0.9595, abs=1e-4
    )
    assert bounds("prefix:64", one)[BoundClass.ANY_UNBIASED] == pytest.approx(
        2.015, abs=5e-4
    )


@pytest.mark.parametrize(("rho", "within"), [(0.05, 1.026), (0.1, 1.052)])
def test_gaussian_plans_are_near_the_best_of_all_mechanisms(
    rho: float, within: float
) -> None:
    for text in ("prefix:64", "marginals:2^8:3", "ranges:16"):
        plan = nw.plan(text, nw.Privacy(rho=rho))
        ratios = {bound.bound_class: bound.ratio for bound in plan.bounds}
        assert ratios[BoundClass.ANY_MECHANISM] == pytest.approx(within, abs=6e-4)


def test_a_table_without_every_type_needs_less_of_an_unbiased_mechanism() -> None:
    """Answers 0, 1, 2 and everyone at 1: a replaced person changes the sum by one, not by two."""
    privacy = nw.Privacy(epsilon=1.0, neighbours="replace-one")
    known = bounds(np.array([[0.0, 1.0, 2.0]]), privacy)
    assert BoundClass.ANY_UNBIASED not in known
    one_apart = bounds(np.array([[0.0, 1.0]]), privacy)[BoundClass.ANY_UNBIASED_MIXED]
    assert known[BoundClass.ANY_UNBIASED_MIXED] == pytest.approx(
        2 * one_apart, rel=1e-6
    )
    assert "every type occurs" in BoundClass.ANY_UNBIASED_MIXED


DOMAIN = (
    nw.Categorical("work", ("none", "paid")),
    nw.Categorical("region", tuple("abcd")),
)
ASKED = {
    "queries": [{"marginal": ["work", "region"], "weight": 3}, {"marginal": ["region"]}]
}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_weights_of_questions_are_in_the_bounds(neighbours: str) -> None:
    asked = nw.Workload.from_spec(ASKED, nw.Domain(DOMAIN))
    cells = np.eye(8)
    regions = np.kron(np.ones((1, 2)), np.eye(4))
    written = np.concatenate([3 * cells, regions])
    for budget in ({"epsilon": 1.0}, {"rho": 0.1}):
        privacy = nw.Privacy(**budget, neighbours=neighbours)
        known = {b.bound_class: b.lower_bound for b in nw.plan(asked, privacy).bounds}
        assert known == pytest.approx(bounds(written, privacy), rel=1e-3)


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0}, {"rho": 0.1}, {"epsilon": 1.0, "delta": 1e-6}]
)
def test_all_rows_of_a_person_may_be_in_one_cell(budget: dict[str, float]) -> None:
    privacy = nw.Privacy(**budget)
    several = nw.Domain(DOMAIN, unit=Unit("id", rows=4))
    asked = [
        nw.Workload.from_spec(ASKED, domain) for domain in (nw.Domain(DOMAIN), several)
    ]
    one, four = (nw.plan(questions, privacy).bounds for questions in asked)
    assert [b.lower_bound for b in four] == pytest.approx(
        [4 * b.lower_bound for b in one]
    )
    assert all(b.ratio is not None and b.ratio >= 1 for b in four)


def test_sums_and_impossible_cells_have_no_wider_bound() -> None:
    privacy = nw.Privacy(rho=0.1)
    empty = nw.Domain(DOMAIN, impossible=[{"work": ["paid"], "region": ["a"]}])
    assert nw.plan(nw.Workload.from_spec(ASKED, empty), privacy).bounds == ()
    income = nw.Numeric("income", edges=(0, 20, 50), lower=10.0, upper=60.0)
    plan = nw.plan(
        nw.Sums("income", [["work"]], nw.Domain((*DOMAIN, income)), unit=1.0), privacy
    )
    assert plan.bounds == ()
    assert plan.summary()["bounds"] == []


def test_bounds_follow_from_what_is_asked_and_not_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.nw"
    for privacy in (nw.Privacy(epsilon=1.0), nw.Privacy(epsilon=1.0, delta=1e-6)):
        plan = nw.plan("prefix:12", privacy)
        plan.save(path)
        assert nw.load(path).bounds == plan.bounds
        assert b"any mechanism" not in path.read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        "prefix:5000",
        "ranges:3000*identity:4",
        "marginals:2^30:2",
        "prefix:64*prefix:64+total:4096",
    ],
)
def test_large_workloads_are_bounded_by_their_structure(text: str) -> None:
    asked = workload(text)
    least = least_factorization(asked, asked.structure.sizes, 2.0, "add-remove")
    assert least is not None
    assert least > 0


def test_where_a_bound_would_take_minutes_none_is_known() -> None:
    asked = workload("ranges:700")
    assert least_factorization(asked, (700,), 2.0, "replace-one") is None
    privacy = nw.Privacy(rho=0.1, neighbours="replace-one")
    assert wider_bounds(CentralProblem(asked, (700,), privacy, 2.0)) == ()


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_long_running_counts_of_replaced_people_are_bounded_by_those_who_come_last(
    norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same argument on few steps, where the best factorization for replaced people is known."""
    asked = workload("prefix:12")
    best = least_factorization.__wrapped__(asked, (12,), norm, "replace-one")
    monkeypatch.setattr("noisewright.central.wider_bounds._PAIRED_CELLS", 8)
    moved = least_factorization.__wrapped__(asked, (12,), norm, "replace-one")
    assert 0.7 * best < moved <= best


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0}, {"rho": 0.1}, {"epsilon": 1, "delta": 1e-6}]
)
def test_streams_have_the_bounds_of_all_their_running_counts(
    neighbours: str, budget: dict[str, float]
) -> None:
    privacy = nw.Privacy(**budget, neighbours=neighbours)
    for steps in (1, 2, 12, 300):
        plan = nw.plan(nw.RunningCount(steps), privacy)
        stream = plan.forecast()
        assert stream.bounds or (steps == 1 and neighbours == "replace-one")
        for bound in stream.bounds:
            assert bound.ratio is not None
            assert 1 <= bound.ratio == pytest.approx(stream.rmse / bound.lower_bound)
        if steps == 12:
            offline = nw.plan("prefix:12", plan.privacy).forecast()
            assert [b.bound_class for b in stream.bounds] == [
                b.bound_class for b in offline.bounds
            ]
            known = [b.lower_bound for b in offline.bounds]
            assert [b.lower_bound for b in stream.bounds] == pytest.approx(known)
        assert (stream.lower_bound is None) == (
            plan.privacy.kind == "pure" or not stream.bounds
        )
        assert stream.ratio is None or 1 <= stream.ratio < (1.6 if steps >= 12 else 3)
