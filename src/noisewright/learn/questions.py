"""What `nw.plan` takes to learn: each says what is found out, how surely, and plans itself.

People report about all concepts together, through a factorization, or each about one concept: the
plan's `.protocol` is the way that takes fewer, `.needs` what each takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from noisewright.errors import InvalidParameter, refuse_options, unknown_name
from noisewright.learn import make
from noisewright.learn.concept_classes import Concepts, concepts
from noisewright.learn.make import Goal
from noisewright.learn.plans import AgnosticPlan, RefutationPlan
from noisewright.learn.protocols import Contest
from noisewright.learn.realizable import RealizablePlan, RealizableRefutationPlan
from noisewright.learn.selection import PROTOCOLS, Selection, people_by_protocol
from noisewright.local.fixedpoint import check_epsilon
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.promise.budget import Privacy


def pure_epsilon(privacy: Privacy) -> float:
    """The ε of a promise that single reports keep by themselves; others are refused."""
    if privacy.kind != "pure" or privacy.epsilon is None:
        rule = "must be pure: an epsilon alone"
        raise InvalidParameter("privacy", privacy.kind, rule)
    return privacy.epsilon


@dataclass(frozen=True)
class OfClass:
    """A question about a class of concepts, answered with probability 1 − `beta`.

    `concepts` is a class by name (`thresholds:64`), in a matrix with one row a concept, or made by
    `nw.learn.concepts`; `points` are what its columns stand for, where it does not say so itself.
    """

    concepts: Concepts
    alpha: float = 0.1
    beta: float = 0.05
    points: Iterable[Hashable] | None = field(default=None, kw_only=True)

    def goal(self, privacy: Privacy, options: object) -> Goal:
        """The same, checked, for one ε-private report of each person."""
        refuse_options(self, options)
        epsilon = check_epsilon(pure_epsilon(privacy))
        probability("alpha", self.alpha, "try 0.1")
        probability("beta", self.beta, "try 0.05")

        given = concepts(self.concepts, self.points).distinct()
        return Goal(given, float(self.alpha), float(self.beta), epsilon)


@dataclass(frozen=True)
class Agnostic(OfClass):
    """A concept whose loss is within `alpha` of the best, whoever the people are.

    With its loss to ±alpha/2; with `loss=False` without it, from fewer people.
    """

    loss: bool = field(default=True, kw_only=True)

    def plan_under(self, budget: Privacy, options: None = None) -> AgnosticPlan:
        """The plan, which says how many people it takes."""
        return make.agnostic(self.goal(budget, options), self.loss)


@dataclass(frozen=True)
class AgnosticRefutation(OfClass):
    """Whether the best loss is at most `theta` or above theta + `alpha`.

    `theta` is ½ − alpha unless given: above it, all labels are random.
    """

    theta: float | None = field(default=None, kw_only=True)

    def plan_under(self, budget: Privacy, options: None = None) -> RefutationPlan:
        """The plan, which says how many people it takes."""
        theta = 0.5 - self.alpha if self.theta is None else self.theta
        return make.refutation(self.goal(budget, options), theta)


@dataclass(frozen=True)
class Realizable(OfClass):
    """A concept of loss at most `alpha`, where some concept labels everybody rightly."""

    def plan_under(self, budget: Privacy, options: None = None) -> RealizablePlan:
        """The plan, which says how many people it takes."""
        return make.realizable(self.goal(budget, options))


@dataclass(frozen=True)
class RealizableRefutation(OfClass):
    """Whether some concept labels everybody rightly, or all have a loss above `alpha`."""

    def plan_under(
        self, budget: Privacy, options: None = None
    ) -> RealizableRefutationPlan:
        """The plan, which says how many people it takes."""
        return make.realizable_refutation(self.goal(budget, options))


@dataclass(frozen=True)
class LargestMean:
    """A coordinate whose mean is within `alpha` of the largest, but for a chance of `beta`.

    Every person holds `coordinates` bits and is asked for one of them, which is randomised on their
    device. "auto" is the protocol that asks the fewest people at most, by what is proven;
    "elimination" often ends long before its most. `.needs` of the selection lists what each may
    take.
    """

    coordinates: int
    alpha: float = 0.1
    beta: float = 0.05
    protocol: str = field(default="auto", kw_only=True)

    def plan_under(self, budget: Privacy, options: None = None) -> Selection:
        """The selection, which asks for one bit after the other."""
        refuse_options(self, options)
        epsilon = pure_epsilon(budget)
        contest = Contest(self.coordinates, epsilon, self.alpha, self.beta)

        if self.protocol != "auto":
            if self.protocol not in PROTOCOLS:
                known = ("auto", *PROTOCOLS)
                raise unknown_name(
                    "protocol", self.protocol, "is no way to select", known
                )
            return Selection(contest, self.protocol)

        listed = people_by_protocol(contest)
        return Selection(contest, min(listed, key=listed.__getitem__))
