"""A strategy made of orbits: the translates of a few patterns, each on some of the attributes.

The client needs the patterns only: it draws an orbit, then a cell s of its pattern (a high cell
being e^ε times likelier), and reports the orbit and the translation u − s. All figures follow from
transforms over the cells; nothing over pairs of cells is formed unless the workload itself is a
matrix without structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from math import prod
from typing import Self

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
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
from noisewright.local.transform.invariants import (
    InvariantInformation,
    decompose,
    ramp_vector,
)
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

_Orbit = tuple[BoolArray, int]
"""A pattern, and the chance of its orbit out of 2^64."""


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
            shape = tuple(sizes[axis] for axis in family.axes)
            fits = family.group.sizes == shape and family.epsilon == self.epsilon
            require(fits, "families", family.axes, "must fit the domain")

        count = len(self.families)
        some = count > 0 and self.spare >= 0
        require(some, "families", count, "must hold a chance of one")

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
        orbits: dict[tuple[int, ...], list[_Orbit]] = {}

        for pattern, weight in zip(patterns, whole_weights(shares), strict=True):
            tensor = pattern.reshape(sizes)
            axes = attributes_of(tensor)
            if weight and axes:
                kept = [slice(None) if a in axes else 0 for a in range(len(sizes))]
                small = tensor[tuple(kept)].ravel()
                orbits.setdefault(axes, []).append((small, weight))

        return cls._of(sizes, orbits.items(), epsilon)

    @classmethod
    def _of(
        cls,
        sizes: tuple[int, ...],
        orbits: Iterable[tuple[tuple[int, ...], list[_Orbit]]],
        epsilon: float,
    ) -> Self:
        """Orbits by the attributes that their patterns are over."""
        families = []

        for axes, members in orbits:
            check_axes("axes", axes, len(sizes))
            group = Translations(tuple(sizes[axis] for axis in axes))
            bits, weights = zip(*members, strict=True)
            family = Family(axes, group, np.stack(bits), weights, epsilon)
            families.append(family)

        return cls(sizes, tuple(families), epsilon)

    @cached_property
    def group(self) -> Translations:
        """Translations of the whole domain."""
        return Translations(self.sizes)

    def representatives(self) -> BoolArray:
        """A pattern of every orbit, over all cells."""
        rows = [
            family.patterns[:, self._marginal_cells(family)] for family in self.families
        ]
        return np.concatenate(rows)

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return prod(self.sizes)

    @cached_property
    def spare(self) -> int:
        """What is left of the chances, out of 2^64."""
        return WORD - sum(sum(family.weights) for family in self.families)

    @property
    def silence(self) -> float:
        """The same as a fraction: the chance of the report that says nothing."""
        return self.spare / WORD

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First report of each family; then the report that says nothing."""
        reports = (family.reports for family in self.families)
        return tuple(accumulate(reports, initial=0))

    def express(self, nodes: Nodes) -> int:
        weights: list[int] = []
        of: list[int] = []

        for family in self.families:
            through = Axes(sizes=self.sizes, keep=family.axes)
            orbits = zip(family.patterns, family.thresholds, strict=True)

            for pattern, threshold in orbits:
                bits = np.packbits(pattern).tobytes()
                owner = Translate(sizes=family.group.sizes, pattern=bits)
                favoured = nodes.favour(threshold, owner)
                of.append(nodes.view(favoured, through))

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
                orbits.append((axes, (_pattern(below.node(Favour).owner), weight)))

        runs = groupby(orbits, key=lambda orbit: orbit[0])
        families = ((axes, [orbit for _, orbit in run]) for axes, run in runs)

        return cls._of(sizes, families, epsilon)

    def _spread(self, small: FloatArray, axes: tuple[int, ...]) -> FloatArray:
        """A vector over a marginal's cells, as a tensor that broadcasts over the domain."""
        sizes = enumerate(self.sizes)
        return small.reshape([size if axis in axes else 1 for axis, size in sizes])

    # --- the collector ------------------------------------------------------------------------

    def _tallies(self, tally: Array) -> Iterator[tuple[Family, FloatArray]]:
        """What there is of every report, a row per pattern of a family."""
        parts = np.split(tally, self.starts[1:])
        for family, part in zip(self.families, parts, strict=False):
            rows = part.reshape(family.patterns.shape)
            yield family, rows.astype(np.float64)

    def _convolved(self, family: Family, x: FloatArray, y: FloatArray) -> FloatArray:
        """Σ of the convolutions of rows over a family's cells, over the domain."""
        group = family.group
        waves = group.forward(x) * group.forward(y)
        (small,) = group.backward(waves.sum(axis=0)[None])
        return self._spread(small, family.axes)

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ s: counts of translations convolved with the patterns."""
        silent = tally[self.starts[-1] :].sum()
        total = np.full(self.sizes, float(silent))
        for family, counts in self._tallies(tally):
            total += self._convolved(family, counts, family.values)

        return total.ravel()

    # --- the analyst --------------------------------------------------------------------------

    @cached_property
    def information(self) -> InvariantInformation:
        """X, by its eigenvalues."""
        return InvariantInformation(self.group, self.eigenvalues)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of X, from its first column: autocorrelations of the patterns."""
        column = np.full(self.sizes, self.silence)

        for family in self.families:
            group = family.group
            power = group.power(family.values)
            mean = family.shares @ power / group.cells
            waves = mean if group.binary else mean.astype(np.complex128)
            (small,) = group.backward(waves[None])
            column += self._spread(small, family.axes)

        (spectrum,) = self.group.forward(column.reshape(1, -1))
        return np.asarray(spectrum.real)

    def expectation(self, energies: FloatArray) -> FloatArray:
        """E[e | u] for every type u and a value e of each report."""
        silent = energies[self.starts[-1] :].sum()
        total = np.full(self.sizes, self.silence * silent)

        for family, part in self._tallies(energies):
            shares = family.shares / family.group.cells
            chances = family.values * shares[:, None]
            total += self._convolved(family, part, chances)

        return total.ravel()

    def _products(self, vectors: FloatArray) -> FloatArray:
        """sᵀz of every report's score with the rows z of `vectors`, one row each."""
        pieces = []
        tensors = vectors.reshape(-1, *self.sizes)

        for family in self.families:
            group = family.group
            others = tuple(1 + axis for axis in self._others(family))
            marginals = tensors.sum(axis=others)
            small = marginals.reshape(len(vectors), -1)
            waves = group.forward(np.ascontiguousarray(small))
            for pattern in np.conj(group.forward(family.values)):
                pieces.append(group.backward(waves * pattern))

        if self.spare:
            silent = vectors.sum(axis=1)
            pieces.append(silent[:, None])

        return np.concatenate(pieces, axis=1)

    def type_variances(self, gram: Gram) -> FloatArray:
        """All alike for the invariant part of the workload; one pair of transforms for a ramp."""
        known = decompose(gram, self.group)
        if known is None:
            return super().type_variances(gram)

        inverse = self.information.inverse
        weights = known.eigenvalues * self.group.counts
        weights[0] = 0.0
        unseen = weights[inverse == 0.0]
        if (unseen > 1e-12 * weights.max()).any():
            return np.full(self.size, np.inf)  # something asked is never reported

        constant = float(weights @ inverse) - weights.sum() / self.size
        result = np.full(self.size, constant)
        if known.ramp:
            a = ramp_vector(self.size)
            solved = self.information.solve(a)
            (products,) = self._products(solved[None])
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
            solved = self.information.solve(rows.T)
            squares = self._products(solved.T) ** 2
            energies = [self.expectation(each) @ histogram for each in squares]
            pieces.append(np.array(energies) - (rows**2) @ histogram)

        return np.concatenate(pieces)

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_o (q_oᵀx) s_o s_oᵀ, one family at a time on the cells of its marginal."""
        check_dense(self.size)
        silent = self.silence * histogram.sum()
        total = np.full((self.size, self.size), silent)
        tensor = histogram.reshape(self.sizes)

        for family in self.families:
            marginal = tensor.sum(axis=self._others(family))
            small = family_moment(family, marginal.ravel())
            cells = self._marginal_cells(family)
            total += small[np.ix_(cells, cells)]

        return total

    def _others(self, family: Family) -> tuple[int, ...]:
        """The attributes that a family's patterns are not over."""
        return tuple(a for a in range(len(self.sizes)) if a not in family.axes)

    def _marginal_cells(self, family: Family) -> IntArray:
        """The cell of a family's attributes that each cell is in."""
        through = Axes(sizes=self.sizes, keep=family.axes)
        return through.seen(np.arange(self.size))

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Σ_o Q[o,u] s_oᵀ S s_o, one family at a time on the cells of its marginal."""
        total = np.full(self.size, self.silence * quadratic.sum())

        for family in self.families:
            seen = self._marginal_cells(family)
            cells = family.group.cells
            half = np.zeros((cells, self.size))
            np.add.at(half, seen, quadratic)
            both = np.zeros((cells, cells))
            np.add.at(both, seen, half.T)
            total += family_energy(family, both)[seen]

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

    def moves(axis: int) -> bool:
        return bool((pattern != np.roll(pattern, 1, axis=axis)).any())

    return tuple(filter(moves, range(pattern.ndim)))
