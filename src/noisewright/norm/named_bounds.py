"""Lower bounds on error, each by its name, and what each is a bound on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from math import prod

import numpy as np

from noisewright.errors import TooLarge
from noisewright.norm.exact.prefix import prefix_nuclear_bound
from noisewright.norm.factorize import Factorization
from noisewright.norm.kernel.certificate import (
    QUICK_ENTRIES,
    inward,
    nuclear_from_gram,
    nuclear_from_matrix,
    nuclear_of_marginals,
)
from noisewright.norm.kernel.problems import LARGEST_EIGENPROBLEM
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron, Weighted
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.kinds.parity import Parity


@dataclass(frozen=True)
class Bound:
    """A lower bound: its value in the units of `Factorization.value`, and what it is a bound on.

    `value` is None when the bound is known only up to an unknown constant.
    """

    name: str
    value: float | None
    statement: str


def lower_bounds(factorization: Factorization) -> tuple[Bound, ...]:
    """Every bound that applies to a factorization's workload, strongest first."""
    best = Bound(
        factorization.certificate.name,
        factorization.lower_bound,
        "no factorization W = RA has a smaller error: proved by the dual weights found",
    )
    mean = {2.0: "root mean squared", math.inf: "largest"}.get(factorization.norm, "")
    independent = Bound(
        "data-independent mechanisms",
        None,
        f"noise that does not depend on the data, of whatever law, has a {mean} error of at least "
        f"√V·{best.value:.6g} counts, and so has any mechanism on its worst data; V is "
        f"1/(2 sinh²(ε/2)) for pure ε, 1/(e^2ρ − 1) for ρ-zCDP; `plan` tells it for a budget",
    )
    bounds = [best]
    if factorization.neighbours == "add-remove":
        bounds += _schatten(factorization)

    return (*bounds, independent) if mean else tuple(bounds)


def _schatten(factorization: Factorization) -> list[Bound]:
    workload = factorization.workload
    try:
        nuclear = nuclear_norm(workload)
    except TooLarge:
        return []

    value = inward(nuclear / math.sqrt(workload.size) / math.sqrt(workload.queries), 4)
    statement = (
        "‖W‖_*/√(cells·queries): the certificate at uniform weights, for every norm"
    )
    return [Bound("Schatten-1", value, statement)]


@singledispatch
def nuclear_norm(workload: Workload) -> float:
    """A number just below the sum of the workload's singular values."""
    family = workload.structure.tables
    sizes = workload.structure.sizes
    if family is not None:
        weights = np.array([part.weight for part in family])
        tables = [part.attributes for part in family]
        mean = nuclear_of_marginals(sizes, tables, weights, np.ones(len(family)))
        return mean * math.sqrt(workload.size)

    if workload.size > LARGEST_EIGENPROBLEM:
        raise TooLarge(
            f"the spectrum of {workload.brief()} has no closed form at this size"
        )
    if workload.queries * workload.size <= QUICK_ENTRIES:
        return nuclear_from_matrix(workload.dense())

    return nuclear_from_gram(workload.gram().dense())


@nuclear_norm.register
def _nuclear_norm_of_identity(workload: Identity) -> float:
    return float(workload.size)


@nuclear_norm.register
def _nuclear_norm_of_total(workload: Total) -> float:
    return math.sqrt(workload.size)


@nuclear_norm.register
def _nuclear_norm_of_parity(workload: Parity) -> float:
    return workload.queries * math.sqrt(workload.size)


@nuclear_norm.register
def _nuclear_norm_of_prefix(workload: Prefix) -> float:
    return prefix_nuclear_bound(workload.size) * workload.size


@nuclear_norm.register
def _nuclear_norm_of_ranges(workload: Ranges) -> float:
    # The Gram matrix is n + 1 times the inverse of the second difference with fixed ends.
    n = workload.size
    angles = np.arange(1, n + 1) * (math.pi / (2 * n + 2))
    return inward(math.sqrt(n + 1) * math.fsum((0.5 / np.sin(angles)).tolist()), 8)


@nuclear_norm.register
def _nuclear_norm_of_kron(workload: Kron) -> float:
    factors = workload.factors
    return inward(prod(map(nuclear_norm, factors)), len(factors))


@nuclear_norm.register
def _nuclear_norm_of_weighted(workload: Weighted) -> float:
    return inward(workload.weight * nuclear_norm(workload.inner), 1)


@nuclear_norm.register
def _nuclear_norm_of_on_attributes(workload: OnAttributes) -> float:
    repeats = workload.size // workload.inner.size
    return inward(math.sqrt(repeats) * nuclear_norm(workload.inner), 2)
