"""Parities of binary attributes: characters of the cube."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import comb

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.workload.base import Workload, check_size
from noisewright.workload.linear.gram import Gram, XorGram
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.linear_map import Shape, check_order
from noisewright.workload.linear.tensor import DENSE_LIMIT, Sizes, walsh_hadamard

_MOST_CHARACTERS = 2**20  # listed one by one


@dataclass(frozen=True)
class Parity(Workload):
    """Characters (−1)^{⟨χ,u⟩} of `lowest` to `highest` of `bits` binary attributes."""

    bits: int
    lowest: int
    highest: int

    def __post_init__(self) -> None:
        if check_size("bits", self.bits) > 62:
            raise TooLarge(
                f"parity over {self.bits} bits; cells are numbered up to 2^62"
            )
        if not 0 <= self.lowest <= self.highest <= self.bits:
            raise InvalidParameter(
                "degree",
                (self.lowest, self.highest),
                f"must lie between 0 and the number of bits, {self.bits}",
                "lower the degree or add bits",
            )

    @property
    def _degrees(self) -> range:
        return range(self.lowest, self.highest + 1)

    @property
    def shape(self) -> Shape:
        queries = sum(comb(self.bits, degree) for degree in self._degrees)
        return queries, 2**self.bits

    @property
    def named_sizes(self) -> Sizes:
        return (2,) * self.bits

    @property
    def invariant_axes(self) -> Sizes:
        return self.named_sizes

    @cached_property
    def attributes(self) -> tuple[Table, ...]:
        """The bits of each character asked, by degree."""
        if self.queries > _MOST_CHARACTERS:
            raise TooLarge(
                f"workload {self.text()} has {self.queries} queries; they are listed up to "
                f"{_MOST_CHARACTERS}; ask about fewer bits, or lower the degree"
            )

        bits = range(self.bits)
        by_degree = (combinations(bits, degree) for degree in self._degrees)

        return tuple(chain.from_iterable(by_degree))

    @cached_property
    def characters(self) -> Array:
        """The characters asked, as bit masks over cells, by degree."""
        if self.size > DENSE_LIMIT:
            raise TooLarge(
                f"workload {self.text()} has {self.size} cells; its characters are transformed up "
                f"to {DENSE_LIMIT}; ask about fewer bits"
            )

        masks = [
            sum(1 << (self.bits - 1 - i) for i in chosen) for chosen in self.attributes
        ]
        return np.array(masks, dtype=np.int64)

    def matvec(self, x: Array) -> Array:
        return walsh_hadamard(x)[self.characters]

    def rmatvec(self, y: Array) -> Array:
        batch = y.shape[1:]
        spectrum = np.zeros((self.size, *batch), y.dtype)
        spectrum[self.characters] = y

        return walsh_hadamard(spectrum)

    def rows(self, start: int, stop: int) -> FloatArray:
        cells = np.arange(self.size)
        masks = self.characters[start:stop, None]

        odd = np.bitwise_count(cells & masks) & 1

        return np.asarray(1.0 - 2.0 * odd)

    def gram(self) -> Gram:
        """Gram matrix: every asked character has eigenvalue n."""
        chosen = self.characters
        eigenvalues = np.zeros(self.size)
        eigenvalues[chosen] = self.size

        return XorGram(eigenvalues)

    def text(self) -> str:
        if self.lowest == self.highest:
            return f"parity:{self.bits}:{self.highest}"
        if self.lowest == 0:
            return f"parity:{self.bits}:<={self.highest}"

        return f"parity:{self.bits}:{self.lowest}-{self.highest}"

    def label(self, row: int) -> str:
        mask = int(self.characters[row])
        chosen = [str(i) for i in range(self.bits) if mask >> (self.bits - 1 - i) & 1]

        return "parity(" + ",".join(chosen) + ")"

    def column_norms(self, order: int = 2) -> FloatArray:
        length = float(self.queries) ** (1 / check_order(order))
        return np.full(self.size, length)

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.full(self.queries, x.sum())

    def _largest_distance(self, order: int) -> float:
        square = self.gram().largest_distance_squared()
        # Columns of ±1 entries: an ℓ1 distance is half the squared ℓ2 distance.
        return float(np.sqrt(square)) if order == 2 else square / 2
