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

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, NoisewrightError, TooLarge
from noisewright.estimate.agreeing_tables import Block, interaction
from noisewright.local.composed.table_strategy import ManyTables, drawn_tables
from noisewright.local.fixedpoint import WORD, check_epsilon, whole_weights
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import (
    ListedSubsets,
    RandomizedResponse,
    best_subset_size,
)
from noisewright.local.randomizer.routers import Axes
from noisewright.local.randomizer.specification import Nodes, Place
from noisewright.local.shares import faded_shares
from noisewright.local.storage import check_axes, check_sizes, check_weights
from noisewright.local.strategy import Arrays, IndexStrategy, Settings, check_dense
from noisewright.workload.linear.gram import Gram, MarginalGram
from noisewright.workload.linear.interactions import interactions, table_of

Oracle = RandomizedResponse | LocalHashing | ListedSubsets

_STEPS = 500
_LARGEST_TABLE = 4096
_LISTED_SETS = 2**12


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
class Union(ManyTables, IndexStrategy):
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
        return {
            n: table_oracle(n, self.epsilon)
            for n in {self.cells(t) for t in self.tables}
        }

    def oracle(self, index: int) -> Oracle:
        """The mechanism of one component."""
        return self._oracles[self.cells(self.tables[index])]

    def express(self, nodes: Nodes) -> int:
        seen = [
            nodes.view(
                self.oracle(i).express(nodes), Axes(sizes=self.sizes, keep=table)
            )
            for i, table in enumerate(self.tables)
        ]
        return nodes.draw(self.weights, seen)

    @cached_property
    def starts(self) -> IntArray:
        """First report of each component, and the number of reports at the end."""
        counts = [self.oracle(i).outputs for i in range(len(self.tables))]
        return np.cumsum([0, *counts])

    # --- analysis in the interaction basis ----------------------------------------------------

    @cached_property
    def _gains(self) -> FloatArray:
        """p_c a_c / n_c for every component."""
        each = [
            self.oracle(i).contrast / self.cells(t) for i, t in enumerate(self.tables)
        ]
        return np.asarray(np.array([w / WORD for w in self.weights]) * np.array(each))

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
        last = max(self._offsets, key=lambda block: self._offsets[block])
        total = np.zeros(self._offsets[last] + self.cells(last))
        total[0] = people

        for shape, members in self._groups.items():
            held = np.stack([self._estimate(index, tally) for index in members])
            tensors = held.reshape(-1, *shape)
            for axes in interactions(tuple(range(len(shape)))):
                blocks = [
                    tuple(self.tables[index][k] for k in axes) for index in members
                ]
                shares = self._gains[members] / [
                    self.knowledge[block] for block in blocks
                ]
                parts = (
                    interaction(tensors, axes).reshape(len(members), -1)
                    * shares[:, None]
                )
                firsts = np.array([self._offsets[block] for block in blocks])
                np.add.at(total, firsts[:, None] + np.arange(parts.shape[1]), parts)

        return total

    def _estimate(self, index: int, tally: IntArray) -> FloatArray:
        """One component's estimate of its table, up to a constant."""
        oracle = self.oracle(index)
        chance = self.weights[index] / WORD
        held = oracle.supporters(tally[self.starts[index] : self.starts[index + 1]])
        return held / (oracle.support.gap * chance)

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
        for index, table in enumerate(self.tables):
            oracle = self.oracle(index)
            share = self._gains[index] ** 2 * WORD / self.weights[index]
            for block in interactions(table):
                gained = share * oracle.spread * self.cells(table)
                spread[block] = spread.get(block, 0.0) + gained
                own[block] = own.get(block, 0.0) + share * (1 + oracle.own_spread)

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
        named = {
            axes: tuple(attributes[k] for k in axes) for axes in _projections(shape)
        }
        known = {
            a: _projections(shape)[a] for a, block in named.items() if block in own
        }
        seen = sum(known.values(), np.zeros((n, n)))
        result = -(seen * x) @ seen

        for axes, projection in known.items():
            block = named[axes]
            result += (
                people / n * spread[block] / self.knowledge[block] ** 2 * projection
            )
            # What components that share these attributes and no others of the table know.
            alone = sum(
                (-1) ** (len(other) - len(axes)) * own.get(named[other], 0.0)
                for other in named
                if set(other) >= set(axes)
            )
            part = np.zeros((n, n))

            for inner in interactions(axes):
                part += known[inner] / self.knowledge[named[inner]]

            result += alone * (part * x) @ part

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
    def restored(cls, place: Place, settings: Settings, arrays: Arrays) -> Union:
        sizes = check_sizes(settings["sizes"])
        tables, _, weights = drawn_tables(place, sizes)
        return cls(sizes, settings["epsilon"], tables, weights)


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

    position = {block: k for k, block in enumerate(blocks)}
    cost = np.array(
        [
            gram.eigenvalues[b] / gram.size * prod(sizes[i] - 1 for i in b)
            for b in blocks
        ]
    )
    cells = [prod(sizes[i] for i in table) for table in tables]
    oracles = {n: table_oracle(n, epsilon) for n in set(cells)}
    gains = np.array([oracles[n].contrast / n for n in cells])
    pairs = [
        (c, position[s]) for c, table in enumerate(tables) for s in interactions(table)
    ]
    owner, member = (np.array(side) for side in zip(*pairs, strict=True))
    p = faded_shares(
        len(tables),
        lambda p: np.bincount(member, (p * gains)[owner], len(blocks)).astype(
            np.float64
        ),
        lambda known: (
            gains * np.bincount(owner, (cost / known**2)[member], len(tables))
        ),
        _STEPS,
    )
    weights = whole_weights(np.where(p > 1e-9 * p.max(), p, 0.0))
    chosen = [(t, w) for t, w in zip(tables, weights, strict=True) if w > 0]

    return Union(
        sizes, epsilon, tuple(t for t, _ in chosen), tuple(w for _, w in chosen)
    )
