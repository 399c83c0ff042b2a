"""How many people hold each value of a column that no schema lists, or so many rows, as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisewright.domain import Unit
from noisewright.domain.attribute import Storage
from noisewright.tables.sql.dialect import Dialect
from noisewright.tables.sql.request import (
    Columns,
    Stage,
    nested_stages,
    no_name,
    person_name,
    unit_storages,
    wrong_column,
)


@dataclass(frozen=True)
class HeldValues:
    """People per text of a column; of one person, at most `unit.rows` different texts count.

    Which ones is decided as for rows: by the least digests of the person's name and the text.
    """

    column: str
    unit: Unit | None

    @property
    def storages(self) -> dict[str, Storage]:
        """The columns that are read, and how."""
        return {self.column: "text", **unit_storages(self.unit)}

    def stages(self, columns: Columns, dialect: Dialect) -> list[Stage]:
        """One row for every text that counts of every person: v, and the person's name p."""
        sql, kind = columns(self.column)
        typed = dialect.read(sql, kind, "text")
        if typed is None or typed.kind != "text":
            raise wrong_column(self.column, "texts that nobody listed", kind)
        if self.unit is None:
            return [
                Stage((f"{typed.sql} AS v", "1 AS p")),
                Stage(("*",), "v IS NOT NULL"),
            ]

        name = person_name(self.unit, columns, dialect)
        digest = dialect.digest([f"'{self.unit.key}'", "p", "v"])
        return [
            Stage((f"{typed.sql} AS v", f"{name} AS p")),
            Stage(("*",), "v IS NOT NULL"),
            Stage(("*", "row_number() OVER (PARTITION BY p, v ORDER BY p) AS d")),
            Stage(("*",), "d = 1 OR p IS NULL"),
            Stage(
                ("*", f"row_number() OVER (PARTITION BY p ORDER BY {digest}, v) AS r")
            ),
            Stage(("*",), f"r <= {self.unit.rows} OR p IS NULL"),
        ]

    def query(self, columns: Columns, dialect: Dialect, source: str) -> str:
        """All of it as one text."""
        inner = nested_stages(self.stages(columns, dialect), source)
        return f"SELECT {self.grouped}\nFROM (\n{inner}\n) AS k\nGROUP BY v"

    @property
    def grouped(self) -> str:
        """What is asked of these rows by text: people, and whether some row names nobody."""
        return "v, count(*) AS n, max(CASE WHEN p IS NULL THEN 1 ELSE 0 END) AS e"

    def answer(self, rows: Sequence[tuple[str, int, int]]) -> dict[str, int]:
        """People per text; refuses rows that name nobody where the unit says so."""
        if (
            self.unit is not None
            and self.unit.missing == "refuse"
            and any(row[2] for row in rows)
        ):
            raise no_name(self.unit)
        return {value: int(people) for value, people, _ in rows}


@dataclass(frozen=True)
class HeldRows:
    """People by how many rows they have in all."""

    unit: Unit

    @property
    def storages(self) -> dict[str, Storage]:
        """The columns that are read, and how."""
        return unit_storages(self.unit)

    def stages(self, columns: Columns, dialect: Dialect) -> list[Stage]:
        """The person's name p of every row."""
        return [Stage((f"{person_name(self.unit, columns, dialect)} AS p",))]

    @property
    def by_person(self) -> str:
        """What is asked of these rows by name: how many there are."""
        return "p, count(*) AS n"

    @property
    def by_rows(self) -> str:
        """What is asked of people by number of rows n; those without a name apart."""
        return "n, CASE WHEN p IS NULL THEN 1 ELSE 0 END AS e, count(*) AS k"

    def answer(self, rows: Sequence[tuple[int, int, int]]) -> dict[int, int]:
        """People by number of rows; rows that name nobody are refused, or are people of one row."""
        held: dict[int, int] = {}
        for number, nameless, people in rows:
            if nameless and self.unit.missing == "refuse":
                raise no_name(self.unit)
            own, count = (1, number) if nameless else (number, people)
            held[own] = held.get(own, 0) + int(count)

        return held
