"""Kernels for tables and parities: a set's gain is limited by linear programming.

For a set of d cells, let A_i be the mean number of its members in relation i to a member.
Delsarte [034]: Σ_i A_i Q_k(i) ≥ 0 for every class k of characters, and 0 ≤ A_i ≤ valency. A kernel
that depends on the relation only, κ_i = Σ_k K_k Q_k(i)/n, gives the set d·Σ_i A_i κ_i, at most d
times the value of a small linear program, whose dual solutions hold for every d at once. For sets
of a few cells the counts that occur are listed (`small_sets`), and the largest is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.tables.pool import Pool
from noisewright.local.bounds.tables.scheme import Scheme
from noisewright.local.bounds.tables.small_sets import pair_counts


@dataclass(frozen=True)
class KernelRounds:
    """When a search for a kernel ends; half and double were tried on five families of tables."""

    most: int = 12
    """Rounds: half and double prove as much."""
    idle: int = 3
    """Rounds in turn that gain nothing: after one, floors are up to 10 % lower, after two and six
    as high."""
    refinements: int = 4
    """Further linear programs for the sizes that decide a limit: half and double prove as much."""
    close: float = 1e-4
    """Share by which a round must gain: ten times more proves 0.04 % less on one family."""


_ROUNDS = KernelRounds()

_ROUNDING = 2.0**-46
"""Of the numbers in a limit: some hundred times their own rounding."""


@dataclass(frozen=True)
class _Line:
    """Σ_i A_i κ_i ≤ start + slope·d for any set of d cells, nearly met by counts at d = `cells`."""

    start: float
    slope: float
    cells: int
    spectrum: FloatArray
    """Σ_i A_i Q_k(i) of those counts."""
    only: bool = False
    """Whether it is about that number of cells alone."""


@dataclass(frozen=True, eq=False)
class SchemeBound:
    """The search for the kernel that proves most, and the proof itself (`floor`)."""

    scheme: Scheme
    epsilon: float

    @cached_property
    def _pool(self) -> Pool:
        return Pool(self.scheme, self.epsilon)

    @cached_property
    def _sizes(self) -> FloatArray:
        """1 … n − 1."""
        return np.arange(1.0, self.scheme.cells)

    # --- the proof ----------------------------------------------------------------------------

    def floor(self, kernel: FloatArray) -> float:
        """Proven floor under tr(MX⁻¹) off the total, from the kernel's eigenvalues by class."""
        return self._proof(kernel)[0]

    def _proof(self, kernel: FloatArray) -> tuple[float, list[_Line]]:
        s = self.scheme
        relation = kernel @ s.characters / s.cells
        lines = [self._line(relation, d) for d in self._grid()]
        lines += [self._listed(relation, k) for k in self._small]

        for _ in range(_ROUNDS.refinements):
            worst = int(np.argmax(self._limits(lines))) + 1
            if worst in self._small or any(line.cells == worst for line in lines):
                break
            lines.append(self._line(relation, worst))

        roots = np.sqrt(s.eigenvalues * kernel * self._pool.seen)
        fidelity = float(s.counts @ roots)
        limit = float(self._limits(lines).max())
        return fidelity**2 / (s.cells * limit), lines

    def _limits(self, lines: list[_Line]) -> FloatArray:
        """vᵀKv/(1ᵀv)² at most, for every number of cells."""
        best = np.full(len(self._sizes), np.inf)
        for line in lines:
            limits = line.start + line.slope * self._sizes
            some = slice(line.cells - 1, line.cells) if line.only else slice(None)
            best[some] = np.minimum(best, limits)[some]

        return np.asarray(self._pool.gains[1:] * best)

    def _grid(self) -> list[int]:
        """Sizes that linear programs are solved for: small ones, and about the likeliest."""
        n = self.scheme.cells
        likely = n / (1 + exp(self.epsilon))
        around = likely * 2.0 ** np.arange(-2, 4.01, 0.5)
        sizes = np.rint(np.append(np.arange(1, 9), around))
        distinct = np.unique(np.clip(sizes, 1, n - 1))
        whole: list[int] = distinct.astype(int).tolist()
        return whole

    @cached_property
    def _small(self) -> dict[int, FloatArray]:
        """A_i of all sets of k cells, for the smallest k."""
        known: dict[int, FloatArray] = {}
        if not self.scheme.groups:
            return known

        for k, pairs in pair_counts(self.scheme.groups).items():
            known[k] = 2.0 * pairs / k
            known[k][:, 0] = 1.0
        return known

    def _listed(self, relation: FloatArray, k: int) -> _Line:
        """The largest Σ_i A_i κ_i of any k cells, and the counts that have it."""
        sums = self._small[k] @ relation
        largest = int(np.argmax(sums))
        rounding = _ROUNDING * k * float(np.abs(relation).max())
        spectrum = self.scheme.characters @ self._small[k][largest]
        limit = float(sums[largest]) + rounding
        return _Line(limit, 0.0, k, spectrum, only=True)

    def _line(self, relation: FloatArray, d: int) -> _Line:
        """Solve the linear program for d cells, and make its dual solution feasible exactly."""
        s = self.scheme
        unit = float(np.abs(relation).max()) or 1.0
        sums = s.characters[1:, 1:] / s.counts[1:, None]
        most = s.valencies[1:]
        gain = relation[1:] / unit
        mean, price, cap = _solved(gain, sums, most, d - 1.0)
        price = price * unit
        cap = cap * unit

        # Any prices hold: Σ A_i κ_i ≤ κ_0 + Σ price + cap·valency + slope·(d − 1).
        paid = float(price.sum())
        capped = float(cap @ most)
        slopes = relation[1:] + price @ sums - cap
        slope = float(slopes.max())
        slope += _ROUNDING * (unit + paid + float(cap.max()))
        start = float(relation[0]) + paid + capped - slope
        start += _ROUNDING * (unit + paid + capped + abs(slope))

        spectrum = s.counts + s.characters[:, 1:] @ mean
        return _Line(start, slope, d, spectrum)

    # --- the search ---------------------------------------------------------------------------

    def best(self) -> float:
        """The largest floor found: sets that a kernel leaves profitable join a pool."""
        pool = self._pool
        if not pool.seen.any():
            return 0.0

        floor, lines = self._proof(pool.seen.astype(float))
        idle = 0
        for _ in range(_ROUNDS.most):
            for line in lines:
                if line.only or line.cells not in self._small:
                    pool.join([pool.information(line.cells, line.spectrum)])
            kernel, held = pool.kernel()
            value, lines = self._proof(kernel)
            idle = 0 if value > floor * (1 + _ROUNDS.close) else idle + 1
            floor = max(floor, value)

            no_kernel_above = float((pool.weights / held).sum())
            done = floor >= no_kernel_above * (1 - _ROUNDS.close)
            if done or idle == _ROUNDS.idle:
                break

        return floor


def _solved(
    gain: FloatArray,
    sums: FloatArray,
    most: FloatArray,
    total: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """max gain·A under A ≤ most, Σ A = total and sums·A ≥ −1: A, and the prices of the last two.

    Counts of a random set and no prices where the solver gives up: any prices prove something.
    """
    from scipy.optimize import linprog

    solved = linprog(
        -gain,
        A_ub=-sums,
        b_ub=np.ones(len(sums)),
        A_eq=np.ones((1, len(gain))),
        b_eq=[total],
        bounds=[(0.0, float(limit)) for limit in most],
        method="highs",
    )
    if solved.x is None:
        random = total * most / most.sum()
        return random, np.zeros(len(sums)), np.zeros(len(gain))

    price = np.maximum(-solved.ineqlin.marginals, 0.0)
    cap = np.maximum(-solved.upper.marginals, 0.0)
    return solved.x, price, cap
