"""Reports of very many people at once: how many sent what, drawn from the exact chances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from noisewright import learn
from noisewright.learn.plans import LearningPlan, Outcome
from noisewright.local.reports.aggregate import Aggregate

TASKS: dict[str, Callable[..., Any]] = {
    "agnostic": learn.Agnostic,
    "realizable": learn.Realizable,
    "refute": learn.AgnosticRefutation,
    "refute-realizable": learn.RealizableRefutation,
}
"""What asks for a plan, by the task that the plan says it does."""


def aggregate_of(
    plan: LearningPlan, distribution: np.ndarray, people: int, rng: np.random.Generator
) -> Aggregate:
    """Statistics of reports of people drawn from a distribution over labelled points."""
    assert plan.answers is not None
    # of each report, person by person
    chances = plan.answers.strategy.dense() @ distribution
    collected = plan.aggregate()
    collected._add(0, rng.multinomial(people, chances / chances.sum()), people)
    return collected


def decided(
    plan: LearningPlan, distribution: np.ndarray, people: int, rng: np.random.Generator
) -> Outcome:
    """What a plan says of so many people."""
    return plan.decide(aggregate_of(plan, distribution, people, rng))


def labelled(
    marginal: np.ndarray, concept: np.ndarray, noise: float = 0.0
) -> np.ndarray:
    """A distribution over labelled points: a concept's labels, a share of them flipped."""
    right = np.concatenate([marginal * (concept > 0), marginal * (concept < 0)])
    wrong = np.concatenate([marginal * (concept < 0), marginal * (concept > 0)])
    return (1 - noise) * right + noise * wrong


def losses(table: np.ndarray, distribution: np.ndarray) -> np.ndarray:
    """The loss of every concept, from the definition."""
    n = table.shape[1]
    return (table < 0) @ distribution[:n] + (table > 0) @ distribution[n:]
