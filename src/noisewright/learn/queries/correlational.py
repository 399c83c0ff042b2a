"""A learner of any concept class, by correlational queries that do not depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.learn.concept_classes import ConceptClass, Concepts, concepts
from noisewright.learn.queries.learners import Hypothesis, correlation
from noisewright.learn.queries.oracle import Oracle
from noisewright.norm.approximate.approximate import approximate_norm
from noisewright.privacy.exact.rounding import probability

_SEED = 92  # of the signs drawn: others cost a quarter less to a third more people
_FIRST = 16  # signs drawn at first: half and double differ by no more than seeds do
_MOST = 2**14  # signs: only bounds the work, which grows as their square
# of α, what decoding may be off by; the rest is for wrong answers
_DECODING_SHARE = 0.1


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
        decoded = self.decoding @ self.signs
        decoding_errors = np.abs(decoded - self.concepts.matrix).max(axis=1)
        return np.asarray(
            decoding_errors + self.tolerance * np.abs(self.decoding).sum(axis=1)
        )

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
        table, names = self.concepts.table, self.concepts.names
        return Hypothesis(table[best], names[best], self.concepts)


def correlational(
    source: Concepts, alpha: float = 0.1, *, entrywise: float | None = None
) -> CorrelationalLearner:
    """Correlational queries that tell the correlations of all concepts to within `alpha`.

    `entrywise` is the tolerance of the factorization whose columns the queries are signs of, a
    quarter of alpha unless given.
    """
    concept_class = concepts(source).distinct()
    probability("alpha", alpha, "try 0.1")
    entrywise = alpha / 4 if entrywise is None else entrywise
    require(0 <= entrywise < 1, "entrywise", entrywise, "must lie between 0 and 1")

    matrix = concept_class.matrix
    norm = approximate_norm(matrix, entrywise, tolerance=1e-2)
    columns = norm.factorization.strategy.dense()
    columns = columns / np.linalg.norm(columns, axis=0).max()

    # Unit columns: signs of their Gaussian projections correlate by (2/π)·arcsin of their product.
    padding = np.sqrt(np.maximum(1 - (columns**2).sum(axis=0), 0.0))
    columns = np.vstack([columns, padding])

    rng = np.random.default_rng(_SEED)
    signs = np.zeros((0, concept_class.size))
    best: CorrelationalLearner | None = None

    while len(signs) < _MOST:
        fresh = rng.standard_normal((max(_FIRST, len(signs) // 2), len(columns)))
        signs = np.vstack([signs, np.where(fresh @ columns >= 0, 1.0, -1.0)])
        decoding = matrix @ np.linalg.pinv(signs)
        decoding_error = float(np.abs(decoding @ signs - matrix).max())
        if decoding_error > _DECODING_SHARE * alpha:
            continue

        # An answer off by the tolerance moves an estimate by at most its row's entries together.
        left = alpha - decoding_error
        tolerance = left / float(np.abs(decoding).sum(axis=1).max())
        learner = CorrelationalLearner(
            concept_class, float(alpha), signs, decoding, tolerance
        )
        if best is not None and learner.cost > best.cost:
            return best
        best = learner

    raise TooLarge(
        f"{concept_class.title} takes more than {_MOST:,} queries at alpha={alpha:g}"
    )
