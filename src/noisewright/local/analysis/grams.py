"""Gram matrices of what is asked, in the form that strategies and bounds read.

This is where the local model takes in a workload: constants of queries are taken off first (see
`offsets`), tables of counts get their marginal form, and factors are brought out of products, so
that equal workloads have equal Gram matrices.
"""

from __future__ import annotations

from math import isfinite, log2, prod

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.analysis.offsets import without_offsets
from noisewright.local.strategy import LARGEST_VECTOR
from noisewright.workload.base import Workload
from noisewright.workload.gram import (
    DenseGram,
    Gram,
    MarginalGram,
    zero_gram,
)
from noisewright.workload.interactions import subsets
from noisewright.workload.marginals import AllMarginals
from noisewright.workload.structure import named_sizes

_MOST_TABLES = 2**12
_LARGEST = 1e150  # products of two Gram matrices must neither overflow nor vanish


def table_gram(workload: Workload) -> Gram:
    """The Gram matrix of the queries up to a constant each, tables of counts in marginal form."""
    try:
        gram = _gram(without_offsets(workload)).normal_form()
        scale = gram.mean_square()
    except OverflowError:
        scale = float("inf")
    vanished = scale == 0 and not _known(without_offsets(workload))
    if vanished or not isfinite(scale) or 0 < scale < 1 / _LARGEST or scale > _LARGEST:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "has entries whose squares leave the range of double precision",
            "multiply all queries by a constant that brings them near one",
        )
    return gram


def _known(asked: Workload) -> bool:
    """Whether all answers follow from the number of people: tried on people who sum to nobody."""
    if asked.size > LARGEST_VECTOR:
        return True
    people = np.random.default_rng(0).integers(-9, 10, asked.size).astype(np.float64)
    people[0] -= people.sum()
    return not np.any(asked.matvec(people))


def normalised(gram: Gram) -> tuple[float, Gram]:
    """A factor and a matrix of the same product, which no factor of the queries changes."""
    scale, inner = gram.normal_form().split()
    if scale == 0.0:
        return 1.0, gram
    if isinstance(inner, DenseGram):
        unit = 2.0 ** round(log2(inner.mean_square() or 1.0))  # divides without rounding
        return scale * unit, DenseGram(inner.matrix / unit)
    return scale, inner


def _gram(workload: Workload) -> Gram:
    sizes = named_sizes(workload)
    if sizes is None:
        return workload.gram()
    if isinstance(workload, AllMarginals):
        if 2 ** len(sizes) > _MOST_TABLES:
            return workload.gram()
        return _marginal(sizes, dict.fromkeys(subsets(tuple(range(len(sizes)))), 1.0))
    tables = workload.structure.tables
    if tables is None:
        return workload.gram()
    weights: dict[tuple[int, ...], float] = {}
    for term in tables:
        weights[term.attributes] = weights.get(term.attributes, 0.0) + term.weight**2
    return _marginal(sizes, weights)


def _marginal(sizes: tuple[int, ...], weights: dict[tuple[int, ...], float]) -> Gram:
    """Tables that hold a single cell are totals, which are known."""
    told = {t: w for t, w in weights.items() if any(sizes[i] > 1 for i in t)}
    return MarginalGram(sizes, told) if told else zero_gram(prod(sizes))
