"""Joint sensitivities: never below what any neighbour does, and sharp where they claim to be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewright as nw
from noisewright.central.blocks import sensitivity
from noisewright.central.blocks.axes import centred_axis
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.geometry.balls import reach_square
from noisewright.errors import InvalidParameter
from oracles.blocks import whole_matrix

Blocks = tuple[Block, ...]


def largest(matrix: np.ndarray, neighbours: str) -> float:
    if neighbours == "add-remove":
        return float(np.linalg.norm(matrix, axis=0).max())
    gram = matrix.T @ matrix
    lengths = np.diagonal(gram)
    return float(np.sqrt((lengths[:, None] + lengths - 2 * gram).max()))


def interactions(
    sizes: tuple[int, ...], rng: np.random.Generator, mixed: bool
) -> Blocks:
    def factor(i: int) -> np.ndarray:
        if mixed and i == 0:
            return matrix
        return centred_axis(sizes[i]).contrasts

    matrix = rng.integers(-9, 10, size=(sizes[0] - 1, sizes[0]))
    tables = [t for t in product((0, 1), repeat=len(sizes)) if rng.random() < 0.8] or [
        (1,)
    ]
    chosen = [tuple(i for i, used in enumerate(t) if used) for t in tables]
    return tuple(
        Block(
            t,
            tuple(factor(i) for i in t),
            float(rng.uniform(0.5, 3)),
            int(rng.integers(1, 5)),
        )
        for t in dict.fromkeys([(), *chosen])
    )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(2, 4), min_size=2, max_size=4),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_replaced_people_are_bounded_by_every_way(
    sizes_: list[int], mixed: bool, seed: int
) -> None:
    sizes = tuple(sizes_)
    blocks = interactions(sizes, np.random.default_rng(seed), mixed)
    if all(not block.attributes for block in blocks):
        return
    truth = (
        largest(
            whole_matrix(BlockStrategy(sizes, blocks, separate=True)), "replace-one"
        )
        ** 2
    )
    used = sorted({i for block in blocks for i in block.attributes})
    spans = {id(f): sensitivity.Span.of(f) for block in blocks for f in block.factors}
    by_pairs = sensitivity._over_pairs(sizes, used, blocks)
    by_patterns = sensitivity._over_patterns(used, blocks, spans)
    by_counts = sensitivity._over_counts(used, blocks, spans)
    assert truth * (1 - 1e-12) <= by_pairs <= truth * (1 + 1e-6)
    assert truth * (1 - 1e-12) <= by_patterns
    if not mixed:  # contrasts of plain counts: exact
        assert by_patterns <= truth * (1 + 1e-6)
    if by_counts is not None:
        assert truth * (1 - 1e-12) <= by_counts


@pytest.mark.parametrize("size", [3, 40])
def test_attributes_of_one_value_count_by_their_entries(size: int) -> None:
    factors = (
        np.array([[5]]),
        centred_axis(size).contrasts,
        centred_axis(size).contrasts,
    )
    strategy = BlockStrategy((1, size, size), (Block((0, 1, 2), factors),))
    truth = largest(whole_matrix(strategy), "replace-one")
    assert (
        truth * (1 - 1e-9)
        <= strategy.sensitivity(2, "replace-one")
        <= truth * (1 + 1e-6)
    )


def test_many_attributes_that_are_alike_are_counted_exactly() -> None:
    tables = [
        (),
        *((i,) for i in range(8)),
        *((i, j) for j in range(8) for i in range(j)),
    ]
    axis = centred_axis(3)
    blocks = tuple(Block(t, (axis.contrasts,) * len(t), 1.0 + len(t)) for t in tables)
    spans = {id(axis.contrasts): sensitivity.Span.of(axis.contrasts)}
    for measured in (blocks, blocks + blocks):  # some strategies measure a table twice
        exact = sensitivity._over_patterns(range(8), measured, spans)
        assert sensitivity._over_counts(range(8), measured, spans) == pytest.approx(
            exact, rel=1e-6
        )


def test_a_hundred_attributes_cost_less_than_the_sum_of_their_blocks() -> None:
    sizes = (10,) * 60
    tables = [(i,) for i in range(60)] + [(i, j) for j in range(60) for i in range(j)]
    axis = centred_axis(10)
    strategy = BlockStrategy(
        sizes, tuple(Block(t, (axis.contrasts,) * len(t)) for t in tables)
    )
    added = float(sum(block.change(2, "replace-one") for block in strategy.blocks))
    assert strategy.sensitivity(2, "replace-one") ** 2 < 0.96 * added


WEIGHTED = (
    Block((0,), (np.array([[3, -1, -2], [0, 4, -4]]),), 1.5, weights=np.array([7, 2])),
    Block((1,), (centred_axis(4).contrasts,), 2.0, 3, np.array([5])),
    Block(
        (0, 1),
        (np.array([[3, -1, -2], [0, 4, -4]]), centred_axis(4).contrasts),
        0.7,
        weights=np.array([[2], [9]]),
    ),
)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_rows_of_different_weights(neighbours: str) -> None:
    strategy = BlockStrategy((3, 4), WEIGHTED)
    matrix = whole_matrix(BlockStrategy((3, 4), WEIGHTED))
    truth = largest(matrix, neighbours)
    found = strategy.sensitivity(2, neighbours)
    assert truth * (1 - 1e-12) <= found
    if neighbours == "add-remove":
        assert found <= truth * (1 + 1e-6)
    x = np.random.default_rng(0).integers(0, 50, size=(3, 4))
    measured = strategy.measure(
        {t: x.sum(axis=tuple({0, 1} - set(t))) for t in strategy.tables}
    )
    scaled = [v / b.noise for v, b in zip(measured, WEIGHTED, strict=True)]
    np.testing.assert_allclose(np.concatenate(scaled), matrix @ x.ravel(), rtol=1e-12)


@pytest.mark.parametrize("columns", [2_047, 2_049, 3_001])
def test_two_of_very_many_columns_may_lie_apart_by_the_lengths_of_both(
    columns: int,
) -> None:
    """In L1, L2 and the norm of a ball: the two longest columns share no row."""
    rng = np.random.default_rng(columns)
    factor = rng.integers(0, 4, (6, columns))
    factor[:, 0], factor[:, -1] = [19, 0, 0, 0, 0, 0], [0, 19, 0, 0, 0, 0]
    few = np.array([[1, 1, 0], [0, 1, 2]])
    alone = BlockStrategy((columns,), (Block((0,), (factor,)),))
    assert alone.sensitivity(1, "replace-one") >= 38
    assert alone.sensitivity(2, "replace-one") >= 19 * np.sqrt(2) * (1 - 1e-12)
    assert alone.sensitivity(1, "add-remove") == 19
    assert reach_square(factor, replaced=True) >= 2 * 19**2
    product_ = BlockStrategy((columns, 3), (Block((0, 1), (factor, few)),))
    assert product_.sensitivity(1, "replace-one") >= 19 * (2 + 2)

    replaced = nw.Privacy(1, neighbours="replace-one")
    plan = nw.plan(
        f"identity:{columns}", replaced, nw.Central(mechanism="laplace-cells")
    )
    assert plan.spend.promise().epsilon <= 1
    assert plan.mechanism.law.scale >= 2  # two cells change, by one each


def test_weights_that_do_not_fit_are_refused() -> None:
    factor = np.array([[1, -1]])
    for bad in (np.array([0]), np.array([1, 2]), np.array([[1]]), np.array([1.5])):
        with pytest.raises(InvalidParameter):
            Block((0,), (factor,), weights=bad)
    with pytest.raises(InvalidParameter, match="share"):
        BlockStrategy((2,), (Block((0,), (factor,), weights=np.array([2])),))
