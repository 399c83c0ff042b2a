"""Lower bounds recomputed from dual weights by code the optimiser does not share.

A dual point (a, b) proves that no factorization of W has error below ‖D_a^½ W D_b^½‖_*. The bound
depends on nothing the solver did: it is a nuclear norm, computed here from the workload's own
operator, less a margin for rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import fsum, prod, sqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import Contradiction
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Ranges

EPSILON = float(np.finfo(np.float64).eps)
QUICK_ENTRIES = 2**23  # entries of a matrix whose SVD is still quick
_FEW_PAIRS = (
    2**18
)  # entries of all differences of columns up to which they are written out


def outward(value: float, terms: int) -> float:
    """Rounded up by the error that a computation over `terms` terms can have made."""
    return float(value) * (1 + 4 * (terms + 4) * EPSILON)


def inward(value: float, terms: int) -> float:
    """Rounded down by the error that a computation over `terms` terms can have made."""
    return float(value) * (1 - 4 * (terms + 4) * EPSILON)


def nuclear_from_matrix(matrix: FloatArray, a: FloatArray | None = None) -> float:
    """A number just below the sum of singular values, of D_a^½ times the matrix if a is given."""
    rows, columns = matrix.shape
    matrix = weighted_rows(matrix, a)
    if rows > columns:  # an orthogonal factor changes no singular value
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))

    s = np.linalg.svd(matrix, compute_uv=False)
    margin = rows * columns * EPSILON * float(s[0])
    total: float = float(s.sum())

    return total - margin if total > margin else 0.0


def weighted_rows(matrix: FloatArray, a: FloatArray | None) -> FloatArray:
    """D_a^½ times a matrix; all weights are one where none are given."""
    return matrix if a is None else np.sqrt(a)[:, None] * matrix


def nuclear_from_gram(gram: FloatArray) -> float:
    """A number just below tr(gram^½); every eigenvalue gives up its possible rounding error."""
    values = np.linalg.eigvalsh(gram)
    margin = 2 * values.size * EPSILON * float(values[-1])
    roots = np.sqrt(np.maximum(values - margin, 0.0))
    return float(roots.sum()) * (1 - values.size * EPSILON)


def nuclear_from_operator(
    workload: Workload, a: FloatArray | None, b: FloatArray
) -> float:
    """A number just below ‖D_a^½ W D_b^½‖_*, from products with the workload alone."""
    root = np.sqrt(b)
    if workload.queries * workload.size <= QUICK_ENTRIES:
        return nuclear_from_matrix(workload.dense() * root, a)

    gram = _weighted_gram(workload, a)
    return nuclear_from_gram(root[:, None] * gram * root)


def nuclear_of_pairs(
    workload: Workload, a: FloatArray | None, pairs: FloatArray
) -> float:
    """A number just below ‖D_a^½ W L^½‖_*, L the Laplacian of weights on pairs of cells.

    Where all pairs fit, it is the nuclear norm of the weighted differences of columns as they are.
    Otherwise, with the last cell as origin, L = E·L₀·Eᵀ and L₀ = C·Cᵀ, so the same singular values
    belong to the columns less the last column, times C.
    """
    n = workload.size
    shares = pairs / pairs.sum()
    first, second = np.triu_indices(n, 1)
    if workload.queries * pairs.size <= _FEW_PAIRS:
        w = workload.dense()
        return nuclear_from_matrix((w[:, first] - w[:, second]) * np.sqrt(shares), a)

    edges = np.zeros((n, n))
    edges[first, second] = shares
    edges += edges.T
    grounded = np.diag(edges.sum(axis=1)) - edges
    c = np.linalg.cholesky(grounded[:-1, :-1])
    if workload.queries * n <= QUICK_ENTRIES:
        w = workload.dense()
        from_last = w[:, :-1] - w[:, -1:]
        whole = nuclear_from_matrix(from_last @ c, a)
        # Products round by the sizes of what is added up, which may cancel.
        sizes = weighted_rows(np.abs(from_last) @ np.abs(c), a)
        return max(0.0, whole - sqrt(n) * n * EPSILON * float(np.linalg.norm(sizes)))

    gram = _weighted_gram(workload, a)
    shifted = gram[:-1, :-1] - gram[:-1, -1:] - gram[-1:, :-1] + gram[-1, -1]
    return nuclear_from_gram(c.T @ shifted @ c)


def _weighted_gram(workload: Workload, a: FloatArray | None) -> FloatArray:
    """Wᵀ D_a W in blocks of columns, so that W itself is never held."""
    if a is None:
        return workload.gram().dense()
    if isinstance(workload, Ranges):
        return _weighted_ranges_gram(workload.size, a)

    size = workload.size
    gram = np.empty((size, size))
    block = max(1, QUICK_ENTRIES // workload.queries)
    for start in range(0, size, block):
        columns = np.arange(start, min(start + block, size))
        unit = np.zeros((size, columns.size))
        unit[columns, columns - start] = 1.0
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
    """The prefix matrix's bound from the bidiagonal inverse D_b^-½ W⁻¹ D_a^-½."""
    rows = np.ones(b.size) if a is None else 1 / np.sqrt(a)

    off = np.empty(2 * b.size - 1)
    off[0::2] = rows / np.sqrt(b)
    off[1::2] = rows[:-1] / np.sqrt(b[1:])
    return _sum_of_inverses(off, b.size)


def nuclear_of_ranges(a: FloatArray | None, b: FloatArray) -> float:
    """The bound of all ranges at norm 2: M⁻¹ = BᵀB/(n + 1), B the n + 1 differences of neighbours.

    Each cell stands between two of these differences.
    """
    assert a is None
    off = np.repeat(1 / np.sqrt(b * (b.size + 1)), 2)
    return _sum_of_inverses(off, b.size)


def _sum_of_inverses(off_diagonal: FloatArray, count: int) -> float:
    """A number just below Σ 1/σ over the singular values σ of a bidiagonal matrix.

    They are eigenvalues of a tridiagonal matrix with zero diagonal and the entries of the
    bidiagonal one beside it (Golub and Kahan), found to an absolute accuracy that is a relative one
    for the large terms of the sum.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    diagonal = np.zeros(off_diagonal.size + 1)
    # The eigenvalues are ±σ, in ascending order.
    singular = eigvalsh_tridiagonal(diagonal, off_diagonal)[-count:]
    margin = 8 * sqrt(count) * EPSILON * float(singular[-1])

    return float(np.sum(1 / (singular + margin))) * (1 - 2 * count * EPSILON)


def nuclear_of_marginals(
    sizes: Sequence[int],
    tables: Sequence[tuple[int, ...]],
    weights: FloatArray,
    a: FloatArray,
    pairs: Mapping[tuple[int, ...], float] | None = None,
) -> float:
    """A family of marginals' bound at row weight a_S on each table.

    At uniform column weights the singular values of the weighted workload are
    √(Σ_{S⊇T} a_S w_S²/Q_S) on the interaction of the attributes T, Π_{i∈T}(n_i − 1) times. Weights
    on pairs of cells that differ in the attributes D multiply their squares by
    Σ_D β_D·2(1 − Π_{i∈T∩D} −1/(n_i − 1)); the empty D stands for all pairs alike.
    """
    squares: dict[tuple[int, ...], float] = {}
    for table, weight, mass in zip(tables, weights.tolist(), a.tolist(), strict=True):
        share = mass * weight**2 / prod(sizes[i] for i in table)
        for length in range(len(table) + 1):
            for block in combinations(table, length):
                squares[block] = squares.get(block, 0.0) + share

    terms = []
    for block, square in squares.items():
        times = prod(sizes[i] - 1 for i in block)
        if not times:
            continue
        if pairs is not None:
            square *= _pair_change(sizes, squares, block, pairs)
        terms.append(sqrt(square) * times)

    return inward(fsum(terms), len(tables) + len(pairs or ()))


def _pair_change(
    sizes: Sequence[int],
    blocks: Iterable[tuple[int, ...]],
    block: tuple[int, ...],
    pairs: Mapping[tuple[int, ...], float],
) -> float:
    """Σ_D β_D times the squared distance, within a block, of two cells that differ in D."""
    if not block:
        return 0.0

    if set(pairs) == {()}:
        used = {i for other in blocks for i in other}
        return 2 / (1 - prod(1 / sizes[i] for i in used))

    total = fsum(pairs.values())
    shares = (
        beta * (1 - prod(-1 / (sizes[i] - 1) for i in block if i in changed))
        for changed, beta in pairs.items()
    )
    return 2 * fsum(shares) / total


def witness_bound(
    matrix: FloatArray,
    entrywise: float,
    u: FloatArray,
    a: FloatArray,
    b: FloatArray,
    shift: bool = False,
) -> float:
    """A number just below (W•U − α‖U‖₁)/γ2*(U), with γ2*(U) ≤ ‖P^-½ U T^-½‖ for diagonal P, T.

    It bounds γ2(W, α) from below for every U. With a free `shift` of rows it bounds γ̂2(W, α) for
    every U whose rows sum to zero, and to nothing else: a rest would be multiplied by shifts of any
    size. `fsum` is exact, so is the test; W may then be taken from the middle of its rows.
    """
    if shift:
        matrix = matrix - row_middles(matrix)[:, None]
    return box_bound(matrix - entrywise, matrix + entrywise, u, a, b, shift)


def box_bound(
    lower: FloatArray,
    upper: FloatArray,
    u: FloatArray,
    a: FloatArray,
    b: FloatArray,
    shift: bool = False,
) -> float:
    """A number just below (Σ lower·U⁺ − upper·U⁻)/γ2*(U): no matrix between the limits has less γ2.

    Every Z between them has Z•U at least as large, and Z•U ≤ γ2(Z)·γ2*(U). Where a limit is
    infinite, U must not lean on it. Shifts are as in `witness_bound`; limits are then taken from
    the middle of their rows.
    """
    if not u.any():
        return 0.0
    if shift:
        if any(fsum(row) != 0 for row in u.tolist()):
            raise Contradiction("rows of a witness for free shifts must sum to zero")
        middles = _middles_of_limits(lower, upper)
        lower = lower - middles[:, None]
        upper = upper - middles[:, None]

    leant = np.where(u > 0, lower, np.where(u < 0, upper, 0.0))
    if not np.isfinite(leant).all():
        raise Contradiction("a witness must not lean on a limit that is infinite")

    gain = float(np.sum(leant * u))
    # Limits may be differences of larger numbers: the other limit is then as large as these.
    larger = np.maximum(abs(lower), abs(upper))
    widest = np.where(np.isfinite(upper - lower), larger, abs(leant))
    size = float(np.sum(widest * np.abs(u)))

    root_a = np.sqrt(a / a.sum())
    root_b = np.sqrt(b / b.sum())
    norm = float(np.linalg.norm(u / root_a[:, None] / root_b, 2))
    slack = 8 * sum(u.shape) * EPSILON

    return max(0.0, (gain - slack * size) / (norm * (1 + slack)))


def _middles_of_limits(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Halfway between the least and the largest finite limit of every row, zero without any."""
    ends = np.stack([lower, upper])
    others = np.nan_to_num(ends[::-1], posinf=0, neginf=0)
    finite = np.where(np.isfinite(ends), ends, others)
    return np.asarray(finite.max(axis=(0, 2)) / 2 + finite.min(axis=(0, 2)) / 2)


def row_middles(matrix: FloatArray) -> FloatArray:
    """Halfway between the least and the largest entry of every row."""
    least = matrix.min(axis=1)
    largest = matrix.max(axis=1)
    return np.asarray(largest / 2 + least / 2)
