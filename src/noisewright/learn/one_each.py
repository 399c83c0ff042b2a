"""One concept a person: everybody draws a concept and tells, randomised, whether it is right.

A report is a concept and a bit, e^ε likelier one of the person's own: each concept with the bit
that says whether it labels the person rightly. That is a list of outcomes like any other, so
privacy, clients, tails and files follow as they do for the answers of a factorization. It is the
better way where concepts have little in common, parities above all.
"""

from __future__ import annotations

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.errors import TooLarge
from noisewright.learn.concept_classes import ConceptClass
from noisewright.local.strategy import DENSE_SIZE, Strategy
from noisewright.local.vector.codebook import Codebook
from noisewright.local.vector.linear_answers import LinearAnswers

FACTORIZATION = "factorization"
ONE_EACH = "one concept a person"
"""The two protocols: everybody reports about all concepts together, or about one of them."""

_CONCEPTS_A_POINT = 4
"""With more it is not tried: people grow with the concepts here, with the points at most there."""


def one_concept_each(
    given: ConceptClass, targets: FloatArray, epsilon: float
) -> LinearAnswers:
    """Estimates of the mean of `targets` from such reports."""
    if given.count > _CONCEPTS_A_POINT * given.size or 2 * given.size > DENSE_SIZE:
        raise TooLarge(
            f"{given.count:,} concepts are too many to ask each person about one"
        )
    return LinearAnswers(Codebook(_owned(given), epsilon), targets)


def protocol_of(strategy: Strategy, given: ConceptClass) -> str:
    """Which of the two the clients of a plan follow."""
    if isinstance(strategy, Codebook) and np.array_equal(strategy.owned, _owned(given)):
        return ONE_EACH
    return FACTORIZATION


def _owned(given: ConceptClass) -> BoolArray:
    """A row per labelled point: concepts that label it rightly, then those that do not."""
    right = np.vstack([given.table.T > 0, given.table.T < 0])
    return np.hstack([right, ~right])
