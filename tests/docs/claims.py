"""A figure in a page is checked as what it claims, to the last digit that is printed.

An error, a size or a ratio claims to be at most what is printed, a bound to be at least that. What
was rounded may be off by its last digit; a figure that got better makes no claim untrue.
"""

from __future__ import annotations

from decimal import Decimal


def last_digit(printed: str) -> float:
    """One in the last place that is printed: 0.001 for 3.279, and 1 for 2,022."""
    exponent = Decimal(printed.replace(",", "")).as_tuple().exponent
    assert isinstance(exponent, int), printed
    return 10.0**exponent


def number(printed: str) -> float:
    """The number that a page prints."""
    return float(printed.replace(",", ""))


def holds_at_most(printed: str, value: float) -> bool:
    """Whether an error of this value keeps what the page says of it."""
    return value <= number(printed) + last_digit(printed)


def holds_at_least(printed: str, value: float) -> bool:
    """Whether a bound of this value proves what the page says of it."""
    return value >= number(printed) - last_digit(printed)
