"""Linear programs over all mechanisms of some sort: slow, obvious, and not ours."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog


class _Rows:
    """Rows of a sparse matrix, written one by one."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.right: list[float] = []

    def add(self, columns: list[int], values: list[float], right: float) -> None:
        row = len(self.right)
        self.entries += [(row, c, v) for c, v in zip(columns, values, strict=True)]
        self.right.append(right)

    def matrix(self, columns: int) -> sp.csr_matrix:
        rows, places, values = zip(*self.entries, strict=True)
        return sp.csr_matrix((values, (rows, places)), shape=(len(self.right), columns))


def least_noise(epsilon: float, delta: float, offsets: np.ndarray, reach: int) -> float:
    """The least second moment of noise on offsets + integers that hides a change of one.

    Without a δ noise has no end: it is cut off where it hardly matters, and may end there.
    """
    ratio, points = math.exp(epsilon), 2 * reach + 1
    values = np.concatenate([np.arange(-reach, reach + 1) + a for a in offsets])
    edges = len(offsets) * (points + 1)
    columns, less = values.size + 2 * edges, _Rows()
    for way, sign in enumerate((1, -1)):
        for edge in range(edges):
            lattice, place = divmod(edge, points + 1)
            ends = [lattice * points + place - 1, lattice * points + place]
            kept = [(ends[0], place > 0), (ends[1], place < points)][::sign]
            coefficients = [1.0, -ratio]
            pairs = [
                (e, c)
                for (e, inside), c in zip(kept, coefficients, strict=True)
                if inside
            ]
            excess = values.size + way * edges + edge
            if delta == 0 and len(pairs) < 2:
                continue
            less.add(
                [*(e for e, _ in pairs), excess], [*(c for _, c in pairs), -1.0], 0.0
            )
        shared = list(range(values.size + way * edges, values.size + (way + 1) * edges))
        less.add(shared, [1.0] * edges, delta)
    cost = np.concatenate([values**2, np.zeros(2 * edges)])
    whole = np.concatenate([np.ones(values.size), np.zeros(2 * edges)])[None]
    solved = linprog(
        cost, less.matrix(columns), less.right, whole, [1.0], method="highs"
    )
    return float(solved.fun)


def least_worst_count(
    people: int, epsilon: float, delta: float = 0.0, step: float = 1.0
) -> float:
    """The least worst mean squared error over every private mechanism on counts 0 … people."""
    answers = np.arange(0, people + step / 2, step)
    k, inputs, ratio = len(answers), people + 1, math.exp(epsilon)
    worst = inputs * k
    columns = worst + 1 + (2 * people * k if delta else 0)
    less, spare = _Rows(), worst + 1
    for x in range(inputs):
        own = [x * k + j for j in range(k)]
        less.add([*own, worst], [*((answers - x) ** 2), -1.0], 0.0)
    for x in range(people):
        for first, second in ((x, x + 1), (x + 1, x)):
            for j in range(k):
                excess = ([spare + j], [-1.0]) if delta else ([], [])
                less.add(
                    [first * k + j, second * k + j, *excess[0]],
                    [1.0, -ratio, *excess[1]],
                    0.0,
                )
            if delta:
                less.add(list(range(spare, spare + k)), [1.0] * k, delta)
                spare += k
    whole = _Rows()
    for x in range(inputs):
        whole.add([x * k + j for j in range(k)], [1.0] * k, 1.0)
    cost = np.zeros(columns)
    cost[worst] = 1.0
    equal = whole.matrix(columns)
    return float(
        linprog(cost, less.matrix(columns), less.right, equal, whole.right).fun
    )


def least_unbiased_count(
    people: int, at: int, epsilon: float, answers: np.ndarray
) -> float:
    """The least variance at one count of every pure mechanism that is unbiased on 0 … people."""
    k, inputs, ratio = len(answers), people + 1, math.exp(epsilon)
    less, equal = _Rows(), _Rows()
    for x in range(people):
        for first, second in ((x, x + 1), (x + 1, x)):
            for j in range(k):
                less.add([first * k + j, second * k + j], [1.0, -ratio], 0.0)
    for x in range(inputs):
        own = [x * k + j for j in range(k)]
        equal.add(own, [1.0] * k, 1.0)
        equal.add(own, list(answers), float(x))
    cost = np.zeros(inputs * k)
    cost[at * k : (at + 1) * k] = (answers - at) ** 2
    columns = inputs * k
    return float(
        linprog(
            cost, less.matrix(columns), less.right, equal.matrix(columns), equal.right
        ).fun
    )
