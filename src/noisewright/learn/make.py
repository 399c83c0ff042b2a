"""Planning what is learnt: the matrix that is estimated for each task, and the report it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import OutOfReach, TooLarge
from noisewright.learn.concept_classes import ConceptClass
from noisewright.learn.one_each import one_concept_each
from noisewright.learn.plans import AgnosticPlan, LearningPlan, RefutationPlan
from noisewright.learn.realizable import (
    RealizablePlan,
    RealizableRefutationPlan,
    eta,
)
from noisewright.local.vector.linear_answers import LinearAnswers, fitted_answers
from noisewright.local.vector.max_error import plan_answers
from noisewright.norm.approximate.approximate import (
    BoxedNorm,
    approximate_norm,
    quickly_searched,
)
from noisewright.norm.factorize import factorize

PlanT = TypeVar("PlanT", bound=LearningPlan)
RealizableT = TypeVar("RealizableT", bound=RealizablePlan)

_SHARES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75)
"""Of the largest tolerance of penalties, what is tried."""

_SEARCH_GAP = 2e-2
"""Of η, while tolerances are compared: half and double of it left the people needed as they were
(thresholds:16, parities:4, conjunctions:4)."""
_FINAL_GAP = 2e-3
"""Of the η that is taken: half saves 0 to 4 % of people there, double costs none."""


@dataclass(frozen=True)
class Goal:
    """A class of concepts, how near to the best and how surely, and the ε of every report."""

    concepts: ConceptClass
    alpha: float
    beta: float
    epsilon: float


def agnostic(goal: Goal, loss: bool) -> AgnosticPlan:
    """Without a loss, less what concepts have in common: their mean where all pairs are looked at.

    Pairs see what the mean leaves; where they are too many, the function with the least norm left,
    or none, whichever takes fewer people.
    """
    given = goal.concepts
    nothing = np.zeros(given.size)

    def without_answers(subtracted: FloatArray) -> AgnosticPlan:
        return AgnosticPlan(
            **vars(goal), answers=None, loss=loss, subtracted=subtracted
        )

    def less(subtracted: FloatArray) -> AgnosticPlan:
        plan = without_answers(subtracted)
        return replace(plan, answers=_answers(plan.correlations, goal))

    if given.count == 1 and not loss:
        return without_answers(nothing)

    together = less(nothing if loss else given.matrix.mean(axis=0))
    if not (loss or together.by_pairs or given.count == 2):
        options = [together, less(nothing)]
        if quickly_searched((given.size, given.count)):
            options.append(less(_common_part(given, goal.alpha / 4)))
        together = min(options, key=lambda plan: plan.people)

    whole = replace(together, subtracted=nothing)
    return _better(together, whole, _signed(whole.correlations))


def refutation(goal: Goal, theta: float) -> RefutationPlan:
    """Whether the best loss is at most theta, or above theta + α."""
    matrix = goal.concepts.matrix
    answers = _answers(matrix, goal)
    together = RefutationPlan(**vars(goal), answers=answers, theta=theta)
    return _better(together, together, _signed(matrix))


def realizable(goal: Goal) -> RealizablePlan:
    """A concept of loss at most α, where some concept labels everybody rightly."""
    if goal.concepts.count == 1:
        return RealizablePlan(**vars(goal), answers=None, shifts=np.zeros(1))
    return _penalised(goal, RealizablePlan)


def realizable_refutation(goal: Goal) -> RealizableRefutationPlan:
    """Whether some concept labels everybody rightly, or all have a loss above α."""
    return _penalised(goal, RealizableRefutationPlan)


def _penalised(goal: Goal, kind: type[RealizableT]) -> RealizableT:
    """The plan that estimates penalties: those of η's matrix, or one concept's from each person."""
    given = goal.concepts
    penalties, shifts = _penalties(given, goal.epsilon, goal.alpha)
    together = kind(**vars(goal), answers=penalties, shifts=shifts)

    targets = (1 - _signed(given.matrix)) / 2
    unshifted = replace(together, shifts=np.zeros(given.count))
    return _better(together, unshifted, targets)


def _better(together: PlanT, base: PlanT, targets: FloatArray) -> PlanT:
    """The plan as it is, or the base with one concept a person: the fewer people.

    It says what both need.
    """
    try:
        answers = one_concept_each(base.concepts, targets, base.epsilon)
        alone = replace(base, answers=answers)
        _ = alone.people
    except (TooLarge, OutOfReach):
        return together

    if together.protocol == alone.protocol:  # the same directions, found twice
        return together

    chosen, other = sorted((together, alone), key=lambda plan: plan.people)
    return replace(chosen, others=other.needs)


def _signed(matrix: FloatArray) -> FloatArray:
    """Over labelled points: first those of label +1, then −1."""
    return np.hstack([matrix, -matrix])


def _answers(matrix: FloatArray, goal: Goal) -> LinearAnswers:
    """Within the best tolerance of the matrix; of large squares the matrix itself, exactly.

    A tolerance takes an eigenproblem of rows and columns together a step there, the exact
    factorization one of the columns alone.
    """
    if not quickly_searched(matrix.shape):
        columns = factorize(matrix, inf, tolerance=_FINAL_GAP).strategy.dense()
        return fitted_answers(matrix, columns, goal.epsilon, signed=True)
    answers = plan_answers(matrix, goal.epsilon, goal.alpha, goal.beta, signed=True)
    return LinearAnswers(answers.strategy, answers.targets)


def _common_part(given: ConceptClass, entrywise: float) -> FloatArray:
    """f for which γ2(W_C − 1fᵀ, α) is least: transposed, the norm with free shifts of rows."""
    norm = approximate_norm(
        given.matrix.T, entrywise, shift=True, tolerance=_SEARCH_GAP
    )
    return np.asarray(-norm.shifts)


def _penalties(
    given: ConceptClass, epsilon: float, alpha: float
) -> tuple[LinearAnswers, FloatArray]:
    """Answers of η's matrix at the tolerance that needs the fewest people, and its shifts.

    People grow with (η(C, a)/(α(1 + a) − 2a))².
    """
    largest = alpha / (2 - alpha)
    # η hardly falls, and each takes long
    if not quickly_searched((given.count, 2 * given.size)):
        return _estimated(
            eta(given, _SHARES[0] * largest, tolerance=_SEARCH_GAP), epsilon
        )

    costs: dict[float, float] = {}
    for share in _SHARES:
        a = share * largest
        costs[a] = eta(given, a, tolerance=_SEARCH_GAP).value / (
            alpha * (1 + a) - 2 * a
        )
        if costs[a] > 1.1 * min(costs.values()):
            break

    best = min(costs, key=costs.__getitem__)
    return _estimated(eta(given, best, tolerance=_FINAL_GAP), epsilon)


def _estimated(norm: BoxedNorm, epsilon: float) -> tuple[LinearAnswers, FloatArray]:
    columns = norm.factorization.strategy.dense()
    return fitted_answers(norm.approximation, columns, epsilon), norm.shifts
