"""Statistical queries: the mean over people of a function into [−1, 1], told to within a tolerance.

An algorithm that learns from such answers alone runs on every back end: exact (tests), under
sequential local privacy (fresh people for every query, one randomised bit each), or pan-private
(`statistical.PanPrivateOracle`). Queries are whole numbers on a fixed grid, so what is drawn is
exact; rounding a query to the grid is part of its tolerance. Who needs how many people is known
before any is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log
from typing import Protocol

import numpy as np
import numpy.typing as npt

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, require
from noisewright.local.fixedpoint import (
    WORD,
    bernoulli,
    check_epsilon,
    exponential,
    integers_below,
    odds_threshold,
)
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy

GRID = 2**16
"""Steps of a query between 0 and 1."""

ROUNDING = 0.5 / GRID
"""How far a query's mean is at most from that of its values on the grid."""


def on_grid(query: npt.ArrayLike, size: int) -> IntArray:
    """A query as whole steps, one value per cell; all of them between −1 and 1."""
    values = np.asarray(query, dtype=np.float64)
    require(
        values.shape == (size,),
        "query",
        f"shape {values.shape}",
        f"must hold {size} values",
    )
    require(
        np.isfinite(values).all() and np.abs(values).max() <= 1,
        "query",
        f"{size} values",
        "must lie between −1 and 1",
    )

    return np.rint(values * GRID).astype(np.int64)


@dataclass(frozen=True)
class Demand:
    """How many queries are asked, to which tolerance; all answers hold with chance 1 − beta."""

    queries: int
    tolerance: float
    beta: float = 0.05

    def __post_init__(self) -> None:
        require(
            not isinstance(self.queries, bool)
            and self.queries >= 1
            and int(self.queries) == self.queries,
            "queries",
            self.queries,
            "must be a whole number >= 1",
        )

        if not 2 * ROUNDING <= self.tolerance <= 1:
            rule = f"must lie between {2 * ROUNDING:.1e} and 1"
            raise InvalidParameter("tolerance", self.tolerance, rule, "try 0.05")

        probability("beta", self.beta, "try 0.05")

    @property
    def margin(self) -> float:
        """The tolerance that is left for chance when queries are rounded to the grid."""
        return self.tolerance - ROUNDING


class Oracle(Shown, ABC):
    """Answers at most `demand.queries` queries over `size` cells, each to within its tolerance."""

    model: str
    size: int
    demand: Demand
    asked: int = 0

    def _facts(self) -> list[tuple[str, str]]:
        told = f"{self.asked:,} of {self.demand.queries:,}"
        return [("model", self.model), ("cells", f"{self.size:,}"), ("queries", told)]

    @property
    @abstractmethod
    def people(self) -> int:
        """How many people all queries together take, at most."""

    @property
    @abstractmethod
    def privacy(self) -> Privacy | None:
        """What is promised to everybody."""

    def ask(self, query: npt.ArrayLike) -> float:
        """The mean of a query, a value between −1 and 1 for every cell."""
        return float(self.ask_together([query])[0])

    def ask_together(self, queries: Sequence[npt.ArrayLike]) -> FloatArray:
        """The means of queries none of which depends on another's answer."""
        listed = np.array([on_grid(query, self.size) for query in queries])
        if not len(listed):
            return np.zeros(0)
        require(
            self.asked + len(listed) <= self.demand.queries,
            "queries",
            self.asked + len(listed),
            f"are more than the {self.demand.queries} that the oracle was made for",
            "state all of them in advance: the people needed depend on it",
        )

        answers = np.clip(self._answers(listed), -1.0, 1.0)
        self.asked += len(listed)
        return np.asarray(answers)

    @abstractmethod
    def _answers(self, queries: IntArray) -> FloatArray:
        """Means of queries on the grid."""


class ExactOracle(Oracle):
    """The true mean under a distribution over the cells: for tests, private to nobody.

    With an `rng`, every answer is moved by as much as the tolerance allows, up or down.
    """

    model = "exact"

    def __init__(
        self,
        distribution: FloatArray,
        demand: Demand,
        rng: np.random.Generator | None = None,
    ) -> None:
        weights = np.asarray(distribution, dtype=np.float64)
        require(
            weights.ndim == 1
            and len(weights)
            and (weights >= 0).all()
            and weights.sum(),
            "people",
            f"shape {weights.shape}",
            "must be shares of cells",
        )

        self.distribution, self.size = weights / weights.sum(), len(weights)
        self.demand = demand
        self._rng = rng

    @property
    def people(self) -> int:
        return 0

    @property
    def privacy(self) -> None:
        return None

    def _answers(self, queries: IntArray) -> FloatArray:
        means = queries / GRID @ self.distribution
        if self._rng is not None:
            means = means + self.demand.margin * self._rng.choice(
                [-1.0, 1.0], len(means)
            )
        return np.asarray(means)


@dataclass(frozen=True, eq=False)
class Question:
    """One query as a person's device answers it: a random bit, private by itself.

    The query's value v is rounded to a sign at random, +1 with chance (1 + v)/2, and the sign is
    sent through randomised response, with odds of at most e^ε for the truth.
    """

    values: IntArray
    epsilon: float

    @cached_property
    def threshold(self) -> int:
        """Chance of the truth, out of 2^64."""
        return odds_threshold(exponential(check_epsilon(self.epsilon)))

    @property
    def slope(self) -> Fraction:
        """What a bit as ±1 is on average, per unit of the query."""
        return Fraction(2 * self.threshold, WORD) - 1

    def randomize(
        self, cells: npt.ArrayLike, source: ByteSource | None = None
    ) -> BoolArray:
        """The bits of people who hold these cells; only tests pass a source."""
        held = self.values[np.asarray(cells, dtype=np.int64)]
        signs = integers_below(2 * GRID, len(held), source) < GRID + held
        return np.asarray(signs == bernoulli(self.threshold, len(held), source))

    def chances(self) -> list[Fraction]:
        """The exact chance of a true bit for every cell."""
        p = Fraction(self.threshold, WORD)
        shares = [Fraction(GRID + int(v), 2 * GRID) for v in self.values]
        return [p * share + (1 - p) * (1 - share) for share in shares]


class Respondents(Protocol):
    """People who can be asked: each answers one question, once."""

    def respond(self, question: Question, count: int) -> BoolArray:
        """The bits of the next `count` people, each made by `question.randomize` on a device."""


class Listed:
    """People by the cells they hold, in the order in which they are asked."""

    def __init__(
        self, cells: npt.ArrayLike, size: int, source: ByteSource | None = None
    ) -> None:
        listed = np.asarray(cells)
        require(
            listed.ndim == 1 and (not len(listed) or listed.dtype.kind in "iu"),
            "people",
            f"{listed.dtype} {listed.shape}",
            "must be cells",
        )
        require(
            not len(listed) or (listed.min() >= 0 and listed.max() < size),
            "people",
            len(listed),
            f"must hold cells 0 to {size - 1}",
        )

        self._cells, self._taken, self._source = listed.astype(np.int64), 0, source

    def take(self, count: int) -> IntArray:
        """The cells of the next people, who are never asked again."""
        if self._taken + count > len(self._cells):
            raise InvalidParameter(
                "people",
                len(self._cells),
                f"are too few: {self._taken:,} were asked, {count:,} more are needed",
                "give as many as `people` says",
            )

        self._taken += count
        return self._cells[self._taken - count : self._taken]

    def respond(self, question: Question, count: int) -> BoolArray:
        """Simulate the devices of the next people."""
        return question.randomize(self.take(count), self._source)


class SequentialOracle(Oracle):
    """Every query asks fresh people for one randomised bit each: sequential ε-local privacy.

    Whatever is kept is their bits (`transcript`), each private by itself: whoever sees it, as often
    as they like, learns no more of anybody than ε allows.
    """

    model = "sequential"

    def __init__(
        self, people: Respondents, size: int, epsilon: float, demand: Demand
    ) -> None:
        self._respondents = people
        self.size = size
        self.demand = demand
        self.epsilon = check_epsilon(epsilon)
        self.transcript: list[tuple[Question, BoolArray]] = []

    @cached_property
    def people_per_query(self) -> int:
        """Hoeffding: n ≥ 2·ln(2k/β)/(margin·slope)², a union bound over k queries.

        Each bit counts as ±1/slope.
        """
        slope = float(Question(np.zeros(1, dtype=np.int64), self.epsilon).slope)
        demand = self.demand
        logarithm = log(2 * demand.queries / demand.beta)
        return ceil(2 * logarithm / (demand.margin * slope) ** 2)

    @property
    def people(self) -> int:
        return self.people_per_query * self.demand.queries

    @property
    def privacy(self) -> Privacy:
        return Privacy(self.epsilon, neighbours="replace-one")

    def _answers(self, queries: IntArray) -> FloatArray:
        return np.array(
            [self._answer(Question(values, self.epsilon)) for values in queries]
        )

    def _answer(self, question: Question) -> float:
        bits = self._respondents.respond(question, self.people_per_query)
        require(
            bits.shape == (self.people_per_query,),
            "reports",
            bits.shape,
            f"must be {self.people_per_query} bits",
        )

        self.transcript.append((question, bits))
        ones = int(np.count_nonzero(bits))
        return float(Fraction(2 * ones - len(bits), len(bits)) / question.slope)
