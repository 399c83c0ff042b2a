"""The least error of any noise on the integers that does not depend on the data: a linear program.

Chances of every vector in a box, of ratio e^ε at most between neighbours one step apart. Beyond the
box nothing is demanded, which lowers the optimum by less the larger the box is.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array


def least_error(gram: np.ndarray, epsilon: float, reach: int) -> float:
    """min E zᵀGz over private noise z with entries up to `reach`."""
    cells = len(gram)
    shape = (2 * reach + 1,) * cells
    points = np.array(list(product(range(-reach, reach + 1), repeat=cells)))
    costs = np.einsum("ij,jk,ik->i", points, gram, points)
    numbers = np.arange(len(points)).reshape(shape)
    low, high = [], []
    for axis in range(cells):
        low.append(np.delete(numbers, -1, axis=axis).ravel())
        high.append(np.delete(numbers, 0, axis=axis).ravel())
    a, b = np.concatenate(low), np.concatenate(high)
    first, second = np.concatenate([a, b]), np.concatenate([b, a])
    rows = np.arange(len(first))
    entries = np.concatenate([np.ones(len(rows)), np.full(len(rows), -np.exp(epsilon))])
    places = (np.concatenate([rows, rows]), np.concatenate([first, second]))
    ratios = coo_array((entries, places), shape=(len(rows), len(points))).tocsr()
    solved = linprog(
        costs,
        A_ub=ratios,
        b_ub=np.zeros(len(rows)),
        A_eq=np.ones((1, len(points))),
        b_eq=[1.0],
        method="highs",
    )
    assert solved.success
    return float(solved.fun)
