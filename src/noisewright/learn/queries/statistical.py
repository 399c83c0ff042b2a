"""Who answers statistical queries: one oracle per model, with the people it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, TooLarge, require, unknown_name
from noisewright.learn.concept_classes import ConceptClass, Concepts, concepts
from noisewright.learn.queries.learners import Hypothesis, correlation
from noisewright.learn.queries.oracle import (
    _MOST_PEOPLE,
    GRID,
    Demand,
    ExactOracle,
    Listed,
    Oracle,
    Respondents,
    SequentialOracle,
)
from noisewright.local.fixedpoint import check_epsilon
from noisewright.norm.approximate.approximate import approximate_norm
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.noise.integers import discrete_laplace
from noisewright.privacy.promise.budget import Privacy

MODELS = ("exact", "sequential", "pan-private")


def statistical_queries(
    people: npt.ArrayLike | Respondents,
    privacy: Privacy | None = None,
    *,
    size: int,
    queries: int,
    tolerance: float,
    beta: float = 0.05,
    model: str = "sequential",
    together: int = 1,
    intrusions: int = 1,
) -> Oracle:
    """An oracle for so many queries over `size` cells, each answered to within `tolerance`.

    All answers are right with probability 1 − `beta`; `.people` says how many people that takes,
    `.ask(query)` and `.ask_together(queries)` answer. `people` are cells in the order in which they
    are asked or, with `model="sequential"`, anything with `respond(question, count)` that asks
    devices. With `model="exact"` they are shares of cells, and nothing is private.

    "sequential" is local privacy: a fresh person's randomised bit at a time. "pan-private" trusts a
    curator, whose memory may be seen once; up to `together` queries that do not depend on each
    other share people. With more `intrusions` the memory is the transcript of the local protocol.
    """
    demand = Demand(queries, tolerance, beta)
    if model not in MODELS:
        raise unknown_name("model", model, "is no oracle", MODELS)

    if model == "exact" and privacy is not None:
        rule = "cannot be kept by exact answers"
        raise InvalidParameter(
            "privacy", privacy.kind, rule, "leave it out, or take another model"
        )

    for name, value in (("together", together), ("intrusions", intrusions)):
        if value != 1 and model != "pan-private":
            rule = f"is a setting of the pan-private model, and this one is {model}"
            raise InvalidParameter(name, value, rule, "leave it out")

    if together != 1 and intrusions > 1:
        rule = "shares people in a memory that is seen once"
        raise InvalidParameter(
            "together", together, rule, "leave it out, or allow one intrusion"
        )

    require(
        not isinstance(intrusions, bool)
        and int(intrusions) == intrusions
        and intrusions >= 1,
        "intrusions",
        intrusions,
        "must be a whole number >= 1",
    )

    if model == "exact":
        if len(np.asarray(people)) != size:
            raise InvalidParameter(
                "people", len(np.asarray(people)), f"must be {size} shares"
            )
        return ExactOracle(np.asarray(people), demand)

    epsilon = _pure(privacy)
    asks = hasattr(people, "respond")
    respondents: Any = people if asks else Listed(people, size)  # type: ignore[arg-type]
    if model == "sequential" or intrusions > 1:
        return SequentialOracle(respondents, size, epsilon, demand)

    if asks:
        rule = "must be cells: a curator sees them one by one"
        raise InvalidParameter("people", type(people).__name__, rule)

    return PanPrivateOracle(respondents, size, epsilon, demand, together)


def _pure(privacy: Privacy | None) -> float:
    if privacy is None or privacy.kind != "pure" or privacy.epsilon is None:
        shown = None if privacy is None else privacy.kind
        raise InvalidParameter(
            "privacy", shown, "must be pure: an epsilon alone", "Privacy(1.0)"
        )
    return privacy.epsilon


_SEED = 92  # of the signs drawn: others cost a quarter less to a third more people
_FIRST = 16  # signs drawn at first: half and double differ by no more than seeds do
_MOST = 2**14  # signs: only bounds the work, which grows as their square
_OWN = 0.1  # of α, what the decoding may be off by; the rest is for wrong answers


@dataclass(frozen=True, eq=False)
class CorrelationalLearner(Shown):
    """A learner of any class, whatever the labels: its queries do not depend on each other.

    `signs` holds the queries, one row each, and `decoding` what each answer adds to the estimated
    correlation of every concept. Its hypothesis has a loss within `alpha` of the best.
    """

    concepts: ConceptClass
    alpha: float
    signs: FloatArray
    decoding: FloatArray
    tolerance: float

    def _facts(self) -> list[tuple[str, str]]:
        facts = [
            ("queries", f"{self.queries:,}"),
            ("tolerance", f"{self.tolerance:.4g}"),
        ]
        return [*self.concepts._facts(), ("alpha", f"{self.alpha:g}"), *facts]

    @property
    def size(self) -> int:
        """Number of points."""
        return self.concepts.size

    @property
    def queries(self) -> int:
        """How many queries are asked."""
        return len(self.signs)

    @property
    def cost(self) -> float:
        """What people needed grow with: queries over the squared tolerance."""
        return self.queries / self.tolerance**2

    @property
    def together(self) -> int:
        """All of them at once."""
        return self.queries

    @property
    def errors(self) -> FloatArray:
        """How far the estimate of every concept's correlation can be off, whatever the people."""
        own = np.abs(self.decoding @ self.signs - self.concepts.matrix).max(axis=1)
        return np.asarray(own + self.tolerance * np.abs(self.decoding).sum(axis=1))

    def estimate(self, oracle: Oracle) -> FloatArray:
        """The correlation of every concept with the labels, to within `errors`."""
        if oracle.size != 2 * self.size or oracle.demand.tolerance > self.tolerance:
            rule = f"must be over {2 * self.size} labelled points, to within {self.tolerance:g}"
            raise InvalidParameter("oracle", oracle.size, rule)
        answers = oracle.ask_together([correlation(row) for row in self.signs])
        return np.asarray(self.decoding @ answers)

    def learn(self, oracle: Oracle) -> Hypothesis:
        """The concept of the largest estimated correlation."""
        best = int(np.argmax(self.estimate(oracle)))
        given = self.concepts
        return Hypothesis(given.table[best], given.names[best], given)


def correlational(
    source: Concepts, alpha: float = 0.1, *, entrywise: float | None = None
) -> CorrelationalLearner:
    """Correlational queries that tell the correlations of all concepts to within `alpha`.

    `entrywise` is the tolerance of the factorization whose columns the queries are signs of, a
    quarter of alpha unless given.
    """
    given = concepts(source).distinct()
    probability("alpha", alpha, "try 0.1")
    a = alpha / 4 if entrywise is None else entrywise
    require(0 <= a < 1, "entrywise", a, "must lie between 0 and 1")

    norm = approximate_norm(given.matrix, a, tolerance=1e-2)
    columns = norm.factorization.strategy.dense()
    columns = columns / np.linalg.norm(columns, axis=0).max()

    padding = np.sqrt(np.maximum(1 - (columns**2).sum(axis=0), 0.0))
    columns = np.vstack([columns, padding])

    rng = np.random.default_rng(_SEED)
    signs = np.zeros((0, given.size))
    best: CorrelationalLearner | None = None

    while len(signs) < _MOST:
        fresh = rng.standard_normal((max(_FIRST, len(signs) // 2), len(columns)))
        signs = np.vstack([signs, np.where(fresh @ columns >= 0, 1.0, -1.0)])
        decoding = given.matrix @ np.linalg.pinv(signs)
        own = float(np.abs(decoding @ signs - given.matrix).max())
        if own > _OWN * alpha:
            continue
        tolerance = (alpha - own) / float(np.abs(decoding).sum(axis=1).max())
        learner = CorrelationalLearner(given, float(alpha), signs, decoding, tolerance)
        if best is not None and learner.cost > best.cost:
            return best
        best = learner

    raise TooLarge(
        f"{given.title} takes more than {_MOST:,} queries at alpha={alpha:g}"
    )


Draw = Callable[[Fraction, int], IntArray]
"""Noise of a scale, so many numbers."""


class NoisySums:
    """The memory of one batch: `state` is all there is of it, after every person.

    `draw` is the noise; only tests give another.
    """

    def __init__(
        self, queries: IntArray, epsilon: float, draw: Draw = discrete_laplace
    ) -> None:
        self._queries = queries
        self._draw = draw

        # What one person moves at most, summed over the queries: every one from end to end.
        reach = int((queries.max(axis=1) - queries.min(axis=1)).sum())
        self.scale = Fraction(max(reach, 1)) / Fraction(epsilon)
        self.state = self._draw(self.scale, len(queries))

    def add(self, cells: npt.ArrayLike) -> None:
        """Take people into the sums; nothing else of them is kept."""
        held = np.asarray(cells, dtype=np.int64)
        self.state = self.state + self._queries[:, held].sum(axis=1)

    def answer(self) -> IntArray:
        """The sums with fresh noise."""
        return np.asarray(self.state + self._draw(self.scale, len(self._queries)))


class PanPrivateOracle(Oracle):
    """Each batch of queries takes fresh people, shared by the queries that are asked together."""

    model = "pan-private"

    def __init__(
        self,
        people: Listed,
        size: int,
        epsilon: float,
        demand: Demand,
        together: int = 1,
    ) -> None:
        if isinstance(together, bool) or not 1 <= together <= demand.queries:
            rule = f"must lie between 1 and the number of queries, {demand.queries}"
            raise InvalidParameter("together", together, rule)

        self._people = people
        self.size = size
        self.demand = demand
        self.epsilon, self.together = check_epsilon(epsilon), int(together)

    @cached_property
    def people_per_batch(self) -> int:
        """The least number whose sampling and noise keep the tolerance (see `failure`)."""
        low = 0
        high = 1

        while self.failure(high) > self.demand.beta:
            low = high
            high = 2 * high
            require(
                high <= _MOST_PEOPLE,
                "tolerance",
                self.demand.tolerance,
                "takes more people than there are",
                "raise",
            )

        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high)
                if self.failure(middle) > self.demand.beta
                else (low, middle)
            )

        return high

    def failure(self, people: int) -> float:
        """At most the chance that any query is off by more than its tolerance with so many people.

        Chernoff for the sampled values and both noises at once: for every λ < ε/Δ, with r = λ·GRID,
        2·exp(n(r²/2 − r·τ))·m(λ)², m the moments of the noise; the best of many λ.
        """
        # No better λ than r = τ without noise, and none beyond ε/Δ with it.
        most = min(2 * self.demand.margin, self.epsilon / (2 * self.together))
        exponents = [
            people * (r * r / 2 - r * self.demand.margin) + 2 * self._log_moment(r)
            for r in (most * k / 64 for k in range(1, 64))
        ]
        least = min(exponents)

        return 2 * self.demand.queries * exp(least) if least < 0 else inf

    def _log_moment(self, rate: float) -> float:
        """log E e^{rZ} of noise in units of GRID: (1 − x)²/((1 − xe^λ)(1 − xe^−λ)), λ = r/GRID.

        With a = ε/Δ it is sinh²(a/2)/(sinh²(a/2) − sinh²(λ/2)), which 1/(1 − (λ/a)²) bounds.
        """
        share = rate * 2 * self.together / self.epsilon
        return -log(1 - share * share)

    @property
    def people(self) -> int:
        batches = -(-self.demand.queries // self.together)
        return self.people_per_batch * batches

    @property
    def privacy(self) -> Privacy:
        return Privacy(self.epsilon, neighbours="replace-one")

    def _answers(self, queries: IntArray) -> FloatArray:
        parts = range(0, len(queries), self.together)
        return np.concatenate(
            [self._batch(queries[k : k + self.together]) for k in parts]
        )

    def _batch(self, queries: IntArray) -> FloatArray:
        sums = NoisySums(queries, self.epsilon)
        sums.add(self._people.take(self.people_per_batch))
        return np.asarray(sums.answer() / (GRID * self.people_per_batch))
