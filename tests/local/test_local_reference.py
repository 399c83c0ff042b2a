"""Sample complexities against measured values of the published mechanisms, and closed forms."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.trace import lower_bound
from noisewright.local.histogram.sets import RandomizedResponse, SubsetSelection
from noisewright.local.mechanism import LocalProblem
from noisewright.local.registry import MECHANISMS
from noisewright.workload import workload

SHARED = Path(os.environ.get("NOISEWRIGHT_SHARED", Path(__file__).resolve().parents[3] / "shared"))
REFERENCE = SHARED / "reference" / "local.csv"
EXACT = {
    "randomized-response": "randomized-response",
    "hadamard": "hadamard",
    "subset-selection": "subset-selection",
}
AT_MOST = {"hierarchical": "hierarchical", "fourier": "fourier"}


def reference_rows():
    if not REFERENCE.exists():
        return []
    with REFERENCE.open() as file:
        return list(csv.DictReader(file))


def ours(name, row):
    w = workload(row["workload"])
    strategy = MECHANISMS[name].plan(LocalProblem(w, float(row["epsilon"])))
    return Analysis(strategy, w, table_gram(w)).sample_complexity(0.01)


@pytest.mark.skipif(not REFERENCE.exists(), reason="measured values are not at hand")
@pytest.mark.parametrize("name", sorted(EXACT))
def test_published_mechanisms_to_a_millionth(name):
    rows = [row for row in reference_rows() if row["mechanism"] == name]
    assert rows
    for row in rows:
        expected = float(row["sample_complexity_alpha_0.01"])
        assert ours(name, row) == pytest.approx(expected, rel=1e-6), row["workload"]


@pytest.mark.skipif(not REFERENCE.exists(), reason="measured values are not at hand")
@pytest.mark.parametrize("name", sorted(AT_MOST))
def test_weighted_mechanisms_are_never_worse(name):
    rows = [row for row in reference_rows() if row["mechanism"].startswith(name)]
    assert rows
    for row in rows:
        assert ours(name, row) <= float(row["sample_complexity_alpha_0.01"]), row["workload"]


@pytest.mark.parametrize("n", [2, 5, 64, 512])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomized_response_has_its_closed_form(n, epsilon):
    r = np.expm1(epsilon)
    expected = (n - 1) / (0.01 * n) * (n / r**2 + 2 / r)
    found = Analysis(RandomizedResponse(n, epsilon), workload(f"identity:{n}"))
    assert found.sample_complexity(0.01) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [64, 512, 65_536])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_subset_selection_meets_the_bound_on_histograms(n, epsilon):
    w = workload(f"identity:{n}")
    found = Analysis(SubsetSelection(n, epsilon), w).sample_complexity()
    assert found / lower_bound(w, epsilon).sample_complexity() == pytest.approx(1.0, abs=1e-9)
