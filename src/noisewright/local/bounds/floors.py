"""All floors that are quick to find, and the highest of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from noisewright.errors import NoisewrightError, TooLarge
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.ordered.rearrangement import OrderedBound
from noisewright.local.bounds.ordered.search import best_claim
from noisewright.local.bounds.tables.delsarte import SchemeBound
from noisewright.local.bounds.tables.scheme import Scheme, scheme_of
from noisewright.local.bounds.trace import (
    LowerBound,
    lower_bound,
    off_the_total,
    optimised_prior,
)
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

_PRIOR_CELLS = 2048
"""Up to here stating the bound for one prior takes some seconds."""

_EVEN_CELLS = 128
"""Beyond it no prior is tried where cells are alike: the even one is best."""

_INTERVAL_CELLS = 1024
"""Up to here a claim about intervals is stated within some seconds."""

_REARRANGED_CELLS = 512
"""Up to here every set size is searched for within 4 seconds. At ε = 6, where reports name few
cells, that proves 1.6 times what intervals do at 128 cells, and 40 where they prove nothing at 512;
at ε ≤ 4 intervals prove up to 6 % more, as they know priors."""

_LEAST_EPSILON = 1.5
"""Below this the trace bound leaves falling kernels nothing to gain."""


def floors(
    workload: Workload,
    epsilon: float,
    gram: Gram,
) -> Iterator[LowerBound]:
    """All floors that are quick to find: trace, prior, tables, order."""
    yield lower_bound(workload, epsilon, gram)
    scheme = scheme_of(gram)
    if _prior_is_tried(workload, scheme):
        yield optimised_prior(workload, epsilon)[0]

    if scheme is not None:
        yield _table_bound(workload, epsilon, gram, scheme)
    elif workload.size > 2 and epsilon > _LEAST_EPSILON:
        if workload.size <= _INTERVAL_CELLS:
            yield interval_bound(workload, epsilon)
        if workload.size <= _REARRANGED_CELLS:
            yield _rearrangement_bound(workload, epsilon)


def best_bound(workload: Workload, epsilon: float) -> LowerBound | None:
    """The highest of them, or None where none is known."""
    try:
        known = floors(workload, epsilon, table_gram(workload))
        return max(known, key=lambda bound: bound.variance)
    except TooLarge:
        return None


def even_bound(workload: Workload, epsilon: float) -> LowerBound | None:
    """The floor for people spread evenly, or None where no closed form is known."""
    try:
        return lower_bound(workload, epsilon, table_gram(workload))
    except NoisewrightError:
        return None


def prior_floor(workload: Workload, epsilon: float) -> LowerBound | None:
    """The highest floor over distributions tried, or None where trying them would take long."""
    if not _prior_is_tried(workload, scheme_of(table_gram(workload))):
        return None
    even = lower_bound(workload, epsilon)
    tried = optimised_prior(workload, epsilon)[0]
    return max(even, tried, key=lambda bound: bound.variance)


def _prior_is_tried(workload: Workload, scheme: Scheme | None) -> bool:
    most = _PRIOR_CELLS if scheme is None else _EVEN_CELLS
    return 2 <= workload.size <= most


def _table_bound(
    workload: Workload,
    epsilon: float,
    gram: Gram,
    scheme: Scheme,
) -> LowerBound:
    """The bound for cells that are alike, by a kernel over their relations."""
    # A search sees one scale.
    unit = float(scheme.eigenvalues.max()) or 1.0
    scaled = replace(scheme, eigenvalues=scheme.eigenvalues / unit)
    moment = unit * SchemeBound(scaled, epsilon).best()
    return off_the_total(workload, gram, moment / workload.size, "tables")


@lru_cache(maxsize=4)
def _rearrangement_bound(workload: Workload, epsilon: float) -> LowerBound:
    """The bound for ordered cells under people spread evenly, by sets of every size."""
    gram = table_gram(workload)
    m = gram.dense()
    unit = float(m.trace()) or 1.0
    moment = unit * OrderedBound(m / unit, epsilon).best()
    return off_the_total(workload, gram, moment / workload.size, "order")


@lru_cache(maxsize=4)
def interval_bound(workload: Workload, epsilon: float) -> LowerBound:
    """The bound for ordered cells as intervals, from the best of two priors on."""
    m = table_gram(workload).dense()
    unit = float(m.trace()) or 1.0
    prior = optimised_prior(workload, epsilon)[1]
    claim = best_claim(m / unit, epsilon, prior)
    squares = workload.gram().diagonal()
    return LowerBound(
        name="order",
        variance=unit * claim.floor(m / unit, epsilon),
        mean_square=float(claim.prior @ squares),
        size=workload.size,
        queries=workload.queries,
    )
