"""A strategy made of orbits: the translates of a few patterns, each on some of the attributes.

The client needs the patterns only: it draws an orbit, then a cell s of its pattern (a high cell
being e^ε times likelier), and reports the orbit and the translation u − s. All figures follow from
transforms over the cells; nothing over pairs of cells is formed unless the workload itself is a
matrix without structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Self

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.analysis.information import Information
from noisewright.local.composed.table_strategy import shown_table
from noisewright.local.fixedpoint import WORD, check_epsilon, whole_weights
from noisewright.local.randomizer.laws import Favour, Owner, Translate
from noisewright.local.randomizer.routers import Axes
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored, check_axes, check_sizes
from noisewright.local.strategy import (
    DENSE_SIZE,
    Arrays,
    IndexStrategy,
    Settings,
    check_dense,
)
from noisewright.local.transform.invariants import decompose, ramp_vector
from noisewright.local.transform.translations import (
    Family,
    Translations,
    family_energy,
    family_moment,
)
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

_BLOCK_ENTRIES = 2**22
"""Of the products of queries with reports that are held at a time: 32 MiB."""


@dataclass(frozen=True, eq=False)
class InvariantInformation(Information):
    """An information matrix that translations leave unchanged, by its eigenvalues."""

    group: Translations
    eigenvalues: FloatArray

    @property
    def size(self) -> int:
        """Number of types."""
        return self.group.cells

    @cached_property
    def _seen(self) -> BoolArray:
        return np.asarray(self.eigenvalues > 1e-12 * self.eigenvalues.max())

    @property
    def full_rank(self) -> bool:
        """Whether every character is seen."""
        return bool(self._seen.all())

    @cached_property
    def inverse(self) -> FloatArray:
        """Eigenvalues of the pseudo-inverse."""
        return np.where(
            self._seen, 1.0 / np.where(self._seen, self.eigenvalues, 1.0), 0.0
        )

    def _apply(self, eigenvalues: FloatArray, x: FloatArray) -> FloatArray:
        rows = x[None] if x.ndim == 1 else x.T
        result = self.group.apply(eigenvalues, np.asarray(rows, dtype=np.float64))
        return result[0] if x.ndim == 1 else result.T

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        return self._apply(self.eigenvalues, x)

    def solve(self, x: FloatArray) -> FloatArray:
        """Pseudo-inverse applied to `x`."""
        return self._apply(self.inverse, x)


@dataclass(frozen=True, eq=False)
class OrbitStrategy(IndexStrategy):
    """Orbits over attributes of these sizes; what their chances leave of one says nothing."""

    sizes: tuple[int, ...]
    families: tuple[Family, ...]
    epsilon: float

    kind = "orbits"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        sizes = check_sizes(self.sizes)

        for family in self.families:
            check_axes("axes", family.axes, len(sizes))
            fits = family.group.sizes == tuple(sizes[axis] for axis in family.axes)
            require(
                fits and family.epsilon == self.epsilon,
                "families",
                family.axes,
                "must fit the domain",
            )

        require(
            self.families and self.spare >= 0,
            "families",
            len(self.families),
            "must hold a chance of one",
        )

    @classmethod
    def from_patterns(
        cls,
        sizes: tuple[int, ...],
        patterns: BoolArray,
        shares: FloatArray,
        epsilon: float,
    ) -> OrbitStrategy:
        """Orbits of full patterns with these shares, each cut down to the attributes it needs.

        A pattern that holds all cells, or none, says nothing.
        """
        grouped: dict[tuple[int, ...], list[tuple[BoolArray, int]]] = {}
        for pattern, weight in zip(patterns, whole_weights(shares), strict=True):
            axes = attributes_of(pattern.reshape(sizes))
            small = pattern.reshape(sizes)[
                tuple(slice(None) if axis in axes else 0 for axis in range(len(sizes)))
            ].ravel()
            if weight and axes:
                grouped.setdefault(axes, []).append((small, weight))

        families = []
        for axes, members in grouped.items():
            group = Translations(tuple(sizes[axis] for axis in axes))
            bits = np.array([pattern for pattern, _ in members])
            families.append(
                Family(axes, group, bits, tuple(w for _, w in members), epsilon)
            )

        return cls(sizes, tuple(families), epsilon)

    @cached_property
    def group(self) -> Translations:
        """Translations of the whole domain."""
        return Translations(self.sizes)

    def representatives(self) -> BoolArray:
        """A pattern of every orbit, over all cells."""
        rows = []
        for family in self.families:
            shape = [
                size if axis in family.axes else 1
                for axis, size in enumerate(self.sizes)
            ]
            small = family.patterns.reshape(-1, *shape)
            rows.append(
                np.broadcast_to(small, (len(small), *self.sizes)).reshape(
                    len(small), -1
                )
            )

        return np.concatenate(rows)

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return prod(self.sizes)

    @cached_property
    def spare(self) -> int:
        """What is left of the chances, out of 2^64."""
        return WORD - sum(sum(family.weights) for family in self.families)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First report of each family; then the report that says nothing."""
        return tuple(
            np.cumsum([0, *(family.reports for family in self.families)]).tolist()
        )

    def express(self, nodes: Nodes) -> int:
        weights: list[int] = []
        of: list[int] = []

        for family in self.families:
            through = Axes(sizes=self.sizes, keep=family.axes)
            for pattern, threshold in zip(
                family.patterns, family.thresholds, strict=True
            ):
                bits = np.packbits(pattern).tobytes()
                owner = Translate(sizes=family.group.sizes, pattern=bits)
                of.append(nodes.view(nodes.favour(threshold, owner), through))
            weights += family.weights

        if self.spare:
            weights.append(self.spare)
            of.append(nodes.silent(self.sizes))

        return nodes.draw(weights, of)

    def beside(self) -> tuple[Settings, Arrays]:
        return {"sizes": list(self.sizes)}, {}

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        sizes = stored.sizes
        epsilon = stored.epsilon
        weights, shown = stored.drawn()
        orbits = []

        for weight, (through, below) in zip(weights, shown, strict=True):
            axes = shown_table(through, len(sizes))
            if axes:  # nothing is shown to a report that says nothing
                orbits.append((axes, _pattern(below.node(Favour).owner), weight))

        families = []
        for axes, members in groupby(orbits, key=lambda orbit: orbit[0]):
            check_axes("axes", axes, len(sizes))
            group = Translations(tuple(sizes[axis] for axis in axes))
            _, patterns, weights = zip(*members, strict=True)
            families.append(Family(axes, group, np.stack(patterns), weights, epsilon))

        return cls(sizes, tuple(families), epsilon)

    def _spread(self, small: FloatArray, axes: tuple[int, ...]) -> FloatArray:
        """A vector over a marginal's cells, as a tensor that broadcasts over the domain."""
        return small.reshape(
            [size if axis in axes else 1 for axis, size in enumerate(self.sizes)]
        )

    # --- the collector ------------------------------------------------------------------------

    def _tallies(self, tally: Array) -> Iterator[tuple[Family, Array]]:
        for index, family in enumerate(self.families):
            part = tally[self.starts[index] : self.starts[index + 1]]
            yield family, part.reshape(len(family.patterns), family.group.cells)

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ s: counts of translations convolved with the patterns."""
        total = np.full(self.sizes, float(tally[self.starts[-1] :].sum()))
        for family, counts in self._tallies(tally):
            waves = family.group.forward(counts.astype(np.float64))
            waves = (waves * family.group.forward(family.values)).sum(axis=0)
            total += self._spread(family.group.backward(waves[None])[0], family.axes)

        return total.ravel()

    # --- the analyst --------------------------------------------------------------------------

    @cached_property
    def information(self) -> InvariantInformation:
        """X, by its eigenvalues."""
        return InvariantInformation(self.group, self.eigenvalues)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of X, from its first column: autocorrelations of the patterns."""
        column = np.full(self.sizes, self.spare / WORD)
        for family in self.families:
            power = (
                family.shares @ family.group.power(family.values) / family.group.cells
            )
            waves = (
                power[None]
                if family.group.binary
                else power[None].astype(np.complex128)
            )
            column += self._spread(family.group.backward(waves)[0], family.axes)

        return np.asarray(self.group.forward(column.reshape(1, -1))[0].real)

    def expectation(self, energies: FloatArray) -> FloatArray:
        """E[e | u] for every type u and a value e of each report."""
        total = np.full(
            self.sizes, self.spare / WORD * energies[self.starts[-1] :].sum()
        )
        for family, part in self._tallies(energies):
            waves = family.group.forward(np.ascontiguousarray(part))
            chances = family.values * (family.shares / family.group.cells)[:, None]
            waves = (waves * family.group.forward(chances)).sum(axis=0)
            total += self._spread(family.group.backward(waves[None])[0], family.axes)

        return total.ravel()

    def _products(self, vectors: FloatArray) -> FloatArray:
        """sᵀz of every report's score with the rows z of `vectors`, one row each."""
        pieces = []
        tensors = vectors.reshape(-1, *self.sizes)

        for family in self.families:
            others = tuple(
                1 + a for a in range(len(self.sizes)) if a not in family.axes
            )
            small = tensors.sum(axis=others).reshape(len(vectors), -1)
            waves = family.group.forward(np.ascontiguousarray(small))
            patterns = np.conj(family.group.forward(family.values))
            for pattern in patterns:
                pieces.append(family.group.backward(waves * pattern))

        if self.spare:
            pieces.append(vectors.sum(axis=1)[:, None])

        return np.concatenate(pieces, axis=1)

    def type_variances(self, gram: Gram) -> FloatArray:
        """All alike for the invariant part of the workload; one pair of transforms for a ramp."""
        known = decompose(gram, self.group)
        if known is None:
            return super().type_variances(gram)

        information = self.information
        weights = known.eigenvalues * self.group.counts
        weights[0] = 0.0
        if (weights[information.inverse == 0.0] > 1e-12 * weights.max()).any():
            return np.full(self.size, np.inf)  # something asked is never reported

        constant = float(weights @ information.inverse) - weights.sum() / self.size
        result = np.full(self.size, constant)
        if known.ramp:
            a = ramp_vector(self.size)
            products = self._products(information.solve(a)[None])[0]
            result += known.ramp * (self.expectation(products**2) - a**2)

        return result

    def query_variances(self, workload: Workload, histogram: FloatArray) -> FloatArray:
        """By a matrix over cells while that is possible, then query by query."""
        if self.size <= DENSE_SIZE:
            return super().query_variances(workload, histogram)

        step = max(1, _BLOCK_ENTRIES // max(self.size, self.outputs))
        pieces = []

        for start in range(0, workload.queries, step):
            rows = workload.rows(start, min(start + step, workload.queries))
            products = self._products(self.information.solve(rows.T).T)
            weights = np.array(
                [self.expectation(part**2) @ histogram for part in products]
            )
            pieces.append(weights - (rows**2) @ histogram)

        return np.concatenate(pieces)

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_o (q_oᵀx) s_o s_oᵀ, one family at a time on the cells of its marginal."""
        check_dense(self.size)
        total = np.full((self.size, self.size), self.spare / WORD * histogram.sum())
        cells = np.arange(self.size)
        tensor = histogram.reshape(self.sizes)

        for family in self.families:
            others = tuple(a for a in range(len(self.sizes)) if a not in family.axes)
            small = family_moment(family, tensor.sum(axis=others).ravel())
            index = Axes(sizes=self.sizes, keep=family.axes).seen(cells)
            total += small[np.ix_(index, index)]

        return total

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Σ_o Q[o,u] s_oᵀ S s_o, one family at a time on the cells of its marginal."""
        total = np.full(self.size, self.spare / WORD * quadratic.sum())
        cells = np.arange(self.size)

        for family in self.families:
            index = Axes(sizes=self.sizes, keep=family.axes).seen(cells)
            small = np.zeros((family.group.cells, self.size))
            np.add.at(small, index, quadratic)
            both = np.zeros((family.group.cells, family.group.cells))
            np.add.at(both, index, small.T)
            total += family_energy(family, both)[index]

        return total


def _pattern(owner: Owner) -> BoolArray:
    """The pattern whose translates a law favours."""
    match owner:
        case Translate():
            return owner.places
        case _:
            kind = type(owner).__name__
            raise InvalidParameter("owner", kind, "must be translates")


def attributes_of(pattern: BoolArray) -> tuple[int, ...]:
    """Attributes on which a pattern depends."""
    return tuple(
        axis
        for axis in range(pattern.ndim)
        if (pattern != np.roll(pattern, 1, axis=axis)).any()
    )
