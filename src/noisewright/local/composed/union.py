"""Union: a histogram mechanism on the table of some attributes, which table drawn at random.

For marginals over domains too large for one strategy. In the interaction (residual) basis every
component is a multiple of the identity on each block T of its own subsets, so the information on T
is κ_T = Σ_{c ⊇ T} p_c a_c / n_c: estimates of one interaction from several components are averaged
with weights p_c a_c / n_c, and the sampling weights p solve a small convex problem. All cells are
alike, so the worst case is the average case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import comb, prod
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import NoisewrightError, TooLarge, require
from noisewright.estimate.agreeing_tables import Block, interaction
from noisewright.local.composed.table_strategy import (
    DrawnTables,
    counts_or_even,
    shown_table,
)
from noisewright.local.fixedpoint import check_epsilon, whole_weights
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import (
    ListedSubsets,
    RandomizedResponse,
    best_subset_size,
)
from noisewright.local.shares import faded_shares
from noisewright.local.storage import Stored, check_axes, check_sizes, check_weights
from noisewright.local.strategy import Arrays, Settings, check_dense
from noisewright.workload.linear.gram import Gram
from noisewright.workload.linear.interactions import interactions, table_of
from noisewright.workload.linear.marginal_gram import MarginalGram

Oracle = RandomizedResponse | LocalHashing | ListedSubsets

_STEPS = 500
"""Multiplicative steps for the sampling weights, each one pass over tables and interactions."""

_LARGEST_TABLE = 4096
"""Cells of a table: the size up to which matrices over pairs of its cells are formed elsewhere."""

_LISTED_SETS = 2**12
"""Sets of a table's cells that may be listed: each is a report, and a row of its pattern."""


def _table_oracle(cells: int, epsilon: float) -> Oracle:
    """The best histogram mechanism for a table among those that treat all its cells alike."""
    oracles: list[Oracle] = [
        RandomizedResponse(cells, epsilon),
        LocalHashing(cells, epsilon, 2),
    ]
    if comb(cells, best_subset_size(cells, epsilon)) <= _LISTED_SETS:
        oracles.append(ListedSubsets(cells, epsilon))

    # Near ties go to the simplest.
    return max(oracles, key=lambda oracle: round(oracle.contrast, 12))


@dataclass(frozen=True, eq=False)
class Union(DrawnTables):
    """Draw one of `tables`, and report the person's cell of it by a histogram mechanism."""

    sizes: tuple[int, ...]
    epsilon: float
    tables: tuple[Block, ...]
    weights: tuple[int, ...]
    """Chances of the tables, out of 2^64."""

    kind = "union"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_weights(self.weights, len(self.tables))
        sizes = check_sizes(self.sizes)

        rule = f"must have two values an attribute, and at most {_LARGEST_TABLE} cells"

        for table in self.tables:
            check_axes("tables", table, len(sizes))
            shape = _chosen(sizes, table)
            fits = min(shape) >= 2 and prod(shape) <= _LARGEST_TABLE
            require(fits, "tables", table, rule)

    @cached_property
    def components(self) -> tuple[Oracle, ...]:  # type: ignore[override]
        """The mechanism of every table; tables of as many cells share one."""
        cells = [self.cells(table) for table in self.tables]
        oracles = {count: _table_oracle(count, self.epsilon) for count in set(cells)}
        return tuple(oracles[count] for count in cells)

    # --- analysis in the interaction basis ----------------------------------------------------

    @cached_property
    def _gains(self) -> FloatArray:
        """p_c a_c / n_c for every component."""
        contrasts = np.array([oracle.contrast for oracle in self.components])
        cells = np.array([oracle.size for oracle in self.components])
        return np.asarray(self.chances * contrasts / cells)

    def _summed(self, of_tables: Iterable[float]) -> dict[Block, float]:
        """Σ_{c ⊇ T} of something that every table c has, for every interaction T within reach."""
        result: dict[Block, float] = {}

        for table, value in zip(self.tables, of_tables, strict=True):
            for block in interactions(table):
                result[block] = result.get(block, 0.0) + value

        return result

    @cached_property
    def knowledge(self) -> dict[Block, float]:
        """κ_T for every interaction within reach."""
        gains = self._gains.tolist()
        return {(): 1.0, **self._summed(gains)}

    @cached_property
    def _offsets(self) -> dict[Block, int]:
        blocks = sorted(self.knowledge, key=lambda block: (len(block), block))
        starts = accumulate(map(self.cells, blocks), initial=0)
        return dict(zip(blocks, starts, strict=False))

    def reaches(self, attributes: Block) -> bool:
        """Whether some component holds each interaction of the table."""
        return tuple(sorted(attributes)) in self.knowledge

    @cached_property
    def _groups(self) -> dict[tuple[int, ...], list[int]]:
        """Components whose tables have the same shape, to be handled together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for index, table in enumerate(self.tables):
            shape = tuple(self.sizes[i] for i in table)
            groups.setdefault(shape, []).append(index)

        return groups

    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """Weighted means over components of every interaction's estimate."""
        cells = sum(map(self.cells, self.knowledge))
        total = np.zeros(cells)
        total[0] = people

        estimates = self._estimates(tally)

        for shape, members in self._groups.items():
            tables = [estimates[index].reshape(shape) for index in members]
            tensors = np.stack(tables)

            for axes in interactions(tuple(range(len(shape)))):
                blocks = [_chosen(self.tables[index], axes) for index in members]
                known = np.array([self.knowledge[block] for block in blocks])
                shares = self._gains[members] / known
                parts = interaction(tensors, axes).reshape(len(members), -1)

                firsts = np.array([self._offsets[block] for block in blocks])
                within = np.arange(parts.shape[1])
                places = firsts[:, None] + within
                np.add.at(total, places, parts * shares[:, None])

        return total

    def _estimates(self, tally: IntArray) -> list[FloatArray]:
        """The components' estimates of their tables, each up to a constant."""
        parts = zip(self.components, self.chances, self.tallies(tally), strict=True)
        estimates = []

        for oracle, chance, part in parts:
            slope = oracle.support.gap * chance
            estimates.append(oracle.supporters(part) / slope)

        return estimates

    def table(self, estimates: FloatArray, attributes: Block) -> FloatArray:
        """Estimated counts of one marginal table: its estimated interactions, spread evenly."""
        parts: dict[Block, FloatArray] = {(): np.asarray(estimates[0])}

        for block in interactions(attributes):
            first = self._offsets[block]
            part = estimates[first : first + self.cells(block)]
            parts[block] = part.reshape(_chosen(self.sizes, block))

        return table_of(self.sizes, attributes, parts)

    @cached_property
    def _noise(self) -> tuple[dict[Block, float], dict[Block, float]]:
        """Σ_{c ⊇ T} p_c (a_c/n_c)² times g_c n_c, and times 1 + h_c, for every interaction T."""
        shares = self._gains**2 / self.chances
        spread = []
        own = []

        for share, oracle in zip(shares.tolist(), self.components, strict=True):
            spread.append(share * oracle.spread * oracle.size)
            own.append(share * (1 + oracle.own_spread))

        return self._summed(spread), self._summed(own)

    def table_covariance(
        self, attributes: Block, people: float, counts: FloatArray | None = None
    ) -> FloatArray:
        """Covariance of one table, at its true counts or at even ones: they alone decide it.

        A component that shares the attributes V with the table adds K_V (g + (1+h) Diag(x)) K_V,
        K_V = Σ_{T⊆V} P_T/κ_T, for its share of people; the true answers' spread is taken off.
        """
        shape = _chosen(self.sizes, attributes)
        n = prod(shape)
        x = counts_or_even(counts, n, people)
        spread, own = self._noise
        projections = _projections(shape)
        named = {axes: _chosen(attributes, axes) for axes in projections}
        known = {axes: projections[axes] for axes in named if named[axes] in own}

        seen = sum(known.values(), np.zeros((n, n)))
        result = -(seen * x) @ seen

        for axes, projection in known.items():
            block = named[axes]
            noise = spread[block] / self.knowledge[block] ** 2
            result += people / n * noise * projection

            # What components that share these attributes and no others of the table know.
            alone = 0.0
            for other, name in named.items():
                if set(other) >= set(axes):
                    sign = (-1) ** (len(other) - len(axes))
                    alone += sign * own.get(name, 0.0)

            gain = np.zeros((n, n))
            for inner in interactions(axes):
                gain += known[inner] / self.knowledge[named[inner]]

            result += alone * (gain * x) @ gain

        return np.asarray(result)

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """Covariance of what is known of the whole histogram, on small domains."""
        check_dense(self.size)
        everything = tuple(range(len(self.sizes)))
        people = float(histogram.sum())
        return self.table_covariance(everything, people, histogram)

    def worst_variance(self, gram: Gram) -> float:
        """Σ_S w_S (Σ_{T⊆S} dim_T/κ_T / n_S − 1): all types are alike."""
        if not isinstance(gram, MarginalGram):
            raise TooLarge("union answers tables of counts; ask for marginals")

        total = -float(sum(gram.weights.values()))
        for block in gram.eigenvalues:
            total += _cost(gram, block) / self.knowledge[block]

        return total

    def average_variance(self, gram: Gram) -> float:
        """All types are alike."""
        return self.worst_variance(gram)

    def type_variances(self, gram: Gram) -> FloatArray:
        """All types are alike."""
        if self.size > 2**24:
            raise TooLarge(
                f"{self.size:.3g} types are too many to be listed; they are all alike"
            )
        return np.full(self.size, self.worst_variance(gram))

    def beside(self) -> tuple[Settings, Arrays]:
        return {"sizes": list(self.sizes)}, {}

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        sizes = stored.sizes
        weights, shown = stored.drawn()
        tables = tuple(shown_table(through, len(sizes)) for through, _ in shown)
        return cls(sizes, stored.epsilon, tables, weights)


def _chosen(entries: tuple[int, ...], places: Block) -> tuple[int, ...]:
    """Some entries, by their places."""
    return tuple(entries[place] for place in places)


def _cost(gram: MarginalGram, block: Block) -> float:
    """D_T: what an unknown interaction costs."""
    sizes = _chosen(gram.sizes, block)
    dimension = prod(size - 1 for size in sizes)
    return gram.eigenvalues[block] / gram.size * dimension


@lru_cache(maxsize=64)
def _projections(shape: tuple[int, ...]) -> dict[Block, FloatArray]:
    """The projection on every interaction of a table."""
    result = {}

    for axes in interactions(tuple(range(len(shape)))):
        projection = np.ones((1, 1))
        for axis, size in enumerate(shape):
            mean = np.full((size, size), 1.0 / size)
            factor = np.eye(size) - mean if axis in axes else mean
            projection = np.kron(projection, factor)
        result[axes] = projection

    return result


def union(gram: Gram, epsilon: float) -> Union:
    """All tables asked and their subsets as candidates, with the best sampling weights.

    Minimises Σ_T D_T/κ_T, κ linear in the weights; candidates that do not help fade out.
    """
    check_epsilon(epsilon)
    if not isinstance(gram, MarginalGram):
        raise NoisewrightError("is for marginal tables of counts; try hierarchical")

    shapes = {block: _chosen(gram.sizes, block) for block in gram.closure}
    tables = [block for block, shape in shapes.items() if shape and min(shape) > 1]
    cells = [prod(shapes[table]) for table in tables]
    if max(cells, default=0) > _LARGEST_TABLE:
        raise TooLarge(
            f"a table asked has more than {_LARGEST_TABLE} cells; ask smaller tables"
        )

    oracles = {count: _table_oracle(count, epsilon) for count in set(cells)}
    gains = np.array([oracles[count].contrast / count for count in cells])
    shares = _sampling_shares(gram, tables, gains)

    helping = shares > 1e-9 * shares.max()
    weights = whole_weights(np.where(helping, shares, 0.0))
    drawn = zip(tables, weights, strict=True)
    kept = [(table, weight) for table, weight in drawn if weight > 0]

    return Union(gram.sizes, epsilon, *zip(*kept, strict=True))


def _sampling_shares(
    gram: MarginalGram, tables: list[Block], gains: FloatArray
) -> FloatArray:
    """The shares p that minimise Σ_T D_T/κ_T, D_T being the cost of interaction T."""
    cost = np.array([_cost(gram, table) for table in tables])

    # Which interactions (members) each table (owner) tells of.
    place = {block: number for number, block in enumerate(tables)}
    told = [[place[block] for block in interactions(table)] for table in tables]
    counts = list(map(len, told))
    owner = np.repeat(np.arange(len(tables)), counts)
    member = np.concatenate(told)

    def knowledge(shares: FloatArray) -> FloatArray:
        weights = (shares * gains)[owner]
        known = np.bincount(member, weights, len(tables))
        return np.asarray(known, np.float64)

    def gain(known: FloatArray) -> FloatArray:
        slopes = (cost / known**2)[member]
        return gains * np.bincount(owner, slopes, len(tables))

    return faded_shares(len(tables), knowledge, gain, _STEPS)
