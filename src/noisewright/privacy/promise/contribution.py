"""How far one person moves a measurement, where several of their rows count.

All rows may move it the same way: in L1 by as many times what one row does as there are rows. In L2
it can be less, where rows in different groups move different numbers that are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from noisewright.privacy.exact.rounding import root_above


@dataclass(frozen=True)
class Contribution:
    """At most `rows` times what one row moves in L1, and the root of `square` times that in L2."""

    rows: int = 1
    apart: Fraction | None = None

    @property
    def square(self) -> Fraction:
        """The square of the multiple in L2: that of the rows, unless groups keep them apart."""
        whole = Fraction(self.rows) ** 2
        return whole if self.apart is None else min(whole, self.apart)

    @cached_property
    def multiple(self) -> Fraction:
        """The multiple in L2, rounded up where it is no whole number."""
        if self.square == self.rows**2:
            return Fraction(self.rows)
        return Fraction(root_above(self.square))


def most_squares(rows: int, each: int) -> int:
    """The largest Σ n² over groups, of n rows each, n <= `each`, `rows` in all."""
    full, rest = divmod(rows, each)
    return full * each**2 + rest**2
