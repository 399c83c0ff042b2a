"""The search for a proof by triples: a kernel, and how large sets of each size make it.

Sets that a kernel leaves profitable join a pool, whose best mixture gives the next kernel. The pool
begins with the sets of a strategy; what `triple_program` allows sets of some size joins it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.bounds.tables.delsarte import Scheme
from noisewright.local.bounds.tables.program import Multipliers, Program, cube
from noisewright.local.bounds.tables.proof import MOST_CELLS, TripleProof
from noisewright.local.shares import best_shares
from noisewright.local.work import Work

_LEAST_CELLS = 8
# sets of so few cells a check lists: what a program allows them is not worth knowing
_SMALL = 5
_SOME_SIZES, _ROUNDS = 4, 10  # looked at in a round, and rounds until all sizes are
_CLOSE = 2e-4
_HELD = 1e-9


@dataclass(eq=False)
class TripleSearch:
    """A search for tables or parities of yes/no attributes; `proofs` yields better ones."""

    scheme: Scheme
    epsilon: float
    patterns: BoolArray
    """Sets that a strategy reports."""
    work: Work = field(default_factory=Work)

    @classmethod
    def fits(cls, scheme: Scheme | None) -> bool:
        """Whether all attributes are alike, of two values each, and neither few nor many."""
        if scheme is None or not _LEAST_CELLS <= scheme.cells <= MOST_CELLS:
            return False
        return len(scheme.groups) == 1 and scheme.groups[0][1] == 2

    def __post_init__(self) -> None:
        self.bits, n = self.scheme.groups[0][0], self.scheme.cells
        self.waves, self.counts = cube(self.bits).waves, self.scheme.counts
        sizes = np.arange(n)
        r = expm1(self.epsilon)
        self.gains = sizes * (r / (n + r * sizes)) ** 2
        self.eigenvalues = self.scheme.eigenvalues / self.scheme.eigenvalues[1:].max()
        self.seen = self.eigenvalues > 1e-13
        self.seen[0] = False
        self.programs: dict[int, Program] = {}
        self.tightness = np.ones(n)
        """What programs allowed sets of each size, over what the largest eigenvalue does."""
        self.pool = self._attained()

    def _attained(self) -> FloatArray:
        """The information of the strategy's own sets, by degree."""
        cells = np.arange(self.scheme.cells)
        weights = cube(self.bits).weights
        rows = []

        for pattern in np.unique(self.patterns, axis=0):
            members = cells[pattern]
            apart = weights[members[:, None] ^ members]
            counts = np.bincount(apart.ravel(), minlength=self.bits + 1) / max(
                len(members), 1
            )
            rows.append(self._row(len(members), counts))

        return np.unique(np.round(rows, 12), axis=0)

    def _row(self, size: int, counts: FloatArray) -> FloatArray:
        return np.asarray(self.gains[size] * (self.waves @ counts) / self.counts)

    def proofs(self, rounds: int) -> Iterator[TripleProof]:
        """Proofs for better and better kernels; no more once nothing is left to gain."""
        for _ in range(rounds):
            for _ in range(_ROUNDS):
                spectrum, level = self._kernel()
                sizes = self._promising(spectrum, level)[:_SOME_SIZES]
                if not self._join(spectrum, level, sizes):
                    break

            spectrum, level = self._kernel()
            told = {
                size: self._solved(spectrum, size)
                for size in self._needed(spectrum, level)
            }
            yield self._proof(spectrum, level, told)
            rows = [
                self._row(size, one.counts)
                for size, one in told.items()
                if size > _SMALL
            ]
            if not self._joined(spectrum, level, rows):
                return

    def _kernel(self) -> tuple[FloatArray, float]:
        """Eigenvalues of the kernel best for the pool, and what its sets make of it at most."""
        weights = (self.counts * self.eigenvalues)[self.seen]
        shares, _ = best_shares(self.pool[:, self.seen], weights)
        held = np.where(self.seen, shares @ self.pool, 1.0)
        self.pool = self.pool[shares > _HELD]
        spectrum = np.where(self.seen, self.eigenvalues / held**2, 0.0)
        return spectrum, float((self.pool @ (self.counts * spectrum)).max())

    def _limits(self, spectrum: FloatArray) -> FloatArray:
        """What sets of each size make of a kernel at most, by its largest eigenvalue."""
        n = self.scheme.cells
        return self.gains * n * float(spectrum.max()) * (1 - np.arange(n) / n)

    def _needed(self, spectrum: FloatArray, level: float) -> list[int]:
        """Sizes that need more of a proof than the largest eigenvalue."""
        limits = self._limits(spectrum)
        return [size for size in np.flatnonzero(limits > level).tolist() if size > 2]

    def _promising(self, spectrum: FloatArray, level: float) -> list[int]:
        """Sizes that may hold profitable sets, as far as is known, the likeliest first."""
        likely = self._limits(spectrum) * self.tightness
        likely[: _SMALL + 1] = 0.0
        order = np.argsort(-likely, kind="stable")
        return [size for size in order.tolist() if likely[size] > level * (1 + _CLOSE)]

    def _join(self, spectrum: FloatArray, level: float, sizes: list[int]) -> bool:
        told = {size: self._solved(spectrum, size) for size in sizes}
        return self._joined(
            spectrum, level, [self._row(s, one.counts) for s, one in told.items()]
        )

    def _joined(
        self, spectrum: FloatArray, level: float, rows: list[FloatArray]
    ) -> bool:
        """Take rows into the pool that are worth more than its own; whether there were any."""
        worth = [
            row
            for row in rows
            if float(row @ (self.counts * spectrum)) > level * (1 + _CLOSE)
        ]
        self.pool = np.concatenate([self.pool, *(row[None] for row in worth)])
        return bool(worth)

    def _solved(self, spectrum: FloatArray, size: int) -> Multipliers:
        if size not in self.programs:
            self.programs[size] = Program(self.bits, size)

        n = self.scheme.cells
        told = self.programs[size].solved(spectrum @ self.waves / n)
        self.work.add(told.operations)
        value = float(self._row(size, told.counts) @ (self.counts * spectrum))
        self.tightness[size] = value / self._limits(spectrum)[size]

        return told

    def _proof(
        self, spectrum: FloatArray, level: float, told: dict[int, Multipliers]
    ) -> TripleProof:
        n = self.scheme.cells
        cells = np.arange(self.scheme.cells)
        side = self.bits + 1
        asked = cells[spectrum[cube(self.bits).weights] > 0]
        signs = 1 - 2 * (cube(self.bits).weights[cells[:, None] & asked] % 2)
        factor = signs * np.sqrt(spectrum[cube(self.bits).weights[asked]] / n)
        stacked = {
            name: np.array([getattr(one, name) for one in told.values()])
            for name in ("inside", "outside", "apart", "tilts", "waves")
        }
        cubes = {
            name: stacked[name].reshape(-1, side, side, side)
            for name in list(stacked)[:3]
        }
        rows = {name: stacked[name].reshape(-1, side) for name in list(stacked)[3:]}

        return TripleProof(
            cells.astype(np.int64),
            np.full(n, 1.0 / n),
            factor,
            np.full(n, level / n),
            np.array(list(told), dtype=np.int64),
            **cubes,
            **rows,
        )
