"""γ2(W, α) and γ̂2(W, α) against a semidefinite program and their own witnesses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import Contradiction, InvalidParameter, TooLarge
from noisewright.norm.approximate.approximate import ApproximateNorm
from noisewright.norm.kernel.certificate import witness_bound
from oracles.sdp import approximate_gamma2, witness_value

STRUCTURED = ["prefix:16", "ranges:6", "identity:9", "parity:4:2", "marginals:2^3:2"]
RANDOM = [
    (6, 6),
    (5, 12),
    (12, 5),
    (9, 9),
    (4, 24),
    (24, 4),
    (8, 14),
    (14, 8),
    (3, 3),
    (11, 11),
]


def check_witness(found: ApproximateNorm) -> None:
    matrix, proof = found.workload.dense(), found.certificate
    proved = witness_value(
        matrix, found.entrywise, proof.matrix, proof.row_weights, proof.column_weights
    )
    assert found.lower_bound <= proved * (1 + 1e-12)
    assert found.lower_bound == pytest.approx(proved, rel=1e-9)
    if found.shift:
        assert all(math.fsum(row) == 0 for row in proof.matrix.tolist())
    distance = np.abs(found.approximation - matrix - found.shifts[:, None]).max()
    assert distance <= found.entrywise * (1 + 1e-12) + 1e-14
    product = (
        found.factorization.reconstruction.dense()
        @ found.factorization.strategy.dense()
    )
    np.testing.assert_allclose(product, found.approximation, atol=1e-8)
    assert 0 <= found.gap <= 1e-3


@pytest.mark.parametrize("text", STRUCTURED)
@pytest.mark.parametrize("shift", [False, True])
def test_structured_workloads_agree_with_the_semidefinite_program(
    text: str, shift: bool
) -> None:
    found = nw.approximate_norm(text, 0.1, shift=shift)
    check_witness(found)
    exact = approximate_gamma2(found.workload.dense(), 0.1, shift)
    assert found.value == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("index", range(len(RANDOM)))
def test_random_workloads_agree_with_the_semidefinite_program(index: int) -> None:
    rng = np.random.default_rng(index)
    matrix = rng.uniform(-1, 1, size=RANDOM[index])
    entrywise, shift = float(rng.uniform(0.02, 0.4)), bool(index % 2)
    found = nw.approximate_norm(matrix, entrywise, shift=shift)
    check_witness(found)
    assert found.value == pytest.approx(
        approximate_gamma2(matrix, entrywise, shift), rel=1e-3
    )


@pytest.mark.parametrize(
    ("entrywise", "shift", "expected"),
    [(0.1, False, 1.4531), (0.1, True, 0.9493), (0.25, False, 1.0833)],
)
def test_named_targets(entrywise: float, shift: bool, expected: float) -> None:
    found = nw.approximate_norm("prefix:16", entrywise, shift=shift)
    assert found.value == pytest.approx(expected, abs=1.5e-4)


def test_no_tolerance_is_the_exact_norm_and_a_full_one_needs_nothing() -> None:
    exact = nw.factorize("prefix:8", math.inf)
    assert nw.approximate_norm("prefix:8", 0.0).value == pytest.approx(
        exact.value, rel=1e-3
    )
    assert nw.approximate_norm("prefix:8", 1.0).value == pytest.approx(0, abs=1e-6)
    assert nw.approximate_norm("prefix:8", 0.5, shift=True).value == 0
    assert nw.approximate_norm("total:5", 0.0, shift=True).value == 0


def test_few_steps_still_give_valid_bounds() -> None:
    early = nw.approximate_norm("prefix:16", 0.1, iterations=10)
    late = nw.approximate_norm("prefix:16", 0.1)
    assert early.lower_bound <= late.value
    assert late.lower_bound <= early.value
    assert "iteration limit" in early.status


@pytest.mark.parametrize("iterations", [1, 3, 9, 10, 11, 25])
def test_no_number_of_steps_puts_a_shifted_bound_above_the_optimum(
    iterations: int,
) -> None:
    exact = approximate_gamma2(nw.workload("prefix:8").dense(), 0.1, shift=True)
    found = nw.approximate_norm("prefix:8", 0.1, shift=True, iterations=iterations)
    assert found.lower_bound <= exact * (1 + 1e-6)
    assert found.value >= exact * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_offsets_of_rows_change_no_shifted_norm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(2, 7, size=2)
    matrix = rng.normal(size=(rows, columns))
    offset = np.round(10 ** rng.uniform(0, 8, size=(rows, 1)))
    # what is left of the entries beside their offsets
    matrix = (matrix + offset) - offset
    entrywise, steps = (
        float(rng.choice([0.01, 0.3, 100.0])),
        int(rng.choice([2, 9, 60])),
    )
    found = nw.approximate_norm(
        matrix + offset, entrywise, shift=True, iterations=steps
    )
    exact = approximate_gamma2(matrix, entrywise, shift=True)
    assert found.lower_bound <= exact * (1 + 1e-6) + 1e-7
    assert found.value >= exact * (1 - 1e-5) - 1e-7
    assert found.gap >= 0
    if entrywise == 100:
        assert found.value == 0


def test_a_witness_whose_rows_do_not_sum_to_zero_proves_nothing_of_shifts() -> None:
    matrix, half = np.eye(3), np.full(3, 1 / 3)
    assert witness_bound(matrix, 0.0, matrix, half, half) > 0
    with pytest.raises(Contradiction, match="sum to zero"):
        witness_bound(matrix, 0.0, matrix, half, half, shift=True)


@pytest.mark.parametrize("broken", ["lower_bound", "value", "approximation"])
def test_a_result_that_contradicts_itself_is_none(broken: str) -> None:
    found = nw.approximate_norm("prefix:6", 0.1, shift=True)
    changed = getattr(found, broken) * (1.5 if broken == "lower_bound" else 0.5)
    with pytest.raises(Contradiction):
        replace(found, **{broken: changed})


@pytest.mark.parametrize("entrywise", [-0.1, math.nan, math.inf])
def test_bad_tolerances_are_refused(entrywise: float) -> None:
    with pytest.raises(InvalidParameter, match="entrywise="):
        nw.approximate_norm("prefix:4", entrywise)


def test_sizes_out_of_reach_are_refused() -> None:
    with pytest.raises(TooLarge, match="ranges:512"):
        nw.approximate_norm("ranges:512", 0.1)
