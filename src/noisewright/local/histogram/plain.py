"""What many strategies share: outcomes that are a person's own, and a few plain parameters."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields
from fractions import Fraction
from functools import cached_property

from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import check_epsilon, exponential, odds_threshold
from noisewright.local.histogram.centred import check_cells
from noisewright.local.reading import whole
from noisewright.local.strategy import Strategy


class FavouringStrategy(Strategy):
    """Every person has as many outcomes of their own, each e^ε times likelier than any other."""

    @property
    @abstractmethod
    def favoured(self) -> tuple[int, int]:
        """Number of outcomes that are one's own, and of all."""

    @cached_property
    def threshold(self) -> int:
        """Chance of an own outcome, out of 2^64."""
        own, every = self.favoured
        return odds_threshold(exponential(self.epsilon) * Fraction(own, every - own))


class PlainStrategy(Strategy):
    """A strategy over cells whose dataclass fields are plain numbers, and all there is to it."""

    def __post_init__(self) -> None:
        check_cells(self.size)
        check_epsilon(self.epsilon)
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.type == "int":
                whole(field.name, value)
            elif field.type == "bool" and not isinstance(value, bool):
                raise InvalidParameter(field.name, value, "must be true or false")
