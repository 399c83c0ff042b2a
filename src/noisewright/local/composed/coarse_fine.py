"""A strategy on coarse bins beside one whose translates cover the fine domain, and its information.

X = circ(λ) + U C Uᵀ, with U the indicator of n/b equal bins of b neighbouring cells. All that an
optimiser or an analyst needs of X⁻¹ follows from matrices over the bins: UᵀDU is circulant for
every circulant D, with eigenvalues that gather those of D whose frequencies agree on the bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from noisewright.arrays import ComplexArray, FloatArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.analysis.information import Information, along_first
from noisewright.local.composed.mixture import Mixture
from noisewright.local.listed import MatrixStrategy
from noisewright.local.transform.invariants import Decomposition, decompose, ramp_vector
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.transform.translations import Translations
from noisewright.workload.linear.gram import Gram


@dataclass(frozen=True)
class Bins:
    """n cells in equal bins of neighbours; spectra here run over all n frequencies."""

    cells: int
    bins: int

    @property
    def width(self) -> int:
        """Cells of a bin."""
        return self.cells // self.bins

    @cached_property
    def fold(self) -> NDArray[np.int64]:
        """Frequency over bins that each frequency over cells looks like."""
        return np.arange(self.cells) % self.bins

    @cached_property
    def response(self) -> ComplexArray:
        """Transform of the indicator of the first bin."""
        box = np.zeros(self.cells)
        box[: self.width] = 1.0
        return np.fft.fft(box)

    @cached_property
    def gain(self) -> FloatArray:
        """Squared response of a bin to each frequency, in unitary transforms."""
        power = np.abs(self.response) ** 2
        return power * self.bins / self.cells

    def gathered(self, spectrum: FloatArray) -> FloatArray:
        """UᵀDU for the circulant D with this spectrum, as a matrix."""
        seen = spectrum * self.gain
        folded = np.bincount(self.fold, seen, minlength=self.bins)
        column = np.fft.ifft(folded).real

        index = np.arange(self.bins)
        shifts = index[:, None] - index

        return np.asarray(column[shifts % self.bins])

    def diagonal(self, matrix: FloatArray) -> FloatArray:
        """Diagonal of U N Uᵀ in the characters, for a matrix N over bins."""
        half = np.fft.ifft(matrix, axis=1)
        waves = np.fft.fft(half, axis=0)
        on_bins = np.diagonal(waves).real
        return on_bins[self.fold] * self.gain

    def sums(self, x: FloatArray) -> FloatArray:
        """Uᵀx."""
        shape = self.bins, self.width, *x.shape[1:]
        return np.asarray(x.reshape(shape).sum(axis=1))

    def spread(self, z: FloatArray) -> FloatArray:
        """Uz."""
        return np.repeat(z, self.width, axis=0)


def _filtered(spectrum: FloatArray, x: FloatArray) -> FloatArray:
    """The circulant matrix with a real even spectrum, times `x` (first axis)."""
    waves = np.fft.fft(x, axis=0)
    waves *= along_first(spectrum, x)
    return np.fft.ifft(waves, axis=0).real


@dataclass(frozen=True, eq=False)
class CoarseFineInverse:
    """X⁻¹ off the total for X = circ(fine) + U coarse Uᵀ: D − D U K Uᵀ D with D = circ(1/fine).

    `fine` is the spectrum over all frequencies (the first, of the total, is not used), `coarse` a
    centred matrix over the bins.
    """

    bins: Bins
    fine: FloatArray
    coarse: FloatArray

    @cached_property
    def inverse(self) -> FloatArray:
        """Spectrum of D, zero at the total."""
        result = np.zeros(len(self.fine))
        result[1:] = 1.0 / self.fine[1:]
        return result

    @cached_property
    def gathered(self) -> FloatArray:
        """G = UᵀDU."""
        return self.bins.gathered(self.inverse)

    @cached_property
    def middle(self) -> FloatArray:
        """K = C(I + GC)⁻¹, symmetric; well defined where C is singular."""
        system = np.eye(self.bins.bins) + self.coarse @ self.gathered
        k = np.linalg.solve(system, self.coarse)
        return (k + k.T) / 2

    def solve(self, x: FloatArray) -> FloatArray:
        """X⁻¹ applied to a vector or to columns, off the total."""
        y = _filtered(self.inverse, x)
        told = self.middle @ self.bins.sums(y)
        return y - _filtered(self.inverse, self.bins.spread(told))


@dataclass(frozen=True, eq=False)
class Sandwich:
    """X⁻¹ M X⁻¹ for M = circ(A) + β aaᵀ off the total, seen from cells, bins and characters."""

    inverse: CoarseFineInverse
    spectrum: FloatArray
    ramp: float

    @cached_property
    def between(self) -> FloatArray:
        """Spectrum of DAD."""
        return self.inverse.inverse**2 * self.spectrum

    @cached_property
    def between_bins(self) -> FloatArray:
        """T = UᵀDADU."""
        return self.inverse.bins.gathered(self.between)

    @cached_property
    def ramp_vector(self) -> FloatArray:
        """a."""
        return ramp_vector(self.inverse.bins.cells)

    @cached_property
    def solved_ramp(self) -> FloatArray:
        """X⁻¹a."""
        return self.inverse.solve(self.ramp_vector)

    @property
    def value(self) -> float:
        """tr(M X⁻¹)."""
        circulant = (self.spectrum * self.inverse.inverse).sum()
        on_bins = (self.inverse.middle * self.between_bins).sum()
        ramp = self.ramp_vector @ self.solved_ramp
        return float(circulant) - float(on_bins) + self.ramp * float(ramp)

    @cached_property
    def _folded(self) -> FloatArray:
        """K T K."""
        k = self.inverse.middle
        return k @ self.between_bins @ k

    def on_characters(self) -> FloatArray:
        """Diagonal in the characters: minus the derivative of the value in the fine spectrum."""
        d = self.inverse.inverse
        bins = self.inverse.bins
        middle = bins.diagonal(self.inverse.middle)
        mixed = 2 * d * self.between * middle
        folded = d**2 * bins.diagonal(self._folded)

        waves = np.abs(np.fft.fft(self.solved_ramp))
        ramp = self.ramp * (waves**2 / bins.cells)

        return self.between - mixed + folded + ramp

    def on_bins(self) -> FloatArray:
        """Uᵀ(X⁻¹MX⁻¹)U: minus the derivative of the value in the coarse matrix."""
        inverse = self.inverse
        rest = np.eye(inverse.bins.bins) - inverse.gathered @ inverse.middle
        seen = inverse.bins.sums(self.solved_ramp)
        ramp = self.ramp * np.outer(seen, seen)
        return rest @ self.between_bins @ rest.T + ramp

    def on_translates(self, values: FloatArray) -> FloatArray:
        """sᵀ(X⁻¹MX⁻¹)s for all translates s of one vector, less the part of DAD alone."""
        waves = np.fft.fft(values)
        boxed = np.conj(self.inverse.bins.response) * waves
        seen = self._windows(boxed * self.inverse.inverse)
        twice = self._windows(boxed * self.between)

        pulled = seen @ self._folded
        pulled -= twice @ (2 * self.inverse.middle)
        result = np.einsum("tj,tj->t", pulled, seen)

        ramp_waves = np.conj(waves) * np.fft.fft(self.solved_ramp)
        ramp = np.fft.ifft(ramp_waves).real

        return np.asarray(result + self.ramp * ramp**2)

    def _windows(self, waves: ComplexArray) -> FloatArray:
        """Row t: sums over the bins of a vector translated by t, from its running box sums."""
        bins = self.inverse.bins
        boxed = np.fft.ifft(waves).real
        first = np.arange(bins.bins) * bins.width
        starts = first - np.arange(bins.cells)[:, None]
        return np.asarray(boxed[starts % bins.cells])


def full_spectrum(half: FloatArray, cells: int) -> FloatArray:
    """An even spectrum over all frequencies, from its first half."""
    mirrored = half[1 : (cells + 1) // 2][::-1]
    return np.concatenate([half, mirrored])


def sandwich(
    bins: Bins, kept_fine: FloatArray, coarse: FloatArray, gram: Decomposition
) -> Sandwich:
    """The sandwich of a decomposed workload in information given by half a spectrum and bins."""
    fine = full_spectrum(kept_fine, bins.cells)
    inverse = CoarseFineInverse(bins, fine, coarse)

    spectrum = full_spectrum(gram.eigenvalues, bins.cells)
    spectrum[0] = 0.0

    return Sandwich(inverse, spectrum, gram.ramp)


@dataclass(frozen=True, eq=False)
class CoarseFineInformation(Information):
    """X = 11ᵀ + circ(fine) + U coarse Uᵀ."""

    inverse: CoarseFineInverse

    @property
    def size(self) -> int:
        """Number of types."""
        return self.inverse.bins.cells

    @property
    def full_rank(self) -> bool:
        """Whether every frequency is seen."""
        fine = self.inverse.fine[1:]
        least = 1e-12 * fine.max(initial=0.0)
        return bool((fine > least).all())

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        spectrum = self.inverse.fine.copy()
        spectrum[0] = self.size

        bins = self.inverse.bins
        coarse = self.inverse.coarse @ bins.sums(x)

        return _filtered(spectrum, x) + bins.spread(coarse)

    def solve(self, x: FloatArray) -> FloatArray:
        """Inverse applied to `x`."""
        mean = x.mean(axis=0)
        return np.asarray(self.inverse.solve(x) + mean / self.size)


@dataclass(frozen=True, eq=False)
class CoarseFine(Mixture):
    """A strategy on equal bins of neighbours, mixed with orbits over the cells of a cycle."""

    kind = "coarse-fine"

    def __post_init__(self) -> None:
        super().__post_init__()
        _, fine = self._parts
        alone = len(fine.families) == 1
        turned = alone and fine.sizes == (self.size,)
        require(turned, "components", fine.sizes, "must turn all cells")

        bins, cells = self.coarsenings
        even = bins.table is None and self.size % bins.width == 0
        whole = cells.table is None and cells.width == 1
        require(even and whole, "components", bins.width, "must be bins and cells")

    @property
    def counts_people(self) -> bool:
        """Bins are even."""
        return True

    @property
    def _parts(self) -> tuple[MatrixStrategy, OrbitStrategy]:
        match self.components:
            case (MatrixStrategy() as coarse, OrbitStrategy() as fine):
                return coarse, fine
            case _:
                kinds = [component.kind for component in self.components]
                rule = "must be a matrix, then orbits"
                raise InvalidParameter("components", kinds, rule)

    @cached_property
    def _bins(self) -> Bins:
        coarse, _ = self._parts
        return Bins(self.size, coarse.size)

    @cached_property
    def _told(self) -> tuple[FloatArray, FloatArray]:
        """What reports tell of the kept characters, and off the total of the bins."""
        coarse, fine = self._parts
        of_coarse, of_fine = self.chances
        centred_coarse = coarse.information.dense() - 1.0
        return of_fine * fine.eigenvalues, of_coarse * centred_coarse

    @cached_property
    def information(self) -> CoarseFineInformation:
        """X = 11ᵀ + circ(fine) + U coarse Uᵀ."""
        kept, coarse = self._told
        fine = full_spectrum(kept, self.size)
        return CoarseFineInformation(CoarseFineInverse(self._bins, fine, coarse))

    def type_variances(self, gram: Gram) -> FloatArray:
        """From transforms and matrices over bins, for prefix, ranges and what is made of them."""
        known = decompose(gram, Translations((self.size,)))
        if known is None:
            return super().type_variances(gram)
        # Asked for several times on the way to a plan, and seconds of work on large domains.
        return _variances(self, gram).copy()

    def _variances_on(self, known: Decomposition) -> FloatArray:
        coarse, fine = self._parts
        of_coarse, of_fine = self.chances
        counts = Translations((self.size,)).counts
        product = sandwich(self._bins, *self._told, known)

        energies = coarse.energy(product.on_bins())
        result = of_coarse * self._bins.spread(energies)

        between = product.between[: len(counts)] * counts
        invariant = between[1:] @ fine.eigenvalues[1:]
        result += of_fine * float(invariant)

        (family,) = fine.families
        translates = [product.on_translates(values) for values in family.values]
        silent = np.zeros(fine.outputs - fine.starts[-1])
        of_reports = np.concatenate([*translates, silent])
        result += of_fine * fine.expectation(of_reports)

        weights = known.eigenvalues * counts
        asked = weights[1:].sum() / self.size
        ramp = known.ramp * ramp_vector(self.size) ** 2

        return np.asarray(result - asked - ramp)


@lru_cache(maxsize=2)
def _variances(strategy: CoarseFine, gram: Gram) -> FloatArray:
    known = decompose(gram, Translations((strategy.size,)))
    assert known is not None
    return strategy._variances_on(known)
