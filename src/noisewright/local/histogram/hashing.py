"""Local hashing [026] with linear hash functions over a prime field.

Cells are written in base g, g prime, as vectors over GF(g). A client draws a non-zero vector a,
hashes its cell to ⟨a, u⟩ mod g, and reports a with the hash, randomised among the g values. Any two
cells collide equally often, so the histogram mechanisms' formulas hold; and because the functions
are linear, all reports are counted in a table of a few n numbers and decoded by one Fourier
transform, where hash functions without structure cost one pass over the cells per report.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import Self

import numpy as np

from noisewright.arrays import Array, ComplexArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.analysis.information import centred
from noisewright.local.fixedpoint import WORD
from noisewright.local.histogram.centred import (
    CentredStrategy,
    FavouringStrategy,
    PlainStrategy,
    Support,
)
from noisewright.local.mechanism import LocalMechanism, LocalProblem, slow_matrices
from noisewright.local.randomizer.laws import Same
from noisewright.local.randomizer.routers import Project
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored, whole_number
from noisewright.local.strategy import DENSE_SIZE, IndexStrategy
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

_LARGEST_TABLE = 2**25
"""Counters of a tally: 256 MiB."""

_TRANSFORM_BLOCK = 128
"""Rows of the matrix that transforms a few digits at once."""


@dataclass(frozen=True)
class LocalHashing(FavouringStrategy, PlainStrategy, CentredStrategy, IndexStrategy):
    """Report a random linear hash function and the randomised hash of the cell."""

    size: int
    epsilon: float
    buckets: int = 0

    kind = "local-hashing"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buckets == 0:
            best = _best_buckets(self.size, self.epsilon)
            object.__setattr__(self, "buckets", best)

        # Larger ones fit no table, and would take long to be tried for divisors.
        if not _is_prime(whole_number("buckets", self.buckets, 2, _LARGEST_TABLE)):
            remedy = "try 2, 3, 5 or 7"
            raise InvalidParameter("buckets", self.buckets, "must be prime", remedy)
        if self.outputs > _LARGEST_TABLE:
            raise TooLarge(
                f"local hashing of {self.size} cells to {self.buckets} values needs "
                f"{self.outputs} counters; lower buckets"
            )

    @cached_property
    def digits(self) -> int:
        """Length of a cell in base g."""
        digits = 1
        reach = self.buckets

        while reach < self.size:
            digits = digits + 1
            reach = reach * self.buckets

        return digits

    @property
    def functions(self) -> int:
        """Number of vectors a, the zero vector included (it is never drawn)."""
        return int(self.buckets**self.digits)

    @property
    def outputs(self) -> int:
        """A vector and a hash value."""
        return self.functions * self.buckets

    @property
    def alike(self) -> bool:
        """Not where more than two hash values put some cells in line with others."""
        return self.buckets == 2

    @property
    def favoured(self) -> tuple[int, int]:
        """The true hash value."""
        return 1, self.buckets

    def express(self, nodes: Nodes) -> int:
        hashed = nodes.favour(self.threshold, Same(cells=self.buckets))
        digits = self.digits
        cells = str(self.size)

        return nodes.add(
            Project(cells=cells, base=self.buckets, digits=digits, of=hashed)
        )

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        return cls(stored.cells, stored.epsilon, stored.node(Project).base)

    @cached_property
    def _law(self) -> tuple[float, float, float, float]:
        """Chances of the true and of one other hash value, of two and of three cells colliding."""
        truth = self.threshold / WORD
        g = self.buckets
        lie = (1 - truth) / (g - 1)

        others = self.functions - 1
        agreeing_on_two = self.functions // g - 1
        agreeing_on_three = max(self.functions // g**2 - 1, 0)

        return truth, lie, agreeing_on_two / others, agreeing_on_three / others

    @cached_property
    def support(self) -> Support:
        """A report supports the cells that hash to its value; triples as if never in line."""
        truth, lie, two, three = self._law
        other = two * truth + (1 - two) * lie
        pair = three * truth + (two - three) * lie
        return Support(truth, other, two * truth, pair)

    @cached_property
    def line_excess(self) -> float:
        """What a pair of cells in line with the true one adds to the chance of joint support.

        On a line a hash is constant or takes every value once, so two collide only with all.
        """
        truth, _, two, _ = self._law
        return two * truth - self.support.other_pair

    @cached_property
    def _digit_table(self) -> Array:
        dtype = np.int16 if self.buckets < 128 else np.int64
        vectors = np.arange(self.functions)[:, None]
        digits = vectors // self._powers % self.buckets
        return digits.astype(dtype)

    @cached_property
    def _powers(self) -> IntArray:
        return np.asarray(self.buckets ** np.arange(self.digits))

    def supporters(self, tally: IntArray) -> IntArray:
        """Σ over reports (a, y) of 1[⟨a, v⟩ = y], by a transform over GF(g)^digits."""
        g = self.buckets
        counts = tally.reshape(self.functions, g)
        waves = np.fft.fft(counts, axis=1)  # Σ_y C[a, y] ω^{−cy}
        spectrum = np.zeros(self.functions, dtype=np.complex128)
        spectrum[0] = counts.sum()

        for c in range(1, g):
            multiples = self._combine(self._digit_table * c)
            spectrum[multiples] += waves[:, c]

        held = _field_transform(spectrum, g, sign=1).real / g
        return np.rint(held[: self.size]).astype(np.int64)

    def _combine(self, digits: Array) -> IntArray:
        """The vectors of these digits, up to multiples of g."""
        return (digits % self.buckets).astype(np.int64) @ self._powers

    # --- analysis -----------------------------------------------------------------------------

    def _line_partners(self, factor: int) -> IntArray:
        """For every pair (u, v) the cell u + factor·(v − u), or −1 outside the domain."""
        digits = self._digit_table[: self.size].astype(np.int64)
        result = np.zeros((self.size, self.size), dtype=np.int64)

        for digit, power in zip(digits.T, self._powers, strict=True):
            moved = (1 - factor) * digit[:, None] + factor * digit
            result += power * (moved % self.buckets)

        result[result >= self.size] = -1
        np.fill_diagonal(result, -1)

        return result

    def _line_sums(self, quadratic: FloatArray) -> FloatArray:
        """For every u, the sum of a matrix over pairs of cells in line with u."""
        total = np.zeros(self.size)
        cells = np.arange(self.size)[None, :]

        for factor in range(2, self.buckets):
            partner = self._line_partners(factor)
            entries = np.where(partner >= 0, quadratic[cells, partner], 0.0)
            total += entries.sum(axis=1)

        return total

    @cached_property
    def _line_counts(self) -> FloatArray:
        """Number of pairs in line with each cell, by transforms: for domains of any size."""
        g = self.buckets
        inside = np.zeros(self.functions)
        inside[: self.size] = 1.0
        wave = _field_transform(inside, g, sign=-1)
        spectrum = np.zeros(self.functions, dtype=np.complex128)
        digits = self._digit_table.astype(np.int64)

        for factor in range(2, g):
            # Σ_v 1[v] 1[(1−f)u + fv] has transform 1̂(k/(1−f)) 1̂(−fk/(1−f)).
            inverse = pow(1 - factor, -1, g)
            out = self._combine(digits * inverse)
            back = self._combine(digits * (-factor * inverse))
            spectrum += wave[out] * wave[back]

        pairs = _field_transform(spectrum, g, sign=1).real / self.functions
        counts = np.rint(pairs[: self.size])

        return counts - (g - 2)  # the pair (u, u) itself is no line

    def type_variances(self, gram: Gram) -> FloatArray:
        """The histogram formula, and what lines through the true cell add.

        Exact up to 4096 cells, for histograms and totals, and for two hash values. Beyond, never
        understated: a line maps cells one to one, and M is positive.
        """
        plain = super().type_variances(gram)
        if self.alike:
            return plain

        scale = self.line_excess / self.support.gap**2
        weights = gram.identity_and_ones()
        if weights is not None:
            # P M P = w (I − 11ᵀ/n): off the diagonal it is −w/n.
            return plain - scale * weights[0] * self._line_counts / self.size

        if self.size > DENSE_SIZE:
            image = gram.matvec(np.ones(self.size))
            spread = gram.trace() - float(image.mean())
            return plain + abs(scale) * (self.buckets - 2) * spread

        return plain + scale * self._line_sums(centred(gram.dense()))

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """E[sᵀ S s | u]."""
        plain = super().energy(quadratic)
        if self.alike:
            return plain

        scale = self.line_excess * (self.contrast / self.support.gap) ** 2
        return plain + scale * self._line_sums(centred(quadratic))

    def query_variances(self, workload: Workload, histogram: FloatArray) -> FloatArray:
        """By matrices up to 4096 cells; beyond, as if no cells were in line (exact for g = 2)."""
        if self.alike or self.size > DENSE_SIZE:
            return super().query_variances(workload, histogram)
        return workload.row_quadratics(self.covariance(histogram))

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """The histogram formula, and Σ_u x_u over pairs in line with u."""
        plain = super().covariance(histogram)
        if self.alike:
            return plain

        lines = np.zeros((self.size, self.size))

        for factor in range(2, self.buckets):
            partner = self._line_partners(factor)
            person, cell = np.nonzero(partner >= 0)
            pairs = cell, partner[person, cell]
            np.add.at(lines, pairs, histogram[person])

        scale = self.line_excess / self.support.gap**2
        return plain + scale * centred(lines)


def _best_buckets(size: int, epsilon: float) -> int:
    """The prime near 1 + e^ε with the smallest variance on the histogram, tables permitting."""
    target = min(1 + exp(min(epsilon, 9.0)), float(size))
    primes = filter(_is_prime, range(2, int(1.5 * target) + 3))
    fits = [prime for prime in primes if _table(size, prime) <= _LARGEST_TABLE]
    nearest = sorted(fits, key=lambda prime: abs(log(prime) - log(target)))

    def contrast(prime: int) -> float:
        return LocalHashing(size, epsilon, prime).contrast

    return max(nearest[:8], key=contrast)


def _field_transform(x: Array, prime: int, sign: int) -> ComplexArray:
    """Fourier transform over GF(prime)^t of a vector of length prime^t, unnormalised.

    Digits are taken a few at a time as one matrix product: long axes of length 2 or 3 are where
    general transforms are slow.
    """
    step = prime
    while step * prime <= _TRANSFORM_BLOCK:
        step *= prime

    work = x.astype(np.complex128)
    left = len(x)

    while left > 1:
        # Each pass transforms the fastest digits and rotates them to the front.
        block = min(step, left)
        waves = work.reshape(-1, block) @ _digit_waves(prime, block, sign)
        work = np.ascontiguousarray(waves.T)
        left //= block

    return work.reshape(len(x))


def _digit_waves(prime: int, block: int, sign: int) -> ComplexArray:
    digits = np.arange(prime)
    one = np.exp(sign * 2j * np.pi * np.outer(digits, digits) / prime)
    waves = np.ones((1, 1), dtype=np.complex128)

    while len(waves) < block:
        waves = np.kron(waves, one)

    return waves


def _table(size: int, buckets: int) -> int:
    functions = buckets
    while functions < size:
        functions *= buckets
    return functions * buckets


def _is_prime(number: int) -> bool:
    return number >= 2 and all(number % k for k in range(2, int(number**0.5) + 1))


def _plan(problem: LocalProblem) -> LocalHashing:
    """Hashing to two values where lines through cells, which more values bring, are too many."""
    many = problem.cells > DENSE_SIZE
    lines = many and problem.gram.identity_and_ones() is None
    return LocalHashing(problem.listed_cells, problem.epsilon, 2 if lines else 0)


ENTRY = LocalMechanism(
    "local-hashing", "a random hash of the cell", _plan, slow=slow_matrices
)
