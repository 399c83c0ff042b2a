"""Every strategy at sizes small enough to be written out, for the tests to share."""

from __future__ import annotations

import itertools

import numpy as np

from noisewright.local.codebook import one_bit, privunit
from noisewright.local.dense import MatrixStrategy
from noisewright.local.fourier import fourier
from noisewright.local.hadamard import HadamardResponse
from noisewright.local.hashing import LocalHashing
from noisewright.local.hierarchical import TreeMixture, hierarchical
from noisewright.local.mixture import Coarsening, Mixture
from noisewright.local.response import RandomizedResponse
from noisewright.local.sets import ListedSubsets, SetStrategy, SubsetSelection
from noisewright.local.unary import UnaryEncoding
from noisewright.workload import workload


class SeededSource:
    """Reproducible bytes, for tests only."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def bytes(self, count):
        return self.generator.bytes(count)


def uneven_matrix(n, epsilon):
    rng = np.random.default_rng(n)
    q = rng.uniform(1.0, np.exp(epsilon / 2), size=(3 * n, n))
    q /= q.sum(axis=0).max() * 1.4
    return np.vstack([q, 1.0 - q.sum(axis=0)])


def uneven_mixture():
    """A matrix on a table of coarse cells, and randomized response on ragged blocks and cells."""
    table = np.array([0, 1, 1, 2, 0, 4, 3])
    coarsenings = [Coarsening(7, table=table), Coarsening(7, 3), Coarsening(7)]
    matrix = MatrixStrategy.from_chances(uneven_matrix(5, 1.0), 1.0)
    components = [matrix, RandomizedResponse(3, 1.0), LocalHashing(7, 1.0)]
    return Mixture.of(components, coarsenings, [0.2, 0.3, 0.5])


def small_tree():
    """Even blocks of 1, 2 and 4 cells out of 12, as for domains too large for matrices."""
    oracles = [LocalHashing(12, 1.0, 2), RandomizedResponse(6, 1.0), RandomizedResponse(3, 1.0)]
    mixture = Mixture.of(oracles, [Coarsening(12, w) for w in (1, 2, 4)], [0.5, 0.2, 0.3])
    return TreeMixture(mixture.components, mixture.coarsenings, mixture.weights)


SMALL = {
    "matrix": MatrixStrategy.from_chances(uneven_matrix(6, 1.0), 1.0),
    "matrix-prior": MatrixStrategy.from_chances(
        uneven_matrix(5, 2.0), 2.0, np.array([0.1, 0.2, 0.2, 0.1, 0.4])
    ),
    "randomized-response": RandomizedResponse(7, 1.0),
    "randomized-response-2": RandomizedResponse(2, 0.1),
    "subset-selection": SubsetSelection(7, 1.0),
    "subset-selection-3": SubsetSelection(6, 0.3, 3),
    "subset-selection-2": SubsetSelection(2, 1.0),
    "listed-subsets": ListedSubsets(8, 1.0),
    "rappor": UnaryEncoding(6, 1.0, symmetric=True),
    "unary": UnaryEncoding(6, 2.0),
    "hadamard": HadamardResponse(6, 0.5),
    "hadamard-2": HadamardResponse(7, 1.0),
    "hadamard-4": HadamardResponse(6, 2.0),
    "hadamard-one-block": HadamardResponse(6, 2.0, parts=1),
    "hadamard-wide": HadamardResponse(3, 9.0),
    "hadamard-full": HadamardResponse(14, 1.5),
    "fourier": fourier(workload("prefix:8").gram(), 1.0),
    "fourier-ragged": fourier(workload("ranges:6").gram(), 0.7),
    "fourier-marginals": fourier(workload("allmarginals:2^3").gram(), 2.0),
    "hierarchical": hierarchical(workload("prefix:9").gram(), 1.0, branching=3),
    "hierarchical-ragged": hierarchical(workload("ranges:7").gram(), 2.0),
    "tree": small_tree(),
    "mixture": uneven_mixture(),
    "one-bit": one_bit(workload("prefix:6"), 1.0),
    "privunit": privunit(workload("ranges:5"), 2.0),
    "local-hashing": LocalHashing(7, 1.0),
    "local-hashing-2": LocalHashing(6, 0.5, 2),
    "local-hashing-5": LocalHashing(8, 2.0, 5),
    "local-hashing-7": LocalHashing(6, 3.0, 7),
}


def listed_reports(strategy):
    """One report per row of the dense matrix, in its order."""
    if isinstance(strategy, SubsetSelection):
        sets = itertools.combinations(range(strategy.size), strategy.chosen)
        bits = np.array([[u in members for u in range(strategy.size)] for members in sets])
        return np.packbits(bits, axis=1)
    if isinstance(strategy, SetStrategy):
        shifts = np.arange(strategy.size - 1, -1, -1)
        bits = (np.arange(strategy.outputs)[:, None] >> shifts) & 1
        return np.packbits(bits.astype(bool), axis=1)
    return np.arange(strategy.outputs)


def scores(strategy):
    """The score of every report, one at a time."""
    reports = listed_reports(strategy)
    return np.array(
        [strategy.score(strategy.tally(reports[i : i + 1]), 1) for i in range(strategy.outputs)]
    )
