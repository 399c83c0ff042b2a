"""The nearest answers that could be: non-negative, of a distribution, with declared sums."""
