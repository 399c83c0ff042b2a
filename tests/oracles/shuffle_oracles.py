"""Shuffled local reports, enumerated: exact divergences of a handful of people."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations_with_replacement, permutations

import mpmath
import numpy as np


def randomized_response(values: int, epsilon: float) -> np.ndarray:
    """Columns are the laws of the reports of each value."""
    weights = np.ones((values, values)) + (np.exp(epsilon) - 1) * np.eye(values)
    return weights / weights.sum(axis=0)


def histogram_law(
    strategy: np.ndarray, people: tuple[int, ...]
) -> dict[tuple[int, ...], float]:
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


def worst_binary_delta(people: int, local: float, epsilon: float) -> mpmath.mpf:
    """The same for randomized response between two values, in sixty digits."""
    with mpmath.workdps(60):
        lie, growth = 1 / (1 + mpmath.exp(local)), mpmath.exp(epsilon)
        worst = mpmath.mpf(0)
        for ones in range(people):
            law = [mpmath.mpf(1)]
            for k in range(people - 1):
                law = _with_coin(law, 1 - lie if k < ones else lie)
            p, q = _with_coin(law, 1 - lie), _with_coin(law, lie)
            for a, b in ((p, q), (q, p)):
                gaps = (x - growth * y for x, y in zip(a, b, strict=True))
                worst = max(worst, sum((gap for gap in gaps if gap > 0), mpmath.mpf(0)))
        return worst


def _with_coin(law: list[mpmath.mpf], chance: mpmath.mpf) -> list[mpmath.mpf]:
    """The law of a sum with one more coin that falls on one with this chance."""
    return [
        (law[k] * (1 - chance) if k < len(law) else 0)
        + (law[k - 1] * chance if k else 0)
        for k in range(len(law) + 1)
    ]


def staircase(seed: int, values: int, epsilon: float) -> np.ndarray:
    """A random strategy all of whose ratios are one or e^ε: the extreme points of pure privacy.

    Every pattern comes with all its rotations, so that every value's law has the same total.
    """
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(int(random.integers(1, 3))):
        pattern = np.where(random.random(values) < 0.5, 1.0, np.exp(epsilon))
        weight = random.uniform(0.1, 1)
        rows += [weight * np.roll(pattern, shift) for shift in range(values)]
    strategy = np.array(rows)
    return strategy / strategy.sum(axis=0)
