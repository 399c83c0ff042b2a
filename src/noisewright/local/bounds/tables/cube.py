"""Triples of cells of {0, 1}^d, counted by their distances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.tables.scheme import krawtchouk


@dataclass(frozen=True)
class Cube:
    """Triples of cells of {0, 1}^bits by their distances."""

    bits: int

    @property
    def side(self) -> int:
        """How many distances there are."""
        return self.bits + 1

    @cached_property
    def weights(self) -> IntArray:
        """How many attributes of a cell are one."""
        return np.array([cell.bit_count() for cell in range(2**self.bits)])

    @cached_property
    def apart(self) -> IntArray:
        """|v ⊕ w|, for all v and w."""
        cells = np.arange(2**self.bits)
        return self.weights[cells[:, None] ^ cells]

    @cached_property
    def classes(self) -> IntArray:
        """The number of (|v|, |w|, |v ⊕ w|), for all v and w."""
        w = self.weights
        both = w[:, None] * self.side + w
        return both * self.side + self.apart

    @cached_property
    def pairs(self) -> IntArray:
        """How many v and w there are of each class."""
        counts = np.bincount(self.classes.ravel(), minlength=self.side**3)
        return counts.reshape([self.side] * 3)

    @cached_property
    def triples(self) -> list[tuple[int, ...]]:
        """Distances of three different cells, rising."""
        distances = combinations_with_replacement(range(1, self.side), 3)
        return [three for three in distances if self.pairs[three] > 0]

    @cached_property
    def variable(self) -> IntArray:
        """Which unknown T_ijc is: A_0 … A_d come first, then the triples; −1 where it is none."""
        numbers = {three: place for place, three in enumerate(self.triples, self.side)}
        table = np.full([self.side] * 3, -1)
        for distances in np.argwhere(self.pairs > 0):
            low, middle, high = sorted(map(int, distances))
            table[tuple(distances)] = numbers[low, middle, high] if low else high

        return table

    @cached_property
    def waves(self) -> FloatArray:
        """Sums of the characters of degree j at weight i."""
        return krawtchouk(self.bits, 2)

    @cached_property
    def blocks(self) -> list[FloatArray]:
        """For each kind of symmetry, the 0/1 matrices of all classes in a basis by weight.

        A basis vector is a product of differences of two attributes each, on cells of one weight
        (Schrijver [046]).
        """
        cells = np.arange(2**self.bits)
        sign = np.ones(len(cells))
        blocks = [self._block(0, sign)]
        for kind in range(1, self.bits // 2 + 1):
            one = cells >> (2 * kind - 2) & 1
            other = cells >> (2 * kind - 1) & 1
            sign = sign * (one - other)
            blocks.append(self._block(kind, sign))
        return blocks

    def _block(self, kind: int, sign: FloatArray) -> FloatArray:
        """Basis vectors are signs on the layers of cells of one weight, of length one."""
        layers = np.arange(kind, self.bits - kind + 1)
        basis = np.where(self.weights == layers[:, None], sign, 0.0)
        basis /= np.linalg.norm(basis, axis=1)[:, None]

        # One layer holds each cell: its entry of the basis, and the layer's number.
        inside = np.flatnonzero(sign)
        entries = basis[:, inside].sum(axis=0)
        layer = self.weights[inside] - kind
        count = len(layers)

        classes = self.classes[np.ix_(inside, inside)]
        sums = np.zeros((self.side**3, count, count))
        place = (classes, layer[:, None], layer)
        np.add.at(sums, place, np.outer(entries, entries))
        return sums


@lru_cache(maxsize=4)
def cube(bits: int) -> Cube:
    """The one of so many attributes."""
    return Cube(bits)
