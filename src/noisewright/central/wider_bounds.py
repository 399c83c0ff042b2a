"""What no private mechanism goes below, beyond linear strategies under one law of noise.

Everything rests on one step. Let Σ be the second moments of a mechanism's errors, and c such that
θᵀΣθ ≥ c·(θᵀw)² for every direction θ and every change w that one person makes to the answers: w is
a column of W, or the difference of two. Then Σ ⪰ c·wwᵀ, so W = Σ^½·(Σ^-½ W) is a factorization
whose columns are at most 1/√c long, and its error cannot be below that of the best factorization,
γ_(p)(W): the p-th mean over queries of root mean square errors is at least √c·queries^(-1/p)·γ_(p).

- *Any noise that does not depend on the data*: θᵀZ hides a change of θᵀw, so c is the least second
  moment of noise that hides a change of one (`privacy.least_noise`).
- *Any mechanism whatever, on its worst data set*: add a random table z, even over a large box, to
  the data, and take Wz off the answers. That is as private, no worse than the worst table, and its
  noise depends on the data ever less as the box grows; its limit is as above, with the same c. For
  replaced people z has a fixed number of them.
- *Any unbiased mechanism*: by Hammersley, Chapman and Robins c = 1/χ², at the very table: under
  replace-one neighbours only persons who are there can be replaced.

Under pure ε and added people, taking cells two by two is sharper for noise (`grouped_bound`).
The bounds follow from workload, neighbours, norm and budget alone, whatever the mechanism. Means of
higher moments of the errors are no smaller.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod, sqrt

from noisewright.central.gaussian.products import DENSE_CELLS
from noisewright.central.gaussian.residual import interaction_strategy
from noisewright.central.grouped_bound import grouped_bound
from noisewright.central.problem import CentralProblem
from noisewright.errors import TooLarge
from noisewright.norm.factorize import factorize
from noisewright.norm.kernel.certificate import inward
from noisewright.norm.named_bounds import nuclear_norm
from noisewright.privacy.least_noise import (
    least_second_moment,
    least_unbiased_variance,
)
from noisewright.solution import BoundClass
from noisewright.workload import Workload
from noisewright.workload.kinds.algebra import kron
from noisewright.workload.kinds.atoms import Prefix, Ranges, Total
from noisewright.workload.structure import Structure

Bounds = tuple[tuple[BoundClass, float], ...]

_SMALL = 64  # cells of a problem that is solved to where no printed digit changes
_TOLERANCES = (1e-6, 2e-4)  # a bound less sharp by so little
# cells of a union of workloads that is solved within seconds, by norm
_DENSE_UNION = {2.0: 512}
_DENSE_OTHERWISE = 256  # the same for other means, whose row weights are searched too
_PAIRED_CELLS = 128  # the same for pairs of cells
_QUICK_ENTRIES = 2**18  # of W, up to which other norms than 2 are solved for themselves
_MOST_PARTS = 64  # of a union that is bounded by interactions
_GROUPED = 256  # cells that are taken two by two
_PAIRED_EPSILONS = (
    0.75,
    3.0,
)  # elsewhere that gains little, or takes long


def wider_bounds(problem: CentralProblem, rows: int = 1) -> Bounds:
    """Every bound that is known of the problem, by its class; none where none is known.

    Where up to so many `rows` of a person count, all of them may be in one cell.
    """
    if not _only_counts(problem):
        return ()

    least = least_factorization(
        problem.workload,
        problem.sizes,
        float(problem.norm),
        problem.neighbours,
    )
    noise = least_second_moment(problem.privacy)
    unbiased = least_unbiased_variance(problem.privacy)
    pairs = _by_pairs(problem) if least and noise else 0.0
    added = problem.neighbours == "add-remove"
    at_tables = BoundClass.ANY_UNBIASED if added else BoundClass.ANY_UNBIASED_MIXED
    constants = (
        (BoundClass.ANY_NOISE, noise, pairs),
        (at_tables, unbiased, 0.0),
        (BoundClass.ANY_MECHANISM, noise, pairs),
    )

    return tuple(
        (limited, inward(rows * max(sqrt(constant) * least, other), 4))
        for limited, constant, other in constants
        if constant and least
    )


def _by_pairs(problem: CentralProblem) -> float:
    """The bound by cells two by two, where it is quick; a mean of higher powers is no smaller."""
    privacy = problem.privacy
    workload = problem.workload
    if (
        privacy.kind != "pure"
        or problem.neighbours != "add-remove"
        or workload.size > _GROUPED
    ):
        return 0.0

    assert privacy.epsilon is not None
    if not _PAIRED_EPSILONS[0] <= privacy.epsilon <= _PAIRED_EPSILONS[1]:
        return 0.0

    return least_by_pairs(workload, privacy.epsilon)


@lru_cache(maxsize=32)
def least_by_pairs(workload: Workload, epsilon: float) -> float:
    """At most the root mean square error of any noise that is ε-private for added people."""
    known = factorize(workload, tolerance=_TOLERANCES[1]).certificate
    total = grouped_bound(workload.gram().dense(), known.column_weights(), epsilon)
    return 0.0 if total is None else sqrt(total / workload.queries)


def _only_counts(problem: CentralProblem) -> bool:
    """Whether one person changes the answers by a column of W: no sums, no impossible cells."""
    if problem.domain is not None and problem.domain.boxes:
        return False
    workload = problem.workload
    return workload.counts_only


@lru_cache(maxsize=32)
def least_factorization(
    workload: Workload,
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str,
) -> float | None:
    """At most queries^(-1/p)·γ_(p)(W), for the sensitivity of these neighbours; None if unknown.

    Proved by feasible dual points. What would take minutes is not computed.
    """
    structure = Structure(workload, sizes)
    try:
        if structure.tables is not None:
            return _solved(workload, norm, neighbours)
        if (
            len(structure.terms) == 1
            and (factors := structure.terms[0].factors) is not None
        ):
            weight = structure.terms[0].weight
            return inward(weight * _of_product(factors, norm, neighbours), 1)
        quick = _DENSE_UNION.get(norm, _DENSE_OTHERWISE)
        if workload.size <= (quick if neighbours == "add-remove" else _PAIRED_CELLS):
            return _solved(workload, norm, neighbours)
        if len(structure.terms) > _MOST_PARTS or any(
            t.factors is None for t in structure.terms
        ):
            return None
        return interaction_strategy(
            structure.terms,
            sizes,
            norm,
            None,
            neighbours,
        ).bound
    except TooLarge:
        return None


def _of_product(
    factors: tuple[Workload, ...],
    norm: float,
    neighbours: str,
) -> float:
    """For added people factor by factor, bounds multiplied; for replaced ones the whole."""
    if neighbours == "replace-one":
        whole = kron(list(factors)) if factors else Total(1)
        if isinstance(whole, Prefix) and whole.size > _PAIRED_CELLS:
            return _of_moved(whole, norm)
        if len(factors) == 1 and whole.size > _PAIRED_CELLS:
            raise TooLarge(f"{whole.brief()} has too many pairs of cells")
        return _solved(whole, norm, neighbours)
    return inward(
        prod(_of_factor(factor, norm) for factor in factors),
        len(factors),
    )


def _of_moved(prefix: Prefix, norm: float) -> float:
    """From those whom a replaced person leaves last: in all answers but that, they are added."""
    others = prefix.size - 1
    return inward(
        _of_factor(Prefix(others), norm) * (others / prefix.size) ** (1 / norm),
        2,
    )


def _of_factor(factor: Workload, norm: float) -> float:
    if (
        norm > 2
        and factor.queries * factor.size > _QUICK_ENTRIES
        and not isinstance(factor, Prefix)
    ):
        norm = 2.0  # a higher mean is no smaller

    if factor.size <= DENSE_CELLS or not isinstance(factor, Prefix | Ranges):
        return _solved(factor, norm, "add-remove")

    return inward(nuclear_norm(factor) / sqrt(factor.size * factor.queries), 4)


def _solved(
    workload: Workload,
    norm: float,
    neighbours: str,
) -> float:
    tolerance = _TOLERANCES[workload.size > _SMALL]
    return factorize(
        workload,
        norm,
        neighbours=neighbours,
        tolerance=tolerance,
    ).lower_bound
