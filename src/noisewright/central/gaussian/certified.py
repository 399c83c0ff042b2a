"""Designs for product queries at any norm, each with a lower bound on the error of any other.

Norm 2 is one design and its bound. For the largest error, or any mean above the second, row weights
a (one per table) turn the problem into one at norm 2 whose optimum bounds the original from below.
Weights move towards the tables with the largest errors until nothing is gained; the best strategy
and the best bound met are kept. Within a table all queries keep one weight, which is what the
certified ratio then shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.quantise import USUAL_BITS, contrast_bits
from noisewright.central.gaussian.product_bounds import lower_bound
from noisewright.central.gaussian.product_designs import (
    MixedDesign,
    compile_family,
    design,
)
from noisewright.central.problem import CentralProblem
from noisewright.workload import Identity, kron
from noisewright.workload.linear.tensor import column_kron, mean_error
from noisewright.workload.structure import Term

_MOST_BITS = 14
_ROUNDS = 10
_SETTLED = 1e-3


@dataclass(frozen=True, eq=False)
class Certified:
    """A design, its p-th mean error over the terms asked, and a bound on that of any other."""

    design: MixedDesign
    value: float
    bound: float
    bits: int


def certified(problem: CentralProblem) -> Certified:
    """The design that several mechanisms start from, and its bound."""
    return certified_design(
        problem.shifted_terms,
        problem.sizes,
        problem.norm,
        problem.neighbours,
        problem.grid_bits,
    )


def certified_design(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str = "add-remove",
    total_bits: int = USUAL_BITS,
) -> Certified:
    """Axes and budget shares for product queries, queries that are none replaced by their cells."""
    products = [as_product(term, sizes) for term in terms]
    bits = contrast_bits(total_bits, products, sizes, _MOST_BITS)
    if norm == 2:
        best = design(compile_family(sizes, products), bits)
        return Certified(best, best.value, lower_bound(best, neighbours), bits)
    return _reweight(
        products,
        sizes,
        norm,
        neighbours,
        bits,
    )


def as_product(term: Term, sizes: Sequence[int]) -> Term:
    """A stand-in for queries that are no product: the cells they look at, as much variance."""
    if term.factors is not None:
        return term
    factors = tuple(Identity(sizes[i]) for i in term.attributes)
    weight = term.weight * float(np.sqrt(term.inner.gram().trace() / term.inner.size))
    return Term(weight, term.attributes, kron(list(factors)), factors)


def _reweight(
    terms: Sequence[Term],
    sizes: Sequence[int],
    norm: float,
    neighbours: str,
    bits: int,
) -> Certified:
    """Search table weights for the p-th mean error of product terms, p > 2."""
    rows = np.array([term.queries for term in terms], dtype=np.float64)
    importance = np.ones(len(terms))
    best: Certified | None = None

    for _ in range(_ROUNDS):
        weighted = [
            replace(term, weight=term.weight * float(np.sqrt(a)))
            for term, a in zip(terms, importance, strict=True)
        ]
        trial = design(compile_family(sizes, weighted), bits)
        errors = _term_errors(trial, terms, norm)
        value = mean_error(errors, norm, rows)
        nuclear = lower_bound(trial, neighbours) * float(np.sqrt(rows.sum()))
        length = np.sqrt(_dual_length(importance, rows, norm))
        bound = float(nuclear / length * rows.sum() ** (-1 / norm))
        if best is None:
            best = Certified(trial, value, bound, bits)
        else:
            gained = value < best.value * (1 - _SETTLED) or bound > best.bound * (
                1 + _SETTLED
            )
            better = trial if value < best.value else best.design
            best = Certified(
                better, min(value, best.value), max(bound, best.bound), bits
            )
            if not gained:
                break

        importance = _moved(importance, errors, norm)

    assert best is not None
    return best


def _moved(
    importance: FloatArray,
    errors: FloatArray,
    norm: float,
) -> FloatArray:
    relative = errors / errors.max()
    if np.isinf(norm):
        target = importance * relative**2
    else:
        target = np.sqrt(importance * relative ** (norm - 2))
    return np.asarray(np.maximum(target / target.max(), 1e-6))


def _dual_length(
    importance: FloatArray,
    rows: FloatArray,
    norm: float,
) -> float:
    """‖a‖ in the exponent dual to norm/2, over all rows."""
    exponent = 1.0 if np.isinf(norm) else norm / (norm - 2)
    return float((rows @ importance**exponent) ** (1 / exponent))


def _term_errors(
    trial: MixedDesign,
    terms: Sequence[Term],
    norm: float,
) -> FloatArray:
    """p-th mean deviation of each term's queries at unit noise and sensitivity."""
    family = trial.family
    parts = _row_variances(trial)
    variances = 1 / trial.shares
    totals = [np.zeros(term.queries) for term in terms]

    for pair, number in enumerate(family.pair_term):
        width = len(terms[number].attributes)
        inside = family.pair_inside[pair, :width].tolist()
        kinds = family.pair_kinds[pair, :width].tolist()
        product = column_kron(
            [parts[own][k] for own, k in zip(inside, kinds, strict=True)]
        )
        totals[number] += variances[family.pair_block[pair]] * product

    pairs = zip(terms, totals, strict=True)
    return np.array(
        [mean_error(term.weight * np.sqrt(total), norm) for term, total in pairs]
    )


def _row_variances(trial: MixedDesign) -> tuple[list[FloatArray], list[FloatArray]]:
    """What totals and contrasts of an attribute add to the queries of each kind, in its units."""
    totals = []
    contrasts = []
    for kind in trial.family.kinds:
        axis = trial.axes[kind.group]
        totals.append(
            kind.workload.row_quadratics(np.outer(axis.reference, axis.reference))
        )
        contrasts.append(
            kind.workload.row_quadratics(float(axis.length) * axis.covariance)
        )

    return totals, contrasts
