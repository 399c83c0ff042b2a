"""Cells swapped in pairs: what a search saves by it changes no matrix and no eigenvalue."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.folding import Folding, folding_of
from noisewright.workload import workload


def invariant(folding, count, seed=0):
    n = 2 * folding.pairs + folding.alone
    draws = np.random.default_rng(seed).standard_normal((count, n, n))
    return np.array([folding.averaged(one + one.T) for one in draws])


FOLDINGS = [Folding(3, 2), Folding(4, 0), Folding.none(5)]


@pytest.mark.parametrize("folding", FOLDINGS, ids=str)
def test_halves_hold_the_whole_matrix_and_its_eigenvalues(folding):
    stack = invariant(folding, 4)
    halves = folding.halves(stack)
    assert np.allclose(folding.whole(halves), stack)
    values = np.concatenate([np.linalg.eigvalsh(half) for half in halves], axis=1)
    assert np.allclose(np.sort(values), np.linalg.eigvalsh(stack))
    assert np.allclose(folding.largest(stack), np.linalg.eigvalsh(stack)[:, -1])


@pytest.mark.parametrize("folding", FOLDINGS, ids=str)
def test_the_negative_part_is_what_a_matrix_lacks(folding):
    stack = invariant(folding, 3)
    negative = folding.negative_part(stack)
    assert np.linalg.eigvalsh(stack + negative).min() > -1e-9
    assert np.abs(np.einsum("kij,kji->k", stack + negative, negative)).max() < 1e-9


@pytest.mark.parametrize("folding", FOLDINGS, ids=str)
def test_factors_within_the_halves_make_the_whole(folding):
    matrix = invariant(folding, 1)[0]
    matrix = matrix @ matrix
    factors = tuple(np.linalg.cholesky(half) for half in folding.halves(matrix))
    factor = folding.spread(factors)
    assert np.allclose(factor @ factor.T, matrix)


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("prefix:8", 0),
        ("prefix:9", 1),
        ("prefix:4*prefix:4", 4),
        ("prefix:3*identity:4", 0),
    ],
)
def test_symmetries_of_a_workload_are_seen(text, alone):
    gram = table_gram(workload(text)).dense()
    order, folding = folding_of(gram)
    assert (folding.alone, sorted(order)) == (alone, list(range(len(gram))))
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    ordered = centred[np.ix_(order, order)]
    assert np.allclose(folding.averaged(ordered), ordered)


@pytest.mark.parametrize("text", ["prefix:3*prefix:5", "random:5x12:1"])
def test_a_reflection_that_is_no_symmetry_is_not_taken(text):
    assert folding_of(table_gram(workload(text)).dense())[1].pairs == 0
