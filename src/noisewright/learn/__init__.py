"""Learning, refutation, selection and statistical queries without a trusted curator.

Concept classes are finite; a person holds a point and a label, or bits, and what leaves their
device is private by itself. Every plan says how many people it takes before anybody is asked.
"""

from noisewright.learn.concept_classes import ConceptClass, concepts
from noisewright.learn.outcomes import Learned, Outcome, Refutation
from noisewright.learn.plans import LearningPlan
from noisewright.learn.queries.correlational import (
    CorrelationalLearner,
    correlational,
)
from noisewright.learn.queries.learners import (
    Hypothesis,
    MonotoneConjunction,
    MultiplicativeWeights,
    Refuter,
    Verdict,
    labelled_cells,
)
from noisewright.learn.queries.oracle import Oracle, Question, Respondents
from noisewright.learn.queries.query_dimension import QueryDimension, sq_dimension
from noisewright.learn.queries.statistical import statistical_queries
from noisewright.learn.questions import (
    Agnostic,
    AgnosticRefutation,
    LargestMean,
    Realizable,
    RealizableRefutation,
)
from noisewright.learn.realizable import eta
from noisewright.learn.selection import Selected, Selection
from noisewright.learn.simulation import simulated

__all__ = [
    "Agnostic",
    "AgnosticRefutation",
    "ConceptClass",
    "CorrelationalLearner",
    "Hypothesis",
    "LargestMean",
    "Learned",
    "LearningPlan",
    "MonotoneConjunction",
    "MultiplicativeWeights",
    "Oracle",
    "Outcome",
    "QueryDimension",
    "Question",
    "Realizable",
    "RealizableRefutation",
    "Refutation",
    "Refuter",
    "Respondents",
    "Selected",
    "Selection",
    "Verdict",
    "concepts",
    "correlational",
    "eta",
    "labelled_cells",
    "simulated",
    "sq_dimension",
    "statistical_queries",
]
