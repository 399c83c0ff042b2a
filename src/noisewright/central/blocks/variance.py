"""Exact variances of all answers from a block strategy and the law of its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.errors import TooLarge
from noisewright.norm.kernel.factorization import without_offsets
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.workload import Explicit, Workload
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.linear.tensor import apply_along_axes, kron_all, mean_error
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
        strategy, terms, [noise.variance for noise in strategy.laws(law)]
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
        plain = [
            _term_variances(
                strategy,
                term,
                units,
                quadratics,
            )
            for term in terms
        ]

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
            total += _weighted_rows(
                strategy,
                block,
                term,
                units[number],
            )
            continue

        scale = units[number] * quadratics.outside(block, term.attributes)
        if term.factors is None:
            covariances = [quadratics.covariance(block, i) for i in term.attributes]
            total += scale * _joint(term.inner, covariances)
            continue

        product = np.ones(1)
        for i, factor in zip(term.attributes, term.factors, strict=True):
            part = quadratics.of_factor(block, i, factor)
            product = np.multiply.outer(product, part).ravel()

        total += scale * product

    return total


def _weighted_rows(
    strategy: BlockStrategy,
    block: Block,
    term: Term,
    units: FloatArray,
) -> FloatArray:
    """Variances from a block whose rows have variances of their own."""
    inverses = dict(zip(block.attributes, strategy.inverses(block), strict=True))
    used = sorted({*block.attributes, *term.attributes})
    back = {
        i: inverses[i] if i in inverses else strategy.reference(i)[:, None]
        for i in used
    }
    back |= {
        i: back[i].sum(axis=0, keepdims=True) for i in used if i not in term.attributes
    }
    if term.factors is None:
        _check_joint(term.inner)
        joint = kron_all([back[i] for i in used])
        return term.inner.row_quadratics((joint * units) @ joint.T)

    asked = dict(zip(term.attributes, term.factors, strict=True))
    images = (asked[i].matvec(back[i]) if i in asked else back[i] for i in used)
    rows = [(image) ** 2 for image in images]

    return apply_along_axes([(*r.shape, r.__matmul__) for r in rows], units)


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
        if term.factors is None:
            matrices = [quadratics.interaction(i, i in part) for i in term.attributes]
            total += components[part] * _joint(term.inner, matrices)
            continue
        product = np.ones(1)
        for i, factor in zip(term.attributes, term.factors, strict=True):
            values = quadratics.of_interaction(i, i in part, factor)
            product = np.multiply.outer(product, values).ravel()
        total += components[part] * product

    return total


class _Quadratics:
    """What a block's unit noise gives to the queries on one attribute; each is computed once."""

    def __init__(self, strategy: BlockStrategy) -> None:
        self.strategy = strategy
        self._covariances: dict[tuple[int, int], FloatArray] = {}
        self._parts: dict[tuple[int, int, int], FloatArray] = {}

    def _measures(self, block: Block, attribute: int) -> int:
        """A name for the matrix that measures the attribute; zero where the block sums it out."""
        if attribute not in block.attributes:
            return 0
        return id(block.factors[block.attributes.index(attribute)])

    def covariance(self, block: Block, attribute: int) -> FloatArray:
        """Covariance over the attribute's cells."""
        key = (attribute, self._measures(block, attribute))
        if key not in self._covariances:
            if key[1]:
                place = block.attributes.index(attribute)
                inverse = self.strategy.inverses(block)[place]
                self._covariances[key] = inverse @ inverse.T
            else:
                reference = self.strategy.reference(attribute)
                self._covariances[key] = np.outer(reference, reference)

        return self._covariances[key]

    def of_factor(
        self,
        block: Block,
        attribute: int,
        factor: Workload,
    ) -> FloatArray:
        """Variances of all queries on the attribute."""
        key = (attribute, self._measures(block, attribute), id(factor))
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
        if not isinstance(factor, Explicit) or attribute not in block.attributes:
            return factor.row_quadratics(self.covariance(block, attribute))

        place = block.attributes.index(attribute)
        sees = self.strategy.axes is None or attribute in self.strategy.whole
        rows = factor if sees else without_offsets(factor)
        assert isinstance(rows, Explicit)

        return rows.image_squares(self.strategy.inverses(block)[place])

    def interaction(self, attribute: int, inside: bool) -> FloatArray:
        """Centring matrix inside an interaction, spreading evenly outside it."""
        n = self.strategy.sizes[attribute]
        return np.eye(n) - 1.0 / n if inside else np.full((n, n), 1.0 / n**2)

    def of_interaction(
        self,
        attribute: int,
        inside: bool,
        factor: Workload,
    ) -> FloatArray:
        """What an interaction gives to the queries on one attribute."""
        key = (attribute, -1 - int(inside), id(factor))
        if key not in self._parts:
            self._parts[key] = factor.row_quadratics(
                self.interaction(attribute, inside)
            )
        return self._parts[key]

    def outside(self, block: Block, attributes: tuple[int, ...]) -> float:
        """Variance of the sums over attributes that the block measures and the table does not."""
        pairs = zip(block.attributes, self.strategy.inverses(block), strict=True)
        return prod(
            float((e.sum(axis=0) ** 2).sum()) for i, e in pairs if i not in attributes
        )


def _joint(inner: Workload, covariances: list[FloatArray]) -> FloatArray:
    _check_joint(inner)
    return inner.row_quadratics(kron_all(covariances))


def _check_joint(inner: Workload) -> None:
    if inner.size > JOINT_LIMIT:
        raise TooLarge(
            f"queries over {inner.size} cells that are no product of attributes need a covariance "
            f"over these cells; the limit is {JOINT_LIMIT}; ask them of fewer attributes"
        )
