"""What plans of values that nobody listed, and tables over these, are kept as."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

from noisewright.domain.unit import read_unit
from noisewright.errors import FileFormatError
from noisewright.planning.central.files import ReleaseFile
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.files import Kept, Text
from noisewright.planning.found.open_values import OpenPlan, OpenTables
from noisewright.planning.found.values import ValuePlan
from noisewright.planning.release import Release
from noisewright.privacy.promise.budget import Privacy


class ValuesFile(Kept, frozen=True, tag="values-plan"):
    """A plan of values that nobody listed: all else follows from these."""

    column: Text
    privacy: Privacy
    unit: dict[str, Any] | None

    @classmethod
    def of(cls, plan: ValuePlan) -> Self:
        """What a plan is kept as."""
        unit = None if plan.unit is None else plan.unit.to_dict()
        return cls(column=plan.column, privacy=plan.privacy, unit=unit)

    def content(self) -> ValuePlan:
        """The plan again."""
        return ValuePlan(self.column, self.privacy, read_unit(self.unit))


class OpenFile(Kept, frozen=True, kw_only=True, tag="open"):
    """Values that nobody listed, and tables over them: all follows from what was declared.

    Fields are those of `OpenPlan`, read by name (`Kept.of`); `share` of the budget goes to finding
    the values.
    """

    schema: dict[str, Any]
    queries: dict[str, Any]
    privacy: Privacy
    share: float
    error: Text

    def content(self) -> OpenPlan:
        """The plan again."""
        return OpenPlan(self.schema, self.queries, self.privacy, self.share, self.error)


class OpenReleaseFile(Kept, frozen=True, kw_only=True, tag="open-release"):
    """Values that were told, and a release of tables over them."""

    selection: OpenFile
    values: dict[Text, list[Text]]
    tables: ReleaseFile

    @classmethod
    def of(cls, release: Release) -> Self:
        """What a release is kept as."""
        # The kind of file is chosen by `release_kind`, which is this one for these plans alone.
        plan = cast("OpenTables", release.plan)
        return cls(
            selection=OpenFile.of(plan.selection),
            values={name: list(found) for name, found in plan.values.items()},
            tables=ReleaseFile.of(release),
        )

    def content(self) -> Release:
        """The release again, if its tables are over these values."""
        tables = self.tables.content()
        if not isinstance(tables.plan, CentralPlan):
            raise FileFormatError("the tables are not of a plan with a curator")
        plan = self.selection.content().told(tables.plan, self.values)
        return replace(tables, plan=plan)
