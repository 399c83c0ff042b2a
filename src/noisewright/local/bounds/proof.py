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
from noisewright.errors import FileFormatError, InvalidParameter, refusing, require
from noisewright.local.storage import stored

EPS = 2.0**-52
# of the two numbers whose difference a floor is: far above their own rounding
_MARGIN = 2.0**-40
_WIDENINGS = (1.0, 16.0, 256.0, 2.0**16, 2.0**28)


Layout = Mapping[str, tuple[npt.DTypeLike, int]]
"""Types of arrays by their names, and how many axes they have."""


@dataclass(frozen=True, eq=False)
class Proof(ABC):
    """The cells that a proof is about, π, Y and λ: whatever they are, their check says what of."""

    kind: ClassVar[str]
    most_cells: ClassVar[int]
    layout: ClassVar[Layout]
    """What its multipliers are in a file."""
    cells: IntArray
    prior: FloatArray
    factor: FloatArray
    prices: FloatArray

    def __post_init__(self) -> None:
        n = len(self.cells)
        require(
            n and not (np.diff(self.cells) <= 0).any() and self.cells[0] >= 0,
            "cells",
            "array",
            "must rise from zero on",
        )

        self._check_shapes(
            prior=(n,), factor=(n, self.factor.shape[-1]), prices=(n,), **self._shapes()
        )
        require(
            self.prior.min() >= 0 and abs(float(self.prior.sum()) - 1.0) <= 1e-9,
            "prior",
            "array",
            "must be a distribution",
        )

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Self:
        """The proof in a file: any numbers of its form, for it proves what it proves."""
        with refusing("the proof is incomplete or damaged"):
            cells = stored(arrays, "cells", np.int64, (None,))
            if len(cells) > cls.most_cells:
                raise FileFormatError(
                    f"a proof over {len(cells)} cells is too large; plan again"
                )

            common = {
                "prior": (np.float64, 1),
                "factor": (np.float64, 2),
                "prices": (np.float64, 1),
            }
            parts = {
                name: stored(arrays, name, dtype, (None,) * axes)
                for name, (dtype, axes) in {**common, **cls.layout}.items()
            }
            return cls(cells, **parts)

    def _check_shapes(self, **shapes: tuple[int, ...]) -> None:
        for name, shape in shapes.items():
            array = getattr(self, name)
            require(
                array.shape == shape and np.isfinite(array).all(),
                name,
                f"{array.shape}",
                f"must be finite, of shape {shape}",
            )

    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """What shapes its multipliers must have."""

    @abstractmethod
    def rise(self, epsilon: float) -> float:
        """What prices must rise by, in sum, for every set to meet the condition, proved."""

    @property
    def size(self) -> int:
        """How many cells it is about."""
        return len(self.cells)

    def variance(self, gram: FloatArray, epsilon: float) -> float:
        """The floor under the worst-case variance that it proves; −∞ where it proves nothing."""
        if self.cells[-1] >= len(gram):
            raise InvalidParameter(
                "proof", int(self.cells[-1]), f"must be over {len(gram)} cells"
            )

        prices = self.prices
        total = float(prices.sum()) + len(prices) * EPS * float(np.abs(prices).sum())
        inner = gram[np.ix_(self.cells, self.cells)]

        return floor_of(inner, self.prior, self.factor, total + self.rise(epsilon))


def floor_of(gram: FloatArray, prior: FloatArray, y: FloatArray, limit: float) -> float:
    """‖W(I − π1ᵀ)Y‖_*² over the sum of prices, less what is known; −∞ where that says nothing."""
    n = len(gram)
    # one, but for rounding: else prices were for as much more
    share = float(prior.sum())
    prior = prior / share
    limit = limit * share
    unit = float(np.trace(gram)) / n
    if not 0.0 < unit < inf or not 0 < limit < inf:
        return -inf

    m = gram / unit
    mean = m @ prior
    centred = m - mean[:, None] - mean[None, :] + float(prior @ mean)
    inner = y.T @ centred @ y
    # bounds |Yᵀ||M| entries
    reach = np.abs(m).max(initial=0.0) * 4.0 * np.abs(y).sum(axis=0)
    noise = 16 * (2 * n + len(reach)) * EPS * float(reach @ np.abs(y).sum(axis=0))
    values = np.maximum(np.linalg.eigvalsh((inner + inner.T) / 2) - noise, 0.0)
    moment = float(np.sqrt(values).sum()) ** 2 / limit
    known = max(float(prior @ np.diagonal(centred)), 0.0)
    together = float(prior @ np.diagonal(m))

    return unit * (moment - known - _MARGIN * (moment + together))


def largest_eigenvalue(matrix: FloatArray) -> float:
    """An upper bound on the largest eigenvalue of a symmetric matrix, proved; ∞ where it fails.

    If cI − G has a Cholesky factor in floating point, the exact product of that factor with its
    transpose differs from it by at most (n+1)·ε·tr(cI − G), so G has no eigenvalue beyond c and
    that much.
    """
    n = len(matrix)
    top = float(np.linalg.eigvalsh(matrix)[-1])
    diagonal = np.diagonal(matrix)
    slack = (
        8 * (n + 2) * EPS * float(np.abs(top - diagonal).sum() + n * abs(top) + 1e-300)
    )

    for widening in _WIDENINGS:
        shift = top + widening * slack
        try:
            np.linalg.cholesky(shift * np.eye(n) - matrix)
        except np.linalg.LinAlgError:
            continue
        return shift + (widening + 1) * slack

    return inf


def symmetric(packed: FloatArray, n: int) -> FloatArray:
    """The matrix with this upper triangle."""
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = packed
    return matrix + np.triu(matrix, 1).T
