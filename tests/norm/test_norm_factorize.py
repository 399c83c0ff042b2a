"""`factorize` against dense oracles: W = RA, the value, the certificate, the named targets."""

from __future__ import annotations

import math

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, TooLarge
from oracles.factorizations import nuclear_bound, value

WORKLOADS = [
    "identity:7",
    "total:7",
    "prefix:1",
    "prefix:2",
    "prefix:33",
    "ranges:1",
    "ranges:2",
    "ranges:21",
    "parity:4:<=2",
    "marginals:2^5:2",
    "marginals:2x3x4:<=2",
    "allmarginals:2x3",
    "random:40x24:3",
    "random:12x30:4",
    "prefix:6*ranges:4*identity:3",
    "2.5@prefix:9",
    "prefix:12+3.0@total:12",
    "on:2x3x4:0,2:(ranges:8)",
]
NORMS = [2.0, 2.5, 4.0, 16.0, math.inf]


@pytest.mark.parametrize("text", WORKLOADS)
@pytest.mark.parametrize("norm", NORMS)
def test_factorization_and_certificate_hold_when_recomputed(
    text: str, norm: float
) -> None:
    found = nw.factorize(text, norm)
    matrix = found.workload.dense()
    strategy, reconstruction = found.strategy.dense(), found.reconstruction.dense()
    assert np.abs(reconstruction @ strategy - matrix).max() < 1e-9
    assert value(strategy, reconstruction, norm) == pytest.approx(found.value, rel=1e-9)
    weights = found.certificate.row_weights(), found.certificate.column_weights()
    bound = nuclear_bound(matrix, norm, *weights)
    assert found.lower_bound <= bound * (1 + 1e-13)
    assert found.lower_bound == pytest.approx(bound, rel=1e-8)
    assert 0 <= found.gap <= 1e-6
    lengths = np.linalg.norm(reconstruction, axis=1)
    np.testing.assert_allclose(found.errors(), lengths, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("text", "rmse", "largest"),
    [
        ("prefix:64", 2.09986, 2.1114),
        ("marginals:2^8:3", 2.81843, 2.8184),
        ("marginals:2^8:<=3", 2.90670, 2.9752),
        ("allmarginals:2^8", 2.39500, 3.1605),
        ("prefix:16*prefix:16*identity:4", 2.85408, 2.9054),
    ],
)
def test_named_targets(text: str, rmse: float, largest: float) -> None:
    assert nw.factorize(text, 2).value == pytest.approx(rmse, abs=6e-6)
    worst = nw.factorize(text, math.inf)
    assert worst.gap <= 1e-6
    assert worst.value <= largest + 5e-5
    assert worst.value >= largest * (1 - 1e-4) - 5e-5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prefix:64", {4: 2.1020, 8: 2.1045, 16: 2.1068}),
        ("ranges:64", {2: 2.30221, 4: 2.3329, 8: 2.3715, 16: 2.4103, math.inf: 2.4888}),
        ("prefix:1024", {2: 2.95545}),
        ("ranges:1024", {2: 3.51508}),
        ("identity:64", {2: 1.0, math.inf: 1.0}),
    ],
)
def test_named_targets_at_other_norms(text: str, expected: dict[float, float]) -> None:
    for norm, target in expected.items():
        found = nw.factorize(text, norm)
        digits = 5e-6 if norm == 2 else 5e-5
        assert found.gap <= 1e-6
        assert target * (1 - 1e-4) - digits <= found.value <= target + digits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "target"), [("prefix:1024", 2.9616), ("ranges:1024", 3.7030)]
)
def test_large_targets_for_the_largest_error(text: str, target: float) -> None:
    found = nw.factorize(text, math.inf, tolerance=5e-5)
    assert found.gap <= 1e-4
    assert target * (1 - 1e-4) - 5e-5 <= found.value <= target + 5e-5


def test_a_billion_cells_need_no_dense_matrix() -> None:
    found = nw.factorize("*".join(["prefix:16"] * 7 + ["identity:4"]))
    one = nw.factorize("prefix:16", tolerance=1e-9)
    assert found.value == pytest.approx(one.value**7, rel=1e-6)
    assert found.gap <= 1e-6
    with pytest.raises(TooLarge):
        found.strategy.dense()


@pytest.mark.parametrize("norm", [1.9, -1, math.nan, "two"])
def test_norms_below_two_are_refused(norm: float) -> None:
    with pytest.raises(InvalidParameter, match="norm="):
        nw.factorize("prefix:4", norm)
