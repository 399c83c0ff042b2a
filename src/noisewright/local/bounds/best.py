"""The highest floor known under unbiased linear estimates of a workload, and what proves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from noisewright.errors import NoisewrightError, TooLarge
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.delsarte import SchemeBound, scheme_of
from noisewright.local.bounds.rearrangement import OrderedBound
from noisewright.local.bounds.trace import LowerBound, lower_bound, off_the_total, optimised_prior
from noisewright.workload.base import Workload
from noisewright.workload.gram import Gram

_PRIOR_CELLS = 128  # up to here the search for the best prior takes a fraction of a second
_ORDERED_CELLS = 256
_LEAST_EPSILON = 1.5  # below this the trace bound leaves falling kernels nothing to gain


def floors(workload: Workload, epsilon: float, gram: Gram) -> Iterator[LowerBound]:
    """All floors that are quick to find: trace, prior, tables, order."""
    yield lower_bound(workload, epsilon, gram)
    if 2 <= workload.size <= _PRIOR_CELLS:
        yield optimised_prior(workload, epsilon)[0]
    scheme = scheme_of(gram)  # a search sees the same numbers at every scale
    if scheme is not None:
        unit = float(scheme.eigenvalues.max()) or 1.0
        moment = SchemeBound(replace(scheme, eigenvalues=scheme.eigenvalues / unit), epsilon).best()
        yield off_the_total(workload, gram, unit * moment / workload.size, "tables")
    elif 2 < workload.size <= _ORDERED_CELLS and epsilon > _LEAST_EPSILON:
        m = gram.dense()
        unit = float(m.trace()) or 1.0
        moment = OrderedBound(m / unit, epsilon).best()
        yield off_the_total(workload, gram, unit * moment / workload.size, "order")


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
    if not 2 <= workload.size <= _PRIOR_CELLS:
        return None
    bounds = lower_bound(workload, epsilon), optimised_prior(workload, epsilon)[0]
    return max(bounds, key=lambda bound: bound.variance)
