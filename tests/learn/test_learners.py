"""Learners by statistical queries, against oracles that lie as much as they may."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from learn.simulated_people import labelled, losses
from noisewright.errors import NoisewrightError
from noisewright.learn import (
    Hypothesis,
    MonotoneConjunction,
    MultiplicativeWeights,
    Refuter,
    labelled_cells,
)
from noisewright.learn.queries.learners import demand_of
from noisewright.learn.queries.oracle import ExactOracle

VOTES = np.array(
    [
        [1, 1, 1, 1, -1, -1, -1, -1],
        [1, 1, -1, -1, 1, 1, -1, -1],
        [1, -1, 1, -1, 1, -1, 1, -1],
    ],
    dtype=float,
)


def _loss(hypothesis: Hypothesis, people: np.ndarray) -> float:
    return float(losses(hypothesis.labels[None, :], people)[0])


@pytest.mark.parametrize("seed", range(8))
def test_conjunctions_are_learnt_from_any_answers_within_the_tolerance(
    seed: int,
) -> None:
    learner = MonotoneConjunction(4, 0.1)
    rng = np.random.default_rng(seed)
    target = learner.concepts.table[rng.integers(16)]
    people = labelled(rng.dirichlet(np.full(16, 0.3)), target)
    oracle = ExactOracle(people, demand_of(learner), rng)
    assert _loss(learner.learn(oracle), people) <= 0.1
    assert oracle.asked == learner.queries == 4


@pytest.mark.parametrize("seed", range(8))
def test_votes_are_learnt_from_any_answers_within_the_tolerance(seed: int) -> None:
    """Weights (2, 1, 0)/3, (1, 1, 1)/3, … have a margin of a third on all points they decide."""
    rng = np.random.default_rng(seed)
    weights = np.array([[2, 1, 0], [1, 1, 1], [0, -1, 2], [-1, -1, 1]])[seed % 4] / 3
    target = weights @ VOTES
    learner = MultiplicativeWeights(VOTES, 0.15, 1 / 3)
    people = labelled(rng.dirichlet(np.full(8, 0.4)), np.sign(target))
    assert np.abs(target).min() >= 1 / 3 - 1e-12
    oracle = ExactOracle(people, demand_of(learner), rng)
    assert _loss(learner.learn(oracle), people) <= 0.15
    assert oracle.asked <= learner.queries


def test_learners_run_on_private_oracles() -> None:
    """Each fails with chance below .05 by its own bound, and in fact far more rarely."""
    rng = np.random.default_rng(1)
    learner = MonotoneConjunction(3, 0.3)
    target = learner.concepts.table[5]
    people = labelled(np.full(8, 1 / 8), target)
    for model, together in (("sequential", 1), ("pan-private", 3)):
        settings = {
            "size": 16,
            "queries": 3,
            "tolerance": learner.tolerance,
            "model": model,
            "together": together,
        }
        need = nw.learn.statistical_queries([], nw.Privacy(1.0), **settings).people
        points = rng.integers(0, 8, need)
        cells = labelled_cells(points, target[points], 8)
        oracle = nw.learn.statistical_queries(cells, nw.Privacy(1.0), **settings)
        assert _loss(learner.learn(oracle), people) <= 0.3


def test_a_learner_and_fresh_people_make_a_refuter() -> None:
    refuter = Refuter(MonotoneConjunction(3, 0.1))
    assert refuter.alpha == pytest.approx(0.3)
    rng = np.random.default_rng(2)
    table = refuter.learner.concepts.table
    for seed in range(6):
        people = labelled(
            np.random.default_rng(seed).dirichlet(np.ones(8)), table[seed]
        )
        verdict = refuter.decide(ExactOracle(people, refuter.demand(), rng))
        assert verdict.fits
        random = np.full(16, 1 / 16)
        assert losses(table, random).min() > refuter.alpha
        assert not refuter.decide(ExactOracle(random, refuter.demand(), rng)).fits


def test_learners_refuse_oracles_that_tell_too_little() -> None:
    learner = MonotoneConjunction(3, 0.1)
    coarse = nw.learn.statistical_queries(
        np.ones(16), size=16, queries=3, tolerance=0.2, model="exact"
    )
    with pytest.raises(NoisewrightError, match="tolerance"):
        learner.learn(coarse)
    other = nw.learn.statistical_queries(
        np.ones(4), size=4, queries=3, tolerance=0.01, model="exact"
    )
    with pytest.raises(NoisewrightError, match="labelled points"):
        learner.learn(other)
    for bad in ({"bits": 0}, {"bits": 17}, {"alpha": 0.0}):
        with pytest.raises(NoisewrightError):
            MonotoneConjunction(**{"bits": 3, "alpha": 0.1, **bad})
    for bad in (
        {"margin": 0.0},
        {"features": np.ones(3)},
        {"features": 2 * VOTES},
        {"margin": 1e-4},
    ):
        with pytest.raises(NoisewrightError):
            MultiplicativeWeights(
                **{"features": VOTES, "alpha": 0.1, "margin": 0.3, **bad}
            )


@pytest.mark.parametrize(
    "text", ["thresholds:6", "parities:3", "monotone-conjunctions:3"]
)
def test_correlational_queries_tell_all_correlations_for_certain(text: str) -> None:
    learner = nw.learn.correlational(text, 0.2)
    given, rng = learner.concepts, np.random.default_rng(3)
    assert np.abs(learner.signs).max() == 1
    for _ in range(20):
        people = rng.dirichlet(np.full(2 * given.size, 0.2))
        truth = 1 - 2 * losses(given.table, people)
        oracle = ExactOracle(people, demand_of(learner), rng)
        told = learner.estimate(oracle)
        assert (np.abs(told - truth) <= learner.errors + 1e-9).all()
        assert learner.errors.max() <= 0.2 + 1e-9
    again = ExactOracle(people, demand_of(learner), rng)
    assert (
        _loss(learner.learn(again), people) <= losses(given.table, people).min() + 0.2
    )


def test_answers_that_lie_against_a_concept_reach_the_error_stated() -> None:
    """The worst answers move the estimate by exactly τ‖V_c‖₁: the error stated is attained."""
    learner = nw.learn.correlational("thresholds:4", 0.3)
    worst = int(np.argmax(learner.errors))
    moved = learner.tolerance * np.sign(learner.decoding[worst])
    own = np.abs(learner.decoding @ learner.signs - learner.concepts.matrix)[
        worst
    ].max()
    assert abs(learner.decoding[worst] @ moved) + own == pytest.approx(
        learner.errors[worst]
    )
