"""Marginal tables that make sense together: none negative, and equal where they overlap.

Post-processing only. Tables are taken apart into interactions: the part of a table that depends on
a set of its attributes and averages out over each of them. Tables agree when all that hold an
interaction hold the same one. No table over the whole domain is formed, nor promised to exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.estimate.nearest import project_to_total
from noisewright.workload.linear.interactions import (
    centred,
    interactions,
)

Block = tuple[int, ...]
"""Some attributes, in increasing order."""


def interaction(
    tensors: FloatArray,
    axes: Block,
) -> FloatArray:
    """Sum tables down to some axes (the first numbers the tables), and centre along each."""
    dropped = tuple(k for k in range(1, tensors.ndim) if k - 1 not in axes)
    return centred(tensors.sum(axis=dropped), range(1, len(axes) + 1))


def agreeing_tables(
    sizes: Sequence[int],
    tables: Mapping[Block, FloatArray],
    std: Mapping[Block, float],
    total: float,
    steps: int = 3000,
    tolerance: float = 1e-7,
) -> dict[Block, FloatArray]:
    """The nearest tables of `total` people that are not negative and agree where they overlap.

    `tables` agree already; distances are weighted by 1/`std`² of each. Dykstra's projections on
    both conditions in turn; non-negativity is exact at the end, agreement to `tolerance`·`total`.
    """
    groups = _groups(tuple(sizes), tables, std)
    now = [group.values for group in groups]
    positive = now
    corrections = [np.zeros_like(values) for values in now]

    for _ in range(steps):
        moved = [values + extra for values, extra in zip(now, corrections, strict=True)]
        positive = [project_to_total(values, total) for values in moved]
        corrections = [a - b for a, b in zip(moved, positive, strict=True)]
        now = _agreed(groups, positive, total)
        gaps = [float(np.abs(a - b).max()) for a, b in zip(now, positive, strict=True)]
        if max(gaps) <= tolerance * max(total, 1.0):
            break

    return {
        block: row
        for group, rows in zip(groups, positive, strict=True)
        for block, row in zip(group.blocks, rows, strict=True)
    }


@dataclass(frozen=True, eq=False)
class _Part:
    """One interaction of every table of a group: its axes, its places, and what it weighs there."""

    axes: Block
    index: IntArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class _Group:
    """Tables of one shape, handled together; interactions lie in one long vector for all groups."""

    shape: tuple[int, ...]
    blocks: tuple[Block, ...]
    values: FloatArray
    parts: tuple[_Part, ...]


def _groups(
    sizes: tuple[int, ...],
    tables: Mapping[Block, FloatArray],
    std: Mapping[Block, float],
) -> list[_Group]:
    shapes: dict[tuple[int, ...], list[Block]] = {}
    for block in tables:
        shapes.setdefault(tuple(sizes[i] for i in block), []).append(block)

    offsets = _offsets(sizes, tables)
    largest = max(std.values(), default=0.0) or 1.0
    groups = []

    for shape, blocks in shapes.items():
        values = np.stack([np.ravel(tables[block]) for block in blocks])
        noise = np.array([std[block] or largest for block in blocks])
        weights = (largest / noise) ** 2
        parts = []
        for axes in interactions(tuple(range(len(shape)))):
            cells = prod(shape[k] for k in axes)
            firsts = [offsets[tuple(block[k] for k in axes)] for block in blocks]
            index = np.array(firsts)[:, None] + np.arange(cells)
            parts.append(_Part(axes, index, weights * cells / prod(shape)))

        groups.append(_Group(shape, tuple(blocks), values, tuple(parts)))

    return groups


def _offsets(
    sizes: tuple[int, ...],
    tables: Iterable[Block],
) -> dict[Block, int]:
    """Where every interaction begins in the one long vector of them all."""
    parts = sorted({part for table in tables for part in interactions(table)})
    cells = [prod(sizes[i] for i in part) for part in parts]
    ends = np.cumsum(cells) - cells
    return dict(zip(parts, ends.tolist(), strict=True))


def _agreed(
    groups: list[_Group],
    values: list[FloatArray],
    total: float,
) -> list[FloatArray]:
    """The nearest tables that agree: every interaction is the weighted mean of what they say."""
    length = 1 + max(
        (int(part.index.max()) for group in groups for part in group.parts),
        default=0,
    )
    sums = np.zeros(length)
    shares = np.full(length, np.finfo(float).tiny)

    for group, rows in zip(groups, values, strict=True):
        tensors = rows.reshape(-1, *group.shape)
        for part in group.parts:
            places = part.index.ravel()
            measured = interaction(tensors, part.axes).ravel()
            weight = np.repeat(part.weight, part.index.shape[1])
            sums += np.bincount(places, weight * measured, minlength=length)
            shares += np.bincount(places, weight, minlength=length)

    means = sums / shares
    result = []
    for group in groups:
        cells = prod(group.shape)
        built = np.full((len(group.blocks), *group.shape), total / cells)
        for part in group.parts:
            shape = [n if k in part.axes else 1 for k, n in enumerate(group.shape)]
            share = part.index.shape[1] / cells
            built += means[part.index].reshape(-1, *shape) * share
        result.append(built.reshape(len(group.blocks), -1))

    return result
