"""How far one neighbour moves all blocks of a strategy together, in L2.

Adding up the largest change of every block is always safe, but no one person causes them all.
Three sharper ways, each an upper bound by itself:
- few cells: every pair of them;
- rows of different weights: every cell, by products along the axes;
- replaced people: for every set of attributes in which the two people differ, the least inner
  product of two columns. For contrasts of plain counts this is exact. Attributes that are alike
  are told apart only by how many of them differ.
Sums are taken in floats; a margin above all their rounding is added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb, prod

import numpy as np

from noisewright.arrays import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
)
from noisewright.central.blocks.block import (
    Block,
    Table,
    exact_gram,
)

_PAIRS = 1024  # cells whose pairs are all compared
_GRID = 2**22  # cells that are all visited where rows have weights
_FEW = 2**14  # cells that are visited in any case
_WORK = 2**25  # patterns × blocks
# far above the rounding of sums of a million floats, which is 2^-53 each
_MARGIN = 1e-9


def squared_change(
    sizes: Sequence[int],
    blocks: Sequence[Block],
    neighbours: str,
) -> float | None:
    """Upper bound on the squared change; None where no sharper one than the sum is found."""
    used = sorted({i for block in blocks for i in block.attributes})
    cells = prod(sizes[i] for i in used)
    if any(block.weights is not None for block in blocks):
        visited = neighbours == "add-remove" and cells <= _GRID
        return _over_cells(sizes, used, blocks) if visited else None

    if neighbours == "add-remove":
        return _over_cells(sizes, used, blocks) if cells <= _FEW else None
    if cells <= _PAIRS:
        return _over_pairs(sizes, used, blocks)

    spans = {id(f): Span.of(f) for block in blocks for f in block.factors}
    if 2 ** len(used) * len(blocks) <= _WORK:
        return _over_patterns(used, blocks, spans)

    return _over_counts(used, blocks, spans)


def _precision(block: Block) -> float:
    return (block.multiplier / block.noise) ** 2


def _over_cells(
    sizes: Sequence[int],
    used: Sequence[int],
    blocks: Sequence[Block],
) -> float:
    total = np.zeros([sizes[i] for i in used])
    for block in blocks:
        changes = block.cell_changes(2) * _precision(block)
        shape = [sizes[i] if i in block.attributes else 1 for i in used]
        total += changes.reshape(shape)
    return float(total.max()) * (1 + _MARGIN)


def _over_pairs(
    sizes: Sequence[int],
    used: Sequence[int],
    blocks: Sequence[Block],
) -> float:
    """Squared distances of all pairs of cells, from the joint Gram matrix."""
    gram = np.zeros((1, 1))
    # the total is the same in all cells
    for block in (b for b in blocks if b.attributes):
        factors = block.matrices
        product: Array = np.full((1, 1), _precision(block))
        for i in used:
            n = sizes[i]
            part = exact_gram(factors[i]) if i in factors else np.ones((n, n))
            product = np.kron(product, part.astype(np.float64))
        gram = gram + product

    lengths = np.diagonal(gram)
    largest = float((lengths[:, None] + lengths - 2 * gram).max())
    return largest + _MARGIN * float(lengths.max())


@dataclass(frozen=True)
class Span:
    """Ends of the inner products of a factor's columns: with themselves, and of different ones."""

    shortest: float
    longest: float
    least: float
    most: float

    @classmethod
    def of(cls, factor: IntArray) -> Span:
        """The span of one integer factor."""
        gram = exact_gram(factor)
        lengths = np.diagonal(gram)
        others = gram[~np.eye(len(gram), dtype=bool)]
        if not others.size:
            others = lengths

        ends = (
            lengths.min(),
            lengths.max(),
            others.min(),
            others.max(),
        )
        return cls(*map(float, ends))


Ends = tuple[FloatArray, FloatArray]


def _times(
    ends: Ends,
    low: Array,
    high: Array,
) -> Ends:
    """The product of two intervals."""
    corners = np.stack([a * b for a in ends for b in (low, high)])
    return corners.min(axis=0), corners.max(axis=0)


def _distance(
    spans: Sequence[Span],
    differ: Sequence[BoolArray],
) -> FloatArray:
    """Largest squared distance of two columns of a block, for every pattern of difference."""
    shape = np.broadcast_shapes(*(d.shape for d in differ)) if differ else (1,)
    ends = (np.ones(shape), np.ones(shape))
    touched = np.zeros(shape, dtype=bool)

    for span, apart in zip(spans, differ, strict=True):
        low = np.where(apart, span.least, span.shortest)
        ends = _times(ends, low, np.where(apart, span.most, span.longest))
        touched = touched | apart

    longest = prod(span.longest for span in spans)
    return np.where(
        touched,
        2 * (longest - ends[0]) + 2 * _MARGIN * longest,
        0.0,
    )


def pattern_distances(
    used: Sequence[int],
    block: Block,
    spans: Mapping[int, Span],
) -> FloatArray:
    """Squared distances of a block's columns, one for every set of attributes that differ."""
    masks = np.arange(1, 2 ** len(used))
    differs = {
        i: (masks >> position & 1).astype(bool) for position, i in enumerate(used)
    }
    inside = [i for i in block.attributes if i in differs]
    distances = _distance(
        [spans[id(block.matrices[i])] for i in inside],
        [differs[i] for i in inside],
    )

    return np.broadcast_to(distances, masks.shape)


def _over_patterns(
    used: Sequence[int],
    blocks: Sequence[Block],
    spans: Mapping[int, Span],
) -> float:
    """The worst set of attributes in which two people differ."""
    total = np.zeros(2 ** len(used) - 1)
    for block in blocks:
        total += _precision(block) * pattern_distances(used, block, spans)
    return float(total.max(initial=0.0)) * (1 + _MARGIN)


def _over_counts(
    used: Sequence[int],
    blocks: Sequence[Block],
    spans: Mapping[int, Span],
) -> float | None:
    """The worst number of differing attributes of each sort; blocks alike count as the heaviest."""
    sorts = _sorts(used, blocks, spans)
    if sorts is None:
        return None

    members = Counter(sorts[i] for i in used)
    kinds = list(members)
    numbers = [range(members[kind] + 1) for kind in kinds]
    patterns = np.array(list(product(*numbers)), dtype=np.int64)

    # A table may be measured more than once; of tables alike the heaviest counts.
    precisions: dict[Table, float] = defaultdict(float)
    for block in blocks:
        precisions[block.attributes] += _precision(block)
    heaviest: dict[tuple[int, ...], float] = defaultdict(float)
    for table, precision in precisions.items():
        inside = Counter(sorts[i] for i in table)
        key = tuple(inside[kind] for kind in kinds)
        heaviest[key] = max(heaviest[key], precision)

    total = np.zeros(len(patterns))
    for key, precision in heaviest.items():
        held = list(Counter(dict(zip(kinds, key, strict=True))).elements())
        for differing in product(*(range(count + 1) for count in key)):
            apart = []
            for most, count in zip(differing, key, strict=True):
                apart += [np.array([d < most]) for d in range(count)]

            distance = float(_distance(held, apart)[0])
            ways = _ways(patterns, list(members.values()), key, differing)
            total += precision * ways * distance

    return float(total.max()) * (1 + _MARGIN)


def _ways(
    patterns: IntArray,
    members: Sequence[int],
    key: Sequence[int],
    differing: Sequence[int],
) -> FloatArray:
    """How many tables of so many attributes of each sort have so many that differ, by pattern."""
    ways = np.ones(len(patterns))
    for column, count in enumerate(members):
        apart = differing[column]
        same = key[column] - apart
        choices = [comb(d, apart) * comb(count - d, same) for d in range(count + 1)]
        ways *= np.array(choices, dtype=np.float64)[patterns[:, column]]

    return ways


def _sorts(
    used: Sequence[int],
    blocks: Sequence[Block],
    spans: Mapping[int, Span],
) -> dict[int, Span] | None:
    """The one span of every attribute; None where they are too many or of several."""
    result: dict[int, Span] = {}
    for block in blocks:
        for i, factor in block.matrices.items():
            span = spans[id(factor)]
            if i in used and result.setdefault(i, span) != span:
                return None

    members = Counter(result.values())
    work = prod(count + 1 for count in members.values()) * len(blocks)
    return result if work <= _WORK else None
