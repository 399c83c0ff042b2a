"""The cells that a plan was asked about: attributes in no question are summed out.

Nothing is known of the others, and nothing is to be made up about them: tables fitted to answers,
declared values and whole numbers live here. How large a schema is beside what was asked of it does
not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.domain import Domain
from noisewright.estimate.nonnegative import LARGEST_HISTOGRAM
from noisewright.workload import Workload
from noisewright.workload.kinds.algebra import Kron, Weighted, stack
from noisewright.workload.kinds.atoms import Identity, Total
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.tensor import sum_out
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

    from noisewright.planning.central.plan import CentralPlan


_MOST_DENSE = 2**24  # entries of a question that is written out
_MOST_ENTRIES = 2**24  # of all questions, spread over cells


@dataclass(frozen=True, eq=False)
class AskedCells:
    """Attributes that are asked about, by their numbers in the domain, and questions on them."""

    attributes: Table
    sizes: tuple[int, ...]
    terms: tuple[Term, ...]
    possible: BoolArray | None = None
    forbidden: tuple[Table, ...] = ()
    """The attributes of every declaration of impossible cells."""
    whole: Workload | None = None
    """The workload over the whole domain, where every attribute is asked about."""

    @classmethod
    def of_plan(cls, plan: CentralPlan) -> AskedCells:
        """What a plan of counts asks, and which of these cells can hold people."""
        asked = asked_of(plan.terms, plan.sizes)
        if len(asked.attributes) == len(plan.sizes):
            asked = replace(asked, whole=plan.plain_workload)

        if (
            plan.domain is None
            or not plan.domain.boxes
            or asked.size > LARGEST_HISTOGRAM
        ):
            return asked

        numbers = {
            plan.domain.names[old]: new for new, old in enumerate(asked.attributes)
        }
        named = [
            tuple(sorted(numbers.get(n, -1) for n in box.names))
            for box in plan.domain.boxes
        ]
        return replace(
            asked,
            possible=possible_cells(plan.domain, asked.attributes),
            # Declarations that share an attribute which is summed out hang together.
            forbidden=(tuple(range(len(numbers))),)
            if any(-1 in b for b in named)
            else (*named,),
        )

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.sizes)

    @cached_property
    def workload(self) -> Workload:
        """All questions over these cells, in the order of the answers."""
        if self.whole is not None:
            return self.whole

        sizes = self.sizes or (1,)
        parts = [
            (term, OnAttributes(sizes, term.attributes, term.inner))
            for term in self.terms
        ]
        return stack([p if t.weight == 1 else Weighted(t.weight, p) for t, p in parts])

    @cached_property
    def weights(self) -> FloatArray:
        """What every query is multiplied by."""
        return np.repeat(
            [t.weight for t in self.terms], [t.queries for t in self.terms]
        )

    @property
    def inside(self) -> IntArray:
        """The numbers of the cells that can hold people."""
        every = np.arange(self.size)
        return every if self.possible is None else every[self.possible]


def asked_of(terms: Sequence[Term], sizes: Sequence[int]) -> AskedCells:
    """The attributes of some terms, and these terms with attributes numbered anew."""
    attributes = tuple(sorted({i for term in terms for i in term.attributes}))
    numbers = {old: new for new, old in enumerate(attributes)}
    own = tuple(
        replace(t, attributes=tuple(numbers[i] for i in t.attributes)) for t in terms
    )
    return AskedCells(attributes, tuple(sizes[i] for i in attributes), own)


def possible_cells(domain: Domain, attributes: Table) -> BoolArray:
    """Cells of a table that can hold people, in some cell of the attributes it leaves out."""
    names = [domain.names[i] for i in attributes]
    named = {name for box in domain.boxes for name in box.names}
    wide = [name for name in domain.names if name in names or name in named]
    sizes = [domain[name].size for name in wide]
    if prod(sizes) > LARGEST_HISTOGRAM:
        return domain.possible(names)

    table = domain.possible(wide).reshape(sizes)
    kept = [k for k, name in enumerate(wide) if name in names]
    return np.asarray(sum_out(table, sizes, kept).ravel() > 0)


def spread_rows(
    terms: Sequence[Term], sizes: Sequence[int], inside: IntArray
) -> csr_array[np.float64] | None:
    """The queries of terms, one per row, over cells of attributes; None if they are too many."""
    from scipy.sparse import csr_array, vstack

    shape = tuple(sizes) or (1,)
    places = np.unravel_index(inside, shape)
    parts: list[Any] = []

    for term in terms:
        own = sparse_rows(term.inner)
        if own is None:
            return None

        small = [sizes[i] for i in term.attributes]
        chosen = tuple(places[i] for i in term.attributes)
        cells = np.ravel_multi_index(chosen, small) if small else np.zeros_like(inside)
        entries = int(np.diff(own.indptr)[cells].sum()) + sum(
            part.nnz for part in parts
        )
        if entries > _MOST_ENTRIES:
            return None

        parts.append(csr_array(own[:, cells]))

    return csr_array(vstack(parts, format="csr"))


def sparse_rows(workload: Workload) -> csc_array[np.float64] | None:
    """A workload as a sparse matrix by columns; None where it is too large to be written out."""
    from scipy.sparse import csc_array, eye_array, kron

    if isinstance(workload, Identity):
        return csc_array(eye_array(workload.size))
    if isinstance(workload, Total):
        return csc_array(np.ones((1, workload.size)))

    if isinstance(workload, Kron):
        factors: list[Any] = [sparse_rows(factor) for factor in workload.factors]
        if any(factor is None for factor in factors):
            return None
        if prod(factor.nnz for factor in factors) > _MOST_ENTRIES:
            return None
        return csc_array(reduce(lambda a, b: kron(a, b, format="csc"), factors))

    if workload.queries * workload.size > _MOST_DENSE:
        return None

    return csc_array(workload.dense())
