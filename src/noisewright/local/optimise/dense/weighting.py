"""Weights on thousands of patterns, by multiplicative steps, and the prior against them.

With the estimate of some weights w⁰ held fixed, the variance of a design is Σ_S (w⁰_S)² g_S/w_S,
g_S = v_SᵀΣv_S/πᵀv_S. Its least point under Σ_S w_S v_S = 1 is w = w⁰·(g/λᵀv)^½, λ the prices of
these conditions: a step that never raises the variance, and costs as much as a product of matrices,
where an interior-point step (`saddle`) costs the cube of the number of patterns. On 256 cells a
best design has ten thousand. Full steps w⁰·(g/λᵀv) with momentum get there four times as fast; the
prior follows the variances of types meanwhile.

All of it is in single precision but for matrices over cells: patterns are kept off their mean, so
that no digits are lost to the total at small ε, and in halves where cells can be swapped in pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import expm1

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray
from noisewright.local.optimise.dense.design import Design, Priced
from noisewright.local.optimise.dense.involution import Involution
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.work import pass_over, product, solve

# Of the last step's velocity.
_MOMENTUM = 0.7
_PRIOR_STEP = 0.3  # of a type's variance over the mean, less one
_LARGEST_PRIOR_STEP = 0.2  # of the logarithm of a share
_SMALLEST_STEP = -2.0  # of the logarithm of a weight
# The same upwards.
_LARGEST_STEP = 1.5
_LEAST_SHARE = 1e-3  # of an even one: a type that never occurs would be seen by nobody
_PRICE_STEPS = 2  # of Newton: prices of the last step are near
_BALANCED = 1e-6  # what columns may lack of one meanwhile: single precision has no more
_RIDGE = 1e-7  # of a trace: information that single precision cannot tell from none
_LEAST_ENERGY = 1e-12  # steps take its logarithm
_ROOT = 2**0.5  # of the two cells of a pair: makes a sum over both a unit vector
_LEAST_REPORTED = 1e-6
"""Share of reports below which a pattern leaves: whole numbers would not keep its digits."""

_PASSES = 8  # over all entries of all patterns, in a step, as timed


@dataclass(frozen=True, eq=False)
class _OffMean:
    """Patterns less their means, as they lie within the subspaces that swapping cells leaves."""

    involution: Involution
    parts: tuple[Array, ...]
    """In single precision."""
    means: FloatArray
    slope: float

    @classmethod
    def of(
        cls, patterns: BoolArray, epsilon: float, involution: Involution
    ) -> _OffMean:
        pairs = involution.folding.pairs
        means = patterns.mean(axis=1)
        z = (patterns[:, involution.order] - means[:, None]).astype(np.float32)
        parts: tuple[Array, ...] = (z,)
        if pairs:
            near = z[:, :pairs] / np.float32(_ROOT)
            far = z[:, pairs : 2 * pairs] / np.float32(_ROOT)
            parts = np.hstack([near + far, z[:, 2 * pairs :]]), near - far
        return cls(involution, parts, means, expm1(epsilon))

    @property
    def _level(self) -> FloatArray:
        """The mean of v."""
        return np.asarray(1 + self.slope * self.means)

    @property
    def _ones(self) -> FloatArray:
        return self.even(np.ones(len(self.involution.order)))

    def even(self, cells: FloatArray) -> FloatArray:
        """An invariant vector over cells within the first subspace."""
        ordered = cells[self.involution.order]
        return np.asarray(self.involution.folding.vectors(ordered)[0])

    def cells(self, even: FloatArray) -> FloatArray:
        """The invariant vector over cells that lies there."""
        vector = np.empty(len(self.involution.order))
        spread = self.involution.folding.spread
        odd = np.zeros((self.involution.folding.pairs, 1))
        columns = (even[:, None], odd) if len(odd) else (even[:, None],)
        vector[self.involution.order] = spread(columns)[:, 0]
        return vector

    def _mixed(self, weights: FloatArray) -> FloatArray:
        """Σ w z within the first subspace."""
        mixed = weights.astype(np.float32) @ self.parts[0]
        return np.asarray(mixed.astype(np.float64))

    def products(self, cells: FloatArray) -> FloatArray:
        """v·x for an invariant x over cells."""
        z = (self.parts[0] @ self.even(cells).astype(np.float32)).astype(np.float64)
        return np.asarray(self._level * cells.sum() + self.slope * z)

    def total(self, weights: FloatArray) -> FloatArray:
        """Σ w v over cells, each pattern half its image."""
        z = self.cells(self._mixed(weights))
        return np.asarray(weights @ self._level + self.slope * z)

    def _moments(self, weights: FloatArray, part: int) -> FloatArray:
        """Σ w z zᵀ within a subspace."""
        rooted = self.parts[part] * np.sqrt(weights).astype(np.float32)[:, None]
        return np.asarray((rooted.T @ rooted).astype(np.float64))

    def squares(self, weights: FloatArray) -> FloatArray:
        """Σ w v vᵀ within the first subspace."""
        ones = self._ones
        level = self._level
        side = self.slope * np.outer(ones, self._mixed(weights * level))
        constant = float(weights @ level**2) * np.outer(ones, ones)
        moments = self.slope**2 * self._moments(weights, 0)
        return np.asarray(moments + side + side.T + constant)

    def information(
        self, shares: FloatArray, along: FloatArray, part: int
    ) -> FloatArray:
        """Σ y (v − m1)(v − m1)ᵀ within a subspace, m = πᵀv, where πᵀz is `along`."""
        x = self._moments(shares, part)
        if part == 0:
            ones = self._ones
            side = np.outer(ones, self._mixed(shares * along))
            x += float(shares @ along**2) * np.outer(ones, ones) - side - side.T
            # The direction of the total, which is empty, filled in.
            x += float(np.trace(x)) / len(x) * np.outer(ones, ones) / (ones @ ones)

        x[np.diag_indices(len(x))] += _RIDGE * float(np.trace(x)) / len(x)
        return np.asarray(self.slope**2 * x)

    def energies(self, quadratics: tuple[FloatArray, ...]) -> FloatArray:
        """vᵀΣv: of z alone, since Σ takes the total to nothing."""
        energies = np.zeros(len(self.means))
        for part, quadratic in zip(self.parts, quadratics, strict=True):
            energies += np.einsum("ou,ou->o", part @ quadratic.astype(np.float32), part)
        return np.asarray(self.slope**2 * energies)


@dataclass(eq=False)
class WeightedPatterns:
    """A design under multiplicative steps, the prior against it and its prices."""

    gram: FloatArray
    involution: Involution
    design: Design
    """Of patterns and their images one."""
    prior: FloatArray
    worst_case: bool
    """Whether the prior follows the variances of types."""
    prices: FloatArray | None = None
    mean: float = np.inf
    worst: float = np.inf
    off_mean: _OffMean = field(init=False)
    weights: FloatArray = field(init=False)
    velocity: FloatArray = field(init=False)
    """Of the logarithms of weights."""

    @classmethod
    def of(
        cls, design: Design, objective: Objective, worst_case: bool
    ) -> WeightedPatterns:
        """A design, averaged over images where the prior may be."""
        gram = objective.gram
        n = len(gram)
        involution = Involution.of(gram) if worst_case else Involution.identity(n)
        prior = involution.averaged(objective.prior)
        ridge = _RIDGE * float(np.trace(gram)) / n * np.eye(n)
        representatives = involution.representatives(design.merged())
        return cls(gram + ridge, involution, representatives, prior, worst_case)

    def __post_init__(self) -> None:
        patterns = self.design.patterns
        self.off_mean = _OffMean.of(patterns, self.design.epsilon, self.involution)
        total = self.off_mean.total(self.design.weights)
        self.weights = self.design.weights / float(total.mean())
        self.velocity = np.zeros(len(self.weights))

    @property
    def variance(self) -> float:
        """The error that counts, as last looked at."""
        return self.worst if self.worst_case else self.mean

    @property
    def operations(self) -> float:
        """What a step takes, about: products in single precision, and systems over cells."""
        rows = len(self.weights)
        sides = self.involution.folding.sides
        squares = sum(product(rows, side, side) for side in sides)
        systems = sum(solve(side, 2 * side) for side in sides)
        return squares + systems + _PASSES * pass_over(rows * sum(sides))

    def step(self) -> None:
        """One multiplicative step of the weights, and of the prior if it follows."""
        energies, variances, _ = self.look()
        costs = self._price(energies)

        self.velocity = np.log(energies / costs) + _MOMENTUM * self.velocity
        step = np.clip(self.velocity, _SMALLEST_STEP, _LARGEST_STEP)
        self.weights = self.weights * np.exp(step)

        if self.worst_case:
            uneven = _PRIOR_STEP * (variances - self.mean) / abs(self.mean)
            step = np.clip(uneven, -_LARGEST_PRIOR_STEP, _LARGEST_PRIOR_STEP)
            prior = self.prior * np.exp(step)
            prior = np.maximum(prior / prior.sum(), _LEAST_SHARE / len(prior))
            self.prior = prior / prior.sum()

    def look(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """g of every pattern, the variance of every type, and Σ; raises where X is singular."""
        from scipy.linalg import cho_factor, cho_solve

        off_mean = self.off_mean
        folding = self.involution.folding
        order = self.involution.order
        centred = Objective(self.gram, self.prior).centred

        mass = off_mean.products(self.prior)
        shares = self.weights / mass
        along = (mass - 1) / off_mean.slope - off_mean.means
        quadratics = []
        for part, half in enumerate(folding.halves(centred[np.ix_(order, order)])):
            information = off_mean.information(shares, along, part)
            factor = cho_factor(information, check_finite=False)
            left = cho_solve(factor, half, check_finite=False)
            quadratic = cho_solve(factor, left.T, check_finite=False)
            quadratics.append((quadratic + quadratic.T) / 2)

        energies = off_mean.energies(tuple(quadratics)) / mass
        energies = np.maximum(energies, _LEAST_ENERGY)
        moments = off_mean.total(energies * shares)
        variances = self.involution.averaged(moments - np.diagonal(centred))
        if not np.isfinite(variances).all():
            raise np.linalg.LinAlgError("beyond the digits of a number")

        self.mean = float(self.prior @ variances)
        self.worst = float(variances.max())
        cells = np.argsort(order)
        whole = folding.whole(tuple(quadratics))[np.ix_(cells, cells)]
        return energies, variances, whole

    def _price(self, energies: FloatArray) -> FloatArray:
        """λᵀv with Σ w(g/λᵀv)v = 1, by Newton steps from the last prices λ."""
        off_mean = self.off_mean
        even = self.prior * float(self.weights @ energies)
        prices = even if self.prices is None else self.prices
        costs = off_mean.products(prices)
        if costs.min() <= 0:
            prices = even
            costs = off_mean.products(even)

        for _ in range(_PRICE_STEPS):
            moved = self.weights * energies / costs
            missing = off_mean.total(moved) - 1.0
            if np.abs(missing).max() < _BALANCED:
                break

            squares = off_mean.squares(moved / costs)
            ridge = 1e-9 * float(np.trace(squares)) / len(self.prior)
            squares[np.diag_indices(len(squares))] += ridge
            solution = np.linalg.solve(squares, off_mean.even(missing))
            step = off_mean.cells(np.asarray(solution))
            rise = off_mean.products(step)

            length = 1.0
            while (costs + length * rise <= 0.2 * costs).any():
                length /= 2
            prices = prices + length * step
            costs = costs + length * rise

        self.prices = prices
        return np.asarray(costs)

    def heaviest(self, most: int | None = None) -> Design:
        """The patterns that are reported at all, or at most so many of them."""
        return self._weighed.heaviest(self.prior, most, _LEAST_REPORTED)

    @property
    def _weighed(self) -> Design:
        return Design(self.design.patterns, self.weights, self.design.epsilon)

    def priced(self) -> Priced:
        """The weights with what they say about other patterns."""
        energies, _, quadratic = self.look()
        self._price(energies)
        assert self.prices is not None
        return Priced(self._weighed, self.prior, quadratic, self.prices, self.variance)

    def with_design(self, design: Design) -> WeightedPatterns:
        """Other patterns, prior and prices kept."""
        return WeightedPatterns(
            self.gram,
            self.involution,
            self.involution.representatives(design.merged()),
            self.prior,
            self.worst_case,
            self.prices,
        )

    def balanced(self) -> Design | None:
        """The patterns, images too, with columns that sum to one exactly."""
        return self.involution.symmetrised(self.heaviest()).balanced()
