"""Every strategy at sizes small enough to be written out, for the tests to share."""

from __future__ import annotations

import itertools

import numpy as np

from noisewright.local.composed.coarse_fine import CoarseFine
from noisewright.local.composed.hierarchical import TreeMixture, hierarchical
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.composed.parts import Parts
from noisewright.local.composed.union import union
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import (
    ListedSubsets,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from noisewright.local.listed import Decoded, MatrixStrategy
from noisewright.local.transform.fourier import fourier
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.vector.codebook import one_bit, privunit
from noisewright.local.vector.noisy_columns import matrix_l1, matrix_l2
from noisewright.workload import Identity, Prefix, Stack, Weighted, kron, workload
from noisewright.workload.kinds.marginals import OnAttributes


def uneven_matrix(n, epsilon):
    rng = np.random.default_rng(n)
    q = rng.uniform(1.0, np.exp(epsilon / 2), size=(3 * n, n))
    q[0, :2] = 1.0, np.exp(epsilon)  # one report spends all of ε
    q /= q.sum(axis=0).max() * 1.4
    return np.vstack([q, 1.0 - q.sum(axis=0)])


def uneven_mixture(epsilon=1.0):
    """A matrix on a table of coarse cells, and randomized response on ragged blocks and cells."""
    table = np.array([0, 1, 1, 2, 0, 4, 3])
    coarsenings = [Coarsening(7, table=table), Coarsening(7, 3), Coarsening(7)]
    matrix = MatrixStrategy.from_chances(uneven_matrix(5, epsilon), epsilon)
    components = [matrix, RandomizedResponse(3, epsilon), LocalHashing(7, epsilon)]
    return Mixture.of(components, coarsenings, [0.2, 0.3, 0.5])


def small_tree(epsilon=1.0):
    """Even blocks of 1, 2 and 4 cells out of 12, as for domains too large for matrices."""
    oracles = [
        LocalHashing(12, epsilon, 2),
        RandomizedResponse(6, epsilon),
        RandomizedResponse(3, epsilon),
    ]
    mixture = Mixture.of(
        oracles, [Coarsening(12, w) for w in (1, 2, 4)], [0.5, 0.2, 0.3]
    )
    return TreeMixture(mixture.components, mixture.coarsenings, mixture.weights)


def some_orbits(epsilon):
    """Two patterns over three bits, one of them over two of these alone."""
    patterns = np.zeros((2, 2, 2, 2), dtype=bool)
    patterns[0, 0, :, 0] = patterns[0, 1, 1, 1] = patterns[1, 0, 0] = True
    shares = np.array([0.6, 0.4])
    return OrbitStrategy.from_patterns(
        (2, 2, 2), patterns.reshape(2, 8), shares, epsilon
    )


def coarse_and_fine(epsilon):
    """Bins of three cells, and an orbit on a cycle of twelve."""
    coarse = MatrixStrategy.from_chances(uneven_matrix(4, epsilon), epsilon)
    pattern = np.isin(np.arange(12), [0, 1, 3])[None]
    fine = OrbitStrategy.from_patterns((12,), pattern, np.ones(1), epsilon)
    return CoarseFine.of(
        [coarse, fine], [Coarsening(12, 3), Coarsening(12)], [0.6, 0.4]
    )


TABLE_SIZES = (3, 2, 2)


def two_parts(epsilon):
    """A table of one attribute, and one of the two others."""
    components = (RandomizedResponse(3, epsilon), HadamardResponse(4, epsilon))
    return Parts.of(TABLE_SIZES, ((0,), (1, 2)), components, np.array([0.3, 0.7]))


def two_tables():
    """What two parts answer."""
    return Stack(
        (
            Weighted(2.0, OnAttributes(TABLE_SIZES, (0,), Prefix(3))),
            OnAttributes(TABLE_SIZES, (1, 2), kron([Identity(2), Prefix(2)])),
        )
    )


TABLES = ("marginals:3x2x2:2", "marginals:3x2x2:<=2")

ORDERED = ("identity", "prefix", "ranges", "total")

KINDS = {
    "matrix": (lambda e: MatrixStrategy.from_chances(uneven_matrix(6, e), e), ORDERED),
    "matrix-prior": (
        lambda e: MatrixStrategy.from_chances(
            uneven_matrix(5, e), e, np.array([0.1, 0.2, 0.2, 0.1, 0.4])
        ),
        ORDERED,
    ),
    "randomized-response": (lambda e: RandomizedResponse(6, e), ORDERED),
    "subset-selection": (lambda e: SubsetSelection(6, e, 2), ORDERED),
    "listed-subsets": (lambda e: ListedSubsets(7, e), ORDERED),
    "unary": (lambda e: UnaryEncoding(5, e), ORDERED),
    "rappor": (lambda e: UnaryEncoding(5, e, symmetric=True), ORDERED),
    "hadamard": (lambda e: HadamardResponse(7, e), ORDERED),
    "local-hashing": (lambda e: LocalHashing(6, e), ORDERED),
    "local-hashing-5": (lambda e: LocalHashing(6, e, 5), ORDERED),
    "fourier": (lambda e: fourier(workload("prefix:8").gram(), e), ORDERED),
    "fourier-ragged": (lambda e: fourier(workload("ranges:6").gram(), e), ORDERED),
    "fourier-marginals": (
        lambda e: fourier(workload("marginals:2^3:2").gram(), e),
        ("marginals:2^3:2", "marginals:2^3:1"),
    ),
    "vector": (lambda e: matrix_l1(workload("prefix:6"), e), ORDERED),
    "vector-gaussian": (lambda e: matrix_l2(workload("prefix:6"), e, 1e-4), ORDERED),
    "codebook": (lambda e: one_bit(workload("prefix:5"), e), ORDERED),
    "codebook-chosen": (lambda e: privunit(workload("ranges:5"), e), ORDERED),
    "union": (lambda e: union(workload(TABLES[0]).gram(), e), TABLES),
    "parts": (two_parts, (two_tables(),)),
    "tree-mixture": (small_tree, ORDERED),
    "mixture": (uneven_mixture, ORDERED),
    "hierarchical": (
        lambda e: hierarchical(workload("prefix:9").gram(), e, branching=3),
        ORDERED,
    ),
    "hierarchical-ragged": (
        lambda e: hierarchical(workload("ranges:7").gram(), e, branching=2),
        ORDERED,
    ),
    "decoded": (
        lambda e: Decoded(RandomizedResponse(4, e), np.array([0.4, 0.3, 0.2, 0.1])),
        ORDERED,
    ),
    "decoded-mixture": (
        lambda e: Decoded(
            uneven_mixture(e), np.array([0.3, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1])
        ),
        ORDERED,
    ),
    "orbits": (some_orbits, (*ORDERED, "allmarginals:2^3")),
    "coarse-fine": (coarse_and_fine, ORDERED),
}
"""Every stored kind at some budget, and what it answers (a name alone: over all its cells)."""


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
        bits = np.array(
            [[u in members for u in range(strategy.size)] for members in sets]
        )
        return np.packbits(bits, axis=1)
    if isinstance(strategy, UnaryEncoding):
        shifts = np.arange(strategy.size - 1, -1, -1)
        bits = (np.arange(strategy.outputs)[:, None] >> shifts) & 1
        return np.packbits(bits.astype(bool), axis=1)
    return np.arange(strategy.outputs)


def scores(strategy):
    """The score of every report, one at a time."""
    reports = listed_reports(strategy)
    return np.array(
        [
            strategy.score(strategy.collector.tally(reports[i : i + 1]), 1)
            for i in range(strategy.outputs)
        ]
    )
