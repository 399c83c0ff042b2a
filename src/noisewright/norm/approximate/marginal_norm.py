"""Approximate norms of all marginals of some widths over any number of like attributes.

All values of d attributes with q values each are alike, and so are all rows of one width w (a
table of w attributes, one pattern): the best approximation of a row depends on x by the number m of
attributes that match, z(m) = Σ_j c_j K_j(m), K_j(m) the coefficient of s^j in
(1 + (q − 1)s)^m (1 − s)^(w − m), and the vectors hold the interactions of j attributes with one
weight. Degree j costs √(C(d, j)C(w, j))·(q − 1)^j; with free shifts of rows j = 0 costs nothing.
See `orbit_program`; its bound holds for every factorization, symmetric or not, as the matrix with
the weights shared by the rows and columns that match in m places is a dual witness of the whole.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import Contradiction, require
from noisewright.norm.approximate.box import gap_status
from noisewright.norm.approximate.orbit_program import Orbit, orbit_bound, solve_orbits
from noisewright.solution import SLACK, BoundClass, Certificate, Solution


@dataclass(frozen=True, eq=False, kw_only=True)
class OrbitWitness(Certificate):
    """For every orbit of rows a signed weight per point, and the weight of that orbit."""

    name: str = "symmetric dual witness"
    bound_class: BoundClass = BoundClass.WITHIN_TOLERANCE
    weights: tuple[FloatArray, ...]
    shares: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalNorm(Solution):
    """γ2(W, α) or γ̂2(W, α) of all marginals of the given widths, between bound and value.

    `coefficients[k][j]` is c_j of the k-th width, `spread[j]` the share of the squared length of
    every person's vector that is in the interactions of j attributes.
    """

    attributes: int
    values: int
    widths: tuple[int, ...]
    entrywise: float
    shift: bool
    coefficients: tuple[FloatArray, ...]
    spread: FloatArray
    certificate: OrbitWitness

    def __post_init__(self) -> None:
        """Nothing outside its tolerance survives, nor a bound that is not proved."""
        for orbit, c in zip(self.orbits, self.coefficients, strict=True):
            away = np.abs(orbit.kernel @ c - orbit.target).max()
            if away > self.entrywise + SLACK:
                raise Contradiction(
                    f"{self.subject}: an approximation misses its tolerance"
                )

        if self.lower_bound > self.proved:
            raise Contradiction(
                f"{self.subject}: its witness proves less than the bound"
            )

        super().__post_init__()

    @property
    def subject(self) -> str:
        widths = ", ".join(map(str, self.widths))
        return f"approximate norm of {widths}-way marginals of {self.attributes} attributes"

    @property
    def proved(self) -> float:
        """What the certificate proves, worked out anew."""
        proof = self.certificate
        return orbit_bound(self.orbits, self.entrywise, proof.weights, proof.shares)

    @cached_property
    def orbits(self) -> list[Orbit]:
        """The rows of every width."""
        return marginal_orbits(self.attributes, self.values, self.widths, self.shift)

    @cached_property
    def queries(self) -> int:
        """Number of rows."""
        return sum(math.comb(self.attributes, w) * self.values**w for w in self.widths)

    def _facts(self) -> list[tuple[str, str]]:
        widths = ", ".join(map(str, self.widths))
        return [
            ("tables", f"{widths} of {self.attributes}"),
            ("values", f"{self.values}"),
            ("entrywise", f"{self.entrywise:g}"),
            *super()._facts(),
        ]


def kernels(width: int, values: int) -> FloatArray:
    """K_j(m): a row for every number m of matches, a column for every degree j."""
    rows = []
    for matches in range(width + 1):
        row = np.array([1], dtype=object)
        for _ in range(matches):
            row = np.convolve(row, [1, values - 1])
        for _ in range(width - matches):
            row = np.convolve(row, [1, -1])
        rows.append([float(entry) for entry in row])

    return np.array(rows)


def marginal_orbits(
    attributes: int, values: int, widths: Sequence[int], shift: bool
) -> list[Orbit]:
    """The rows of every width."""
    orbits = []
    for width in widths:
        sizes = _sizes(attributes, values, width) * _sizes(width, values, width)
        scales = np.sqrt(sizes)
        scales[0] = 0.0 if shift else 1.0
        exact = np.full(width + 1, float(values) ** -width)
        levels = np.arange(width + 1)
        orbits.append(Orbit(kernels(width, values), exact, scales, levels))

    return orbits


def _sizes(attributes: int, values: int, degrees: int) -> FloatArray:
    """Number of interactions of every degree."""
    counts = [math.comb(attributes, j) * (values - 1) ** j for j in range(degrees + 1)]
    return np.array([float(count) for count in counts])


def marginal_norm(
    attributes: int,
    ways: int | Sequence[int],
    entrywise: float,
    *,
    values: int = 2,
    shift: bool = False,
) -> MarginalNorm:
    """γ2(W, α) of all tables of `ways` attributes (one number or several), however many there are.

    Every attribute has `values` values. With `shift`, a constant per row is free: γ̂2(W, α).
    """
    began = time.perf_counter()
    widths = (ways,) if isinstance(ways, int) else tuple(sorted(set(ways)))
    known = widths and all(0 <= width <= attributes for width in widths)
    require(known, "ways", ways, f"must lie between 0 and {attributes}")
    entrywise = float(entrywise)
    finite = math.isfinite(entrywise) and entrywise >= 0 and values >= 2
    require(finite, "entrywise", entrywise, "must be finite and >= 0", "try 0.1")

    orbits = marginal_orbits(attributes, values, widths, shift)
    best = solve_orbits(orbits, entrywise)
    return MarginalNorm(
        attributes=attributes,
        values=values,
        widths=widths,
        entrywise=entrywise,
        shift=shift,
        value=max(best.value, best.bound),
        lower_bound=best.bound,
        coefficients=best.coefficients,
        spread=best.spread,
        certificate=OrbitWitness(weights=best.weights, shares=best.shares),
        status=gap_status(best.value, best.bound, 1e-4),
        iterations=best.rounds,
        seconds=time.perf_counter() - began,
    )
