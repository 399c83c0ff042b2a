"""Shuffled local reports, enumerated: exact divergences of a handful of people."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations_with_replacement, permutations

import numpy as np


def randomized_response(values: int, epsilon: float) -> np.ndarray:
    """Columns are the laws of the reports of each value."""
    weights = np.ones((values, values)) + (np.exp(epsilon) - 1) * np.eye(values)
    return weights / weights.sum(axis=0)


def histogram_law(strategy: np.ndarray, people: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the counts of every report, which is all that a shuffler leaves."""
    outputs = strategy.shape[0]
    law: dict[tuple[int, ...], float] = {(0,) * outputs: 1.0}
    for value in people:
        grown: dict[tuple[int, ...], float] = defaultdict(float)
        for counts, chance in law.items():
            for output in range(outputs):
                more = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
                grown[more] += chance * strategy[output, value]
        law = grown
    return law


def worst_delta(strategy: np.ndarray, people: int, epsilon: float) -> float:
    """The largest δ over everybody else's values and the two values of one person."""
    values = strategy.shape[1]
    worst = 0.0
    for others in combinations_with_replacement(range(values), people - 1):
        laws = [histogram_law(strategy, (*others, value)) for value in range(values)]
        for p, q in permutations(laws, 2):
            excess = sum(max(0.0, p[k] - np.exp(epsilon) * q.get(k, 0.0)) for k in p)
            worst = max(worst, excess)
    return worst
