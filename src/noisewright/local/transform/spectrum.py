"""Eigenvalues of a Gram matrix off the total: closed forms where the structure has them.

The total of a histogram is public in the local model, so only P M P with P = I − 11ᵀ/n matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.local.analysis.information import centred
from noisewright.local.strategy import DENSE_SIZE
from noisewright.workload.linear.gram import (
    Gram,
    IdentityGram,
    KronGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
    XorGram,
)
from noisewright.workload.linear.marginal_gram import MarginalGram


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of P M P (the zero of the total left out), with multiplicities.

    Where `exact` is false each value is a lower bound, so that bounds made of it still hold.
    """

    values: FloatArray
    counts: FloatArray
    exact: bool = True

    @property
    def nuclear(self) -> float:
        """Σ √λ: the nuclear norm of WP."""
        return float(np.sqrt(self.values) @ self.counts)

    def scaled(self, factor: float) -> Spectrum:
        """All eigenvalues times a factor."""
        return Spectrum(factor * self.values, self.counts, self.exact)


def lowered_eigenvalues(values: Array, largest: float) -> FloatArray:
    """Eigenvalues of a positive semidefinite matrix, less all that rounding may have added.

    `largest` bounds the diagonal before centring (or its mean times a few). Products, centring and
    the decomposition each move entries by a few units in the last place of it, hence eigenvalues by
    at most n times that: noise on a zero would else add its square root to a bound that must hold.
    """
    noise = 16 * len(values) * float(np.finfo(float).eps) * largest
    return np.asarray(np.maximum(values - noise, 0.0), dtype=np.float64)


def _single(values: FloatArray) -> Spectrum:
    """From closed forms, right to the last digits."""
    return Spectrum(np.maximum(values, 0.0), np.ones(len(values)))


def _dense_spectrum(gram: Gram) -> Spectrum:
    m = gram.dense()
    largest = float(np.diagonal(m).max(initial=0.0))
    m = centred(m)
    values = np.linalg.eigvalsh((m + m.T) / 2)

    # One of the zeros is the total's; which one does not matter, so the smallest is dropped.
    return _single(lowered_eigenvalues(values, largest)[1:])


def centred_spectrum(gram: Gram) -> Spectrum:
    """Eigenvalues of P M P."""
    n = gram.size
    match gram:
        case IdentityGram():
            return Spectrum(np.ones(1), np.array([n - 1.0]))
        case OnesGram():
            return Spectrum(np.zeros(1), np.array([n - 1.0]))
        case PrefixGram():
            # On vectors that sum to zero the prefix sums vanish at both ends, so M inverts the
            # Laplacian of a path with fixed ends.
            half_angles = np.pi * np.arange(1, n) / (2 * n)
            return _single(0.25 / np.sin(half_angles) ** 2)
        case RangesGram():
            return _ranges_spectrum(n)
        case XorGram():
            return _single(gram.eigenvalues[1:])
        case MarginalGram():
            return _tables_spectrum(gram)
        case ScaledGram():
            return centred_spectrum(gram.inner).scaled(gram.weight)
        case KronGram():
            return _product_spectrum(gram)
        case _ if n <= DENSE_SIZE:
            return _dense_spectrum(gram)
        case SumGram():
            # M is at least each of its parts: the largest part's spectrum bounds it from below.
            parts = [centred_spectrum(part) for part in gram.parts]
            best = max(parts, key=lambda part: part.nuclear)
            return Spectrum(best.values, best.counts, exact=len(parts) == 1)
        case _:
            raise TooLarge(f"no closed-form spectrum for this workload over {n} cells")


def _tables_spectrum(gram: MarginalGram) -> Spectrum:
    values = []
    counts = []

    for block in gram.closure:
        if block:
            values.append(gram.eigenvalue(block))
            counts.append(float(prod(gram.sizes[i] - 1 for i in block)))

    return Spectrum(np.array(values), np.array(counts))


def _ranges_spectrum(n: int) -> Spectrum:
    """Those of Σ_{a<b} (S_b − S_a)² = (n+1) ΣS² − (ΣS)² over prefix sums S with fixed ends.

    Eigenvectors that sum to zero are sine waves of whole periods; the others, of the form
    1 − cos(θ(j − n/2))/cos(θn/2), meet (ΣS)² where sin(θ(n+1)/2) = 0. The eigenvalue at frequency
    θ is (n+1)/(2 − 2 cos θ).
    """
    waves = np.arange(1, (n - 1) // 2 + 1) / n
    others = np.arange(1, n // 2 + 1) / (n + 1)
    half_angles = np.pi * np.concatenate([waves, others])
    return _single((n + 1) / (4 * np.sin(half_angles) ** 2))


def _product_spectrum(gram: KronGram) -> Spectrum:
    splits = [_split_spectrum(factor) for factor in gram.factors]
    spectra = [split for split in splits if split is not None]
    if len(spectra) < len(splits):
        if gram.size <= DENSE_SIZE:
            return _dense_spectrum(gram)
        raise TooLarge(
            f"no closed-form spectrum for this product over {gram.size} cells"
        )

    total = 1.0
    values = np.ones(1)
    counts = np.ones(1)

    for eigenvalue, rest in spectra:
        factor_values = np.append(eigenvalue, rest.values)
        factor_counts = np.append(1.0, rest.counts)
        total *= eigenvalue
        values, counts = _merged(
            np.outer(values, factor_values).ravel(),
            np.outer(counts, factor_counts).ravel(),
        )

    nearest = int(np.argmin(np.abs(values - total)))
    counts[nearest] -= 1.0
    exact = all(rest.exact for _, rest in spectra)

    return Spectrum(values, counts, exact)


def _split_spectrum(gram: Gram) -> tuple[float, Spectrum] | None:
    """Eigenvalue of the constant vector and the rest, if the constant vector is an eigenvector."""
    ones = np.ones(gram.size)
    image = gram.matvec(ones)
    eigenvalue = float(image.mean())
    missed = np.abs(image - eigenvalue).max()
    if missed > 1e-13 * float(np.abs(image).max()):
        return None

    return eigenvalue, centred_spectrum(gram)


def _merged(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues equal to twelve digits counted together, as the least of them.

    Products of many factors stay small that way.
    """
    mantissa, exponent = np.frexp(values)
    keys = np.stack([np.round(mantissa, 12), exponent])
    _, inverse = np.unique(keys, axis=1, return_inverse=True)
    groups = np.ravel(inverse)
    together = np.bincount(groups, weights=counts).astype(np.float64)
    least = np.full(len(together), np.inf)
    np.minimum.at(least, groups, values)

    return least, together


# --- sums over blocks of cells ------------------------------------------------------------------


class Intervals(NamedTuple):
    """Intervals [start, stop) of cells, each inside its outer interval."""

    start: IntArray
    stop: IntArray
    outer_start: IntArray
    outer_stop: IntArray

    @property
    def lengths(self) -> tuple[FloatArray, FloatArray]:
        """Cells of the intervals, and of the outer ones."""
        inner = self.stop - self.start
        outer = self.outer_stop - self.outer_start
        return inner.astype(np.float64), outer.astype(np.float64)


@dataclass(frozen=True, eq=False)
class SummedGram(Gram):
    """A Gram matrix with its sums over [0, i) × [0, j): sums over any blocks are then immediate."""

    inner: Gram
    sums: FloatArray

    @classmethod
    def of(cls, gram: Gram) -> SummedGram:
        """Sum once what will be asked many times."""
        if gram.size > DENSE_SIZE:
            raise TooLarge(f"no closed form for sums over blocks of {gram.size} cells")

        sums = np.zeros((gram.size + 1, gram.size + 1))
        columns = np.cumsum(gram.dense(), axis=0)
        np.cumsum(columns, axis=1, out=sums[1:, 1:])
        return cls(gram, sums)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        """Product with `x`."""
        return self.inner.matvec(x)

    def diagonal(self) -> FloatArray:
        """Diagonal."""
        return self.inner.diagonal()


def block_traces(gram: Gram, width: int) -> float:
    """Σ over blocks of 1ᵀM1: the trace of the Gram matrix of block totals."""
    starts = np.arange(0, gram.size, width)
    stops = np.minimum(starts + width, gram.size)
    blocks = Intervals(starts, stops, starts, stops)
    return float(interval_products(gram, blocks).sum())


def has_closed_form(gram: Gram) -> bool:
    """Whether sums over blocks need no matrix."""
    match gram:
        case ScaledGram():
            return has_closed_form(gram.inner)
        case SumGram():
            return all(map(has_closed_form, gram.parts))
        case IdentityGram() | OnesGram() | PrefixGram() | RangesGram() | SummedGram():
            return True
        case _:
            return False


def interval_products(gram: Gram, over: Intervals) -> FloatArray:
    """1ᵀM1' for the indicators of intervals and of their outer intervals."""
    match gram:
        case ScaledGram():
            return gram.weight * interval_products(gram.inner, over)
        case SumGram():
            return np.asarray(sum(interval_products(part, over) for part in gram.parts))
        case IdentityGram():
            return over.lengths[0]
        case OnesGram():
            inner, outer = over.lengths
            return np.asarray(inner * outer)
        case PrefixGram():
            return _prefix_products(gram.size, over)
        case RangesGram():
            return _ranges_products(gram.size, over)
        case SummedGram():
            a, b, c, d = over
            sums = gram.sums
            return sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c]
        case _:
            raise TooLarge(f"no closed form for sums over blocks of {gram.size} cells")


def _prefix_products(n: int, over: Intervals) -> FloatArray:
    """Σ_t S(t) S'(t): prefix sums rise by one a cell inside an interval and stay after it."""
    inner, outer = over.lengths
    lead = over.start - over.outer_start
    ahead = lead * inner * (inner + 1) / 2
    inside = ahead + inner * (inner + 1) * (2 * inner + 1) / 6

    reached = over.stop - over.outer_start
    rest = outer * (outer + 1) - reached * (reached + 1.0)
    between = inner * rest / 2
    after = (n - over.outer_stop) * inner * outer

    return np.asarray(inside + between + after)


def _ranges_products(n: int, over: Intervals) -> FloatArray:
    """(n+1) ΣSS' − ΣS ΣS' over the n+1 prefix sums S and S'."""
    inner, outer = over.lengths
    total = inner * (inner + 1) / 2 + (n - over.stop) * inner
    outer_total = outer * (outer + 1) / 2 + (n - over.outer_stop) * outer
    squares = (n + 1) * _prefix_products(n, over)
    return np.asarray(squares - total * outer_total)
