"""The margins of the float path, and the integer enclosures behind everything, are true."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import factorial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.privacy.exact.proven import (
    GAUSSIAN_ERROR,
    GAUSSIAN_REACH,
    LOGARITHM_ERROR,
    _gaussian_table,
    _inverse_polynomials,
    exp_minus,
    gaussian_quantile,
    mills_ratio,
    minus_log,
    root_half_pi,
    two_sided_tail,
)
from oracles.privacy_oracles import rational

ORACLES = {
    exp_minus: lambda x: mpmath.exp(-x),
    two_sided_tail: lambda x: mpmath.erfc(x / mpmath.sqrt(2)),
    mills_ratio: lambda x: (
        mpmath.sqrt(mpmath.pi / 2)
        * mpmath.erfc(x / mpmath.sqrt(2))
        * mpmath.exp(x * x / 2)
    ),
}


@pytest.mark.parametrize("enclose", ORACLES)
@settings(deadline=None)
@given(
    x=st.one_of(st.floats(0, 50), st.floats(3.9, 4.1), st.floats(1e-300, 1e-3)),
    precision=st.sampled_from([64, 95, 300]),
)
def test_enclosures_hold_and_are_narrow(
    enclose: Callable[[Fraction, int], tuple[int, int]], x: float, precision: int
) -> None:
    lo, hi = enclose(Fraction(x), precision)
    with mpmath.workprec(2600):  # e^(-50²/2) = 2^-1803
        assert lo <= mpmath.ldexp(ORACLES[enclose](rational(x)), precision) <= hi
    assert hi - lo <= 2


@given(x=st.floats(50, 1e300), precision=st.sampled_from([64, 300]))
def test_enclosures_far_out(x: float, precision: int) -> None:
    z = Fraction(x)
    assert two_sided_tail(z, precision) == (0, 1)
    lo, hi = mills_ratio(z, precision)
    unit = Fraction(1, 1 << precision)
    assert lo * unit <= 1 / z  # z/(1+z²) < R(z) < 1/z
    assert hi * unit >= z / (1 + z * z)
    assert hi - lo <= 2


def test_the_constant() -> None:
    with mpmath.workprec(500):
        lo, hi = root_half_pi(300)
        assert lo <= mpmath.ldexp(mpmath.sqrt(mpmath.pi / 2), 300) <= hi
    assert hi - lo <= 2


def difficult_bits() -> np.ndarray:
    """Random bits of every size, and both sides of every seam of the tables."""
    random = np.random.default_rng(5)
    spread = random.integers(1 << 62, 1 << 63, 1500, dtype=np.uint64)
    spread >>= random.integers(0, 20, 1500, dtype=np.uint64)
    seams = (_gaussian_table().bounds * 2.0**63).astype(np.uint64)
    parts = np.arange(128, 257, dtype=np.uint64) << np.uint64(55)
    parts[-1] -= np.uint64(1 << 11)
    near = [
        base + np.uint64(2048) * offset
        for base in (seams, parts[:-1])
        for offset in (0, 1)
    ]
    below = [base - np.uint64(2048) for base in (seams, parts)]
    return np.concatenate([spread, *near, *below, [np.uint64((1 << 63) - 1)]]).astype(
        np.uint64
    )


def test_gaussian_quantiles_keep_their_margin() -> None:
    bits = difficult_bits()
    z, within = gaussian_quantile(bits)
    assert within.mean() > 0.9
    with mpmath.workprec(200):
        for found, j in zip(z[within], bits[within].tolist(), strict=True):
            for end in (j, j + 1):
                # Newton from the claimed value, quadratically convergent: |error| is the first step
                u = mpmath.ldexp(end, -63)
                at = mpmath.mpf(float(found))
                density = mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-at * at / 2)
                error = abs(mpmath.erfc(at / mpmath.sqrt(2)) - u) / density
                assert error < GAUSSIAN_ERROR / 2


def test_logarithms_keep_their_margin() -> None:
    bits = difficult_bits()
    logarithm, enough = minus_log(bits)
    assert enough.sum() == (bits >= 1 << 44).sum()
    with mpmath.workprec(100):
        for found, j in zip(logarithm[enough], bits[enough].tolist(), strict=True):
            for end in (j, j + 1):
                exact = -mpmath.log(mpmath.ldexp(end, -63))
                assert abs(exact - float(found)) < LOGARITHM_ERROR / 2


def test_the_stated_parts_of_the_gaussian_margin() -> None:
    """Recompute remainder and interval width of the module's proof, on every segment."""
    step = mpmath.mpf(1) / 128
    terms = len(_inverse_polynomials())
    last = _inverse_polynomials()[-1]
    next_one = [0, *(terms * value for value in last)]
    for power, value in enumerate(last[1:], start=1):
        next_one[power - 1] += power * value
    for i in range(GAUSSIAN_REACH * 64 + 1):
        z = mpmath.mpf(i) / 64
        top = z + step
        growth = mpmath.exp((top * top - z * z) / 2)
        w = step * mpmath.exp(z * step)
        value = mpmath.polyval(next_one, top, asc=True)
        remainder = (
            value * growth ** (terms + 1) * w ** (terms + 1) / factorial(terms + 1)
        )
        width = mpmath.ldexp(
            mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(top * top / 2), -63
        )
        assert remainder < 2.0**-45
        assert width < 2.0**-44
        assert remainder + growth * width + 2.0**-49 < 2.0**-43
