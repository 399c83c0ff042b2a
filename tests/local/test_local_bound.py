from __future__ import annotations

import numpy as np
import pytest

from noisewright.local.bounds.trace import (
    contrast_limit,
    lower_bound,
    optimised_prior,
    prior_bound,
)
from noisewright.local.transform import spectrum
from noisewright.workload import workload
from oracles import local_matrix as oracle

WORKLOADS = [
    "identity:12",
    "total:7",
    "prefix:30",
    "ranges:2",
    "ranges:30",
    "ranges:31",
    "allmarginals:2^4",
    "marginals:2^4:2",
    "marginals:3x2x4:2",
    "parity:4:<=2",
    "prefix:5*identity:4",
    "2@identity:5+prefix:5",
    "allmarginals:3x4",
    "random:9x7:1",
]


@pytest.mark.parametrize("text", WORKLOADS)
def test_spectrum_is_that_of_the_centred_workload(text):
    w = workload(text)
    dense = w.dense()
    singular = np.linalg.svd(
        dense - dense.mean(axis=1, keepdims=True), compute_uv=False
    )
    assert spectrum.centred_spectrum(w.gram()).nuclear == pytest.approx(
        singular.sum(), abs=1e-6
    )


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 4.0, 15.0])
@pytest.mark.parametrize("n", [2, 3, 17])
def test_contrast_limit_is_the_best_over_all_sizes(n, epsilon):
    d = np.arange(n + 1)
    e = np.exp(epsilon)
    best = (n * (n - d + d * e**2) / (n - d + d * e) ** 2 - 1).max()
    assert contrast_limit(n, epsilon) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("text", ["identity:6", "prefix:6", "ranges:6", "random:9x6:2"])
def test_no_strategy_beats_the_bounds(text):
    w, rng = workload(text), np.random.default_rng(7)
    floor = lower_bound(w, 1.0)
    best, prior = optimised_prior(w, 1.0)
    assert best.variance >= prior_bound(w, 1.0, np.full(6, 1 / 6)).variance - 1e-9
    for _ in range(20):
        q = oracle.random_strategy(30, 6, 1.0, rng)
        variances = oracle.type_variances(q, w.dense())
        assert variances.max() >= floor.variance
        assert variances.max() >= best.variance
        assert (
            variances.max() >= prior_bound(w, 1.0, rng.dirichlet(np.ones(6))).variance
        )
    assert prior.sum() == pytest.approx(1.0)


def test_gradient_of_the_prior_bound_is_right():
    from noisewright.local.bounds.trace import _prior_value

    m = workload("prefix:5").gram().dense()
    prior = np.random.default_rng(1).dirichlet(np.full(5, 5.0))
    _, gradient = _prior_value(m, prior, 1.0)
    for u in range(5):
        step = 1e-6 * (np.eye(5)[u] - prior)  # stays on the simplex
        up, down = (
            _prior_value(m, prior + step, 1.0)[0],
            _prior_value(m, prior - step, 1.0)[0],
        )
        assert (up - down) / 2 == pytest.approx(gradient @ step, rel=1e-4, abs=1e-12)


def test_targets_named_for_prefix():
    w = workload("prefix:64")
    best, _ = optimised_prior(w, 1.0)
    assert lower_bound(w, 1.0).sample_complexity() == pytest.approx(903, abs=1)
    assert best.sample_complexity() >= 926
