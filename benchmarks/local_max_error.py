"""People for a largest error of 0.05 at ε = 1: forecast, kept in simulation, and how few would do.

Each line: the forecast N of the approximate factorization, the failures among 100 runs of N people
on the data with the largest errors of three (everybody in one end cell, in the middle cell, spread
evenly), and N over the N at which 95 of 100 runs would keep the error, read off the 95th largest
error by its fall with the root of N.
"""

from __future__ import annotations

import sys

import numpy as np

import noisewright as nw
from noisewright.local.vector.max_error import plan_answers

ERROR, BETA, RUNS = 0.05, 0.05, 100


def line(text: str) -> None:
    matrix = nw.workload(text).dense()
    plan = plan_answers(matrix, 1.0, ERROR, BETA)
    people, size = plan.people, matrix.shape[1]
    rng = np.random.default_rng(0)
    kinds = {
        "end": np.zeros(people, dtype=np.int64),
        "middle": np.full(people, size // 2),
        "even": rng.integers(0, size, people),
    }
    worst = np.zeros(RUNS)
    for cells in kinds.values():
        truth = matrix[:, cells].mean(axis=1)
        errors = np.array(
            [
                np.abs(plan.estimate(plan.randomize(cells)) - truth).max()
                for _ in range(RUNS)
            ]
        )
        if np.sort(errors)[94] > np.sort(worst)[94]:
            worst = errors
    bias = float(plan.bias.max())
    needed = people * ((np.sort(worst)[94] - bias) / (ERROR - bias)) ** 2
    print(
        f"{text:18} tolerance {plan.entrywise:.3f}  N {people:,}  failures "
        f"{int((worst > ERROR).sum())} of {RUNS}  N over the least {people / needed:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["prefix:256", "marginals:2^6:2"]:
        line(name)
