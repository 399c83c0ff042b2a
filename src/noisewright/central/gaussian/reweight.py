"""Product queries for the largest error, or any mean above the second: tables reweighted.

Row weights a (one per table) turn the problem at norm p into one at norm 2 whose optimum bounds
the original from below. Weights move towards the tables with the largest errors until nothing is
gained; the best strategy and the best bound met are kept. Within a table all queries keep one
weight, which is what the certified ratio then shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewright.central.gaussian.mixed import MixedDesign, design
from noisewright.central.gaussian.product_bounds import lower_bound
from noisewright.central.gaussian.product_families import compile_family
from noisewright.workload import Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term
from noisewright.workload.tensor import mean_error

_ROUNDS = 10
_SETTLED = 1e-3


@dataclass(frozen=True, eq=False)
class Reweighted:
    """The best design met, its p-th mean error over the terms asked, and the best bound."""

    design: MixedDesign
    value: float
    bound: float


def reweight(
    terms: Sequence[Term],
    sizes: Sequence[int],
    norm: float,
    bits: int,
    neighbours: str = "add-remove",
) -> Reweighted:
    """Search table weights for the p-th mean error of product terms, p > 2."""
    rows = np.array([term.queries for term in terms], dtype=np.float64)
    importance = np.ones(len(terms))
    best: Reweighted | None = None
    for _ in range(_ROUNDS):
        weighted = [
            replace(term, weight=term.weight * float(np.sqrt(a)))
            for term, a in zip(terms, importance, strict=True)
        ]
        found = design(compile_family(sizes, weighted), bits)
        errors = _term_errors(found, terms, norm)
        value = mean_error(errors, norm, rows)
        nuclear = lower_bound(found, neighbours) * float(np.sqrt(rows.sum()))
        bound = nuclear / np.sqrt(_dual_length(importance, rows, norm)) * rows.sum() ** (-1 / norm)
        if best is not None:
            gained = value < best.value * (1 - _SETTLED) or bound > best.bound * (1 + _SETTLED)
            kept = found if value < best.value else best.design
            best = Reweighted(kept, min(value, best.value), max(bound, best.bound))
            if not gained:
                break
        else:
            best = Reweighted(found, value, float(bound))
        importance = _moved(importance, errors, norm)
    assert best is not None
    return best


def _moved(importance: FloatArray, errors: FloatArray, norm: float) -> FloatArray:
    relative = errors / errors.max()
    if np.isinf(norm):
        wanted = importance * relative**2
    else:
        wanted = np.sqrt(importance * relative ** (norm - 2))
    return np.asarray(np.maximum(wanted / wanted.max(), 1e-6))


def _dual_length(importance: FloatArray, rows: FloatArray, norm: float) -> float:
    """‖a‖ in the exponent dual to norm/2, over all rows."""
    exponent = 1.0 if np.isinf(norm) else norm / (norm - 2)
    return float((rows @ importance**exponent) ** (1 / exponent))


def _term_errors(found: MixedDesign, terms: Sequence[Term], norm: float) -> FloatArray:
    """p-th mean deviation of each term's queries at unit noise and sensitivity."""
    family, cache = found.family, _Parts(found)
    variance = dict(zip(family.blocks, 1 / found.shares, strict=True))
    result = []
    by_term: list[list[tuple[int, ...]]] = [[] for _ in terms]
    for block, term in zip(family.pair_block, family.pair_term, strict=True):
        by_term[term].append(family.blocks[block])
    for term, blocks in zip(terms, by_term, strict=True):
        total = np.zeros(term.queries)
        for block in blocks:
            product = np.ones(1)
            for i, factor in zip(term.attributes, term.factors or (), strict=True):
                part = cache.of(i, i in block, factor)
                product = np.multiply.outer(product, part).ravel()
            total += variance[block] * product
        std = term.weight * np.sqrt(total)
        result.append(mean_error(std, norm))
    return np.array(result)


class _Parts:
    """Variances that totals and contrasts of an attribute give to its queries, each once."""

    def __init__(self, found: MixedDesign) -> None:
        self.found = found
        self.known: dict[tuple[int, bool, str], FloatArray] = {}

    def of(self, attribute: int, inside: bool, factor: Workload) -> FloatArray:
        """Row variances for one attribute, in units of its own sensitivity."""
        axis = self.found.axis(attribute)
        key = (self.found.family.groups[attribute], inside, factor.text())
        if key not in self.known:
            if inside:
                matrix = float(axis.length) * axis.covariance
            else:
                matrix = np.outer(axis.reference, axis.reference)
            self.known[key] = factor.row_quadratics(matrix)
        return self.known[key]
