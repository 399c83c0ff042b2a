"""Strategies of every stored kind, small enough to be written out and as large as they get."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from local.strategies import SMALL, uneven_matrix
from noisewright.local.composed.coarse_fine import CoarseFine
from noisewright.local.composed.hierarchical import TreeMixture, hierarchical
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.composed.parts import Parts
from noisewright.local.composed.union import Union, union
from noisewright.local.fixedpoint import WORD
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import (
    ListedSubsets,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from noisewright.local.listed import Decoded, MatrixStrategy
from noisewright.local.transform.fourier import Fourier, fourier
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.transform.translations import Family, Translations
from noisewright.local.vector.codebook import Codebook
from noisewright.local.vector.noisy_columns import VectorStrategy
from noisewright.workload import workload


def orbits(sizes, epsilon=1.0, count=3):
    """Random patterns, one of them on the first attribute alone."""
    rng = np.random.default_rng(len(sizes))
    patterns = rng.random((count, *sizes)) < 0.4
    first = np.arange(sizes[0]) == 0
    patterns[0] = first.reshape(-1, *[1] * (len(sizes) - 1))
    flat = patterns.reshape(count, -1)
    flat[:, 0], flat[:, -1] = True, False
    return OrbitStrategy.from_patterns(sizes, flat, rng.random(count) + 0.1, epsilon)


def flat_orbits():
    """Orbits that say nothing among others, on one cell and on several, and much left over."""
    patterns = np.array([[True, True, True], [True, False, False], [False] * 3])
    return OrbitStrategy.from_patterns((3, 1), patterns, np.array([0.2, 0.3, 0.5]), 1.0)


def coarse_fine():
    coarse = MatrixStrategy.from_chances(uneven_matrix(3, 1.0), 1.0)
    parts = [coarse, orbits((9,))]
    return CoarseFine.of(parts, [Coarsening(9, 3), Coarsening(9)], [0.6, 0.4])


def parts(sizes=(3, 2, 4)):
    components = (
        RandomizedResponse(3, 1.0),
        LocalHashing(8, 0.5, 2),
        ListedSubsets(6, 1.0),
    )
    return Parts.of(
        sizes, ((0,), (1, 2), (0, 1)), components, np.array([0.3, 0.5, 0.2])
    )


KINDS = {
    **SMALL,
    "decoded": Decoded(RandomizedResponse(4, 1.0), np.array([0.1, 0.2, 0.3, 0.4])),
    "orbits": orbits((7,)),
    "orbits-binary": orbits((2, 2, 2), 0.3),
    "orbits-mixed": orbits((3, 2), 2.0),
    "orbits-flat": flat_orbits(),
    "coarse-fine": coarse_fine(),
    "parts": parts(),
    "union": union(workload("marginals:3x2x2:<=2").gram(), 1.0),
    "fourier-one": Fourier(6, 1.0, np.array([5]), (WORD,)),
}
"""With reports that can be listed."""

VECTORS = {
    "vector": VectorStrategy(np.array([[0, 3, 1], [2, -1, 0]]), 1.0),
    "vector-fine": VectorStrategy(np.array([[0, 2**20, -5], [2**19, 0, 7]]), 0.37),
    "vector-gaussian": VectorStrategy(
        np.array([[0, 300, 100], [20, -10, 0]]), 1.0, 1e-6
    ),
}


def grid_of_kinds():
    """Plain kinds over sizes and budgets."""
    for epsilon in (1e-6, 0.1, 1.0, 3.0, 20.0):
        for size in (2, 3, 5, 8):
            for kind in (RandomizedResponse, HadamardResponse, LocalHashing, SubsetSelection,
                         ListedSubsets, UnaryEncoding):  # fmt: skip
                yield f"{kind.kind}-{size}-{epsilon:g}", kind(size, epsilon)
            yield (
                f"rappor-{size}-{epsilon:g}",
                UnaryEncoding(size, epsilon, symmetric=True),
            )


@cache
def large():
    """Constant-size reports over domains where nothing may be listed."""
    big = 2**20
    many = (2,) * 50
    chances = (WORD // 4, WORD // 4, WORD // 2)
    marginals = Union(many, 1.0, ((0, 49), (3, 7, 11), (25,)), chances)
    components = (RandomizedResponse(4, 1.0), LocalHashing(8, 1.0, 2))
    rng = np.random.default_rng(5)
    pattern = (rng.random((2, big)) < 0.3, np.array([0.5, 0.5]))
    return {
        "randomized-response": RandomizedResponse(big, 1.0),
        "local-hashing": LocalHashing(big, 1.0),
        "hierarchical": hierarchical(workload(f"prefix:{big}").gram(), 1.0),
        "union": marginals,
        "parts": Parts(many, ((0, 49), (3, 7, 11)), components, (WORD // 2, WORD // 2)),
        "fourier": fourier(workload("marginals:2^60:<=1").gram(), 1.0),
        "orbits": OrbitStrategy.from_patterns((1024, 1024), *pattern, 1.0),
        "codebook": Codebook.of(
            rng.integers(-9, 9, (8, 256)), rng.integers(-9, 9, (512, 8)), 1.0, 99
        ),
    }


def whole():
    """Every kind from whole numbers alone: nothing that another machine would round otherwise."""
    unit, halves = 2**62, (WORD // 2, WORD // 2)
    low = np.array([[1, 2, 2], [2, 1, 3], [2, 3, 1]]) * (unit // 8)
    rest = unit - low.sum(axis=0)
    matrix = MatrixStrategy(np.vstack([low - 5, rest + 15]), 1.2)
    grid = np.arange(24).reshape(4, 6)
    book = np.array([[(7 * i * j + i) % 11 - 5 for j in range(7)] for i in range(3)])
    lines = np.array(
        [[(5 * i + 3 * j * j) % 13 - 6 for j in range(3)] for i in range(19)]
    )
    patterns = np.array([grid[0] % 3 == 0, grid[0] % 5 == 1])
    fine = Family((1,), Translations((6,)), patterns, (2**61 + 7, 2**60), 1.0)
    both = Family(
        (0, 1), Translations((4, 6)), (grid % 7 < 3).reshape(1, -1), (2**62 - 1,), 1.0
    )
    cycle = OrbitStrategy(
        (6,), (Family((0,), fine.group, patterns, (WORD - 5, 5), 1.0),), 1.0
    )
    masks = np.array([1, 3, 6, 40], dtype=np.int64)
    responses = (RandomizedResponse(12, 1.0), RandomizedResponse(4, 1.0))
    coarsenings = (Coarsening(12), Coarsening(12, 3))
    table = Coarsening(5, table=np.array([0, 2, 1, 1, 2]))
    return {
        "matrix": matrix,
        "orbits": OrbitStrategy((4, 6), (fine, both), 1.0),
        "orbits-flat": flat_orbits(),
        "coarse-fine": CoarseFine((matrix, cycle), (Coarsening(6, 2), Coarsening(6)), halves),
        "codebook": Codebook.of(book, lines, 0.8),
        "codebook-nearest": Codebook.of(book, lines, 2.0, 5),
        "fourier": Fourier(60, 1.5, masks, (WORD - 6, 1, 2, 3)),
        "fourier-one": KINDS["fourier-one"],
        "fourier-wide": Fourier(2**60, 1.0, masks << 54, (WORD // 4,) * 4),
        "tree-mixture": TreeMixture(responses, coarsenings, halves),
        "mixture": Mixture((responses[1], SMALL["local-hashing"]),
                           (Coarsening(7, 2), Coarsening(7)), (WORD - 5, 5)),
        "mixture-table": Mixture((matrix,), (table,), (WORD,)),
        "parts": parts(),
        "union": Union((3, 2, 2), 1.0, ((0, 1), (2,), (1, 2)), (WORD // 2, WORD // 4, WORD // 4)),
        "decoded": KINDS["decoded"],
        "vector": VECTORS["vector"],
        "vector-fine": VECTORS["vector-fine"],
        **{f"large-{name}": large()[name] for name in ("randomized-response",
           "local-hashing", "union", "parts")},
        **{name: KINDS[name] for name in ("randomized-response", "randomized-response-2",
           "subset-selection", "subset-selection-3", "subset-selection-2", "listed-subsets",
           "rappor", "unary", "hadamard", "hadamard-4", "hadamard-one-block", "hadamard-wide",
           "local-hashing", "local-hashing-2", "local-hashing-5", "local-hashing-7")},
    }  # fmt: skip


class Stream:
    """Bytes that anybody can recompute: some given ones, then SHA-256 of a name and a counter."""

    def __init__(self, name, first=b""):
        self.name, self.left, self.read, self.block = name, first, bytearray(), 0

    def bytes(self, count):
        while len(self.left) < count:
            self.left += hashlib.sha256(f"{self.name}/{self.block}".encode()).digest()
            self.block += 1
        taken, self.left = self.left[:count], self.left[count:]
        self.read += taken
        return taken
