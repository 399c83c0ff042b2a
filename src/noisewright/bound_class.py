"""What a lower bound is about: the methods that it limits, by one name wherever it is printed.

A bound says nothing of methods outside its class, and some of them do better; the page
`docs/concepts/certificates.md` defines the classes and shows how.
"""

from __future__ import annotations

from enum import StrEnum


class BoundClass(StrEnum):
    """The methods that a lower bound limits; its value is the name that is printed and stored."""

    LINEAR = "linear strategies under this noise"
    WITHIN_TOLERANCE = "linear strategies within the tolerance"
    UNBIASED = "unbiased linear estimates"

    @property
    def statement(self) -> str:
        """The class in a sentence, for the foot of a table."""
        return _STATEMENTS[self]


_STATEMENTS = {
    BoundClass.LINEAR: (
        "Bound for linear strategies under this noise: every W = RA with noise of this law on Ax "
        "and unbiased answers. Other noise, biased and data-dependent methods may do better"
    ),
    BoundClass.WITHIN_TOLERANCE: (
        "Bound for linear strategies within the tolerance: every RA that near to W in each entry, "
        "with the same noise on Ax"
    ),
    BoundClass.UNBIASED: (
        "Bound for unbiased linear estimates from any ε-LDP, non-interactive strategy, on its "
        "worst data. Biased estimates, such as shrunk ones, may need fewer people"
    ),
}
