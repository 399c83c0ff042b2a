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

from noisewright.arrays import ComplexArray, FloatArray, IntArray
from noisewright.central.carry.carries import Carries, Tail
from noisewright.errors import InvalidParameter, NoisewrightError, require
from noisewright.privacy.noise.flat_core import flat_core
from noisewright.privacy.noise.integers import geometric
from noisewright.privacy.noise.source import ByteSource

_DEGREE = 8  # of the moments, beyond one per row
_ROUNDS = 100_000  # of trials; at the least acceptance allowed, never reached
_LEAST = 1e-3  # of the trials that are kept
_TRIALS = 2**16  # numbers drawn in one round, at most
_HOPES = 4  # trials expected to be kept in one round: of these the first is taken


@dataclass(frozen=True, eq=False)
class ZeroTotal:
    """The carries of rows, of this scale, that add up to zero."""

    carries: Carries
    scale: float

    def __post_init__(self) -> None:
        if not self.carries.cancelled or self.carries.cores[self.last]:
            raise InvalidParameter(
                "carries",
                "?",
                "must be taken back in full, the last row without",
                "plan again",
            )
        require(
            self.accepted >= _LEAST,
            "carries",
            "?",
            "add up to zero too rarely",
            "plan again",
        )

    @property
    def last(self) -> int:
        """The row that takes back what all others add up to."""
        return int(self.carries.order[-1])

    # --- draws ------------------------------------------------------------------------------------

    def draw(self, source: ByteSource | None = None) -> IntArray:
        """Noise for every row."""
        count = min(max(1, _TRIALS // self.carries.rows), ceil(_HOPES / self.accepted))
        for _ in range(_ROUNDS):
            kept = self.trials(count, source)
            if kept.shape[1]:
                return self.carries.carried(kept[:, :1])[:, 0]

        raise NoisewrightError(
            "no noise that adds up to zero was drawn; please report this"
        )

    def trials(self, count: int, source: ByteSource | None = None) -> IntArray:
        """What is kept of so many draws of all rows: columns of one law, fewer or none."""
        cores = np.repeat(self.carries.cores[:, None], count, axis=1)
        draws = flat_core(self.scale, cores, source)
        return self._kept(draws, geometric(self.scale, count, source))

    def _kept(self, draws: IntArray, chances: IntArray) -> IntArray:
        """The trials in which the last row's law has what it needs to be."""
        cores = self.carries.cores[:, None]
        beyond = draws - np.clip(draws, -cores, cores)
        beyond[self.last] = 0
        draws[self.last] = -beyond.sum(axis=0)
        return draws[:, chances >= np.abs(draws[self.last])]

    def simulated(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Columns of noise of the same law, for forecasts."""
        parts: list[IntArray] = []
        while sum(part.shape[1] for part in parts) < count:
            trials = max(64, int(1.1 * count / self.accepted))
            trials = min(trials, max(64, 2**22 // self.carries.rows))
            draws = self.carries.simulated_draws(self.scale, trials, rng)
            chances = np.floor(self.scale * rng.standard_exponential(trials)).astype(
                np.int64
            )
            parts.append(self._kept(draws, chances))

        kept = np.concatenate(parts, axis=1)[:, :count]
        return self.carries.carried(kept).astype(np.float64)

    # --- moments ----------------------------------------------------------------------------------

    @cached_property
    def _tails(self) -> ComplexArray:
        """Σ q^m e^(itm) at the roots of unity z."""
        roots = np.exp(2j * np.pi * np.arange(self._nodes) / self._nodes)
        tail = Tail(self.scale)
        # q(z + q)/(1 − q²), written so that q near one loses nothing
        return np.asarray(tail.mass * (roots + tail.q) / (1 + tail.q))

    @property
    def _nodes(self) -> int:
        return self.carries.rows + _DEGREE

    @cached_property
    def _others(self) -> IntArray:
        return np.delete(np.arange(self.carries.rows), self.last)

    @cached_property
    def _totals(self) -> FloatArray:
        cores = self.carries.cores[self._others]
        return np.asarray(2.0 * cores + 1 + 2 * Tail(self.scale).mass)

    @cached_property
    def _functions(self) -> FloatArray:
        """The generating functions of all rows but the last: one row each."""
        cores = self.carries.cores[self._others][:, None]
        return (2.0 * cores + 1 + 2 * self._tails.real) / self._totals[:, None]

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
        moments = self._own(weights) + self._between(weights)
        others = np.ix_(self._others, self._others)
        result = np.zeros_like(moments)
        inner = moments[others]
        result[others] = inner
        result[self.last, self._others] = result[self._others, self.last] = -inner.sum(
            axis=0
        )
        result[self.last, self.last] = inner.sum()

        return result

    def _own(self, weights: FloatArray) -> FloatArray:
        """What every row adds by itself: E[h hᵀ | total zero] of its draw and what it deals."""
        z = self._tails
        powers = np.array([z, z * (1 + z), z * (1 + z) * (1 + 2 * z)]).real
        # Given the total, |s| to the powers 0, 1, 2 where s is not zero.
        shares = weights / self._functions / self._totals[:, None]
        mass, first, second = (2 * shares @ power for power in powers)
        inside = 2 * shares.sum(axis=1)
        ends = self.carries.ends[self._others]
        own = np.zeros_like(ends)
        own[:, 0] = 1.0
        cross = np.einsum("kt,ku->ktu", own, ends)
        blocks = np.zeros((self.carries.rows, *cross.shape[1:]))
        blocks[self._others] = (
            inside[:, None, None] * self.carries.core_squares[self._others]
            + mass[:, None, None] * np.einsum("kt,ku->ktu", ends, ends)
            + first[:, None, None] * (cross + cross.transpose(0, 2, 1))
            + second[:, None, None] * np.einsum("kt,ku->ktu", own, own)
        )

        return self.carries.placed(blocks).todense()

    def _between(self, weights: FloatArray) -> FloatArray:
        """What pairs of rows add: their parts of odd order, which the total ties together."""
        z = self._tails
        # E[s e^(its)] and E[sign(s) e^(its)] are imaginary: 2i times these, over the total mass.
        odd = np.array([z * (1 + z), z]).imag
        scaled = 2 / self._totals[:, None] / self._functions
        rows = self.carries.rows
        nodes = self._nodes
        sums = np.zeros((rows, nodes))
        signs = np.zeros((rows, nodes))
        sums[self._others], signs[self._others] = scaled * odd[0], scaled * odd[1]
        full = self.carries.full_cores
        everything = sums + full @ signs
        result = (everything * weights) @ everything.T
        squares = [
            (a * b) @ weights for a, b in ((sums, sums), (sums, signs), (signs, signs))
        ]
        ends = self.carries.ends
        own = np.zeros_like(ends)
        own[:, 0] = 1.0
        cross = np.einsum("kt,ku->ktu", own, ends)
        blocks = (
            squares[0][:, None, None] * np.einsum("kt,ku->ktu", own, own)
            + squares[1][:, None, None] * (cross + cross.transpose(0, 2, 1))
            + squares[2][:, None, None] * np.einsum("kt,ku->ktu", ends, ends)
        )

        # i² = −1: pairs pull against each other.
        return np.asarray(self.carries.placed(blocks).todense() - result)
