"""Multiplicative weights with the exponential mechanism: a yardstick in floats, not a mechanism."""

from __future__ import annotations

import numpy as np

from noisewright.workload import Workload


def mwem(
    workload: Workload,
    people: np.ndarray,
    rng: np.random.Generator,
    epsilon: float = 1.0,
    rounds: int = 20,
) -> np.ndarray:
    """Errors of all answers under replace-one neighbours, for queries of ±1 over cells.

    Each round chooses the worst answer and measures it, with half of its share of ε for each, and
    moves the histogram towards all that was measured.
    """
    count, share = people.sum(), epsilon / (2 * rounds)
    truth = workload.matvec(people)
    guess = np.full(len(people), count / len(people))
    seen = []
    for _ in range(rounds):
        # one moves a score by 2
        scores = np.abs(workload.matvec(guess) - truth) * share / 4
        chosen = int(np.argmax(scores + rng.gumbel(size=len(scores))))
        row = workload.rows(chosen, chosen + 1)[0]
        seen.append((row, truth[chosen] + rng.laplace(0, 2 / share)))
        for own, value in seen:
            guess = guess * np.exp(own * (value - own @ guess) / (2 * count))
            guess *= count / guess.sum()
    return np.asarray(workload.matvec(guess) - truth)
