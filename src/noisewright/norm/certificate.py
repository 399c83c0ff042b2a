"""Lower bounds recomputed from dual weights by code the optimiser does not share.

A dual point (a, b) proves that no factorization of W has error below ‖D_a^½ W D_b^½‖_*. The bound
depends on nothing the solver did: it is a nuclear norm, computed here from the workload's own
operator, less a margin for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import fsum, prod, sqrt

import numpy as np

from noisewright.norm.rounding import EPSILON, inward
from noisewright.workload.atoms import Ranges
from noisewright.workload.base import FloatArray, Workload

_SMALL = 2**23  # entries of a matrix whose SVD is still quick


def nuclear_from_matrix(matrix: FloatArray) -> float:
    """A number just below the sum of singular values."""
    rows, columns = matrix.shape
    if rows > columns:  # an orthogonal factor changes no singular value
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    s = np.linalg.svd(matrix, compute_uv=False)
    margin = rows * columns * EPSILON * float(s[0])
    total: float = float(s.sum())
    return total - margin if total > margin else 0.0


def nuclear_from_gram(gram: FloatArray) -> float:
    """A number just below tr(gram^½); every eigenvalue gives up its possible rounding error."""
    values = np.linalg.eigvalsh(gram)
    margin = 2 * values.size * EPSILON * float(values[-1])
    return float(np.sqrt(np.maximum(values - margin, 0.0)).sum()) * (1 - values.size * EPSILON)


def nuclear_from_operator(workload: Workload, a: FloatArray | None, b: FloatArray) -> float:
    """A number just below ‖D_a^½ W D_b^½‖_*, from products with the workload alone."""
    root = np.sqrt(b)
    if workload.queries * workload.size <= _SMALL:
        scaled = workload.dense() * root
        return nuclear_from_matrix(scaled if a is None else np.sqrt(a)[:, None] * scaled)
    if a is None:
        gram = workload.gram().dense()
    elif isinstance(workload, Ranges):
        gram = _weighted_ranges_gram(workload.size, a)
    else:
        gram = _weighted_gram(workload, a)
    return nuclear_from_gram(root[:, None] * gram * root)


def _weighted_gram(workload: Workload, a: FloatArray) -> FloatArray:
    """Wᵀ D_a W in blocks of columns, so that W itself is never held."""
    gram = np.empty((workload.size, workload.size))
    block = max(1, _SMALL // workload.queries)
    for start in range(0, workload.size, block):
        columns = slice(start, min(start + block, workload.size))
        unit = np.zeros((workload.size, columns.stop - start))
        unit[np.arange(start, columns.stop), np.arange(columns.stop - start)] = 1.0
        gram[:, columns] = workload.rmatvec(a[:, None] * workload.matvec(unit))
    return (gram + gram.T) / 2


def _weighted_ranges_gram(size: int, a: FloatArray) -> FloatArray:
    """Wᵀ D_a W of all ranges: weights of intervals that begin at or before and end at or after."""
    begins = np.tril(np.ones((size, size)))
    table = np.zeros((size, size))
    table[np.triu_indices(size)] = a
    upper = np.triu(begins @ table @ begins)
    return upper + upper.T - np.diag(np.diagonal(upper))


def nuclear_of_prefix(a: FloatArray | None, b: FloatArray) -> float:
    """The prefix matrix's bound from the bidiagonal inverse D_b^-½ W⁻¹ D_a^-½.

    Its singular values are eigenvalues of a tridiagonal matrix with zero diagonal (Golub and
    Kahan), found to an absolute accuracy that is a relative one for the large terms of the sum.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    n = b.size
    rows = np.ones(n) if a is None else 1 / np.sqrt(a)
    off = np.empty(2 * n - 1)
    off[0::2] = rows / np.sqrt(b)
    off[1::2] = rows[:-1] / np.sqrt(b[1:])
    values = eigvalsh_tridiagonal(np.zeros(2 * n), off)[n:]
    margin = 8 * EPSILON * float(values[-1])
    return float(np.sum(1 / (values + margin))) * (1 - 2 * n * EPSILON)


def nuclear_of_marginals(
    sizes: Sequence[int], tables: Sequence[tuple[int, ...]], weights: FloatArray, a: FloatArray
) -> float:
    """A family of marginals' bound at uniform column weights and row weight a_S on each table.

    The singular values of the weighted workload are √(Σ_{S⊇T} a_S w_S²/Q_S) on the interaction of
    the attributes T, Π_{i∈T}(n_i − 1) times.
    """
    squares: dict[tuple[int, ...], float] = {}
    for table, weight, mass in zip(tables, weights.tolist(), a.tolist(), strict=True):
        share = mass * weight**2 / prod(sizes[i] for i in table)
        for length in range(len(table) + 1):
            for block in combinations(table, length):
                squares[block] = squares.get(block, 0.0) + share
    terms = (sqrt(v) * prod(sizes[i] - 1 for i in block) for block, v in squares.items())
    return inward(fsum(terms), len(tables))


def witness_bound(
    matrix: FloatArray, entrywise: float, u: FloatArray, a: FloatArray, b: FloatArray
) -> float:
    """A number just below (W•U − α‖U‖₁)/γ2*(U), with γ2*(U) ≤ ‖P^-½ U T^-½‖ for diagonal P, T.

    It bounds γ2(W, α) from below for every U, and γ̂2(W, α) for every U whose rows sum to zero.
    """
    if not u.any():
        return 0.0
    gain = float(np.sum(matrix * u) - entrywise * np.sum(np.abs(u)))
    size = float(np.sum(np.abs(matrix * u)) + entrywise * np.sum(np.abs(u)))
    root_a, root_b = np.sqrt(a / a.sum()), np.sqrt(b / b.sum())
    norm = float(np.linalg.norm(u / root_a[:, None] / root_b, 2))
    slack = 8 * sum(matrix.shape) * EPSILON
    return max(0.0, (gain - slack * size) / (norm * (1 + slack)))
