"""One joint problem for a proof: Z, prices and all multipliers, by alternating directions.

Maximise 2·tr(RΦRᵀ)^½ + 1ᵀΦ1, R a root of the centred Gram matrix, over all Φ for which some blocks
of linear conditions, A(Φ) + rest = 0 with multipliers in `rest`, can be met. At the optimum
Φ = Z − (λπᵀ + πλᵀ)/2 with λ = −2Φ1 + π(1ᵀΦ1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import expm1
from typing import Protocol

import numpy as np

from noisewright.local.strategy import BoolArray
from noisewright.workload.base import FloatArray

_NEGLIGIBLE = 1e-4  # share of the nuclear norm that directions left out of R may hold
_STEADY = 15  # steps with Φ fixed, while the multipliers get their first values
_BALANCE_EVERY, _BALANCE = 10, 1.5
_SOLVER_STEPS, _SOLVED = 12, 1e-4


@dataclass(frozen=True, eq=False)
class Reports:
    """A two-valued strategy: sets of cells, the low chance of each, and its prior."""

    patterns: BoolArray
    weights: FloatArray
    prior: FloatArray


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search begins: a root of the centred Gram matrix, and the Φ of a strategy."""

    root: FloatArray
    full: bool
    """Whether RΦRᵀ ≻ 0 says that Z ⪰ 0."""
    phi: FloatArray

    @classmethod
    def of(cls, gram: FloatArray, epsilon: float, reports: Reports) -> Start:
        """Z = X⁻¹MX⁻¹, and the prices for which the strategy's own reports are worth just that."""
        n, prior, weights = len(gram), reports.prior, reports.weights
        mean = gram @ prior
        centred = gram - mean[:, None] - mean + float(prior @ mean)
        centred /= float(np.trace(centred)) / n
        values, vectors = np.linalg.eigh((centred + centred.T) / 2)
        roots = np.sqrt(np.maximum(values, 0.0))
        kept = np.cumsum(roots) > _NEGLIGIBLE * roots.sum()
        kept[0] = False
        root = roots[kept, None] * vectors[:, kept].T
        v = 1.0 + expm1(epsilon) * reports.patterns
        mass = v @ prior
        inverse = np.linalg.pinv((v * (weights / mass)[:, None]).T @ v, hermitian=True)
        z = inverse @ root.T @ root @ inverse
        worth = np.einsum("ou,ou->o", v @ z, v) / mass
        heavy = np.sqrt(weights * mass)
        prices = np.linalg.lstsq(v * heavy[:, None], worth * heavy, rcond=1e-9)[0]
        phi = z - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
        return cls(root, bool(kept.sum() == n - 1), phi)


def split_phi(phi: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A factor of Z, made definite, and the prices λ of Φ = Z − (λπᵀ + πλᵀ)/2."""
    sums = phi.sum(axis=1)
    prices = -2 * sums + prior * float(sums.sum())
    z = phi + (np.outer(prices, prior) + np.outer(prior, prices)) / 2
    values, vectors = np.linalg.eigh((z + z.T) / 2)
    return vectors[:, values > 0] * np.sqrt(values[values > 0]), np.asarray(prices)


class Blocks(Protocol):
    """Conditions on Φ, their multipliers, and one step that improves these."""

    duals: FloatArray
    own: FloatArray
    """By how much each block stretches a matrix Φ."""
    scale: FloatArray
    """e: Φ stands between two factors Diag(e)."""

    def forward(self, phi: FloatArray) -> FloatArray:
        """A(Φ)."""

    def adjoint(self, matrices: FloatArray) -> FloatArray:
        """Aᵀ."""

    def normal(self, phi: FloatArray) -> FloatArray:
        """AᵀA."""

    def settle(self, image: FloatArray) -> FloatArray:
        """What is left to choose, for A(Φ) given."""

    def push(self, left: FloatArray) -> None:
        """Move the multipliers by what is left of the conditions."""


@dataclass(eq=False)
class JointProblem:
    """Φ and the blocks, in scaled cells, and how far they are."""

    blocks: Blocks
    root: FloatArray
    """R·Diag(1/e)."""
    free: FloatArray
    """The projection off π·e."""
    weight: float
    """Of the condition Z ⪰ 0: zero where it follows from RΦRᵀ ≻ 0."""
    phi: FloatArray
    penalty: float
    steps: int = 0

    @classmethod
    def of(cls, start: Start, blocks: Blocks, prior: FloatArray) -> JointProblem:
        """The problem at its start; the blocks' multipliers get the size that suits Φ."""
        scale = blocks.scale
        scaled = start.phi * np.outer(scale, scale)
        size = float(np.linalg.norm(blocks.duals) / np.linalg.norm(blocks.forward(scaled)))
        blocks.duals /= size
        along = prior * scale
        free = np.eye(len(prior)) - np.outer(along, along) / float(along @ along)
        weight = 0.0 if start.full else float(np.mean(blocks.own**4) ** 0.5)
        return cls(blocks, start.root / scale, free, weight, scaled, size)

    @property
    def plain_phi(self) -> FloatArray:
        """Φ in the cells' own scale."""
        return np.asarray(self.phi / np.outer(self.blocks.scale, self.blocks.scale))

    def __post_init__(self) -> None:
        self.image = self.blocks.forward(self.phi)
        self.spectrum = self._spectrum(self.phi)
        self.own_duals = np.zeros_like(self.phi)
        self.primal = self.dual = 0.0

    def _spectrum(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        inner = self.root @ phi @ self.root.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        return values, vectors

    def step(self) -> None:
        """One round: blocks, Φ, multipliers."""
        moving = self.steps >= _STEADY
        self.steps += 1
        rest = self.blocks.settle(self.image)
        own = self._own_definite()
        before = self.phi
        if moving:
            self._move(rest, own)
            self.image = self.blocks.forward(self.phi)
        left = self.image + rest
        self.blocks.push(left)
        if self.weight:
            self.own_duals += 1.6 * (own - self.weight * self._freed(self.phi))
        self.primal = float(np.linalg.norm(left) / (np.linalg.norm(self.image) + 1e-300))
        change = np.linalg.norm(self.blocks.forward(self.phi - before))
        self.dual = float(change / (np.linalg.norm(self.blocks.duals) + 1e-300))
        if self.steps > 2 * _STEADY and self.steps % _BALANCE_EVERY == 0:
            self._balance()

    def _freed(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self.free @ matrix @ self.free)

    def _own_definite(self) -> FloatArray:
        if not self.weight:
            return self.own_duals
        short = self.own_duals - self.weight * self._freed(self.phi)
        values, vectors = np.linalg.eigh((short + short.T) / 2)
        return np.asarray((vectors * np.maximum(-values, 0.0)) @ vectors.T)

    def _move(self, rest: FloatArray, own: FloatArray) -> None:
        """One Newton step in Φ by preconditioned conjugate gradients, kept inside RΦRᵀ ≻ 0."""
        values, vectors = self.spectrum
        values = np.maximum(values, 1e-12 * values[-1])
        root, roots = vectors.T @ self.root, np.sqrt(values)
        f = 1.0 / self.blocks.scale
        pull = self.blocks.adjoint(rest + self.blocks.duals) + self.blocks.normal(self.phi)
        if self.weight:
            pull += self.weight * self._freed(self.weight * self.phi - own - self.own_duals)
        gradient = self.penalty * pull - (root.T / roots) @ root - np.outer(f, f)
        curvature = 1.0 / (roots[:, None] * roots * (roots[:, None] + roots))

        def hessian(move: FloatArray) -> FloatArray:
            bent = root.T @ (curvature * (root @ move @ root.T)) @ root
            quadratic = self.blocks.normal(move)
            if self.weight:
                quadratic += self.weight**2 * self._freed(move)
            return np.asarray(bent + self.penalty * quadratic)

        move = _solved(hessian, -gradient, self._preconditioner(root, values))
        length = 1.0
        for _ in range(30):
            phi = self.phi + length * move
            spectrum = self._spectrum(phi)
            if spectrum[0][0] > 0:
                self.phi, self.spectrum = (phi + phi.T) / 2, spectrum
                break
            length /= 2

    def _preconditioner(
        self, root: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Basis and weights of the Hessian with 2(kikj)^¼ for √ki + √kj: products of one matrix."""
        like = (root.T * values**-0.75) @ root / 2**0.5
        own, basis = np.linalg.eigh(like)
        own = np.maximum(own, 0.0)
        even = self.penalty * (float((self.blocks.own**4).sum()) + self.weight**2)
        return basis, 1.0 / (even + own[:, None] * own)

    def _balance(self) -> None:
        """Keep both residuals falling at one speed."""
        if self.primal > 3 * self.dual:
            factor = _BALANCE
        elif self.dual > 3 * self.primal:
            factor = 1 / _BALANCE
        else:
            return
        self.penalty *= factor
        self.blocks.duals /= factor
        self.own_duals /= factor


def _solved(
    hessian: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    preconditioner: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Conjugate gradients, a few steps."""
    basis, weights = preconditioner

    def conditioned(residual: FloatArray) -> FloatArray:
        return np.asarray(basis @ (weights * (basis.T @ residual @ basis)) @ basis.T)

    solution, residual = np.zeros_like(right), right
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
        direction, energy = shaped + (fresh / energy) * direction, fresh
    return solution
