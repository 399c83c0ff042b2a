"""Attributes, encoders, cells: what is publicly known about a table before anyone looks at it.

A domain is declared, never inferred from private data. Each attribute cuts its values into
finitely many cells; a domain is the product of its attributes, its cells in C order (the last
attribute varies fastest). One row of a table is one person, unless a `Unit` says otherwise.
"""

from noisewright.domain.attribute import Attribute
from noisewright.domain.categorical import Boolean, Categorical
from noisewright.domain.levels import Level
from noisewright.domain.numeric import Numeric
from noisewright.domain.ordered import Date, Ordered
from noisewright.domain.product import Domain
from noisewright.domain.unit import Unit

__all__ = [
    "Attribute",
    "Boolean",
    "Categorical",
    "Date",
    "Domain",
    "Level",
    "Numeric",
    "Ordered",
    "Unit",
]
