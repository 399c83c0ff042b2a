"""Learners that see people through statistical queries alone, so that they run on every oracle.

Each says how many queries it asks and to which tolerance, before anything is asked: that is what an
oracle is made for, and what decides how many people it takes. Cells are labelled points: cell a is
point a with label +1, cell n + a the same point with label −1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log
from typing import Protocol

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray, SignArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.learn.concept_classes import (
    ConceptClass,
    columns_below,
    concepts,
    label_signs,
)
from noisewright.learn.queries.oracle import Demand, Oracle
from noisewright.privacy.exact.rounding import probability


def labelled_cells(points: IntArray, labels: npt.ArrayLike, size: int) -> IntArray:
    """The cells of people who hold these columns of a class of `size` points, and labels."""
    signs = label_signs(labels)
    require(
        len(signs) == len(points),
        "labels",
        len(signs),
        f"must be one for each of {len(points)} points",
    )
    return np.where(signs > 0, points, points + size)


def correlation(labels: FloatArray | SignArray) -> FloatArray:
    """The query b·f(a) over labelled points."""
    return np.concatenate([labels, -labels]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Hypothesis(Shown):
    """What a learner returns: a label for every point, and in words where it has any."""

    labels: SignArray
    name: str
    source: ConceptClass | None = None
    """The class whose points it labels; columns 0, 1, 2, … without one."""

    def _facts(self) -> list[tuple[str, str]]:
        return [("hypothesis", self.name), ("points", f"{len(self.labels):,}")]

    def __call__(self, points: Iterable[object] | npt.ArrayLike) -> SignArray:
        if self.source is not None:
            return self.labels[self.source.columns(points)]
        return self.labels[columns_below(len(self.labels), points)]


class Learner(Protocol):
    """Anything that learns from statistical queries."""

    @property
    def size(self) -> int:
        """Number of points."""

    @property
    def alpha(self) -> float:
        """The loss that it promises, where its own assumption holds."""

    @property
    def queries(self) -> int:
        """How many queries it asks, at most."""

    @property
    def tolerance(self) -> float:
        """To which tolerance."""

    @property
    def together(self) -> int:
        """How many of them it asks at once."""

    def learn(self, oracle: Oracle) -> Hypothesis:
        """Ask the oracle."""


def demand_of(learner: Learner, beta: float = 0.05) -> Demand:
    """What an oracle must be made for."""
    return Demand(learner.queries, learner.tolerance, beta)


def _check(learner: Learner, oracle: Oracle) -> None:
    if oracle.size != 2 * learner.size:
        rule = f"must be over {2 * learner.size} labelled points"
        raise InvalidParameter("oracle", oracle.size, rule)
    if oracle.demand.tolerance > learner.tolerance:
        rule = f"must be at most {learner.tolerance:g}, which the learner needs"
        raise InvalidParameter("tolerance", oracle.demand.tolerance, rule)


@dataclass(frozen=True)
class MonotoneConjunction:
    """Kearns' learner [045] of a conjunction of some of `bits` bits that labels everybody rightly.

    One query per bit: how many people with label +1 have it unset? In a bit of the target nobody
    does. Bits with at most τ' are kept, so all of the target's are, and the others that are kept
    mislabel at most 2τ' each: with τ' = α/(2·bits) the loss is at most α. Queries ask for twice the
    share less one, so that a tolerance of 2τ' suffices.
    """

    bits: int
    alpha: float

    def __post_init__(self) -> None:
        require(
            not isinstance(self.bits, bool) and 1 <= self.bits <= 16,
            "bits",
            self.bits,
            "must lie between 1 and 16",
        )
        probability("alpha", self.alpha, "try 0.1")

    @cached_property
    def concepts(self) -> ConceptClass:
        """The class that is learnt; only to name what is found."""
        return concepts(f"monotone-conjunctions:{self.bits}")

    @property
    def size(self) -> int:
        return int(2**self.bits)

    @property
    def queries(self) -> int:
        return self.bits

    @property
    def together(self) -> int:
        return self.bits

    @property
    def tolerance(self) -> float:
        return self.alpha / self.bits

    def learn(self, oracle: Oracle) -> Hypothesis:
        _check(self, oracle)

        unset = (
            np.arange(self.size)[None, :] >> np.arange(self.bits - 1, -1, -1)[:, None]
            & 1
            == 0
        )

        never = np.zeros_like(unset)
        queries = 2.0 * np.hstack([unset, never]) - 1.0
        shares = (1 + oracle.ask_together(list(queries))) / 2

        kept = shares <= self.tolerance / 2
        labels = np.where((unset & kept[:, None]).any(axis=0), -1, 1).astype(np.int8)
        name = " and ".join(f"bit {k + 1}" for k in np.flatnonzero(kept)) or "always"

        return Hypothesis(labels, name)


@dataclass(frozen=True, eq=False)
class MultiplicativeWeights:
    """A weighted vote of features that labels everybody rightly, with a margin.

    `features` has a row per feature and a column per point, between −1 and 1. Promised is a loss of
    at most `alpha` wherever some weights w of ℓ1 length one have b·⟨w, x⟩ ≥ `margin` for everybody.

    Weights over ±features begin equal. Every round asks for the share e of people whom their vote h
    mislabels (a vote of zero does) and, if that is above α, for g_i = E[b·x_i; h mislabels]; then
    weights are multiplied by exp(η·ĝ_i/ê). Right weights gain (γe − τ)/ê a round, the vote at most
    τ/ê; with τ = αγ/8 the difference is at least 4γ/7, gains are within B = 1 + 2τ/(α − τ), and the
    regret of the weights is at most ln(2k)/η + ηB²T/2. So η = 4γ/(7B²) ends it within
    T = 2B²·ln(2k)/(4γ/7)² rounds.
    """

    features: FloatArray
    alpha: float
    margin: float

    def __post_init__(self) -> None:
        probability("alpha", self.alpha, "try 0.1")
        f = np.asarray(self.features, dtype=np.float64)
        if (
            f.ndim != 2
            or 0 in f.shape
            or not np.isfinite(f).all()
            or np.abs(f).max() > 1
        ):
            rule = "must be a row per feature, between −1 and 1"
            raise InvalidParameter("features", f"shape {f.shape}", rule)

        require(0 < self.margin <= 1, "margin", self.margin, "must lie between 0 and 1")
        if self.rounds > 10**6:
            raise TooLarge(
                f"{self.rounds:,} rounds are too many; the margin is too small"
            )

        object.__setattr__(self, "features", f)

    @property
    def size(self) -> int:
        return int(np.asarray(self.features).shape[1])

    @property
    def tolerance(self) -> float:
        return self.alpha * self.margin / 8

    @property
    def _reach(self) -> float:
        """B: the largest gain of a weight in a round."""
        return 1 + 2 * self.tolerance / (self.alpha - self.tolerance)

    @property
    def _edge(self) -> float:
        return 4 * self.margin / 7

    @property
    def rounds(self) -> int:
        """T: after so many every vote was within α."""
        count = 2 * len(np.asarray(self.features))
        return ceil(2 * self._reach**2 * log(count) / self._edge**2)

    @property
    def together(self) -> int:
        return len(self.features) + 1

    @property
    def queries(self) -> int:
        return (self.rounds + 1) * self.together

    def learn(self, oracle: Oracle) -> Hypothesis:
        _check(self, oracle)
        f = self.features
        scores = np.zeros(2 * len(f))

        rate = self._edge / self._reach**2

        best = np.ones(self.size, dtype=np.int8)
        least = 2.0

        for _ in range(self.rounds + 1):
            weights = np.exp(scores - scores.max())
            vote = (weights[: len(f)] - weights[len(f) :]) / weights.sum() @ f
            wrong = np.concatenate([vote <= 0, vote >= 0])
            gains = np.where(wrong, np.hstack([f, -f]), 0.0)
            told = oracle.ask_together([2.0 * wrong - 1.0, *gains])
            error = (1 + float(told[0])) / 2
            if error < least:
                best = np.where(vote > 0, 1, -1).astype(np.int8)
                least = error

            if error <= self.alpha - self.tolerance:
                break

            step = rate * told[1:] / error
            scores += np.concatenate([step, -step])

        return Hypothesis(best, f"weighted vote of {len(f)} features")


@dataclass(frozen=True)
class Verdict(Shown):
    """Whether some hypothesis of loss at most `theta` fits, or none has loss up to theta + alpha.

    Between the two it may be either. `loss` is the estimated loss of the `hypothesis` tested.
    """

    fits: bool
    theta: float
    alpha: float
    loss: float
    hypothesis: Hypothesis

    def _facts(self) -> list[tuple[str, str]]:
        said = "fits" if self.fits else "refuted"
        return [
            ("verdict", said),
            ("theta", f"{self.theta:g}"),
            ("loss", f"{self.loss:.4f}"),
        ]


@dataclass(frozen=True)
class Refuter:
    """A learner made into a test: learn to within α/3, then ask fresh people for the loss.

    The loss is told to within α/3: at most θ + 2α/3 where the learner's class has a hypothesis of
    loss θ, and more where every hypothesis mislabels more than θ + α [001, 8.2]. The learner must
    promise θ + α/3, which learners of classes that label everybody rightly do at θ = 0.
    """

    learner: Learner
    theta: float = 0.0

    def __post_init__(self) -> None:
        require(0 <= self.theta < 1, "theta", self.theta, "must lie between 0 and 1")

    @property
    def alpha(self) -> float:
        """The gap between what fits and what is refuted."""
        return 3 * self.learner.alpha

    @property
    def queries(self) -> int:
        return self.learner.queries + 1

    @property
    def tolerance(self) -> float:
        """A tolerance of 2α/3 on the correlation is one of α/3 on the loss."""
        return min(self.learner.tolerance, 2 * self.learner.alpha)

    @property
    def together(self) -> int:
        return self.learner.together

    def demand(self, beta: float = 0.05) -> Demand:
        """What an oracle must be made for."""
        return Demand(self.queries, self.tolerance, beta)

    def decide(self, oracle: Oracle) -> Verdict:
        """Learn, then test on fresh people."""
        hypothesis = self.learner.learn(oracle)
        loss = (1 - oracle.ask(correlation(hypothesis.labels))) / 2
        fits = loss <= self.theta + 2 * self.learner.alpha
        return Verdict(fits, self.theta, self.alpha, loss, hypothesis)
