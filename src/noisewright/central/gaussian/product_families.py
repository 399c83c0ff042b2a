"""Families of product queries over subsets of attributes, compiled to arrays.

A term S asks a product of one-attribute workloads; its variance splits over the subsets T ⊆ S into
Π_{i∈T} t_i · Π_{i∈S∖T} g_i, where t and g are what contrasts and totals of an attribute contribute
(see `axes`). Blocks T of the downward closure get independent noise, so the best split of the
budget over blocks is in closed form and the weighted total variance is (Σ_T √v_T)².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from noisewright.errors import TooLarge
from noisewright.workload import Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term

Table = tuple[int, ...]
Indices = npt.NDArray[np.int64]

PAIR_LIMIT = 20_000_000


@dataclass(frozen=True)
class Kind:
    """A workload asked of an attribute; attributes asked the same things share their kinds."""

    group: int
    workload: Workload

    @cached_property
    def gram(self) -> FloatArray:
        """Dense Gram matrix over the attribute's own values."""
        return self.workload.gram().dense()


@dataclass(frozen=True, eq=False)
class Family:
    """Terms over attributes, with every pair (block T, term S ⊇ T) listed."""

    sizes: tuple[int, ...]
    terms: tuple[Term, ...]
    groups: tuple[int, ...]
    kinds: tuple[Kind, ...]
    blocks: tuple[Table, ...]
    pair_block: Indices
    pair_term: Indices
    pair_kinds: Indices
    pair_inside: npt.NDArray[np.bool_]

    @property
    def queries(self) -> int:
        """Number of queries."""
        return sum(term.queries for term in self.terms)

    @cached_property
    def squares(self) -> FloatArray:
        """Squared weight of every term."""
        return np.array([term.weight**2 for term in self.terms])

    @cached_property
    def group_sizes(self) -> list[int]:
        """Number of values of the attributes of each group."""
        found = dict(zip(self.groups, self.sizes, strict=True))
        return [found[group] for group in range(len(found))]

    def contributions(self, totals: FloatArray, contrasts: FloatArray) -> FloatArray:
        """Variance that each pair adds, from g and t of every kind (a last, neutral kind is 1)."""
        g, t = np.append(totals, 1.0), np.append(contrasts, 1.0)
        factors = np.where(self.pair_inside, t[self.pair_kinds], g[self.pair_kinds])
        return np.asarray(self.squares[self.pair_term] * factors.prod(axis=1))

    def block_variances(self, contributions: FloatArray) -> FloatArray:
        """v_T: total over the terms that hold each block."""
        sums = np.bincount(self.pair_block, contributions, minlength=len(self.blocks))
        return sums.astype(np.float64)

    def gradients(
        self, contributions: FloatArray, totals: FloatArray, contrasts: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Derivatives of Σ_T √v_T by g and by t of every kind."""
        slopes = 0.5 / np.sqrt(self.block_variances(contributions))[self.pair_block]
        weights = np.repeat((slopes * contributions)[:, None], self.pair_kinds.shape[1], axis=1)
        count = len(self.kinds) + 1
        sums = [
            np.bincount(self.pair_kinds[mask], weights[mask], minlength=count)[:-1]
            for mask in (~self.pair_inside, self.pair_inside)
        ]
        return sums[0] / totals, sums[1] / np.maximum(contrasts, 1e-300)


def compile_family(sizes: Sequence[int], terms: Sequence[Term]) -> Family:
    """List blocks and pairs of terms that all are products over their attributes."""
    pairs = sum(2 ** len(term.attributes) for term in terms)
    if pairs > PAIR_LIMIT:
        raise TooLarge(
            f"{len(terms)} tables have {pairs} interactions, more than {PAIR_LIMIT}; ask fewer "
            f"tables, or tables of fewer attributes"
        )
    groups, kinds, number = _group_attributes(len(sizes), terms)
    width = max((len(term.attributes) for term in terms), default=0)
    blocks: dict[Table, int] = {}
    rows_block, rows_term, rows_kinds, rows_inside = [], [], [], []
    for index, term in enumerate(terms):
        chosen = [number[groups[i], f.text()] for i, f in _factors(term)]
        padding = [len(kinds)] * (width - len(chosen))
        movable = [k for k, i in enumerate(term.attributes) if sizes[i] > 1]
        for order in range(len(movable) + 1):
            for inside in combinations(movable, order):
                table = tuple(term.attributes[k] for k in inside)
                rows_block.append(blocks.setdefault(table, len(blocks)))
                rows_term.append(index)
                rows_kinds.append(chosen + padding)
                rows_inside.append([k in inside for k in range(width)])
    shape = (len(rows_block), width)
    return Family(
        tuple(sizes),
        tuple(terms),
        groups,
        kinds,
        tuple(blocks),
        np.array(rows_block, dtype=np.int64),
        np.array(rows_term, dtype=np.int64),
        np.array(rows_kinds, dtype=np.int64).reshape(shape),
        np.array(rows_inside, dtype=bool).reshape(shape),
    )


def _factors(term: Term) -> list[tuple[int, Workload]]:
    return list(zip(term.attributes, term.factors or (), strict=True))


def _group_attributes(
    count: int, terms: Sequence[Term]
) -> tuple[tuple[int, ...], tuple[Kind, ...], dict[tuple[int, str], int]]:
    """Attributes asked exactly the same workloads form one group and share one axis."""
    asked: list[dict[str, Workload]] = [{} for _ in range(count)]
    texts: dict[int, str] = {}
    for term in terms:
        for i, factor in _factors(term):
            text = texts.setdefault(id(factor), factor.text())
            asked[i][text] = factor
    names: dict[tuple[str, ...], int] = {}
    groups: list[int] = []
    kinds: list[Kind] = []
    number: dict[tuple[int, str], int] = {}
    for i, workloads in enumerate(asked):
        key = tuple(sorted(workloads)) or (f"unused:{i}",)
        new = key not in names
        group = names.setdefault(key, len(names))
        groups.append(group)
        if new:
            for text, workload in workloads.items():
                number[group, text] = len(kinds)
                kinds.append(Kind(group, workload))
    return tuple(groups), tuple(kinds), number
