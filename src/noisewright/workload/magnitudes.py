"""How large and how small queries are, told from the structure: squares must stay floats."""

from __future__ import annotations

from math import log10

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.workload.algebra import Kron, Stack, Weighted
from noisewright.workload.atoms import Explicit
from noisewright.workload.base import Workload
from noisewright.workload.marginals import Marginals, OnAttributes

LARGEST_MAGNITUDE = 100
"""Decimal digits before or after the point that the largest entry of a query may have."""


def check_magnitudes(asked: Workload) -> None:
    """Refuse entries whose squares are no floats: only how they compare matters anyway."""
    least, most = _magnitudes(asked)
    if least < -LARGEST_MAGNITUDE or most > LARGEST_MAGNITUDE:
        raise InvalidParameter(
            "workload",
            asked.brief(),
            f"has queries of size 10^{least:.0f} to 10^{most:.0f} and must keep to "
            f"10^±{LARGEST_MAGNITUDE}",
            "multiply all weights by one number: only how they compare matters",
        )


def _magnitudes(asked: Workload) -> tuple[float, float]:
    """The decimal logarithms of the largest entries of the smallest and of the largest queries."""
    if isinstance(asked, Weighted):
        least, most = _magnitudes(asked.inner)
        return least + log10(asked.weight), most + log10(asked.weight)
    if isinstance(asked, OnAttributes):
        return _magnitudes(asked.inner)
    if isinstance(asked, Kron):
        ends = [_magnitudes(factor) for factor in asked.factors]
        return sum(least for least, _ in ends), sum(most for _, most in ends)
    if isinstance(asked, Stack):
        ends = [_magnitudes(part) for part in asked.parts]
        return min(least for least, _ in ends), max(most for _, most in ends)
    if isinstance(asked, Explicit):
        sizes = abs(asked.matrix).max(axis=1)
        sizes = np.ravel(sizes if asked.sparse is None else sizes.toarray())
        logs = np.log10(sizes[sizes > 0])
        return float(logs.min(initial=0.0)), float(logs.max(initial=0.0))
    if isinstance(asked, Marginals):
        ends = [_magnitudes(base) for base in asked.bases]
        logs = np.log10(asked.weights)
        low, high = sum(min(0.0, e[0]) for e in ends), sum(max(0.0, e[1]) for e in ends)
        return float(logs.min()) + low, float(logs.max()) + high
    return 0.0, 0.0
