"""The bound by cells two by two: proved by multipliers, above single cells, below all noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.grouped_bound import (
    _multipliers,
    _steps,
    grouped_bound,
    proved_pair,
)
from noisewright.central.wider_bounds import least_by_pairs
from noisewright.solution import BoundClass
from noisewright.workload.forms.text import workload

FORM = np.array([[2.0, 1.5], [1.5, 1.8]])


def laplace(epsilon: float, reach: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Independent discrete Laplace noise on two numbers: points and chances."""
    k = np.arange(-reach, reach + 1)
    chances = np.exp(-epsilon * np.abs(k))
    points = np.stack(np.meshgrid(k, k, indexing="ij"), axis=-1).reshape(-1, 2)
    joint = np.outer(chances, chances).ravel()
    return points, joint / joint.sum()


def carried(
    epsilon: float, core: int, reach: int = 40
) -> tuple[np.ndarray, np.ndarray]:
    """Noise on two numbers whose second takes back what the core of the first adds."""
    k = np.arange(-reach, reach + 1)
    first, second = (grid.ravel() for grid in np.meshgrid(k, k, indexing="ij"))
    kept = np.clip(first, -core, core)
    chances = np.exp(-epsilon * (np.abs(first - kept) + np.abs(second)))
    return np.stack([first, second - kept], axis=1), chances / chances.sum()


def largest_ratio(points: np.ndarray, chances: np.ndarray, within: int) -> float:
    """The largest log ratio of chances between neighbouring points near the middle."""
    law = {tuple(p): c for p, c in zip(points.tolist(), chances.tolist(), strict=True)}
    near = [p for p in law if max(map(abs, p)) <= within]
    steps = [((x, y), q) for x, y in near for q in ((x + 1, y), (x, y + 1)) if q in law]
    return max(abs(math.log(law[p] / law[q])) for p, q in steps)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize("core", [0, 1, 2, 3])
def test_no_noise_on_two_numbers_is_below_its_bound(epsilon: float, core: int) -> None:
    least = proved_pair(FORM, epsilon, np.zeros(2))
    points, chances = carried(epsilon, core)
    assert largest_ratio(points, chances, 12) <= epsilon + 1e-9
    error = float(chances @ np.einsum("ki,ij,kj->k", points, FORM, points))
    assert least <= error * (1 + 1e-9)


def test_carried_noise_reaches_the_bound_on_whole_numbers() -> None:
    """So the bound for two numbers cannot be raised; independent noise is well above it."""
    least = proved_pair(FORM, 1.0, np.zeros(2))

    def error(law: tuple[np.ndarray, np.ndarray]) -> float:
        return float(law[1] @ np.einsum("ki,ij,kj->k", law[0], FORM, law[0]))

    best = min(error(carried(1.0, core)) for core in range(5))
    assert least == pytest.approx(best, rel=2e-3)
    assert error(laplace(1.0)) > 1.05 * least


def test_any_multipliers_prove_something_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the multipliers, or some of chance: the bound is recomputed, and never above."""
    honest = proved_pair(FORM, 1.0, np.zeros(2))
    rng = np.random.default_rng(1)
    for wrong in (
        lambda x: 2 * x,
        lambda x: x * rng.uniform(size=x.size),
        np.zeros_like,
    ):
        module = "noisewright.central.grouped_bound._multipliers"
        monkeypatch.setattr(
            module, lambda *given, wrong=wrong: wrong(_multipliers(*given))
        )
        assert proved_pair(FORM, 1.0, np.zeros(2)) <= honest * (1 + 1e-7)
        monkeypatch.undo()


def test_steps_are_all_pairs_of_neighbours_both_ways() -> None:
    first, second = _steps(3)
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    near = {(a, b) for a in range(9) for b in range(9)
            if abs(a // 3 - b // 3) + abs(a % 3 - b % 3) == 1}  # fmt: skip
    assert pairs == near


@pytest.mark.parametrize(
    ("text", "gain"), [("prefix:8", 1.045), ("marginals:2^4:2", 1.03)]
)
def test_two_cells_at_a_time_tell_more_than_one(text: str, gain: float) -> None:
    plan = nw.plan(
        text, nw.Privacy(epsilon=1.0), nw.Central(mechanism="laplace-strategy")
    )
    least = {bound.bound_class: bound.lower_bound for bound in plan.bounds}
    single = math.sqrt(2) * least[BoundClass.ANY_UNBIASED]  # that is √V of pure privacy
    assert gain * single < least[BoundClass.ANY_NOISE] < plan.achieved
    assert least[BoundClass.ANY_MECHANISM] == least[BoundClass.ANY_NOISE]


def test_any_positive_weights_give_a_bound() -> None:
    asked = workload("prefix:4")
    gram = asked.gram().dense()
    best = asked.queries * least_by_pairs(asked, 1.0) ** 2
    for seed in range(2):
        weights = np.random.default_rng(seed).uniform(0.5, 1.5, size=4)
        total = grouped_bound(gram, weights, 1.0)
        assert total is not None
        # Laplace noise on cells is private, and its error is known.
        assert total <= 1 / (2 * math.sinh(0.5) ** 2) * np.trace(gram)
        assert total <= 1.1 * best


def test_small_budgets_are_reached_in_wide_steps() -> None:
    gram = workload("prefix:4").gram().dense()
    one, tenth = (grouped_bound(gram, np.ones(4), e) for e in (1.0, 0.1))
    assert one is not None
    assert tenth is not None
    assert 80 * one < tenth < 2 * np.trace(gram) / 0.1**2


def test_the_order_of_equal_forms_changes_nothing() -> None:
    """Mirrored cells have forms that differ in their order and in rounding: so do processors."""
    gram = workload("ranges:16").gram().dense()
    plain = grouped_bound(gram, np.ones(16), 1.0)
    assert plain is not None

    for seed in range(4):
        rng = np.random.default_rng(seed)
        rounded = gram * (1 + 1e-14 * rng.standard_normal(gram.shape))
        moved = grouped_bound((rounded + rounded.T) / 2, np.ones(16), 1.0)
        assert moved == pytest.approx(plain, rel=1e-6)


def test_each_of_two_numbers_bounds_their_form() -> None:
    """No program reaches forms that are flat along one direction; one number alone does."""
    first = np.array([1.0, 0.3])
    gram = np.outer(first, first) + 1e-6 * np.eye(2)
    total = grouped_bound(gram, np.ones(2), 1.0)
    single = 2 * math.exp(-1) / math.expm1(-1) ** 2
    assert total is not None
    assert total >= (1 - 1e-6) * single
