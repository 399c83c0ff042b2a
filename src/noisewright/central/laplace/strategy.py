"""The best of the strategies for pure privacy: products, whole tables, rows with signs."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from noisewright.central.baselines import counted_cells, refuses_cells, valued
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.products import (
    as_one_axis,
    largest_factor,
    refuses_dense,
)
from noisewright.central.laplace.replaced import MOST_CELLS, replaced_laplace
from noisewright.central.laplace.tables import laplace_tables, least_of_tables
from noisewright.central.laplace.weighted_products import laplace_product
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_laplace,
)
from noisewright.norm.kernel.factorization import without_offsets
from noisewright.privacy.exact.rounding import SCALE_LIMIT
from noisewright.privacy.least.least_noise import least_second_moment

# cells up to which whole tables and a dense strategy are both tried
_SMALL_DOMAIN = 512
_SETTLED = 1.001  # of the bound: no other strategy could do visibly better


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_laplace(problem):
        return reason
    if not problem.single_product and problem.by_tables and len(problem.sizes) > 1:
        return None
    return refuses_dense(largest_factor(problem))


def _plan(problem: CentralProblem) -> Proposal:
    options = _options(problem)
    if problem.neighbours == "replace-one":
        options = [_for_replaced(problem, option) for option in options]
        if 1 < problem.workload.size <= MOST_CELLS:
            shifted = without_offsets(problem.workload)
            most = _largest_sensitivity(problem)
            options.append(replaced_laplace(shifted, problem.sizes, problem.norm, most))

    if not problem.single_product and refuses_cells(problem) is None:
        options.append(valued(problem, *counted_cells(problem)))

    best = min(options, key=lambda option: option.value)
    tightest = max(options, key=lambda option: option.bound or 0.0)
    best = replace(best, bound=tightest.bound, certificate=tightest.certificate)

    return best.proposal(problem)


def _least(problem: CentralProblem) -> float:
    """What no plan goes below where nothing but weights on whole tables is tried, or zero.

    Noise on a grid in parts of a person is no less than on whole people, for whom it is the least.
    """
    if problem.single_product or not problem.by_tables or len(problem.sizes) < 2:
        return 0.0
    if problem.workload.size <= max(_SMALL_DOMAIN, MOST_CELLS):
        return 0.0
    return sqrt(least_second_moment(problem.privacy)) * problem.once(_least_of_tables)


def _least_of_tables(problem: CentralProblem) -> float:
    return least_of_tables(problem.terms, problem.sizes)


def _options(problem: CentralProblem) -> list[Candidate]:
    norm = problem.norm
    most = _largest_sensitivity(problem)
    added = problem.neighbours == "add-remove"
    whole = as_one_axis(problem.workload), (problem.workload.size,), norm, most, added
    options = []
    if problem.single_product:
        product = laplace_product(
            problem.terms[0],
            problem.sizes,
            norm,
            most,
            added,
        )
        if not problem.counts or product.value <= _SETTLED * (product.bound or 0.0):
            return [product]
        options.append(product)
    elif problem.workload.size <= _SMALL_DOMAIN:
        options.append(laplace_product(*whole))

    if len(problem.sizes) > 1 and problem.by_tables:
        options.append(laplace_tables(problem.terms, problem.sizes, norm))

    return options or [laplace_product(*whole)]


def _largest_sensitivity(problem: CentralProblem) -> float:
    """Grid steps that one neighbour may move the measurements: more needs too much noise."""
    assert problem.privacy.epsilon is not None
    doubled = 1 if problem.neighbours == "add-remove" else 2
    return SCALE_LIMIT * problem.privacy.epsilon / doubled


def _for_replaced(problem: CentralProblem, option: Candidate) -> Candidate:
    """A strategy for added people, valued for replaced ones; its bound does not hold for them."""
    joint = option.strategy.sizes != problem.sizes
    terms = [as_one_axis(problem.workload)] if joint else problem.terms
    value = unit_error(
        option.strategy,
        terms,
        problem.norm,
        1,
        "replace-one",
    )
    status = "planned for added people, under the sensitivity of replaced ones"
    return Candidate(
        option.strategy,
        value,
        None,
        "none",
        status,
        "replace-one",
    )


LAPLACE_STRATEGY = CentralMechanism(
    "laplace-strategy",
    "pure privacy: cells, sums and whole tables with optimised weights",
    _refuses,
    _plan,
    least=_least,
)
