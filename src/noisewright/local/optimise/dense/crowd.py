"""Best weights on thousands of patterns, by multiplicative steps, while patterns come and go.

With the estimate of some weights w⁰ held fixed, the variance of a design is Σ_S (w⁰_S)² g_S/w_S,
g_S = v_SᵀΣv_S/πᵀv_S. Its least point under Σ_S w_S v_S = 1 is w = w⁰·(g/λᵀv)^½, λ the prices of
these conditions: a step that never raises the variance, and costs as much as a product of matrices,
where an interior-point step (`saddle`) costs the cube of the number of patterns. On 256 cells a
best design has ten thousand. Full steps w⁰·(g/λᵀv) with momentum get there four times as fast; the
prior follows the variances of types meanwhile, and what the prices undervalue joins.

All of it is in single precision but for matrices over cells: patterns are kept off their mean, so
that no digits are lost to the total at small ε, and in halves where cells can be swapped in pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import expm1

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray
from noisewright.local.optimise.dense.design import Design
from noisewright.local.optimise.dense.mirror import Mirror
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.pricing import undervalued
from noisewright.local.work import product, solved, touched

_MOMENTUM = 0.7
_PRIOR_STEP = 0.3
_LARGEST_PRIOR_STEP = 0.2
_SMALLEST_STEP, _LARGEST_STEP = -2.0, 1.5  # of the logarithm of a weight
# of an even share: a type that never occurs would be seen by nobody
_LEAST_SHARE = 1e-3
_PRICE_STEPS = 2
_BALANCED = 1e-6
_RIDGE = 1e-7  # information on what no query asks must not fade to nothing
_LEAST_WORTH = 1e-12
_ROOT = 2**0.5
_PASSES = 8  # over all entries of all patterns, in a step


@dataclass(frozen=True, eq=False)
class _Folded:
    """Patterns less their means, as they lie within the subspaces that swapping cells leaves."""

    mirror: Mirror
    parts: tuple[Array, ...]
    """In single precision."""
    means: FloatArray
    slope: float

    @classmethod
    def of(cls, patterns: BoolArray, slope: float, mirror: Mirror) -> _Folded:
        h = mirror.folding.pairs
        order = mirror.order
        means = patterns.mean(axis=1)
        z = (patterns[:, order] - means[:, None]).astype(np.float32)
        if not h:
            return cls(mirror, (z,), means, slope)

        near = z[:, :h]
        far = z[:, h : 2 * h]
        even = np.hstack([(near + far) / np.float32(_ROOT), z[:, 2 * h :]])
        return cls(mirror, (even, (near - far) / np.float32(_ROOT)), means, slope)

    def even(self, cells: FloatArray) -> FloatArray:
        """An invariant vector over cells within the first subspace."""
        return np.asarray(self.mirror.folding.vectors(cells[self.mirror.order])[0])

    def cells(self, even: FloatArray) -> FloatArray:
        """The invariant vector over cells that lies there."""
        h = self.mirror.folding.pairs
        vector = np.empty(len(self.mirror.order))
        halves = [even[:h] / _ROOT, even[:h] / _ROOT, even[h:]] if h else [even]
        vector[self.mirror.order] = np.concatenate(halves)
        return vector

    def products(self, cells: FloatArray) -> FloatArray:
        """v·x for an invariant x over cells."""
        even = (self.parts[0] @ self.even(cells).astype(np.float32)).astype(np.float64)
        return np.asarray(
            (1 + self.slope * self.means) * cells.sum() + self.slope * even
        )

    def total(self, weights: FloatArray) -> FloatArray:
        """Σ w v over cells, each pattern half its image."""
        z = (weights.astype(np.float32) @ self.parts[0]).astype(np.float64)
        return np.asarray(
            weights @ (1 + self.slope * self.means) + self.slope * self.cells(z)
        )

    def moments(self, weights: FloatArray, part: int) -> FloatArray:
        """Σ w z zᵀ within a subspace."""
        rooted = self.parts[part] * np.sqrt(weights).astype(np.float32)[:, None]
        return np.asarray((rooted.T @ rooted).astype(np.float64))

    def squares(self, weights: FloatArray) -> FloatArray:
        """Σ w v vᵀ within the first subspace."""
        level = 1 + self.slope * self.means
        ones = self.even(np.ones(len(self.mirror.order)))
        mixed = (weights * level).astype(np.float32) @ self.parts[0]
        side = self.slope * np.outer(ones, mixed.astype(np.float64))
        constant = float(weights @ level**2) * np.outer(ones, ones)

        return np.asarray(
            self.slope**2 * self.moments(weights, 0) + side + side.T + constant
        )

    def information(
        self, shares: FloatArray, along: FloatArray, part: int
    ) -> FloatArray:
        """Σ y (v − m1)(v − m1)ᵀ within a subspace, m = πᵀv, where πᵀz is `along`."""
        x = self.moments(shares, part)
        if part == 0:
            ones = self.even(np.ones(len(self.mirror.order)))
            mixed = ((shares * along).astype(np.float32) @ self.parts[0]).astype(
                np.float64
            )
            side = np.outer(ones, mixed)
            x += float(shares @ along**2) * np.outer(ones, ones) - side - side.T
            x += (
                float(np.trace(x))
                / len(x)
                * np.outer(ones, ones)
                / len(self.mirror.order)
            )

        x[np.diag_indices(len(x))] += _RIDGE * float(np.trace(x)) / len(x)
        return np.asarray(self.slope**2 * x)

    def energies(self, quadratics: tuple[FloatArray, ...]) -> FloatArray:
        """vᵀΣv: of z alone, since Σ takes the total to nothing."""
        energies = np.zeros(len(self.means))
        for part, quadratic in zip(self.parts, quadratics, strict=True):
            pulled = part @ quadratic.astype(np.float32)
            energies += np.einsum("ou,ou->o", pulled, part)
        return np.asarray(self.slope**2 * energies)


@dataclass(eq=False)
class Crowd:
    """Patterns with weights, the prior against them, and the prices of balance."""

    gram: FloatArray
    mirror: Mirror
    epsilon: float
    prior: FloatArray
    follows: bool
    """Whether the prior follows the variances of types."""
    patterns: BoolArray
    weights: FloatArray
    prices: FloatArray | None = None
    drift: FloatArray = field(init=False)
    quadratic: FloatArray = field(init=False)
    mass: FloatArray = field(init=False)
    mean: float = field(init=False)
    worst: float = field(init=False)

    @classmethod
    def of(cls, design: Design, objective: Objective, worst_case: bool) -> Crowd:
        """A design, averaged over mirror images where the prior may be."""
        mirror = (
            Mirror.of(objective.gram)
            if worst_case
            else Mirror.none(len(objective.gram))
        )
        halved = mirror.halved(design.merged())
        n = len(objective.gram)
        gram = objective.gram + _RIDGE * float(np.trace(objective.gram)) / n * np.eye(n)
        prior = objective.prior
        weights = halved.weights
        crowd = cls(
            gram, mirror, design.epsilon, prior, worst_case, halved.patterns, weights
        )
        crowd.prior = crowd.folded.cells(crowd.folded.even(crowd._averaged(prior)))

        return crowd

    def __post_init__(self) -> None:
        self.folded = _Folded.of(self.patterns, expm1(self.epsilon), self.mirror)
        self.weights = self.weights / float(self.folded.total(self.weights).mean())
        self.drift = np.zeros(len(self.weights))
        self.mean = self.worst = np.inf

    def _averaged(self, cells: FloatArray) -> FloatArray:
        """The mean of a vector over cells and its mirror image."""
        ordered = self.mirror.folding.averaged(cells[self.mirror.order])
        image = np.empty_like(cells)
        image[self.mirror.order] = ordered
        return image

    @property
    def operations(self) -> float:
        """What a step takes, about: products in single precision, and systems over cells."""
        rows = len(self.weights)
        sides = self.mirror.folding.sides
        squares = sum(product(rows, side, side) for side in sides)
        systems = sum(solved(side, 2 * side) for side in sides)
        return squares + systems + _PASSES * touched(rows * sum(sides))

    def step(self) -> None:
        """One multiplicative step of the weights, and of the prior if it follows."""
        energies, variances = self.look()
        self.prices, costs = self._priced(energies)
        worth = np.log(energies / costs)
        self.drift = worth + _MOMENTUM * self.drift
        self.weights = self.weights * np.exp(
            np.clip(self.drift, _SMALLEST_STEP, _LARGEST_STEP)
        )
        if self.follows:
            uneven = _PRIOR_STEP * (variances - self.mean) / abs(self.mean)
            step = np.clip(uneven, -_LARGEST_PRIOR_STEP, _LARGEST_PRIOR_STEP)
            prior = self.prior * np.exp(step)
            prior = np.maximum(prior / prior.sum(), _LEAST_SHARE / len(prior))
            self.prior = prior / prior.sum()

    def look(self) -> tuple[FloatArray, FloatArray]:
        """g of every pattern and the variance of every type; raises where X is singular."""
        from scipy.linalg import cho_factor, cho_solve

        folded = self.folded
        order = self.mirror.order
        mean = self.gram @ self.prior
        centred = self.gram - mean[:, None] - mean + float(self.prior @ mean)
        self.mass = folded.products(self.prior)
        shares = self.weights / self.mass
        along = (self.mass - 1) / folded.slope - folded.means
        quadratics = []

        for part, half in enumerate(
            self.mirror.folding.halves(centred[np.ix_(order, order)])
        ):
            factor = cho_factor(
                folded.information(shares, along, part), check_finite=False
            )
            solved = cho_solve(factor, half, check_finite=False)
            quadratic = cho_solve(factor, solved.T, check_finite=False)
            quadratics.append((quadratic + quadratic.T) / 2)

        energies = np.maximum(
            folded.energies(tuple(quadratics)) / self.mass, _LEAST_WORTH
        )
        known = np.diagonal(centred)
        variances = self._averaged(folded.total(energies * shares) - known)
        if not np.isfinite(variances).all():
            raise np.linalg.LinAlgError("beyond the digits of a number")

        back = np.argsort(order)
        self.quadratic = self.mirror.folding.whole(tuple(quadratics))[
            np.ix_(back, back)
        ]
        self.mean, self.worst = float(self.prior @ variances), float(variances.max())

        return np.asarray(energies), variances

    def _priced(self, energies: FloatArray) -> tuple[FloatArray, FloatArray]:
        """λ and λᵀv with Σ w(g/λᵀv)v = 1, by Newton steps from the last prices."""
        folded = self.folded
        n = len(self.prior)
        even = self.prior * float(self.weights @ energies)
        prices = even if self.prices is None else self.prices
        costs = folded.products(prices)
        if costs.min() <= 0:
            prices = even
            costs = folded.products(even)

        for _ in range(_PRICE_STEPS):
            moved = self.weights * energies / costs
            missing = folded.total(moved) - 1.0
            if np.abs(missing).max() < _BALANCED:
                break

            squares = folded.squares(moved / costs)
            squares[np.diag_indices(len(squares))] += (
                1e-9 * float(np.trace(squares)) / n
            )
            move = folded.cells(
                np.asarray(np.linalg.solve(squares, folded.even(missing)))
            )
            rise = folded.products(move)
            length = 1.0

            while (costs + length * rise <= 0.2 * costs).any():
                length /= 2

            prices = prices + length * move
            costs = costs + length * rise

        return np.asarray(prices), np.asarray(costs)

    def undervalued(self) -> FloatArray:
        """Φ with vᵀΦv positive where a pattern is worth more than its price."""
        energies, _ = self.look()
        self.prices, _ = self._priced(energies)
        return undervalued(self.quadratic, self.prices, self.prior)

    def joined(self, fresh: BoolArray, light: float, least: float, most: int) -> Crowd:
        """The heaviest patterns, at most so many, and lightly some new ones."""
        shares = self.weights * self.mass
        heavy = np.argsort(-shares, kind="stable")[:most]
        heavy = heavy[shares[heavy] > least * float(shares.sum())]
        lightly = np.full(len(fresh), light * float(np.median(self.weights[heavy])))
        patterns = np.concatenate([self.patterns[heavy], fresh])
        weights = np.concatenate([self.weights[heavy], lightly])
        halved = self.mirror.halved(Design(patterns, weights, self.epsilon).merged())

        return replace(self, patterns=halved.patterns, weights=halved.weights)

    def design(self) -> Design | None:
        """All patterns, images too, with columns that sum to one exactly."""
        return self.mirror.doubled(
            Design(self.patterns, self.weights, self.epsilon)
        ).balanced()
