"""Interactions: the part of a table that depends on a set of attributes and averages out over each.

They are orthogonal, so tables, strategies and Gram matrices over many attributes are taken apart
into them and put together from them, and the domain itself is never visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Table = tuple[int, ...]
"""Some attributes, in increasing order."""


def subsets(table: Table) -> list[Table]:
    """All subsets of a table's attributes, the empty one among them, smallest first."""
    orders = range(len(table) + 1)
    return [chosen for order in orders for chosen in combinations(table, order)]


def interactions(table: Table) -> list[Table]:
    """All subsets of a table's attributes but the empty one: what a table says beyond its total."""
    return subsets(table)[1:]


def downward_closure(tables: Iterable[Table]) -> tuple[Table, ...]:
    """All subsets of the given tables' attributes, by size and then in order."""
    closure: set[Table] = set()
    pending = [tuple(sorted(table)) for table in tables]

    while pending:
        table = pending.pop()
        if table not in closure:
            closure.add(table)
            pending += combinations(table, max(len(table) - 1, 0))

    by_size = sorted(closure, key=lambda block: (len(block), block))
    return tuple(by_size)


def subsets_of(
    tables: Sequence[Table], varies: Sequence[bool]
) -> tuple[tuple[Table, ...], csr_array[np.float64]]:
    """All subsets of the tables, by size and in order, and which table holds which subset.

    Tables of equal length are handled together and subsets compared as numbers: hundreds of
    thousands of tables take a second.
    """
    from scipy.sparse import csr_array

    keep = np.array([*varies, False])
    by_length: dict[int, list[int]] = {}
    for position, table in enumerate(tables):
        by_length.setdefault(len(table), []).append(position)

    base = len(varies) + 1
    longest = max(by_length)
    keys: list[Array] = []
    owners: list[IntArray] = []

    for length, positions in by_length.items():
        members = np.array([tables[p] for p in positions], dtype=np.int64)
        members = members.reshape(len(positions), length)
        for mask in range(2**length):
            bits = [i for i in range(length) if mask >> i & 1]
            chosen = members[:, bits]
            whole = keep[chosen].all(axis=1)
            keys.append(_encode(chosen[whole], base, longest))
            owners.append(np.array(positions)[whole])

    unique, column = np.unique(np.concatenate(keys), return_inverse=True)
    row = np.concatenate(owners)
    entries = np.ones(row.size), (row, column.ravel())
    incidence = csr_array(entries, shape=(len(tables), len(unique)))
    numbers = [int(key) for key in unique.tolist()]
    listed = [_decode(number, base, longest) for number in numbers]

    return tuple(listed), incidence


def _encode(subsets: IntArray, base: int, longest: int) -> Array:
    """Subsets of one size as numbers in base d + 1, their size the leading digit."""
    count, order = subsets.shape
    words = (longest + 1) * base**longest < 2**62
    kind = np.dtype(
        np.int64 if words else object
    )  # exact integers where words are too short

    keys: Array = np.full(count, order, kind)
    for digit in (subsets.astype(kind) + 1).T:
        keys = keys * base + digit

    return np.asarray(keys * base ** (longest - order))


def _decode(key: int, base: int, longest: int) -> Table:
    digits = []
    for _ in range(longest):
        key, digit = divmod(key, base)
        if digit:
            digits.append(digit - 1)

    return tuple(reversed(digits))


def centred(tensor: FloatArray, axes: Iterable[int]) -> FloatArray:
    """What is left of a table beyond its averages along each of some axes."""
    for axis in axes:
        tensor = tensor - tensor.mean(axis=axis, keepdims=True)

    return np.asarray(tensor)


def each_centred(sums: Mapping[Table, FloatArray]) -> dict[Table, FloatArray]:
    """Interactions from the tables over their own attributes (and a batch)."""
    parts = {}
    for part, table in sums.items():
        own = range(len(part))
        parts[part] = centred(table, own)

    return parts


def table_of(
    sizes: Sequence[int], attributes: Table, parts: Mapping[Table, FloatArray]
) -> FloatArray:
    """A table, flattened, from its interactions (and a batch); what is not known counts as zero.

    Each is over its own attributes, and is spread evenly over the table's others.
    """
    shape = tuple(sizes[i] for i in attributes)
    result: FloatArray = np.zeros(())
    known = [block for block in subsets(attributes) if block in parts]

    for block in known:
        values = parts[block]
        batch = values.shape[len(block) :]
        own = [sizes[i] if i in block else 1 for i in attributes]
        spread = values.reshape([*own, *batch])
        result = result + spread / (prod(shape) // prod(own))

    batch = result.shape[len(attributes) :]
    table = np.broadcast_to(result, shape + batch)

    return np.ascontiguousarray(table).reshape(-1, *batch)


def tables_of(
    sizes: Sequence[int], wanted: Sequence[Table], parts: Mapping[Table, FloatArray]
) -> list[FloatArray]:
    """Several tables from the same interactions."""
    return [table_of(sizes, attributes, parts) for attributes in wanted]
