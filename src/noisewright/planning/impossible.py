"""Impossible cells, declared as public knowledge: estimates conditioned on their being empty.

The strategy measures whole tables; that some of their cells hold nobody is known beforehand. The
best linear estimate given this knowledge is still linear in the measurements, exact variances and
all, and it is consistent across tables: no answer is patched by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.variance import query_variances
from noisewright.central.gaussian.products import as_one_axis
from noisewright.domain import Domain
from noisewright.domain.product import Box
from noisewright.errors import DeclarationWarning, OutOfReach, shown
from noisewright.privacy.law import NoiseLaw
from noisewright.workload import Explicit, OnAttributes
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term

FALSE_ALARMS = 1e-6
_MOST_CELLS = 2000
_MOST_ENTRIES = 2**24


@dataclass(frozen=True, eq=False)
class ZeroFit:
    """What estimates of impossible cells tell about the answers asked."""

    terms: tuple[Term, ...]
    gain: FloatArray
    reduction: FloatArray

    def correct(
        self,
        strategy: BlockStrategy,
        measured: Sequence[npt.NDArray[Any]],
        answers: FloatArray,
    ) -> FloatArray:
        """Answers given that the impossible cells are empty."""
        found = np.concatenate(strategy.answers(self.terms, measured))
        return np.asarray(answers - self.gain @ found)


def impossible_terms(domain: Domain, joint: bool) -> list[Term]:
    """One query per impossible cell, on the marginal tables of the declarations."""
    return [_on_cells(domain, box, joint, np.eye) for box in domain.boxes]


def _on_cells(domain: Domain, box: Box, joint: bool, queries: Callable[[int], FloatArray]) -> Term:
    """Queries about the cells of a box alone: `queries` gives their rows for so many cells."""
    names = sorted(box.names, key=domain.names.index)
    positions = tuple(domain.names.index(name) for name in names)
    inside = np.flatnonzero(box.holds(domain, names).ravel())
    told = queries(len(inside))
    rows = np.zeros((len(told), prod(domain.shape[i] for i in positions)))
    rows[:, inside] = told
    asked = Explicit(rows)
    if joint:
        return as_one_axis(OnAttributes(domain.shape, positions, asked))
    return Term(1.0, positions, asked, None if len(positions) > 1 else (asked,))


def contradictions(
    strategy: BlockStrategy, domain: Domain, measured: Sequence[npt.NDArray[Any]], law: NoiseLaw
) -> dict[str, Any] | None:
    """Whether noisy measurements say that people are in impossible cells: for records, no cost.

    Each declaration that the strategy can see is tested by its cells one by one and all together.
    Where all of them hold, any is called contradicted with probability `FALSE_ALARMS` at most:
    tails are bounded for the very integers that are drawn. None where there is nothing to test.
    """
    visible = _testable(strategy, domain)
    largest = _proxy_ratio(strategy.laws(law))
    if not visible or largest is None:
        return None
    asked = [term for _, term in visible]
    found = strategy.answers(asked, measured)
    variances = query_variances(strategy, asked, law)
    threshold = _threshold(law, FALSE_ALARMS / sum(term.queries for term in asked))
    contradicted = [
        box.to_dict(domain)
        for (box, _), people, variance in zip(visible, found, variances, strict=True)
        if (people > np.maximum(threshold * np.sqrt(largest * variance), 0.5)).any()
    ]
    return {
        "tested": len(visible),
        "declared": len(domain.boxes),
        "false_alarm_rate": FALSE_ALARMS,
        "contradicted": contradicted,
    }


def warn_of(told: Mapping[str, Any] | None) -> None:
    """Warn where a record of `contradictions` names any."""
    if told is not None and told["contradicted"]:
        cells = shown(told["contradicted"], 200)
        warnings.warn(
            f"the noisy counts say that people are in cells declared impossible: {cells}; answers "
            "take these cells for empty and are biased by those people, beyond the stated errors; "
            "correct `impossible` in the schema",
            DeclarationWarning,
            stacklevel=4,
        )


def _testable(strategy: BlockStrategy, domain: Domain) -> list[tuple[Box, Term]]:
    """Declarations that the strategy sees, with one query per cell and one for all of them."""
    joint = strategy.sizes != domain.shape
    result = []
    for box in domain.boxes:
        size = prod(domain.shape if joint else [domain[name].size for name in box.names])
        cells = prod(len(cells) for _, cells in box.sides)
        if size > _MOST_ENTRIES:
            continue
        each = cells <= _MOST_CELLS and (cells + 1) * size <= _MOST_ENTRIES
        term = _on_cells(domain, box, joint, _each_and_all if each else _all)
        if _reached(strategy, term):
            result.append((box, term))
    return result


def _all(cells: int) -> FloatArray:
    return np.ones((1, cells))


def _each_and_all(cells: int) -> FloatArray:
    return np.vstack([np.eye(cells), _all(cells)])


def _proxy_ratio(laws: Sequence[NoiseLaw]) -> float | None:
    """How much wider than its own variance the law is that bounds the noise's tails, at most."""
    if any(law.variance == 0 for law in laws):
        return None
    return max(_proxy(law) / law.variance for law in laws)


def _proxy(law: NoiseLaw) -> float:
    """Variance of a continuous law whose moment generating function is nowhere below the law's.

    Discrete Gaussians are subgaussian with σ². Rounding adds at most half a step, itself
    subgaussian with 1/4, and square roots of such variances add. For discrete Laplace noise,
    (cosh u − 1)/(cosh u − cosh t) <= u²/(u² − t²) with u = 1/scale, as (cosh t − 1)/t² grows.
    """
    if law.law == "discrete-laplace":
        return 2 * law.scale**2
    return (law.scale + (0.5 if law.law == "rounded-gaussian" else 0.0)) ** 2


def _threshold(law: NoiseLaw, alarm: float) -> float:
    """Standard deviations that a sum of such noise exceeds with probability `alarm` at most.

    By Chernoff. Among sums of Laplace noise of one variance, a single one has the largest moment
    generating function: −log(1 − s²v/2) is convex in the variance v.
    """
    bits = -np.log(alarm)
    if law.law != "discrete-laplace":
        return float(np.sqrt(2 * bits))

    def excess(z: float) -> float:
        s = (np.sqrt(1 + 2 * z * z) - 1) / z
        return float(s * z + np.log1p(-s * s / 2) - bits)

    return float(brentq(excess, 1e-3, 10 + 2 * bits))


def zero_fit(
    strategy: BlockStrategy, domain: Domain, terms: Sequence[Term], law: NoiseLaw
) -> ZeroFit | None:
    """The correction for a domain's impossible cells; None where there is nothing to gain."""
    known = [t for t in _small(domain, strategy) if _reached(strategy, t)]
    cells, queries = sum(t.queries for t in known), sum(t.queries for t in terms)
    largest = max(block.rows for block in strategy.blocks)
    entries = max(queries, largest) * max(largest, cells)
    if not known or cells > _MOST_CELLS or entries > _MOST_ENTRIES:
        return None
    cross, own = np.zeros((queries, cells)), np.zeros((cells, cells))
    for number, (block, drawn) in enumerate(zip(strategy.blocks, strategy.laws(law), strict=True)):
        units = [np.zeros((b.rows, block.rows)) for b in strategy.blocks]
        units[number] = np.eye(block.rows)
        empty = np.concatenate(strategy.answers(known, units))
        cross += drawn.variance * (np.concatenate(strategy.answers(terms, units)) @ empty.T)
        own += drawn.variance * (empty @ empty.T)
    gain = cross @ np.linalg.pinv(own, rcond=1e-10, hermitian=True)
    return ZeroFit(tuple(known), gain, np.einsum("ij,ij->i", gain, cross))


def _small(domain: Domain, strategy: BlockStrategy) -> list[Term]:
    joint = strategy.sizes != domain.shape
    size = int(np.prod([min(n, 10**6) for n in domain.shape], dtype=object))
    return [] if joint and size > _MOST_CELLS * 4 else impossible_terms(domain, joint)


def _reached(strategy: BlockStrategy, term: Term) -> bool:
    try:
        strategy.check_reach(term)
    except OutOfReach:
        return False
    return True
