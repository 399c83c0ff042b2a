"""What every attribute is: a name, cells, levels, and a rule for values that have no cell."""

from __future__ import annotations

import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, BoolArray, IntArray, ObjectArray
from noisewright.display import Shown
from noisewright.domain.levels import (
    Level,
    check_label,
    first_of,
    from_members,
    is_coarser,
)
from noisewright.errors import (
    DomainError,
    InvalidParameter,
    is_name,
    require,
    require_one_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import DataclassInstance


Values: TypeAlias = "Sequence[object] | Array | pa.Array | pa.ChunkedArray"
Storage = Literal["text", "number", "boolean", "date"]

# Where a value without a declared cell lies; `Attribute.encode` turns these into cells or errors.
BELOW = -1  # the lowest edge
ABOVE = -2  # the highest edge
ELSEWHERE = -3  # among no declared values
MISSING = -4  # in no place at all

EXACT_INTEGERS = 2**53
"""Beyond it, neighbouring integers are one 64-bit float."""


@dataclass(frozen=True)
class Attribute(Shown, ABC):
    """One column of the table, cut into declared cells.

    Values outside the declared ones follow `outside`:

    - `error` (the default): the table is refused. The message names the attribute and the rule,
      never a value or how many rows broke it.
    - `other`: one further, last cell, labelled by `other`, holds them.
    - `clip` (ordered attributes only): the nearest end cell holds them, infinities included.

    Missing values (NULL, NaN, or text that is no number, date or truth value where one is
    declared) follow `missing`, which is `other` or `error`. By default it is `other` where
    `outside` is, and `error` otherwise: a missing value has no nearest cell, and a silent choice
    of one would bend the statistics. `outside="clip", missing="other"` clips and keeps a cell for
    the missing.

    `levels` names coarser groupings of the cells, from finer to coarser, each a mapping from a
    group's label to the labels it holds: `{"region": {"North": ["Alpha", "Beta"], …}}`. They can be
    asked for like attributes; the `other` cell is a group of its own in each.
    """

    name: str
    _: KW_ONLY
    outside: Literal["clip", "other", "error"] = "error"
    missing: Literal["other", "error"] | None = None
    other: str = "other"
    levels: Mapping[str, Any] | Sequence[Level] = ()

    kind: ClassVar[str]
    ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(is_name(self.name), "name", self.name, "must be text that is not empty")
        check_label("name", self.name)

        policies = ("clip", "other", "error") if self.ordered else ("other", "error")
        require_one_of(f"{self.name}.outside", self.outside, policies)
        if self.missing is None:
            object.__setattr__(self, "missing", self._usual_missing)
        self.require(
            self.missing in ("other", "error"),
            "missing",
            self.missing,
            "must be other or error",
        )

        self.require(
            is_name(self.other),
            "other",
            self.other,
            "must be a label that is not empty",
        )
        check_label(f"{self.name}.other", self.other)

        self._check()
        self.require(
            not self.has_other or self.other not in self.declared_labels,
            "other",
            self.other,
            "must differ from the labels of the cells",
        )
        object.__setattr__(self, "levels", self._read_levels())

    @property
    def _usual_missing(self) -> str:
        return "other" if self.outside == "other" else "error"

    def usual_fields(self) -> dict[str, object]:
        """What fields are that nobody declared, where it follows from others."""
        return {"missing": self._usual_missing}

    @abstractmethod
    def _check(self) -> None:
        """Check and normalise what this kind of attribute declares."""

    def _read_levels(self) -> tuple[Level, ...]:
        if not isinstance(self.levels, Mapping):
            return tuple(self.levels)

        cells = tuple(range(len(self.declared_labels)))
        finer = Level(self.name, self.declared_labels, cells)
        read: list[Level] = []
        for name, declared in self.levels.items():
            check_label(f"{self.name}.levels", str(name))
            if isinstance(declared, Mapping):
                level = from_members(self.name, str(name), declared, finer)
            else:
                level = self._coarser(str(name), declared)
            self.require(
                is_coarser(level, finer),
                "levels",
                name,
                f"must not cut through groups of {finer.name!r}",
            )
            read.append(level)
            finer = level

        return tuple(self._with_other(level) for level in read)

    def _coarser(self, name: str, declared: object) -> Level:
        """Return the level that a declaration other than a mapping stands for."""
        raise self.refuse(
            f"levels.{name}", declared, "must map labels of groups to their members"
        )

    def _with_other(self, level: Level) -> Level:
        if not self.has_other:
            return level

        self.require(
            self.other not in level.labels,
            "other",
            self.other,
            f"must differ from the labels of {level.name!r}",
        )
        labels = (*level.labels, self.other)
        return Level(level.name, labels, (*level.groups, level.size))

    def _facts(self) -> list[tuple[str, str]]:
        rules = [("outside", self.outside), ("missing", str(self.missing))]
        return [("name", self.name), ("cells", f"{self.size:,}"), *rules]

    def refuse(
        self, field: str, value: object, rule: str, remedy: str = ""
    ) -> InvalidParameter:
        """Return the error for a declared field that breaks its rule."""
        return InvalidParameter(f"{self.name}.{field}", value, rule, remedy)

    def require(
        self, holds: object, field: str, value: object, rule: str, remedy: str = ""
    ) -> None:
        """Refuse a declared field whose rule does not hold."""
        if not holds:
            raise self.refuse(field, value, rule, remedy)

    @cached_property
    @abstractmethod
    def storage(self) -> Storage:
        """How a column of this attribute is read: as text, number, boolean or date."""

    @cached_property
    @abstractmethod
    def declared_labels(self) -> tuple[str, ...]:
        """Labels of the declared cells, without the `other` cell."""

    @cached_property
    def coarser(self) -> tuple[Level, ...]:
        """The levels, from finer to coarser."""
        return self.levels  # type: ignore[return-value]

    @cached_property
    def has_other(self) -> bool:
        """Whether a last cell holds values without a declared cell."""
        return "other" in (self.outside, self.missing)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of every cell, for people."""
        return self.declared_labels + ((self.other,) if self.has_other else ())

    @cached_property
    def size(self) -> int:
        """The number of cells, the `other` cell included."""
        return len(self.declared_labels) + self.has_other

    def encode(self, values: Values) -> IntArray:
        """Return the cell of every value; values without a declared cell follow the rules."""
        codes = self._place(values)
        last = len(self.declared_labels) - 1
        outside = (codes < 0) & (codes != MISSING)
        if self.outside == "clip":
            codes[codes == BELOW] = 0
            codes[codes == ABOVE] = last
        else:
            self._fill(codes, outside, "outside", self.outside)

        self._fill(codes, codes == MISSING, "missing", self.missing)
        return codes

    def _fill(
        self, codes: IntArray, where: BoolArray, field: str, policy: str | None
    ) -> None:
        if policy == "other":
            codes[where] = len(self.declared_labels)
        elif where.any():
            raise self.refusal(field)

    def refusal(self, field: str) -> DomainError:
        """What is said of a table in which a value breaks the rule `outside` or `missing`."""
        fault = "no value"
        remedies = f"declare `{field}: other`"
        if field == "outside":
            fault = "a value outside its declared cells"
            remedies += " or `outside: clip`" if self.ordered else ""

        return DomainError(
            f"attribute {self.name!r}: the table has {fault} somewhere, which its rule "
            f"`{field}: error` refuses; {remedies}, or mend the table"
        )

    @abstractmethod
    def _place(self, values: Values) -> IntArray:
        """Return a fresh array: the declared cell of every value, or where else it lies."""

    def decode(self, codes: npt.ArrayLike) -> ObjectArray:
        """Return the label of every cell in `codes`."""
        return np.array(self.labels, dtype=object)[self._checked(codes)]

    @abstractmethod
    def representative(self, cell: int) -> object:
        """Return a value that lies in the cell (None for the `other` cell)."""

    def locate(self, constant: object) -> int:
        """Return the declared cell of a constant written in a query.

        Never call it with a value from a record: the error repeats the constant.
        """
        if self.has_other and constant == self.other:
            return self.size - 1

        try:
            cell = int(self._place([self._constant(constant)])[0])
        except DomainError:
            cell = MISSING

        require(
            cell >= 0,
            self.name,
            constant,
            "has no declared cell",
            f"the cells are {first_of(self.labels)}",
        )
        return cell

    def _constant(self, constant: object) -> object:
        """Return a constant as written in a query in the type that `_place` reads."""
        return constant

    def _checked(self, codes: npt.ArrayLike) -> IntArray:
        cells = np.asarray(codes)
        if cells.size:
            whole = np.issubdtype(cells.dtype, np.integer)
            self.require(whole, "cells", cells.dtype, "must be integers")
            inside = cells.min() >= 0 and cells.max() < self.size
            self.require(inside, "cells", "…", f"must lie in 0..{self.size - 1}")

        return cells.astype(np.int64)


def declared_fields(subject: DataclassInstance) -> dict[str, object]:
    """The fields of a dataclass that differ from what is usual, as plain values."""
    return {
        field.name: _plain(getattr(subject, field.name))
        for field in fields(subject)
        if getattr(subject, field.name) != field.default
    }


def _plain(value: object) -> object:
    """A value as JSON and YAML have it; infinities as text."""
    match value:
        case tuple():
            return [_plain(item) for item in value]
        case float() if math.isinf(value):
            return str(value)
        case dt.date():
            return value.isoformat()
    return value
