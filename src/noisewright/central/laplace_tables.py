"""Pure privacy for tables over many attributes: whole tables with optimised weights.

Table S is measured with weight θ_S, so the L1 sensitivity is Σθ_S and an interaction T has variance
1/Σ_{S⊇T} θ_S²/Π_{i∈S∖T} n_i (see `overlap`). The weights minimise the total variance of the
answers asked. Besides the tables asked, larger ones that cover many of them at once are tried:
fewer tables share the budget, and each answer adds up a few more cells. The full domain, where it
is small, is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from noisewright.central.block import Block
from noisewright.central.families import Family, compile_family
from noisewright.central.gaussian import Planned
from noisewright.central.laplace import L2_BOUND
from noisewright.central.overlap import Table, subsets
from noisewright.central.residual import as_product, interaction_strategy
from noisewright.central.strategy import BlockStrategy
from noisewright.central.variance import unit_error
from noisewright.errors import TooLarge
from noisewright.workload.base import FloatArray
from noisewright.workload.terms import Term

_WHOLE_DOMAIN = 2**16
_MOST_ATTRIBUTES = 12
_NEGLIGIBLE = 1e-3
_COVER_CELLS = (2**4, 2**6, 2**8, 2**10, 2**12)
_COVER_WORK = 200_000  # needed interactions × attributes beyond which covers are not searched
_MULTIPLIER = 1024


def laplace_tables(terms: Sequence[Term], sizes: tuple[int, ...], norm: float = 2) -> Planned:
    """Weighted whole tables for product queries; the best of several starts."""
    family = compile_family(sizes, [as_product(term, sizes) for term in terms])
    needed = _needed(family)
    covers = [cover(sizes, list(needed), cells) for cells in _COVER_CELLS]
    tables = list(dict.fromkeys([*_candidates(family), *(t for c in covers for t in c)]))
    starts = _starts(family, tables)
    starts += [np.array([1.0 if t in set(c) else 1e-4 for t in tables]) for c in covers if c]
    objective = _Objective(sizes, tables, needed)
    found = [objective.minimise(start) for start in starts]
    _, weights = min(found, key=lambda pair: pair[0])
    kept = _pruned(weights, tables, needed)
    blocks = tuple(
        Block(
            table,
            tuple(np.eye(sizes[i], dtype=np.int64) for i in table),
            _MULTIPLIER * float(kept.sum() / weight),
            _MULTIPLIER,
        )
        for table, weight in zip(tables, kept, strict=True)
        if weight > 0
    )
    strategy = BlockStrategy(sizes, blocks)
    bound = interaction_strategy(terms, sizes, norm)
    return Planned(
        strategy,
        unit_error(strategy, terms, norm, 1),
        bound.unit_bound,
        L2_BOUND,
        f"{len(blocks)} of {len(tables)} candidate tables measured",
    )


def _needed(family: Family) -> dict[Table, float]:
    """Σ over queries of what unit variance of each interaction adds: uniform references."""
    totals = np.array([k.gram.sum() / k.gram.shape[0] ** 2 for k in family.kinds])
    contrasts = np.array([np.trace(k.gram) - k.gram.mean() * len(k.gram) for k in family.kinds])
    values = family.block_variances(family.contributions(totals, contrasts))
    return dict(zip(family.blocks, values.tolist(), strict=True))


def _candidates(family: Family) -> list[Table]:
    """Tables asked, their subsets, and the whole domain where it is small."""
    tables = dict.fromkeys(term.attributes for term in family.terms)
    if prod(family.sizes) <= _WHOLE_DOMAIN and len(family.sizes) <= _MOST_ATTRIBUTES:
        everything = tuple(range(len(family.sizes)))
        tables.update(dict.fromkeys(subsets(everything)))
    if any(len(table) > _MOST_ATTRIBUTES for table in tables):
        raise TooLarge(f"tables of more than {_MOST_ATTRIBUTES} attributes are too large for this")
    return list(tables)


def cover(sizes: Sequence[int], needed: Sequence[Table], cells: int) -> list[Table]:
    """Tables of at most so many cells that hold every needed one, found greedily; or none."""
    if len(needed) * len(sizes) > _COVER_WORK:
        return []
    largest = sorted((t for t in needed if t), key=lambda t: (-len(t), t))
    if any(prod(sizes[i] for i in t) > cells for t in largest):
        return []
    open_ = [frozenset(t) for t in largest]
    found: list[Table] = []
    while open_:
        table = set(open_[0])
        while (best := _best_addition(table, open_, sizes, cells)) is not None:
            table.add(best)
        found.append(tuple(sorted(table)))
        open_ = [t for t in open_ if not t <= table]
        if len(found) > len(needed):
            return []
    return [t for t in found if len(t) <= _MOST_ATTRIBUTES]


def _best_addition(
    table: set[int], open_: Sequence[frozenset[int]], sizes: Sequence[int], cells: int
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
    asked: dict[Table, float] = {}
    for term in family.terms:
        asked[term.attributes] = asked.get(term.attributes, 0.0) + term.weight**2 * term.queries
    separate = np.array([asked.get(table, 0.0) for table in tables]) ** (1 / 3)
    starts = [np.maximum(separate / separate.max(), 1e-4)]
    wanted = {i for table in asked for i in table}
    for number, table in enumerate(tables):
        if wanted <= set(table):
            alone = np.full(len(tables), 1e-4)
            alone[number] = 1.0
            starts.append(alone)
    return starts


class _Objective:
    """log of (total variance × squared L1 sensitivity) by the logarithms of the weights."""

    def __init__(
        self, sizes: Sequence[int], tables: Sequence[Table], needed: dict[Table, float]
    ) -> None:
        numbers = {part: k for k, part in enumerate(needed)}
        self.needed = np.array(list(needed.values()))
        rows, columns, cells = [], [], []
        for number, table in enumerate(tables):
            for part in subsets(table):
                if part in numbers:
                    rows.append(numbers[part])
                    columns.append(number)
                    cells.append(prod(sizes[i] for i in table if i not in part))
        self.rows, self.columns = np.array(rows), np.array(columns)
        self.cells, self.count = np.array(cells, dtype=np.float64), len(tables)

    def _precisions(self, weights: FloatArray) -> FloatArray:
        values = weights[self.columns] ** 2 / self.cells
        return np.asarray(np.bincount(self.rows, values, minlength=len(self.needed)))

    def variance(self, weights: FloatArray) -> float:
        """Total variance of the answers at unit noise."""
        return float((self.needed / self._precisions(weights)).sum())

    def __call__(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        weights = np.exp(logs)
        precisions = self._precisions(weights)
        total = float((self.needed / precisions).sum())
        slopes = -(self.needed / precisions**2)[self.rows] * 2 / self.cells
        by_weight = np.bincount(self.columns, slopes * weights[self.columns], minlength=self.count)
        value = np.log(total) + 2 * np.log(weights.sum())
        gradient = weights * (by_weight / total + 2 / weights.sum())
        return float(value), np.asarray(gradient)

    def minimise(self, start: FloatArray) -> tuple[float, FloatArray]:
        """L-BFGS from one start."""
        from scipy.optimize import minimize

        bounds = [(-12.0, 3.0)] * len(start)
        result = minimize(self, np.log(start), jac=True, method="L-BFGS-B", bounds=bounds)
        return float(result.fun), np.exp(np.asarray(result.x))


def _pruned(weights: FloatArray, tables: Sequence[Table], needed: dict[Table, float]) -> FloatArray:
    """Weights without tables that hardly count, unless an interaction would go unmeasured."""
    kept = np.where(weights >= _NEGLIGIBLE * weights.max(), weights, 0.0)
    covered = {part for table, w in zip(tables, kept, strict=True) if w for part in subsets(table)}
    for number, table in enumerate(tables):
        if not kept[number] and any(p in needed and p not in covered for p in subsets(table)):
            kept[number] = weights[number]
            covered.update(subsets(table))
    return kept
