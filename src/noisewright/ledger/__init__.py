"""What was spent on whom, for ever: datasets with budgets, and releases that take from them."""

from noisewright.privacy.promise.filters import limits_of

__all__ = ["limits_of"]
