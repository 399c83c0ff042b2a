"""Workloads as seen by translations: an invariant part, and ramps where order matters.

On histograms whose total is known, the prefix sums S of a histogram x − N/n say everything about an
ordered workload: prefix asks ΣS², ranges (n+1)ΣS² − (ΣS)². Around their mean S̄ the prefix sums turn
with the domain, so both are an invariant matrix plus a multiple of aaᵀ, where aᵀx = S̄: a ramp.

χᵀMχ for Walsh characters χ of binary cells: closed forms where the structure has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.local.analysis.information import (
    Information,
    inverse_where_seen,
)
from noisewright.local.strategy import DENSE_SIZE
from noisewright.local.transform.translations import (
    Translations,
    binary_sizes,
    is_power_of_two,
)
from noisewright.workload.linear.gram import (
    Gram,
    IdentityGram,
    KronGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
    XorGram,
)
from noisewright.workload.linear.marginal_gram import MarginalGram
from noisewright.workload.linear.tensor import column_kron, walsh_hadamard

# largest matrix of unknown form whose loss by averaging is looked at
_AVERAGED_SIZE = 1024

_TOLERANCE = 1e-9
"""Of the largest entry: how far an invariant matrix may be off by rounding."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """M = invariant + ramp·aaᵀ off the total, exactly.

    `eigenvalues` are those of the invariant part at the kept characters. The first one, of the
    total, is only meaningful where the total is an eigenvector of M (`whole`).
    """

    eigenvalues: FloatArray
    ramp: float = 0.0
    whole: bool = True

    def scaled(self, weight: float) -> Decomposition:
        """The same times a factor."""
        eigenvalues = weight * self.eigenvalues
        return replace(self, eigenvalues=eigenvalues, ramp=weight * self.ramp)


def ramp_vector(cells: int) -> FloatArray:
    """a: the mean of the prefix sums of a histogram is aᵀx, up to its total."""
    middle = (cells - 1) / 2
    return (middle - np.arange(cells)) / cells


def decompose(gram: Gram, group: Translations) -> Decomposition | None:
    """The exact decomposition, or None where it is not of this form or not known to be."""
    if gram.size != group.cells:
        return None
    return _decompose(gram, group)


def character_energies(gram: Gram, group: Translations) -> FloatArray | None:
    """χ*Mχ/n at the kept characters: all that an invariant strategy's average error depends on."""
    known = decompose(gram, group)
    if known is None:
        if gram.size > _AVERAGED_SIZE:
            return None
        column = _average_column(gram.dense(), group)
        (waves,) = group.forward(column[None])
        return np.asarray(np.maximum(waves.real, 0.0))

    energies = known.eigenvalues.copy()
    if known.ramp:
        (power,) = group.power(ramp_vector(group.cells)[None])
        energies += known.ramp * power / group.cells
        energies[0] = 0.0

    return energies


def possible_groups(gram: Gram) -> list[Translations]:
    """Groups of translations that may leave the matrix unchanged, likeliest first."""
    return list(dict.fromkeys(map(Translations, _possible_sizes(gram))))


def _possible_sizes(gram: Gram) -> list[tuple[int, ...]]:
    n = gram.size
    binary: list[tuple[int, ...]] = []
    if is_power_of_two(n) and n > 2:
        binary = [binary_sizes(n)]

    match gram:
        case MarginalGram():
            return [tuple(gram.sizes)]
        case ScaledGram():
            return _possible_sizes(gram.inner)
        case SumGram():
            return [sizes for part in gram.parts for sizes in _possible_sizes(part)]
        case KronGram():
            likeliest = [_possible_sizes(factor)[0] for factor in gram.factors]
            first = tuple(size for size in chain(*likeliest) if size > 1)
            return [first or (1,), *binary]
        case XorGram():
            return binary or [(n,)]
        case _:
            return [(n,), *binary]


def _average_column(m: FloatArray, group: Translations) -> FloatArray:
    """c(d) = mean over u of M[u, u+d]: the nearest invariant matrix's first column."""
    n = group.cells
    cells = np.arange(n)
    column = np.empty(n)

    for d in range(n):
        back = group.subtract(cells, np.full(n, d))
        column[d] = m[back, cells].mean()

    return column


def _decompose(gram: Gram, group: Translations) -> Decomposition | None:
    kept = len(group.counts)
    match gram:
        case IdentityGram():
            return Decomposition(np.ones(kept))
        case OnesGram():
            eigenvalues = np.zeros(kept)
            eigenvalues[0] = gram.size
            return Decomposition(eigenvalues)
        case XorGram():
            return Decomposition(gram.eigenvalues.copy()) if group.binary else None
        case MarginalGram():
            return _decompose_tables(gram, group)
        case PrefixGram():
            return _decompose_ordered(gram.size, group, 1.0)
        case RangesGram():
            return _decompose_ordered(gram.size, group, gram.size + 1.0)
        case ScaledGram():
            inner = decompose(gram.inner, group)
            return None if inner is None else inner.scaled(gram.weight)
        case SumGram():
            return _sum_of([decompose(part, group) for part in gram.parts])
        case KronGram():
            return _decompose_product(gram, group)
        case _:
            return _decompose_any(gram, group)


def _decompose_any(gram: Gram, group: Translations) -> Decomposition | None:
    """Any other matrix: asked for its first column and tried on a few random vectors."""
    if gram.size > DENSE_SIZE:
        return None

    first = np.zeros(gram.size)
    first[0] = 1.0
    column = np.asarray(gram.matvec(first), dtype=np.float64)
    (spectrum,) = group.forward(column[None])

    x = np.random.default_rng(0).standard_normal((3, gram.size))
    image = gram.matvec(x.T).T
    missed = np.abs(group.apply(spectrum, x) - image)
    largest = max(float(np.abs(image).max()), 1e-300)
    if missed.max() > _TOLERANCE * largest:
        return None

    return Decomposition(np.maximum(spectrum.real, 0.0))


def _decompose_tables(gram: MarginalGram, group: Translations) -> Decomposition | None:
    if group.sizes != tuple(gram.sizes):
        return None

    tensor = np.zeros(group.shape)
    for block, eigenvalue in gram.eigenvalues.items():
        inside = [slice(0, 1)] * len(gram.sizes)
        for axis in block:
            inside[axis] = slice(1, None)
        tensor[tuple(inside)] = eigenvalue

    return Decomposition(tensor.ravel())


def _decompose_ordered(
    cells: int, group: Translations, scale: float
) -> Decomposition | None:
    """Prefix sums, or ranges with their scale: a Laplacian's inverse on the cycle, and a ramp."""
    if len(group.sizes) != 1:
        return None

    half_angles = np.pi * np.arange(1, len(group.counts)) / cells
    eigenvalues = np.zeros(len(group.counts))
    eigenvalues[1:] = scale / (4 * np.sin(half_angles) ** 2)

    return Decomposition(eigenvalues, float(cells), whole=False)


def _sum_of(parts: Sequence[Decomposition | None]) -> Decomposition | None:
    """The sum of some matrices; None where one of them is not of this form."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None

    eigenvalues = np.asarray(sum(part.eigenvalues for part in known))
    ramp = sum(part.ramp for part in known)
    whole = all(part.whole for part in known)

    return Decomposition(eigenvalues, ramp, whole)


def _decompose_product(gram: KronGram, group: Translations) -> Decomposition | None:
    """Products of invariant matrices, each on its own run of attributes."""
    tensors = []
    rest = group.sizes

    for factor in gram.factors:
        taken = 0
        cells = 1

        while cells < factor.size and taken < len(rest):
            cells *= rest[taken]
            taken += 1

        if cells != factor.size:
            return None

        own = Translations(rest[:taken] or (1,))
        part = decompose(factor, own)
        if part is None or part.ramp or not part.whole:
            return None

        tensors.append(own.everywhere(part.eigenvalues))
        rest = rest[taken:]

    if rest:
        return None

    full = reduce(np.multiply.outer, tensors).reshape(group.sizes)
    kept = full[..., : group.shape[-1]]

    return Decomposition(kept.ravel())


# --- walsh ----------------------------------------------------------------------------------------


_Sums = tuple[FloatArray, FloatArray, FloatArray]


def padded_size(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def walsh_energies(gram: Gram) -> FloatArray:
    """χᵀMχ for every character, by mask; cells beyond the domain count as absent."""
    if is_power_of_two(gram.size):
        return _energies(gram)
    return _dense(gram)


def _dense(gram: Gram) -> FloatArray:
    if gram.size > DENSE_SIZE:
        raise TooLarge(
            f"no closed-form Walsh transform of this workload over {gram.size} cells"
        )

    full = padded_size(gram.size)
    m = np.zeros((full, full))
    m[: gram.size, : gram.size] = gram.dense()
    both = walsh_hadamard(walsh_hadamard(m).T)

    return np.asarray(np.maximum(np.diagonal(both), 0.0))


def _energies(gram: Gram) -> FloatArray:
    match gram:
        case PrefixGram():
            return prefix_sums(gram.size)[2]
        case RangesGram():
            _, sums, squares = prefix_sums(gram.size)
            return (gram.size + 1) * squares - sums**2
        case ScaledGram():
            return gram.weight * _energies(gram.inner)
        case SumGram():
            return np.asarray(sum(_energies(part) for part in gram.parts))
        case KronGram() if all(is_power_of_two(part.size) for part in gram.factors):
            return column_kron([_energies(factor) for factor in gram.factors])
        case KronGram():
            return _dense(gram)
        case _:
            known = decompose(gram, Translations(binary_sizes(gram.size)))
            return _dense(gram) if known is None else gram.size * known.eigenvalues


def prefix_sums(size: int) -> _Sums:
    """S(n), ΣS and ΣS² over all prefix sums S(1), S(2), … of every character of 2^k cells.

    Over the second half of the cells a character repeats its first half, up to its sign.
    """
    total = sums = squares = np.ones(1)  # one cell: S = 1
    length = 1

    while length < size:
        signs = np.array([1.0, -1.0]).repeat(length)
        first, sums, squares = (np.tile(part, 2) for part in (total, sums, squares))
        second = signs * sums

        total = first + signs * first
        squares = 2 * squares + length * first**2 + 2 * first * second
        sums = sums + length * first + second
        length = 2 * length

    return total, sums, squares


def block_mask(block: tuple[int, ...], attributes: int) -> int:
    """The character of a set of binary attributes; the last attribute is the lowest bit."""
    return sum(1 << (attributes - 1 - i) for i in block)


def xor_table(size: int) -> IntArray:
    """u ⊕ v for all pairs of cells."""
    cells = np.arange(size)
    return np.asarray(cells[:, None] ^ cells)


def local_subsets(attributes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All subsets of some attributes, by the number that they are: the last is the lowest bit."""
    found: list[tuple[int, ...]] = [()]
    for attribute in reversed(attributes):
        found += [(attribute, *subset) for subset in found]
    return found


@dataclass(frozen=True, eq=False)
class InvariantInformation(Information):
    """An information matrix that translations leave unchanged, by its eigenvalues."""

    group: Translations
    eigenvalues: FloatArray
    least: float = 1e-12
    """Of the largest eigenvalue: what lies at or below it counts as lost."""

    @property
    def size(self) -> int:
        """Number of types."""
        return self.group.cells

    @property
    def full_rank(self) -> bool:
        """Whether every character is seen."""
        return bool(self.inverse.all())

    @cached_property
    def inverse(self) -> FloatArray:
        """Eigenvalues of the pseudo-inverse."""
        lost = self.least * float(self.eigenvalues.max())
        return inverse_where_seen(self.eigenvalues, lost)

    def _apply(self, eigenvalues: FloatArray, x: FloatArray) -> FloatArray:
        rows = x[None] if x.ndim == 1 else x.T
        result = self.group.apply(eigenvalues, np.asarray(rows, dtype=np.float64))
        return result[0] if x.ndim == 1 else result.T

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        return self._apply(self.eigenvalues, x)

    def solve(self, x: FloatArray) -> FloatArray:
        """Pseudo-inverse applied to `x`."""
        return self._apply(self.inverse, x)
