"""Sets that a kernel leaves profitable join a pool, whose best mixture gives the next kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import expm1

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.tables.scheme import Scheme
from noisewright.local.shares import best_shares

_LEAST_SHARE = 1e-9
"""Of a mixture: sets with less of it leave the pool. Ten times more or less prove as much."""

_SEEN = 1e-13
"""Of the largest eigenvalue: on classes with less, nothing is asked."""


@dataclass(eq=False)
class Pool:
    """The information of sets, by class: a row each."""

    scheme: Scheme
    epsilon: float
    rows: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        s = self.scheme
        asked = s.eigenvalues[1:]
        seen = asked > _SEEN * asked.max(initial=0.0)
        self.seen = np.append(False, seen)
        """Classes that the workload asks about, other than the total."""
        self.weights = self.seen * s.counts * s.eigenvalues
        self.rows = np.empty((0, len(s.counts)))

        sizes = np.arange(s.cells)
        r = expm1(self.epsilon)
        self.gains = sizes * (r / (s.cells + r * sizes)) ** 2
        """r²d / (n + rd)² of sets of every size d."""

    def information(self, size: int, spectrum: FloatArray) -> FloatArray:
        """Of sets of one size, from Σ_i A_i Q_k(i)."""
        return np.asarray(self.gains[size] * spectrum / self.scheme.counts)

    def join(self, rows: list[FloatArray]) -> None:
        """Take sets in."""
        self.rows = np.vstack([self.rows, *rows])

    def kernel(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of the kernel that is best for the best mixture, and what that holds."""
        seen = self.seen
        shares, _ = best_shares(self.rows[:, seen], self.weights[seen])
        held = np.where(seen, shares @ self.rows, 1.0)
        self.rows = self.rows[shares > _LEAST_SHARE]
        kernel = np.where(seen, self.scheme.eigenvalues / held**2, 0.0)
        return kernel, held
