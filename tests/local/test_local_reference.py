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
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.workload import workload

SHARED = Path(
    os.environ.get("NOISEWRIGHT_SHARED", Path(__file__).resolve().parents[3] / "shared")
)
REFERENCE = SHARED / "reference" / "local.csv"
PUBLISHED = {
    "randomized-response": RandomizedResponse,
    "hadamard": HadamardResponse,
    "subset-selection": SubsetSelection,
}
OURS_AT_MOST = ("fourier", "hadamard", "hierarchical")


def reference_rows():
    if not REFERENCE.exists():
        return []
    with REFERENCE.open() as file:
        return list(csv.DictReader(file))


def people(w, strategy):
    return Analysis(strategy, w, table_gram(w)).sample_complexity(0.01)


@pytest.mark.skipif(not REFERENCE.exists(), reason="measured values are not at hand")
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_mechanisms_to_a_millionth(name):
    rows = [row for row in reference_rows() if row["mechanism"] == name]
    assert rows
    for row in rows:
        expected, w = (
            float(row["sample_complexity_alpha_0.01"]),
            workload(row["workload"]),
        )
        found = people(w, PUBLISHED[name](w.size, float(row["epsilon"])))
        assert found == pytest.approx(expected, rel=1e-6), row["workload"]


@pytest.mark.skipif(not REFERENCE.exists(), reason="measured values are not at hand")
@pytest.mark.parametrize("name", OURS_AT_MOST)
def test_mechanisms_that_suit_the_workload_are_never_worse(name):
    rows = [row for row in reference_rows() if row["mechanism"].startswith(name)]
    assert rows
    for row in rows:
        w, published = (
            workload(row["workload"]),
            float(row["sample_complexity_alpha_0.01"]),
        )
        found = people(w, MECHANISMS[name].plan(LocalProblem(w, float(row["epsilon"]))))
        assert found <= published * (1 + 1e-6), row["workload"]


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
    assert found / lower_bound(w, epsilon).sample_complexity() == pytest.approx(
        1.0, abs=1e-9
    )
