"""Planning what is learnt: the matrix that is estimated for each task, and the report it takes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, OutOfReach, TooLarge, unknown_name
from noisewright.learn.concept_classes import ConceptClass, Concepts, concepts
from noisewright.learn.one_each import one_concept_each
from noisewright.learn.plans import AgnosticPlan, LearningPlan, RefutationPlan
from noisewright.learn.realizable import RealizablePlan, RealizableRefutationPlan, eta
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.vector.linear_answers import LinearAnswers, fitted_answers
from noisewright.local.vector.max_error import plan_answers
from noisewright.norm.approximate.approximate import (
    BoxedNorm,
    approximate_norm,
    quickly_searched,
)
from noisewright.norm.factorize import factorize
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.promise.budget import Privacy

TASKS = ("agnostic", "realizable", "refute", "refute-realizable")
_SHARES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75)
"""Of the largest tolerance of penalties, what is tried."""

_SEARCH_GAP = 2e-2
_FINAL_GAP = 2e-3


def plan(
    source: Concepts,
    privacy: Privacy,
    *,
    task: str = "agnostic",
    alpha: float = 0.1,
    beta: float = 0.05,
    loss: bool | None = None,
    theta: float | None = None,
    points: Iterable[Hashable] | None = None,
) -> LearningPlan:
    """Plan how a class is learnt or refuted from one ε-private report of each person.

    "agnostic" finds a concept whose loss is within `alpha` of the best, with its loss to ±alpha/2
    or, with `loss=False`, without it from fewer people. "refute" tells whether the best loss is at
    most `theta` (½ − alpha unless given: all labels random) or above theta + alpha. "realizable"
    finds a concept of loss at most `alpha` where some concept labels everybody rightly, and
    "refute-realizable" tells whether one does or all have a loss above alpha. Each holds with
    probability 1 − `beta`; `.people` is how many it takes, before anything is collected.

    People report about all concepts together, through a factorization, or each about one concept:
    `.protocol` is the way that takes fewer, `.needs` what each takes.
    """
    if task not in TASKS:
        raise unknown_name("task", task, "is no task", TASKS)
    if privacy.kind != "pure" or privacy.epsilon is None:
        raise InvalidParameter(
            "privacy", privacy.kind, "must be pure: an epsilon alone"
        )

    epsilon = check_epsilon(privacy.epsilon)
    probability("alpha", alpha, "try 0.1")
    probability("beta", beta, "try 0.05")
    given = concepts(source, points).distinct()
    known: dict[str, Any] = {
        "alpha": float(alpha),
        "beta": float(beta),
        "epsilon": epsilon,
    }
    _check_applies(task, loss, theta)
    if task == "agnostic":
        return _agnostic(given, loss is not False, **known)

    if task == "refute":
        at = 0.5 - alpha if theta is None else theta
        answers = _answers(given.matrix, **known)
        together = RefutationPlan(concepts=given, answers=answers, theta=at, **known)
        return _better(together, _signed(given.matrix))

    kind = RealizablePlan if task == "realizable" else RealizableRefutationPlan
    if given.count == 1 and task == "realizable":
        return kind(concepts=given, answers=None, shifts=np.zeros(1), **known)

    penalties, shifts = _penalties(given, epsilon, alpha)
    plan = kind(concepts=given, answers=penalties, shifts=shifts, **known)
    return _better(plan, (1 - _signed(given.matrix)) / 2, shifts=np.zeros(given.count))


def _better(
    together: LearningPlan, targets: FloatArray, **settings: Any
) -> LearningPlan:
    """The plan as it is, or from one concept a person: the fewer people; it says what both need."""
    try:
        answers = one_concept_each(together.concepts, targets, together.epsilon)
        alone = replace(together, answers=answers, **settings)
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


def _check_applies(task: str, loss: bool | None, theta: float | None) -> None:
    """Refuse settings that the task would not look at."""
    if loss is not None and task != "agnostic":
        rule = f"is a setting of the agnostic task, and this one is {task}"
        raise InvalidParameter("loss", loss, rule, "leave it out")
    if theta is not None and task != "refute":
        rule = f"is what losses are compared with in the task refute, and this one is {task}"
        raise InvalidParameter(
            "theta", theta, rule, "leave it out, or take the task refute"
        )


def _agnostic(given: ConceptClass, loss: bool, **known: Any) -> LearningPlan:
    """Without a loss, less what concepts have in common: their mean where all pairs are looked at.

    Pairs see what the mean leaves; where they are too many, the function with the least norm left,
    or none, whichever takes fewer people.
    """
    nothing = np.zeros(given.size)
    if given.count == 1 and not loss:
        return AgnosticPlan(
            concepts=given, answers=None, loss=False, subtracted=nothing, **known
        )

    def less(f: FloatArray) -> AgnosticPlan:
        empty = AgnosticPlan(
            concepts=given, answers=None, loss=loss, subtracted=f, **known
        )
        return replace(empty, answers=_answers(empty.correlations, **known))

    together = less(nothing if loss else given.matrix.mean(axis=0))
    if not (loss or together.by_pairs or given.count == 2):
        options = [together, less(nothing)]
        if quickly_searched((given.size, given.count)):
            options.append(less(common_part(given, known["alpha"] / 4)))
        together = min(options, key=lambda plan: plan.people)

    whole = replace(together, subtracted=nothing)
    return _better(together, _signed(whole.correlations), subtracted=nothing)


def _answers(
    matrix: FloatArray, epsilon: float, alpha: float, beta: float
) -> LinearAnswers:
    """Within the best tolerance of the matrix; of large squares the matrix itself, exactly.

    A tolerance takes an eigenproblem of rows and columns together a step there, the exact
    factorization one of the columns alone.
    """
    if not quickly_searched(matrix.shape):
        columns = factorize(matrix, inf, tolerance=_FINAL_GAP).strategy.dense()
        return fitted_answers(matrix, columns, epsilon, signed=True)
    answers = plan_answers(matrix, epsilon, alpha, beta, signed=True)
    return LinearAnswers(answers.strategy, answers.targets)


def common_part(given: ConceptClass, entrywise: float) -> FloatArray:
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
