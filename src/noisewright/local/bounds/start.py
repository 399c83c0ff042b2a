"""Where a search for a proof begins: with the reports of a strategy, and the Φ that they are.

The condition of `proof` is one of Φ = Z − (λπᵀ + πλᵀ)/2: vᵀΦv ≤ 0 for every set of cells. Every
symmetric Φ has this form, with λ = −2Φ1 + π(1ᵀΦ1), where Z1 = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, inf

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.bounds.centring import centred_at, symmetrised
from noisewright.local.bounds.folding import Folding

_NEGLIGIBLE = 1e-4
"""Share of the nuclear norm that directions left out of R may hold together: they have next to no
part in a floor, and cost a step as much as any. Ten times more or less changed no floor tried."""


@dataclass(frozen=True, eq=False)
class Reports:
    """A two-valued strategy: sets of cells, the low chance of each, and its prior."""

    patterns: BoolArray
    weights: FloatArray
    prior: FloatArray


@dataclass(frozen=True, eq=False)
class Roots:
    """R within each subspace of a folding, for a Gram matrix centred at a prior."""

    parts: tuple[FloatArray, ...]
    full: bool
    """Whether RΦRᵀ ≻ 0 says that Z ⪰ 0."""
    centred: FloatArray

    @classmethod
    def of(
        cls,
        gram: FloatArray,
        prior: FloatArray,
        folding: Folding,
    ) -> Roots:
        """All directions but those that together hold next to nothing."""
        centred = centred_at(gram, prior)
        spectra = [np.linalg.eigh(half) for half in folding.halves(centred)]
        together = [values for values, _ in spectra]
        least = _least_kept(np.concatenate(together))
        roots = []
        for values, vectors in spectra:
            kept = values > least
            scaled = vectors[:, kept] * np.sqrt(values[kept])
            roots.append(scaled.T)

        rank = sum(map(len, roots))
        return cls(tuple(roots), rank == len(gram) - 1, centred)


@dataclass(frozen=True, eq=False)
class Start:
    """Roots of the centred Gram matrix, and the Φ of a strategy."""

    gram: FloatArray
    """Centred at the first prior, at one scale for all."""
    roots: Roots
    phi: FloatArray

    @classmethod
    def of(
        cls,
        gram: FloatArray,
        epsilon: float,
        reports: Reports,
        folding: Folding,
    ) -> Start:
        """Z = X⁻¹MX⁻¹, and the prices for which the strategy's reports cost what they pay."""
        prior = reports.prior
        weights = reports.weights

        # Centred once for all priors to come: centring anew would lose the digits of large offsets.
        centred = centred_at(gram, prior)
        scale = float(np.trace(centred)) / len(gram)
        if not 0 < scale < inf:
            raise np.linalg.LinAlgError("no query tells people apart")
        centred = centred / scale
        roots = Roots.of(centred, prior, folding)

        # A row per report: the chance of each type to send it, up to a factor.
        likelihoods = 1.0 + expm1(epsilon) * reports.patterns
        shares = likelihoods @ prior

        # X = Σ w·vvᵀ/(πᵀv), the information of all reports.
        weighted = likelihoods * (weights / shares)[:, None]
        information = weighted.T @ likelihoods
        inverse = np.linalg.pinv(information, hermitian=True)
        z = inverse @ roots.centred @ inverse

        # Prices for which λᵀv = vᵀZv/(πᵀv) on the strategy's own reports, by least squares.
        report_values = np.einsum("ou,ou->o", likelihoods @ z, likelihoods) / shares
        weighted = likelihoods * (weights * shares)[:, None]
        normal = weighted.T @ likelihoods
        right = weighted.T @ report_values
        prices, *_ = np.linalg.lstsq(normal, right, rcond=1e-12)

        phi = z - _coupling(prices, prior)
        return cls(centred, roots, folding.averaged(phi))


def _least_kept(values: FloatArray) -> float:
    """The eigenvalue up to which all together hold next to nothing of the nuclear norm."""
    ordered = np.sort(np.maximum(values, 0.0))
    shares = np.cumsum(np.sqrt(ordered))
    left_out = int((shares <= _NEGLIGIBLE * shares[-1]).sum())
    return float(ordered[max(left_out - 1, 0)])


def _coupling(prices: FloatArray, prior: FloatArray) -> FloatArray:
    """(λπᵀ + πλᵀ)/2."""
    return symmetrised(np.outer(prices, prior))


def phi_of(
    factor: FloatArray,
    prices: FloatArray,
    prior: FloatArray,
) -> FloatArray:
    """Φ, from a factor of Z and prices."""
    return factor @ factor.T - _coupling(prices, prior)


def prices_of(phi: FloatArray, prior: FloatArray) -> FloatArray:
    """λ of Φ = Z − (λπᵀ + πλᵀ)/2."""
    sums = phi.sum(axis=1)
    return np.asarray(prior * float(sums.sum()) - 2 * sums)


def split_phi(
    phi: FloatArray,
    prior: FloatArray,
    folding: Folding,
) -> tuple[FloatArray, FloatArray]:
    """A factor of Z, made definite, and the prices λ of Φ."""
    prices = prices_of(phi, prior)
    z = phi + _coupling(prices, prior)
    factors = []
    for half in folding.halves(symmetrised(z)):
        values, vectors = np.linalg.eigh(half)
        kept = values > 0
        factors.append(vectors[:, kept] * np.sqrt(values[kept]))

    return folding.spread(tuple(factors)), prices
