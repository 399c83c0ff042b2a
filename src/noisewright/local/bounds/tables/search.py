"""The search for a proof by triples: a kernel, and how large sets of each size make it.

Sets that a kernel leaves profitable join a pool, whose best mixture gives the next kernel. The pool
begins with the sets of a strategy; what a program allows sets of some size joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.bounds.tables.cube import cube
from noisewright.local.bounds.tables.pool import Pool
from noisewright.local.bounds.tables.program import Multipliers, Program
from noisewright.local.bounds.tables.proof import MOST_CELLS, TripleProof
from noisewright.local.bounds.tables.scheme import Scheme
from noisewright.local.work import Work


@dataclass(frozen=True)
class PoolRounds:
    """How the pool grows; half and double of each prove as much on four families of tables."""

    most: int = 10
    """Rounds until all sizes are looked at."""
    sizes: int = 4
    """Looked at in a round."""
    close: float = 2e-4
    """Share by which a set must be worth more than the pool's own."""


_ROUNDS = PoolRounds()

_LEAST_CELLS = 8
"""Three attributes: of fewer, all sets are listed by a check."""

_SMALL = 5
"""Sets of so few cells a check lists: what a program allows them is not worth knowing."""


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
        self.bits = self.scheme.groups[0][0]
        self.cube = cube(self.bits)
        unit = self.scheme.eigenvalues[1:].max()
        scaled = replace(self.scheme, eigenvalues=self.scheme.eigenvalues / unit)
        self.pool = Pool(scaled, self.epsilon)
        self.pool.join(self._attained())
        self.programs: dict[int, Program] = {}
        self.tightness = np.ones(self.scheme.cells)
        """What programs allowed sets of each size, over what the largest eigenvalue does."""

    def _attained(self) -> list[FloatArray]:
        """The information of the strategy's own sets, by degree."""
        rows = []
        for pattern in np.unique(self.patterns, axis=0):
            size = int(pattern.sum())
            apart = self.cube.apart[np.ix_(pattern, pattern)]
            pairs = np.bincount(apart.ravel(), minlength=self.bits + 1)
            rows.append(self._information(size, pairs / max(size, 1)))

        return list(np.unique(np.round(rows, 12), axis=0))

    def _information(self, size: int, counts: FloatArray) -> FloatArray:
        """Of sets of one size, by degree, from A_i."""
        return self.pool.information(size, self.cube.waves @ counts)

    def proofs(self, rounds: int) -> Iterator[TripleProof]:
        """Proofs for better and better kernels; no more once nothing is left to gain."""
        for _ in range(rounds):
            for _ in range(_ROUNDS.most):
                spectrum, level = self._kernel()
                sizes = self._promising(spectrum, level)[: _ROUNDS.sizes]
                found = self._solved_all(spectrum, sizes)
                if not self._join(spectrum, level, found):
                    break

            spectrum, level = self._kernel()
            found = self._solved_all(spectrum, self._needed(spectrum, level))
            yield self._proof(spectrum, level, found)

            larger = {size: one for size, one in found.items() if size > _SMALL}
            if not self._join(spectrum, level, larger):
                return

    # --- the kernel -------------------------------------------------------------------------------

    def _kernel(self) -> tuple[FloatArray, float]:
        """Eigenvalues of the kernel best for the pool, and what its sets make of it at most."""
        spectrum, _ = self.pool.kernel()
        return spectrum, float(self._values(spectrum, self.pool.rows).max())

    def _values(self, spectrum: FloatArray, rows: FloatArray) -> FloatArray:
        """What sets make of a kernel, from their information."""
        return np.asarray(rows @ (self.scheme.counts * spectrum))

    def _limits(self, spectrum: FloatArray) -> FloatArray:
        """What sets of each size make of a kernel at most, by its largest eigenvalue."""
        n = self.scheme.cells
        outside = 1 - np.arange(n) / n
        return self.pool.gains * n * float(spectrum.max()) * outside

    # --- sizes ------------------------------------------------------------------------------------

    def _needed(self, spectrum: FloatArray, level: float) -> list[int]:
        """Sizes that need more of a proof than the largest eigenvalue."""
        above = np.flatnonzero(self._limits(spectrum) > level)
        return [size for size in above.tolist() if size > 2]

    def _promising(self, spectrum: FloatArray, level: float) -> list[int]:
        """Sizes that may hold profitable sets, as far as is known, the likeliest first."""
        likely = self._limits(spectrum) * self.tightness
        likely[: _SMALL + 1] = 0.0
        order = np.argsort(-likely, kind="stable")
        least = level * (1 + _ROUNDS.close)
        return [size for size in order.tolist() if likely[size] > least]

    def _solved_all(
        self, spectrum: FloatArray, sizes: Iterable[int]
    ) -> dict[int, Multipliers]:
        return {size: self._solved(spectrum, size) for size in sizes}

    def _solved(self, spectrum: FloatArray, size: int) -> Multipliers:
        """The program of one size."""
        if size not in self.programs:
            self.programs[size] = Program(self.bits, size)

        kernel = spectrum @ self.cube.waves / self.scheme.cells
        found = self.programs[size].solved(kernel)
        self.work.add(found.operations)

        value = self._values(spectrum, self._information(size, found.counts))
        self.tightness[size] = float(value) / self._limits(spectrum)[size]
        return found

    def _join(
        self,
        spectrum: FloatArray,
        level: float,
        found: dict[int, Multipliers],
    ) -> bool:
        """Take sets into the pool that are worth more than its own; whether there were any."""
        least = level * (1 + _ROUNDS.close)
        new = []
        for size, one in found.items():
            row = self._information(size, one.counts)
            if self._values(spectrum, row) > least:
                new.append(row)

        self.pool.join(new)
        return bool(new)

    # --- the proof --------------------------------------------------------------------------------

    def _proof(
        self,
        spectrum: FloatArray,
        level: float,
        found: dict[int, Multipliers],
    ) -> TripleProof:
        """Z of characters, prices that the pool's sets pay, multipliers of the sizes solved."""
        n = self.scheme.cells
        cells = np.arange(n, dtype=np.int64)
        weights = self.cube.weights
        asked = cells[spectrum[weights] > 0]
        signs = 1 - 2 * (weights[cells[:, None] & asked] % 2)
        lengths = np.sqrt(spectrum[weights[asked]] / n)

        side = self.bits + 1
        names = {"inside": 3, "outside": 3, "apart": 3, "tilts": 1, "waves": 1}
        multipliers = {}
        for name, axes in names.items():
            rows = np.array([getattr(one, name) for one in found.values()])
            multipliers[name] = rows.reshape(-1, *[side] * axes)

        return TripleProof(
            cells=cells,
            prior=np.full(n, 1.0 / n),
            factor=signs * lengths,
            prices=np.full(n, level / n),
            sizes=np.array(list(found), dtype=np.int64),
            **multipliers,
        )
