"""The highest floor known under unbiased linear estimates of a workload, and what proves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from noisewright.errors import TooLarge
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.delsarte import SchemeBound
from noisewright.local.bounds.rearrangement import OrderedBound
from noisewright.local.bounds.schemes import Scheme, scheme_of
from noisewright.local.bounds.trace import LowerBound, lower_bound, off_the_total, optimised_prior
from noisewright.workload.base import Workload
from noisewright.workload.gram import Gram

PRIOR_CELLS = 128
"""Up to here the search for the best prior takes a fraction of a second."""

_ORDERED_CELLS = 256
_LEAST_EPSILON = 1.5  # below this the trace bound leaves falling kernels nothing to gain


@dataclass(frozen=True)
class Certificate:
    """A floor under unbiased linear estimates from any ε-LDP strategy, and its proof's name."""

    bound: LowerBound
    proof: str


def certificates(workload: Workload, epsilon: float, gram: Gram) -> Iterator[Certificate]:
    """All floors that are quick to find: trace, prior, tables, order."""
    yield Certificate(lower_bound(workload, epsilon, gram), "trace")
    if 2 <= workload.size <= PRIOR_CELLS:
        yield Certificate(optimised_prior(workload, epsilon)[0], "prior")
    scheme = scheme_of(gram)
    if scheme is not None:
        moment = _by_tables(scheme, epsilon) / workload.size
        yield Certificate(off_the_total(workload, gram, moment), "tables")
    elif 2 < workload.size <= _ORDERED_CELLS and epsilon > _LEAST_EPSILON:
        m = gram.dense()
        unit = float(m.trace()) or 1.0  # a search sees the same numbers at every scale
        moment = unit * OrderedBound(m / unit, epsilon).best() / workload.size
        yield Certificate(off_the_total(workload, gram, moment), "order")


def best_certificate(
    workload: Workload, epsilon: float, gram: Gram | None = None
) -> Certificate | None:
    """The largest of them, or None where none is known."""
    try:
        known = certificates(workload, epsilon, gram or table_gram(workload))
        return max(known, key=lambda certificate: certificate.bound.variance)
    except TooLarge:
        return None


def _by_tables(scheme: Scheme, epsilon: float) -> float:
    """The floor off the total that a scheme proves, found at one scale for all."""
    unit = float(scheme.eigenvalues.max()) or 1.0
    return (
        unit * SchemeBound(replace(scheme, eigenvalues=scheme.eigenvalues / unit), epsilon).best()
    )
