"""Exact variances of all answers from a block strategy and the law of its noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from noisewright.central.strategy import Block, BlockStrategy
from noisewright.errors import TooLarge
from noisewright.privacy.law import NoiseLaw
from noisewright.workload import Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.quadratics import row_quadratics
from noisewright.workload.terms import Term

_JOINT_LIMIT = 4096


def term_variances(strategy: BlockStrategy, term: Term, law: NoiseLaw) -> FloatArray:
    """Variance of every answer of one term: what each block adds, the blocks being independent."""
    total = np.zeros(term.queries)
    cache: dict[tuple[int, int], FloatArray] = {}
    for block, drawn in zip(strategy.blocks, strategy.laws(law), strict=True):
        if strategy._sees(block, term.attributes):
            unit = drawn.variance / block.multiplier**2
            total += unit * _unit_variances(strategy, block, term, cache)
    return term.weight**2 * total


def _unit_variances(
    strategy: BlockStrategy,
    block: Block,
    term: Term,
    cache: dict[tuple[int, int], FloatArray],
) -> FloatArray:
    covariances = _axis_covariances(strategy.sizes, block, term.attributes)
    outside = prod(
        float((inverse.sum(axis=0) ** 2).sum())
        for i, inverse in zip(block.attributes, block.inverses, strict=True)
        if i not in term.attributes
    )
    if term.factors is None:
        return outside * _joint(term.inner, [c for _, c in covariances])
    parts = []
    for factor, (key, covariance) in zip(term.factors, covariances, strict=True):
        name = (id(factor), key)
        if name not in cache:
            cache[name] = row_quadratics(factor, covariance)
        parts.append(cache[name])
    return outside * reduce(lambda a, b: np.multiply.outer(a, b).ravel(), parts, np.ones(1))


def _axis_covariances(
    sizes: Sequence[int], block: Block, attributes: tuple[int, ...]
) -> list[tuple[int, FloatArray]]:
    """Per attribute of a table, the covariance a block's unit noise gives to its cells."""
    by_axis = dict(
        zip(block.attributes, zip(block.factors, block.inverses, strict=True), strict=True)
    )
    result = []
    for i in attributes:
        if i in by_axis:
            factor, inverse = by_axis[i]
            result.append((id(factor), inverse @ inverse.T))
        else:
            result.append((-sizes[i], np.full((sizes[i], sizes[i]), 1.0 / sizes[i] ** 2)))
    return result


def _joint(inner: Workload, covariances: list[FloatArray]) -> FloatArray:
    if inner.size > _JOINT_LIMIT:
        raise TooLarge(
            f"queries over {inner.size} cells that are no product of attributes need a covariance "
            f"over these cells; the limit is {_JOINT_LIMIT}; ask them of fewer attributes"
        )
    joint: FloatArray = np.ones((1, 1))
    for covariance in covariances:
        joint = np.asarray(np.kron(joint, covariance), dtype=np.float64)
    return row_quadratics(inner, joint)
