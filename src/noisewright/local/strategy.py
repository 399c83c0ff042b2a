"""What every local strategy is: how a client reports, and what reports say about the histogram.

A strategy is a matrix Q, Q[o,u] = Pr(report o | type u), seldom written down. All that estimation
and analysis need of it is the *score* s(o) of a report, a vector over types with

    E[s | u] = X e_u,

where X is the information matrix. For the best linear estimate s(o) = q_o / (q_oᵀπ), and then
E[s sᵀ] = X under the prior π as well; a coarser statistic need not obey that. From many reports the
histogram is estimated, without bias, by x̂ = X⁺ Σ s, and Wx̂ answers any workload within reach.
The number of people is public: where 1ᵀx̂ misses it, what is missing is spread over the cells as it
correlates with them (`total_share`), so that a constant added to a query costs nothing. A strategy
says how to sample, count and score reports and what E[s sᵀ | u] is; everything else (variances,
covariance, sample complexity, reach) follows once, in `analysis`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.analysis.information import (
    DenseInformation,
    Information,
    check_rows,
)
from noisewright.local.randomizer.batch import Sampler
from noisewright.local.randomizer.chances import listed_reports, report_chances
from noisewright.local.randomizer.specification import Nodes, Specification
from noisewright.local.randomizer.verify import Promise, verify
from noisewright.local.reports.tallies import tally_of
from noisewright.local.reports.tally import Tally
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

if TYPE_CHECKING:
    from noisewright.local.storage import Stored

Settings = dict[str, object]

Arrays = dict[str, Array]

DENSE_SIZE = 4096
"""Largest domain for which matrices over pairs of types are formed."""

LARGEST_VECTOR = 2**22
"""Largest domain whose estimates are held as a vector over all types."""

_ROUNDING = 0.001
"""How far a stated ε may lie above the one spent: at ε = 40 chances are a few dozen in 2^64."""

_DENSE_ENTRIES = 2**26
"""Of the matrix of chances: 512 MiB in doubles."""

_BLOCK_ENTRIES = 2**22
"""Of a block of its rows: 32 MiB."""

_KNOWN_TOTAL = 1e-12  # variance of the total, per person, that is rounding


class Strategy(Shown, ABC):
    """An ε-LDP way to report a type out of `size`, and to learn the histogram from reports."""

    kind: ClassVar[str]
    """Name under which plan files hold the strategy's parameters."""

    epsilon: float
    size: int
    delta: float = 0.0

    def _facts(self) -> list[tuple[str, str]]:
        facts = [
            ("kind", self.kind),
            ("cells", f"{self.size:,}"),
            ("epsilon", f"{self.epsilon:g}"),
        ]
        return [*facts, ("delta", f"{self.delta:g}")] if self.delta else facts

    # --- the client ---------------------------------------------------------------------------

    @abstractmethod
    def express(self, nodes: Nodes) -> int:
        """Add what the strategy's clients do to a specification; the place where they begin."""

    @cached_property
    def specification(self) -> Specification:
        """What the strategy's clients do: its reports are those that the strategy counts."""
        nodes = Nodes()
        self.express(nodes)
        return nodes.specification()

    @cached_property
    def sampler(self) -> Sampler:
        """The same for many people at once."""
        return Sampler(self.specification)

    def randomize(
        self, values: npt.ArrayLike, source: ByteSource | None = None
    ) -> Array:
        """One report per value, after checking that every value is a type of the domain."""
        return self.sampler.randomize(values, source)

    @cached_property
    def collector(self) -> Tally:
        """How reports are checked and counted."""
        return tally_of(self.specification)

    # --- the analyst --------------------------------------------------------------------------

    @property
    def prior(self) -> FloatArray:
        """The distribution over types for which the estimate is best: uniform unless told."""
        return np.full(self.size, 1.0 / self.size)

    @cached_property
    def information(self) -> Information:
        """X under the strategy's own prior."""
        return DenseInformation(self.moment(self.prior))

    @property
    def counts_people(self) -> bool:
        """Whether X⁺ Σ s has the number of reports as its total, whatever they are."""
        return True

    @cached_property
    def total_share(self) -> FloatArray | None:
        """a = C1/1ᵀC1 with C the covariance of X⁺ Σ s at the prior; None where C1 = 0.

        x̂ + a(N − 1ᵀx̂) is the best use of the known total: at the prior no query's variance rises.
        """
        if self.counts_people:
            return None

        x = self.information
        ones = np.ones(self.size)
        measured = x.solve(self.moment(self.prior) @ x.solve(ones))
        seen = x.solve(x.matvec(ones))
        spread = measured - x.matvec(x.solve(self.prior * seen))
        total = float(spread.sum())

        return spread / total if total > _KNOWN_TOTAL else None

    @abstractmethod
    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Sum over reports of their scores, from their statistics."""

    @abstractmethod
    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_u x_u E[s sᵀ | u], dense."""

    @abstractmethod
    def energy(self, quadratic: FloatArray) -> FloatArray:
        """E[sᵀ S s | u] for every type u and one symmetric matrix S: the adjoint of `moment`."""

    def type_variances(self, gram: Gram) -> FloatArray:
        """Variance that one person of each type adds to all answers together.

        Structured strategies override this with a closed form; here it is done by matrices.
        """
        check_dense(self.size)
        m = gram.dense()
        share = self.total_share
        if share is not None:
            mean = m @ share
            m = m - mean[:, None] - mean + share @ mean

        half = self.information.solve(m)
        decoded = self.information.solve(half.T)
        return self.energy(decoded) - np.diagonal(m)

    def estimate(self, tally: IntArray, people: int) -> FloatArray:
        """Unbiased estimate x̂ of the histogram, from the statistics of all reports."""
        cells = self.information.solve(self.score(tally, people))
        share = self.total_share
        if share is None:
            return cells
        return np.asarray(cells + share * (people - cells.sum()))

    def worst_variance(self, gram: Gram) -> float:
        """The largest type variance; no array over types where a closed form knows it."""
        return float(self.type_variances(gram).max())

    def average_variance(self, gram: Gram) -> float:
        """The mean type variance."""
        return float(self.type_variances(gram).mean())

    def total_variances(self, workload: Workload) -> tuple[float, float] | None:
        """Largest and mean variance that one person adds, where the questions tell, not their Gram.

        None for strategies that know them from `type_variances`.
        """
        return None

    @property
    def lists_cells(self) -> bool:
        """Whether estimates are made as a vector over all types."""
        return self.size <= LARGEST_VECTOR

    def answers(self, workload: Workload, tally: IntArray, people: int) -> FloatArray:
        """Unbiased answers to a workload within reach, from the statistics of all reports."""
        cells = self.estimate(tally, people)
        return np.asarray(workload.matvec(cells), dtype=np.float64)

    def query_variances(self, workload: Workload, histogram: FloatArray) -> FloatArray:
        """Variance of every answer when the true histogram is `histogram`."""
        return workload.row_quadratics(self.covariance(histogram))

    def uniform_query_variances(self, workload: Workload, people: int) -> FloatArray:
        """Variance of every answer when people are spread evenly over the types."""
        even = np.full(self.size, people / self.size)
        return self.query_variances(workload, even)

    def check_reach(self, workload: Workload) -> None:
        """Raise `OutOfReach` naming the first query outside the strategy's row space."""
        if not self.information.full_rank:
            check_rows(self.kind, self.information, workload)

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """Covariance of x̂ when the true histogram is `histogram`, dense."""
        check_dense(self.size)
        people = float(histogram.sum())

        # X is the moment at the prior only where it was made so: a score of a coarser statistic, or
        # of one mechanism among several, has its own X, and the moment at the prior is another.
        own = type(self).information is Strategy.information
        likely = people * self.prior
        if own and np.allclose(histogram, likely, rtol=1e-12, atol=0.0):
            spread = people * self.information.solve(np.eye(self.size))
        else:
            half = self.information.solve(self.moment(histogram))
            spread = self.information.solve(half.T)

        result = spread - self._seen(np.diag(histogram))
        share = self.total_share
        if share is not None:
            result = result - np.outer(share, result.sum(axis=0))
            result = result - np.outer(result.sum(axis=1), share)

        return np.asarray(result)

    def _seen(self, matrix: FloatArray) -> FloatArray:
        if self.information.full_rank:
            return matrix

        x = self.information
        half = x.matvec(x.solve(matrix))
        return x.matvec(x.solve(half.T))

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        """The chances, a row per report and a column per value, where they can be listed."""
        if not isinstance(self, IndexStrategy):
            raise TooLarge(f"the reports of {self.kind} are too many to be listed")
        return np.asarray(self.dense(), dtype=dtype)

    # --- privacy ------------------------------------------------------------------------------

    @cached_property
    def promise(self) -> Privacy:
        """What a report promises, recomputed from what clients run: nobody else is believed.

        The stated ε is the promise where it is what the chances spend, up to their rounding.
        """
        self.check_loss()
        spent = self.loss.epsilon
        if not self.delta and self.epsilon > spent * (1 + _ROUNDING):
            raise InvalidParameter(
                "epsilon",
                self.epsilon,
                "is more than the strategy's chances spend",
                f"state {spent:.6g}",
            )

        return Privacy(self.epsilon, self.delta or None, neighbours="replace-one")

    @cached_property
    def loss(self) -> Promise:
        """What reports really spend, by the verifier, from the specification alone."""
        return verify(self.specification)

    def check_loss(self) -> None:
        """Refuse chances that spend more than is stated."""
        spent = self.loss
        if spent.epsilon > self.epsilon or spent.delta > self.delta:
            rule = "is not kept by the strategy's chances, which spend "
            rule += f"{spent.epsilon:.9g}"
            raise InvalidParameter("epsilon", self.epsilon, rule, "plan again")

    # --- form ---------------------------------------------------------------------------------

    @property
    def outputs(self) -> int | None:
        """Number of different reports, when it is small enough to be listed."""
        return listed_reports(self.specification)

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop` under every type, as a dense block."""
        return report_chances(self.specification, start, stop)

    def dense(self, limit: int = _DENSE_ENTRIES) -> FloatArray:
        """The matrix Q itself, when the number of outputs is small enough."""
        if self.outputs is None or self.outputs * self.size > limit:
            shown = "exponentially many" if self.outputs is None else self.outputs
            raise TooLarge(
                f"{self.kind} over {self.size} types has {shown} outputs, too many for a dense "
                f"matrix (limit {limit} entries); use information, moment or type_variances"
            )
        return self.rows(0, self.outputs)

    def beside(self) -> tuple[Settings, Arrays]:
        """What estimates need beside the specification: plain settings, and arrays."""
        return {}, {}

    @classmethod
    @abstractmethod
    def restored(cls, stored: Stored) -> Self:
        """The strategy whose clients begin at a node of a specification.

        Its own specification is compared with that one, so nothing but its form is checked here.
        """

    @property
    def two_valued(self) -> bool:
        """Whether every report has only two chances, as the best strategies do."""
        return self.specification.two_valued


class IndexStrategy(Strategy):
    """A strategy whose report is one whole number out of `outputs`, listed or computed.

    Everything follows from the chances of the reports, block by block, and is overridden where a
    closed form or a fast transform exists.
    """

    @cached_property
    def outputs(self) -> int:
        return self.specification.shapes[-1].outcomes

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ_o y_o q_o / (q_oᵀπ)."""
        total = np.zeros(self.size)

        for start, q in self.blocks():
            counts = tally[start : start + len(q)]
            total += (counts / self._expected(q)) @ q

        return total

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_o (q_oᵀx) s_o s_oᵀ."""
        check_dense(self.size)
        result = np.zeros((self.size, self.size))

        for _, q in self.blocks():
            weights = (q @ histogram) / self._expected(q) ** 2
            result += q.T @ (q * weights[:, None])

        return result

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Σ_o Q[o,u] s_oᵀ S s_o."""
        result = np.zeros(self.size)

        for _, q in self.blocks():
            scores = q / self._expected(q)[:, None]
            squares = np.einsum("ou,ou->o", scores @ quadratic, scores)
            result += squares @ q

        return result

    def _expected(self, rows: FloatArray) -> FloatArray:
        """Prior chances of reports; one for those that never come, which then count nothing."""
        chances = rows @ self.prior
        return np.where(chances > 0, chances, 1.0)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """All rows, a bounded number at a time."""
        step = max(1, _BLOCK_ENTRIES // max(1, self.size))
        for start in range(0, self.outputs, step):
            yield start, self.rows(start, min(start + step, self.outputs))


def check_dense(size: int) -> None:
    """Refuse matrices over pairs of types above a size."""
    if size > DENSE_SIZE:
        raise TooLarge(
            f"{size} types are more than {DENSE_SIZE}: a matrix over pairs of types is not formed; "
            f"choose a strategy with a closed form for this workload"
        )
