"""Union: a histogram mechanism on the table of some attributes, which table drawn at random.

For marginals over domains too large for one strategy. In the interaction (residual) basis every
component is a multiple of the identity on each block T of its own subsets, so the information on T
is κ_T = Σ_{c ⊇ T} p_c a_c / n_c: estimates of one interaction from several components are averaged
with weights p_c a_c / n_c, and the sampling weights p solve a small convex problem. All cells are
alike, so the worst case is the average case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, prod
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, NoisewrightError, TooLarge
from noisewright.estimate.agreeing_tables import Block, interaction
from noisewright.local.composed.table_strategy import DrawnTables, shown_table
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
from noisewright.workload.linear.gram import Gram, MarginalGram
from noisewright.workload.linear.interactions import interactions, table_of

Oracle = RandomizedResponse | LocalHashing | ListedSubsets

_STEPS = 500
"""Multiplicative steps for the sampling weights, each one pass over tables and interactions."""

_LARGEST_TABLE = 4096
"""Cells of a table: the size up to which matrices over pairs of its cells are formed elsewhere."""

_LISTED_SETS = 2**12
"""Sets of a table's cells that may be listed: each is a report, and a row of its pattern."""


def table_oracle(cells: int, epsilon: float) -> Oracle:
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

        for table in self.tables:
            check_axes("tables", table, len(sizes))
            if min(sizes[i] for i in table) < 2 or self.cells(table) > _LARGEST_TABLE:
                rule = f"must have two values an attribute, and at most {_LARGEST_TABLE} cells"
                raise InvalidParameter("tables", table, rule)

    @cached_property
    def _oracles(self) -> dict[int, Oracle]:
        sizes = {self.cells(table) for table in self.tables}
        return {cells: table_oracle(cells, self.epsilon) for cells in sizes}

    @cached_property
    def components(self) -> tuple[Oracle, ...]:  # type: ignore[override]
        """The mechanism of every table."""
        return tuple(self._oracles[self.cells(table)] for table in self.tables)

    # --- analysis in the interaction basis ----------------------------------------------------

    @cached_property
    def _gains(self) -> FloatArray:
        """p_c a_c / n_c for every component."""
        contrasts = np.array([oracle.contrast for oracle in self.components])
        cells = np.array([self.cells(table) for table in self.tables])
        return np.asarray(self.chances * contrasts / cells)

    @cached_property
    def knowledge(self) -> dict[Block, float]:
        """κ_T for every interaction within reach."""
        result: dict[Block, float] = {(): 1.0}
        for table, gain in zip(self.tables, self._gains, strict=True):
            for block in interactions(table):
                result[block] = result.get(block, 0.0) + float(gain)

        return result

    @cached_property
    def _offsets(self) -> dict[Block, int]:
        offsets = {}
        total = 0

        for block in sorted(self.knowledge, key=lambda b: (len(b), b)):
            offsets[block] = total
            total += self.cells(block)

        return offsets

    def reaches(self, attributes: Block) -> bool:
        """Whether some component holds each interaction of the table."""
        return tuple(sorted(attributes)) in self.knowledge

    @cached_property
    def _groups(self) -> dict[tuple[int, ...], list[int]]:
        """Components whose tables have the same shape, to be handled together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for index, table in enumerate(self.tables):
            groups.setdefault(tuple(self.sizes[i] for i in table), []).append(index)
        return groups

    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """Weighted means over components of every interaction's estimate."""
        last, first = max(self._offsets.items(), key=lambda item: item[1])
        total = np.zeros(first + self.cells(last))
        total[0] = people

        estimates = self._estimates(tally)

        for shape, members in self._groups.items():
            tables = np.stack([estimates[index] for index in members])
            tensors = tables.reshape(-1, *shape)
            for axes in interactions(tuple(range(len(shape)))):
                blocks = [tuple(self.tables[i][k] for k in axes) for i in members]
                known = np.array([self.knowledge[block] for block in blocks])
                shares = self._gains[members] / known
                parts = interaction(tensors, axes).reshape(len(members), -1)

                firsts = np.array([self._offsets[block] for block in blocks])
                places = firsts[:, None] + np.arange(parts.shape[1])
                np.add.at(total, places, parts * shares[:, None])

        return total

    def _estimates(self, tally: IntArray) -> list[FloatArray]:
        """The components' estimates of their tables, each up to a constant."""
        parts = zip(self.components, self.chances, self.tallies(tally), strict=True)
        return [
            oracle.supporters(part) / (oracle.support.gap * chance)
            for oracle, chance, part in parts
        ]

    def table(self, estimates: FloatArray, attributes: Block) -> FloatArray:
        """Estimated counts of one marginal table: its estimated interactions, spread evenly."""
        parts: dict[Block, FloatArray] = {(): np.asarray(estimates[0])}
        for block in interactions(attributes):
            first = self._offsets[block]
            part = estimates[first : first + self.cells(block)]
            parts[block] = part.reshape([self.sizes[i] for i in block])

        return table_of(self.sizes, attributes, parts)

    @cached_property
    def _noise(self) -> tuple[dict[Block, float], dict[Block, float]]:
        """Σ_{c ⊇ T} p_c (a_c/n_c)² times g_c n_c, and times 1 + h_c, for every interaction T."""
        spread: dict[Block, float] = {}
        own: dict[Block, float] = {}
        shares = self._gains**2 / self.chances

        for oracle, table, share in zip(
            self.components, self.tables, shares, strict=True
        ):
            of_all = float(share * oracle.spread * self.cells(table))
            of_own = float(share * (1 + oracle.own_spread))
            for block in interactions(table):
                spread[block] = spread.get(block, 0.0) + of_all
                own[block] = own.get(block, 0.0) + of_own

        return spread, own

    def table_covariance(
        self, attributes: Block, people: float, counts: FloatArray | None = None
    ) -> FloatArray:
        """Covariance of one table, at its true counts or at even ones: they alone decide it.

        A component that shares the attributes V with the table adds K_V (g + (1+h) Diag(x)) K_V,
        K_V = Σ_{T⊆V} P_T/κ_T, for its share of people; the true answers' spread is taken off.
        """
        shape = tuple(self.sizes[i] for i in attributes)
        n = prod(shape)
        x = np.full(n, people / n) if counts is None else counts
        spread, own = self._noise
        projections = _projections(shape)
        named = {axes: tuple(attributes[k] for k in axes) for axes in projections}
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
                    alone += (-1) ** (len(other) - len(axes)) * own.get(name, 0.0)

            gain = np.zeros((n, n))
            for inner in interactions(axes):
                gain += known[inner] / self.knowledge[named[inner]]

            result += alone * (gain * x) @ gain

        return np.asarray(result)

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """Covariance of what is known of the whole histogram, on small domains."""
        check_dense(self.size)
        everything = tuple(range(len(self.sizes)))
        return self.table_covariance(everything, float(histogram.sum()), histogram)

    def worst_variance(self, gram: Gram) -> float:
        """Σ_S w_S (Σ_{T⊆S} dim_T/κ_T / n_S − 1): all types are alike."""
        if not isinstance(gram, MarginalGram):
            raise TooLarge("union answers tables of counts; ask for marginals")

        total = -float(sum(gram.weights.values()))
        for block, eigenvalue in gram.eigenvalues.items():
            dimension = prod(self.sizes[i] - 1 for i in block)
            total += eigenvalue / gram.size * dimension / self.knowledge[block]

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


@lru_cache(maxsize=64)
def _projections(shape: tuple[int, ...]) -> dict[Block, FloatArray]:
    """The projection on every interaction of a table."""
    result = {}
    for axes in interactions(tuple(range(len(shape)))):
        projection = np.ones((1, 1))
        for k, n in enumerate(shape):
            mean = np.full((n, n), 1.0 / n)
            projection = np.kron(projection, np.eye(n) - mean if k in axes else mean)
        result[axes] = projection

    return result


def union(gram: Gram, epsilon: float) -> Union:
    """All tables asked and their subsets as candidates, with the best sampling weights.

    Minimises Σ_T D_T/κ_T, κ linear in the weights; candidates that do not help fade out.
    """
    check_epsilon(epsilon)
    if not isinstance(gram, MarginalGram):
        raise NoisewrightError("is for marginal tables of counts; try hierarchical")

    sizes = gram.sizes
    blocks = [b for b in gram.closure if b and all(sizes[i] > 1 for i in b)]
    tables = [b for b in blocks if prod(sizes[i] for i in b) <= _LARGEST_TABLE]
    if len(tables) < len(blocks):
        raise TooLarge(
            f"a table asked has more than {_LARGEST_TABLE} cells; ask smaller tables"
        )

    cells = [prod(sizes[i] for i in table) for table in tables]
    oracles = {n: table_oracle(n, epsilon) for n in set(cells)}
    gains = np.array([oracles[n].contrast / n for n in cells])
    shares = _sampling_shares(gram, tables, gains)
    weights = whole_weights(np.where(shares > 1e-9 * shares.max(), shares, 0.0))
    chosen = [index for index, weight in enumerate(weights) if weight > 0]

    return Union(
        sizes,
        epsilon,
        tuple(tables[index] for index in chosen),
        tuple(weights[index] for index in chosen),
    )


def _sampling_shares(
    gram: MarginalGram, tables: list[Block], gains: FloatArray
) -> FloatArray:
    """The shares p that minimise Σ_T D_T/κ_T, D_T being the cost of interaction T."""
    eigenvalues = np.array([gram.eigenvalues[table] for table in tables])
    dimensions = np.array([prod(gram.sizes[i] - 1 for i in table) for table in tables])
    cost = eigenvalues / gram.size * dimensions

    # Which interactions (members) each table (owner) tells of.
    position = {block: place for place, block in enumerate(tables)}
    pairs = [(c, position[s]) for c, t in enumerate(tables) for s in interactions(t)]
    owner, member = np.array(pairs).T

    def knowledge(shares: FloatArray) -> FloatArray:
        weights = (shares * gains)[owner]
        return np.asarray(np.bincount(member, weights, len(tables)), np.float64)

    def gain(known: FloatArray) -> FloatArray:
        slopes = (cost / known**2)[member]
        return gains * np.bincount(owner, slopes, len(tables))

    return faded_shares(len(tables), knowledge, gain, _STEPS)
