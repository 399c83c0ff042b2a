"""One joint problem for a proof: Z, prices and all multipliers, by alternating directions.

Maximise 2·tr(RΦRᵀ)^½ + 1ᵀΦ1, R a root of the centred Gram matrix, over all Φ for which some blocks
of linear conditions, A(Φ) + slack = 0 with multipliers in `slack`, can be met. At the optimum
Φ = Z − (λπᵀ + πλᵀ)/2 with λ = −2Φ1 + π(1ᵀΦ1).

Cells are scaled by e, so that cells that many reports favour and cells that few do move at one
speed: in here Φ means Diag(e)·Φ·Diag(e), and f = 1/e. A round finds the slacks of the blocks for Φ
(`slack_step`), then Φ for the slacks, and moves the dual variables U by what is left of the
conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.blocks import RELAXATION, Blocks
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.bounds.folding import negative_part
from noisewright.local.bounds.start import Roots, Start, prices_of
from noisewright.local.work import eigenvectors, product


@dataclass(frozen=True)
class Rounds:
    """How a joint problem is solved."""

    fixed: int = 15
    """Rounds with Φ fixed, while the multipliers get their first values: 7 prove half as much on
    prefix:16 at ε = 4 after one proof, 30 half as much on prefix:64 at ε = 0.5."""
    balance_every: int = 10
    """Rounds between changes of the penalty: 5 and 20 prove as much on most workloads tried."""
    balance: float = 1.5
    """By what the penalty moves: at 2 cuts prove 6 % less on prefix:16 at ε = 4, at 1.2 as much."""
    many_cells: int = 128
    """From here on residuals of conditions fall faster than those of Φ, which costs a proof less:
    prefix:12*prefix:12 at ε = 6 after 80 rounds 1.037, else 1.049."""
    solver_steps: int = 12
    """Of conjugate gradients: 6 prove 0.3 % less on prefix:16, 24 as much."""
    solved: float = 1e-4
    """Of the first residual's energy: 1e-3 proves a fifth less on prefix:16 at ε = 4."""
    halvings: int = 30
    """Of a step in Φ, before it is given up: a billionth of a step is none."""


_ROUNDS = Rounds()

_FLAT = 1e-12
"""Of the largest eigenvalue: what RΦRᵀ is kept from, for its inverse roots."""

_TINY = 1e-300
"""Keeps a relative residual finite where all is zero."""

_OVERHEAD = 7e6
"""Operations of a round besides its products: a quarter of a millisecond of small arrays."""


@dataclass(eq=False)
class _Part:
    """Φ within one subspace of the folding."""

    root: FloatArray
    """R·Diag(1/e)."""
    scale: FloatArray
    inverse: FloatArray
    direction: FloatArray
    """π·e, of length one or nothing: where Z is zero in any case."""
    phi: FloatArray

    def __post_init__(self) -> None:
        spectrum = np.linalg.eigh(self.inner(self.phi))
        self.spectrum: tuple[FloatArray, FloatArray] = spectrum
        self.root_inverse = np.linalg.pinv(self.root)
        self.slack = np.zeros_like(self.phi)
        self.slack_duals = np.zeros_like(self.phi)

    def inner(self, phi: FloatArray) -> FloatArray:
        """RΦRᵀ."""
        inner = self.root @ phi @ self.root.T
        return symmetrised(inner)

    def projected(self, matrix: FloatArray) -> FloatArray:
        """The matrix off the direction of π·e."""
        along = self.direction
        image = matrix @ along
        side = np.outer(along, image)
        both = float(along @ image) * np.outer(along, along)
        return matrix - side - side.T + both

    def definite_step(self, weight: float) -> None:
        """The Z ⪰ 0 nearest to what is wanted."""
        target = self.slack_duals - weight * self.projected(self.phi)
        self.slack = negative_part(symmetrised(target))

    def dual_step(self, weight: float) -> None:
        """Move the dual variables of Z ⪰ 0."""
        residual = self.slack - weight * self.projected(self.phi)
        self.slack_duals = self.slack_duals + RELAXATION * residual

    def inverse_spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of RΦRᵀ, kept from zero, and QᵀR."""
        values, vectors = self.spectrum
        least = _FLAT * values.max(initial=0.0)
        return np.maximum(values, least), vectors.T @ self.root

    def line_search(self, move: FloatArray) -> None:
        """As far along a move as keeps RΦRᵀ ≻ 0, halving."""
        for halvings in range(_ROUNDS.halvings):
            phi = self.phi + 0.5**halvings * move
            inner = self.inner(phi)
            try:
                np.linalg.cholesky(inner)
            except np.linalg.LinAlgError:
                continue

            values, vectors = np.linalg.eigh(inner)
            if values.min(initial=1.0) > 0:
                self.phi = symmetrised(phi)
                self.spectrum = values, vectors
                return


def _parts(
    roots: Roots,
    blocks: Blocks,
    prior: FloatArray,
    halves: tuple[FloatArray, ...],
) -> tuple[_Part, ...]:
    """Φ's halves beside roots, prior and scales within their subspaces."""
    folding = blocks.folding
    direction = prior * blocks.scale
    direction = direction / float(np.linalg.norm(direction))
    scales = folding.vectors(blocks.scale)
    inverses = folding.vectors(1.0 / blocks.scale)
    directions = folding.vectors(direction)

    # A root within a subspace, over cells of which each stands for a pair.
    ones = folding.vectors(np.ones_like(blocks.scale))
    by_cell = inverses[0] / ones[0]
    scaled = [root * by_cell[: root.shape[1]] for root in roots.parts]
    return tuple(map(_Part, scaled, scales, inverses, directions, halves))


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
    def of(
        cls,
        start: Start,
        blocks: Blocks,
        prior: FloatArray,
    ) -> JointProblem:
        """The problem at its start; the blocks' multipliers get the size that suits Φ."""
        scaled = start.phi * blocks.scales
        image = np.linalg.norm(blocks.forward(scaled))
        penalty = float(np.linalg.norm(blocks.duals) / image)
        blocks.duals /= penalty

        stretch = float(np.mean(blocks.gains**4) ** 0.5)
        weight = 0.0 if start.roots.full else stretch
        halves = blocks.folding.halves(scaled)
        parts = _parts(start.roots, blocks, prior, halves)
        return cls(blocks, parts, weight, penalty)

    def __post_init__(self) -> None:
        self.image = self.blocks.forward(self.phi)

    @property
    def phi(self) -> FloatArray:
        """Φ in scaled cells."""
        halves = tuple(part.phi for part in self.parts)
        return self.blocks.folding.whole(halves)

    @property
    def plain_phi(self) -> FloatArray:
        """Φ in the cells' own scale."""
        return self.phi / self.blocks.scales

    # --- another prior --------------------------------------------------------------------------

    def type_variances(self, roots: Roots, prior: FloatArray) -> FloatArray:
        """What each type adds to the floor at hand: its slope in the prior.

        At the optimum X = 11ᵀ + Rᵀ(RΦRᵀ)^{−½}R is the information of the relaxed reports, each of
        which is worth its price, so that a type's variance is (Xλ)_u − M_uu. The conditions on Φ
        know no prior: one that moves along these leaves all blocks as they are.
        """
        halves = []
        for part in self.parts:
            values, rotated = part.inverse_spectrum()
            weighted = rotated.T / np.sqrt(values)
            halves.append(weighted @ rotated)

        inner = self.blocks.folding.whole(tuple(halves))
        information = 1.0 + inner * self.blocks.scales
        prices = prices_of(self.plain_phi, prior)
        return np.asarray(information @ prices - np.diagonal(roots.centred))

    def centre(self, roots: Roots, prior: FloatArray) -> bool:
        """Go on under another prior, unless RΦRᵀ ≻ 0 is lost there."""
        halves = tuple(part.phi for part in self.parts)
        parts = _parts(roots, self.blocks, prior, halves)
        least = [part.spectrum[0].min(initial=1.0) for part in parts]
        if min(least) <= 0:
            return False

        for part, earlier in zip(parts, self.parts, strict=True):
            part.slack = earlier.slack
            part.slack_duals = earlier.slack_duals
        self.parts = parts
        return True

    # --- a round --------------------------------------------------------------------------------

    @property
    def operations(self) -> float:
        """What a round takes, about: eight products in each step for Φ, and two spectra."""
        sides = self.blocks.folding.sides
        one_product = sum(product(side, side, side) for side in sides)
        products = 8 * _ROUNDS.solver_steps * one_product
        count = 3 if self.weight else 2
        spectra = count * sum(map(eigenvectors, sides))
        return self.blocks.operations + products + spectra + _OVERHEAD

    def step(self) -> None:
        """One round: slacks, Φ, dual variables."""
        before = self.image
        slack = self.blocks.slack_step(self.image)
        if self.weight:
            for part in self.parts:
                part.definite_step(self.weight)

        if self.steps >= _ROUNDS.fixed:
            whole = self.blocks.adjoint(slack + self.blocks.duals)
            halves = self.blocks.folding.halves(whole)
            for part, slack_gradient in zip(self.parts, halves, strict=True):
                self._newton_step(part, slack_gradient)
            self.image = self.blocks.forward(self.phi)

        residual = self.image + slack
        self.blocks.dual_step(residual)
        if self.weight:
            for part in self.parts:
                part.dual_step(self.weight)

        self.steps += 1
        settled = self.steps > 2 * _ROUNDS.fixed
        if settled and self.steps % _ROUNDS.balance_every == 0:
            primal = _relative(residual, self.image)
            dual = _relative(self.image - before, self.blocks.duals)
            self._balance(primal, dual)

    def _newton_step(self, part: _Part, slack_gradient: FloatArray) -> None:
        """One Newton step in Φ by preconditioned conjugate gradients, kept inside RΦRᵀ ≻ 0.

        The gradient of −2·tr(RΦRᵀ)^½ is −Rᵀ(RΦRᵀ)^-½R, its curvature in the eigenbasis of RΦRᵀ
        1/(√k_i√k_j(√k_i + √k_j)).
        """
        values, rotated = part.inverse_spectrum()
        weight = self.weight
        e = part.scale
        f = part.inverse

        # The gradient: the blocks' residuals, Z ⪰ 0, the trace of the root, 1ᵀΦ1.
        quadratic = slack_gradient + self.blocks.normal(part.phi, e, f)
        if weight:
            target = weight * part.phi - part.slack - part.slack_duals
            quadratic += weight * part.projected(target)
        roots = np.sqrt(values)
        fidelity = (rotated.T / roots) @ rotated
        gradient = self.penalty * quadratic - fidelity - np.outer(f, f)

        # Where the slope says that an eigenvalue k is far too large, a step along −2√k would go
        # below zero: steps as of ln k take it down by a factor at most.
        sums = roots[:, None] + roots
        curvature = 1.0 / (roots[:, None] * roots * sums)
        basis = part.root_inverse @ part.spectrum[1]
        slopes = np.einsum("ui,ui->i", basis, gradient @ basis)
        slopes = np.maximum(slopes, 0.0)
        curvature += symmetrised(slopes[:, None] / values)

        def hessian(move: FloatArray) -> FloatArray:
            turned = rotated @ move @ rotated.T
            bent = rotated.T @ (curvature * turned) @ rotated
            normal = self.blocks.normal(move, e, f)
            if weight:
                normal += weight**2 * part.projected(move)
            return np.asarray(bent + self.penalty * normal)

        diagonal = np.sqrt(np.diagonal(curvature))
        precondition = self._preconditioner(rotated, diagonal)
        part.line_search(_conjugate_gradients(hessian, -gradient, precondition))

    def _preconditioner(
        self, rotated: FloatArray, curvature: FloatArray
    ) -> Callable[[FloatArray], FloatArray]:
        """The inverse Hessian with √(c_ii·c_jj) for c_ij: products of one matrix."""
        matrix = (rotated.T * curvature) @ rotated
        values, basis = np.linalg.eigh(matrix)
        values = np.maximum(values, 0.0)
        gains = np.sum(self.blocks.gains**4) + self.weight**2
        quadratic = self.penalty * gains
        weights = 1.0 / (quadratic + values[:, None] * values)

        def precondition(residual: FloatArray) -> FloatArray:
            inner = weights * (basis.T @ residual @ basis)
            return np.asarray(basis @ inner @ basis.T)

        return precondition

    def _balance(self, primal: float, dual: float) -> None:
        """Keep both residuals falling at one speed; on many cells that of conditions faster."""
        many = len(self.blocks.scale) >= _ROUNDS.many_cells
        ahead = 0.5 if many else 3.0
        if primal > ahead * dual:
            factor = _ROUNDS.balance
        elif dual > 9.0 / ahead * primal:
            factor = 1 / _ROUNDS.balance
        else:
            return

        self.penalty *= factor
        self.blocks.duals /= factor
        for part in self.parts:
            part.slack_duals = part.slack_duals / factor


def _relative(residual: FloatArray, size: FloatArray) -> float:
    length = np.linalg.norm(size) + _TINY
    return float(np.linalg.norm(residual) / length)


def _conjugate_gradients(
    hessian: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    precondition: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """A few steps towards hessian(x) = right."""
    solution = np.zeros_like(right)
    residual = right
    shaped = precondition(residual)
    direction = shaped
    energy = float((residual * shaped).sum())
    enough = _ROUNDS.solved * energy

    for _ in range(_ROUNDS.solver_steps):
        if energy <= enough:
            break
        image = hessian(direction)
        length = energy / float((direction * image).sum())
        solution = solution + length * direction
        residual = residual - length * image

        shaped = precondition(residual)
        before = energy
        energy = float((residual * shaped).sum())
        direction = shaped + (energy / before) * direction

    return solution
