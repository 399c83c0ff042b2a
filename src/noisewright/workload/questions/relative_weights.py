"""How much errors of unlike questions matter beside each other.

People, hours and squared hours have no common unit. Where a plan has more than counts, the error of
every question is therefore taken relative to what it would be had the question the whole budget for
itself, and every question counts once, times its own weight, whether it is one number or a hundred
tables. The sum of these squares is about the least of all plans, and plans of their own with equal
shares of ρ are among these: on average no question is worse than apart. The error alone is the
singular value bound under Gaussian noise, which is multiplicative over attributes and close to what
plans reach; it need not be exact to say what matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from math import inf, prod, sqrt

import numpy as np

from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Weighted
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.questions.statistics import Statistic
from noisewright.workload.structure import Term

_DENSE = 2**21  # entries of queries whose singular values take less than a second


def weighted_needs(statistics: Sequence[Statistic]) -> list[tuple[Term, float]]:
    """Every term that is needed, once, with how much its standard errors matter altogether."""
    terms: dict[tuple[object, ...], Term] = {}
    squares: dict[tuple[object, ...], float] = {}
    alone = [error_alone(statistic) for statistic in statistics]
    least = min(alone, default=1.0)  # so that no weight is tiny

    for statistic, error in zip(statistics, alone, strict=True):
        for need, weight in zip(statistic.needs, statistic.weights, strict=True):
            terms.setdefault(need.key, need)
            # Between tables of one question that share all of a budget and such that share none.
            square = (weight * least / error) ** 2 / statistic.siblings**1.5
            squares[need.key] = squares.get(need.key, 0.0) + square

    return [(term, sqrt(squares[key])) for key, term in terms.items()]


def error_alone(statistic: Statistic) -> float:
    """About the root of the summed squared errors of a question alone, at unit noise and weight.

    Needs of several measures share the budget as is best for their sum.
    """
    if not statistic.weight:
        return 1.0  # whatever it is, nothing is made of it

    squares: dict[object, float] = {}
    for need, weight in zip(statistic.needs, statistic.weights, strict=True):
        reach = weight / statistic.weight * need.measure.reach
        square = reach**2 * _squares_alone(need)
        squares[need.measure] = squares.get(need.measure, 0.0) + square

    return sum(map(sqrt, squares.values()))


def _squares_alone(term: Term) -> float:
    factors = (term.inner,) if term.factors is None else term.factors
    return term.weight**2 * prod(map(_least_squares, factors))


@singledispatch
def _least_squares(queries: Workload) -> float:
    """(Σ singular values)² over cells: the sum of squared errors that no L2 strategy is below."""
    large = queries.queries * queries.size > _DENSE
    if large or min(queries.shape) > sqrt(_DENSE) / 2:
        return float(queries.gram().trace())  # as if every cell were measured

    # Cells that no query tells apart are one cell.
    columns = np.unique(queries.dense(), axis=1)
    columns = columns[:, np.any(columns != 0, axis=0)]
    if not columns.size:
        return inf

    singular = np.linalg.svd(columns, compute_uv=False)
    return float(singular.sum() ** 2 / columns.shape[1])


@_least_squares.register
def _least_squares_of_weighted(queries: Weighted) -> float:
    return queries.weight**2 * _least_squares(queries.inner)


@_least_squares.register
def _least_squares_of_identity(queries: Identity) -> float:
    return float(queries.size)


@_least_squares.register
def _least_squares_of_total(queries: Total) -> float:
    return 1.0


@_least_squares.register
def _least_squares_of_prefix(queries: Prefix) -> float:
    n = queries.size
    odd = 2 * np.arange(1, n + 1) - 1
    angles = odd * np.pi / (4 * n + 2)

    singular = 0.5 / np.sin(angles)

    return float(singular.sum() ** 2 / n)


@_least_squares.register
def _least_squares_of_ranges(queries: Ranges) -> float:
    n = queries.size
    angles = np.arange(1, n + 1) * np.pi / (2 * n + 2)

    singular = 0.5 / np.sin(angles)

    return float((n + 1) * singular.sum() ** 2 / n)
