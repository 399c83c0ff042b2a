"""Pure privacy: gradients, strategies and whole tables against dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from central.test_central_mixed import MIXED
from noisewright import explain
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import query_variances, unit_error
from noisewright.central.gaussian.certified import as_product
from noisewright.central.gaussian.product_designs import compile_family
from noisewright.central.gaussian.products import as_one_axis
from noisewright.central.laplace.tables import (
    TablesObjective,
    covering_tables,
    laplace_tables,
    least_of_tables,
)
from noisewright.central.laplace.weighted_products import laplace_product, merged_cells
from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Marginals, Workload, workload
from noisewright.workload.structure import terms
from oracles.l1_strategies import slope_error

LAW = NoiseLaw("discrete-laplace", 300.0)


def dense_value(asked: Workload, a: np.ndarray) -> float:
    """RMSE per unit of Laplace scale of a strategy matrix, by least squares."""
    reconstruction = asked.dense() @ np.linalg.pinv(a)
    return float(
        np.linalg.norm(reconstruction)
        * np.abs(a).sum(axis=0).max()
        / np.sqrt(asked.queries)
    )


def as_matrix(strategy: BlockStrategy) -> np.ndarray:
    """One block's measurements per unit of noise, over all cells."""
    (block,) = strategy.blocks
    full = np.ones((1, 1))
    by_axis = dict(zip(block.attributes, block.factors, strict=True))
    for i, n in enumerate(strategy.sizes):
        full = np.kron(full, by_axis.get(i, np.ones((1, n))))
    return full * block.multiplier / block.noise


@pytest.mark.parametrize("norm", [4.0, np.inf])
@pytest.mark.parametrize(
    "text", ["prefix:24", "ranges:20", "prefix:6*prefix:6", "total:4+prefix:4"]
)
def test_other_means_than_squares_are_made_small_too(text: str, norm: float) -> None:
    asked = as_one_axis(workload(text))
    sizes = (asked.inner.size,)
    squared, planned = (laplace_product(asked, sizes, p) for p in (2.0, norm))
    errors = [
        np.linalg.norm(asked.inner.dense() @ np.linalg.pinv(a), axis=1)
        * np.abs(a).sum(axis=0).max()
        for a in map(as_matrix, (squared.strategy, planned.strategy))
    ]
    means = [np.linalg.norm(e, ord=norm) / len(e) ** (1 / norm) for e in errors]
    assert planned.value == pytest.approx(means[1], rel=1e-3)
    assert means[1] <= means[0] * (1 + 1e-6)
    if text != "total:4+prefix:4" and norm == np.inf:
        assert means[1] < 0.97 * means[0]


@pytest.mark.parametrize(
    ("text", "sizes", "target"),
    [
        ("prefix:64", (64,), 3.764),
        ("ranges:64", (64,), 3.927),
        ("prefix:16*prefix:16*identity:4", (16, 16, 4), 6.613),
        ("allmarginals:2^8", (2,) * 8, 3.160494),
    ],
)
def test_named_figures_hold_for_the_integers_that_are_measured(
    text: str, sizes: tuple[int, ...], target: float
) -> None:
    asked = workload(text)
    planned = laplace_product(terms(asked, sizes)[0], sizes, 2)
    assert planned.value <= target
    a = as_matrix(planned.strategy)
    assert np.abs(a).sum(axis=0).max() == planned.strategy.sensitivity(1)
    assert dense_value(asked, a) == pytest.approx(planned.value, rel=1e-4)
    assert dense_value(asked, a) <= target


@given(
    rows=st.integers(1, 5),
    cells=st.integers(1, 7),
    low=st.integers(-2, 0),
    seed=st.integers(0, 1000),
    bits=st.sampled_from([3, 8, 16]),
)
@settings(max_examples=12, deadline=None)
def test_any_small_workload_is_measured_without_bias(
    rows: int, cells: int, low: int, seed: int, bits: int
) -> None:
    matrix = (
        np.random.default_rng(seed).integers(low, 3, size=(rows, cells)).astype(float)
    )
    assume(matrix.any())
    asked = workload(matrix)
    largest = 2.0 ** (bits + 2)
    planned = laplace_product(as_one_axis(asked), (cells,), 2, largest)
    a = as_matrix(planned.strategy)
    np.testing.assert_allclose(matrix @ np.linalg.pinv(a) @ a, matrix, atol=1e-6)
    assert np.abs(a).sum(axis=0).max() == planned.strategy.sensitivity(1)
    assert planned.bound <= planned.value * (1 + 1e-9)
    assert planned.value <= dense_value(asked, np.eye(cells)) * (1 + 1e-9)
    assert planned.bound <= dense_value(asked, a) * (1 + 1e-9)


def test_nothing_asked_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="zero everywhere"):
        laplace_product(as_one_axis(workload(np.zeros((2, 3)))), (3,), 2)


def test_cells_that_no_query_tells_apart_are_counted_as_one() -> None:
    matrix = np.array([[1.0, 1, 0, -1, 0], [2.0, 2, 3, -2, 0]])
    cells = merged_cells(workload(matrix))
    np.testing.assert_array_equal(cells.representatives, [0, 2])
    np.testing.assert_array_equal(cells.signs, [1, 1, 1, -1, 0])
    merged = np.array([[4, 1], [0, 5]])
    np.testing.assert_array_equal(
        cells.spread(merged), [[4, 4, 1, -4, 0], [0, 0, 5, 0, 0]]
    )
    planned = laplace_product(as_one_axis(workload(matrix)), (5,), 2)
    assert planned.strategy.measurements <= 4
    assert planned.value < dense_value(workload(matrix), np.eye(5))


@pytest.mark.parametrize("difference", [1e-6, 1e-9, 1e-12])
def test_cells_that_differ_by_little_are_kept_apart(difference: float) -> None:
    matrix = np.array([[1.0, 1 + difference, -1, difference, 0], [0.0, 0, 0, 0, 0]])
    cells = merged_cells(workload(matrix))
    np.testing.assert_array_equal(cells.representatives, [0, 1, 3])
    np.testing.assert_array_equal(cells.labels[:4], [0, 1, 0, 2])
    np.testing.assert_array_equal(cells.signs, [1, 1, -1, 1, 0])


@given(seed=st.integers(0, 10_000), cells=st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_merged_cells_give_back_every_column(seed: int, cells: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, size=(2, cells)) * rng.choice([1.0, 0.1, 1 / 3])
    assume(matrix.any())
    found = merged_cells(workload(matrix))
    np.testing.assert_array_equal(
        matrix[:, found.representatives][:, found.labels] * found.signs, matrix
    )
    distinct = {tuple(max(c, -c, key=tuple)) for c in matrix.T if c.any()}
    assert found.classes == len(distinct)


def test_attributes_searched_at_once_keep_their_order() -> None:
    asked = workload("identity:2*prefix:8*total:3*ranges:10")
    sizes = (2, 8, 3, 10)
    planned = laplace_product(terms(asked, sizes)[0], sizes, 2)
    assert planned.strategy.sizes == (480,)  # the product, factor by factor, is worse
    a = as_matrix(planned.strategy)
    assert dense_value(asked, a) == pytest.approx(planned.value, rel=1e-3)


@pytest.mark.parametrize("largest", [2.0**20, 2.0**30, np.inf])
def test_the_grid_is_as_fine_as_the_noise_allows(largest: float) -> None:
    asked = workload("prefix:46*prefix:47")
    planned = laplace_product(terms(asked, (46, 47))[0], (46, 47), 2, largest)
    assert planned.strategy.sensitivity(1) <= largest
    if largest < np.inf:
        assert planned.strategy.sensitivity(1) > largest / 2**8


@given(seed=st.integers(0, 10_000), low=st.integers(-3, 0), count=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_l1_distances_of_products_are_bounded_and_exact_for_one_factor(
    seed: int, low: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    factors = tuple(
        np.concatenate([rng.integers(low, 5, size=(rng.integers(1, 4), 3)), extra])
        for extra in (
            np.diag(rng.integers(-2, 3, 3)),
            np.full((1, 3), 7),
            np.zeros((0, 3), int),
        )
    )[:count]
    full = np.ones((1, 1), dtype=np.int64)
    for factor in factors:
        full = np.kron(full, factor)
    exact = max(
        np.abs(full[:, [j]] - full).sum(axis=0).max() for j in range(full.shape[1])
    )
    change = Block(tuple(range(count)), factors).change(1, "replace-one")
    assert exact <= change <= 2 * np.abs(full).sum(axis=0).max()
    assert count > 1 or change == exact


def test_l1_distances_beyond_a_word_are_exact() -> None:
    factor = np.full((40_000, 2), 2**47)
    factor[:, 1] *= -1
    block = Block((0,), (factor,))
    assert (
        block.change(1, "replace-one")
        == 2 * block.change(1, "add-remove")
        == 80_000 * 2**47
    )


@pytest.mark.parametrize(
    "text", ["allmarginals:2^5", "marginals:2^5:<=2", "marginals:3x4x2x5:<=2"]
)
def test_tables_for_the_largest_error(text: str) -> None:
    asked = workload(text)
    sizes = asked.sizes
    squared, largest = (
        laplace_tables(terms(asked, sizes), sizes, p) for p in (2.0, np.inf)
    )
    worst = unit_error(squared.strategy, terms(asked, sizes), np.inf, 1)
    assert largest.bound <= largest.value <= worst * (1 + 1e-6)
    assert largest.value < 0.9 * np.sqrt(asked.size)  # counting cells, a total adds all


def test_three_way_tables_of_bits() -> None:
    asked = workload("marginals:2^8:3")
    planned = laplace_tables(terms(asked, (2,) * 8), (2,) * 8)
    assert planned.value <= 5.657


@pytest.mark.parametrize("name", MIXED)
def test_whole_tables_are_combined_by_least_squares(name: str) -> None:
    asked, sizes = MIXED[name]
    split = terms(asked, sizes)
    family = compile_family(sizes, split)
    point = np.random.default_rng(1).normal(size=len(split))
    for q in (1.0, 3.0, 40.0):
        assert (
            slope_error(
                TablesObjective(family, [t.attributes for t in split], q), point
            )
            < 1e-5
        )
    strategy = laplace_tables(split, sizes).strategy
    rows = []
    for block, law in zip(strategy.blocks, strategy.laws(LAW), strict=True):
        full = np.ones((1, 1))
        by_axis = dict(zip(block.attributes, block.factors, strict=True))
        for i, n in enumerate(sizes):
            full = np.kron(full, by_axis.get(i, np.ones((1, n))))
        rows.append(block.multiplier * full / law.standard_deviation)
    a = np.concatenate(rows)
    expected = ((asked.dense() @ np.linalg.pinv(a)) ** 2).sum(axis=1)
    found = np.concatenate(query_variances(strategy, split, LAW))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    x = np.random.default_rng(3).integers(0, 1000, size=sizes)
    measured = strategy.measure(
        {
            t: x.sum(axis=tuple(i for i in range(x.ndim) if i not in t))
            for t in strategy.tables
        }
    )
    answers = np.concatenate(strategy.answers(split, measured))
    np.testing.assert_allclose(answers, asked.dense() @ x.ravel(), rtol=1e-9, atol=1e-6)
    assert strategy.sensitivity(1) == pytest.approx(1, rel=1e-9)


def test_a_stack_over_one_attribute_is_planned_as_one() -> None:
    asked = workload("prefix:8+total:8")
    planned = laplace_product(as_one_axis(asked), (8,), 2)
    assert planned.bound <= planned.value


@pytest.mark.parametrize("cells", [4, 16, 64, 256])
def test_covers_hold_every_table_within_their_size(cells: int) -> None:
    sizes = (2, 3, 2, 2, 4, 2, 2)
    needed = [
        t.attributes for t in terms(Marginals.of_order(sizes, 2, at_most=True), sizes)
    ]
    found = covering_tables(sizes, needed, cells)
    if cells < 12:
        assert found == []  # a needed table is larger
        return
    assert all(np.prod([sizes[i] for i in table]) <= cells for table in found)
    assert all(any(set(t) <= set(table) for table in found) for t in needed)


def test_covers_beat_measuring_every_table_by_itself() -> None:
    sizes = (2,) * 16
    asked = Marginals.of_order(sizes, 2)
    planned = laplace_tables(terms(asked, sizes), sizes)
    # one weight per table: the error of a cell is the number of them
    separate = len(asked.tables)
    assert planned.value < 0.5 * separate
    assert planned.bound <= planned.value


@pytest.mark.parametrize(
    "text",
    [
        "marginals:2^6:2",
        "marginals:2^6:<=3",
        "marginals:5x3x4x2:2",
        "prefix:9*total:4+total:9*identity:4",
        "marginals:2^12:3",
        "marginals:7x1x5x3:<=2",
    ],
)
def test_no_weights_on_whole_tables_go_below_what_is_told_at_once(text: str) -> None:
    """The figure that ends the search must lie below whatever the search finds, and any weights."""
    asked = workload(text)
    sizes = asked.structure.sizes
    least = least_of_tables(asked.structure.terms, sizes)
    assert 0 < least <= laplace_tables(asked.structure.terms, sizes).value
    family = compile_family(
        sizes, [as_product(term, sizes) for term in asked.structure.terms]
    )
    tables = [block for block in family.blocks if block]
    tables.append(tuple(range(len(sizes))))
    objective = TablesObjective(family, tables)
    rng = np.random.default_rng(len(text))
    for power in (0.5, 2.0, 8.0):
        logs = np.log(rng.random(len(tables)) ** power + 1e-5)
        assert np.exp(objective(logs)[0] / 2) >= least


def test_searches_that_cannot_win_are_not_begun() -> None:
    both = Privacy(epsilon=1, delta=1e-9)
    told = explain("marginals:2^30:3", both)
    assert told.plan.privacy == both
    reasons = {
        other.mechanism: other.reason for other in told.others if other.achieved is None
    }
    assert "known to be larger" in reasons["laplace-strategy"]
