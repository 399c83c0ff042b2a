"""Relations between the cells of tables and parities, and what workloads ask of each.

Cells that differ in the same number of attributes, of each kind, are in the same relation; the
interactions of so many attributes of each kind are a class of characters. (An association scheme,
the product of the Hamming schemes of attributes that are alike.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from math import comb, prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.tables.small_sets import Groups
from noisewright.workload.linear.gram import Gram, KronGram, XorGram
from noisewright.workload.linear.marginal_gram import MarginalGram

Block = tuple[int, ...]
"""Attributes of an interaction, by number."""

_MOST_CLASSES = 128
"""Relations, each an unknown of the linear programs: only bounds their time."""

_MOST_CELLS = 2**16
"""Set sizes, for each of which limits are told: only bounds memory and time."""

_EQUAL = 1e-12
"""Of the largest eigenvalue: by what those of attributes that are alike differ by rounding."""


@dataclass(frozen=True, eq=False)
class Scheme:
    """Relations between cells, classes of characters, and the workload's eigenvalues on them."""

    characters: FloatArray
    """Q_k(i): the sum of the characters of class k, at relation i; class and relation 0 first."""
    valencies: FloatArray
    eigenvalues: FloatArray
    groups: Groups = ()
    """Attributes that are alike: how many, and of how many values."""

    @cached_property
    def cells(self) -> int:
        return round(float(self.valencies.sum()))

    @cached_property
    def counts(self) -> FloatArray:
        """Number of characters in each class."""
        return self.characters[:, 0]


def scheme_of(gram: Gram) -> Scheme | None:
    """The scheme of a family of tables or of parities, unless it is too large."""
    known = _interactions(gram)
    if known is None or prod(known.sizes) > _MOST_CELLS:
        return None

    groups = _groups(known)
    if prod(len(group) + 1 for group in groups) > _MOST_CLASSES:
        return None

    # A class is a degree in each group: its first attributes stand for any others.
    eigenvalues = []
    starts = [[group[:k] for k in range(len(group) + 1)] for group in groups]
    for firsts in product(*starts):
        block = tuple(sorted(chain(*firsts)))
        eigenvalues.append(known.value(block))

    counts = map(len, groups)
    sizes = [known.sizes[group[0]] for group in groups]
    counted = tuple(zip(counts, sizes, strict=True))
    return Scheme(
        characters=_product_of([krawtchouk(*group) for group in counted]),
        valencies=_product_of([valencies(*group) for group in counted]),
        eigenvalues=np.array(eigenvalues),
        groups=counted,
    )


def _product_of(parts: list[FloatArray]) -> FloatArray:
    whole = np.ones((1,) * parts[0].ndim)
    for part in parts:
        whole = np.asarray(np.kron(whole, part), dtype=np.float64)
    return whole


def krawtchouk(attributes: int, size: int) -> FloatArray:
    """Sums of the characters of each degree (row) at each distance (column)."""
    d = attributes
    q = size - 1

    sums = np.zeros((d + 1, d + 1))
    for k, i in np.ndindex(*sums.shape):
        for j in range(k + 1):
            ways = comb(i, j) * comb(d - i, k - j)
            sign = (-1) ** j
            sums[k, i] += sign * q ** (k - j) * ways
    return sums


def valencies(attributes: int, size: int) -> FloatArray:
    """Cells at each distance from one: as many as characters of that degree."""
    return np.ascontiguousarray(krawtchouk(attributes, size)[:, 0])


# --- what is asked of each interaction ----------------------------------------------------------


@dataclass(frozen=True)
class _Listed:
    """Attribute sizes, and the eigenvalue on the interactions of some sets of attributes."""

    sizes: tuple[int, ...]
    values: Mapping[Block, float]

    def value(self, block: Block) -> float:
        return self.values.get(block, 0.0)

    def alike(self, one: int, other: int) -> bool:
        """Whether swapping two attributes changes no eigenvalue."""
        if self.sizes[one] != self.sizes[other]:
            return False

        exchange = {one: other, other: one}
        allowed = _EQUAL * max(map(abs, self.values.values()), default=0.0)
        for block, value in self.values.items():
            swapped = tuple(sorted(exchange.get(i, i) for i in block))
            if abs(self.value(swapped) - value) > allowed:
                return False
        return True


@dataclass(frozen=True)
class _Product:
    """The same for products: one eigenvalue for an attribute's total, one for what is left."""

    sizes: tuple[int, ...]
    pairs: tuple[tuple[float, float], ...]

    def value(self, block: Block) -> float:
        value = 1.0
        for i, (total, rest) in enumerate(self.pairs):
            value *= rest if i in block else total
        return value

    def alike(self, one: int, other: int) -> bool:
        same_size = self.sizes[one] == self.sizes[other]
        return same_size and self.pairs[one] == self.pairs[other]


def _groups(known: _Listed | _Product) -> list[tuple[int, ...]]:
    """Attributes that are alike, together."""
    groups: list[tuple[int, ...]] = []
    for attribute in range(len(known.sizes)):
        for place, group in enumerate(groups):
            if known.alike(group[0], attribute):
                groups[place] = (*group, attribute)
                break
        else:
            groups.append((attribute,))
    return groups


def _interactions(gram: Gram) -> _Listed | _Product | None:
    """Eigenvalues by interaction, where a Gram matrix has such."""
    if isinstance(gram, MarginalGram):
        return _Listed(gram.sizes, gram.eigenvalues)
    if isinstance(gram, XorGram) and gram.size <= _MOST_CELLS:
        return _of_bits(gram)

    factors = gram.factors if isinstance(gram, KronGram) else (gram,)
    pairs = []
    for factor in factors:
        form = factor.identity_and_ones()
        if form is None:
            return None

        # w·I + c·11ᵀ: on the total, and off it.
        rest, ones = form
        pairs.append((rest + ones * factor.size, rest))

    return _Product(tuple(factor.size for factor in factors), tuple(pairs))


def _of_bits(gram: XorGram) -> _Listed:
    """Characters of {0, 1}^d: the bits of their numbers are attributes, the first one highest."""
    bits = (gram.size - 1).bit_length()
    values = {}
    for mask in np.flatnonzero(gram.eigenvalues).tolist():
        block = tuple(i for i in range(bits) if mask >> (bits - 1 - i) & 1)
        values[block] = float(gram.eigenvalues[mask])
    return _Listed((2,) * bits, values)
