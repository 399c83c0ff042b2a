"""Queries answered to a maximum error with the fewest people: the approximate factorization.

Within an entrywise tolerance a the queries may be replaced by ones of smaller γ2 [000, 001]; what
that saves in noise it costs in bias. The tolerance is the one for which the fewest people are
needed: zero for queries such as thresholds at small errors, half the error for others.

How far the worst of all answers strays, for any strategy: what maximum errors are planned by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import TooLarge, require
from noisewright.local.analysis.accuracy import LocalAccuracy
from noisewright.local.analysis.analysis import influence
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.strategy import IndexStrategy, Strategy
from noisewright.local.vector.linear_answers import LinearAnswers, fitted_answers
from noisewright.local.vector.tails import Tails, biases, check_beta
from noisewright.norm.approximate.approximate import ApproximateNorm, approximate_norm
from noisewright.privacy.exact.rounding import positive
from noisewright.workload.base import Workload
from noisewright.workload.forms.text import workload as as_workload
from noisewright.workload.kinds.explicit import Explicit

_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Of the error allowed, what is tried as tolerance before it is refined about the best."""

_SEARCH_GAP = 1e-2
"""Between a norm and its bound while tolerances are compared."""

_FINAL_GAP = 1e-3
"""The same at the tolerance that is planned for."""

_REFINED = 2
"""Halvings of the step about the best share."""


@dataclass(frozen=True, eq=False)
class ApproximateAnswers(LinearAnswers):
    """Answers to `matrix` that are, with probability 1 − β, all within α of the truth.

    `targets` is the matrix that is estimated instead, within the tolerance of it.
    """

    matrix: FloatArray
    norm: ApproximateNorm
    alpha: float
    beta: float

    @property
    def entrywise(self) -> float:
        """The tolerance that the queries were replaced within."""
        return self.norm.entrywise

    @cached_property
    def people(self) -> int:
        """People needed for α and β."""
        return self.tails.people_for(self.alpha, self.beta)

    @property
    def bias(self) -> FloatArray:
        """The largest bias of every answer, whoever reports."""
        return self.tails.bias

    def error(self, people: int, beta: float) -> float:
        """With probability 1 − β at least, all answers are this near the truth."""
        return self.tails.error(people, beta)

    def _biases(self) -> tuple[FloatArray, FloatArray]:
        return biases(self.targets, self.matrix)


def plan_answers(
    matrix: npt.ArrayLike | Workload,
    epsilon: float,
    alpha: float,
    beta: float,
    *,
    signed: bool = False,
    entrywise: float | None = None,
) -> ApproximateAnswers:
    """Answers to the rows of a matrix, the mean over people of the entry in their column.

    With `signed` people hold a point and a label ±1, as in `fitted_answers`, and an entry counts
    with the label's sign; a shift per row, which is free otherwise, then gains nothing.
    `entrywise` fixes the tolerance; the one that needs the fewest people is found otherwise. A
    workload says more than its matrix: intervals and marginals have symmetries.
    """
    rows = _finite_rows(matrix)
    positive("alpha", alpha, "0.05 is five in a hundred")
    check_beta(beta)
    within = entrywise is None or 0 <= entrywise < alpha
    require(within, "entrywise", entrywise, f"must lie in [0, {alpha})")

    shift = not signed
    asked = matrix if isinstance(matrix, Workload) else as_workload(rows)
    if entrywise is None:
        entrywise = _best_tolerance(asked, alpha, shift)

    norm = approximate_norm(asked, float(entrywise), shift=shift, tolerance=_FINAL_GAP)
    near = norm.approximation - norm.shifts[:, None]
    columns = norm.factorization.strategy.dense()
    answers = fitted_answers(near, columns, epsilon, signed=signed)

    return ApproximateAnswers(
        answers.strategy,
        answers.targets,
        np.hstack([rows, -rows]) if signed else rows,
        norm,
        float(alpha),
        float(beta),
    )


def _finite_rows(matrix: npt.ArrayLike | Workload) -> FloatArray:
    given = matrix.dense() if isinstance(matrix, Workload) else matrix
    rows = np.array(given, dtype=np.float64)
    finite = rows.ndim == 2 and 0 not in rows.shape and np.isfinite(rows).all()
    require(finite, "matrix", f"array of shape {rows.shape}", "must be finite rows")
    return rows


def _best_tolerance(asked: Workload, alpha: float, shift: bool) -> float:
    """The tolerance a < α for which γ2(W, a)/(α − a), and with it the people, is least.

    A witness U of γ2(W) shows γ2(W, a) ≥ γ2(W) − a‖U‖₁: where W•U ≥ α‖U‖₁, none is the best.
    """
    exact = approximate_norm(asked, 0.0, shift=shift, tolerance=_SEARCH_GAP)
    witness = exact.certificate.matrix
    if float((asked.dense() * witness).sum()) >= alpha * float(np.abs(witness).sum()):
        return 0.0

    cost = {0.0: exact.value / alpha}

    def tried(share: float) -> float:
        if share not in cost:
            a = share * alpha
            norm = approximate_norm(asked, a, shift=shift, tolerance=_SEARCH_GAP)
            cost[share] = norm.value / (alpha - a)
        return cost[share]

    best = 0.0
    for share in _SHARES[1:]:
        if tried(share) > 1.05 * tried(best):
            break  # convex over a positive line: it falls, then rises
        best = min(best, share, key=tried)

    width = _SHARES[1]
    for _ in range(_REFINED):
        width /= 2
        near = [share for share in (best - width, best, best + width) if 0 <= share < 1]
        best = min(near, key=tried)

    return float(best * alpha)


_LARGEST = 2**24  # entries of a workload that is written out


@lru_cache(maxsize=2)  # the strategy and its targets are asked for one after the other
def _planned(problem: LocalProblem) -> ApproximateAnswers:
    """For the goal; without one, the exact factorization at a customary error."""
    questions = problem.questions
    goal = problem.goal
    if questions.queries * questions.size > _LARGEST:
        raise TooLarge(
            f"{questions.queries:,} queries over {questions.size:,} cells are too many"
        )
    if goal is None:
        return plan_answers(questions, problem.epsilon, 1.0, 0.05, entrywise=0.0)

    return plan_answers(questions, problem.epsilon, goal.error, goal.beta)


def _strategy(problem: LocalProblem) -> Strategy:
    return _planned(problem).strategy


def _targets(problem: LocalProblem) -> FloatArray | None:
    """In the units of the queries as they are asked; None where no tolerance is used."""
    answers = _planned(problem)
    if answers.entrywise == 0:
        return None
    return problem.workload.dense() + (answers.targets - answers.matrix)


ENTRY = LocalMechanism(
    "approximate",
    "a vector near the queries' own, for a largest error",
    _strategy,
    slow=lambda cells: cells > 512,
    needs_goal=True,
    targets=_targets,
)


# --- largest error --------------------------------------------------------------------------------


_LISTED_ENTRIES = 2**24
"""Queries times cells that are written out: 128 MiB in doubles."""

_WORK = 2**37  # multiplications: half a minute


def strategy_tails(
    strategy: Strategy, workload: Workload, targets: FloatArray | None = None
) -> Tails:
    """The tails of answers, as shares of all people, to the workload or to targets in its place.

    Exact where reports are listed. Elsewhere the variance is the largest over all tables of people,
    with a quarter of the squared range for their drawing from a population, and the range is the
    most that one report moves an answer.
    """
    if workload.queries * workload.size > _LISTED_ENTRIES:
        raise TooLarge(
            f"the largest error of {workload.queries:,} answers is not worked out"
        )

    matrix = workload.dense()
    answered = matrix if targets is None else targets
    if isinstance(strategy, IndexStrategy) and _quick(strategy, len(answered)):
        return LinearAnswers(strategy, answered).tails_around(*biases(answered, matrix))

    asked = workload if targets is None else Explicit(targets)
    strategy.check_reach(asked)
    spread = np.ptp(answered, axis=1)
    variance = (
        LocalAccuracy(strategy, asked, 1, errors="worst").variance + spread**2 / 4
    )

    with np.errstate(invalid="ignore"):  # reports without a limit that do not matter
        reach = influence(strategy, asked)

    require(
        np.isfinite(reach).all(),
        "mechanism",
        strategy.kind,
        "has reports without a limit, for which no largest error is promised",
        "choose another mechanism",
    )

    return Tails(variance, reach, reach, *biases(answered, matrix))


def _quick(strategy: IndexStrategy, queries: int) -> bool:
    outputs = strategy.outputs
    size = strategy.size
    return outputs * size <= _LISTED_ENTRIES and queries * outputs * size <= _WORK
