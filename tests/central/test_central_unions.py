"""Unions of products: each way to plan them against brute force, and all of them together."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.gaussian.product_bounds import commuting_bound
from noisewright.central.gaussian.product_designs import compile_family
from noisewright.central.registry import CENTRAL
from noisewright.norm.factorize import factorize
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.structure import terms
from oracles.blocks import whole_matrix

UNIONS = {
    "crossed": "prefix:6*identity:4+identity:6*prefix:4",
    "with totals": "ranges:5*total:3+total:5*identity:3+2@(prefix:5*identity:3)",
    "three attributes": (
        "prefix:4*identity:3*total:2+total:4*ranges:3*identity:2+prefix:4*prefix:3*identity:2"
    ),
}
ZCDP = Privacy(rho=0.5)
WAYS = ("residual", "shared-basis", "split")


@pytest.mark.parametrize("text", UNIONS.values(), ids=UNIONS)
@pytest.mark.parametrize("way", WAYS)
def test_errors_are_those_of_brute_force(text: str, way: str) -> None:
    plan = nw.plan(text, ZCDP, nw.Central(mechanism=way))
    w = workload(text).dense()
    longest = np.linalg.norm(whole_matrix(plan.mechanism.strategy), axis=0).max()
    assert longest <= plan.mechanism.sensitivity <= longest * 1.5
    if way == "split":
        lengths = np.concatenate(
            [separately(plan.mechanism.strategy, part) for part in parts_of(text)]
        )
    else:
        a = whole_matrix(plan.mechanism.strategy)
        reconstruction = w @ np.linalg.pinv(a)
        np.testing.assert_allclose(reconstruction @ a, w, atol=1e-6)
        lengths = np.linalg.norm(reconstruction, axis=1)
    # The grid is so fine that rounding of the noise does not show.
    np.testing.assert_allclose(
        plan.accuracy.std, lengths * plan.mechanism.law.scale, rtol=1e-5
    )


def parts_of(text: str) -> list[np.ndarray]:
    return [
        (2.0 if "2@" in part else 1.0) * workload(part.replace("2@", "")).dense()
        for part in text.split("+")
    ]


def separately(strategy: BlockStrategy, part: np.ndarray) -> np.ndarray:
    """Error of every query from the one block that says the part best."""
    found = []
    for block in strategy.blocks:
        a = whole_matrix(BlockStrategy(strategy.sizes, (block,)))
        reconstruction = part @ np.linalg.pinv(a)
        if np.allclose(reconstruction @ a, part, atol=1e-6):
            found.append(np.linalg.norm(reconstruction, axis=1))
    return min(found, key=np.linalg.norm)


@pytest.mark.parametrize("error", ["rmse", "max"])
@pytest.mark.parametrize("text", UNIONS.values(), ids=UNIONS)
def test_values_are_ordered_as_they_must_be(text: str, error: str) -> None:
    norm = 2 if error == "rmse" else np.inf
    best = factorize(text, norm=norm)
    found = {
        way: nw.plan(text, ZCDP, nw.Central(error=error, mechanism=way)) for way in WAYS
    }
    for plan in found.values():
        assert plan.proposal.value >= best.lower_bound * (1 - 1e-9)
        bound = plan.proposal.bound
        assert bound is None or bound <= best.value * (1 + 1e-9)
    # interactions are a special case of rows with weights of their own
    if error == "rmse":
        residual, shared = found["residual"].proposal, found["shared-basis"].proposal
        assert shared.value <= residual.value * (1 + 1e-3)
    automatic = nw.plan(text, ZCDP, nw.Central(error=error))
    assert automatic.achieved <= min(plan.achieved for plan in found.values()) * (
        1 + 1e-9
    )


def test_every_way_is_compared_and_bounded() -> None:
    text = "prefix:48*identity:48+identity:48*prefix:48"
    rows = {row.mechanism: row for row in nw.compare(text, ZCDP)}
    assert all(rows[way].refusal is None for way in WAYS)
    assert (
        min(row.ratio for row in rows.values() if row.ratio)
        == rows["shared-basis"].ratio
    )
    assert rows["shared-basis"].ratio <= 1.07
    plan = nw.plan(text, ZCDP)
    assert plan.mechanism.name == "shared-basis"
    assert plan.forecast().ratio == pytest.approx(rows["shared-basis"].ratio)


@pytest.mark.parametrize("text", UNIONS.values(), ids=UNIONS)
def test_commuting_terms_bound_from_below(text: str) -> None:
    asked = workload(text)
    sizes = asked.structure.sizes
    assert sizes is not None
    family = compile_family(sizes, terms(asked, sizes))
    best = factorize(asked, norm=2)
    bound = commuting_bound(family) / np.sqrt(asked.queries)
    assert 0.5 * best.value <= bound <= best.value * (1 + 1e-9)
    replaced = factorize(asked, norm=2, neighbours="replace-one")
    bound = commuting_bound(family, public_total=True) / np.sqrt(asked.queries)
    assert 0.4 * replaced.value <= bound <= replaced.value * (1 + 1e-9)


def test_commuting_bound_is_the_nuclear_norm_where_all_terms_commute() -> None:
    asked = workload(UNIONS["crossed"])
    family = compile_family((6, 4), terms(asked, (6, 4)))
    nuclear = np.linalg.norm(asked.dense(), "nuc") / np.sqrt(asked.size)
    assert commuting_bound(family) == pytest.approx(nuclear, rel=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_a_plan_survives_its_file_and_releases(way: str, tmp_path: object) -> None:
    path = f"{tmp_path}/plan.nw"
    plan = nw.plan(UNIONS["with totals"], ZCDP, nw.Central(mechanism=way))
    plan.save(path)
    again = nw.load(path)
    np.testing.assert_array_equal(again.accuracy.variance, plan.accuracy.variance)
    counts = np.random.default_rng(0).integers(0, 30, size=15)
    released = again.release(counts)
    errors = (
        released.answers - workload(UNIONS["with totals"]).matvec(counts)
    ) / released.std
    # Gaussian, standardised: beyond six with probability 2e-9 each; the noise is fresh.
    assert np.abs(errors).max() < 6


def test_mechanisms_say_why_they_refuse() -> None:
    rows = {row.mechanism: row.refusal for row in nw.compare("marginals:2^4:2", ZCDP)}
    assert "interactions are the best linear strategy" in str(rows["shared-basis"])
    rows = {row.mechanism: row.refusal for row in nw.compare("prefix:8", ZCDP)}
    assert all("one part" in str(rows[way]) for way in ("shared-basis", "split"))
    assert set(WAYS) <= set(CENTRAL)
