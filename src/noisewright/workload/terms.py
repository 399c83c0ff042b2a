"""Any workload as a list of terms, each a workload on one marginal table.

Tables are what a strategy over many attributes is measured and reconstructed by, so a workload over
a domain too large to enumerate is handled term by term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.workload.algebra import Kron, Stack, Weighted, kron
from noisewright.workload.atoms import Total
from noisewright.workload.base import Array, Workload
from noisewright.workload.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.measures import COUNT, Measure


@dataclass(frozen=True)
class Term:
    """`weight` times `inner`, asked of the marginal table of `attributes`.

    `factors` holds one workload per attribute where the inner workload is their product. `measure`
    says what the table holds of people.
    """

    weight: float
    attributes: tuple[int, ...]
    inner: Workload
    factors: tuple[Workload, ...] | None
    measure: Measure = COUNT

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.inner.queries

    def answers(self, table: Array) -> Array:
        """Answers from the term's own marginal table, flattened."""
        return np.asarray(self.weight * self.inner.matvec(table))


def terms(workload: Workload, sizes: Sequence[int]) -> list[Term]:
    """Split `workload` over attributes with `sizes` values into terms, in the order of its rows."""
    if workload.size != prod(sizes):
        raise InvalidParameter(
            "workload",
            workload.brief(),
            f"has {workload.size} cells where the domain has {prod(sizes)}",
            "match the workload's size to the domain",
        )
    return list(_split(workload, tuple(sizes), 1.0))


def _split(workload: Workload, sizes: tuple[int, ...], weight: float) -> list[Term]:
    if isinstance(workload, Weighted):
        return _split(workload.inner, sizes, weight * workload.weight)
    if isinstance(workload, Stack):
        return [term for part in workload.parts for term in _split(part, sizes, weight)]
    if isinstance(workload, Marginals) and workload.sizes == sizes:
        return [
            _product(weight * w, table, [workload.bases[i] for i in table])
            for table, w in zip(workload.tables, workload.weights, strict=True)
        ]
    if isinstance(workload, OnAttributes) and workload.sizes == sizes:
        return [_on(weight, workload)]
    everything = tuple(range(len(sizes)))
    factors = _aligned(workload, sizes)
    if factors is None:
        return [Term(weight, everything, workload, None)]
    asked = tuple(i for i in everything if not isinstance(factors[i], Total))
    return [_product(weight, asked, [factors[i] for i in asked])]


def _on(weight: float, workload: OnAttributes) -> Term:
    inner = workload.inner
    if not workload.attributes:
        return _product(weight, (), [])
    factors = _aligned(inner, [workload.sizes[i] for i in workload.attributes])
    if factors is None:
        return Term(weight, workload.attributes, inner, None)
    return _product(weight, workload.attributes, list(factors))


def _product(weight: float, attributes: tuple[int, ...], factors: list[Workload]) -> Term:
    inner = kron(factors) if factors else Total(1)
    return Term(weight, attributes, inner, tuple(factors))


def _aligned(workload: Workload, sizes: Sequence[int]) -> tuple[Workload, ...] | None:
    """The factors of a product, one per attribute, if the workload is such a product."""
    if len(sizes) == 1:
        return (workload,)
    if isinstance(workload, (Kron, AllMarginals)):
        factors = workload.factors
        if [factor.size for factor in factors] == list(sizes):
            return factors
    return None
