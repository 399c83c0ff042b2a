"""What every search returns: a value, a bound that no method of a named class beats, and its proof.

A bound says nothing of methods outside its class, and some of them do better; the page
`docs/concepts/certificates.md` defines the classes and shows how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from noisewright.display import Shown
from noisewright.errors import Contradiction

SLACK = 1e-9
"""Relative rounding allowed between a value and a bound that both end at the optimum."""


class BoundClass(StrEnum):
    """The methods that a lower bound limits; its value is the name that is printed and stored."""

    LINEAR = "linear strategies under this noise"
    WITHIN_TOLERANCE = "linear strategies within the tolerance"
    UNBIASED = "unbiased linear estimates"
    ANY_NOISE = "any noise that does not depend on the data"
    ANY_PARTS = "any noise that hides parts of a person too"
    ANY_UNBIASED = "any unbiased mechanism, at every data set"
    ANY_UNBIASED_MIXED = "any unbiased mechanism, at data sets where every type occurs"
    ANY_MECHANISM = "any mechanism whatever, on its worst data set"
    AFFINE = "affine estimates from these reports"
    NON_INTERACTIVE = "any non-interactive protocol"
    SEQUENTIAL = "any sequential protocol"

    @property
    def statement(self) -> str:
        """The class in a sentence, for the foot of a table."""
        return _STATEMENTS[self]


_STATEMENTS = {
    BoundClass.AFFINE: (
        "Bound for affine estimates from these reports, biased or not: on its worst table of as "
        "many people each of them errs by this much"
    ),
    BoundClass.NON_INTERACTIVE: (
        "Bound for any non-interactive protocol under local privacy, biased or not, whose answers "
        "hold for every distribution; proved on average over a family of them"
    ),
    BoundClass.SEQUENTIAL: (
        "Bound for any sequential protocol under local privacy, biased or not: one that chooses "
        "what to ask by what others reported"
    ),
    BoundClass.LINEAR: (
        "Bound for linear strategies under this noise: every W = RA with noise of this law on Ax "
        "and unbiased answers. Other noise, biased and data-dependent methods may do better"
    ),
    BoundClass.WITHIN_TOLERANCE: (
        "Bound for linear strategies within the tolerance: every RA that near to W in each entry, "
        "with the same noise on Ax"
    ),
    BoundClass.UNBIASED: (
        "Bound for unbiased linear estimates from any ε-LDP, non-interactive strategy, on its "
        "worst data. Biased estimates, such as shrunk ones, may need fewer people"
    ),
    BoundClass.ANY_NOISE: (
        "Bound for any noise that does not depend on the data: of whatever law, correlated or not, "
        "added to the answers"
    ),
    BoundClass.ANY_PARTS: (
        "Bound for any noise that hides parts of a person too: its law changes by e^(ε/2) at most "
        "for half a person. Noise on whole people alone may be a little less"
    ),
    BoundClass.ANY_UNBIASED: (
        "Bound for any unbiased mechanism, at every data set: answers that are right on average "
        "for every table vary by this much on each"
    ),
    BoundClass.ANY_UNBIASED_MIXED: (
        "Bound for any unbiased mechanism, at data sets where every type occurs: answers that are "
        "right on average for every table vary by this much where no cell is empty"
    ),
    BoundClass.ANY_MECHANISM: (
        "Bound for any mechanism whatever, on its worst data set: biased or not, whatever it looks "
        "at, there is a table, perhaps of many people, on which it errs by this much"
    ),
}


BoundTold = TypedDict(
    "BoundTold", {"class": str, "lower_bound": float, "ratio": float | None}
)
"""A bound ready for JSON, with the name of its class."""


@dataclass(frozen=True)
class ClassBound:
    """What no method of a class goes below, and how many times that a plan's own error is.

    The ratio is None where the error depends on the data, and may be smaller on some.
    """

    bound_class: BoundClass
    lower_bound: float
    ratio: float | None = None

    def to_dict(self) -> BoundTold:
        """The figures scripts rely on."""
        return {
            "class": self.bound_class.value,
            "lower_bound": self.lower_bound,
            "ratio": self.ratio,
        }


class Status(StrEnum):
    """How a search ended: its name, and a sentence that a person can act on."""

    sentence: str

    CLOSED_FORM = "closed form", "no iteration was needed"
    CONVERGED = "converged", "gap {gap:.1e} after {iterations} steps"
    CERTIFIED = (
        "certified",
        "at most {gap:.1e} above the least error of any factorization",
    )
    ITERATION_LIMIT = (
        "iteration limit",
        "gap {gap:.1e} after {iterations} steps; the result and its bound are valid, more "
        "iterations would bring them closer",
    )
    FINISHED = "finished", "the search ran to its end"
    TARGET_REACHED = "target reached", "the search stopped where it was told to"
    TIME_LIMIT = "time limit", "the result is valid, more time might better it"
    CACHED = "cached", "found by an earlier search and checked anew"

    def __new__(cls, word: str, sentence: str) -> Status:
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """What proves a lower bound, by its name, and the methods that the bound limits.

    A subclass holds the proof itself, from which the bound can be computed again.
    """

    name: str
    bound_class: BoundClass


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution(Shown):
    """The best that was found, and what no method of the certificate's class goes below.

    Without a certificate no bound is known and `lower_bound` is zero. A value below its bound is a
    contradiction and never made: what rounding alone may put there, SLACK of the bound, is lifted.
    """

    value: float
    lower_bound: float = 0.0
    certificate: Certificate | None = None
    status: Status = Status.CLOSED_FORM
    notes: tuple[str, ...] = ()
    iterations: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.lower_bound <= self.value < math.inf:
            object.__setattr__(
                self,
                "value",
                lifted_to_bound(self.value, self.lower_bound, self.subject),
            )

    @property
    def subject(self) -> str:
        """What the solution is of, for messages."""
        return type(self).__name__.lower()

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that `lower_bound` limits."""
        return None if self.certificate is None else self.certificate.bound_class

    @property
    def ratio(self) -> float:
        """The value over its lower bound."""
        return quotient(self.value, self.lower_bound)

    @property
    def gap(self) -> float:
        """Relative distance between the value and its lower bound."""
        return self.ratio - 1

    @property
    def converged(self) -> bool:
        """Whether nothing cut the search short."""
        return self.status not in (Status.ITERATION_LIMIT, Status.TIME_LIMIT)

    def _facts(self) -> list[tuple[str, str]]:
        gap = (
            ("gap", f"{self.gap:.1e}")
            if self.certificate
            else ("lower bound", "not known")
        )
        return [("value", f"{self.value:.6g}"), gap, ("status", self.status)]

    @property
    def explanation(self) -> str:
        """How the search ended and what was special about it, in words a person can act on."""
        sentence = self.status.sentence.format(gap=self.gap, iterations=self.iterations)
        return "; ".join([f"{self.status}: {sentence}", *self.notes])


def quotient(value: float, bound: float) -> float:
    """A value over its bound: infinite where the bound says nothing, one where both are zero."""
    if bound > 0:
        return value / bound
    return math.inf if value > 0 else 1.0


def lifted_to_bound(value: float, bound: float, what: str) -> float:
    """The value, lifted to its bound where rounding alone put it below.

    No optimum lies between a bound and a smaller value: anything beyond rounding is an error here.
    """
    if not (math.isfinite(value) and value >= bound * (1 - SLACK) and bound >= 0):
        raise Contradiction(
            f"{what}: a value of {value!r} contradicts its lower bound of {bound!r}; this is a "
            f"fault of the program and not a result, please report it with the workload"
        )
    return max(value, bound)
