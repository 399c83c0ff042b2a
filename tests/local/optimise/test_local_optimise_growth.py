"""Designs that grow by multiplicative steps, held to exact and to dense arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noisewright.local.bounds.folding import folding_of
from noisewright.local.optimise.dense.column_generation import reweight
from noisewright.local.optimise.dense.crowd import Crowd
from noisewright.local.optimise.dense.design import Design, dense_start
from noisewright.local.optimise.dense.growth import Growth, grow
from noisewright.local.optimise.dense.mirror import Mirror
from noisewright.local.optimise.dense.objective import (
    Objective,
    saddle_prior,
    worst_variance,
)
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


def mirrored(crowd, gram):
    """The same crowd over cells that are swapped in pairs, whatever their number."""
    mirror = Mirror(*folding_of(gram))
    halved = mirror.halved(Design(crowd.patterns, crowd.weights, crowd.epsilon))
    return replace(
        crowd, mirror=mirror, patterns=halved.patterns, weights=halved.weights
    )


@pytest.mark.parametrize("text", ["prefix:12", "prefix:4*prefix:4", "random:6x10:1"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("folded", [False, True])
def test_a_look_says_what_dense_matrices_say(text, epsilon, folded):
    gram = gram_of(text)
    objective = even(gram)
    crowd = Crowd.of(some_design(objective, epsilon, 60), objective, worst_case=True)
    crowd = mirrored(crowd, gram) if folded else crowd
    for _ in range(30):
        crowd.step()
    design = crowd.design()
    assert design is not None
    halved = crowd.mirror.halved(design)
    crowd = replace(crowd, patterns=halved.patterns, weights=halved.weights)
    energies, variances = crowd.look()
    prior = crowd.prior
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
    assert crowd.mean == pytest.approx(float(prior @ variances))
    assert (energies > 0).all()


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_steps_end_at_the_best_weights_on_given_patterns(epsilon):
    gram = gram_of("prefix:12")
    objective = even(gram)
    design = some_design(objective, epsilon, 80)
    crowd = Crowd.of(design, objective, worst_case=False)
    for _ in range(400):
        crowd.step()
    best = reweight(design, objective, 1e-7)
    assert crowd.design() is not None
    assert crowd.mean == pytest.approx(objective.variance(best.value), rel=2e-4)
    # Optimality conditions: no pattern is worth more than its price.
    phi = crowd.undervalued()
    relative = design.relative
    worth = (
        np.einsum("ou,ou->o", relative @ phi, relative) / (relative @ crowd.prior) ** 2
    )
    assert worth.max() < 5e-3 * objective.variance(best.value)


@pytest.mark.parametrize(
    ("text", "epsilon"), [("prefix:8", 1.0), ("random:5x8:0", 3.0)]
)
def test_growth_reaches_the_exact_optimum_on_few_cells(text, epsilon):
    gram = gram_of(text)
    objective = even(gram)
    rng = np.random.default_rng(1)
    start = some_design(objective, epsilon, 40)
    grown = grow(start, objective, BRIEF, rng, Control(), worst_case=True)
    assert grown is not None
    design, suited = grown
    q = design.chances()
    suited = replace(suited, prior=saddle_prior(suited, q))
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    least = optimum(root, epsilon).above
    assert least * (1 - 1e-6) <= worst_variance(suited, q) <= 1.01 * least


def test_growth_keeps_the_budget_and_the_number_of_reports():
    gram, epsilon = gram_of("prefix:80"), 3.0
    objective = even(gram)
    effort = replace(BRIEF, work=1 * SECOND, reports=400)
    start = some_design(objective, epsilon, 200)
    rng = np.random.default_rng(0)
    grown = grow(start, objective, effort, rng, Control(), worst_case=True)
    assert grown is not None
    q = grown[0].chances()
    assert len(q) <= 400
    assert np.abs(q.sum(axis=0) - 1).max() < 1e-12
    assert (q.max(axis=1) <= np.exp(epsilon) * q.min(axis=1) * (1 + 1e-12)).all()
    balanced = start.balanced()
    assert balanced is not None
    assert worst_variance(grown[1], q) < worst_variance(objective, balanced.chances())


def test_a_mirror_loses_nothing():
    gram = gram_of("prefix:70")
    mirror = Mirror.of(gram)
    assert mirror.folding.pairs == 35
    design = some_design(even(gram), 2.0, 50)
    whole = mirror.doubled(design)
    again = mirror.doubled(mirror.halved(whole))
    assert len(mirror.halved(whole).patterns) < len(whole.patterns)
    assert again.chances().sum(axis=0) == pytest.approx(whole.chances().sum(axis=0))
    one, other = (d.chances().T @ d.patterns for d in (again, whole))
    assert one == pytest.approx(other)
