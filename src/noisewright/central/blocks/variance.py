"""Exact variances of all answers from a block strategy and the law of its noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.block import Block, along_axes
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.errors import TooLarge
from noisewright.norm.kernel.factorization import without_offsets
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.workload import Explicit, Workload
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.linear.tensor import (
    column_kron,
    kron_all,
    mean_error,
)
from noisewright.workload.structure import Term

_MOST_QUERIES = 2**28  # whose errors are listed: 2 GB of them

JOINT_LIMIT = 4096
"""Cells up to which queries that are no product over attributes get exact variances."""


def query_variances(
    strategy: BlockStrategy,
    terms: Sequence[Term],
    law: NoiseLaw,
) -> list[FloatArray]:
    """Variance of every answer, term by term: independent blocks add up."""
    return _with_noise(
        strategy,
        terms,
        [noise.variance for noise in strategy.laws(law)],
    )


def _with_noise(
    strategy: BlockStrategy,
    terms: Sequence[Term],
    variances: Sequence[float],
) -> list[FloatArray]:
    """Variance of every answer, when every block's noise has its own."""
    queries = sum(term.queries for term in terms)
    if queries > _MOST_QUERIES:
        raise TooLarge(
            f"{queries:.3g} queries have as many errors; they are listed up to {_MOST_QUERIES}; "
            f"ask for fewer at once"
        )

    pairs = zip(strategy.blocks, variances, strict=True)
    units = [(variance / np.asarray(block.scales) ** 2) for block, variance in pairs]
    quadratics = _Quadratics(strategy)
    if strategy.overlap is not None:
        components = strategy.overlap.component_variances(
            [float(unit) for unit in units]
        )
        plain = [_overlapping(term, components, quadratics) for term in terms]
    else:
        plain = [_term_variances(strategy, term, units, quadratics) for term in terms]

    # An answer that is free of noise has a variance of zero only up to rounding.
    return [
        term.weight**2 * np.maximum(v, 0.0)
        for term, v in zip(terms, plain, strict=True)
    ]


def unit_error(
    strategy: BlockStrategy,
    terms: Sequence[Term],
    norm: float,
    order: int,
    neighbours: str = "add-remove",
) -> float:
    """p-th mean of the answers' deviations, in deviations of continuous noise at sensitivity one.

    A total that nobody can change needs no noise.
    """
    free = neighbours == "replace-one"
    variances = [
        b.noise**2 if b.attributes or not free else 0.0 for b in strategy.blocks
    ]
    std = np.sqrt(np.concatenate(_with_noise(strategy, terms, variances)))
    return mean_error(std, norm) * strategy.sensitivity(order, neighbours)


def _term_variances(
    strategy: BlockStrategy,
    term: Term,
    units: Sequence[FloatArray],
    quadratics: _Quadratics,
) -> FloatArray:
    total = np.zeros(term.queries)
    for number in strategy.seen_by(term):
        block = strategy.blocks[number]
        if block.weights is not None:
            total += _weighted_rows(strategy, block, term, units[number])
            continue

        scale = units[number] * quadratics.outside(block, term.attributes)
        total += scale * _of_term(
            term,
            partial(quadratics.covariance, block),
            partial(quadratics.of_factor, block),
        )

    return total


def _of_term(
    term: Term,
    covariance: Callable[[int], FloatArray],
    of_factor: Callable[[int, Workload], FloatArray],
) -> FloatArray:
    """Variances under a product of covariances, one per attribute: products of those of factors."""
    if term.factors is None:
        _check_joint(term.inner)
        joint = kron_all([covariance(i) for i in term.attributes])
        return term.inner.row_quadratics(joint)

    parts = [of_factor(i, factor) for i, factor in term.by_attribute.items()]
    return column_kron(parts)


def _weighted_rows(
    strategy: BlockStrategy,
    block: Block,
    term: Term,
    units: FloatArray,
) -> FloatArray:
    """Variances from a block whose rows have variances of their own."""
    inverses = strategy.inverses(block)
    used = sorted({*block.attributes, *term.attributes})
    back = {i: strategy.reference(i)[:, None] for i in used} | dict(inverses)

    for i in used:
        if i not in term.attributes:
            back[i] = back[i].sum(axis=0, keepdims=True)

    if term.factors is None:
        _check_joint(term.inner)
        joint = kron_all([back[i] for i in used])
        return term.inner.row_quadratics((joint * units) @ joint.T)

    asked = term.by_attribute
    images = [asked[i].matvec(back[i]) if i in asked else back[i] for i in used]
    squares = [np.asarray(image) ** 2 for image in images]

    return along_axes(squares, units)


def _overlapping(
    term: Term,
    components: Mapping[tuple[int, ...], float],
    quadratics: _Quadratics,
) -> FloatArray:
    """Variances from whole tables: interactions of cells, each with a variance of its own."""
    total = np.zeros(term.queries)
    for part in subsets(term.attributes):
        if part not in components:  # attributes of one value have no interactions
            continue
        total += components[part] * _of_term(
            term,
            partial(quadratics.interaction, part),
            partial(quadratics.of_interaction, part),
        )

    return total


class _Quadratics:
    """What a block's unit noise gives to the queries on one attribute; each is computed once."""

    def __init__(self, strategy: BlockStrategy) -> None:
        self.strategy = strategy
        self._covariances: dict[tuple[int, int], FloatArray] = {}
        self._parts: dict[tuple[int, int, int], FloatArray] = {}

    def _measures(
        self,
        block: Block,
        attribute: int,
    ) -> int:
        """A name for the matrix that measures the attribute; zero where the block sums it out."""
        return id(block.matrices[attribute]) if attribute in block.matrices else 0

    def covariance(
        self,
        block: Block,
        attribute: int,
    ) -> FloatArray:
        """Covariance over the attribute's cells."""
        key = (attribute, self._measures(block, attribute))
        if key not in self._covariances:
            inverse = self.strategy.reference(attribute)[:, None]
            if attribute in block.matrices:
                inverse = self.strategy.inverses(block)[attribute]
            self._covariances[key] = inverse @ inverse.T

        return self._covariances[key]

    def of_factor(
        self,
        block: Block,
        attribute: int,
        factor: Workload,
    ) -> FloatArray:
        """Variances of all queries on the attribute."""
        key = (
            attribute,
            self._measures(block, attribute),
            id(factor),
        )
        if key not in self._parts:
            self._parts[key] = self._variances(block, attribute, factor)

        return self._parts[key]

    def _variances(
        self,
        block: Block,
        attribute: int,
        factor: Workload,
    ) -> FloatArray:
        """Explicit rows from their images, whose squares keep twice the digits of a product.

        Contrasts see no constants, so large ones are left out before they round.
        """
        if not isinstance(factor, Explicit) or attribute not in block.matrices:
            return factor.row_quadratics(self.covariance(block, attribute))

        sees = self.strategy.axes is None or attribute in self.strategy.whole
        rows = factor if sees else without_offsets(factor)
        assert isinstance(rows, Explicit)

        return rows.image_squares(self.strategy.inverses(block)[attribute])

    def interaction(
        self,
        part: tuple[int, ...],
        attribute: int,
    ) -> FloatArray:
        """Centring matrix inside an interaction, spreading evenly outside it."""
        n = self.strategy.sizes[attribute]
        if attribute in part:
            return np.eye(n) - 1.0 / n
        return np.full((n, n), 1.0 / n**2)

    def of_interaction(
        self,
        part: tuple[int, ...],
        attribute: int,
        factor: Workload,
    ) -> FloatArray:
        """What an interaction gives to the queries on one attribute."""
        key = (attribute, -1 - (attribute in part), id(factor))
        if key not in self._parts:
            covariance = self.interaction(part, attribute)
            self._parts[key] = factor.row_quadratics(covariance)
        return self._parts[key]

    def outside(
        self,
        block: Block,
        attributes: tuple[int, ...],
    ) -> float:
        """Variance of the sums over attributes that the block measures and the table does not."""
        return prod(
            float((inverse.sum(axis=0) ** 2).sum())
            for i, inverse in self.strategy.inverses(block).items()
            if i not in attributes
        )


def _check_joint(inner: Workload) -> None:
    if inner.size > JOINT_LIMIT:
        raise TooLarge(
            f"queries over {inner.size} cells that are no product of attributes need a covariance "
            f"over these cells; the limit is {JOINT_LIMIT}; ask them of fewer attributes"
        )
