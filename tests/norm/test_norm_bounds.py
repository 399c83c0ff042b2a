"""Named lower bounds: closed forms against singular values, and their order."""

from __future__ import annotations

import math

import numpy as np
import pytest

import noisewright as nw
from noisewright.norm.named_bounds import lower_bounds, nuclear_norm

WORKLOADS = [
    "identity:7",
    "total:7",
    "prefix:17",
    "ranges:13",
    "parity:4:<=2",
    "marginals:2x3x4:<=2",
    "allmarginals:2x3",
    "random:9x12:1",
    "2.5@prefix:6*identity:3",
    "prefix:6+ranges:6",
    "on:2x3x2:0,2:(ranges:4)",
]


@pytest.mark.parametrize("text", WORKLOADS)
def test_nuclear_norms_are_sums_of_singular_values(text: str) -> None:
    asked = nw.workload(text)
    total = float(np.linalg.svd(asked.dense(), compute_uv=False).sum())
    assert nuclear_norm(asked) <= total * (1 + 1e-13)
    assert nuclear_norm(asked) == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize("text", WORKLOADS)
@pytest.mark.parametrize("norm", [2.0, 4.0, math.inf])
def test_bounds_are_named_and_below_the_value(text: str, norm: float) -> None:
    found = nw.factorize(text, norm)
    bounds = {bound.name: bound.value for bound in lower_bounds(found)}
    best, plain = bounds["weighted nuclear norm"], bounds["Schatten-1"]
    assert best is not None
    assert plain is not None
    assert plain <= best * (1 + 1e-6)
    assert best <= found.value
    assert ("data-independent mechanisms" in bounds) == (norm in (2.0, math.inf))
    assert bounds.get("data-independent mechanisms") is None


def test_spectra_without_a_closed_form_are_left_out() -> None:
    found = nw.factorize("parity:14:<=1+total:16384")
    assert "Schatten-1" not in {bound.name for bound in lower_bounds(found)}


def test_replace_one_has_its_own_certificate() -> None:
    found = nw.factorize("prefix:6", neighbours="replace-one")
    names = [bound.name for bound in lower_bounds(found)]
    assert names == [
        "nuclear norm weighted over pairs of cells",
        "data-independent mechanisms",
    ]
