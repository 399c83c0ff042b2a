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

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter
from noisewright.local.analysis.information import Information
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
    def gain(self) -> FloatArray:
        """Squared response of a bin to each frequency, in unitary transforms."""
        box = np.zeros(self.cells)
        box[: self.width] = 1.0
        return np.abs(np.fft.fft(box)) ** 2 * self.bins / self.cells

    def gathered(self, spectrum: FloatArray) -> FloatArray:
        """UᵀDU for the circulant D with this spectrum, as a matrix."""
        folded = np.bincount(self.fold, spectrum * self.gain, minlength=self.bins)
        column = np.fft.ifft(folded).real
        index = np.arange(self.bins)
        return np.asarray(column[(index[:, None] - index[None, :]) % self.bins])

    def diagonal(self, matrix: FloatArray) -> FloatArray:
        """Diagonal of U N Uᵀ in the characters, for a matrix N over bins."""
        waves = np.fft.fft(np.fft.ifft(matrix, axis=1), axis=0)
        return np.diagonal(waves).real[self.fold] * self.gain

    def sums(self, x: FloatArray) -> FloatArray:
        """Uᵀx."""
        return np.asarray(x.reshape(self.bins, self.width, *x.shape[1:]).sum(axis=1))

    def spread(self, z: FloatArray) -> FloatArray:
        """Uz."""
        return np.repeat(z, self.width, axis=0)


def filtered(spectrum: FloatArray, x: FloatArray) -> FloatArray:
    """The circulant matrix with a real even spectrum, times `x` (first axis)."""
    shape = (-1,) + (1,) * (x.ndim - 1)
    return np.fft.ifft(np.fft.fft(x, axis=0) * spectrum.reshape(shape), axis=0).real


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
        k = np.linalg.solve(
            np.eye(self.bins.bins) + self.coarse @ self.gathered, self.coarse
        )
        return (k + k.T) / 2

    def solve(self, x: FloatArray) -> FloatArray:
        """X⁻¹ applied to a vector or to columns, off the total."""
        y = filtered(self.inverse, x)
        return y - filtered(
            self.inverse, self.bins.spread(self.middle @ self.bins.sums(y))
        )


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
        circulant = float((self.spectrum * self.inverse.inverse).sum())
        circulant -= float((self.inverse.middle * self.between_bins).sum())
        return circulant + self.ramp * float(self.ramp_vector @ self.solved_ramp)

    def on_characters(self) -> FloatArray:
        """Diagonal in the characters: minus the derivative of the value in the fine spectrum."""
        inv = self.inverse
        k = self.inverse.middle
        result = self.between - 2 * inv.inverse * self.between * inv.bins.diagonal(k)
        result += inv.inverse**2 * inv.bins.diagonal(k @ self.between_bins @ k)
        waves = np.abs(np.fft.fft(self.solved_ramp)) ** 2 / inv.bins.cells

        return result + self.ramp * waves

    def on_bins(self) -> FloatArray:
        """Uᵀ(X⁻¹MX⁻¹)U: minus the derivative of the value in the coarse matrix."""
        rest = (
            np.eye(self.inverse.bins.bins) - self.inverse.gathered @ self.inverse.middle
        )
        seen = self.inverse.bins.sums(self.solved_ramp)
        return rest @ self.between_bins @ rest.T + self.ramp * np.outer(seen, seen)

    def on_translates(self, values: FloatArray) -> FloatArray:
        """sᵀ(X⁻¹MX⁻¹)s for all translates s of one vector, less the part of DAD alone."""
        inv = self.inverse
        bins = self.inverse.bins
        waves = np.fft.fft(values)
        box = np.zeros(bins.cells)
        box[: bins.width] = 1.0
        response = np.conj(np.fft.fft(box)) * waves
        seen = self._windows(np.fft.ifft(response * inv.inverse).real)
        twice = self._windows(np.fft.ifft(response * self.between).real)
        k = inv.middle
        pulled = seen @ (k @ self.between_bins @ k)
        pulled -= twice @ (2 * k)
        result = np.einsum("tj,tj->t", pulled, seen)
        ramp = np.fft.ifft(np.conj(waves) * np.fft.fft(self.solved_ramp)).real

        return np.asarray(result + self.ramp * ramp**2)

    def _windows(self, boxed: FloatArray) -> FloatArray:
        """Row t: sums over the bins of a vector translated by t, from its running box sums."""
        bins = self.inverse.bins
        first = np.arange(bins.bins) * bins.width
        return np.asarray(
            boxed[(first[None, :] - np.arange(bins.cells)[:, None]) % bins.cells]
        )


def full_spectrum(half: FloatArray, cells: int) -> FloatArray:
    """An even spectrum over all frequencies, from its first half."""
    return np.concatenate([half, half[1 : (cells + 1) // 2][::-1]])


def sandwich(
    bins: Bins, kept_fine: FloatArray, coarse: FloatArray, gram: Decomposition
) -> Sandwich:
    """The sandwich of a decomposed workload in information given by half a spectrum and bins."""
    fine = full_spectrum(kept_fine, bins.cells)
    spectrum = full_spectrum(gram.eigenvalues, bins.cells).copy()
    spectrum[0] = 0.0
    return Sandwich(CoarseFineInverse(bins, fine, coarse), spectrum, gram.ramp)


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
        return bool((fine > 1e-12 * fine.max(initial=0.0)).all())

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        spectrum = self.inverse.fine.copy()
        spectrum[0] = self.size
        bins = self.inverse.bins
        return filtered(spectrum, x) + bins.spread(self.inverse.coarse @ bins.sums(x))

    def solve(self, x: FloatArray) -> FloatArray:
        """Inverse applied to `x`."""
        return np.asarray(self.inverse.solve(x) + x.mean(axis=0) / self.size)


@dataclass(frozen=True, eq=False)
class CoarseFine(Mixture):
    """A strategy on equal bins of neighbours, mixed with orbits over the cells of a cycle."""

    kind = "coarse-fine"

    def __post_init__(self) -> None:
        super().__post_init__()
        bins, cells = (self.coarsenings * 2)[:2]
        even = bins.table is None and cells.table is None and cells.width == 1
        if len(self.components) != 2 or not even or self.size % bins.width:
            raise InvalidParameter(
                "components", len(self.components), "must be bins and cells"
            )

        coarse, fine = self.components
        if not isinstance(coarse, MatrixStrategy) or not isinstance(
            fine, OrbitStrategy
        ):
            raise InvalidParameter(
                "components", coarse.kind, "must be a matrix, then orbits"
            )
        if fine.sizes != (self.size,) or len(fine.families) != 1:
            raise InvalidParameter("components", fine.sizes, "must turn all cells")

    @property
    def counts_people(self) -> bool:
        """Bins are even."""
        return True

    @cached_property
    def _parts(self) -> tuple[MatrixStrategy, OrbitStrategy, float, float]:
        coarse, fine = self.components
        assert isinstance(coarse, MatrixStrategy)
        assert isinstance(fine, OrbitStrategy)
        first, second = self.chances
        return coarse, fine, first, second

    @cached_property
    def _bins(self) -> Bins:
        return Bins(self.size, self.components[0].size)

    @cached_property
    def _spectrum(self) -> FloatArray:
        """Eigenvalues of the fine information at the kept characters."""
        _, fine, _, _ = self._parts
        return fine.eigenvalues

    @cached_property
    def _centred_coarse(self) -> FloatArray:
        return self._parts[0].information.dense() - 1.0

    @cached_property
    def information(self) -> CoarseFineInformation:
        """X = 11ᵀ + circ(fine) + U coarse Uᵀ."""
        _, _, first, second = self._parts
        return CoarseFineInformation(
            CoarseFineInverse(
                self._bins,
                full_spectrum(second * self._spectrum, self.size),
                first * self._centred_coarse,
            )
        )

    def type_variances(self, gram: Gram) -> FloatArray:
        """From transforms and matrices over bins, for prefix, ranges and what is made of them."""
        known = decompose(gram, Translations((self.size,)))
        if known is None:
            return super().type_variances(gram)
        # Asked for several times on the way to a plan, and seconds of work on large domains.
        return _variances(self, gram).copy()

    def _variances_on(self, known: Decomposition) -> FloatArray:
        group = Translations((self.size,))
        coarse, fine, first, second = self._parts
        product = sandwich(
            self._bins, second * self._spectrum, first * self._centred_coarse, known
        )
        result = first * self._bins.spread(coarse.energy(product.on_bins()))
        between = product.between[: len(group.counts)] * group.counts
        result += second * float(between[1:] @ self._spectrum[1:])
        energies = [product.on_translates(values) for values in fine.families[0].values]
        silent = np.zeros(fine.outputs - fine.starts[-1])
        result += second * fine.expectation(np.concatenate([*energies, silent]))
        weights = known.eigenvalues * group.counts

        return np.asarray(
            result
            - weights[1:].sum() / self.size
            - known.ramp * ramp_vector(self.size) ** 2
        )


@lru_cache(maxsize=2)
def _variances(strategy: CoarseFine, gram: Gram) -> FloatArray:
    known = decompose(gram, Translations((strategy.size,)))
    assert known is not None
    return strategy._variances_on(known)
