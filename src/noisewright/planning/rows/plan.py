"""What plans of rows of numbers share: a measurement without cells, its budget, files, records.

Second moments (`covariance`) and all pairs of binary attributes (`pairs`) read rows of named
columns instead of counts of cells. How a release is bought, named and kept is the same for both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from noisewright import __version__
from noisewright.arrays import FloatArray
from noisewright.display import Shown
from noisewright.planning.counting import Counter, Data
from noisewright.planning.plan import CuratorPlan, Extent
from noisewright.planning.release import Answers
from noisewright.planning.spending import (
    UNRECORDED,
    LedgerNote,
    Spending,
    noise_of,
)
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend

if TYPE_CHECKING:
    import pyarrow as pa


class RowMethod(Protocol):
    """What measures rows: its budget, what it costs and what it draws."""

    @property
    def name(self) -> str: ...

    @property
    def privacy(self) -> Privacy: ...

    @property
    def spend(self) -> Spend: ...

    @property
    def protected(self) -> bool:
        """Whether the number of people is."""

    def record(self) -> dict[str, object]: ...


Method = TypeVar("Method", bound=RowMethod)
Measured = TypeVar("Measured")
Exact = TypeVar("Exact")
PlanT = TypeVar("PlanT", bound="RowPlan[Any, Any, Any]")
ReleaseT = TypeVar("ReleaseT", bound="RowRelease[Any, Any]")


@dataclass(frozen=True, eq=False, repr=False)
class RowPlan(
    CuratorPlan[tuple[Exact, int], ReleaseT], Generic[Method, Exact, ReleaseT]
):
    """A measurement of the rows of `columns` by a `method`."""

    columns: tuple[str, ...]
    mechanism: Method
    counter: Counter | None = field(default=None, compare=False)

    @property
    def privacy(self) -> Privacy:
        """The promise that one release keeps."""
        return self.mechanism.privacy

    @property
    def spend(self) -> Spend:
        """What one release costs."""
        return self.mechanism.spend

    @property
    def laws(self) -> list[dict[str, object]]:
        """Every law that is drawn, with its scale and sensitivity."""
        return noise_of(self.mechanism.record())

    def extent(self) -> Extent:
        """How many columns are read, and figures told."""
        return super().extent()._replace(reads="columns", number=len(self.columns))

    @abstractmethod
    def read(self, batches: Iterable[FloatArray]) -> tuple[Exact, int]:
        """What is measured of batches of rows, and the number of people."""

    def exact(self, data: Data, counter: Counter | None = None) -> tuple[Exact, int]:
        """What is measured of a table, or of an array with one row per person.

        A value that is missing or no number is NaN.
        """
        if isinstance(data, np.ndarray):
            return self.read([np.asarray(data, dtype=np.float64)])
        return self.read(self.engine(counter).rows(data, self.columns))

    @abstractmethod
    def drawn(
        self,
        exact: Exact,
        people: int | None,
        spending: Spending,
        source: ByteSource | None,
    ) -> ReleaseT:
        """The release under fresh noise; `people` where their number is public."""

    def noisy(
        self,
        exact: tuple[Exact, int],
        spending: Spending | None = None,
        source: ByteSource | None = None,
    ) -> ReleaseT:
        """The release of exact values, and of the number of people where it is public."""
        values, people = exact
        public = None if self.mechanism.protected else people
        return self.drawn(values, public, spending or Spending(), source)


@dataclass(frozen=True, eq=False, repr=False)
class RowRelease(Shown, Answers, Generic[PlanT, Measured]):
    """What was measured of rows, and all that follows from it at no further cost."""

    plan: PlanT
    measured: Measured
    public_people: int | None
    identity: str
    note: LedgerNote | None = None
    time: str | None = None

    @property
    def people(self) -> float:
        """How many people there are: as is public, or as measured."""
        if self.public_people is not None:
            return float(self.public_people)
        return max(1.0, self._measured_people())

    @abstractmethod
    def _measured_people(self) -> float:
        """The noisy number of people, where it is protected."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The figures as a table, one to a row."""

    @property
    def ledger(self) -> LedgerNote | None:
        """Where a ledger keeps what was spent; None without one."""
        return self.note

    @property
    def metadata(self) -> dict[str, object]:
        """What was spent and how: ready for JSON, nothing private in it."""
        return {
            "format": "noisewright-release",
            "version": __version__,
            "release": self.identity,
            **({} if self.time is None else {"time": self.time}),
            "title": self.plan.title,
            "people": self.people,
            "spend": self.plan.spend.to_dict(),
            **self.plan.summary(),
            "ledger": UNRECORDED if self.note is None else self.note.to_dict(),
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [("people", f"{self.people:,.0f}"), *self.plan._facts()]


RowsPlanned = RowPlan[Any, Any, Any]
"""A plan of rows of any kind."""


def column_names(columns: int | Sequence[str]) -> tuple[str, ...]:
    """Names of columns; x0, x1 and so on where only their number is given."""
    return (
        tuple(f"x{i}" for i in range(columns))
        if isinstance(columns, int)
        else tuple(columns)
    )
