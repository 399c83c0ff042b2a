"""Carry noise given that it adds up to zero, for replaced people: drawn exactly, moments exact.

Where every core is taken back in full, all noise together is Σ s_k, and the last row in order,
whose core is empty, has to be minus what the others add up to. So the others are drawn, and kept
with the probability e^(−|Σ s|/scale) that the last row's law gives to it.

Moments given Σ s = 0 are integrals over the unit circle of generating functions. The density of the
last row is a Poisson kernel there, and e^(it) = (z + q)/(1 + qz) takes it out: in z the generating
function of every other row is a polynomial of degree one, so a mean over few roots of unity is
exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from noisewright.arrays import (
    BoolArray,
    ComplexArray,
    FloatArray,
    IntArray,
)
from noisewright.central.carry.carries import Carries, check_carries
from noisewright.central.carry.law import Tail
from noisewright.errors import NoisewrightError
from noisewright.privacy.noise.flat_core import flat_core
from noisewright.privacy.noise.integers import geometric
from noisewright.privacy.noise.source import ByteSource

_DEGREE = 8  # of the moments, beyond one per row
_ROUNDS = 100_000  # of trials; at the least acceptance allowed, never reached
_LEAST = 1e-3  # of the trials that are kept
_TRIALS = 2**16  # numbers drawn in one round, at most
_SIMULATED = 2**22  # numbers of one round of a simulation, at most: some tens of MB
_HOPES = 4  # trials expected to be kept in one round: of these the first is taken


@dataclass(frozen=True, eq=False)
class ZeroTotal:
    """The carries of rows, of this scale, that add up to zero."""

    carries: Carries
    scale: float

    def __post_init__(self) -> None:
        check_carries(
            self.carries.cancelled and not self.carries.cores[self.last],
            "must be taken back in full, the last row without",
        )
        check_carries(self.accepted >= _LEAST, "add up to zero too rarely")

    @property
    def last(self) -> int:
        """The row that takes back what all others add up to."""
        return int(self.carries.order[-1])

    # --- draws ------------------------------------------------------------------------------------

    def draw(self, source: ByteSource | None = None) -> IntArray:
        """Noise for every row."""
        count = min(
            max(1, _TRIALS // self.carries.rows),
            ceil(_HOPES / self.accepted),
        )
        for _ in range(_ROUNDS):
            kept = self.trials(count, source)
            if kept.shape[1]:
                return self.carries.carried(kept[:, :1])[:, 0]

        raise NoisewrightError(
            "no noise that adds up to zero was drawn; please report this"
        )

    def trials(
        self,
        count: int,
        source: ByteSource | None = None,
    ) -> IntArray:
        """What is kept of so many draws of all rows: columns of one law, fewer or none."""
        cores = np.repeat(self.carries.cores[:, None], count, axis=1)
        draws = flat_core(self.scale, cores, source)
        return self._kept(draws, geometric(self.scale, count, source))

    def _kept(
        self,
        draws: IntArray,
        chances: IntArray,
    ) -> IntArray:
        """The trials in which the last row's law has what it needs to be."""
        cores = self.carries.cores[:, None]
        excess = draws - np.clip(draws, -cores, cores)
        excess[self.last] = 0
        draws[self.last] = -excess.sum(axis=0)
        return draws[:, chances >= np.abs(draws[self.last])]

    def simulated(
        self,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Columns of noise of the same law, for forecasts."""
        expected = int(1.1 * count / self.accepted)
        trials = max(64, min(expected, _SIMULATED // self.carries.rows))
        parts: list[IntArray] = []

        while sum(part.shape[1] for part in parts) < count:
            draws = self.carries.simulated_draws(self.scale, trials, rng)
            chances = np.floor(self.scale * rng.standard_exponential(trials))
            parts.append(self._kept(draws, chances.astype(np.int64)))

        kept = np.concatenate(parts, axis=1)[:, :count]
        return self.carries.carried(kept).astype(np.float64)

    # --- moments ----------------------------------------------------------------------------------

    @cached_property
    def _tails(self) -> ComplexArray:
        """z: Σ q^m e^(itm) at as many roots of unity as make means exact."""
        nodes = self.carries.rows + _DEGREE
        roots = np.exp(2j * np.pi * np.arange(nodes) / nodes)
        tail = Tail(self.scale)
        # q(z + q)/(1 − q²), written so that q near one loses nothing
        return np.asarray(tail.mass * (roots + tail.q) / (1 + tail.q))

    @cached_property
    def _others(self) -> BoolArray:
        """All rows but the last."""
        return np.asarray(np.arange(self.carries.rows) != self.last)

    @cached_property
    def _totals(self) -> FloatArray:
        """What the weights of every row's law add up to: a column."""
        return Tail(self.scale).total(self.carries.cores)[:, None]

    @cached_property
    def _functions(self) -> FloatArray:
        """The generating functions of all rows, of the last as if it were always zero."""
        cores = self.carries.cores[:, None]
        functions = (2.0 * cores + 1 + 2 * self._tails.real) / self._totals
        functions[self.last] = 1.0
        return functions

    @cached_property
    def accepted(self) -> float:
        """The probability that a trial is kept."""
        return float(np.exp(np.log(self._functions).sum(axis=0)).mean())

    @cached_property
    def covariance(self) -> FloatArray:
        """Of the noise on all rows."""
        logs = np.log(self._functions).sum(axis=0)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()

        # The last row is minus the sum of all others.
        moments = self._within_rows(weights) + self._between_rows(weights)
        moments[self.last] = 0.0
        moments[:, self.last] = 0.0
        sums = moments.sum(axis=0)
        moments[self.last] = -sums
        moments[:, self.last] = -sums
        moments[self.last, self.last] = sums.sum()

        return moments

    def _within_rows(self, weights: FloatArray) -> FloatArray:
        """What every row adds by itself: E[h hᵀ | total zero] of its draw and what it deals."""
        z = self._tails
        powers = np.array([z * (1 + z) * (1 + 2 * z), z * (1 + z), z]).real

        # Given the total, E |s|², E |s| and the chance of s other than zero.
        shares = self._others[:, None] * weights / self._functions / self._totals
        beyond = self.carries.beyond_squares(*(2 * shares @ power for power in powers))
        inside = 2 * shares.sum(axis=1)
        squares = inside[:, None, None] * self.carries.core_squares + beyond

        return np.asarray(self.carries.placed(squares).todense())

    def _between_rows(self, weights: FloatArray) -> FloatArray:
        """What pairs of rows add: their parts of odd order, which the total ties together."""
        z = self._tails
        # E[s e^(its)] and E[sign(s) e^(its)] are imaginary: 2i times these, over the total mass.
        scaled = self._others[:, None] * 2 / self._totals / self._functions
        sums = scaled * (z * (1 + z)).imag
        signs = scaled * z.imag
        everything = sums + self.carries.full_cores @ signs

        pairs = ((sums, sums), (sums, signs), (signs, signs))
        alone = self.carries.beyond_squares(*((a * b) @ weights for a, b in pairs))
        # i² = −1: pairs pull against each other.
        together = (everything * weights) @ everything.T

        return np.asarray(self.carries.placed(alone).todense() - together)
