"""Gram matrices of tables of counts, in the form that strategies over tables read."""

from __future__ import annotations

from itertools import combinations

from noisewright.workload.algebra import Stack, Weighted
from noisewright.workload.atoms import Identity
from noisewright.workload.base import Workload
from noisewright.workload.gram import Gram, MarginalGram
from noisewright.workload.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.terms import terms

_MOST_TABLES = 2**12


def table_gram(workload: Workload) -> Gram:
    """The Gram matrix, in its marginal form where the workload is tables of counts."""
    sizes = _attribute_sizes(workload)
    if sizes is None:
        return workload.gram()
    if isinstance(workload, AllMarginals):
        if 2 ** len(sizes) > _MOST_TABLES:
            return workload.gram()
        everything = range(len(sizes))
        subsets = [t for k in range(len(sizes) + 1) for t in combinations(everything, k)]
        return MarginalGram(sizes, dict.fromkeys(subsets, 1.0))
    weights: dict[tuple[int, ...], float] = {}
    for term in terms(workload, sizes):
        if term.factors is None or not all(isinstance(f, Identity) for f in term.factors):
            return workload.gram()
        table = tuple(sorted(term.attributes))
        weights[table] = weights.get(table, 0.0) + term.weight**2
    return MarginalGram(sizes, weights)


def _attribute_sizes(workload: Workload) -> tuple[int, ...] | None:
    if isinstance(workload, Marginals | OnAttributes | AllMarginals):
        return workload.sizes
    if isinstance(workload, Weighted):
        return _attribute_sizes(workload.inner)
    if isinstance(workload, Stack):
        found = {_attribute_sizes(part) for part in workload.parts}
        return found.pop() if len(found) == 1 else None
    return None
