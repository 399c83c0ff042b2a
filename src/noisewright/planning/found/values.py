"""Values that nobody listed: which of them are told before tables are planned over them.

Job titles, products, addresses of pages: no schema lists them, and a list read off the data would
give people away. A plan of values selects those that enough people hold, by optimal partition
selection with its own (ε, δ); what is released is a categorical attribute whose other values
share one cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from noisewright.display import Shown
from noisewright.domain import Categorical, Unit
from noisewright.domain.levels import LONGEST_LABEL
from noisewright.domain.unit import ROW_IS_PERSON
from noisewright.errors import InvalidParameter, require
from noisewright.planning.counting import Counter, Source
from noisewright.planning.plan import CuratorPlan, Forecast
from noisewright.planning.spending import (
    LedgerNote,
    Spending,
)
from noisewright.privacy.exact.rounding import float_below
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.selection import Selection
from noisewright.privacy.promise.spend import Promise, Spend


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedValues(Shown):
    """Values that may be told; `attribute()` declares them, with one cell for all others."""

    plan: ValuePlan
    values: tuple[str, ...]
    identity: str
    note: LedgerNote | None = None

    def __len__(self) -> int:
        return len(self.values)

    def attribute(self, name: str | None = None, other: str = "other") -> Categorical:
        """The attribute over these values: what is not among them is `other`."""
        if not self.values:
            raise InvalidParameter(
                "values", 0, "were released, so that no table can be planned over them",
                "allow a larger budget, or ask of more people",
            )  # fmt: skip

        label = other
        while label in self.values:
            label = f"({label})"

        return Categorical(
            name or self.plan.column, self.values, outside="other", other=label
        )

    @property
    def metadata(self) -> dict[str, object]:
        """What was spent and how, ready for JSON."""
        return {
            "format": "noisewright-values",
            **self.plan.summary(),
            "spend": self.plan.spend.to_dict(),
            "identity": self.identity,
            "values": len(self.values),
            "ledger": None if self.note is None else self.note.to_dict(),
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [("column", self.plan.column), ("values", f"{len(self.values):,}")]


@dataclass(frozen=True, eq=False, repr=False)
class ValuePlan(CuratorPlan[Mapping[str, int], ReleasedValues]):
    """The values of a column that will be told, and with which probability.

    A person holds one value (one row is one person), or, with a unit, at most `unit.rows` different
    ones; their budget is shared among these.
    """

    column: str
    privacy: Privacy
    unit: Unit | None = None
    counter: Counter | None = None

    kind = "values-plan"

    def __post_init__(self) -> None:
        require(
            isinstance(self.column, str) and self.column,
            "column",
            self.column,
            "must be the name of a column",
        )
        require(
            self.privacy.kind == "approximate",
            "delta",
            self.privacy.delta,
            "must be given: a value that one person holds alone may be told with probability "
            "delta at most, and pure or concentrated privacy allows none",
            "try 1e-9",
        )
        require(
            self.privacy.neighbours == "add-remove",
            "neighbours",
            self.privacy.neighbours,
            "must be add-remove for values",
        )

        _ = self.selection

    @property
    def values_per_person(self) -> int:
        """How many values of one person count at most."""
        return 1 if self.unit is None else self.unit.rows

    @cached_property
    def selection(self) -> Selection:
        """The probabilities: budgets of the values of a person add up to the person's."""
        share = self.values_per_person
        assert self.privacy.epsilon is not None
        assert self.privacy.delta is not None

        return Selection(
            float_below(Fraction(self.privacy.epsilon) / share),
            float_below(Fraction(self.privacy.delta) / share),
        )

    @property
    def spend(self) -> Spend:
        """What one release costs."""
        assert self.privacy.epsilon is not None
        assert self.privacy.delta is not None
        return Spend("add-remove", (Promise(self.privacy.epsilon, self.privacy.delta),))

    @property
    def person(self) -> str:
        """Whose privacy it is, in words."""
        return ROW_IS_PERSON if self.unit is None else self.unit.text()

    @property
    def title(self) -> str:
        """What is told."""
        return f"values of {self.column}"

    def chance(self, people: int) -> float:
        """The probability that a value which so many people hold is released."""
        require(
            isinstance(people, int) and people >= 0,
            "people",
            people,
            "must be a whole number >= 0",
        )
        return self.selection.chance(people)

    def forecast(self) -> Forecast:
        """Values have no errors: the standard error of whether one is told, by its people."""
        counts = range(self.selection.certain + 1)
        chances = np.array([self.chance(count) for count in counts])
        std = np.sqrt(chances * (1 - chances))
        return Forecast(std=std, halfwidth=std, simultaneous_halfwidth=std)

    def exact(self, data: Source, counter: Counter | None = None) -> Mapping[str, int]:
        """How many people hold which value."""
        return self.engine(counter).values(data, self.column, self.unit)

    def noisy(
        self,
        exact: Mapping[str, int],
        spending: Spending | None = None,
        source: ByteSource | None = None,
    ) -> ReleasedValues:
        """Draw which of these values, each with the number of its people, are told.

        Their order says nothing: it is that of the text.
        """
        fitting = sorted(value for value in exact if 0 < len(value) <= LONGEST_LABEL)
        kept = self.selection.select([exact[value] for value in fitting], source)
        told = tuple(value for value, is_so in zip(fitting, kept, strict=True) if is_so)
        paid = spending or Spending()

        return ReleasedValues(self, told, paid.identity, paid.note)

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        likely = [self._people_for(chance) for chance in (0.5, 0.95)]
        return {
            "mechanism": "partition-selection",
            "column": self.column,
            "privacy": self.privacy.to_dict(),
            "person": self.person,
            "people_for_even_chance": likely[0],
            "people_for_95_percent": likely[1],
            "people_for_certainty": self.selection.certain,
        }

    def _people_for(self, chance: float) -> int:
        """How many people must hold a value, for it to be told so likely."""
        return next(
            count for count in itertools.count() if self.chance(count) >= chance
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("column", self.column),
            ("privacy", self.privacy.text()),
            ("person", self.person),
        ]
