"""Approximate norms by symmetry: closed forms, linear programs over orbits, and their witnesses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import Contradiction, InvalidParameter
from noisewright.norm.approximate.approximate import boxed_norm
from noisewright.norm.approximate.marginal_norm import marginal_norm
from oracles.sdp import approximate_gamma2, witness_value

ALIKE = [
    "parity:3:<=2",
    "parity:4:1",
    "marginals:3^2:1",
    "allmarginals:2^3",
    "ranges:7",
    "ranges:8",
]


@pytest.mark.parametrize("text", ALIKE)
@pytest.mark.parametrize(
    ("entrywise", "shift"), [(0.1, False), (0.15, True), (0.0, True)]
)
def test_symmetry_agrees_with_the_semidefinite_program(
    text: str, entrywise: float, shift: bool
) -> None:
    result = nw.approximate_norm(text, entrywise, shift=shift)
    matrix, proof = result.workload.dense(), result.certificate
    exact = approximate_gamma2(matrix, entrywise, shift)
    assert result.value == pytest.approx(exact, rel=1e-3)
    proved = witness_value(
        matrix, entrywise, proof.matrix, proof.row_weights, proof.column_weights
    )
    assert proved == pytest.approx(result.lower_bound, rel=1e-6)
    assert result.gap <= 2e-3
    away = np.abs(result.approximation - matrix - result.shifts[:, None]).max()
    assert away <= entrywise + 1e-9


@pytest.mark.parametrize("shift", [False, True])
def test_parities_have_a_closed_form(shift: bool) -> None:
    result = nw.approximate_norm("parity:5:2", 0.3, shift=shift)
    assert result.value == pytest.approx(0.7 * math.sqrt(10), rel=1e-6)
    assert result.lower_bound == pytest.approx(0.7 * math.sqrt(10), rel=1e-6)


def test_many_attributes_by_a_small_linear_program() -> None:
    """A hundred attributes, tables of eight: no solver sees the workload's 4.8e13 rows."""
    exact, near = marginal_norm(100, 8, 0.0), marginal_norm(100, 8, 0.05)
    assert exact.value == pytest.approx(4128, abs=1)
    assert near.value == pytest.approx(386, abs=1)
    assert marginal_norm(100, 8, 0.1).value == pytest.approx(135, abs=1)
    for result in (exact, near):
        assert result.gap < 1e-6
    assert near.queries == math.comb(100, 8) * 2**8
    assert marginal_norm(100, 8, 0.05, shift=True).value <= near.value


def test_all_conjunctions_over_eight_bits() -> None:
    """6,561 rows; at no tolerance γ2 is that of all marginals, (4/3)^(8/2) = 3.1605."""
    widths = range(9)
    assert marginal_norm(8, widths, 0.0).value == pytest.approx((4 / 3) ** 4, rel=1e-6)
    near = marginal_norm(8, widths, 0.1)
    assert near.queries == 3**8
    assert near.gap < 1e-4
    assert near.value < 0.85 * (4 / 3) ** 4


def test_a_result_that_contradicts_its_witness_is_none() -> None:
    result = marginal_norm(6, 2, 0.1)
    with pytest.raises(Contradiction):
        replace(result, lower_bound=result.value * 1.01, value=result.value * 1.02)
    with pytest.raises(Contradiction):
        replace(result, coefficients=(result.coefficients[0] * 0.5,))


@pytest.mark.parametrize(
    ("ways", "entrywise"), [(9, 0.1), ((), 0.1), (2, -1.0), (2, math.nan)]
)
def test_marginals_that_are_none_are_refused(
    ways: int | tuple[int, ...], entrywise: float
) -> None:
    with pytest.raises(InvalidParameter):
        marginal_norm(8, ways, entrywise)


@pytest.mark.parametrize("seed", range(6))
def test_the_inequalities_between_the_norms(seed: int) -> None:
    """γ̂2 ≤ γ2 ≤ 2γ̂2 + 1 + α for entries in [−1, 1]; both fall with α; a label adds nothing."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, size=tuple(rng.integers(2, 6, size=2)))
    low, high = sorted(rng.uniform(0, 0.5, size=2))
    plain, shifted = (nw.approximate_norm(matrix, low, shift=s) for s in (False, True))
    assert shifted.lower_bound <= plain.value * (1 + 1e-6)
    assert plain.lower_bound <= 2 * shifted.value + 1 + low + 1e-6
    assert nw.approximate_norm(matrix, high).lower_bound <= plain.value * (1 + 1e-6)
    signed = np.hstack([matrix, -matrix])
    both = boxed_norm(signed - low, signed + low)
    assert both.value == pytest.approx(plain.value, rel=1e-3)
    assert boxed_norm(signed - low, signed + low, shift=True).value == pytest.approx(
        plain.value, rel=2e-3
    )
