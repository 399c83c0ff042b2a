"""The search for a proof by set size: one joint problem over Z, prices and all multipliers.

Maximise 2·tr(RΦRᵀ)^½ + 1ᵀΦ1, R a root of the centred Gram matrix, over all Φ that meet the
condition of `set_proof` at some set sizes (`SetBlocks`); then find multipliers for all the others.
At the optimum Φ = Z − (λπᵀ + πλᵀ)/2 with λ = −2Φ1 + π(1ᵀΦ1). Where the workload has full rank
RΦRᵀ ≻ 0 says that Z ⪰ 0; else that is one more condition, on the vectors orthogonal to π.

The multipliers of the condition are the moments of a strategy's reports, so that a good strategy
gives a good start. Whatever is found here is proved elsewhere (`set_proof.proved_variance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.local.bounds.set_blocks import SetBlocks
from noisewright.local.bounds.set_completion import completed
from noisewright.local.bounds.set_proof import SetProof
from noisewright.local.strategy import BoolArray
from noisewright.workload.base import FloatArray

_NEGLIGIBLE = 1e-4  # share of the nuclear norm that directions left out of R may hold
_STEADY = 15  # steps with Φ fixed, while the multipliers get their first values
_BALANCE_EVERY, _BALANCE = 10, 1.5
_SOLVER_STEPS, _SOLVED = 12, 1e-4
_MOST_SIZES = 12
_FIRST_PROOF, _LATER_PROOFS = 50, 25  # looking after all sizes takes as long as some steps
_SCALES = 0.1, 10.0


@dataclass(frozen=True, eq=False)
class Reports:
    """A two-valued strategy: sets of cells, the low chance of each, and its prior."""

    patterns: BoolArray
    weights: FloatArray
    prior: FloatArray


@dataclass(eq=False)
class _Problem:
    """Φ and the blocks, in scaled cells, and how far they are."""

    blocks: SetBlocks
    root: FloatArray
    """R·Diag(1/e)."""
    free: FloatArray
    """The projection off π·e."""
    weight: float
    """Of the condition Z ⪰ 0: zero where it follows from RΦRᵀ ≻ 0."""
    phi: FloatArray
    penalty: float

    def __post_init__(self) -> None:
        self.image = self.blocks.forward(self.phi)
        self.spectrum = self._spectrum(self.phi)
        self.own_duals = np.zeros_like(self.phi)
        self.primal = self.dual = 0.0

    def _spectrum(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        inner = self.root @ phi @ self.root.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        return values, vectors

    def step(self, moving: bool) -> None:
        """One round: blocks, Φ, multipliers."""
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

    def balance(self) -> None:
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


@dataclass(eq=False)
class SetSearch:
    """A search from a strategy; `proofs` yields better and better ones."""

    gram: FloatArray
    epsilon: float
    reports: Reports

    def __post_init__(self) -> None:
        n, prior = len(self.gram), self.reports.prior
        mean = self.gram @ prior
        centred = self.gram - mean[:, None] - mean + float(prior @ mean)
        self.unit = float(np.trace(centred)) / n
        values, vectors = np.linalg.eigh((centred + centred.T) / (2 * self.unit))
        roots = np.sqrt(np.maximum(values, 0.0))
        kept = np.cumsum(roots) > _NEGLIGIBLE * roots.sum()
        kept[0] = False
        self.root = roots[kept, None] * vectors[:, kept].T
        self.problem = self._started(bool(kept.sum() == n - 1))

    def _started(self, full: bool) -> _Problem:
        slope, prior = expm1(self.epsilon), self.reports.prior
        x, weights = self.reports.patterns, self.reports.weights
        v = 1.0 + slope * x
        mass = v @ prior
        centred = self.root.T @ self.root
        inverse = np.linalg.pinv((v * (weights / mass)[:, None]).T @ v, hermitian=True)
        z = inverse @ centred @ inverse
        worth = np.einsum("ou,ou->o", v @ z, v) / mass
        heavy = np.sqrt(weights * mass)
        prices = np.linalg.lstsq(v * heavy[:, None], worth * heavy, rcond=1e-9)[0]
        phi = z - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
        scale, blocks = self._blocks()
        scaled = phi * np.outer(scale, scale)
        size = float(np.linalg.norm(blocks.duals) / np.linalg.norm(blocks.forward(scaled)))
        blocks.duals /= size
        along = prior * scale
        free = np.eye(len(prior)) - np.outer(along, along) / float(along @ along)
        weight = 0.0 if full else float(np.mean(blocks.own**4) ** 0.5)
        return _Problem(blocks, self.root / scale, free, weight, scaled, size)

    def _blocks(self) -> tuple[FloatArray, SetBlocks]:
        """Blocks whose multipliers are the moments of the strategy's reports, and e."""
        slope, prior = expm1(self.epsilon), self.reports.prior
        n, counts = len(prior), self.reports.patterns.sum(axis=1)
        some = counts > 0
        x, weights, counts = self.reports.patterns[some], self.reports.weights[some], counts[some]
        mass = 1.0 + slope * (x @ prior)
        even = 1 + slope * counts / n
        shares = weights * even**2 / (mass * counts)
        diagonal = shares @ x
        scale = np.clip(np.sqrt(diagonal / diagonal.mean()), *_SCALES)
        sizes = _sizes(counts, weights * mass, n)
        blocks = SetBlocks.of(sizes, slope, scale)
        nearest = np.abs(np.log(counts)[:, None] - np.log(blocks.sizes)).argmin(axis=1)
        for block in range(len(blocks.sizes)):
            rows = x[nearest == block] / scale
            blocks.duals[block] = (rows * shares[nearest == block, None]).T @ rows
        return scale, blocks

    def proofs(self, rounds: int) -> Iterator[SetProof]:
        """The proof at hand, after more and more steps each."""
        done = 0
        for shown in range(rounds):
            for _ in range(_FIRST_PROOF + shown * _LATER_PROOFS):
                self.problem.step(moving=done >= _STEADY)
                done += 1
                if done > 2 * _STEADY and done % _BALANCE_EVERY == 0:
                    self.problem.balance()
            yield self.proof()

    def proof(self) -> SetProof:
        """What the present point proves, once all set sizes are looked after."""
        blocks = self.problem.blocks
        phi = self.problem.phi / np.outer(blocks.scale, blocks.scale)
        return completed(phi, self.reports.prior, blocks)


def _sizes(counts: FloatArray, mass: FloatArray, n: int) -> list[int]:
    """Set sizes to look after: those that the strategy uses, and coarsely all the others."""
    shares = np.bincount(counts.astype(int), mass, minlength=n + 1)
    used = np.flatnonzero(shares > 2e-3 * shares.sum())
    low, high = max(1, int(used.min()) - 1), min(n - 1, int(used.max()) + 1)
    sizes = set(np.rint(np.linspace(low, high, min(_MOST_SIZES, high - low + 1))).astype(int))
    sizes |= {1, min(2, n - 1)}
    while high < n / 2:
        high = -(-high * 3 // 2)
        sizes.add(min(high, n - 1))
    while low > 1:
        low = low * 2 // 3
        sizes.add(max(low, 1))
    return sorted(int(d) for d in sizes)
