"""Domains beyond matrices over pairs of cells, for every mechanism with constant-size reports."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import TooLarge
from noisewright.local.analysis.grams import table_gram
from noisewright.local.mechanism import LocalProblem
from noisewright.local.registry import MECHANISMS
from noisewright.workload import workload
from oracles.privacy_oracles import SeededSource

CONSTANT = [
    "randomized-response",
    "local-hashing",
    "hierarchical",
    "fourier",
    "one-bit",
    "privunit",
]
MILLION = [(name, kind) for name in CONSTANT for kind in ("identity", "prefix")]
MILLION += [(n, "marginals") for n in ("fourier", "union", "one-bit", "privunit")]
TEXTS = {
    "identity": "identity:1048576",
    "prefix": "prefix:1048576",
    "marginals": "marginals:2^20:2",
}


def skewed(cells, people, rng):
    return np.minimum(rng.geometric(4 / cells, people), cells) - 1


def squared_error(strategy, gram, values, source):
    """Squared error of all answers together, over what the formulas expect of it."""
    truth = np.bincount(values, minlength=strategy.size)
    tally = strategy.collector.tally(strategy.randomize(values, source))
    error = strategy.estimate(tally, len(values)) - truth
    return float(error @ gram.matvec(error)) / float(
        strategy.type_variances(gram) @ truth
    )


@pytest.mark.parametrize("name", CONSTANT)
def test_the_histogram_of_eight_thousand_cells(name):
    w = workload("identity:8192")
    strategy = MECHANISMS[name].plan(LocalProblem(w, 1.0))
    assert strategy.loss.epsilon <= strategy.epsilon
    values = skewed(w.size, 20_000, np.random.default_rng(1))
    ratio = squared_error(strategy, w.gram(), values, SeededSource(len(name)))
    # A mean of some 8,000 hardly dependent squares, relative deviation near 0.02: 6 of them.
    assert ratio == pytest.approx(1.0, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prefix", "ranges"])
@pytest.mark.parametrize("name", CONSTANT)
def test_intervals_of_eight_thousand_cells(name, kind):
    w = workload(f"{kind}:8192")
    strategy, gram = MECHANISMS[name].plan(LocalProblem(w, 1.0)), table_gram(w)
    values, source = (
        skewed(w.size, 20_000, np.random.default_rng(1)),
        SeededSource(len(name)),
    )
    ratios = [squared_error(strategy, gram, values, source) for _ in range(100)]
    # Sums of a few dependent squares: relative deviation below 1.1 each, 0.11 of their mean, and
    # a long upper tail; 0.55 to 1.6 is beyond five deviations.
    assert 0.55 < np.mean(ratios) < 1.6


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), MILLION)
def test_a_million_cells_from_plan_to_answers(name, kind):
    privacy = nw.Privacy(epsilon=1.0)
    plan = nw.plan(
        TEXTS[kind], privacy, nw.Local(mechanism=name, effort="low", people=10**5)
    )
    assert plan.format.length <= 9 + 8
    values = skewed(2**20, 10**5, np.random.default_rng(0))
    found = plan.estimate(plan.aggregate(plan.client.randomize_many(values)))
    assert np.isfinite(found.answers).all()
    assert np.isfinite(found.std).all()
    truth = plan.workload.matvec(np.bincount(values, minlength=2**20))
    sure = found.std > 1e-6 * found.std.max()
    z = (found.answers - truth)[sure] / found.std[sure]
    # Prefix sums err together, a few dependent squares in all: below 4 but once in 1e5.
    assert np.sqrt(np.mean(z**2)) < (4 if kind == "prefix" else 1.5)


def test_vectors_without_structure_are_refused():
    for name in ("one-bit", "privunit"):
        with pytest.raises(TooLarge, match="alike"):
            MECHANISMS[name].plan(LocalProblem(workload("random:3x5000:1"), 1.0))
