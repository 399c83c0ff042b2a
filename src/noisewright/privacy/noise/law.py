"""The law a release's noise follows: what was drawn, and how much it varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import erfc, exp, pi, sinh, sqrt
from typing import Literal, get_args

from noisewright.arrays import IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.privacy.exact.rounding import checked_scale
from noisewright.privacy.noise import integers as noise
from noisewright.privacy.noise.source import ByteSource

LawName = Literal["rounded-gaussian", "discrete-laplace"]
LAWS: tuple[str, ...] = get_args(LawName)

_MEANING = {
    "rounded-gaussian": "Gaussian rounded to the grid, σ",
    "discrete-laplace": "discrete Laplace, scale",
}


@dataclass(frozen=True)
class NoiseLaw:
    """A symmetric law on the integers; `scale` (σ, or the Laplace scale) is in grid steps."""

    law: LawName
    scale: float

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise InvalidParameter("law", self.law, f"must be one of {', '.join(LAWS)}")
        checked_scale("scale", self.scale)
        object.__setattr__(self, "scale", float(self.scale))

    def sample(self, size: noise.Size, source: ByteSource | None = None) -> IntArray:
        """Draw independent integers of this law; only tests pass a source."""
        gaussian = self.law == "rounded-gaussian"
        draw = noise.rounded_gaussian if gaussian else noise.discrete_laplace
        return draw(self.scale, size, source)

    @cached_property
    def variance(self) -> float:
        """The variance of the integers actually drawn, rounding included."""
        if self.law == "rounded-gaussian":
            return _rounded_gaussian_variance(self.scale)
        return _discrete_laplace_variance(self.scale)

    @cached_property
    def standard_deviation(self) -> float:
        """The square root of the variance."""
        return sqrt(self.variance)

    def text(self) -> str:
        """Describe the law for a reader."""
        return f"{_MEANING[self.law]} = {self.scale:.6g} grid steps"

    def to_dict(self) -> dict[str, str | float]:
        """Return the law ready for JSON; `from_dict` gives it back."""
        return {"law": self.law, "scale": self.scale}

    @classmethod
    def from_dict(cls, stated: Mapping[str, object]) -> NoiseLaw:
        """Rebuild a law from `to_dict`."""
        require(
            set(stated) == {"law", "scale"},
            "noise",
            sorted(stated),
            "must hold exactly law and scale",
        )
        return cls(**stated)  # type: ignore[arg-type]  # checked as a user's own


_DUAL_FROM = 1.0
"""Scale σ from which the dual series of a rounded Gaussian's variance needs one term.

The next is below 4.1 e^(−8π²), 3e-34. Below this scale the direct sum needs at most a dozen.
"""

_TAIL_CUT = 12
"""Deviations beyond which a Gaussian tail, below 4e-33, is left out of the direct sum."""

_LARGEST_HALF_RATE = 300
"""1/(2 scale) beyond which discrete Laplace noise varies by less than 1e-259: it is all zeros.

From 356 on, sinh² would overflow.
"""


def _rounded_gaussian_variance(sigma: float) -> float:
    """Sum (2m-1) Pr(|k| >= m), or its Poisson dual σ² + 1/12 + Σ (-1)^n q^(n²)(4σ² + 1/(πn)²)."""
    if sigma < _DUAL_FROM:
        steps = range(1, 2 + int(_TAIL_CUT * sigma))
        return sum((2 * m - 1) * erfc((m - 0.5) / (sqrt(2) * sigma)) for m in steps)

    q = exp(-2 * (pi * sigma) ** 2)
    return sigma**2 + 1 / 12 - q * (4 * sigma**2 + 1 / pi**2)


def _discrete_laplace_variance(scale: float) -> float:
    """Return 2α/(1-α)² with α = e^(-1/scale), by sinh, which keeps digits at large scales."""
    half_rate = 0.5 / scale
    if half_rate > _LARGEST_HALF_RATE:
        return 0.0
    return 0.5 / sinh(half_rate) ** 2
