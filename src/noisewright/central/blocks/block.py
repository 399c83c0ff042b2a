"""One block of a strategy: exact integer measurements of one marginal table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import inf, prod

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.privacy.exact.rounding import float_above
from noisewright.workload.linear.tensor import apply_along_axes
from noisewright.workload.structure import Term

Table = tuple[int, ...]

_LARGEST = 2**62  # below it sums and differences of two numbers fit a word of 64 bits
_ENTRY = 2**48  # sums over thousands of rows then still fit 64 bits
_UNSEEN = 1e-9  # of a term's trace: what a block may miss of it by rounding
_MARGIN = 1 + 1e-9  # above all rounding in sums of non-negative terms


@dataclass(frozen=True, eq=False)
class Block:
    """Integer measurements, `multiplier` times ⊗ factors, of one marginal table.

    Its noise has `noise` times the strategy's scale. The multiplier makes the grid fine: counts
    become multiples of it, the noise does not. `weights` (one axis per factor, of its rows or of
    length one) multiply single rows further, so that some are measured more exactly than others.
    """

    attributes: Table
    factors: tuple[IntArray, ...]
    noise: float = 1.0
    multiplier: int = 1
    weights: IntArray | None = None

    def __post_init__(self) -> None:
        """Refuse, from an edited file too, what sensitivity and measurement might read apart."""
        if any(a >= b for a, b in pairwise((-1, *self.attributes))):
            rule = "must be in order, each once"
            raise InvalidParameter("attributes", self.attributes, rule)

        shapes = [factor.shape for factor in self.factors]
        matrices = all(len(shape) == 2 and prod(shape) for shape in shapes)
        if not matrices or len(shapes) != len(self.attributes):
            raise InvalidParameter(
                "factors", shapes, "must be one matrix per attribute"
            )

        for factor in self.factors:
            least, most = factor.min(), factor.max()
            if factor.dtype != np.int64 or least < -_ENTRY or most > _ENTRY:
                rule = f"must be 64-bit integers up to {_ENTRY}"
                raise InvalidParameter("factors", factor.dtype.name, rule)

        if type(self.multiplier) is not int or self.multiplier < 1:
            rule = "must be an integer >= 1"
            raise InvalidParameter("multiplier", self.multiplier, rule)
        if not 0 < self.noise < inf:
            raise InvalidParameter("noise", self.noise, "must be finite and > 0")

        if self.weights is not None:
            self._check_weights(self.weights)

    def _check_weights(self, weights: IntArray) -> None:
        fits = weights.ndim == len(self.factors) and all(
            length in (1, len(factor))
            for length, factor in zip(weights.shape, self.factors, strict=True)
        )
        require(
            fits
            and weights.dtype == np.int64
            and weights.min() >= 1
            and weights.max() <= _ENTRY,
            "weights",
            weights.shape,
            "must be integers >= 1, one per row",
        )

    @cached_property
    def matrices(self) -> dict[int, IntArray]:
        """The factor of every attribute."""
        return dict(zip(self.attributes, self.factors, strict=True))

    @cached_property
    def inverses(self) -> dict[int, FloatArray]:
        """Pseudo-inverse of every factor."""
        return {i: _pseudo_inverse(factor) for i, factor in self.matrices.items()}

    @cached_property
    def differences(self) -> frozenset[int]:
        """Attributes whose factor sees only differences: every row sums to zero, exactly."""
        return frozenset(
            i for i, factor in self.matrices.items() if not factor.sum(axis=1).any()
        )

    @property
    def _lengths(self) -> list[int]:
        """Rows of every factor."""
        return [len(factor) for factor in self.factors]

    @property
    def rows(self) -> int:
        """Number of measured integers."""
        return prod(self._lengths)

    @property
    def scales(self) -> float | FloatArray:
        """What every row is multiplied by: one number, or one per row."""
        if self.weights is None:
            return float(self.multiplier)
        spread = np.broadcast_to(self.weights, self._lengths)
        return self.multiplier * spread.ravel().astype(np.float64)

    def measure(self, table: IntArray) -> IntArray:
        """Exact integers, whatever the counts: to refuse large ones would tell how large they are.

        64-bit words wrap around on the way, which is harmless as long as the results fit; where
        they might not, Python's integers are used.
        """
        if table.dtype.kind not in "iu":
            rule = "must hold integer counts"
            raise InvalidParameter("table", table.dtype.name, rule)

        heaviest = 1 if self.weights is None else int(self.weights.max())
        largest = heaviest * self.multiplier
        largest *= prod(int(np.abs(f).max(initial=0)) for f in self.factors)
        people = float(np.abs(table).sum(dtype=np.float64))
        word = np.uint64 if people < _LARGEST // max(1, largest) else object

        factors = [factor.astype(word) for factor in self.factors]
        measured = along_axes(factors, table.astype(word))
        scaled = measured * np.array(self.multiplier, dtype=word)
        if self.weights is not None:
            spread = np.broadcast_to(self.weights, self._lengths)
            scaled = scaled * spread.ravel().astype(word)

        return np.asarray(scaled if word is object else scaled.view(np.int64))

    def change(
        self,
        order: int,
        neighbours: str,
    ) -> Fraction:
        """Bound on the order-th power of the change one neighbour makes, in units of the noise."""
        added = neighbours == "add-remove"
        scale = (Fraction(self.noise) / self.multiplier) ** order
        if self.weights is not None:
            largest = Fraction(float(self.cell_changes(order).max()))
            changes = 1 if added else 2**order
            bound = Fraction(float_above(largest)) * Fraction(_MARGIN)
            return changes * bound / scale

        whole = prod(
            int((np.abs(factor.astype(object)) ** order).sum(axis=0).max())
            for factor in self.factors
        )
        if added:
            return Fraction(whole) / scale
        if not self.factors:
            return Fraction(0)
        if order == 1:
            return Fraction(self._largest_l1_distance) / scale

        return Fraction(2 * whole - 2 * self._smallest_product()) / scale

    def cell_changes(self, order: int) -> FloatArray:
        """Σ over rows of |entry|^order for every cell, before multiplier and noise, as floats."""
        weights = 1.0 if self.weights is None else self.weights.astype(np.float64)
        start = np.broadcast_to(weights**order, self._lengths)
        powers = [np.abs(f.T.astype(np.float64)) ** order for f in self.factors]
        return along_axes(powers, start).reshape([len(power) for power in powers])

    def variance_of(self, term: Term) -> float:
        """Variance of a term's answers from this block alone; infinite where it misses any."""
        total = (self.noise / self.multiplier) ** 2
        for i, factor in self.matrices.items():
            inverse = self.inverses[i]
            gram = _gram_of(term, i, len(inverse))
            unseen = np.eye(len(inverse)) - inverse @ factor
            missed = np.einsum("ij,ij->", unseen, gram @ unseen)
            if missed > _UNSEEN * np.trace(gram):
                return inf
            total *= float(np.einsum("ij,ij->", gram @ inverse, inverse))

        return total

    def _smallest_product(self) -> int:
        """Least inner product of two columns, by interval products over the factors."""
        ends = (1, 1)
        for factor in self.factors:
            gram = exact_gram(factor)
            products = [e * int(g) for e in ends for g in (gram.min(), gram.max())]
            ends = (min(products), max(products))

        return ends[0]

    @cached_property
    def _largest_l1_distance(self) -> int:
        """Largest distance of two columns: exact for one factor, an upper bound for products."""
        largest = prod(int(_lengths(factor).max()) for factor in self.factors)
        if any(factor.shape[1] > 2048 for factor in self.factors):
            return 2 * largest
        if len(self.factors) == 1:
            return max(int(row.max()) for row in _column_distances(self.factors[0]))
        return 2 * largest - 2 * prod(_least_overlap(factor) for factor in self.factors)


def along_axes(matrices: Sequence[Array], tensor: Array) -> Array:
    """One matrix applied along every axis of a tensor; the result is flat."""
    maps = [(*matrix.shape, matrix.__matmul__) for matrix in matrices]
    return apply_along_axes(maps, np.ascontiguousarray(tensor).reshape(-1))


def _wide(factor: IntArray) -> Array:
    """The same integers, as Python's own where sums of their differences might not fit a word."""
    bound = 2 * int(np.abs(factor).max(initial=0)) * len(factor)
    return factor if bound < _LARGEST else factor.astype(object)


def _lengths(factor: IntArray) -> Array:
    return np.asarray(np.abs(_wide(factor)).sum(axis=0))


def _column_distances(factor: IntArray) -> Iterator[Array]:
    """L1 distances from every column to all; rows of one cell each, or constant, need no pairs."""
    factor = _wide(factor)
    alone = (factor != 0).sum(axis=1) == 1
    lengths = np.abs(factor[alone]).sum(axis=0)
    varies = (factor != factor[:, :1]).any(axis=1)
    columns = factor[varies & ~alone].T.copy()

    for number, column in enumerate(columns):
        apart = np.abs(columns - column).sum(axis=1)
        distances = lengths + lengths[number] + apart
        distances[number] = 0
        yield distances


def _least_overlap(factor: IntArray) -> int:
    """Least L1 norm that two columns u, v share: ‖u − v‖₁ = ‖u‖₁ + ‖v‖₁ − 2·shared.

    What u ⊗ u' and v ⊗ v' share is at least the product of what their factors share.
    """
    lengths = _lengths(factor)
    pairs = zip(lengths, _column_distances(factor), strict=True)
    shared = [int((length + lengths - distance).min()) for length, distance in pairs]
    return min(shared) // 2


def exact_gram(factor: IntArray) -> Array:
    """Inner products of all columns, in as many bits as they need."""
    bound = int(np.abs(factor).max(initial=0)) ** 2 * len(factor)
    work = factor if bound < _LARGEST else factor.astype(object)
    return work.T @ work


def _pseudo_inverse(factor: IntArray) -> FloatArray:
    real = factor.astype(np.float64)
    return real if is_identity(factor) else np.asarray(np.linalg.pinv(real), np.float64)


def is_identity(factor: IntArray) -> bool:
    """Whether a factor measures every value by itself."""
    square = factor.shape[0] == factor.shape[1]
    return square and bool((factor == np.eye(len(factor))).all())


def orthogonal(blocks: Sequence[Block]) -> bool:
    """Whether no row of a block tells anything of a row of another, exactly."""
    tables = {block.attributes for block in blocks}
    contrasts = all(block.differences == block.matrices.keys() for block in blocks)
    if len(tables) == len(blocks) and contrasts:
        return True  # distinct interactions of attributes never overlap
    return all(_orthogonal_pair(a, b) for a, b in combinations(blocks, 2))


def _orthogonal_pair(a: Block, b: Block) -> bool:
    """Whether the products of rows vanish on some attribute: of one alone, they are its sums."""
    common = a.matrices.keys() & b.matrices.keys()
    if (a.differences | b.differences) - common:
        return True
    return any(
        not (a.matrices[i].astype(object) @ b.matrices[i].T.astype(object)).any()
        for i in common
    )


def _gram_of(term: Term, attribute: int, size: int) -> FloatArray:
    """The Gram matrix of a term on one attribute; of all its cells where it is no product."""
    if attribute not in term.attributes:
        return np.ones((size, size))
    if term.factors is None:
        return np.eye(size)
    return term.by_attribute[attribute].gram().dense()
