"""Blocks measure exactly, bound sensitivities, and reconstruct by least squares."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from noisewright.central.blocks.block import Block
from noisewright.central.blocks.quantise import integer_basis, quantise
from noisewright.central.blocks.reach import check_reach
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import query_variances
from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.workload import workload
from noisewright.workload.structure import terms
from oracles.blocks import whole_matrix

SIZES = (3, 2, 4)
LAW = NoiseLaw("rounded-gaussian", 50.0)


def contrast(n: int) -> np.ndarray:
    """Integer rows, orthogonal to each other and to the all-ones row."""
    rows = np.zeros((n - 1, n), dtype=np.int64)
    for k in range(1, n):
        rows[k - 1, :k], rows[k - 1, k] = 1, -k
    return rows


def residual_strategy() -> BlockStrategy:
    tables = [(), (0,), (1,), (2,), (0, 1), (1, 2)]
    return BlockStrategy(
        SIZES,
        tuple(
            Block(
                t,
                tuple(contrast(SIZES[i]) for i in t),
                noise=0.5 + 0.3 * len(t),
                multiplier=3,
            )
            for t in tables
        ),
    )


def kron_strategy() -> BlockStrategy:
    rng = np.random.default_rng(0)
    factors = tuple(rng.integers(-5, 9, size=(n + 1, n)) for n in SIZES)
    return BlockStrategy(SIZES, (Block((0, 1, 2), factors, multiplier=2),))


STRATEGIES = {"residual": residual_strategy(), "kron": kron_strategy()}


def marginals_of(
    x: np.ndarray, tables: list[tuple[int, ...]]
) -> dict[tuple[int, ...], np.ndarray]:
    return {
        t: x.sum(axis=tuple(i for i in range(x.ndim) if i not in t)) for t in tables
    }


@pytest.mark.parametrize("name", STRATEGIES)
def test_measurement_is_the_exact_integer_product(name: str) -> None:
    strategy = STRATEGIES[name]
    x = np.random.default_rng(1).integers(0, 1000, size=SIZES)
    measured = strategy.measure(marginals_of(x, strategy.tables))
    assert all(values.dtype == np.int64 for values in measured)
    scaled = [v / b.noise for v, b in zip(measured, strategy.blocks, strict=True)]
    np.testing.assert_allclose(
        np.concatenate(scaled), whole_matrix(strategy) @ x.ravel(), rtol=1e-12
    )


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("order", [1, 2])
def test_sensitivity_bounds_every_pair_of_neighbours(name: str, order: int) -> None:
    strategy = STRATEGIES[name]
    a = whole_matrix(strategy)
    columns = np.linalg.norm(a, ord=order, axis=0)
    added = strategy.sensitivity(order, "add-remove")
    assert added >= columns.max()
    replaced = strategy.sensitivity(order, "replace-one")
    pairs = np.linalg.norm(a[:, :, None] - a[:, None, :], ord=order, axis=0)
    assert replaced >= pairs.max() * (1 - 1e-12)
    if name == "kron":  # one block: adding a person is exact
        assert added == pytest.approx(columns.max(), rel=1e-12)


def test_one_dense_factor_has_exact_sensitivities() -> None:
    matrix = np.random.default_rng(2).integers(-9, 9, size=(5, 6))
    strategy = BlockStrategy((6,), (Block((0,), (matrix,)),))
    for order in (1, 2):
        distances = [
            np.linalg.norm(matrix[:, u] - matrix[:, v], ord=order)
            for u, v in product(range(6), repeat=2)
        ]
        bound = strategy.sensitivity(order, "replace-one")
        assert max(distances) <= bound * (1 + 1e-12)
        if order == 1:
            assert bound == max(distances)


@pytest.mark.parametrize(
    "text",
    [
        "prefix:3*total:2*identity:4",
        "total:3*prefix:2*total:4",
        "total:3*total:2*total:4",
        "ranges:3*total:2*total:4",
    ],
)
@pytest.mark.parametrize("name", STRATEGIES)
def test_answers_and_variances_are_those_of_weighted_least_squares(
    name: str, text: str
) -> None:
    strategy = STRATEGIES[name]
    if name == "residual" and text.startswith("prefix"):
        pytest.skip("no block measures the joint table of the first and last attribute")
    (term,) = terms(workload(text), SIZES)
    w, a = workload(text).dense(), whole_matrix(strategy)
    reconstruction = w @ np.linalg.pinv(a)
    noise = np.random.default_rng(3).normal(size=len(a))
    starts = np.cumsum([0] + [b.rows for b in strategy.blocks])
    measured = [
        noise[i:j] * b.noise
        for i, j, b in zip(starts, starts[1:], strategy.blocks, strict=False)
    ]
    np.testing.assert_allclose(
        strategy.term_answers(term, measured), reconstruction @ noise
    )
    scales = np.concatenate(
        [
            np.full(b.rows, law.variance / b.noise**2)
            for b, law in zip(strategy.blocks, strategy.laws(LAW), strict=True)
        ]
    )
    expected = (reconstruction**2 * scales).sum(axis=1)
    np.testing.assert_allclose(
        query_variances(strategy, [term], LAW)[0], expected, rtol=1e-9
    )


def test_a_query_out_of_reach_is_named() -> None:
    (term,) = terms(workload("prefix:3*total:2*identity:4"), SIZES)
    with pytest.raises(OutOfReach, match="query 7"):
        check_reach(STRATEGIES["residual"], term, first_query=7)
    check_reach(STRATEGIES["kron"], term)


def test_overlapping_blocks_are_refused() -> None:
    ones = np.ones((1, 3), dtype=np.int64)
    with pytest.raises(InvalidParameter, match="orthogonal"):
        BlockStrategy((3,), (Block((0,), (ones,)), Block((), ())))


@pytest.mark.parametrize("people", [2**8, 2**20, 2**33, 2**45])
def test_measurement_is_exact_however_many_people_share_a_cell(people: int) -> None:
    """A refusal at some count would tell that count, so there is none, and nothing overflows."""
    rng = np.random.default_rng(people)
    factors = tuple(rng.integers(-(2**16), 2**16, size=(5, 4)) for _ in range(3))
    table = rng.integers(0, people, size=(4, 4, 4))
    measured = Block((0, 1, 2), factors, multiplier=8).measure(table)
    a, b, c = (factor.astype(object) for factor in factors)
    exact = 8 * np.kron(np.kron(a, b), c) @ table.ravel().astype(object)
    assert measured.tolist() == exact.tolist()


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint8, np.uint64])
def test_counts_of_any_integer_type_are_measured_exactly(kind: type) -> None:
    table = np.array([100, 27], dtype=kind)
    assert Block((), (), multiplier=2**30).measure(table[:1]).tolist() == [100 * 2**30]
    factor = np.array([[2**40, -(2**40)]])
    assert Block((0,), (factor,)).measure(table).tolist() == [73 * 2**40]


def test_counts_that_are_no_integers_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="integer counts"):
        Block((), ()).measure(np.array([1.5]))


@pytest.mark.parametrize(
    "field",
    [
        {"factors": (0.9 * np.eye(2),)},
        {"factors": (np.full((2, 2), 100, dtype=np.int8),)},
        {"factors": (np.array([[-(2**63), 1]]),)},
        {"multiplier": -1},
        {"multiplier": 0},
        {"multiplier": 0.5},
        {"multiplier": np.int64(3)},
        {"noise": -1.0},
        {"noise": 0.0},
        {"noise": float("nan")},
        {"noise": float("inf")},
    ],
    ids=str,
)
def test_blocks_whose_sensitivity_would_be_misread_are_refused(
    field: dict[str, Any],
) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(field))):
        Block(**{"attributes": (0,), "factors": (np.eye(2, dtype=np.int64),), **field})


@pytest.mark.parametrize(
    "text",
    [
        "prefix:16",
        "total:9",
        "marginals:2^4:2",
        "parity:4:<=2",
        "random:5x9:1",
        "identity:6",
        "1.5@parity:4:3",
    ],
)
def test_quantised_strategies_keep_the_row_space(text: str) -> None:
    w = workload(text)
    m = w.gram().dense()
    values, vectors = np.linalg.eigh(m)
    keep = values > 1e-9 * values[-1]
    strategy = (values[keep] ** 0.25)[:, None] * vectors[:, keep].T
    integers = quantise(strategy, w, bits=10)
    assert integers.dtype == np.int64
    rows = w.dense()
    seen = rows @ np.linalg.pinv(integers.astype(float)) @ integers
    np.testing.assert_allclose(seen, rows, atol=1e-8)


def test_real_rank_deficient_rows_are_covered_by_cells() -> None:
    rows = np.random.default_rng(4).normal(size=(2, 5))
    w = workload(rows)
    assert integer_basis(w) is None
    integers = quantise(rows, w, bits=14)
    assert np.linalg.matrix_rank(integers) == 5


@pytest.mark.parametrize("attributes", [(1, 0), (0, 0)])
def test_attributes_out_of_order_are_refused(attributes):
    factors = (np.eye(2, dtype=np.int64), np.array([[1, 3]], dtype=np.int64))
    with pytest.raises(InvalidParameter, match="in order"):
        Block(attributes, factors)


def test_parts_side_by_side_keep_their_factors_and_take_other_noise() -> None:
    first, second = (
        BlockStrategy((3,), (Block((0,), (np.eye(3, dtype=np.int64) * k,)),))
        for k in (1, 2)
    )
    np.testing.assert_array_equal(second.matrix, 2 * np.eye(3))
    whole = BlockStrategy.of_parts([first.with_noise(2.0), second.with_noise(8.0)])
    assert whole.separate
    assert whole.measurements == 6
    # One person moves the first by 1 over noise 2, the second by 2 over noise 8.
    assert whole.sensitivity(1) == pytest.approx(1 / 2 + 2 / 8)
    with pytest.raises(ValueError, match="values to unpack"):
        _ = whole.matrix


def test_the_number_of_people_is_measured_by_another_block() -> None:
    strategy = residual_strategy()
    free = strategy.with_total(3.0, Block((), (), 2.0**-20))
    laws = dict(zip(strategy.tables, strategy.laws(LAW), strict=True))
    for table, law in zip(free.tables, free.laws(LAW), strict=True):
        expected = 3.0 * laws[table].scale if table else LAW.scale * 2.0**-20
        assert law.scale == pytest.approx(expected)
    alike = strategy.sensitivity(2, "replace-one") / 3.0
    assert free.sensitivity(2, "replace-one") == pytest.approx(alike)
