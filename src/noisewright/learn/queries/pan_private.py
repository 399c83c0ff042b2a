"""Statistical queries by a curator whose memory may be seen once: single-intrusion pan-privacy.

The memory of a batch of queries is a vector of sums with discrete Laplace noise from before the
first person on; the answer is that vector with fresh noise of the same law. Both noises are for the
full ε. Proof: let one person, in place j, be replaced, and let the memory be seen after person i.
If j ≤ i, the memory seen is shifted by at most Δ in ℓ1 and, given what was seen, the answer is the
same function of the later people and of fresh noise: ε from the first noise. If j > i, the memory
seen is the same and, given it, the answer is shifted by at most Δ: ε from the second [001, 8.4].
People are in one batch only, so later batches, which may depend on earlier answers, add nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from math import exp, inf, log

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.learn.queries.oracle import _MOST_PEOPLE, GRID, Demand, Listed, Oracle
from noisewright.local.fixedpoint import check_epsilon
from noisewright.privacy.noise.integers import discrete_laplace
from noisewright.privacy.promise.budget import Privacy

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
