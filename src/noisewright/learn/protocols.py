"""Ways to find the coordinate with the largest mean from one randomised bit a person.

Everybody holds bits; a person is asked for one coordinate and sends that bit through randomised
response, whose mean moves with the truth by the `slope` tanh(ε/2). A protocol asks in blocks: whom
a block asks does not depend on its own answers. What each needs at most is known beforehand:

* `NonInteractive`: n people a coordinate, the largest count wins. Coordinate j beats the best one,
  which is more than α better, with chance exp(−n(slope·α)²) at most (Hoeffding over both groups),
  so n = ln((d−1)/β)/(slope·α)² suffices.
* `Elimination`: the same at checkpoints n_1 < n_2 < …, each with its share β_k of β and its radius
  w_k = √(ln((d−1)/β_k)/n_k)/slope. With chance 1 − β no coordinate is ever ahead of the best one by
  w_k more than in truth; so the best is never dropped by `behind by w_k`, and whoever leads at a
  checkpoint with w_k ≤ α is within α of it.
* `Bandit`: the protocol of [001, 4.3]: a bandit whose pseudo-regret is at most 25√(nd) [044],
  repeated, the arm of a uniformly random round each time; then the arms so found are compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.fixedpoint import WORD, check_epsilon
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.storage import whole_number
from noisewright.privacy.exact.rounding import probability

_GROWTH = 1.3  # from one checkpoint to the next
_EARLY = 0.2  # of β for all checkpoints before the last
_REGRET = 25.0
"""Times the root of coordinates × rounds: what the regret of MOSS stays below."""
_MOST_RUNS = 40  # the cheapest number is 6 at β = 0.05, 26 at β = 10^-6
_LEAST_BETA = 1e-100  # numbers of people, which go by its square, are floats


@dataclass(frozen=True)
class Contest:
    """d coordinates, one of which within α of the best is wanted with chance 1 − β."""

    coordinates: int
    epsilon: float
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        whole_number("coordinates", self.coordinates, 1, 2**20)
        check_epsilon(self.epsilon)

        require(
            1e-6 <= self.alpha <= 1,
            "alpha",
            self.alpha,
            "must lie between 1e-6 and 1",
            "try 0.1",
        )

        require(
            probability("beta", self.beta, "try 0.05") >= _LEAST_BETA,
            "beta",
            self.beta,
            f"must be at least {_LEAST_BETA:g}",
        )

    @cached_property
    def response(self) -> RandomizedResponse:
        """How a person's device answers."""
        return RandomizedResponse(2, self.epsilon)

    @cached_property
    def slope(self) -> float:
        """By how much an answer's mean moves when the truth's moves by one."""
        return float(Fraction(2 * self.response.threshold, WORD) - 1)

    def people_each(self, alpha: float, beta: float, rivals: int | None = None) -> int:
        """People a coordinate that tell the best from `rivals` others."""
        others = self.coordinates - 1 if rivals is None else rivals
        return ceil(log(others / beta) / (self.slope * alpha) ** 2) if others else 0

    def radius(self, each: int, beta: float, rivals: int | None = None) -> float:
        """How far whoever leads after so many people each may be from the best."""
        others = self.coordinates - 1 if rivals is None else rivals
        if not others:
            return 0.0
        return sqrt(log(others / beta) / each) / self.slope if each else inf

    def shares(self, ones: IntArray, asked: IntArray) -> FloatArray:
        """Estimated means from answers, without bias."""
        rates = ones / np.maximum(asked, 1)
        return np.asarray((rates - (1 - self.slope) / 2) / self.slope)


class Block(NamedTuple):
    """Coordinates asked in turn, each `repeats` times; all of it before any answer counts."""

    coordinates: IntArray
    repeats: int

    @property
    def people(self) -> int:
        return len(self.coordinates) * self.repeats


class Protocol(ABC):
    """A way to ask: blocks, and a choice when there are no more."""

    name: str

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.ones = np.zeros(contest.coordinates, dtype=np.int64)
        self.asked = np.zeros(contest.coordinates, dtype=np.int64)

    @property
    @abstractmethod
    def people(self) -> int:
        """How many people it asks at most."""

    @abstractmethod
    def block(self) -> Block | None:
        """Whom to ask next; None when it is decided."""

    def learn(self, block: Block, ones: IntArray) -> None:
        """How many of a block's answers were one, for each of its coordinates."""
        self.asked[block.coordinates] += block.repeats
        self.ones[block.coordinates] += ones

    @property
    def choice(self) -> int:
        """The coordinate that leads."""
        means = self.contest.shares(self.ones, self.asked)
        return int(np.argmax(np.where(self.asked > 0, means, -inf)))

    @property
    def reached(self) -> float:
        """How far the leader may be from the best, with chance 1 − β, as things stand."""
        return inf


class NonInteractive(Protocol):
    """One block."""

    name = "non-interactive"

    @property
    def people(self) -> int:
        return self.contest.coordinates * self.contest.people_each(
            self.contest.alpha, self.contest.beta
        )

    def block(self) -> Block | None:
        each = self.people // self.contest.coordinates
        return (
            None
            if self.asked.min() >= each
            else Block(np.arange(len(self.asked)), each)
        )

    @property
    def reached(self) -> float:
        return self.contest.radius(int(self.asked.min()), self.contest.beta)


class Elimination(Protocol):
    """Those that are surely not the best are asked no longer.

    With `scale` below one it asks fewer people than is proven: for simulations.
    """

    name = "elimination"

    def __init__(self, contest: Contest, scale: float = 1.0) -> None:
        super().__init__(contest)
        self.active = np.arange(contest.coordinates)
        self.stage = 0
        self._scale = scale

    @cached_property
    def checkpoints(self) -> list[tuple[int, float]]:
        """People each and radius at every checkpoint; no early one where it can tell nothing."""
        c = self.contest
        last = c.people_each(c.alpha, (1 - _EARLY) * c.beta)
        early: list[int] = []
        size = last / _GROWTH

        while size >= 1 and c.radius(int(size), _EARLY * c.beta) < 1:
            early.append(int(size))
            size /= _GROWTH

        early.reverse()
        each = _EARLY * c.beta / max(1, len(early))
        listed = [(n, c.radius(n, each)) for n in early]
        listed.append((last, c.alpha))

        return [(max(1, ceil(n * self._scale)), w) for n, w in listed]

    @property
    def people(self) -> int:
        return self.contest.coordinates * self.checkpoints[-1][0]

    def block(self) -> Block | None:
        if len(self.active) == 1 or self.stage == len(self.checkpoints):
            return None
        before = self.checkpoints[self.stage - 1][0] if self.stage else 0
        return Block(self.active, self.checkpoints[self.stage][0] - before)

    def learn(self, block: Block, ones: IntArray) -> None:
        super().learn(block, ones)
        means = self.contest.shares(self.ones[self.active], self.asked[self.active])
        radius = self.checkpoints[self.stage][1]
        self.active = self.active[means > means.max() - radius]
        self.stage += 1

    @property
    def choice(self) -> int:
        means = self.contest.shares(self.ones[self.active], self.asked[self.active])
        return int(self.active[np.argmax(means)])

    @property
    def reached(self) -> float:
        if len(self.active) == 1:
            return 0.0
        return self.checkpoints[self.stage - 1][1] if self.stage else inf


@dataclass(frozen=True)
class Runs:
    """How often a bandit is run and for how long, and the accuracies of runs and comparison."""

    count: int
    rounds: int
    alpha: float
    compare_each: int

    @property
    def people(self) -> int:
        return self.count * (self.rounds + self.compare_each)

    @classmethod
    def best(cls, contest: Contest) -> Runs:
        """The cheapest number of runs: each fails with chance p, all of them with p^count."""
        options = []
        for count in range(1, _MOST_RUNS + 1):
            for share in (1.0,) if count == 1 else (0.8, 0.9, 0.95, 0.98):
                alpha = share * contest.alpha
                beta = contest.beta if count == 1 else 0.8 * contest.beta
                chance = beta ** (1 / count)
                rounds = ceil(
                    (_REGRET / (contest.slope * alpha * chance)) ** 2
                    * contest.coordinates
                )
                each = 0
                if count > 1:
                    rest = contest.beta - beta
                    each = contest.people_each(contest.alpha - alpha, rest, count - 1)

                options.append(cls(count, rounds, alpha, each))

        return min(options, key=lambda runs: runs.people)


class Bandit(Protocol):
    """MOSS on randomised bits, repeated; `picked` are the rounds whose arms are returned."""

    name = "bandit"

    def __init__(
        self, contest: Contest, picked: list[int], runs: Runs | None = None
    ) -> None:
        super().__init__(contest)
        self.runs = runs or Runs.best(contest)
        if len(picked) != self.runs.count or not all(
            0 <= t < self.runs.rounds for t in picked
        ):
            rule = f"must be {self.runs.count} rounds below {self.runs.rounds}"
            raise InvalidParameter("picked", len(picked), rule)

        self.picked, self.candidates, self._round = picked, list[int](), 0
        self._compared = False

    @property
    def people(self) -> int:
        return self.runs.people

    def block(self) -> Block | None:
        if len(self.candidates) < self.runs.count:
            return Block(np.array([self._next()]), 1)
        if self.runs.count == 1 or self._compared or len(set(self.candidates)) == 1:
            return None
        return Block(np.unique(self.candidates), self.runs.compare_each)

    def _next(self) -> int:
        """The arm with the largest index, each tried once first."""
        if self._round < len(self.asked):
            return self._round
        return int(
            np.argmax(
                moss_index(self.ones, self.asked, self.runs.rounds / len(self.asked))
            )
        )

    def learn(self, block: Block, ones: IntArray) -> None:
        super().learn(block, ones)
        if len(self.candidates) == self.runs.count:
            self._compared = True
            return

        if self._round == self.picked[len(self.candidates)]:
            self._arm = int(block.coordinates[0])

        self._round += 1
        if self._round == self.runs.rounds:
            self.candidates.append(self._arm)
            self._round = 0
            self.ones[:] = self.asked[:] = 0

    @property
    def choice(self) -> int:
        if self._compared:
            return super().choice
        return self.candidates[0] if self.candidates else 0

    @property
    def reached(self) -> float:
        return self.contest.alpha if self.block() is None else inf


def moss_index(ones: IntArray, asked: IntArray, share: float) -> FloatArray:
    """Mean and √(max(log(share/T), 0)/T), where the share is that of an arm of all rounds."""
    bonus = np.maximum(np.log(share / asked), 0.0)
    return np.asarray(ones / asked + np.sqrt(bonus / asked))
