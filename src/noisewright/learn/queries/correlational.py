"""All concepts of a class from few correlational queries [001, 9.2], with errors that are certain.

A correlational query asks for E[b·f(a)]. With W̃ = RA near the class's matrix and columns of A
padded to length one (with the label's sign, so that queries stay correlational), the queries are
the signs F_ta = sign⟨g_t, A_a⟩ for public unit directions g_t. There (c_d/J)Σ_t r_t·R g_t estimates
the correlations from the answers r_t; the directions being known, the least-squares decoding V,
VF ≈ W, is better and needs no chance: concept c is off by at most max_a|(VF)_ca − c(a)| and, for
answers off by τ, by τ‖V_c‖₁ more. Directions are added until little is left of the first.
"""

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

_SEED = 92
_FIRST = 16
_MOST = 2**14
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
