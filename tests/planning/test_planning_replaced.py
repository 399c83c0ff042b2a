"""One person replaced: sensitivities that are exact, certificates, and a total that is public."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.norm.factorize import factorize
from noisewright.privacy.promise.budget import Privacy
from oracles.blocks import whole_matrix

REPLACED = Privacy(rho=0.5, neighbours="replace-one")
SMALL = [
    "prefix:9",
    "ranges:6",
    "identity:7",
    "prefix:5*identity:3",
    "marginals:2^4:2",
    "marginals:3x4x2:<=2",
    "allmarginals:2^3",
    "prefix:5*identity:4+identity:5*prefix:4",
]


@pytest.mark.parametrize("error", ["rmse", "max"])
@pytest.mark.parametrize("text", SMALL)
def test_plans_are_certified_and_sensitivities_exact(text: str, error: str) -> None:
    plan = nw.plan(text, REPLACED, nw.Central(error=error))
    a = whole_matrix(plan.mechanism.strategy)
    gram = a[[not np.ptp(row) < 1e-12 for row in a]]
    gram = gram.T @ gram
    lengths = np.diagonal(gram)
    truth = np.sqrt((lengths[:, None] + lengths - 2 * gram).max())
    assert truth * (1 - 1e-12) <= plan.mechanism.sensitivity <= truth * (1 + 1e-6)
    ratio = plan.forecast().ratio
    assert ratio is not None
    assert 1 <= ratio < 1.001
    best = factorize(
        text, norm=2 if error == "rmse" else np.inf, neighbours="replace-one"
    )
    assert plan.proposal.bound <= best.value * (1 + 1e-9)
    assert plan.proposal.value >= best.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("mechanism", ["residual", "gaussian-strategy", "split"])
@pytest.mark.parametrize(
    "text", ["prefix:5*identity:4+identity:5*prefix:4", "prefix:12"]
)
def test_no_bound_exceeds_the_optimum(text: str, mechanism: str) -> None:
    if mechanism == "split" and "+" not in text:
        return
    planned = nw.plan(text, REPLACED, nw.Central(mechanism=mechanism)).proposal
    best = factorize(text, norm=2, neighbours="replace-one")
    assert planned.value >= best.lower_bound * (1 - 1e-6)
    if planned.bound is not None:
        assert planned.bound <= best.value * (1 + 1e-9)


def test_the_bound_of_large_unions_is_kept() -> None:
    plan = nw.plan("prefix:40*total:12+total:40*identity:12", REPLACED)
    ratio = plan.forecast().ratio
    assert ratio is not None
    assert 1 <= ratio < 1.1


def test_the_number_of_people_is_exact_and_free() -> None:
    counts = np.arange(12)
    plan = nw.plan("total:12+prefix:12", REPLACED)
    released = plan.release(counts)
    assert released.answers[0] == pytest.approx(counts.sum(), abs=0.01)
    assert released.std[0] < 0.01


@pytest.mark.parametrize("epsilon", [1.0, 15.0, 40.0])
@pytest.mark.parametrize("text", ["total:12+prefix:12", "ranges:6", "prefix:9"])
def test_grids_are_fine_and_the_public_total_is_covered(
    text: str, epsilon: float
) -> None:
    counts = np.arange(nw.workload(text).size)
    privacy = Privacy(epsilon=epsilon, delta=1e-6, neighbours="replace-one")
    plan = nw.plan(text, privacy, nw.Central(composition="many"))
    laws = zip(
        plan.mechanism.strategy.blocks,
        plan.mechanism.strategy.laws(plan.mechanism.law),
        strict=True,
    )
    assert all(law.scale > 50 for block, law in laws if block.attributes)
    whole = np.flatnonzero((plan.workload.dense() == 1).all(axis=1))
    for _ in range(40):
        released = plan.release(counts)
        off = np.abs(released.answers[whole] - counts.sum())
        assert (off <= released.halfwidth[whole] + 1e-9).all()


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0}])
def test_the_number_of_people_alone_needs_no_plan(budget: dict[str, Any]) -> None:
    privacy = Privacy(**budget, neighbours="replace-one")
    for ask in (
        lambda: nw.plan("total:5", privacy),
        lambda: nw.compare("total:5", privacy),
    ):
        with pytest.raises(InvalidParameter, match="public"):
            ask()
