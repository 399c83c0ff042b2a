"""Relations between cells of tables, and the classes of characters that go with them.

Cells that differ in the same number of attributes, of each kind, are in the same relation; the
interactions of so many attributes of each kind are a class of characters. (An association scheme,
the product of the Hamming schemes of attributes that are alike.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, prod

import numpy as np

from noisewright.workload.base import FloatArray
from noisewright.workload.gram import (
    Gram,
    IdentityGram,
    KronGram,
    MarginalGram,
    OnesGram,
    ScaledGram,
    SumGram,
    XorGram,
)

Block = tuple[int, ...]

_MOST_CLASSES = 128
_MOST_CELLS = 2**16
_MOST_BITS = 16


@dataclass(frozen=True, eq=False)
class Scheme:
    """Relations between cells, classes of characters, and the workload's eigenvalues on them."""

    characters: FloatArray
    """Q_k(i): the sum of the characters of class k, at relation i; class and relation 0 first."""
    valencies: FloatArray
    eigenvalues: FloatArray

    @cached_property
    def cells(self) -> int:
        """Number of cells."""
        return round(float(self.valencies.sum()))

    @cached_property
    def counts(self) -> FloatArray:
        """Number of characters in each class."""
        return np.asarray(self.characters[:, 0])


def scheme_of(gram: Gram) -> Scheme | None:
    """The scheme of a family of tables or of parities, unless it is too large."""
    found = _interactions(gram)
    if found is None or prod(found.sizes) > _MOST_CELLS:
        return None
    groups: list[tuple[int, ...]] = []
    for attribute in range(len(found.sizes)):
        home = next((g for g, group in enumerate(groups) if found.alike(group[0], attribute)), None)
        if home is None:
            groups.append((attribute,))
        else:
            groups[home] = (*groups[home], attribute)
    if prod(len(group) + 1 for group in groups) > _MOST_CLASSES:
        return None
    parts = [_hamming(len(group), found.sizes[group[0]]) for group in groups]
    degrees = product(*(range(len(group) + 1) for group in groups))
    blocks = [
        tuple(sorted(i for group, k in zip(groups, degree, strict=True) for i in group[:k]))
        for degree in degrees
    ]
    return Scheme(
        _products([part[0] for part in parts]),
        _products([part[1] for part in parts]),
        np.array([found.value(block) for block in blocks]),
    )


@dataclass(frozen=True)
class _Listed:
    """Attribute sizes, and the eigenvalue on the interactions of some sets of attributes."""

    sizes: tuple[int, ...]
    values: Mapping[Block, float]

    def value(self, block: Block) -> float:
        return self.values.get(block, 0.0)

    def alike(self, one: int, other: int) -> bool:
        """Whether swapping two attributes changes no eigenvalue."""
        exchange = {one: other, other: one}
        slack = 1e-12 * max(map(abs, self.values.values()), default=0.0)
        return self.sizes[one] == self.sizes[other] and all(
            abs(self.value(tuple(sorted(exchange.get(i, i) for i in block))) - value) <= slack
            for block, value in self.values.items()
        )


@dataclass(frozen=True)
class _Product:
    """The same for products: one eigenvalue for an attribute's total, one for what is left."""

    sizes: tuple[int, ...]
    pairs: tuple[tuple[float, float], ...]

    def value(self, block: Block) -> float:
        return prod(rest if i in block else own for i, (own, rest) in enumerate(self.pairs))

    def alike(self, one: int, other: int) -> bool:
        return self.sizes[one] == self.sizes[other] and self.pairs[one] == self.pairs[other]


def _interactions(gram: Gram) -> _Listed | _Product | None:
    if isinstance(gram, MarginalGram):
        return _Listed(gram.sizes, gram.eigenvalues)
    if isinstance(gram, XorGram) and gram.size <= 2**_MOST_BITS:
        bits = (gram.size - 1).bit_length()
        nonzero = np.flatnonzero(gram.eigenvalues)
        blocks = {
            tuple(i for i in range(bits) if mask >> (bits - 1 - i) & 1): float(value)
            for mask, value in zip(nonzero.tolist(), gram.eigenvalues[nonzero], strict=True)
        }
        return _Listed((2,) * bits, blocks)
    factors = gram.factors if isinstance(gram, KronGram) else (gram,)
    pairs = [_pair(factor) for factor in factors]
    known = [pair for pair in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    return _Product(tuple(factor.size for factor in factors), tuple(known))


def _pair(gram: Gram) -> tuple[float, float] | None:
    """Eigenvalues of a Gram matrix a·I + b·11ᵀ, on the total and off it."""
    if isinstance(gram, IdentityGram):
        return 1.0, 1.0
    if isinstance(gram, OnesGram):
        return float(gram.size), 0.0
    if isinstance(gram, ScaledGram):
        inner = _pair(gram.inner)
        return inner and (gram.weight * inner[0], gram.weight * inner[1])
    if isinstance(gram, SumGram):
        parts = [_pair(part) for part in gram.parts]
        known = [part for part in parts if part is not None]
        both = (sum(part[0] for part in known), sum(part[1] for part in known))
        return both if len(known) == len(parts) else None
    return None


def _products(parts: list[FloatArray]) -> FloatArray:
    result = parts[0]
    for part in parts[1:]:
        result = np.asarray(np.kron(result, part), dtype=np.float64)
    return result


def _hamming(attributes: int, size: int) -> tuple[FloatArray, FloatArray]:
    """Krawtchouk sums and valencies of so many attributes of one size."""
    d, q = attributes, size - 1
    sums = [
        [
            sum((-1) ** j * q ** (k - j) * comb(i, j) * comb(d - i, k - j) for j in range(k + 1))
            for i in range(d + 1)
        ]
        for k in range(d + 1)
    ]
    return np.array(sums, dtype=float), np.array([comb(d, i) * q**i for i in range(d + 1)], float)
