"""Kernels for tables and parities: a set's gain is limited by linear programming.

For a set of d cells, let A_i be the mean number of its members in relation i to a member.
Delsarte [034]: Σ_i A_i Q_k(i) ≥ 0 for every class k of characters, and 0 ≤ A_i ≤ valency. A kernel
that depends on the relation only, κ_i = Σ_k K_k Q_k(i)/n, gives the set d·Σ_i A_i κ_i, at most d
times the value of a small linear program, whose dual solutions hold for every d at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, expm1

import numpy as np
import numpy.typing as npt

from noisewright.local.bounds.schemes import Scheme
from noisewright.workload.base import FloatArray

_ROUNDS, _IDLE_ROUNDS, _REFINEMENTS, _STEPS = 12, 3, 4, 1000
_CLOSE = 1e-4
_ROUNDING = 2.0**-46  # of the numbers in a limit: some hundred times their own rounding


@dataclass(frozen=True)
class _Line:
    """Σ_i A_i κ_i ≤ start + slope·d for any set of d cells, nearly met by counts at d = `cells`."""

    start: float
    slope: float
    cells: int
    spectrum: FloatArray
    """Σ_i A_i Q_k(i) of those counts."""


@dataclass(frozen=True, eq=False)
class SchemeBound:
    """The search for the kernel that proves most, and the proof itself (`floor`)."""

    scheme: Scheme
    epsilon: float

    @cached_property
    def _seen(self) -> npt.NDArray[np.bool_]:
        """Classes that the workload asks about, other than the total."""
        seen = self.scheme.eigenvalues > 1e-13 * self.scheme.eigenvalues.max()
        seen[0] = False
        return np.asarray(seen)

    @cached_property
    def _gains(self) -> FloatArray:
        """(e^ε−1)² d / (n + (e^ε−1)d)² for d = 1 … n−1."""
        d, r, n = np.arange(1, self.scheme.cells), expm1(self.epsilon), self.scheme.cells
        return np.asarray(d * (r / (n + r * d)) ** 2)

    def floor(self, kernel: FloatArray) -> float:
        """Proven floor under tr(MX⁻¹) off the total, from the kernel's eigenvalues by class."""
        return self._proof(kernel)[0]

    def _proof(self, kernel: FloatArray) -> tuple[float, list[_Line]]:
        s = self.scheme
        relation = kernel @ s.characters / s.cells
        lines = [self._line(relation, d) for d in self._grid()]
        for _ in range(_REFINEMENTS):
            worst = int(np.argmax(self._limits(lines))) + 1
            if any(line.cells == worst for line in lines):
                break
            lines.append(self._line(relation, worst))
        fidelity = float(s.counts @ np.sqrt(s.eigenvalues * kernel * self._seen))
        return fidelity**2 / (s.cells * float(self._limits(lines).max())), lines

    def _limits(self, lines: list[_Line]) -> FloatArray:
        """vᵀKv/(1ᵀv)² at most, for every number of cells."""
        d = np.arange(1, self.scheme.cells)
        best = np.full(len(d), np.inf)
        for line in lines:
            np.minimum(best, line.start + line.slope * d, out=best)
        return np.asarray(self._gains * best)

    def _grid(self) -> list[int]:
        n = self.scheme.cells
        likely = n / (1 + exp(self.epsilon))
        steps = np.concatenate([np.arange(1, 9), likely * 2.0 ** np.arange(-2, 4.01, 0.5)])
        return sorted({int(d) for d in np.clip(np.rint(steps), 1, n - 1)})

    def _line(self, relation: FloatArray, d: int) -> _Line:
        """Solve the linear program for d cells, and make its dual solution feasible exactly."""
        from scipy.optimize import linprog

        s = self.scheme
        unit = float(np.abs(relation).max()) or 1.0
        solved = linprog(
            -relation[1:] / unit,
            A_ub=-s.characters[1:, 1:] / s.counts[1:, None],
            b_ub=np.ones(len(s.counts) - 1),
            A_eq=np.ones((1, len(relation) - 1)),
            b_eq=[d - 1.0],
            bounds=[(0.0, float(most)) for most in s.valencies[1:]],
            method="highs",
        )
        price, cap, mean = (
            np.zeros(len(s.counts) - 1),
            np.zeros(len(relation) - 1),
            (d - 1.0) * s.valencies[1:] / (s.cells - 1.0),
        )
        if solved.x is not None:
            price = np.maximum(-solved.ineqlin.marginals, 0.0) * unit
            cap = np.maximum(-solved.upper.marginals, 0.0) * unit
            mean = solved.x
        slope = float((relation[1:] + (price / s.counts[1:]) @ s.characters[1:, 1:] - cap).max())
        slope += _ROUNDING * float(unit + price.sum() + cap.max())
        start = float(relation[0] + price.sum() + cap @ s.valencies[1:]) - slope
        start += _ROUNDING * float(unit + price.sum() + cap @ s.valencies[1:] + abs(slope))
        return _Line(start, slope, d, s.characters[:, 0] + s.characters[:, 1:] @ mean)

    def best(self) -> float:
        """The largest floor found: sets that a kernel leaves profitable join a pool."""
        s, seen = self.scheme, self._seen
        if not seen.any():
            return 0.0
        found, lines = self._proof(seen.astype(float))
        pool, idle = np.empty((0, len(s.counts))), 0
        for _ in range(_ROUNDS):
            fresh = [self._gains[line.cells - 1] * line.spectrum / s.counts for line in lines]
            pool = np.concatenate([pool, fresh])
            shares = _best_shares(pool[:, seen], self._weights)
            pool, shares = pool[shares > 1e-9], shares[shares > 1e-9]
            held = np.where(seen, shares @ pool, 1.0)
            value, lines = self._proof(np.where(seen, s.eigenvalues / held**2, 0.0))
            idle = 0 if value > found * (1 + _CLOSE) else idle + 1
            found = max(found, value)
            least = float(self._weights @ (1.0 / held[seen]))  # no kernel proves more
            if found >= least * (1 - _CLOSE) or idle == _IDLE_ROUNDS:
                break
        return found

    @cached_property
    def _weights(self) -> FloatArray:
        return np.asarray((self.scheme.counts * self.scheme.eigenvalues)[self._seen])


def _best_shares(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Shares w that make Σ weights/(wᵀcolumns) least, by multiplicative steps."""
    shares = np.full(len(columns), 1.0 / len(columns))
    for _ in range(_STEPS):
        gain = columns @ (weights / (shares @ columns) ** 2)
        mean = float(shares @ gain)
        if gain.max() <= mean * (1 + _CLOSE / 10):
            break
        shares = shares * gain / mean
    return shares
