"""η(C, α) [001, 7.2]: how hard it is to tell labels that a concept gives from all others.

η is the least γ2 of a matrix over concepts × labelled points with |w| ≤ α where the concept labels
rightly and w ≥ 1 where it does not, up to a free shift of every row. Its queries are penalties: at
most α for a concept that labels everybody rightly, at least L(1+α) − α for one of loss L.

Dual: Σ(u_wrong − α|u_right|)/γ2*(U) over U whose rows sum to zero with u_wrong ≥ 0.
"""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import require
from noisewright.learn.concept_classes import ConceptClass, Concepts, concepts
from noisewright.norm.approximate.approximate import BoxedNorm, boxed_norm


def penalty_box(given: ConceptClass, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Least and largest entries over labelled points: first those of label +1, then −1."""
    right = np.hstack([given.table > 0, given.table < 0])
    return np.where(right, -alpha, 1.0), np.where(right, alpha, np.inf)


def eta(source: Concepts, alpha: float, *, tolerance: float = 1e-3) -> BoxedNorm:
    """η(C, α) between certified bounds; `.approximation` is the matrix, `.shifts` its shifts."""
    given = concepts(source)
    require(0 <= alpha < 1, "alpha", alpha, "must lie between 0 and 1", "try 0.05")
    return boxed_norm(*penalty_box(given, alpha), shift=True, tolerance=tolerance)
