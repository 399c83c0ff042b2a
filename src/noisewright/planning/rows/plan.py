"""What plans of rows of numbers share: a measurement without cells, its budget, files, records.

Second moments (`covariance`) and all pairs of binary attributes (`pairs`) read rows of named
columns instead of counts of cells. How a release is bought, named and kept is the same for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from noisewright import __version__
from noisewright.arrays import FloatArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter
from noisewright.files import write_table
from noisewright.planning.budgets.spending import (
    UNRECORDED,
    Again,
    Cost,
    LedgerLike,
    LedgerNote,
    Reservation,
    noise_of,
    purse_of,
)
from noisewright.planning.counting import Data, Source
from noisewright.planning.plan import Forecast
from noisewright.planning.release import fresh_name, is_kept, recorded
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend

if TYPE_CHECKING:
    import pyarrow as pa

RowReader = Callable[[Source, Sequence[str]], Iterator[FloatArray]]
"""Batches of the named columns of a table, as numbers; what is no number is NaN."""


class RowMethod(Protocol):
    """What measures rows: its budget, what it costs and what it draws."""

    @property
    def privacy(self) -> Privacy: ...

    @property
    def spend(self) -> Spend: ...

    @property
    def protected(self) -> bool:
        """Whether the number of people is."""

    def record(self) -> dict[str, Any]: ...


Method = TypeVar("Method", bound=RowMethod)
Measured = TypeVar("Measured")
Exact = TypeVar("Exact")
AnyPlan = TypeVar("AnyPlan", bound="RowPlan[Any, Any, Any]")
AnyRelease = TypeVar("AnyRelease", bound="RowRelease[Any, Any]")


@dataclass(frozen=True, eq=False, repr=False)
class RowPlan(Shown, ABC, Generic[Method, Exact, AnyRelease]):
    """A measurement of the rows of `columns` by a `method`."""

    columns: tuple[str, ...]
    method: Method
    reader: RowReader | None = field(default=None, compare=False)

    @property
    def model(self) -> str:
        """Who adds the noise."""
        return "central"

    @property
    def privacy(self) -> Privacy:
        """The promise that one release keeps."""
        return self.method.privacy

    @property
    def spend(self) -> Spend:
        """What one release costs."""
        return self.method.spend

    @property
    @abstractmethod
    def title(self) -> str:
        """What is released, in words."""

    @abstractmethod
    def forecast(self) -> Forecast:
        """Standard errors before anything is spent."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""

    @abstractmethod
    def _exact(self, batches: Iterable[FloatArray]) -> tuple[Exact, int]:
        """What is measured before any noise, and the number of people: as private as the data."""

    @abstractmethod
    def _noisy(
        self, exact: Exact, people: int | None, name: str, note: LedgerNote | None,
        source: ByteSource | None,
    ) -> AnyRelease:  # fmt: skip
        """The release of this name under fresh noise; `people` where their number is public."""

    @cached_property
    def cost(self) -> Cost:
        """What a ledger is told of a release."""
        from noisewright.planning.files import plan_digest

        noise = noise_of(self.method.record())
        return Cost(self.spend, self.privacy, plan_digest(self), self.title, noise)

    def release(
        self,
        data: Data,
        *,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
    ) -> AnyRelease:
        """Measure a table, or an array with one row per person; each call spends the budget.

        A value that is missing or no number counts as zero.
        """
        purse = purse_of(ledger, dataset, again)
        if purse is None:
            return self._release(*self._read(data))

        if (stored := purse.stored(self.cost.plan)) is not None:
            from noisewright.planning.files import from_bytes

            restored: Any = from_bytes(stored)
            assert isinstance(restored, RowRelease)
            return restored  # type: ignore[return-value]

        purse.check(self.cost)
        exact, people = self._read(data)
        return purse.spend(
            self.cost, lambda r: self._release(exact, people, reservation=r)
        )

    def _read(self, data: Data) -> tuple[Exact, int]:
        """Exact values from an array, or from the columns of a table."""
        if isinstance(data, np.ndarray):
            return self._exact([np.asarray(data, dtype=np.float64)])
        if self.reader is None:
            raise InvalidParameter(
                "data", type(data).__name__, "needs a reader of tables"
            )
        return self._exact(self.reader(data, self.columns))

    def _release(
        self,
        exact: Exact,
        people: int,
        source: ByteSource | None = None,
        reservation: Reservation | None = None,
    ) -> AnyRelease:
        public = None if self.method.protected else people
        if reservation is None:
            return self._noisy(exact, public, fresh_name(), None, source)
        return self._noisy(
            exact, public, reservation.identity, reservation.note, source
        )

    def save(self, path: str | Path) -> None:
        """Write the plan, whole or not at all."""
        from noisewright.planning.files import save

        save(self, path)


@dataclass(frozen=True, eq=False, repr=False)
class RowRelease(Shown, ABC, Generic[AnyPlan, Measured]):
    """What was measured of rows, and all that follows from it at no further cost."""

    plan: AnyPlan
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
    def metadata(self) -> dict[str, Any]:
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

    def write(self, path: str | Path, *, excel: bool = False) -> Path:
        """Write the figures, by suffix, and the record of what they cost, `<path>.meta.json`."""
        target = Path(path)
        if is_kept(target):
            return recorded(target, self.metadata, self.save)

        table = self.to_arrow()
        return recorded(
            target, self.metadata, lambda file: write_table(file, table, excel=excel)
        )

    def save(self, path: str | Path) -> None:
        """Write the release, whole or not at all; `nw.load` gives it back."""
        from noisewright.planning.files import save

        save(self, path)  # type: ignore[arg-type]

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
