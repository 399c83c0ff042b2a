"""Gaussian strategies for tables over many attributes: one block of contrasts per interaction.

For tables of counts this is the residual basis of [008]. Only the marginal tables of the blocks are
ever counted; no step visits the cells of the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import JOINT_LIMIT, unit_error
from noisewright.central.gaussian.certified import (
    FREE_NOISE,
    Certified,
    certified,
    certified_design,
    replaced_design,
    replaced_precisions,
)
from noisewright.central.gaussian.product_bounds import lower_bound
from noisewright.central.gaussian.product_designs import (
    MixedDesign,
    compile_family,
    design,
)
from noisewright.central.gaussian.products import DENSE_CELLS, fine_grid
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_gaussian,
)
from noisewright.norm.exact.residual_basis import residual_plan
from noisewright.workload.structure import Term, as_counts

# products of more have too few bits per factor; interactions may be exact
_MANY_FACTORS = 4


def interaction_strategy(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    start: Certified | None = None,
    neighbours: str = "add-remove",
) -> Candidate:
    """The strategy of independent interaction blocks, with its certificate.

    The best linear strategy at every norm for tables of counts, up to the solver's tolerance; near
    it for other queries, with tables reweighted above norm 2. The certificate says how near.
    """
    counts = as_counts(terms)
    if counts is not None:
        return _counts(counts, sizes, norm, neighbours)

    start = start or certified_design(terms, sizes, norm, neighbours)
    best = (
        _mixed(start) if neighbours == "add-remove" else _replaced(start, terms, norm)
    )
    products = all(term.factors is not None for term in terms)

    return best if products else _restated(best, terms, norm)


def _restated(
    best: Candidate,
    terms: Sequence[Term],
    norm: float,
) -> Candidate:
    """Value for the queries really asked; the bound is that of the products among them."""
    products = [term for term in terms if term.factors is not None]
    bound = None
    if products:
        sizes = best.strategy.sizes
        neighbours = best.neighbours
        known = interaction_strategy(
            products,
            sizes,
            norm,
            None,
            neighbours,
        ).bound
        share = sum(t.queries for t in products) / sum(t.queries for t in terms)
        bound = None if known is None else known * share ** (1 / norm)

    value = unit_error(
        best.strategy,
        terms,
        norm,
        2,
        best.neighbours,
    )
    return replace(best, value=value, bound=bound)


def _mixed(start: Certified) -> Candidate:
    mixed = start.design
    pairs = zip(mixed.family.blocks, mixed.shares, strict=True)
    return Candidate(
        _strategy(mixed, [mixed.noise(block, share) for block, share in pairs]),
        start.value,
        start.bound,
        "weighted nuclear norm, product weights",
        f"axes optimised for {len(mixed.family.blocks)} interactions; within a factor "
        f"{max(1.0, start.value / start.bound):.4f} of the lower bound",
    )


def _replaced(
    start: Certified,
    terms: Sequence[Term],
    norm: float,
) -> Candidate:
    """For replaced people: the better of two sorts of axes, and the better of their bounds."""
    other = replaced_design(start.design, start.bits)
    designs = [start.design] if other is None else [start.design, other]
    strategies = [_replaced_strategy(mixed) for mixed in designs]
    values = [
        unit_error(
            s,
            terms,
            norm,
            2,
            "replace-one",
        )
        for s in strategies
    ]
    best = int(np.argmin(values))
    bound: float | None = start.bound
    if other is not None and norm == 2:
        bound = max(start.bound, lower_bound(other, "replace-one"))

    if any(term.factors is None for term in terms):
        # it is of the cells that stand in for queries which are no product
        bound = None

    return Candidate(
        strategies[best],
        values[best],
        bound,
        "nuclear norm weighted over pairs of cells",
        f"axes optimised for {len(start.design.family.blocks)} interactions; the number of people "
        f"is public",
        "replace-one",
    )


def _replaced_strategy(mixed: MixedDesign) -> BlockStrategy:
    """The total for free, shares of the budget for what replaced people can change."""
    tables = mixed.family.blocks
    places = [k for k, table in enumerate(tables) if table]
    lengths = np.array([mixed.noise(tables[k], 1.0) ** 2 for k in places])
    gains = mixed.variances[places] / lengths
    units = [Block(tables[k], _contrasts(mixed, tables[k])) for k in places]
    precisions = replaced_precisions(units, gains)
    if precisions is None:
        precisions = np.sqrt(gains / lengths)

    noises = np.full(len(tables), FREE_NOISE)
    noises[places] = 1 / np.sqrt(precisions)
    return _unit_scaled(_strategy(mixed, noises))


def _unit_scaled(strategy: BlockStrategy) -> BlockStrategy:
    """Noise scaled to sensitivity one under replaced people, and hardly any on their number."""
    scale = strategy.sensitivity(2, "replace-one")
    return strategy.with_total(scale, Block((), (), FREE_NOISE))


def _counts(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str,
) -> Candidate:
    """Noise from the exact solution: a block's projection has covariance σ_T² on cells."""
    tables = [term.attributes for term in terms]
    weights = [term.weight for term in terms]
    solved = residual_plan(sizes, tables, weights, norm, neighbours=neighbours)
    mixed = design(compile_family(sizes, terms))
    deviations = np.sqrt(solved.block_variances)
    noises = dict.fromkeys(mixed.family.blocks, FREE_NOISE)

    for block, deviation in zip(solved.blocks, deviations, strict=True):
        noises[block] = float(deviation) * _frame_scale(mixed, block)

    strategy = _strategy(mixed, list(noises.values()))
    value = solved.value
    if neighbours == "replace-one":
        value *= strategy.sensitivity(2, neighbours)
        strategy = _unit_scaled(strategy)

    certificate = "dual weights per table"
    if norm == 2:
        certificate = "closed form in the interaction basis"

    status = "iteration limit"
    if solved.converged:
        status = f"best linear strategy for {len(terms)} tables"

    return Candidate(
        strategy,
        value,
        solved.lower_bound,
        certificate,
        status,
        neighbours,
    )


def _frame_scale(mixed: MixedDesign, block: tuple[int, ...]) -> float:
    """√ of the eigenvalue of ⊗CᵀC on the interaction: C is a tight frame."""
    sizes = [mixed.family.sizes[i] for i in block]
    lengths = [mixed.axis(i).length for i in block]
    return prod(
        float(np.sqrt(y * n / (n - 1))) for n, y in zip(sizes, lengths, strict=True)
    )


def _strategy(
    mixed: MixedDesign, noises: Sequence[float] | FloatArray
) -> BlockStrategy:
    blocks = []
    for attributes, noise in zip(mixed.family.blocks, noises, strict=True):
        factors = _contrasts(mixed, attributes)
        multiplier = fine_grid(factors)
        blocks.append(
            Block(
                attributes,
                factors,
                float(noise) * multiplier,
                multiplier,
            )
        )

    return BlockStrategy(mixed.family.sizes, tuple(blocks))


def _contrasts(mixed: MixedDesign, attributes: tuple[int, ...]) -> tuple[IntArray, ...]:
    return tuple(mixed.axis(i).contrasts for i in attributes)


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_gaussian(problem):
        return reason
    if not problem.by_tables:
        return f"some queries are no product over attributes and see over {JOINT_LIMIT} cells"
    if problem.neighbours == "replace-one":  # the total is public, whatever the product
        return None
    if len(problem.sizes) < 2:
        return "there is one attribute only; a dense strategy is the best linear one"
    if _found_by_factors(problem):
        return "of a single product the best linear strategy is found factor by factor"

    return None


def _found_by_factors(problem: CentralProblem) -> bool:
    """Whether one product is asked whose factors can all be measured finely enough."""
    if not problem.single_product:
        return False
    (term,) = problem.terms
    if problem.structure.tables is not None:
        return max((f.size for f in term.factors or ()), default=1) <= DENSE_CELLS
    return not problem.counts and len(term.attributes) < _MANY_FACTORS


def _plan(problem: CentralProblem) -> Proposal:
    start = None if problem.counts else problem.once(certified)
    best = interaction_strategy(
        problem.shifted_terms,
        problem.sizes,
        problem.norm,
        start,
        problem.neighbours,
    )
    return best.proposal(problem)


RESIDUAL = CentralMechanism(
    "residual",
    "tables over many attributes: independent noise on every interaction",
    _refuses,
    _plan,
)
