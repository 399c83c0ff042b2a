"""Simple strategies for unions of products: one product for all parts, or each part by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.grid import USUAL_BITS, bits_each
from noisewright.central.blocks.quantise import rounded
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.mixed import optimal_strategy
from noisewright.central.gaussian.products import Planned, fine_grid, product_strategy
from noisewright.workload.base import FloatArray
from noisewright.workload.terms import Term

MOST_PARTS = 64
"""Parts up to which each gets a strategy of its own."""

LARGEST_PRODUCT = 2**20
"""Cells of the attributes asked up to which one product measures them all."""

_MOST_BITS = 14
_SPARE_BITS = 6  # shares of the budget make noise larger


def split_strategy(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str,
    total_bits: int = USUAL_BITS,
) -> Planned:
    """Every part its own optimal strategy, and the share of the budget that makes the whole best.

    With s_k the share of the squared sensitivity, part k has p-th power error P_k·s_k^(-p/2), so
    the best shares go as P_k^(2/(p+2)); at p = ∞, as the squares of the largest errors.
    """
    parts = [product_strategy(term, sizes, norm, total_bits - _SPARE_BITS) for term in terms]
    errors = np.array([part.unit_value for part in parts])
    queries = np.array([term.queries for term in terms], dtype=np.float64)
    powers = errors**2 if np.isinf(norm) else (queries * errors**norm) ** (2 / (norm + 2))
    blocks = []
    for part, share in zip(parts, powers / powers.sum(), strict=True):
        (block,) = part.strategy.blocks
        length = part.strategy.sensitivity(2, neighbours)
        blocks.append(replace(block, noise=max(length, 1e-9) / float(np.sqrt(share))))
    strategy = BlockStrategy(sizes, tuple(blocks), separate=True)
    bounds = [part.unit_bound or 0.0 for part in parts]
    alone = np.array(bounds) * (queries / queries.sum()) ** (1 / norm)
    return Planned(
        strategy,
        unit_error(strategy, terms, norm, 2, neighbours),
        float(alone.max()) if neighbours == "add-remove" else None,
        "the hardest part alone",
        f"{len(parts)} parts answered separately: they need not agree with each other",
        neighbours,
    )


def bounding_product(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str,
    total_bits: int = USUAL_BITS,
) -> Planned:
    """One product of strategies, each the best for everything that is asked of its attribute."""
    used = sorted({i for term in terms for i in term.attributes})
    bits = bits_each(total_bits, len(used), _MOST_BITS)
    importance = [term.weight**2 * float(term.inner.gram().trace()) for term in terms]
    factors = []
    for i in used:
        gram = np.zeros((sizes[i], sizes[i]))
        for term, share in zip(terms, importance, strict=True):
            gram += share * _scaled_gram(term, i, sizes[i])
        factors.append(rounded(optimal_strategy(gram), bits))
    block = Block(tuple(used), tuple(factors), multiplier=fine_grid(factors))
    strategy = BlockStrategy(sizes, (block,))
    value = unit_error(strategy, terms, norm, 2, neighbours)
    return Planned(strategy, value, None, "none", "one product for everything asked", neighbours)


def _scaled_gram(term: Term, attribute: int, size: int) -> FloatArray:
    """What a term asks of one attribute, scaled to trace one; its total where it asks nothing."""
    if attribute not in term.attributes or term.factors is None:
        return np.full((size, size), 1.0 / size)
    gram = term.factors[term.attributes.index(attribute)].gram().dense()
    return np.asarray(gram / np.trace(gram))


def refuses_union(terms: Sequence[Term], sizes: Sequence[int]) -> str | None:
    """Why these are no parts to be planned together by simple means, or None."""
    if len(terms) < 2:
        return "there is one part only"
    if any(term.factors is None for term in terms):
        return "some queries are no product over attributes"
    if len(terms) > MOST_PARTS:
        return f"there are {len(terms)} parts (limit {MOST_PARTS})"
    return None


def cells_of(terms: Sequence[Term], sizes: Sequence[int]) -> int:
    """Cells of the table of all attributes that are asked for."""
    return prod(sizes[i] for i in {i for term in terms for i in term.attributes})
