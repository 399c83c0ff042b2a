"""η(C, α) [001, 7.2]: how hard it is to tell labels that a concept gives from all others.

η is the least γ2 of a matrix over concepts × labelled points with |w| ≤ α where the concept labels
rightly and w ≥ 1 where it does not, up to a free shift of every row. Its queries are penalties: at
most α for a concept that labels everybody rightly, at least L(1+α) − α for one of loss L.

Dual: Σ(u_wrong − α|u_right|)/γ2*(U) over U whose rows sum to zero with u_wrong ≥ 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import require
from noisewright.learn.concept_classes import ConceptClass, Concepts, concepts
from noisewright.learn.outcomes import Learned, Outcome, Refutation
from noisewright.learn.plans import LearningPlan, least_where
from noisewright.norm.approximate.approximate import BoxedNorm, boxed_norm


def penalty_box(given: ConceptClass, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Least and largest entries over labelled points: first those of label +1, then −1."""
    right = np.hstack([given.table > 0, given.table < 0])
    return np.where(right, -alpha, 1.0), np.where(right, alpha, np.inf)


def eta(source: Concepts, alpha: float, *, tolerance: float = 1e-3) -> BoxedNorm:
    """η(C, α) between certified bounds; `.approximation` is the matrix, `.shifts` its shifts."""
    given = concepts(source)
    require(0 <= alpha < 1, "alpha", alpha, "must lie between 0 and 1", "try 0.05")
    return boxed_norm(*penalty_box(given, alpha), shift=True, tolerance=tolerance)


@dataclass(frozen=True, eq=False, kw_only=True)
class RealizablePlan(LearningPlan):
    """A concept of loss at most alpha where some concept labels everybody rightly.

    Estimated are penalties plus the free `shifts` of η's matrix: at most a for the concept that
    fits, at least L(m + a) − a for one of loss L, where a is the largest entry of the right labels
    and m the least of the wrong ones. Of the room α(m + a) − 2a between a concept that fits and
    one of loss α, the first may stray by e₁ and all the others together by the rest; a concept is
    accepted whose penalty is estimated to be at most a + e₁.
    """

    shifts: FloatArray

    task = "realizable"

    @cached_property
    def limits(self) -> tuple[float, float]:
        """a and m, from the matrix itself."""
        if self.answers is None:
            return 0.0, 1.0
        right = np.hstack([self.concepts.table > 0, self.concepts.table < 0])
        penalties = self.answers.targets - self.shifts[:, None]
        return float(np.abs(penalties[right]).max()), float(penalties[~right].min())

    def room(self, alpha: float) -> float:
        """Between the penalties of a concept that fits and of one of loss alpha."""
        a, m = self.limits
        return alpha * (m + a) - 2 * a

    @property
    def _betas(self) -> tuple[float, float]:
        """Of missing the concept that fits, and of mistaking another: either is a failure."""
        return self.beta / 2, self.beta / 2

    def _strays(self, people: int) -> tuple[float, float]:
        """How far up the concept that fits strays, and down any of the others, at most."""
        if people not in self._known:
            tails, (missed, mistaken) = self.tails, self._betas
            most = float(np.max(np.maximum(tails.above, tails.below)))
            self._known[people] = (
                least_where(
                    lambda e: tails.chances(e, people)[0].max() <= missed, most
                ),
                least_where(
                    lambda e: tails.chances(e, people)[1].sum() <= mistaken, most
                ),
            )

        return self._known[people]

    @cached_property
    def _known(self) -> dict[int, tuple[float, float]]:
        return {}

    def proves(self, alpha: float, people: int) -> bool:
        return sum(self._strays(people)) <= self.room(alpha)

    def _compared(self, estimates: FloatArray, people: int) -> tuple[int, float, float]:
        """The concept of the least penalty, that penalty, and what is accepted."""
        penalties = estimates - self.shifts
        best = int(np.argmin(penalties))
        return best, float(penalties[best]), self.limits[0] + self._strays(people)[0]

    def _decided(self, estimates: FloatArray, known: Outcome) -> Learned:
        if self.answers is None:  # the one concept there is
            return self._learned(0, known)

        best, score, threshold = self._compared(estimates, known.people)
        if score > threshold and known.alpha is not None:
            said = "no concept labels everybody rightly: this one is the nearest, nothing is proven"
            warning = "; ".join(filter(None, [said, known.warning]))
            known = replace(known, alpha=None, warning=warning)

        bound = None if known.alpha is None else (0.0, known.alpha)
        return self._learned(best, known, interval=bound)


@dataclass(frozen=True, eq=False, kw_only=True)
class RealizableRefutationPlan(RealizablePlan):
    """Whether some concept labels everybody rightly, or all have a loss above alpha."""

    task = "refute-realizable"

    @property
    def _betas(self) -> tuple[float, float]:
        """Each error by itself."""
        return self.beta, self.beta

    def _decided(  # type: ignore[override]
        self, estimates: FloatArray, known: Outcome
    ) -> Refutation:
        _, score, threshold = self._compared(estimates, known.people)
        return Refutation(
            **vars(known),
            fits=score <= threshold,
            theta=0.0,
            score=score,
            threshold=threshold,
        )
