"""Pure privacy for tables over many attributes: whole tables with optimised weights.

Table S is measured with weight θ_S, so the L1 sensitivity is Σθ_S and an interaction T has variance
1/Σ_{S⊇T} θ_S²/Π_{i∈S∖T} n_i (`Overlap`). The weights minimise the total variance of the
answers asked, or a mean of higher powers. Besides the tables asked, larger ones that cover many of
them at once are tried: fewer tables share the budget, and each answer adds up a few more cells. The
full domain, where it is small, is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb, prod, sqrt

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.axes import Table
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.certified import as_product
from noisewright.central.gaussian.product_designs import (
    Family,
    compile_family,
)
from noisewright.central.gaussian.residual import interaction_strategy
from noisewright.central.laplace.weighted_products import L2_BOUND
from noisewright.central.problem import Candidate
from noisewright.errors import TooLarge
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.structure import Term, as_counts

_WHOLE_DOMAIN = 2**16  # cells up to which every set of attributes is a candidate
_MOST_ATTRIBUTES = 12  # of a candidate: it has 2^12 interactions
# of the largest weight, left out below; half or double changes nothing at 2^8 and 4^4 cells
_NEGLIGIBLE = 1e-3
# of larger tables that cover those asked: each a start of the descent
_COVER_CELLS = (2**4, 2**6, 2**8, 2**10, 2**12)
# needed interactions × attributes beyond which covers are not searched
_COVER_WORK = 200_000
# grid steps to one: noise of scale one or more is then as good as continuous
_MULTIPLIER = 1024
_NORMS = (8.0, 32.0)  # of means on the way to a large one
_ORDERS = (
    0,
    1,
    2,
)  # numbers of attributes up to which tables are raised to start from
_RAISED = (0.03, 0.3)  # weights that they are raised to, of the largest
_LARGEST_NORM = 128.0  # stands for the maximum
_ROUNDED = 1 - 1e-9  # far above what sums of many roots lose


def laplace_tables(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float = 2,
) -> Candidate:
    """Weighted whole tables for product queries; the best of several starts."""
    products = as_counts(terms) or [as_product(term, sizes) for term in terms]
    family = compile_family(sizes, products)
    covers = [covering_tables(sizes, family.blocks, cells) for cells in _COVER_CELLS]
    tables = list(
        dict.fromkeys([*_candidates(family), *(t for c in covers for t in c)])
    )
    starts = _starts(family, tables)
    starts += [
        np.array([1.0 if t in set(c) else 1e-4 for t in tables]) for c in covers if c
    ]
    weights = _best_weights(TablesObjective(family, tables), starts, norm)
    strategy = _as_strategy(sizes, tables, _pruned(weights, tables, family.blocks))

    return Candidate(
        strategy,
        unit_error(strategy, terms, norm, 1),
        interaction_strategy(terms, sizes, norm).bound,
        L2_BOUND,
        f"{len(strategy.tables)} of {len(tables)} candidate tables measured",
    )


def least_of_tables(terms: Sequence[Term], sizes: tuple[int, ...]) -> float:
    """At most the root mean square error of any weights on any whole tables, per unit of noise.

    Let tables S have weights θ_S that add up to one, and let c_T be what the interactions T of one
    order add to the sum of squares, each c_T/P_T with P_T = Σ_S θ_S²/n_S∖T. As P_T is at most the
    square of ℓ_T = Σ_S θ_S/√n_S∖T, Hölder's inequality gives Σ c_T/P_T >= (Σ c_T^⅓)³/(Σ ℓ_T)²; and
    Σ_T ℓ_T is at most what the best single table of any number of attributes has.
    """
    family = compile_family(
        sizes,
        as_counts(terms) or [as_product(term, sizes) for term in terms],
    )
    costs = family.block_variances(TablesObjective(family, ()).added)
    orders = np.array([len(block) for block in family.blocks])
    roots = np.sqrt(np.sort([size for size in sizes if size > 1]))
    best = 0.0

    for order in range(1, int(orders.max(initial=0)) + 1):
        cube_roots = np.cbrt(costs[orders == order])
        best = max(
            best,
            float(cube_roots.sum()) ** 3
            / _most_seen(roots, order, len(cube_roots)) ** 2,
        )

    return sqrt(best / family.queries) * _ROUNDED


def _most_seen(
    roots: FloatArray,
    order: int,
    count: int,
) -> float:
    """The largest Σ 1/√n_S∖T over T of one order within a table S, of `count` that are needed."""
    cells = 1.0
    most = 0.0
    for more in range(len(roots) - order + 1):  # attributes of S beside those of one T
        most = max(most, min(comb(order + more, order), count) / cells)
        if more < len(roots):
            cells *= float(roots[more])

    return most


def _best_weights(
    objective: TablesObjective,
    starts: Sequence[FloatArray],
    norm: float,
) -> FloatArray:
    """The best over all starts for the total variance, moved on from small means to large ones.

    Other means want small tables that the total variance hardly measures, so those of few
    attributes are raised too: on a logarithmic scale a weight near zero never comes back.
    """
    results = [objective.minimise(start) for start in starts]
    _, best = min(results, key=lambda pair: pair[0])
    if norm == 2:
        return best

    orders = np.array([len(table) for table in objective.tables])
    raised = [
        np.where(orders <= most, share, 0.0) for most in _ORDERS for share in _RAISED
    ]
    bases = (best / best.max(), starts[0])
    trials = [
        best,
        *(np.maximum(base, small) for base in bases for small in raised),
    ]

    for p in (
        *(p for p in _NORMS if p < norm),
        min(norm, _LARGEST_NORM),
    ):
        moved = replace(objective, q=p / 2)
        results = [moved.minimise(start) for start in trials]
        trials = [weights for _, weights in results]

    return min(results, key=lambda pair: pair[0])[1]


def _as_strategy(
    sizes: tuple[int, ...],
    tables: Sequence[Table],
    weights: FloatArray,
) -> BlockStrategy:
    """Every table of positive weight, cell by cell, on a fine grid; L1 sensitivity one."""
    blocks = tuple(
        Block(
            table,
            tuple(np.eye(sizes[i], dtype=np.int64) for i in table),
            _MULTIPLIER * float(weights.sum() / weight),
            _MULTIPLIER,
        )
        for table, weight in zip(tables, weights, strict=True)
        if weight > 0
    )
    return BlockStrategy(sizes, blocks)


def _candidates(family: Family) -> list[Table]:
    """Tables asked, their subsets, and the whole domain where it is small."""
    tables = dict.fromkeys(term.attributes for term in family.terms)
    if prod(family.sizes) <= _WHOLE_DOMAIN and len(family.sizes) <= _MOST_ATTRIBUTES:
        everything = tuple(range(len(family.sizes)))
        tables.update(dict.fromkeys(subsets(everything)))

    if any(len(table) > _MOST_ATTRIBUTES for table in tables):
        raise TooLarge(
            f"tables of more than {_MOST_ATTRIBUTES} attributes are too large for this"
        )

    return list(tables)


def covering_tables(
    sizes: Sequence[int],
    needed: Sequence[Table],
    cells: int,
) -> list[Table]:
    """Tables of at most so many cells that hold every needed one, found greedily; or none."""
    if len(needed) * len(sizes) > _COVER_WORK:
        return []

    largest = sorted((t for t in needed if t), key=lambda t: (-len(t), t))
    if any(prod(sizes[i] for i in t) > cells for t in largest):
        return []

    open_ = [frozenset(t) for t in largest]
    tables: list[Table] = []
    while open_:
        table = set(open_[0])
        while (best := _best_addition(table, open_, sizes, cells)) is not None:
            table.add(best)

        tables.append(tuple(sorted(table)))
        open_ = [t for t in open_ if not t <= table]
        if len(tables) > len(needed):
            return []

    return [t for t in tables if len(t) <= _MOST_ATTRIBUTES]


def _best_addition(
    table: set[int],
    open_: Sequence[frozenset[int]],
    sizes: Sequence[int],
    cells: int,
) -> int | None:
    """The attribute that completes most of the tables still open, and touches most of them."""
    room = cells // prod(sizes[i] for i in table)
    if len(table) >= _MOST_ATTRIBUTES:
        return None

    scores: dict[int, tuple[int, int]] = {}
    for other in open_:
        missing = other - table
        for i in missing:
            if sizes[i] <= room:
                full, touched = scores.get(i, (0, 0))
                near = len(missing) == 1
                scores[i] = (full + near, touched + len(other & table))

    return max(scores, key=lambda i: (scores[i], -i), default=None)


def _starts(family: Family, tables: Sequence[Table]) -> list[FloatArray]:
    """The cube-root rule for separate tables, and every candidate that alone would do."""
    importance: dict[Table, float] = {}
    for term in family.terms:
        importance[term.attributes] = (
            importance.get(term.attributes, 0.0) + term.weight**2 * term.queries
        )

    separate = np.array([importance.get(table, 0.0) for table in tables]) ** (1 / 3)
    starts = [np.maximum(separate / separate.max(), 1e-4)]
    attributes = {i for table in importance for i in table}

    for number, table in enumerate(tables):
        if attributes <= set(table):
            alone = np.full(len(tables), 1e-4)
            alone[number] = 1.0
            starts.append(alone)

    return starts


@dataclass(frozen=True, eq=False)
class TablesObjective:
    """log of (mean of variances to the q, its q-th root, × squared L1 sensitivity) by log weights.

    Queries of one term count with their mean variance: exact for tables of counts.
    """

    family: Family
    tables: Sequence[Table]
    q: float = 1.0

    @cached_property
    def _seen(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Interaction, table and cells summed, for every interaction that a table sees."""
        numbers = {part: k for k, part in enumerate(self.family.blocks)}
        sizes = self.family.sizes
        triples = [
            (
                numbers[part],
                number,
                prod(sizes[i] for i in table if i not in part),
            )
            for number, table in enumerate(self.tables)
            for part in subsets(table)
            if part in numbers
        ]
        rows, columns, cells = zip(*triples, strict=True)

        return (
            np.array(rows),
            np.array(columns),
            np.array(cells, dtype=np.float64),
        )

    @cached_property
    def added(self) -> FloatArray:
        """What unit variance of an interaction adds to a term's queries: uniform references."""
        kinds = self.family.kinds
        totals = np.array([k.gram.sum() / k.gram.shape[0] ** 2 for k in kinds])
        contrasts = np.array(
            [np.trace(k.gram) - k.gram.mean() * len(k.gram) for k in kinds]
        )
        return self.family.contributions(totals, contrasts)

    @cached_property
    def _queries(self) -> FloatArray:
        return np.array(
            [term.queries for term in self.family.terms],
            dtype=np.float64,
        )

    def _mean(self, variances: FloatArray) -> tuple[float, FloatArray]:
        """The mean over queries, and its derivative by the variance of every interaction."""
        family = self.family
        added = self.added
        sums = np.bincount(family.pair_term, added * variances[family.pair_block])
        means = sums / self._queries
        shares = means / means.max()
        queries = self._queries / self._queries.sum()
        mean = float((queries @ shares**self.q) ** (1 / self.q))
        weights = (shares / mean) ** (self.q - 1) / self._queries.sum()

        return mean * float(means.max()), family.block_variances(
            weights[family.pair_term] * added
        )

    def __call__(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        weights = np.exp(logs)
        rows, columns, cells = self._seen
        precisions = np.bincount(rows, weights[columns] ** 2 / cells)
        mean, needed = self._mean(1 / precisions)
        slopes = -(needed / precisions**2)[rows] * 2 / cells
        by_weight = np.bincount(
            columns, slopes * weights[columns], minlength=len(weights)
        )
        value = np.log(mean) + 2 * np.log(weights.sum())
        gradient = weights * (by_weight / mean + 2 / weights.sum())

        return float(value), gradient

    def minimise(self, start: FloatArray) -> tuple[float, FloatArray]:
        """L-BFGS from one start."""
        from scipy.optimize import minimize

        bounds = [(-12.0, 3.0)] * len(start)
        logs = np.log(np.maximum(start, np.exp(-12.0)))
        result = minimize(
            self,
            logs,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
        )

        return float(result.fun), np.exp(result.x)


def _pruned(
    weights: FloatArray,
    tables: Sequence[Table],
    needed: Sequence[Table],
) -> FloatArray:
    """Weights without tables that hardly count, unless an interaction would go unmeasured."""
    pruned = np.where(weights >= _NEGLIGIBLE * weights.max(), weights, 0.0)
    interactions = set(needed)
    covered = {
        part
        for table, w in zip(tables, pruned, strict=True)
        if w
        for part in subsets(table)
    }

    for number, table in enumerate(tables):
        if not pruned[number] and any(
            p in interactions and p not in covered for p in subsets(table)
        ):
            pruned[number] = weights[number]
            covered.update(subsets(table))

    return pruned
