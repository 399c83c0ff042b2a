"""Kernels for tables and parities: a set's gain is limited by linear programming.

For a set of d cells, let A_i be the mean number of its members in relation i to a member.
Delsarte [034]: Σ_i A_i Q_k(i) ≥ 0 for every class k of characters, and 0 ≤ A_i ≤ valency. A kernel
that depends on the relation only, κ_i = Σ_k K_k Q_k(i)/n, gives the set d·Σ_i A_i κ_i, at most d
times the value of a small linear program, whose dual solutions hold for every d at once. For sets
of a few cells the counts that occur are listed (`small_sets`), and the largest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, exp, expm1, prod

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.bounds.tables.small_sets import Groups, pair_counts
from noisewright.local.shares import best_shares
from noisewright.workload.linear.gram import (
    Gram,
    KronGram,
    MarginalGram,
    XorGram,
)

Block = tuple[int, ...]

_MOST_CLASSES = 128
_MOST_CELLS = 2**16
_MOST_BITS = 16


@dataclass(frozen=True, eq=False)
class Scheme:
    """Relations between cells, classes of characters, and the workload's eigenvalues on them.

    Cells that differ in the same number of attributes, of each kind, are in the same relation; the
    interactions of so many attributes of each kind are a class of characters. (An association
    scheme, the product of the Hamming schemes of attributes that are alike.)
    """

    characters: FloatArray
    """Q_k(i): the sum of the characters of class k, at relation i; class and relation 0 first."""
    valencies: FloatArray
    eigenvalues: FloatArray
    groups: Groups = ()
    """Attributes that are alike: how many, and of how many values."""

    @cached_property
    def cells(self) -> int:
        return round(float(self.valencies.sum()))

    @cached_property
    def counts(self) -> FloatArray:
        """Number of characters in each class."""
        return self.characters[:, 0]


def scheme_of(gram: Gram) -> Scheme | None:
    """The scheme of a family of tables or of parities, unless it is too large."""
    known = _interactions(gram)
    if known is None or prod(known.sizes) > _MOST_CELLS:
        return None

    groups: list[tuple[int, ...]] = []
    for attribute in range(len(known.sizes)):
        home = next(
            (g for g, group in enumerate(groups) if known.alike(group[0], attribute)),
            None,
        )
        if home is None:
            groups.append((attribute,))
        else:
            groups[home] = (*groups[home], attribute)

    if prod(len(group) + 1 for group in groups) > _MOST_CLASSES:
        return None

    parts = [_hamming(len(group), known.sizes[group[0]]) for group in groups]
    degrees = product(*(range(len(group) + 1) for group in groups))
    blocks = [
        tuple(
            sorted(
                i for group, k in zip(groups, degree, strict=True) for i in group[:k]
            )
        )
        for degree in degrees
    ]

    return Scheme(
        _products([part[0] for part in parts]),
        _products([part[1] for part in parts]),
        np.array([known.value(block) for block in blocks]),
        tuple((len(group), known.sizes[group[0]]) for group in groups),
    )


@dataclass(frozen=True)
class _Listed:
    """Attribute sizes, and the eigenvalue on the interactions of some sets of attributes."""

    sizes: tuple[int, ...]
    values: Mapping[Block, float]

    def value(self, block: Block) -> float:
        return self.values.get(block, 0.0)

    def alike(self, one: int, other: int) -> bool:
        """Whether swapping two attributes changes no eigenvalue."""
        exchange = {one: other, other: one}
        slack = 1e-12 * max(map(abs, self.values.values()), default=0.0)
        return self.sizes[one] == self.sizes[other] and all(
            abs(self.value(tuple(sorted(exchange.get(i, i) for i in block))) - value)
            <= slack
            for block, value in self.values.items()
        )


@dataclass(frozen=True)
class _Product:
    """The same for products: one eigenvalue for an attribute's total, one for what is left."""

    sizes: tuple[int, ...]
    pairs: tuple[tuple[float, float], ...]

    def value(self, block: Block) -> float:
        return prod(
            rest if i in block else own for i, (own, rest) in enumerate(self.pairs)
        )

    def alike(self, one: int, other: int) -> bool:
        return (
            self.sizes[one] == self.sizes[other]
            and self.pairs[one] == self.pairs[other]
        )


def _interactions(gram: Gram) -> _Listed | _Product | None:
    if isinstance(gram, MarginalGram):
        return _Listed(gram.sizes, gram.eigenvalues)

    if isinstance(gram, XorGram) and gram.size <= 2**_MOST_BITS:
        bits = (gram.size - 1).bit_length()
        nonzero = np.flatnonzero(gram.eigenvalues)
        blocks = {
            tuple(i for i in range(bits) if mask >> (bits - 1 - i) & 1): float(value)
            for mask, value in zip(
                nonzero.tolist(), gram.eigenvalues[nonzero], strict=True
            )
        }
        return _Listed((2,) * bits, blocks)

    factors = gram.factors if isinstance(gram, KronGram) else (gram,)
    pairs = [_pair(factor) for factor in factors]
    known = [pair for pair in pairs if pair is not None]
    if len(known) < len(pairs):
        return None

    return _Product(tuple(factor.size for factor in factors), tuple(known))


def _pair(gram: Gram) -> tuple[float, float] | None:
    """Eigenvalues of a Gram matrix w·I + c·11ᵀ, on the total and off it."""
    form = gram.identity_and_ones()
    return form and (form[0] + form[1] * gram.size, form[0])


def _products(parts: list[FloatArray]) -> FloatArray:
    result = parts[0]
    for part in parts[1:]:
        result = np.asarray(np.kron(result, part), dtype=np.float64)
    return result


def _hamming(attributes: int, size: int) -> tuple[FloatArray, FloatArray]:
    """Krawtchouk sums and valencies of so many attributes of one size."""
    d = attributes
    q = size - 1
    sums = [
        [
            sum(
                (-1) ** j * q ** (k - j) * comb(i, j) * comb(d - i, k - j)
                for j in range(k + 1)
            )
            for i in range(d + 1)
        ]
        for k in range(d + 1)
    ]
    return np.array(sums, dtype=float), np.array(
        [comb(d, i) * q**i for i in range(d + 1)], float
    )


_ROUNDS = 12
_IDLE_ROUNDS = 3
_REFINEMENTS = 4
_CLOSE = 1e-4
_ROUNDING = 2.0**-46  # of the numbers in a limit: some hundred times their own rounding


@dataclass(frozen=True)
class _Line:
    """Σ_i A_i κ_i ≤ start + slope·d for any set of d cells, nearly met by counts at d = `cells`."""

    start: float
    slope: float
    cells: int
    spectrum: FloatArray
    """Σ_i A_i Q_k(i) of those counts."""
    only: bool = False
    """Whether it is about that number of cells alone."""


@dataclass(frozen=True, eq=False)
class SchemeBound:
    """The search for the kernel that proves most, and the proof itself (`floor`)."""

    scheme: Scheme
    epsilon: float

    @cached_property
    def _seen(self) -> BoolArray:
        """Classes that the workload asks about, other than the total."""
        seen = self.scheme.eigenvalues > 1e-13 * self.scheme.eigenvalues.max()
        seen[0] = False
        return np.asarray(seen)

    @cached_property
    def _gains(self) -> FloatArray:
        """(e^ε−1)² d / (n + (e^ε−1)d)² for d = 1 … n−1."""
        d = np.arange(1, self.scheme.cells)
        r = expm1(self.epsilon)
        n = self.scheme.cells
        return d * (r / (n + r * d)) ** 2

    def floor(self, kernel: FloatArray) -> float:
        """Proven floor under tr(MX⁻¹) off the total, from the kernel's eigenvalues by class."""
        return self._proof(kernel)[0]

    def _proof(self, kernel: FloatArray) -> tuple[float, list[_Line]]:
        s = self.scheme
        relation = kernel @ s.characters / s.cells
        lines = [self._line(relation, d) for d in self._grid()]
        lines += [self._listed(relation, k) for k in self._small]

        for _ in range(_REFINEMENTS):
            worst = int(np.argmax(self._limits(lines))) + 1
            if worst in self._small or any(line.cells == worst for line in lines):
                break
            lines.append(self._line(relation, worst))

        fidelity = float(s.counts @ np.sqrt(s.eigenvalues * kernel * self._seen))
        return fidelity**2 / (s.cells * float(self._limits(lines).max())), lines

    def _limits(self, lines: list[_Line]) -> FloatArray:
        """vᵀKv/(1ᵀv)² at most, for every number of cells."""
        d = np.arange(1, self.scheme.cells)
        best = np.full(len(d), np.inf)
        for line in lines:
            if line.only:
                best[line.cells - 1] = min(best[line.cells - 1], line.start)
            else:
                np.minimum(best, line.start + line.slope * d, out=best)

        return np.asarray(self._gains * best)

    def _grid(self) -> list[int]:
        n = self.scheme.cells
        likely = n / (1 + exp(self.epsilon))
        steps = np.concatenate(
            [np.arange(1, 9), likely * 2.0 ** np.arange(-2, 4.01, 0.5)]
        )
        return sorted({int(d) for d in np.clip(np.rint(steps), 1, n - 1)})

    @cached_property
    def _small(self) -> dict[int, FloatArray]:
        """A_i of all sets of k cells, for the smallest k."""
        known: dict[int, FloatArray] = {}
        for k, pairs in (
            pair_counts(self.scheme.groups).items() if self.scheme.groups else ()
        ):
            known[k] = 2.0 * pairs / k
            known[k][:, 0] = 1.0

        return known

    def _listed(self, relation: FloatArray, k: int) -> _Line:
        """The largest Σ_i A_i κ_i of any k cells, and the counts that have it."""
        sums = self._small[k] @ relation
        largest = int(np.argmax(sums))
        rounding = _ROUNDING * k * float(np.abs(relation).max())
        spectrum = self.scheme.characters @ self._small[k][largest]
        return _Line(float(sums[largest]) + rounding, 0.0, k, spectrum, only=True)

    def _line(self, relation: FloatArray, d: int) -> _Line:
        """Solve the linear program for d cells, and make its dual solution feasible exactly."""
        from scipy.optimize import linprog

        s = self.scheme
        unit = float(np.abs(relation).max()) or 1.0
        solved = linprog(
            -relation[1:] / unit,
            A_ub=-s.characters[1:, 1:] / s.counts[1:, None],
            b_ub=np.ones(len(s.counts) - 1),
            A_eq=np.ones((1, len(relation) - 1)),
            b_eq=[d - 1.0],
            bounds=[(0.0, float(most)) for most in s.valencies[1:]],
            method="highs",
        )
        price = np.zeros(len(s.counts) - 1)
        cap = np.zeros(len(relation) - 1)
        mean = (d - 1.0) * s.valencies[1:] / (s.cells - 1.0)
        if solved.x is not None:
            price = np.maximum(-solved.ineqlin.marginals, 0.0) * unit
            cap = np.maximum(-solved.upper.marginals, 0.0) * unit
            mean = solved.x

        slope = float(
            (relation[1:] + (price / s.counts[1:]) @ s.characters[1:, 1:] - cap).max()
        )
        slope += _ROUNDING * float(unit + price.sum() + cap.max())
        start = float(relation[0] + price.sum() + cap @ s.valencies[1:]) - slope
        start += _ROUNDING * float(
            unit + price.sum() + cap @ s.valencies[1:] + abs(slope)
        )

        return _Line(start, slope, d, s.characters[:, 0] + s.characters[:, 1:] @ mean)

    def best(self) -> float:
        """The largest floor found: sets that a kernel leaves profitable join a pool."""
        s = self.scheme
        seen = self._seen
        if not seen.any():
            return 0.0

        floor, lines = self._proof(seen.astype(float))
        pool = np.empty((0, len(s.counts)))
        idle = 0
        for _ in range(_ROUNDS):
            attained = [
                line for line in lines if line.only or line.cells not in self._small
            ]
            fresh = [
                self._gains[line.cells - 1] * line.spectrum / s.counts
                for line in attained
            ]
            pool = np.concatenate([pool, fresh])
            shares, _ = best_shares(pool[:, seen], self._weights)
            pool = pool[shares > 1e-9]
            shares = shares[shares > 1e-9]
            held = np.where(seen, shares @ pool, 1.0)
            value, lines = self._proof(np.where(seen, s.eigenvalues / held**2, 0.0))
            idle = 0 if value > floor * (1 + _CLOSE) else idle + 1
            floor = max(floor, value)
            least = float(self._weights @ (1.0 / held[seen]))  # no kernel proves more
            if floor >= least * (1 - _CLOSE) or idle == _IDLE_ROUNDS:
                break

        return floor

    @cached_property
    def _weights(self) -> FloatArray:
        return (self.scheme.counts * self.scheme.eigenvalues)[self._seen]
