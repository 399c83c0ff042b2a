"""Cells as intervals: no set gains more than an interval, and no claim lies above the optimum."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.floors import interval_bound
from noisewright.local.bounds.ordered import intervals
from noisewright.local.bounds.ordered.intervals import Claim, FallingKernel
from noisewright.local.bounds.ordered.search import best_claim, merged
from noisewright.local.bounds.trace import optimised_prior
from noisewright.workload import workload
from noisewright.workload.kinds.explicit import Explicit
from oracles.local_optimum import optimum

TINY = 1e-9


def invented(n, rng):
    """Any kernel that falls, any prior, any β."""
    count = int(rng.integers(1, 6))
    circular = (rng.random(count) < 0.5).astype(float)
    widths = rng.random(count) * np.where(circular > 0, 0.5, 1.0)
    kernel = FallingKernel(
        float(rng.choice([0.0, 0.1, 1.0])), widths, circular, rng.random(count) ** 3
    )
    prior = rng.dirichlet(np.ones(n) * rng.choice([0.3, 1.0, 10.0]))
    prior = np.maximum(prior, 1e-4)
    return Claim(
        kernel, prior / prior.sum(), float(rng.choice([0.0, rng.normal(), 1.9, 3.0]))
    )


def sets(n):
    return np.array(list(product((0.0, 1.0), repeat=n)))


def breach(claim, epsilon):
    """How far the worst set is above the condition, over its size."""
    z, prices = claim.witness(epsilon)
    v = 1.0 + np.expm1(epsilon) * sets(len(prices))
    gains = np.einsum("ou,ou->o", v @ z, v)
    limits = (v @ prices) * (v @ claim.prior)
    return float(((gains - limits) / (np.abs(gains) + v @ np.abs(prices))).max())


@pytest.mark.parametrize("seed", range(30))
def test_no_set_gains_more_than_an_interval_of_its_measure(seed):
    rng = np.random.default_rng(seed)
    claim = invented(7, rng)
    x = sets(7)
    for t, width, circular in zip(
        claim.kernel.matrices(claim.prior),
        claim.kernel.widths,
        claim.kernel.circular,
        strict=True,
    ):
        one = FallingKernel(0.0, np.array([width]), np.array([circular]), np.ones(1))
        most = one.interval(x @ claim.prior)[0]
        assert (np.einsum("ou,ou->o", x @ t, x) <= most + TINY).all()


@pytest.mark.parametrize("width", [0.1, 0.37, 0.5])
def test_entries_are_the_measure_of_pairs_that_near(width):
    prior = np.array([0.2, 0.5, 0.3])
    kernel = FallingKernel(0.0, np.full(2, width), np.array([0.0, 1.0]), np.ones(2))
    grid = (np.arange(1000) + 0.5) / 1000
    cell = np.searchsorted(np.cumsum(prior), grid)
    apart = np.abs(grid[:, None] - grid)
    for t, distance, off in zip(
        kernel.matrices(prior),
        (apart, np.minimum(apart, 1 - apart)),
        (0.0, 1.0),
        strict=True,
    ):
        inside = (distance <= width) / 1e6
        by_cell = np.array(
            [
                [inside[cell == i][:, cell == j].sum() for j in range(3)]
                for i in range(3)
            ]
        )
        assert np.abs(t + off * np.outer(prior, prior) - by_cell).max() < 3e-3


@pytest.mark.parametrize("seed", range(40))
def test_every_claim_holds_for_every_set(seed):
    rng = np.random.default_rng([seed, 1])
    epsilon = float(rng.choice([0.1, 0.7, 2.0, 5.0, 8.0]))
    claim = invented(int(rng.integers(2, 9)), rng)
    assert breach(claim, epsilon) <= TINY
    assert np.linalg.eigvalsh(claim.witness(epsilon)[0])[0] >= -TINY


@pytest.mark.parametrize("seed", range(12))
def test_no_claim_lies_above_the_optimum(seed):
    rng = np.random.default_rng([seed, 2])
    n, epsilon = int(rng.integers(3, 7)), float(rng.choice([0.5, 2.0, 4.0]))
    matrix = rng.standard_normal((int(rng.integers(1, 8)), n)) + rng.choice([0.0, 3.0])
    if rng.random() < 0.5:
        matrix = np.tril(np.ones((n, n)))
    gram = table_gram(Explicit(matrix)).dense()
    least = optimum(matrix, epsilon).above
    claims = [best_claim(gram, epsilon, np.full(n, 1 / n)), invented(n, rng)]
    for claim in claims:
        assert claim.floor(gram, epsilon) <= least * (1 + TINY) + TINY


def test_a_fault_in_the_limit_is_caught(monkeypatch):
    """Without the sums that differ from cell to cell, some set breaks the condition."""
    rng = np.random.default_rng(3)
    claims = [invented(6, rng) for _ in range(20)]
    limit = Claim._limit
    monkeypatch.setattr(
        Claim, "_limit", lambda self, p, above, *rest: limit(self, p, 0 * above, *rest)
    )
    assert max(breach(claim, 2.0) for claim in claims) > 1e-3


def test_a_kernel_that_is_not_made_definite_is_caught(monkeypatch):
    monkeypatch.setattr(intervals, "_shortfall", lambda *_: 0.0)
    kernel = FallingKernel(0.0, np.array([0.3]), np.zeros(1), np.ones(1))
    claim = Claim(kernel, np.full(7, 1 / 7), 0.0)
    assert np.linalg.eigvalsh(claim.witness(2.0)[0])[0] < -1e-4


def test_runs_of_cells_hold_what_their_cells_do():
    asked = workload("prefix:130")
    gram, prior = (
        table_gram(asked).dense(),
        np.random.default_rng(0).dirichlet(np.ones(130)),
    )
    few, coarse, runs = merged(gram, prior)
    assert len(few) == len(coarse) <= 64
    assert abs(coarse.sum() - 1) < TINY
    assert abs(few[0, 0] - gram[runs == 0][:, runs == 0].mean()) < TINY


def test_intervals_prove_more_than_a_prior_alone():
    asked = workload("prefix:96")
    assert (
        interval_bound(asked, 4.0).variance
        > 1.5 * optimised_prior(asked, 4.0)[0].variance
    )


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e7])
def test_queries_that_tell_nobody_apart_prove_nothing(offset):
    asked = Explicit(np.full((2, 5), offset))
    gram = table_gram(asked).dense()
    assert best_claim(gram, 3.0, np.full(5, 0.2)).floor(gram, 3.0) <= TINY
