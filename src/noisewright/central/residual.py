"""Gaussian strategies for tables over many attributes: one block of contrasts per interaction.

Only the marginal tables of the blocks are ever counted; no step visits the cells of the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from noisewright.central.block import Block
from noisewright.central.bounds import lower_bound
from noisewright.central.families import compile_family
from noisewright.central.gaussian import Planned, fine_grid
from noisewright.central.mixed import MixedDesign, design
from noisewright.central.reweight import reweight
from noisewright.central.strategy import BlockStrategy
from noisewright.central.variance import unit_error
from noisewright.norm.marginals import residual_plan
from noisewright.workload import Identity, kron
from noisewright.workload.base import FloatArray
from noisewright.workload.terms import Term

_TOTAL_BITS = 34  # products of contrasts over a block's attributes, before they meet the counts
_MOST_BITS = 14
_FREE_NOISE = 1e-3  # of the strategy's scale, on a grid of 1/1024 people: the law needs some


def with_public_total(strategy: BlockStrategy) -> BlockStrategy:
    """The same strategy with hardly any noise on the number of people.

    No replaced person changes it, so under that relation it is public and costs nothing.
    """
    blocks = tuple(
        block if block.attributes else replace(block, noise=_FREE_NOISE)
        for block in strategy.blocks
    )
    return replace(strategy, blocks=blocks)


def is_counts(terms: Sequence[Term]) -> bool:
    """Whether every term is a table of plain counts."""
    return all(
        term.factors is not None and all(isinstance(f, Identity) for f in term.factors)
        for term in terms
    )


@dataclass(frozen=True, eq=False)
class Certified:
    """A design for product queries and a lower bound on the error of any other."""

    design: MixedDesign
    bound: float
    value: float


def certified_design(terms: Sequence[Term], sizes: tuple[int, ...], norm: float) -> Certified:
    """Axes and budget shares for product queries, queries that are none replaced by their cells."""
    products = [as_product(term, sizes) for term in terms]
    bits = _bits(max(len(term.attributes) for term in products))
    if norm == 2:
        found = design(compile_family(sizes, products), bits)
        return Certified(found, lower_bound(found), found.value)
    searched = reweight(products, sizes, norm, bits)
    return Certified(searched.design, searched.bound, searched.value)


def interaction_strategy(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    certified: Certified | None = None,
) -> Planned:
    """The strategy of independent interaction blocks, with its certificate.

    Exactly optimal at every norm for tables of counts; for other queries near-optimal at norm 2,
    and with tables reweighted above it. The certificate says how near.
    """
    if is_counts(terms):
        return _counts(terms, sizes, norm)
    planned = _mixed(certified or certified_design(terms, sizes, norm))
    if all(term.factors is not None for term in terms):
        return planned
    return _restated(planned, terms, norm)


def as_product(term: Term, sizes: Sequence[int]) -> Term:
    """A stand-in for queries that are no product: the cells they look at, as much variance."""
    if term.factors is not None:
        return term
    factors = tuple(Identity(sizes[i]) for i in term.attributes)
    weight = term.weight * float(np.sqrt(term.inner.gram().trace() / term.inner.size))
    return Term(weight, term.attributes, kron(list(factors)), factors)


def _restated(planned: Planned, terms: Sequence[Term], norm: float) -> Planned:
    """Value for the queries really asked; the bound is that of the products among them."""
    products = [term for term in terms if term.factors is not None]
    bound = None
    if products:
        known = interaction_strategy(products, planned.strategy.sizes, norm).unit_bound
        share = sum(t.queries for t in products) / sum(t.queries for t in terms)
        bound = None if known is None else known * share ** (1 / norm)
    value = unit_error(planned.strategy, terms, norm, 2)
    return replace(planned, unit_value=value, unit_bound=bound)


def _bits(attributes: int) -> int:
    """Bits per contrast that keep products over so many attributes exact in 64."""
    return max(3, min(_MOST_BITS, _TOTAL_BITS // max(1, attributes)))


def _mixed(found: Certified) -> Planned:
    design_ = found.design
    pairs = zip(design_.family.blocks, design_.shares, strict=True)
    return Planned(
        _strategy(design_, [design_.noise(block, share) for block, share in pairs]),
        found.value,
        min(found.bound, found.value),
        "weighted nuclear norm, product weights",
        f"axes optimised for {len(design_.family.blocks)} interactions; within a factor "
        f"{max(1.0, found.value / found.bound):.4f} of the best possible",
    )


def _counts(terms: Sequence[Term], sizes: tuple[int, ...], norm: float) -> Planned:
    """Noise from the exact solution: a block's projection has covariance σ_T² on cells."""
    solved = residual_plan(sizes, [t.attributes for t in terms], [t.weight for t in terms], norm)
    family = compile_family(sizes, terms)
    found = design(family)
    by_block = dict(zip(solved.blocks, np.sqrt(solved.block_variances), strict=True))
    noises = [float(by_block[b]) * _frame_scale(found, b) for b in family.blocks]
    return Planned(
        _strategy(found, noises),
        solved.value,
        solved.lower_bound,
        "closed form in the interaction basis" if norm == 2 else "dual weights per table",
        f"optimal for {len(terms)} tables" if solved.converged else "iteration limit",
    )


def _frame_scale(found: MixedDesign, block: tuple[int, ...]) -> float:
    """√ of the eigenvalue of ⊗CᵀC on the interaction: C is a tight frame."""
    sizes = [found.family.sizes[i] for i in block]
    lengths = [found.axis(i).length for i in block]
    return prod(float(np.sqrt(y * n / (n - 1))) for n, y in zip(sizes, lengths, strict=True))


def _strategy(found: MixedDesign, noises: Sequence[float] | FloatArray) -> BlockStrategy:
    blocks = []
    for attributes, noise in zip(found.family.blocks, noises, strict=True):
        factors = tuple(found.axis(i).contrasts for i in attributes)
        multiplier = fine_grid(factors)
        blocks.append(Block(attributes, factors, float(noise) * multiplier, multiplier))
    return BlockStrategy(found.family.sizes, tuple(blocks))
