"""The competitors of [003] as that paper has them: plain matrices of chances.

Ours under the same names are improved (several Hadamard blocks, weights of levels and characters
that suit the workload) and would change the order of the curves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from math import ceil, exp, log2

import numpy as np
from scipy.linalg import hadamard as hadamard_matrix

from noisewright.arrays import FloatArray
from noisewright.errors import require

ALPHA = 0.01
_BRANCHING = 4
_RANK_TOLERANCE = 1e-10


def randomized_response(size: int, epsilon: float) -> FloatArray:
    """Every other value equally likely."""
    chances = np.ones((size, size)) + (exp(epsilon) - 1) * np.eye(size)
    return np.asarray(chances / chances.sum(axis=0))


def hadamard(size: int, epsilon: float) -> FloatArray:
    """One block of 2^⌈log2(n+1)⌉ reports, half of them likelier for each value."""
    reports = 2 ** ceil(log2(size + 1))
    signs = hadamard_matrix(reports)[1 : size + 1].T
    chances = np.where(signs > 0, exp(epsilon), 1.0)
    return np.asarray(chances / chances.sum(axis=0))


def hierarchical(size: int, epsilon: float) -> FloatArray:
    """A level of a tree of branching 4, each as likely, and its group by a Hadamard block."""
    levels = []
    width = 1
    while True:
        groups = ceil(size / width)
        if groups < 2:
            break
        members = np.arange(size) // width
        levels.append(hadamard(groups, epsilon)[:, members])
        width *= _BRANCHING

    return np.vstack(levels) / len(levels)


def fourier(size: int, epsilon: float, degree: int) -> FloatArray:
    """A character up to a degree, each as likely, the constant one too, and its sign flipped."""
    bits = size.bit_length() - 1
    require(2**bits == size, "size", size, "must be a power of two for characters")

    cells = np.arange(size)
    subsets = [
        s for order in range(degree + 1) for s in combinations(range(bits), order)
    ]
    masks = [sum(1 << bit for bit in subset) for subset in subsets]
    likely = exp(epsilon) / (1 + exp(epsilon))
    rows = []

    for mask in masks:
        odd = np.array([bin(cell & mask).count("1") % 2 for cell in cells.tolist()])
        first = np.where(odd == 0, likely, 1 - likely)
        rows += [first, 1 - first]

    return np.array(rows) / len(masks)


PAPER: Mapping[str, Callable[[int, float], FloatArray]] = {
    "randomized-response (paper)": randomized_response,
    "hadamard (paper)": hadamard,
    "hierarchical (paper)": hierarchical,
}


def people_needed(
    chances: FloatArray,
    gram: FloatArray,
    queries: int,
    people: FloatArray | None = None,
) -> float:
    """People for a normalised variance of 0.01, by the reconstruction of [003, Theorem 3.10].

    On the worst data, or on those whose shares of people are given.
    """
    variances = type_variances(chances, gram)
    spread = variances.max() if people is None else float(people @ variances)
    return float(spread) / (queries * ALPHA)


def type_variances(chances: FloatArray, gram: FloatArray) -> FloatArray:
    """The variance that one person of each type adds to all answers together."""
    overall = chances.mean(axis=1)
    scores = chances / overall[:, None]
    information = scores.T @ chances
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    kept = values > _RANK_TOLERANCE * values.max()
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    missed = gram - gram @ inverse @ information
    require(
        np.abs(missed).max() <= 1e-6 * np.abs(gram).max(),
        "strategy",
        chances.shape,
        "cannot answer the workload",
    )

    quadratic = inverse @ gram @ inverse
    energies = np.einsum("ou,uv,ov->o", scores, quadratic, scores, optimize=True)
    return np.asarray(energies @ chances - np.diagonal(gram))


def singular_bound(gram: FloatArray, epsilon: float, queries: int) -> float:
    """The people that [003, Corollary 5.7] shows to be needed; at least none."""
    size = len(gram)
    nuclear = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None)).sum()
    variance = (nuclear**2 / exp(epsilon) - np.trace(gram)) / size
    return float(max(0.0, variance) / (queries * ALPHA))
