"""What plans really keep: from chances and measured integers one by one, whatever they promise."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import Any

import mpmath
import numpy as np
from scipy.stats import chi2

from noisewright.local.vector.noisy_columns import VectorStrategy
from oracles.privacy_oracles import SeededSource, rational

FALSE_ALARM = 1e-12
"""Of the comparison of drawn reports with their chances, for every strategy."""


def gaussian_delta(epsilon: float, squared: Fraction) -> mpmath.mpf:
    """δ of Gaussian noise for a squared distance in units of σ², in 60 digits."""
    with mpmath.workdps(60):
        mu, eps = mpmath.sqrt(rational(squared)), rational(epsilon)
        first = mpmath.ncdf(mu / 2 - eps / mu)
        return first - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


def check_gaussian(privacy: Any, squared: Fraction) -> None:
    if privacy.rho is not None:
        assert squared / 2 <= Fraction(privacy.rho)
    else:
        assert gaussian_delta(privacy.epsilon, squared) <= rational(privacy.delta)


# --- without a curator -------------------------------------------------------------------------


def check_local(plan: Any) -> bool:
    """Assert that a plan's reports keep its promise and are valid; false where that is too large.

    Chances are those of the matrix Q, and reports drawn for some cell follow them.
    """
    strategy, privacy = plan.strategy, plan.privacy
    assert privacy.neighbours == "replace-one"
    if strategy.size > 64 or strategy.specification.layout.bytes > 4096:
        return False
    cells = np.tile(np.arange(strategy.size), 3)
    reports = strategy.randomize(cells, SeededSource(1))
    assert strategy.collector.valid(reports).all()
    assert len(plan.client.randomize(0)) == plan.format.length
    if isinstance(strategy, VectorStrategy):
        _check_vectors(strategy, privacy)
        return True
    assert privacy.kind == "pure"
    if strategy.outputs is None or strategy.outputs * strategy.size > 2**20:
        return False
    q = strategy.dense()
    assert np.abs(q.sum(axis=0) - 1).max() < 1e-9
    known = q[q.max(axis=1) > 0]
    assert known.min() > 0
    spent = np.log((known.max(axis=1) / known.min(axis=1)).max())
    assert spent <= privacy.epsilon + 1e-9
    if reports.ndim == 1:
        _check_drawn(strategy, q)
    return True


def _check_drawn(strategy: Any, q: Any) -> None:
    """χ² of reports on one cell; rare ones count as one."""
    count, cell = 2000, strategy.size - 1
    reports = strategy.randomize(np.full(count, cell), SeededSource(2)).astype(np.int64)
    expected = count * q[:, cell]
    held = np.bincount(reports, minlength=len(q))
    assert not held[expected == 0].any()
    often = expected >= 20
    told = np.append(expected[often], expected[~often].sum())
    seen = np.append(held[often], held[~often].sum())
    kept = told >= 20
    statistic = float(((seen[kept] - told[kept]) ** 2 / told[kept]).sum())
    assert chi2.sf(statistic, max(int(kept.sum()), 1)) > FALSE_ALARM


def _check_vectors(strategy: Any, privacy: Any) -> None:
    columns = [[int(entry) for entry in column] for column in strategy.columns.T]
    scale, order = Fraction(strategy.law.scale), 2 if strategy.delta else 1
    moved = max(
        sum(abs(a - b) ** order for a, b in zip(u, v, strict=True))
        for u, v in combinations(columns, 2)
    )
    if strategy.delta:
        assert strategy.law.law == "rounded-gaussian"
        assert privacy.delta == strategy.delta
        check_gaussian(privacy, moved / scale**2)
    else:
        assert strategy.law.law == "discrete-laplace"
        assert privacy.kind == "pure"
        assert moved / scale <= Fraction(privacy.epsilon)


# --- with a curator ----------------------------------------------------------------------------


def check_central(plan: Any) -> bool:
    """Assert that noise hides any one person's change of all measured integers."""
    strategy, sizes = plan.mechanism.strategy, plan.mechanism.strategy.sizes
    if prod(sizes) > 64 or strategy.measurements > 4096:
        return False
    scales = [Fraction(law.scale) for law in strategy.laws(plan.mechanism.law)]
    laplace = {law.law for law in strategy.laws(plan.mechanism.law)} == {
        "discrete-laplace"
    }
    order = 1 if plan.privacy.kind == "pure" else 2
    assert laplace == (order == 1)
    people = [_measured(strategy, cell) for cell in product(*(range(n) for n in sizes))]
    _check_measured(plan, people)
    if plan.privacy.neighbours == "add-remove":
        changes = people
    else:
        changes = [
            [
                [a - b for a, b in zip(p, q, strict=True)]
                for p, q in zip(u, v, strict=True)
            ]
            for u, v in combinations(people, 2)
        ]
    moved = max(
        sum(
            sum(abs(entry) ** order for entry in block) / scale**order
            for block, scale in zip(change, scales, strict=True)
        )
        for change in changes
    )
    if order == 1:
        assert moved <= Fraction(plan.privacy.epsilon)
    else:
        check_gaussian(plan.privacy, Fraction(moved))
    with warnings.catch_warnings():
        # errors of nonsense are nonsense
        warnings.simplefilter("ignore", RuntimeWarning)
        plan.release(np.arange(len(people)))
    return True


def _measured(strategy: Any, cell: tuple[int, ...]) -> list[list[int]]:
    """What one person in a cell adds to every measured integer, block by block."""
    found = []
    for block in strategy.blocks:
        entries = [block.multiplier]
        for axis, factor in zip(block.attributes, block.factors, strict=True):
            column = [int(entry) for entry in factor[:, cell[axis]]]
            entries = [a * b for a in entries for b in column]
        if block.weights is not None:
            shape = [len(factor) for factor in block.factors]
            weights = np.broadcast_to(block.weights, shape).ravel().tolist()
            entries = [a * b for a, b in zip(entries, weights, strict=True)]
        found.append(entries)
    return found


def _check_measured(plan: Any, people: list[list[list[int]]]) -> None:
    """The code that measures adds the same, for two people in some cells."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        first, second = (int(i) for i in rng.integers(len(people), size=2))
        counts = np.zeros(len(people), dtype=np.int64)
        np.add.at(counts, [first, second], 1)
        measured = plan.mechanism.exact(plan.exact(counts))
        for block, u, v in zip(measured, people[first], people[second], strict=True):
            assert [int(m) for m in block] == [a + b for a, b in zip(u, v, strict=True)]
