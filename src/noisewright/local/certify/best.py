"""The highest floor known under unbiased linear estimates of a workload, and what proves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from noisewright.errors import TooLarge
from noisewright.local.bound import LowerBound, lower_bound, optimised_prior
from noisewright.local.certify.delsarte import SchemeBound
from noisewright.local.certify.ordered import OrderedBound
from noisewright.local.certify.schemes import scheme_of
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
        floor = SchemeBound(scheme, epsilon).best()
        yield Certificate(_off_the_total(workload, gram, scheme.eigenvalues[0], floor), "tables")
    elif 2 < workload.size <= _ORDERED_CELLS and epsilon > _LEAST_EPSILON:
        m = gram.dense()
        floor = OrderedBound(m, epsilon).best()
        yield Certificate(_off_the_total(workload, gram, m.sum() / len(m), floor), "order")


def best_certificate(
    workload: Workload, epsilon: float, gram: Gram | None = None
) -> Certificate | None:
    """The largest of them, or None where none is known."""
    try:
        found = certificates(workload, epsilon, gram or workload.gram())
        return max(found, key=lambda certificate: certificate.bound.variance)
    except TooLarge:
        return None


def _off_the_total(workload: Workload, gram: Gram, total: float, floor: float) -> LowerBound:
    """A floor under tr(MX⁻¹) off the total, which itself is known without error."""
    n = workload.size
    mean_square = gram.trace() / n
    return LowerBound(float(np.float64(total + floor)) / n, mean_square, n, workload.queries)
