"""Designs that grow by multiplicative steps, held to exact and to dense arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noisewright.local.optimise.dense.design import Design, dense_start
from noisewright.local.optimise.dense.growth import Growth, grow
from noisewright.local.optimise.dense.involution import Involution
from noisewright.local.optimise.dense.objective import (
    Objective,
    saddle_prior,
    worst_variance,
)
from noisewright.local.optimise.dense.pricing import relative_values, undervalued
from noisewright.local.optimise.dense.saddle import best_saddle
from noisewright.local.optimise.dense.weighting import WeightedPatterns
from noisewright.local.optimise.optimised import Control
from noisewright.local.work import SECOND
from noisewright.workload import workload
from oracles.local_optimum import optimum

BRIEF = Growth(up_to=1024, work=2 * SECOND)


def gram_of(text):
    gram = workload(text).gram().dense()
    return gram / (np.trace(gram) / len(gram))


def even(gram):
    return Objective(gram, np.full(len(gram), 1.0 / len(gram)))


def some_design(objective, epsilon, rows, seed=0):
    rng = np.random.default_rng(seed)
    positions, weights = dense_start(objective.centred, epsilon, rows, rng)
    return Design(positions > 0.5, weights, epsilon).merged()


@pytest.mark.parametrize("text", ["prefix:12", "prefix:4*prefix:4", "random:6x10:1"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("folded", [False, True])
def test_a_look_says_what_dense_matrices_say(text, epsilon, folded):
    gram = gram_of(text)
    objective = even(gram)
    start = some_design(objective, epsilon, 60)
    weighted = WeightedPatterns.of(start, objective, worst_case=True)
    if not folded:
        alone = Involution.identity(len(gram))
        weighted = replace(weighted, involution=alone, design=start)
    for _ in range(30):
        weighted.step()
    design = weighted.balanced()
    assert design is not None
    weighted = weighted.with_design(design)
    energies, variances, _ = weighted.look()
    prior = weighted.prior
    v, ridged = design.relative, gram + 1e-7 * np.eye(len(gram))
    mass = v @ prior
    x = (v * (design.weights / mass)[:, None]).T @ v
    mean = ridged @ prior
    centred = ridged - mean[:, None] - mean + prior @ mean
    quadratic = np.linalg.solve(x, np.linalg.solve(x, centred).T)
    own = np.einsum("ou,ou->o", v @ quadratic, v) / mass
    dense = (own * design.weights / mass) @ v - np.diagonal(centred)
    scale = np.abs(dense).max()
    assert np.abs(variances - dense).max() < 2e-3 * scale
    assert weighted.mean == pytest.approx(float(prior @ variances))
    assert (energies > 0).all()


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_steps_end_at_the_best_weights_on_given_patterns(epsilon):
    gram = gram_of("prefix:12")
    objective = even(gram)
    design = some_design(objective, epsilon, 80)
    weighted = WeightedPatterns.of(design, objective, worst_case=False)
    for _ in range(400):
        weighted.step()
    best, _ = best_saddle(design, objective, worst_case=False, tolerance=1e-7)
    assert weighted.balanced() is not None
    assert weighted.mean == pytest.approx(best.variance, rel=2e-4)
    # Optimality conditions: no pattern is worth more than its price.
    priced = weighted.priced()
    phi = undervalued(priced.quadratic, priced.prices, priced.prior)
    worth = relative_values(design.patterns, phi, priced.prior, epsilon)
    assert worth.max() < 5e-3 * best.variance


@pytest.mark.parametrize(
    ("text", "epsilon"), [("prefix:8", 1.0), ("random:5x8:0", 3.0)]
)
def test_growth_reaches_the_exact_optimum_on_few_cells(text, epsilon):
    gram = gram_of(text)
    objective = even(gram)
    rng = np.random.default_rng(1)
    start = some_design(objective, epsilon, 40)
    design, suited = grow(start, objective, BRIEF, rng, Control(), worst_case=True)
    q = design.chances()
    suited = replace(suited, prior=saddle_prior(suited, q))
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    least = optimum(root, epsilon).above
    assert least * (1 - 1e-6) <= worst_variance(suited, q) <= 1.0001 * least


def test_growth_keeps_the_budget_and_the_number_of_reports():
    gram, epsilon = gram_of("prefix:80"), 3.0
    objective = even(gram)
    effort = replace(BRIEF, work=1 * SECOND, reports=400)
    start = some_design(objective, epsilon, 200)
    rng = np.random.default_rng(0)
    grown = grow(start, objective, effort, rng, Control(), worst_case=True)
    q = grown[0].chances()
    assert len(q) <= 400
    assert np.abs(q.sum(axis=0) - 1).max() < 1e-12
    assert (q.max(axis=1) <= np.exp(epsilon) * q.min(axis=1) * (1 + 1e-12)).all()
    balanced = start.balanced()
    assert balanced is not None
    assert worst_variance(grown[1], q) < worst_variance(objective, balanced.chances())


@pytest.mark.parametrize("epsilon", [5.0, 8.0])
def test_at_little_privacy_the_worst_prior_is_found(epsilon):
    """It is far from even there, and weights without it are up to 5 % worse."""
    gram = gram_of("prefix:24")
    objective = even(gram)
    rng = np.random.default_rng(0)
    start = some_design(objective, epsilon, 100)
    design, suited = grow(start, objective, Growth(), rng, Control(), worst_case=True)
    q = design.chances()
    here = suited.evaluate(q)
    assert worst_variance(suited, q) <= 1.001 * suited.variance(here.value)


def test_an_involution_loses_nothing():
    gram = gram_of("prefix:70")
    involution = Involution.of(gram)
    assert involution.folding.pairs == 35
    design = some_design(even(gram), 2.0, 50)
    whole = involution.symmetrised(design)
    halved = involution.representatives(whole)
    again = involution.symmetrised(halved)
    assert len(halved.patterns) < len(whole.patterns)
    assert again.chances().sum(axis=0) == pytest.approx(whole.chances().sum(axis=0))
    one, other = (d.chances().T @ d.patterns for d in (again, whole))
    assert one == pytest.approx(other)
