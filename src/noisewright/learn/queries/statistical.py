"""Who answers statistical queries: one oracle per model, with the people it takes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from math import exp, inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, require, unknown_name
from noisewright.learn.queries.oracle import (
    GRID,
    Demand,
    ExactOracle,
    Listed,
    Oracle,
    Respondents,
    SequentialOracle,
)
from noisewright.local.fixedpoint import check_epsilon
from noisewright.privacy.noise.integers import discrete_laplace
from noisewright.privacy.promise.budget import Privacy

MODELS = ("exact", "sequential", "pan-private")

_MOST_PEOPLE = 2**46  # sums of so many steps stay within 64 bits


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
    has_devices = hasattr(people, "respond")
    respondents: Any = people if has_devices else Listed(people, size)  # type: ignore[arg-type]
    if model == "sequential" or intrusions > 1:
        return SequentialOracle(respondents, size, epsilon, demand)

    if has_devices:
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


Draw = Callable[[Fraction, int], IntArray]
"""Noise of a scale, so many numbers."""


class NoisySums:
    """Sums of one batch, private against one look at the memory, which is `state` alone.

    The noise drawn first hides whoever came before the look; the noise of the answer hides whoever
    comes after. `draw` is replaced only in tests.
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
        # From r = 2τ on the exponent is >= 0 even without noise; from λ = ε/Δ, where r is
        # ε/(2·together), the moment is infinite.
        largest_rate = min(2 * self.demand.margin, self.epsilon / (2 * self.together))
        exponents = [
            people * (r * r / 2 - r * self.demand.margin) + 2 * self._log_moment(r)
            for r in (largest_rate * k / 64 for k in range(1, 64))
        ]
        least = min(exponents)

        return 2 * self.demand.queries * exp(least) if least < 0 else inf

    def _log_moment(self, rate: float) -> float:
        """A bound on log E e^{rZ}, where Z is the noise in units of GRID.

        With a = ε/Δ, x = e^−a and λ = r/GRID the moment is (1 − x)²/((1 − xe^λ)(1 − xe^−λ)), or
        sinh²(a/2)/(sinh²(a/2) − sinh²(λ/2)), which 1/(1 − (λ/a)²) bounds.
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
