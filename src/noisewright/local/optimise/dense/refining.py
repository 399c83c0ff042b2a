"""A strategy made better by a proof: the proof says which reports a best strategy makes.

A proof states vᵀΦv ≤ 0 for every report v. At the optimum all reports of a best strategy have
vᵀΦv = 0, so that sets at which a proof is nearly tight are those worth adding. Prices of a strategy
that lacks them point elsewhere and swing from round to round; those of a proof stand still.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import NoisewrightError
from noisewright.local.bounds.proof import Proof
from noisewright.local.listed import MatrixStrategy
from noisewright.local.optimise.dense.cell_types import CellTypes
from noisewright.local.optimise.dense.design import Design
from noisewright.local.optimise.dense.growth import Growth, grow
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.pricing import undervalued
from noisewright.local.optimise.optimised import Control
from noisewright.local.strategy import IndexStrategy
from noisewright.workload.linear.gram import Gram


def refined(
    gram: Gram,
    strategy: IndexStrategy,
    proof: Proof,
    effort: Growth,
    control: Control,
    seed: int = 0,
) -> IndexStrategy:
    """The strategy, or one of sets at which a proof is nearly tight where its worst case is less.

    The proof must be about one cell of every type that queries tell apart.
    """
    dense = gram.dense()
    types = CellTypes.of(dense)
    cells = np.sort(types.first_cells)
    if not np.array_equal(cells, proof.cells) or len(cells) > effort.up_to:
        return strategy

    order = types.of_cell[cells]  # the type of each cell of the proof
    objective = Objective(types.merged_gram(dense), types.merged(strategy.prior))
    design = _design(strategy, types)
    guide = np.empty((len(cells), len(cells)))
    guide[np.ix_(order, order)] = undervalued(
        proof.factor @ proof.factor.T, proof.prices, proof.prior
    )
    rng = np.random.default_rng([seed, 1])

    reports = max(strategy.outputs, 2 * len(cells))
    effort = replace(effort, reports=reports)
    try:
        better, suited = grow(
            design, objective, effort, rng, control, worst_case=True, guide=guide
        )
        prior = types.spread(suited.prior, strategy.prior)
        chances = better.chances()[:, types.of_cell]
        candidate = MatrixStrategy.from_chances(chances, strategy.epsilon, prior)
        return min(strategy, candidate, key=lambda one: one.worst_variance(gram))
    except (NoisewrightError, np.linalg.LinAlgError):
        return strategy


def _design(strategy: IndexStrategy, types: CellTypes) -> Design:
    """The strategy's sets of types and their low chances."""
    chances: FloatArray = strategy.dense()[:, types.first_cells]
    low = chances.min(axis=1)
    patterns = chances > low[:, None] * exp(strategy.epsilon / 2)
    return Design(patterns, low, strategy.epsilon).merged()
