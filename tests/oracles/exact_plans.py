"""Central plans in rational arithmetic: what is measured, what comes back, how much it varies."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

Rows = list[list[Fraction]]


def measured_rows(strategy: Any) -> Rows:
    """All measurements over all cells, every row in units of its noise, exactly."""
    rows: Rows = []
    for block in strategy.blocks:
        by_axis = dict(zip(block.attributes, block.factors, strict=True))
        full = np.ones((1, 1), dtype=object)
        for i, n in enumerate(strategy.sizes):
            part = by_axis.get(i)
            ones = np.ones((1, n), dtype=object)
            full = np.kron(full, ones if part is None else part.astype(object))
        scales = np.broadcast_to(np.asarray(block.scales), (len(full),))
        for row, scale in zip(full.tolist(), scales.tolist(), strict=True):
            rows.append(
                [
                    Fraction(int(x)) * Fraction(scale) / Fraction(block.noise)
                    for x in row
                ]
            )
    return rows


def sensitivity(rows: Rows, order: int, neighbours: str) -> float:
    """The largest length of a column, or distance of two, in L1 or L2."""
    columns = list(zip(*rows, strict=True))
    if neighbours == "add-remove":
        changes = [list(column) for column in columns]
    else:
        changes = [
            [x - y for x, y in zip(u, v, strict=True)]
            for k, u in enumerate(columns)
            for v in columns[:k]
        ]
    power = max(sum(abs(x) ** order for x in change) for change in changes)
    return float(power) if order == 1 else math.sqrt(power)


def variances(rows: Rows, wanted: Rows) -> list[float] | None:
    """w(AᵀA)⁻¹wᵀ for every query w; None where one of them is not determined exactly.

    Gauss-Jordan elimination of [AᵀA | Wᵀ]: a query outside the row space leaves a zero row with a
    right-hand side.
    """
    n = len(wanted[0])
    table = [
        [sum(row[j] * row[k] for row in rows) for k in range(n)]
        + [query[j] for query in wanted]
        for j in range(n)
    ]
    pivots: list[int] = []
    for column in range(n):
        top = len(pivots)
        place = next((r for r in range(top, n) if table[r][column]), None)
        if place is None:
            continue
        table[top], table[place] = table[place], table[top]
        lead = table[top][column]
        table[top] = [x / lead for x in table[top]]
        for r in range(n):
            if r != top and (factor := table[r][column]):
                table[r] = [
                    x - factor * y for x, y in zip(table[r], table[top], strict=True)
                ]
        pivots.append(column)
    if any(any(row[n:]) for row in table[len(pivots) :]):
        return None
    return [
        float(sum(table[r][n + i] * query[column] for r, column in enumerate(pivots)))
        for i, query in enumerate(wanted)
    ]


def unit_value(plan: Any, matrix: np.ndarray) -> float | None:
    """The plan's error at unit noise and sensitivity one; None where it misses a query.

    Under replaced people the total is public: only differences from the last cell count.
    """
    rows = measured_rows(plan.mechanism.strategy)
    wanted = [[Fraction(float(x)) for x in query] for query in matrix]
    if plan.privacy.neighbours == "replace-one":
        rows, wanted = (
            [[x - row[-1] for x in row] for row in part] for part in (rows, wanted)
        )
    order = 1 if plan.privacy.kind == "pure" else 2
    squares = variances(rows, wanted)
    if squares is None:
        return None
    deviations = np.sqrt(np.array(squares))
    return mean(deviations, plan.norm) * sensitivity(
        rows, order, plan.privacy.neighbours
    )


def mean(deviations: np.ndarray, norm: float) -> float:
    """The p-th mean."""
    largest = float(deviations.max())
    if math.isinf(norm) or largest == 0:
        return largest
    return largest * float(np.mean((deviations / largest) ** norm)) ** (1 / norm)
