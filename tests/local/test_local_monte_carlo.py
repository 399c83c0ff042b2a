"""Simulated people: estimates without bias, and with the covariance that the formulas state.

Seeds are fixed. A mean beyond 5.5 standard errors, or a covariance beyond 6.5 of its own standard
deviations, has a false-alarm rate below 1e-7 per entry for the (nearly Gaussian) sums over people:
below 1e-3 for the whole grid of some 2 × 10^5 distinct entries, had the seeds not been fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from local.strategies import uneven_matrix
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.grams import table_gram
from noisewright.local.listed import MatrixStrategy
from noisewright.local.mechanism import LocalProblem, Search
from noisewright.local.registry import MECHANISMS
from noisewright.workload import workload
from oracles.privacy_oracles import SeededSource

WORKLOADS = [
    "identity:16",
    "total:16",
    "prefix:16",
    "ranges:16",
    "marginals:2^4:2",
    "allmarginals:2^4",
    "parity:4:<=2",
    "prefix:4*identity:4",
    "random:12x16:5",
]


NAMES = [*sorted(MECHANISMS), "matrix"]


def built(name, text, epsilon):
    w = workload(text)
    if name == "matrix":
        return w, MatrixStrategy.from_chances(uneven_matrix(w.size, epsilon), epsilon)
    quick = Search(effort="low", cache=False)
    return w, MECHANISMS[name].plan(LocalProblem(w, epsilon, 1e-4, quick))


def simulate(strategy, w, values, runs, seed):
    """Answers of many runs over the same people."""
    reports = strategy.randomize(np.tile(values, runs), SeededSource(seed))
    parts = np.split(reports, runs)
    tallies = [strategy.collector.tally(part) for part in parts]
    return np.array([strategy.answers(w, tally, len(values)) for tally in tallies])


def check(name, text, epsilon, people, runs):
    try:
        w, strategy = built(name, text, epsilon)
    except NoisewrightError as refusal:
        pytest.skip(f"{name} does not answer {text}: {refusal}")
    rng = np.random.default_rng(3)
    values = np.minimum(rng.geometric(0.3, people) - 1, w.size - 1)
    histogram = np.bincount(values, minlength=w.size).astype(float)
    answers = simulate(strategy, w, values, runs, seed=len(name) + len(text))
    errors = answers - w.matvec(histogram)
    covariance = Analysis(strategy, w, table_gram(w)).covariance(histogram)
    variances = np.maximum(np.diag(covariance), 0.0)
    live = variances > 1e-9 * max(variances.max(), 1.0)
    np.testing.assert_allclose(errors[:, ~live], 0.0, atol=1e-4 * people)
    if not live.any():
        return
    std = np.sqrt(variances[live])
    z = errors[:, live] / std
    assert np.abs(z.mean(axis=0)).max() * np.sqrt(runs) < 5.5
    correlation = covariance[np.ix_(live, live)] / np.outer(std, std)
    found = z.T @ z / runs
    spread = np.sqrt((1 + correlation**2) / runs)
    off = np.abs(found - correlation) / spread
    assert off.max() < 6.5


@pytest.mark.parametrize("name", NAMES)
def test_a_small_simulation_of_every_mechanism(name):
    text = "marginals:2^3:2" if name == "union" else "prefix:8"
    check(name, text, 1.0, people=300, runs=150)


@pytest.mark.slow
@pytest.mark.parametrize("text", WORKLOADS)
@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_on_every_workload(name, text):
    check(name, text, 1.0, people=2000, runs=400)
