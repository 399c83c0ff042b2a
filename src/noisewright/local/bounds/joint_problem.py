"""One joint problem for a proof: Z, prices and all multipliers, by alternating directions.

Maximise 2·tr(RΦRᵀ)^½ + 1ᵀΦ1, R a root of the centred Gram matrix, over all Φ for which some blocks
of linear conditions, A(Φ) + rest = 0 with multipliers in `rest`, can be met. At the optimum
Φ = Z − (λπᵀ + πλᵀ)/2 with λ = −2Φ1 + π(1ᵀΦ1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import expm1, inf
from typing import Protocol

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.bounds.folding import Folding
from noisewright.local.work import eigenvectors, product

_NEGLIGIBLE = 1e-4  # share of the nuclear norm that directions left out of R may hold
_STEADY = 15  # steps with Φ fixed, while the multipliers get their first values
_BALANCE_EVERY = 10
_BALANCE = 1.5
_MANY_CELLS = 128
_SOLVER_STEPS = 12
_SOLVED = 1e-4
# of a round, besides its products: a quarter of a millisecond of small arrays
_OVERHEAD = 7e6


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
    def of(cls, gram: FloatArray, prior: FloatArray, folding: Folding) -> Roots:
        """All directions but those that together hold next to nothing."""
        centred = _centred(gram, prior)
        spectra = [np.linalg.eigh(half) for half in folding.halves(centred)]
        least = _least_kept(np.concatenate([values for values, _ in spectra]))
        kept = [values > least for values, _ in spectra]
        roots = tuple(
            np.sqrt(values[some])[:, None] * vectors[:, some].T
            for (values, vectors), some in zip(spectra, kept, strict=True)
        )

        return cls(
            roots, int(sum(some.sum() for some in kept)) == len(gram) - 1, centred
        )


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search begins: roots of the centred Gram matrix, and the Φ of a strategy."""

    gram: FloatArray
    """Centred at the first prior, at one scale for all."""
    roots: Roots
    phi: FloatArray

    @classmethod
    def of(
        cls, gram: FloatArray, epsilon: float, reports: Reports, folding: Folding
    ) -> Start:
        """Z = X⁻¹MX⁻¹, and the prices for which the strategy's own reports are worth just that."""
        n = len(gram)
        prior = reports.prior
        weights = reports.weights
        gram = _centred(gram, prior)  # once for all priors: large offsets take digits
        unit = float(np.trace(gram)) / n
        if not 0 < unit < inf:
            raise np.linalg.LinAlgError("no query tells people apart")

        gram = gram / unit
        roots = Roots.of(gram, prior, folding)
        v = 1.0 + expm1(epsilon) * reports.patterns
        mass = v @ prior
        inverse = np.linalg.pinv((v * (weights / mass)[:, None]).T @ v, hermitian=True)
        z = inverse @ roots.centred @ inverse
        worth = np.einsum("ou,ou->o", v @ z, v) / mass
        heavy = v * (weights * mass)[:, None]
        prices = np.linalg.lstsq(heavy.T @ v, heavy.T @ worth, rcond=1e-12)[0]
        phi = z - (np.outer(prices, prior) + np.outer(prior, prices)) / 2

        return cls(gram, roots, folding.averaged(phi))


def _centred(gram: FloatArray, prior: FloatArray) -> FloatArray:
    """The Gram matrix of queries less their means under a prior."""
    mean = gram @ prior
    centred = gram - mean[:, None] - mean + float(prior @ mean)
    return (centred + centred.T) / 2


def _least_kept(values: FloatArray) -> float:
    """The eigenvalue up to which all together hold next to nothing of the nuclear norm."""
    ordered = np.sort(np.maximum(values, 0.0))
    shares = np.cumsum(np.sqrt(ordered))
    return float(ordered[max(int((shares <= _NEGLIGIBLE * shares[-1]).sum()) - 1, 0)])


def split_phi(
    phi: FloatArray, prior: FloatArray, folding: Folding
) -> tuple[FloatArray, FloatArray]:
    """A factor of Z, made definite, and the prices λ of Φ = Z − (λπᵀ + πλᵀ)/2."""
    sums = phi.sum(axis=1)
    prices = -2 * sums + prior * float(sums.sum())
    z = phi + (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    factors = []

    for half in folding.halves((z + z.T) / 2):
        values, vectors = np.linalg.eigh(half)
        factors.append(vectors[:, values > 0] * np.sqrt(values[values > 0]))

    return folding.spread(tuple(factors)), (prices)


class Blocks(Protocol):
    """Conditions on Φ, their multipliers, and one step that improves these."""

    @property
    def operations(self) -> float:
        """Of that step, about."""

    duals: FloatArray
    own: FloatArray
    """By how much each block stretches a matrix Φ."""
    scale: FloatArray
    """e: Φ stands between two factors Diag(e)."""
    folding: Folding

    def forward(self, phi: FloatArray) -> FloatArray:
        """A(Φ)."""

    def adjoint(self, matrices: FloatArray) -> FloatArray:
        """Aᵀ."""

    def normal(self, phi: FloatArray, e: FloatArray, f: FloatArray) -> FloatArray:
        """AᵀA within a subspace, in which e and its inverse f are these."""

    def settle(self, image: FloatArray) -> FloatArray:
        """What is left to choose, for A(Φ) given."""

    def push(self, left: FloatArray) -> None:
        """Move the multipliers by what is left of the conditions."""


@dataclass(eq=False)
class _Part:
    """Φ within one subspace of the folding, in scaled cells."""

    root: FloatArray
    """R·Diag(1/e)."""
    scale: FloatArray
    inverse: FloatArray
    along: FloatArray
    """π·e, of length one or nothing: where Z is zero in any case."""
    phi: FloatArray

    def __post_init__(self) -> None:
        self.spectrum: tuple[FloatArray, FloatArray] = np.linalg.eigh(
            self.inner(self.phi)
        )
        self.back = np.linalg.pinv(self.root)
        self.own_duals = np.zeros_like(self.phi)
        self.own = self.own_duals

    def inner(self, phi: FloatArray) -> FloatArray:
        """RΦRᵀ."""
        inner = self.root @ phi @ self.root.T
        return (inner + inner.T) / 2

    def freed(self, matrix: FloatArray) -> FloatArray:
        """The matrix off π·e."""
        side = np.outer(self.along, matrix @ self.along)
        both = float(self.along @ matrix @ self.along) * np.outer(
            self.along, self.along
        )
        return matrix - side - side.T + both

    def make_definite(self, weight: float) -> None:
        """The Z ⪰ 0 nearest to what is wanted."""
        short = self.own_duals - weight * self.freed(self.phi)
        values, vectors = np.linalg.eigh((short + short.T) / 2)
        self.own = (vectors * np.maximum(-values, 0.0)) @ vectors.T

    def go(self, move: FloatArray) -> None:
        """As far along a move as keeps RΦRᵀ ≻ 0, halving."""
        for halvings in range(30):
            phi = self.phi + 0.5**halvings * move
            inner = self.inner(phi)
            try:
                np.linalg.cholesky(inner)
            except np.linalg.LinAlgError:
                continue
            values, vectors = np.linalg.eigh(inner)
            if values.min(initial=1.0) > 0:
                self.phi, self.spectrum = (phi + phi.T) / 2, (values, vectors)
                return


def _parts(
    roots: Roots, blocks: Blocks, prior: FloatArray, halves: tuple[FloatArray, ...]
) -> tuple[_Part, ...]:
    """Φ's halves beside roots, prior and scales within their subspaces."""
    scale = blocks.scale
    folding = blocks.folding
    scales = folding.vectors(scale)
    inverses = folding.vectors(1.0 / scale)
    along = prior * scale
    alongs = folding.vectors(along / float(np.linalg.norm(along)))
    # A root within a subspace, over cells of which each stands for a pair.
    by_cell = inverses[0] / folding.vectors(np.ones_like(scale))[0]

    return tuple(
        _Part(root * by_cell[: root.shape[1]], scales[i], inverses[i], alongs[i], half)
        for i, (root, half) in enumerate(zip(roots.parts, halves, strict=True))
    )


@dataclass(eq=False)
class JointProblem:
    """Φ and the blocks, in scaled cells, and how far they are."""

    blocks: Blocks
    parts: tuple[_Part, ...]
    weight: float
    """Of the condition Z ⪰ 0: zero where it follows from RΦRᵀ ≻ 0."""
    penalty: float
    steps: int = 0

    @classmethod
    def of(cls, start: Start, blocks: Blocks, prior: FloatArray) -> JointProblem:
        """The problem at its start; the blocks' multipliers get the size that suits Φ."""
        scale = blocks.scale
        folding = blocks.folding
        scaled = start.phi * np.outer(scale, scale)
        size = float(
            np.linalg.norm(blocks.duals) / np.linalg.norm(blocks.forward(scaled))
        )
        blocks.duals /= size
        weight = 0.0 if start.roots.full else float(np.mean(blocks.own**4) ** 0.5)
        parts = _parts(start.roots, blocks, prior, folding.halves(scaled))

        return cls(blocks, parts, weight, size)

    @property
    def phi(self) -> FloatArray:
        """Φ in scaled cells."""
        return self.blocks.folding.whole(tuple(part.phi for part in self.parts))

    @property
    def plain_phi(self) -> FloatArray:
        """Φ in the cells' own scale."""
        return self.phi / np.outer(self.blocks.scale, self.blocks.scale)

    def __post_init__(self) -> None:
        self.image = self.blocks.forward(self.phi)
        self.primal = self.dual = 0.0

    def type_variances(self, roots: Roots, prior: FloatArray) -> FloatArray:
        """What each type adds to the floor at hand: its slope in the prior.

        At the optimum X = 11ᵀ + Rᵀ(RΦRᵀ)^{−½}R is the information of the relaxed reports, each of
        which is worth its price, so that a type's variance is (Xλ)_u − M_uu. The conditions on Φ
        know no prior: one that moves along these leaves all blocks as they are.
        """
        folding = self.blocks.folding
        scale = self.blocks.scale
        phi = self.plain_phi
        parts = []
        for part in self.parts:
            values, vectors = part.spectrum
            values = np.maximum(values, 1e-12 * values.max(initial=0.0))
            rooted = (vectors / values**0.25).T @ part.root
            parts.append(rooted.T @ rooted)

        information = 1.0 + folding.whole(tuple(parts)) * np.outer(scale, scale)
        sums = phi.sum(axis=1)
        prices = -2 * sums + prior * float(sums.sum())

        return np.asarray(information @ prices - np.diagonal(roots.centred))

    def centre(self, roots: Roots, prior: FloatArray) -> bool:
        """Go on under another prior, unless RΦRᵀ ≻ 0 is lost there."""
        parts = _parts(
            roots, self.blocks, prior, tuple(part.phi for part in self.parts)
        )
        if any(part.spectrum[0].min(initial=1.0) <= 0 for part in parts):
            return False

        for part, earlier in zip(parts, self.parts, strict=True):
            part.own, part.own_duals = earlier.own, earlier.own_duals

        self.parts = parts
        return True

    @property
    def operations(self) -> float:
        """What a round takes, about: eight products in each step for Φ, and two spectra."""
        sides = self.blocks.folding.sides
        products = 8 * _SOLVER_STEPS * sum(product(side, side, side) for side in sides)
        spectra = (2 + (self.weight > 0)) * sum(map(eigenvectors, sides))
        return self.blocks.operations + products + spectra + _OVERHEAD

    def step(self) -> None:
        """One round: blocks, Φ, multipliers."""
        moving = self.steps >= _STEADY
        self.steps += 1
        rest = self.blocks.settle(self.image)
        before = self.image

        for part in self.parts:
            if self.weight:
                part.make_definite(self.weight)

        if moving:
            pulls = self.blocks.folding.halves(
                self.blocks.adjoint(rest + self.blocks.duals)
            )
            for part, pull in zip(self.parts, pulls, strict=True):
                self._move(part, pull)
            self.image = self.blocks.forward(self.phi)

        left = self.image + rest
        self.blocks.push(left)
        for part in self.parts:
            if self.weight:
                part.own_duals += 1.6 * (part.own - self.weight * part.freed(part.phi))

        self.primal = float(
            np.linalg.norm(left) / (np.linalg.norm(self.image) + 1e-300)
        )
        change = np.linalg.norm(self.image - before)
        self.dual = float(change / (np.linalg.norm(self.blocks.duals) + 1e-300))
        if self.steps > 2 * _STEADY and self.steps % _BALANCE_EVERY == 0:
            self._balance()

    def _move(self, part: _Part, pull: FloatArray) -> None:
        """One Newton step in Φ by preconditioned conjugate gradients, kept inside RΦRᵀ ≻ 0."""
        values, vectors = part.spectrum
        values = np.maximum(values, 1e-12 * values.max(initial=0.0))
        root = vectors.T @ part.root
        roots = np.sqrt(values)
        weight = self.weight
        e = part.scale
        f = part.inverse
        pull = pull + self.blocks.normal(part.phi, e, f)
        if weight:
            pull += weight * part.freed(weight * part.phi - part.own - part.own_duals)

        gradient = self.penalty * pull - (root.T / roots) @ root - np.outer(f, f)
        curvature = 1.0 / (roots[:, None] * roots * (roots[:, None] + roots))
        # Where the slope says that an eigenvalue k is far too large, a step along −2√k would go
        # below zero: steps as of ln k take it down by a factor at most.
        back = part.back @ vectors
        falling = np.maximum(np.einsum("ui,ui->i", back, gradient @ back), 0.0)
        curvature += (falling[:, None] / values + falling / values[:, None]) / 2

        def hessian(move: FloatArray) -> FloatArray:
            bent = root.T @ (curvature * (root @ move @ root.T)) @ root
            quadratic = self.blocks.normal(move, e, f)
            if weight:
                quadratic += weight**2 * part.freed(move)
            return np.asarray(bent + self.penalty * quadratic)

        own = np.sqrt(np.diagonal(curvature))
        part.go(_solved(hessian, -gradient, self._preconditioner(root, own)))

    def _preconditioner(
        self, root: FloatArray, curvature: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Basis and weights of the Hessian with √(c_ii·c_jj) for c_ij: products of one matrix."""
        like = (root.T * curvature) @ root
        own, basis = np.linalg.eigh(like)
        own = np.maximum(own, 0.0)
        even = self.penalty * (float((self.blocks.own**4).sum()) + self.weight**2)
        return basis, 1.0 / (even + own[:, None] * own)

    def _balance(self) -> None:
        """Keep both residuals falling at one speed; on many cells that of conditions faster.

        There it costs a proof more: prefix:12*prefix:12 at ε = 6 after 80 steps 1.037, else 1.049.
        """
        ahead = 0.5 if len(self.blocks.scale) >= _MANY_CELLS else 3.0
        if self.primal > ahead * self.dual:
            factor = _BALANCE
        elif self.dual > 9.0 / ahead * self.primal:
            factor = 1 / _BALANCE
        else:
            return

        self.penalty *= factor
        self.blocks.duals /= factor
        for part in self.parts:
            part.own_duals /= factor


def _solved(
    hessian: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    preconditioner: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Conjugate gradients, a few steps."""
    basis, weights = preconditioner

    def conditioned(residual: FloatArray) -> FloatArray:
        return basis @ (weights * (basis.T @ residual @ basis)) @ basis.T

    solution = np.zeros_like(right)
    residual = right
    direction = shaped = conditioned(residual)
    energy = first = float((residual * shaped).sum())

    for _ in range(_SOLVER_STEPS):
        if energy <= _SOLVED * first:
            break
        image = hessian(direction)
        length = energy / float((direction * image).sum())
        solution = solution + length * direction
        residual = residual - length * image
        shaped = conditioned(residual)
        fresh = float((residual * shaped).sum())
        direction = shaped + (fresh / energy) * direction
        energy = fresh

    return solution
