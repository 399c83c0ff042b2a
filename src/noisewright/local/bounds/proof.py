"""What all stored proofs of a local floor have in common, and the arithmetic that checks them.

A report that some best strategy makes says "e^ε if you are in S, 1 if not": v = 1 + r·1_S with
r = e^ε − 1. A proof states a distribution π, Z = YYᵀ and prices λ with vᵀZv ≤ (λᵀv)(πᵀv) for every
set S of its cells, and multipliers from which that can be seen; kinds of proofs differ by these.
With the information X = Σ_S μ_S v_S v_Sᵀ/(πᵀv_S), where Σ_S μ_S v_S = 1, the inequality gives
tr(ZX) ≤ 1ᵀλ, and by Cauchy–Schwarz tr(MX⁻¹)·tr(ZX) ≥ ‖WY‖_*², so that no strategy's worst-case
variance is below

    ‖W(I − π1ᵀ)Y‖_*² / 1ᵀλ − Σ_u π_u ‖W(e_u − π)‖².

A proof may be about some cells only: what people of these types cannot beat, nobody can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    refusing_unforeseen,
    require,
)
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.storage import stored_array

EPS = 2.0**-52
"""The spacing of double precision: twice what rounding a number to it may change."""

MARGIN = 2.0**-40
"""Of the two numbers whose difference a floor is: far above their own rounding."""

_WIDENINGS = (1.0, 16.0, 256.0, 2.0**16, 2.0**28)
"""Multiples of the rounding that an eigenvalue is raised by until a factorization succeeds: the
first nearly always does."""

Layout = Mapping[str, tuple[npt.DTypeLike, str]]
"""Types of arrays by their names, and a letter for each of their axes."""

_COMMON: Layout = {
    "prior": (np.float64, "n"),
    "factor": (np.float64, "nf"),
    "prices": (np.float64, "n"),
}


@dataclass(frozen=True, eq=False)
class Proof(ABC):
    """The cells that a proof is about, π, Y and λ: whatever they are, their check says what of."""

    kind: ClassVar[str]
    most_cells: ClassVar[int]
    layout: ClassVar[Layout]
    """Its multipliers. Axes with the same letter are equally long; n stands for cells, t for the
    entries of an upper triangle over them, b for one more than the yes/no attributes they have."""
    cells: IntArray
    prior: FloatArray
    factor: FloatArray
    prices: FloatArray

    def __post_init__(self) -> None:
        require(len(self.cells), "cells", 0, "must be one or more")
        check_rising("cells", self.cells, 0, inf)
        self._check_shapes()

        rule = "must be a distribution"
        require(self.prior.min() >= 0, "prior", "array", rule)
        require(abs(self.prior.sum() - 1.0) <= 1e-9, "prior", "array", rule)

    def _check_shapes(self) -> None:
        n = self.size
        extents = {
            "n": n,
            "t": n * (n + 1) // 2,
            "b": n.bit_length(),
        }
        for name, (_, letters) in {**_COMMON, **self.layout}.items():
            array: Array = getattr(self, name)
            pairs = zip(letters, array.shape, strict=False)
            shape = [extents.setdefault(letter, length) for letter, length in pairs]

            fits = len(shape) == len(letters) and array.shape == tuple(shape)
            rule = f"must be finite, of shape {shape}"
            require(fits, name, f"{array.shape}", rule)
            require(np.isfinite(array).all(), name, "array", rule)

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Self:
        """The proof in a file: any numbers of its form, for it proves what it proves."""
        with refusing_unforeseen("the proof is incomplete or damaged"):
            cells = stored_array(arrays, "cells", np.int64, (None,))
            if len(cells) > cls.most_cells:
                raise FileFormatError(
                    f"a proof over {len(cells)} cells is too large; plan again"
                )

            parts = {}
            for name, (dtype, letters) in {**_COMMON, **cls.layout}.items():
                lengths = (None,) * len(letters)
                parts[name] = stored_array(arrays, name, dtype, lengths)
            return cls(cells, **parts)

    @property
    def size(self) -> int:
        """How many cells it is about."""
        return len(self.cells)

    @abstractmethod
    def rise(self, epsilon: float) -> float:
        """What prices must rise by, in sum, for every set to meet the condition, proved."""

    def condition(self) -> tuple[FloatArray, FloatArray]:
        """Φ = YYᵀ − (λπᵀ + πλᵀ)/2, and a bound on the numbers that its entries are sums of.

        Every set's v must have vᵀΦv ≤ 0.
        """
        y = self.factor
        sides = np.outer(self.prices, self.prior)
        phi = y @ y.T - symmetrised(sides)

        magnitudes = np.abs(sides)
        bound = np.abs(y) @ np.abs(y).T + symmetrised(magnitudes)
        return symmetrised(phi), bound

    def variance(self, gram: FloatArray, epsilon: float) -> float:
        """The floor under the worst-case variance that it proves; −∞ where it proves nothing."""
        if self.cells[-1] >= len(gram):
            raise InvalidParameter(
                "proof", int(self.cells[-1]), f"must be over {len(gram)} cells"
            )

        limit = float(self.prices.sum()) + self.rise(epsilon)
        limit += self.size * EPS * float(np.abs(self.prices).sum())
        inner = gram[np.ix_(self.cells, self.cells)]
        return _floor_of(inner, self.prior, self.factor, limit)


def check_rising(
    name: str,
    numbers: IntArray,
    least: float,
    most: float,
) -> None:
    """Refuse numbers that do not rise, or leave their range."""
    rises = (np.diff(numbers) > 0).all()
    inside = (np.clip(numbers, least, most) == numbers).all()
    rule = f"must rise between {least:g} and {most:g}"
    require(rises and inside, name, "array", rule)


def check_not_negative(proof: Proof, *names: str) -> None:
    """Refuse multipliers of inequalities with the wrong sign."""
    for name in names:
        least = getattr(proof, name).min(initial=0.0)
        require(least >= 0, name, "array", "must not be negative")


def _floor_of(
    gram: FloatArray,
    prior: FloatArray,
    factor: FloatArray,
    limit: float,
) -> float:
    """‖W(I − π1ᵀ)Y‖_*² over the sum of prices, less what is known; −∞ where that says nothing."""
    n = len(gram)
    columns: int = factor.shape[1]

    # The prior sums to one but for rounding: else prices would be for as much more.
    total = float(prior.sum())
    prior = prior / total
    limit = limit * total
    scale = float(np.trace(gram)) / n
    if not 0.0 < scale < inf or not 0 < limit < inf:
        return -inf

    m = gram / scale
    mean = m @ prior
    centred = m - mean[:, None] - mean + float(prior @ mean)

    # Eigenvalues of YᵀMY, less what rounding may have added: sums of |Y| bound its entries.
    inner = factor.T @ centred @ factor
    heights = np.abs(factor).sum(axis=0)
    largest = 4.0 * np.abs(m).max(initial=0.0)
    size = largest * float(heights @ heights)
    rounding = 16 * (2 * n + columns) * EPS * size
    values = np.linalg.eigvalsh(symmetrised(inner))
    singular = np.sqrt(np.maximum(values - rounding, 0.0))
    nuclear = float(singular.sum())

    moment = nuclear**2 / limit
    known = max(float(prior @ np.diagonal(centred)), 0.0)
    mean_square = float(prior @ np.diagonal(m))
    return scale * (moment - known - MARGIN * (moment + mean_square))


def largest_eigenvalue(matrix: FloatArray) -> float:
    """An upper bound on the largest eigenvalue of a symmetric matrix, proved; ∞ where it fails.

    If cI − G has a Cholesky factor in floating point, the exact product of that factor with its
    transpose differs from it by at most (n+1)·ε·tr(cI − G), so G has no eigenvalue beyond c and
    that much.
    """
    n = len(matrix)
    top = float(np.linalg.eigvalsh(matrix)[-1])
    trace = float(np.abs(top - np.diagonal(matrix)).sum())
    size = trace + n * abs(top) + 1e-300
    slack = 8 * (n + 2) * EPS * size

    for widening in _WIDENINGS:
        shift = top + widening * slack
        try:
            np.linalg.cholesky(shift * np.eye(n) - matrix)
        except np.linalg.LinAlgError:
            continue
        return shift + (widening + 1) * slack

    return inf


def symmetric(packed: Array, n: int) -> FloatArray:
    """The matrix with this upper triangle."""
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = packed
    return matrix + np.triu(matrix, 1).T
