"""Product queries over subsets of attributes: algebra, certified optimality, named figures."""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.central.blocks.axes import centred_axis, from_strategy
from noisewright.central.gaussian import product_bounds as bounds
from noisewright.central.gaussian.coupled_tables import (
    arrow_nuclear,
    dense_coupling,
    interactions_of_tables,
    largest_tables,
    split_kind,
)
from noisewright.central.gaussian.product_bounds import lower_bound
from noisewright.central.gaussian.product_designs import (
    MixedDesign,
    compile_family,
    design,
)
from noisewright.norm.factorize import factorize
from noisewright.workload import (
    Identity,
    Kron,
    Marginals,
    OnAttributes,
    Prefix,
    Ranges,
    Stack,
    Workload,
    workload,
)
from noisewright.workload.structure import terms


def up_to(bases: list[Workload], ways: int) -> Marginals:
    orders = range(ways + 1)
    tables = tuple(
        t for k in orders for t in itertools.combinations(range(len(bases)), k)
    )
    return Marginals(tuple(bases), tables)


def solve(asked: Workload, sizes: tuple[int, ...], bits: int = 12) -> MixedDesign:
    family = compile_family(sizes, terms(asked, sizes))
    return design(family, bits)


def dense_strategy(found: MixedDesign) -> np.ndarray:
    """The whole strategy as a matrix, noise scaled to one: the slow, obvious way."""
    blocks = []
    for block, share in zip(found.family.blocks, found.shares, strict=True):
        factors = [
            found.axis(i).contrasts if i in block else np.ones((1, n))
            for i, n in enumerate(found.family.sizes)
        ]
        blocks.append(
            reduce(np.kron, factors, np.ones((1, 1))) / found.noise(block, share)
        )
    return np.concatenate(blocks)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_an_axis_splits_every_vector(size: int, seed: int) -> None:
    strategy = np.random.default_rng(seed).normal(size=(size + 2, size)) + 0.5
    for axis in (centred_axis(size), from_strategy(strategy, 16)):
        split = np.outer(axis.reference, np.ones(size)) + axis.inverse @ axis.contrasts
        scale = np.abs(axis.reference).max()
        np.testing.assert_allclose(split, np.eye(size), atol=1e-8 * scale)
        np.testing.assert_allclose(axis.inverse.sum(axis=0), 0, atol=1e-8 * scale)
        assert axis.reference.sum() == pytest.approx(1)


MIXED: dict[str, tuple[Workload, tuple[int, ...]]] = {
    "two-way": (up_to([Prefix(6), Identity(3), Ranges(4)], 2), (6, 3, 4)),
    "product": (workload("prefix:5*identity:3*ranges:4"), (5, 3, 4)),
    "weighted": (
        Marginals((Prefix(5), Identity(4)), ((0,), (1,), (0, 1)), (1.0, 3.0, 0.5)),
        (5, 4),
    ),
    "two bases": (
        Stack(
            (OnAttributes((6, 4), (0,), Prefix(6)), workload("identity:6*identity:4"))
        ),
        (6, 4),
    ),
    "one value": (up_to([Prefix(5), Identity(1), Identity(3)], 2), (5, 1, 3)),
    "low rank": (
        Kron((workload(np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])), Prefix(3))),
        (4, 3),
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_value_is_that_of_least_squares_on_the_whole_domain(name: str) -> None:
    asked, sizes = MIXED[name]
    found = solve(asked, sizes)
    a, w = dense_strategy(found), asked.dense()
    assert np.linalg.norm(a, axis=0).max() <= 1 + 1e-9
    reconstruction = w @ np.linalg.pinv(a)
    np.testing.assert_allclose(reconstruction @ a, w, atol=1e-7)
    rmse = np.linalg.norm(reconstruction) / np.sqrt(len(w))
    assert found.value == pytest.approx(
        rmse * np.linalg.norm(a, axis=0).max(), rel=1e-6
    )


@pytest.mark.parametrize("name", MIXED)
def test_bound_is_below_the_optimum_and_close_to_the_value(name: str) -> None:
    asked, sizes = MIXED[name]
    found = solve(asked, sizes)
    best = factorize(asked, norm=2)
    bound = lower_bound(found)
    assert bound <= best.value * (1 + 1e-9)
    assert found.value >= best.lower_bound * (1 - 1e-9)
    assert found.value <= 1.04 * bound


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_bound_for_many_coupled_attributes_stays_below(ways: int) -> None:
    found = solve(up_to([Prefix(4), Prefix(3), Ranges(4)], ways), (4, 3, 4))
    family = found.family
    parts = [split_kind(k.gram, found.dual[k.group]) for k in family.kinds]
    joint = bounds._joint_bound(family, parts, public_total=False)
    assert joint is not None
    assert bounds._separate_bound(family, parts, public_total=False) <= joint * (
        1 + 1e-9
    )
    for _, asked, _ in bounds._problems(family, parts):
        largest = largest_tables(asked)
        assert largest is not None
        exact = dense_coupling(family, parts, asked, interactions_of_tables(asked))
        exact_norm = np.sqrt(np.maximum(np.linalg.eigvalsh(exact), 0)).sum()
        arrow = arrow_nuclear(family, parts, asked, largest)
        assert arrow <= exact_norm
        assert arrow == pytest.approx(exact_norm, rel=1e-4)


@given(st.lists(st.frozensets(st.integers(0, 6), max_size=4), min_size=1, max_size=25))
def test_largest_tables_are_those_that_no_other_contains(
    sets: list[frozenset[int]],
) -> None:
    asked = tuple((tuple(sorted(own)), tuple(range(len(own))), 1.0) for own in sets)
    largest = {own for own in sets if not any(own < other for other in sets)}
    found = largest_tables(asked)
    if any(sets.count(own) > 1 for own in largest):
        assert found is None
    else:
        assert found is not None
        assert {frozenset(table) for table in found} == largest


@pytest.mark.parametrize(
    ("text", "sizes", "target"),
    [
        ("marginals:2^8:3", (2,) * 8, 2.81843),
        ("marginals:2^8:<=3", (2,) * 8, 2.90670),
        ("allmarginals:2^8", (2,) * 8, 2.39500),
        ("prefix:16*prefix:16*identity:4", (16, 16, 4), 2.85418),
    ],
)
def test_named_figures(text: str, sizes: tuple[int, ...], target: float) -> None:
    found = solve(workload(text), sizes, bits=16)
    assert found.value <= target + 1e-5
    assert found.value <= 1.0005 * lower_bound(found)


def test_all_two_way_tables_of_mixed_attributes_are_certified() -> None:
    found = solve(
        up_to([Prefix(16), Prefix(16), Identity(4), Identity(5)], 2), (16, 16, 4, 5)
    )
    assert found.value <= 1.01 * lower_bound(found)


def test_counts_of_many_attributes_are_exactly_optimal() -> None:
    sizes = (10,) * 40
    found = solve(Marginals.of_order(sizes, 2, at_most=True), sizes)
    assert found.value == pytest.approx(lower_bound(found), rel=1e-9)
