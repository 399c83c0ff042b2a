"""A lower bound from even cell weights, where the Gram matrices of every attribute commute.

With b uniform, D_b^½ M D_b^½ is M over the number of cells, and a sum of products of commuting
matrices has the sums of products of their eigenvalues as its own. Counts, cumulative counts and
ranges commute with counts; none but counts commute with totals. Terms that do not fit are left out:
asking less is never harder.
"""

from __future__ import annotations

from math import prod

import numpy as np

from noisewright.central.gaussian.product_families import Family
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term
from noisewright.workload.tensor import column_kron

LARGEST_GRID = 2**22
"""Products of eigenvalues that are all visited."""

_COMMUTE = 1e-12


def commuting_bound(family: Family, public_total: bool = False) -> float:
    """Nuclear norm of the largest terms that commute, at even cell weights; zero if too large.

    With a public total, even weights on all pairs of cells: the direction of the total drops out,
    which takes no more than its own length, and what is left counts √2 times or more.
    """
    used = sorted({i for block in family.blocks for i in block})
    if prod(family.sizes[i] for i in used) > LARGEST_GRID:
        return 0.0
    hardest = sorted(family.terms, key=lambda t: -(t.weight**2) * t.inner.gram().trace())
    chosen: list[Term] = []
    known: dict[int, list[FloatArray]] = {i: [] for i in used}
    for term in hardest:
        asked = {i: _scaled_gram(term, i, family.sizes[i]) for i in used}
        if all(_commutes(gram, known[i]) for i, gram in asked.items()):
            chosen.append(term)
            for i, gram in asked.items():
                known[i].append(gram)
    found = _nuclear(chosen, known, used)
    return float(np.sqrt(2)) * (found - _total_length(chosen)) if public_total else found


def _total_length(chosen: list[Term]) -> float:
    """Length of the answers on an even histogram of one person."""
    squares = 0.0
    for term in chosen:
        parts = [float(f.gram().dense().sum()) / f.size**2 for f in term.factors or ()]
        squares += term.weight**2 * prod(parts)
    return float(np.sqrt(squares))


def _nuclear(chosen: list[Term], known: dict[int, list[FloatArray]], used: list[int]) -> float:
    bases = {i: _common_eigenvectors(known[i]) for i in used}
    total = np.zeros(prod(len(basis) for basis in bases.values()))
    for number, term in enumerate(chosen):
        parts = [
            np.maximum(np.einsum("ie,ie->e", bases[i], known[i][number] @ bases[i]), 0.0)
            for i in used
        ]
        total += term.weight**2 * column_kron(parts)
    return float(np.sqrt(total).sum())


def _scaled_gram(term: Term, attribute: int, size: int) -> FloatArray:
    """The Gram matrix of one attribute under even cell weights."""
    if term.factors is None or attribute not in term.attributes:
        return np.full((size, size), 1.0 / size)
    return term.factors[term.attributes.index(attribute)].gram().dense() / size


def _commutes(gram: FloatArray, others: list[FloatArray]) -> bool:
    for other in others:
        product = gram @ other
        if np.abs(product - product.T).max() > _COMMUTE * np.abs(product).max():
            return False
    return True


def _common_eigenvectors(grams: list[FloatArray]) -> FloatArray:
    """Eigenvectors of a mixture in which no two matrices cancel."""
    mixture = sum((1 + 0.61803 * k) * gram / np.trace(gram) for k, gram in enumerate(grams))
    return np.asarray(np.linalg.eigh(mixture).eigenvectors, dtype=np.float64)
