"""The search for proofs by cuts: weights are the best there are, and cuts come by their depth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from noisewright.local.bounds.cuts.block import CutBlock, Cuts, WeighedCuts
from noisewright.local.bounds.cuts.violated import violated_cuts
from noisewright.local.bounds.folding import Folding


def some_cuts(n, count, rng):
    vectors = rng.integers(-2, 3, (count, n))
    return Cuts.none(n).joined(vectors, rng.integers(-2, 2, count))


def parts(cuts, scale):
    """Every cut and every D as a matrix over (1, x), written out from its definition."""
    n = len(scale)
    wide = np.concatenate([[1.0], scale])
    matrices = []
    for b, c in zip(cuts.vectors, cuts.offsets, strict=True):
        low, high = np.concatenate([[-c], b]), np.concatenate([[-c - 1], b])
        matrices.append(
            (np.outer(low, high) + np.outer(high, low)) / 2 * np.outer(wide, wide)
        )
    squares = []
    for cell in range(1, n + 1):
        matrix = np.zeros((n + 1, n + 1))
        matrix[cell, cell], matrix[0, cell], matrix[cell, 0] = 1.0, -0.5, -0.5
        squares.append(matrix * np.outer(wide, wide))
    return np.array(matrices), np.array(squares)


def left(rest, weighed, cuts, squares):
    """‖T + D + ΣuC‖² as the search has it."""
    d = weighed.best_squares(rest + weighed.matrix)
    told = rest + weighed.matrix + np.tensordot(d, squares, 1)
    assert np.allclose(weighed.matrix, np.tensordot(weighed.cuts.weights, cuts, 1))
    return float(np.square(told).sum())


@pytest.mark.parametrize("seed", range(4))
def test_weights_and_squares_are_the_best_together(seed):
    rng = np.random.default_rng(seed)
    n, count = 5, 12
    scale = rng.uniform(0.3, 1.0, n)
    weighed = WeighedCuts(some_cuts(n, count, rng), scale)
    cuts, squares = parts(weighed.cuts, scale)
    rest = rng.standard_normal((n + 1, n + 1))
    rest = rest + rest.T
    for _ in range(4000):
        weighed.weight_steps(rest)
    # d is free: a square and its negative.
    columns = np.concatenate([cuts, squares, -squares]).reshape(count + 2 * n, -1).T
    _, least = nnls(columns, -rest.ravel(), maxiter=10_000)
    assert weighed.cuts.weights.min() >= 0
    assert (
        least**2 - 1e-9
        <= left(rest, weighed, cuts, squares)
        <= least**2 * (1 + 1e-4) + 1e-6
    )


def test_weights_stay_with_their_cuts():
    rng = np.random.default_rng(1)
    cuts = some_cuts(4, 6, rng)
    weighed = WeighedCuts(cuts, np.ones(4))
    weighed.weight_steps(-np.ones((5, 5)) + 3 * np.eye(5))
    kept = np.array([1, 4])
    fewer = (
        weighed.cuts.seen()
        .only(kept)
        .joined(np.eye(4, dtype=np.int64)[:1], np.array([0]))
    )
    assert (fewer.weights[:2] == weighed.cuts.weights[kept]).all()
    assert fewer.weights[2] == 0
    assert (fewer.idle[:2] == (weighed.cuts.weights[kept] == 0)).all()
    assert len(fewer) == 3


def test_a_copy_of_a_block_leaves_the_block_as_it_is():
    rng = np.random.default_rng(4)
    block = CutBlock(1.7, np.full(4, 0.6), Folding.none(4), np.eye(5))
    block.cut_by(some_cuts(4, 5, rng))
    block.slack_step(-np.ones((5, 5)))
    before = [block.cuts.weights.copy(), block.squares.copy(), block.excess.copy()]
    other = block.copy()
    for _ in range(5):
        other.dual_step(other.slack_step(rng.standard_normal((5, 5))))
    after = [block.cuts.weights, block.squares, block.excess]
    assert all(np.array_equal(one, two) for one, two in zip(before, after, strict=True))


def test_the_deepest_cuts_come_first_and_single_cells_never():
    n = 9
    mean = np.linspace(0.2, 0.45, n)
    covariance = 0.015 * np.eye(n)
    vectors, offsets = violated_cuts(mean, covariance, np.random.default_rng(0))
    part = vectors @ mean - offsets
    assert ((part >= 0) & (part < 1)).all()
    breach = part * (1 - part) - np.einsum("bi,ij,bj->b", vectors, covariance, vectors)
    depth = breach / (np.square(vectors).sum(axis=1) + 2)
    assert len(depth) > 10
    assert (breach > 0).all()
    assert (np.diff(depth) <= 1e-12).all()
    assert (np.abs(vectors).sum(axis=1) > 1).all()


def test_moments_of_sets_violate_nothing():
    rng = np.random.default_rng(3)
    sets = rng.random((40, 6)) < 0.4
    shares = rng.dirichlet(np.ones(40))
    mean = shares @ sets
    covariance = (sets * shares[:, None]).T @ sets - np.outer(mean, mean)
    assert not len(violated_cuts(mean, covariance, rng)[0])
