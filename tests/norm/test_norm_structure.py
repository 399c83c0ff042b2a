"""Structure found in workloads: exact reductions, symmetry, and what must stay the same."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import circulant
from scipy.sparse import csr_array, diags_array

import noisewright as nw
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.norm.kernel.factorization import Settings, solve_numerically
from noisewright.norm.kernel.problems import DenseProblem, RowwiseProblem, eigen
from noisewright.norm.kernel.solver import solve
from noisewright.solution import Status
from noisewright.workload import Explicit
from oracles.factorizations import nuclear_bound, value

RNG = np.random.default_rng(7)
CORE = RNG.normal(size=(5, 4))
NORMS = [2.0, 3.0, 16.0, math.inf]


def check(matrix: np.ndarray, norm: float, gap: float = 1e-6) -> nw.Factorization:
    found = nw.factorize(matrix, norm)
    strategy, reconstruction = found.strategy.dense(), found.reconstruction.dense()
    size = np.abs(matrix).max()
    np.testing.assert_allclose(
        reconstruction @ strategy / size, matrix / size, atol=1e-9
    )
    assert value(strategy, reconstruction / size, norm) * size == pytest.approx(
        found.value, rel=1e-8
    )
    weights = found.certificate.row_weights(), found.certificate.column_weights()
    bound = nuclear_bound(matrix / size, norm, *weights) * size
    assert found.lower_bound <= bound * (1 + 1e-12)
    assert 0 <= found.gap <= gap
    np.testing.assert_allclose(
        found.errors() / size, np.linalg.norm(reconstruction / size, axis=1), atol=1e-9
    )
    return found


def unreduced(matrix: np.ndarray, norm: float) -> float:
    """The optimum of the matrix as it stands, to a gap of 1e-7."""
    found = solve(DenseProblem(matrix), norm, tolerance=1e-7, iterations=3000)
    assert found.status is Status.CONVERGED
    return found.lower * (1 if math.isinf(norm) else len(matrix) ** (-1 / norm))


@pytest.mark.parametrize("norm", NORMS)
def test_duplicate_weighted_and_opposite_rows_are_merged_exactly(norm: float) -> None:
    matrix = np.vstack([CORE, CORE[1], 2 * CORE[3], -0.5 * CORE[0], CORE[1]])
    found = check(matrix, norm)
    assert found.value == pytest.approx(unreduced(matrix, norm), rel=2e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_zero_and_parallel_columns_and_zero_rows(norm: float) -> None:
    columns = np.column_stack([CORE, 0.3 * CORE[:, 1], np.zeros(5), -CORE[:, 2]])
    matrix = np.vstack([columns, np.zeros((2, 7))])
    found = check(matrix, norm)
    alone = nw.factorize(CORE, norm).value * (
        1 if math.isinf(norm) else (5 / 7) ** (1 / norm)
    )
    assert found.value == pytest.approx(alone, rel=2e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_blocks_combine_at_the_best_balance(norm: float) -> None:
    matrix = np.zeros((9, 10))
    matrix[:5, [0, 3, 5, 9]] = CORE
    matrix[5:, [1, 2, 6]] = 3 * RNG.normal(size=(4, 3))
    found = check(matrix[RNG.permutation(9)], norm)
    assert "2 unconnected blocks" in found.explanation
    assert check(csr_array(matrix).toarray(), norm).value == pytest.approx(
        found.value, rel=2e-6
    )
    if norm == 2:
        dense = matrix[:, np.abs(matrix).sum(axis=0) > 0]
        assert found.value == pytest.approx(unreduced(dense, norm), rel=2e-6)


def test_sparse_input_gives_the_same_result() -> None:
    matrix = np.round(CORE)
    assert nw.factorize(csr_array(matrix)).value == nw.factorize(matrix).value


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_entries_scale_out(norm: float, scale: float) -> None:
    found = nw.factorize(scale * CORE, norm)
    assert found.value == pytest.approx(
        scale * nw.factorize(CORE, norm).value, rel=1e-9
    )
    assert 0 <= found.gap <= 1e-6


def test_extreme_entries_side_by_side() -> None:
    apart = nw.factorize(np.diag([1e-300, 1e300]), 2)
    assert apart.value == pytest.approx(1e300 / math.sqrt(2), rel=1e-9)
    np.testing.assert_allclose(apart.errors(), [1e-300, 1e300])
    with pytest.raises(InvalidParameter, match="too small"):
        nw.factorize(np.array([[1e300, 1e300], [1e300, 1e300 + 1e285], [1e-300, 0.0]]))


@pytest.mark.parametrize("norm", NORMS)
def test_rank_one_and_rank_deficient_workloads(norm: float) -> None:
    thin = np.outer([1.0, 2.0, 3.0], [1.0, -0.5, 0.25, 0.0])
    lengths = np.array([1.0, 2.0, 3.0])
    mean = 3.0 if math.isinf(norm) else float(np.mean(lengths**norm)) ** (1 / norm)
    assert check(thin, norm).value == pytest.approx(mean, rel=1e-9)
    low = RNG.normal(size=(12, 3)) @ RNG.normal(size=(3, 10))
    assert "rank 3 of at most 10" in check(low, norm).explanation


def test_zero_workloads_ask_nothing() -> None:
    found = nw.factorize(np.zeros((3, 4)))
    assert (found.value, found.lower_bound, found.gap) == (0.0, 0.0, 0.0)
    assert found.strategy.dense().shape == (0, 4)


@pytest.mark.parametrize(
    "bad", [np.full((2, 2), math.nan), np.zeros((0, 3)), np.zeros((3, 0))]
)
def test_bad_matrices_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidParameter, match="workload="):
        nw.factorize(bad)


def test_circulant_workloads_are_solved_by_fourier() -> None:
    matrix = circulant(RNG.normal(size=11))
    found = check(matrix, 2.0)
    assert found.iterations == 0
    assert found.value == pytest.approx(unreduced(matrix, 2.0), rel=2e-6)


@pytest.mark.parametrize(
    "text",
    [
        "parity:5:<=2+identity:32",
        "parity:4:1+marginals:2^4:2",
        "3.0@parity:3:2+total:8",
    ],
)
def test_stacks_over_bits_are_solved_by_walsh_hadamard(text: str) -> None:
    found = nw.factorize(text)
    assert found.iterations == 0
    matrix = found.workload.dense()
    assert found.value == pytest.approx(unreduced(matrix, 2.0), rel=2e-6)
    strategy, reconstruction = found.strategy.dense(), found.reconstruction.dense()
    np.testing.assert_allclose(reconstruction @ strategy, matrix, atol=1e-9)
    np.testing.assert_allclose(found.errors(), np.linalg.norm(reconstruction, axis=1))


def test_a_million_cells_by_transform() -> None:
    found = nw.factorize("parity:20:<=1+total:1048576")
    assert 0 <= found.gap <= 1e-6


@pytest.mark.parametrize(
    "text", ["ranges:9", "prefix:9+2.0@ranges:9", "total:9+identity:9"]
)
@pytest.mark.parametrize("norm", [4.0, math.inf])
def test_rows_are_never_needed(text: str, norm: float) -> None:
    asked = nw.workload(text)
    matrix, a = asked.dense(), RNG.random(asked.queries)
    np.testing.assert_allclose(asked.weighted_gram(a), matrix.T @ (a[:, None] * matrix))
    plan = Settings(norm, 1e-7, 3000)
    implicit = solve_numerically(asked, RowwiseProblem(asked), plan).value
    dense = solve_numerically(Explicit(matrix), DenseProblem(matrix), plan).value
    assert implicit == pytest.approx(dense, rel=1e-6)


@pytest.mark.parametrize("n", [40, 41])
def test_mirrored_eigenproblems_split(n: int) -> None:
    raw = RNG.normal(size=(n, n))
    matrix = raw + raw.T + (raw + raw.T)[::-1, ::-1]
    values, vectors = eigen(matrix)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-12 * n)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-12)
    assert (np.diff(values) >= 0).all()


matrices = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6)).map(
    lambda t: np.random.default_rng(t[2]).integers(-2, 3, size=t[:2]).astype(float)
)
exponents = st.sampled_from(NORMS)


@settings(max_examples=40, deadline=None)
@given(matrices, exponents, st.floats(1e-6, 1e6))
def test_homogeneous(matrix: np.ndarray, norm: float, factor: float) -> None:
    once, scaled = nw.factorize(matrix, norm), nw.factorize(factor * matrix, norm)
    assert scaled.value == pytest.approx(factor * once.value, rel=2e-6)


@settings(max_examples=40, deadline=None)
@given(matrices, exponents, st.integers(0, 10**6))
def test_triangle_inequality(matrix: np.ndarray, norm: float, seed: int) -> None:
    other = np.random.default_rng(seed).integers(-2, 3, size=matrix.shape).astype(float)
    left = nw.factorize(matrix + other, norm).lower_bound
    right = nw.factorize(matrix, norm).value + nw.factorize(other, norm).value
    assert left <= right * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(matrices)
def test_does_not_fall_with_the_exponent(matrix: np.ndarray) -> None:
    found = [nw.factorize(matrix, norm) for norm in NORMS]
    for low, high in pairwise(found):
        assert low.lower_bound <= high.value * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(matrices, exponents, st.randoms(use_true_random=False))
def test_permuting_columns_changes_nothing(
    matrix: np.ndarray, norm: float, random: object
) -> None:
    order = np.arange(matrix.shape[1])
    random.shuffle(order)  # type: ignore[attr-defined]
    once, permuted = nw.factorize(matrix, norm), nw.factorize(matrix[:, order], norm)
    assert permuted.value == pytest.approx(once.value, rel=2e-6)


@settings(max_examples=40, deadline=None)
@given(matrices)
def test_dropping_rows_never_raises_the_largest_error(matrix: np.ndarray) -> None:
    whole = nw.factorize(matrix, math.inf)
    part = nw.factorize(matrix[: max(1, len(matrix) // 2)], math.inf)
    assert part.lower_bound <= whole.value * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(matrices, matrices, exponents)
def test_products_multiply(left: np.ndarray, right: np.ndarray, norm: float) -> None:
    product = nw.factorize(np.kron(left, right), norm)
    factors = nw.factorize(left, norm).value * nw.factorize(right, norm).value
    assert product.value == pytest.approx(factors, rel=4e-6)


@settings(max_examples=60, deadline=None)
@given(matrices, exponents)
def test_certificates_hold_after_a_single_step(matrix: np.ndarray, norm: float) -> None:
    early, late = nw.factorize(matrix, norm, iterations=1), nw.factorize(matrix, norm)
    assert early.lower_bound <= late.value
    assert late.lower_bound <= early.value
    assert early.gap >= 0


def test_warm_starts_save_steps_and_must_fit() -> None:
    first = nw.factorize("ranges:32", 16)
    cold, warm = (
        nw.factorize("ranges:32", 32),
        nw.factorize("ranges:32", 32, start=first),
    )
    assert warm.iterations < cold.iterations
    assert warm.value == pytest.approx(cold.value, rel=1e-6)
    with pytest.raises(InvalidParameter, match="start="):
        nw.factorize("ranges:16", 4, start=first)


def test_warm_starts_of_tables_within_a_domain() -> None:
    text = "on:2x3x2:0,1:(prefix:6)"
    first = nw.factorize(text)
    assert nw.factorize(text, start=first).value == pytest.approx(first.value, rel=1e-6)


@pytest.mark.parametrize("norm", [2.0001, 1e6])
def test_exponents_near_both_ends(norm: float) -> None:
    for text in ("prefix:12", "ranges:9", "marginals:2x3:<=2", "random:9x6:1"):
        found = nw.factorize(text, norm)
        near = nw.factorize(text, 2.0 if norm < 3 else math.inf)
        assert 0 <= found.gap <= 1e-6
        assert found.value == pytest.approx(near.value, rel=1e-4)


def test_one_piece_too_large_is_refused_with_what_to_do() -> None:
    with pytest.raises(TooLarge, match="RunningCount"):
        nw.factorize("prefix:100000")
    chain = diags_array(
        [np.ones(20_000), np.ones(19_999)], offsets=[0, 1], shape=(20_000, 20_000)
    )
    with pytest.raises(TooLarge, match="connected block"):
        nw.factorize(chain.tocsr())


def test_the_iteration_limit_is_told() -> None:
    found = nw.factorize("ranges:32", math.inf, iterations=3)
    assert not found.converged
    assert found.status is Status.ITERATION_LIMIT
    assert "more iterations" in found.explanation
    assert found.gap > 1e-6
