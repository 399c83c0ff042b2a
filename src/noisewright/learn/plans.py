"""Learning and refutation without a curator: one report a person, and what may be said of it.

Everybody holds a point and a label and sends one ε-private report. *Agnostic* tasks estimate the
correlation q_c = E[b·c(a)] of every concept, loss (1 − q_c)/2: estimates within α of the truth give
a concept whose loss is within α of the best, its loss to ±α/2, and a test whether the best loss is
at most θ or above θ + α. Where only the concept is wanted, one function may be subtracted from all
concepts first. *Realizable* tasks estimate penalties (`realizable`), which need fewer people where
some concept labels everybody rightly, and tell when none does.

Chances of failure are sums over concepts of the tails of their estimates, on the sides that matter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.learn.concept_classes import ConceptClass
from noisewright.learn.one_each import protocol_of
from noisewright.learn.outcomes import Learned, Outcome, Proven, Refutation
from noisewright.learn.queries.learners import labelled_cells
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import Client
from noisewright.local.vector.linear_answers import LinearAnswers
from noisewright.local.vector.tails import Comparisons, Tails, biases, comparisons
from noisewright.planning.plan import Plan
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Promise, Spend

_MOST_PEOPLE = 2**62  # their number fits a word of 64 bits
_HALVINGS = 40  # of a share of people: to 10^-12


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningPlan(Plan):
    """One report of each person, `people` of them, and `decide`.

    `answers` estimates a number per concept; None where the class has one concept, which is known
    without asking anybody. `others` is how many people the protocols take that were not chosen.
    """

    concepts: ConceptClass
    alpha: float
    beta: float
    epsilon: float
    answers: LinearAnswers | None
    others: Mapping[str, int] = field(default_factory=dict)

    task: ClassVar[str]

    kind = "learning-plan"
    model = "local"

    def __post_init__(self) -> None:
        probability("alpha", self.alpha, "try 0.1")
        probability("beta", self.beta, "try 0.05")

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("task", self.task),
            *self.concepts._facts(),
            ("alpha", f"{self.alpha:g}"),
            ("beta", f"{self.beta:g}"),
            ("people", f"{self.people:,}"),
            *([("protocol", self.protocol)] if self.protocol else []),
        ]

    @property
    def title(self) -> str:
        """What is learnt or refuted."""
        return f"{self.task} of {self.concepts.title}"

    # --- before anything is collected ---------------------------------------------------------

    @property
    def privacy(self) -> Privacy:
        """What every report promises, recomputed from what clients run."""
        if self.answers is None:
            return Privacy(self.epsilon, neighbours="replace-one")
        return self.answers.strategy.promise

    @property
    def spend(self) -> Spend:
        """What one report costs the person who sends it."""
        return Spend("replace-one", (Promise(self.epsilon, 0.0),))

    @cached_property
    def protocol(self) -> str | None:
        """Whether people report about all concepts together or about one each; None for nobody."""
        return (
            None
            if self.answers is None
            else protocol_of(self.answers.strategy, self.concepts)
        )

    @property
    def needs(self) -> dict[str, int]:
        """The people that this protocol takes, and the other where it was planned as well."""
        return (
            {} if self.protocol is None else {self.protocol: self.people, **self.others}
        )

    @abstractmethod
    def proves(self, alpha: float, people: int) -> bool:
        """Whether `alpha` holds with so many people, but for a chance of beta."""

    @cached_property
    def tails(self) -> Tails:
        """How far the estimates stray from what they are estimates of."""
        return self._asking.tails

    @cached_property
    def people(self) -> int:
        """The fewest people for which (alpha, beta) is proven."""
        if self.answers is None:
            return 0

        low = 0
        high = 1

        while not self.proves(self.alpha, high):
            low = high
            high = 2 * high
            if high > _MOST_PEOPLE:
                raise TooLarge(
                    f"alpha={self.alpha:g} needs more people than there are; raise it"
                )

        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.proves(self.alpha, middle) else (middle, high)
            )

        return high

    def accuracy(self, people: int) -> float | None:
        """The least alpha that is proven with so many people; None where none below one is."""
        if self.answers is None:
            return 0.0
        if people < 1 or not self.proves(1.0, people):
            return None
        return least_where(lambda alpha: self.proves(alpha, people), 1.0)

    def forecast(self, people: int | None = None) -> Proven:
        """What is proven with so many people: as many as it takes, unless told otherwise."""
        if people is None:
            return Proven(self.alpha, self.beta, self.people)
        return Proven(self.accuracy(people), self.beta, people)

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        return {
            "task": self.task,
            "class": self.concepts.title,
            "concepts": self.concepts.count,
            "points": self.concepts.size,
            "alpha": self.alpha,
            "beta": self.beta,
            "people": self.people,
            "protocol": self.protocol,
            "needs": self.needs,
            "privacy": self.privacy.to_dict(),
        }

    # --- collection ---------------------------------------------------------------------------

    def cells(self, points: Iterable[object], labels: npt.ArrayLike) -> IntArray:
        """The cells that clients report about: a point with label +1, then with −1."""
        return labelled_cells(self.concepts.columns(points), labels, self.concepts.size)

    @property
    def client(self) -> Client:
        """What runs on a person's device; `client.randomize(cell)` gives the bytes to send."""
        return Client(self._asking.format)

    def randomize(self, points: Iterable[object], labels: npt.ArrayLike) -> Array:
        """Reports of many people at once."""
        return self._asking.randomize(self.cells(points, labels))

    def aggregate(self, reports: Any = None) -> Aggregate:
        """Statistics of reports, which add; none gives an empty one to add to."""
        return self._asking.aggregate(reports)

    @property
    def _asking(self) -> LinearAnswers:
        if self.answers is None:
            raise InvalidParameter(
                "concepts",
                1,
                "is all there is: nobody needs to be asked",
                "call decide()",
            )

        return self.answers

    def decide(self, reports: Any = None) -> Outcome:
        """What reports or an aggregate of them say."""
        if self.answers is None:
            nobody = Outcome(alpha=0.0, beta=self.beta, people=0, privacy=self.privacy)
            return self._decided(np.zeros(1), nobody)

        collected = self.answers.aggregate(reports)
        estimates = self.answers.estimate(collected)

        people = collected.people
        alpha = self.accuracy(people)

        warning = None
        if people < self.people:
            holds = "nothing" if alpha is None else f"an accuracy of {alpha:.4g}"
            warning = (
                f"{people:,} people reported and {self.people:,} are needed for "
                f"{self.alpha:g}; {holds} is proven with so many"
            )

        known = Outcome(
            alpha=alpha,
            beta=self.beta,
            people=people,
            warning=warning,
            privacy=self.privacy,
        )
        return self._decided(estimates, known)

    @abstractmethod
    def _decided(self, estimates: FloatArray, known: Outcome) -> Outcome:
        """What follows from the estimates, of which so much is known."""

    def _learned(
        self,
        concept: int,
        known: Outcome,
        loss: float | None = None,
        interval: tuple[float, float] | None = None,
    ) -> Learned:
        given = self.concepts
        return Learned(
            concept=given.number(concept),
            name=given.names[concept],
            labels=given.table[concept],
            source=given,
            loss=loss,
            interval=interval,
            **vars(known),
        )


class CorrelationPlan(LearningPlan):
    """Estimates are of correlations, and as biased as their matrix is far from the class's."""

    @abstractmethod
    def failure(self, alpha: float, people: int) -> float:
        """At most the chance that `alpha` does not hold with so many people."""

    def proves(self, alpha: float, people: int) -> bool:
        return self.failure(alpha, people) <= self.beta

    @property
    def correlations(self) -> FloatArray:
        """What is estimated, as functions of the point that are multiplied by the label."""
        return self.concepts.matrix

    @cached_property
    def tails(self) -> Tails:
        answers = self._asking
        rows = self.correlations

        require(
            answers.queries == len(rows),
            "answers",
            answers.queries,
            f"must be {len(rows)}",
        )
        over, under = biases(answers.targets, np.hstack([rows, -rows]))

        return answers.tails_around(over, under)


@dataclass(frozen=True, eq=False, kw_only=True)
class AgnosticPlan(CorrelationPlan):
    """A concept whose loss is within alpha of the best of the class, whatever the labels.

    `loss` tells whether the loss itself is estimated. Estimates are of q_c − q_f, f the function
    `subtracted`, which is zero where losses are wanted. Of two concepts without their losses half
    the difference is all that is estimated.
    """

    loss: bool = True
    subtracted: FloatArray

    task = "agnostic"

    @property
    def correlations(self) -> FloatArray:
        rows = self.concepts.matrix - self.subtracted
        return (rows[:1] - rows[1:]) / 2 if len(rows) == 2 and not self.loss else rows

    def failure(self, alpha: float, people: int) -> float:
        """All concepts above and the best below; without a loss also what follows from pairs.

        A concept that is worse by more than α is chosen only where it is estimated too high, or the
        best too low, by more than α. The chosen one is estimated too low by that much only where
        the best is as well, whose estimate is no larger and whose correlation no smaller.

        Without a loss a wrong choice also takes that one concept is estimated above the best, which
        it lies 2α below: a chance for each pair.
        """
        up, down = self.tails.chances(alpha, people)
        if self.loss:
            return float(up.sum() + down.max())

        apart = float(np.maximum(up, down).sum())
        if self._comparisons is None:
            return apart
        return min(apart, self._comparisons.failure(2 * alpha, people))

    @property
    def by_pairs(self) -> bool:
        """Whether chances of a wrong choice are worked out for concepts two by two."""
        return self._comparisons is not None

    @cached_property
    def _comparisons(self) -> Comparisons | None:
        """None where pairs are too many, a loss is wanted, or one difference says it all."""
        rows = self.correlations
        if self.loss or len(rows) < self.concepts.count:
            return None
        return comparisons(self._asking, np.hstack([rows, -rows]))

    def _decided(self, estimates: FloatArray, known: Outcome) -> Learned:
        if len(estimates) < self.concepts.count:
            estimates = np.concatenate([estimates, -estimates])

        best = int(np.argmax(estimates))
        loss = interval = None
        if self.loss and known.people:
            loss = float(np.clip((1 - estimates[best]) / 2, 0.0, 1.0))
            reach = 1.0 if known.alpha is None else known.alpha / 2
            interval = (max(0.0, loss - reach), min(1.0, loss + reach))

        return self._learned(best, known, loss, interval)


@dataclass(frozen=True, eq=False, kw_only=True)
class RefutationPlan(CorrelationPlan):
    """Whether some concept has a loss of at most theta, or all are above theta + alpha."""

    theta: float

    task = "refute"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            0 <= self.theta <= 1,
            "theta",
            self.theta,
            "must lie between 0 and 1",
            "try 0.25",
        )

    def failure(self, alpha: float, people: int) -> float:
        """Of the concept that fits below, of all that do not above: the larger of the two."""
        up, down = self.tails.chances(alpha, people)
        return float(max(down.max(), up.sum()))

    def decide(self, reports: Any = None, theta: float | None = None) -> Outcome:
        """The verdict, at the plan's theta or another one: nothing else depends on it."""
        if theta is None:
            return super().decide(reports)
        return LearningPlan.decide(replace(self, theta=theta), reports)

    def _decided(self, estimates: FloatArray, known: Outcome) -> Refutation:
        loss = float(np.clip((1 - estimates.max()) / 2, 0.0, 1.0))
        alpha = self.alpha if known.alpha is None else known.alpha
        threshold = self.theta + alpha / 2
        return Refutation(
            **vars(known),
            fits=loss <= threshold,
            theta=self.theta,
            score=loss,
            threshold=threshold,
        )


def least_where(holds: Callable[[float], bool], most: float) -> float:
    """The least number up to `most` at which a property holds that holds from somewhere on."""
    low = 0.0
    high = most

    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
