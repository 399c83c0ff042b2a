"""Explicit matrices, reduced before they are solved: exact steps that change no optimum.

Zero rows and columns are set aside, unconnected blocks are solved apart, each block is scaled to
entries of order one, and parallel rows or columns are merged. A row c·w beside w has c times its
error at every strategy, so rows c_k·w count as one row (Σ|c_k|^p)^{1/p}·w; of parallel columns only
the longest binds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray, IndexArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.norm.exact.symmetric import solve_spectrum
from noisewright.norm.kernel.certificate import inward, outward
from noisewright.norm.kernel.factorization import (
    DualWeights,
    Part,
    Settings,
    dense_weights,
    nothing_asked,
    solve_numerically,
    worst_status,
)
from noisewright.norm.kernel.problems import (
    LARGEST_EIGENPROBLEM,
    WELL_CONDITIONED,
    DenseProblem,
    GramProblem,
    RowwiseProblem,
)
from noisewright.norm.kernel.solver import (
    Weights,
    dual_exponent,
    error_norm,
    mean_factor,
)
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.linear.linear_map import LinearMap
from noisewright.workload.linear.maps import (
    Adjoint,
    BlockDiagonal,
    Folded,
    characters,
)

LARGEST_BLOCK = 2**27  # entries, a gigabyte
_FEWEST_ENTRIES = 2**21  # smaller matrices are solved in full within a second
_MOST_CELLS = 4096  # of a tall matrix: Gram matrices of 0.1 GB
_LOST = 1e-6  # of a query's largest entry: what may not come back from the measurements


@dataclass(frozen=True, eq=False)
class Block:
    """A connected block of a matrix: its own rows and columns, scaled so that entries are ≤ 1."""

    rows: IndexArray
    columns: IndexArray
    matrix: FloatArray
    scale: float


def _connected_blocks(matrix: Any) -> list[Block]:
    """Blocks of rows and columns that share non-zero entries; zero rows and columns in none."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    pattern = csr_array(matrix)
    pattern.eliminate_zeros()
    entries = pattern.tocoo()
    queries, size = pattern.shape
    ends = (entries.row, entries.col + queries)
    graph = csr_array((np.ones(entries.nnz), ends), shape=(queries + size,) * 2)
    _, label = connected_components(graph, directed=False)

    used = np.unique(label[entries.row])
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], used)
    stops = np.searchsorted(label[order], used, side="right")
    blocks = []
    for start, stop in zip(starts, stops, strict=True):
        members = order[start:stop]
        rows = members[members < queries]
        columns = members[members >= queries] - queries
        _check_size(rows.size, columns.size)
        scaled, scale = _scaled(pattern[rows][:, columns].toarray())
        blocks.append(Block(rows, columns, scaled, scale))

    return blocks


def _scaled(part: FloatArray) -> tuple[FloatArray, float]:
    """A block with entries of order one, and the power of two that it was: nothing is rounded."""
    exponent = math.frexp(float(np.abs(part).max()))[1]
    scaled = np.ldexp(part, -exponent)
    if not (scaled.any(axis=0).all() and scaled.any(axis=1).all()):
        raise _too_small("a row or column that vanishes beside the others")
    return scaled, math.ldexp(1.0, exponent)


def _check_size(rows: int, columns: int) -> None:
    if rows * columns > LARGEST_BLOCK or min(rows, columns) > LARGEST_EIGENPROBLEM:
        raise TooLarge(
            f"the workload has a connected block of {rows} queries over {columns} cells; explicit "
            f"blocks are solved up to {LARGEST_EIGENPROBLEM} on the smaller side and "
            f"{LARGEST_BLOCK} entries; write it with structured workloads, or coarsen the domain"
        )


def _too_small(what: str) -> InvalidParameter:
    return InvalidParameter(
        "workload",
        what,
        "is too small or too nearly a combination of others to be answered in double precision",
        "bring the queries to comparable sizes with weights, or drop it",
    )


@dataclass(frozen=True, eq=False)
class Merged:
    """A matrix with parallel rows and columns merged, and where each original one went.

    An original row is as long as `row_ratio` times its merged row, and takes `row_share` of the
    merged row's dual weight; an original column is `column_scale` times its representative.
    """

    matrix: FloatArray
    row_index: IndexArray
    row_ratio: FloatArray
    row_share: FloatArray
    column_index: IndexArray
    column_scale: FloatArray
    representative: FloatArray


def _merge_parallel(matrix: FloatArray, norm: float) -> Merged:
    """Merge parallel rows by the ℓ_norm of their lengths, parallel columns by the longest."""
    # Rows alike in size, or columns that differ in a small query alone would seem to be parallel.
    exponents = np.frexp(np.abs(matrix).max(axis=1))[1]
    alike = np.ldexp(matrix, -exponents[:, None])
    column_index, column_scale, chosen = _parallel(alike.T)
    columns = matrix[:, chosen]
    row_index, row_scale, leaders = _parallel(columns)

    ratio = np.abs(row_scale)  # at most one: the longest row of each group leads it
    length = np.ones(len(leaders))
    share = np.zeros(len(ratio))
    if math.isinf(norm):
        share[leaders] = 1.0
    else:
        length = _sums(row_index, ratio**norm) ** (1 / norm)
        ratio = ratio / length[row_index]
        share = ratio ** (norm - 2)

    representative = np.zeros(matrix.shape[1])
    representative[chosen] = 1.0
    return Merged(
        columns[leaders] * length[:, None],
        row_index,
        ratio,
        share,
        column_index,
        column_scale,
        representative,
    )


def _sums(index: IndexArray, values: FloatArray) -> FloatArray:
    """Sums of the values of each group."""
    return np.asarray(np.bincount(index, values), dtype=np.float64)


def _parallel(rows: FloatArray) -> tuple[IndexArray, FloatArray, IndexArray]:
    """Group of every row, its length relative to the group's longest row, and that row."""
    pivots = np.abs(rows).argmax(axis=1)
    lengths = rows[np.arange(len(rows)), pivots]
    # Directions equal to twelve digits count as one; answers are still computed from the originals.
    directions = np.round(rows / lengths[:, None], 12) + 0.0
    _, groups = np.unique(directions, axis=0, return_inverse=True)
    groups = groups.ravel()

    # The longest row of every group leads it.
    order = np.lexsort((-np.abs(lengths), groups))
    first = np.searchsorted(groups[order], np.arange(groups.max() + 1))
    leaders = order[first]

    # groups stay in the order of the original rows
    rank = np.argsort(np.argsort(leaders))
    index = rank[groups]
    leaders = np.sort(leaders)
    return index, lengths / lengths[leaders[index]], leaders


def solve_explicit(workload: Explicit, settings: Settings) -> Part:
    """Solve the blocks one by one and join them at the best balance between them."""
    queries, size = workload.shape
    norm = settings.norm
    blocks = _connected_blocks(workload.matrix)
    if not blocks:
        return nothing_asked(workload, norm)

    # Relative gaps do not add up over blocks, so each block has the whole tolerance.
    solved = [_solve_block(block, settings) for block in blocks]

    def errors() -> FloatArray:
        result = np.zeros(queries)
        for block, part in zip(blocks, solved, strict=True):
            result[block.rows] = part.errors()
        return result

    values = np.array([part.value for part in solved])
    bounds = np.array([part.lower_bound for part in solved])
    mean = mean_factor(queries, norm)
    notes = [note for part in solved for note in part.notes]
    if len(blocks) > 1:
        notes.insert(0, f"{len(blocks)} unconnected blocks solved apart")

    strategy = BlockDiagonal(tuple(part.strategy for part in solved))
    inverse = BlockDiagonal(tuple(part.inverse for part in solved))
    used = np.concatenate([block.columns for block in blocks])
    return Part(
        strategy=_spread(strategy, used, size),
        inverse=Adjoint(_spread(Adjoint(inverse), used, size)),
        errors=errors,
        value=outward(error_norm(values, norm) * mean, len(blocks)),
        lower_bound=inward(error_norm(bounds, norm) * mean, len(blocks)),
        certificate=_balanced_weights(blocks, solved, workload.shape, norm),
        status=worst_status(solved),
        iterations=sum(part.iterations for part in solved),
        notes=tuple(dict.fromkeys(notes)),
    )


def _spread(inner: LinearMap, used: IndexArray, size: int) -> Folded:
    """A map over some cells as one over all; the others are left out of every measurement."""
    position = np.zeros(size, dtype=np.intp)
    position[used] = np.arange(used.size)
    scale = np.zeros(size)
    scale[used] = 1.0
    return Folded(inner, position, scale)


def _balanced_weights(
    blocks: list[Block], solved: list[Part], shape: tuple[int, int], norm: float
) -> DualWeights:
    """The dual weights of all blocks, each with its share of the mass."""
    queries, size = shape
    a = np.zeros(queries)
    b = np.zeros(size)
    bounds = np.array([part.lower_bound for part in solved])
    shares = zip(*_balance(bounds, norm), strict=True)
    for block, part, (row_share, column_share) in zip(
        blocks, solved, shares, strict=True
    ):
        b[block.columns] = column_share * part.certificate.column_weights()
        if norm > 2:
            a[block.rows] = row_share * part.certificate.row_weights()

    return dense_weights(None if norm == 2 else a, b)


def _balance(bounds: FloatArray, norm: float) -> tuple[FloatArray, FloatArray]:
    """Dual mass of rows and columns of each block: maximises Σ √(α_k β_k) γ_k."""
    relative = bounds / bounds.max()
    if math.isinf(norm):
        only = np.zeros(bounds.size)
        only[relative.argmax()] = 1.0
        return only, only

    share = relative**norm / np.sum(relative**norm)
    return share ** (1 - 2 / norm), share


def _solve_block(block: Block, settings: Settings) -> Part:
    """One block in sums over its own queries (not means), in the units of the whole matrix."""
    norm = settings.norm
    merged = _merge_parallel(block.matrix, norm)
    small = Explicit(merged.matrix)
    spectrum = _circulant_spectrum(small.matrix) if norm == 2 else None
    inner = None if spectrum is None else solve_spectrum(small, (small.size,), spectrum)
    # A Gram matrix may be cyclic to all its digits, and its smallest queries are not.
    if inner is None or _lost(small.matrix, inner).max() > _LOST:
        start = _restricted_start(settings, block, merged)
        problem = DenseProblem(small.matrix)
        inner = solve_numerically(small, problem, replace(settings, start=start))

    _check_reach(small.matrix, inner)
    mean = mean_factor(small.queries, norm)
    b = merged.representative * inner.certificate.column_weights()[merged.column_index]
    a = inner.certificate.row_weights()
    if a is not None:
        a = merged.row_share * a[merged.row_index]

    def errors() -> FloatArray:
        return block.scale * merged.row_ratio * inner.errors()[merged.row_index]

    spread = Folded(Adjoint(inner.inverse), merged.column_index, merged.representative)
    return replace(
        inner,
        strategy=Folded(inner.strategy, merged.column_index, merged.column_scale),
        inverse=Adjoint(spread),
        errors=errors,
        value=block.scale * inner.value / mean,
        lower_bound=block.scale * inner.lower_bound / mean,
        certificate=dense_weights(a, b),
    )


def _circulant_spectrum(matrix: FloatArray) -> FloatArray | None:
    """Eigenvalues of the Gram matrix when cyclic shifts of the cells leave it unchanged."""
    gram = matrix.T @ matrix
    first = gram[0]
    uneven = np.abs(first[1:] - first[:0:-1]).max(initial=0.0)
    shifted = np.abs(gram[1:, 1:] - gram[:-1, :-1]).max(initial=0.0)
    if max(uneven, shifted) > 1e-13 * np.abs(gram).max():
        return None
    return characters((len(gram),), first)


def _restricted_start(
    settings: Settings, block: Block, merged: Merged
) -> Weights | None:
    """The warm start's weights on this block's merged rows and columns."""
    start = settings.start
    if start is None:
        return None

    b = _sums(merged.column_index, start.b[block.columns])
    if start.a is None or settings.norm == 2:
        return Weights(None, b)

    power = dual_exponent(settings.norm)
    sums = _sums(merged.row_index, start.a[block.rows] ** power)
    return Weights(sums ** (1 / power), b)


def _lost(matrix: FloatArray, inner: Part) -> FloatArray:
    """How much of every query does not come back, relative to its largest entry."""
    reached = inner.strategy.rmatvec(inner.inverse.rmatvec(matrix.T)).T
    away = np.abs(matrix - reached).max(axis=1)
    return np.asarray(away / np.abs(matrix).max(axis=1))


def _check_reach(matrix: FloatArray, inner: Part) -> None:
    """Refuse queries so small beside the others that double precision cannot answer them."""
    lost = _lost(matrix, inner)
    if lost.max() > _LOST:
        raise _too_small(f"query {int(lost.argmax())} of its block")


def solve_tall(workload: Explicit, settings: Settings) -> Part | None:
    """The factorization by Gram matrices; None where the matrix is none for them."""
    queries, size = workload.shape
    if queries * size < _FEWEST_ENTRIES or queries < 2 * size:
        return None

    lengths = workload.column_norms()
    used = np.flatnonzero(lengths)
    if not 0 < used.size <= _MOST_CELLS or not np.isfinite(lengths).all():
        return None

    narrow = workload if used.size == size else Explicit(workload.matrix[:, used])
    gram = narrow.gram().dense()
    if not _well_conditioned(gram):
        return None

    if settings.start is not None:
        start = replace(settings.start, b=settings.start.b[used])
        settings = replace(settings, start=start)

    problem = GramProblem(gram) if settings.norm == 2 else RowwiseProblem(narrow)
    part = solve_numerically(narrow, problem, settings)
    if not _comes_back(narrow, part):
        return None

    return part if narrow is workload else _widened(part, used, size)


def _well_conditioned(gram: FloatArray) -> bool:
    """Whether squares keep enough digits, also of cells that are seen far less than others."""
    if not np.isfinite(gram).all():
        return False
    lengths = np.sqrt(np.diagonal(gram))
    values = np.linalg.eigvalsh(gram / lengths[:, None] / lengths)
    far = float(lengths.min() / lengths.max()) ** 2
    return bool(min(values[0] / values[-1], far) > 1e3 * WELL_CONDITIONED)


def _comes_back(workload: Explicit, part: Part) -> bool:
    """Whether W·A⁺·A is W again in every query, by the largest that any entry can be off."""
    product = part.inverse.dense() @ part.strategy.dense()
    off = float(np.abs(np.eye(workload.size) - product).max())

    sizes = abs(workload.matrix)
    largest = sizes.max(axis=1)
    most = np.ravel(largest if workload.sparse is None else largest.toarray())
    lost = np.ravel(sizes.sum(axis=1)) * off
    return not (lost > _LOST * most).any()


def _widened(part: Part, used: IndexArray, size: int) -> Part:
    """The same over all cells, those that no query uses left out of every measurement."""
    b = np.zeros(size)
    b[used] = part.certificate.column_weights()
    return replace(
        part,
        strategy=_spread(part.strategy, used, size),
        inverse=Adjoint(_spread(Adjoint(part.inverse), used, size)),
        certificate=dense_weights(part.certificate.row_weights(), b),
    )
