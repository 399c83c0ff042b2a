"""What every attribute is: a name, cells, levels, and a rule for values that have no cell.

Levels are coarser groupings of cells: district → region → country. A table is counted at the
finest level only; every coarser one is a sum of its cells. Tables at different levels are therefore
answers about the same cells, and a plan makes them consistent.
"""

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

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray, ObjectArray
from noisewright.display import Shown
from noisewright.errors import (
    DomainError,
    InvalidParameter,
    is_listed,
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

LONGEST_LABEL = 200
"""Characters of a name or a label: what a table, a page and a form can still show as one."""


@dataclass(frozen=True)
class Level:
    """A named way to put the cells of an attribute into groups."""

    name: str
    labels: tuple[str, ...]
    groups: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.labels)

    def locate(self, constant: object) -> int:
        """Return the group whose label is a constant written in a query."""
        require(
            str(constant) in self.labels,
            self.name,
            constant,
            "has no declared group",
            f"the groups are {_listed(self.labels)}",
        )
        return self.labels.index(str(constant))

    @property
    def queries(self) -> tuple[str, ...]:
        """Every group as a query in words."""
        return tuple(f"{self.name} = {label}" for label in self.labels)

    def matrix(self) -> FloatArray:
        """Return the sums: one row per group, one column per cell of the attribute."""
        return np.equal.outer(np.arange(self.size), self.groups).astype(np.float64)


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
        require(holds, f"{self.name}.{field}", value, rule, remedy)

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """How a column of this attribute is read: as text, number, boolean or date."""

    @cached_property
    @abstractmethod
    def declared_labels(self) -> tuple[str, ...]:
        """Labels of the declared cells, without the `other` cell."""

    @property
    def coarser(self) -> tuple[Level, ...]:
        """The levels, from finer to coarser."""
        return self.levels  # type: ignore[return-value]

    @property
    def has_other(self) -> bool:
        """Whether a last cell holds values without a declared cell."""
        return "other" in (self.outside, self.missing)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of every cell, for people."""
        return self.declared_labels + ((self.other,) if self.has_other else ())

    @property
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
            f"the cells are {_listed(self.labels)}",
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


def check_label(parameter: str, text: str, most: int = LONGEST_LABEL) -> None:
    """Refuse a name or label that is too long to be shown."""
    rule = f"has {len(text):,} characters, where {most} are the most"
    require(len(text) <= most, parameter, f"{text[:40]}…", rule, "shorten it")


def _listed(labels: Sequence[str], most: int = 8) -> str:
    """The first labels, and that there are more."""
    return ", ".join(labels[:most]) + ", …" * (len(labels) > most)


def from_members(
    attribute: str, name: str, members: Mapping[object, object], finer: Level
) -> Level:
    """Return the level whose groups list labels of the next finer level, each exactly once."""
    subject = f"{attribute}.levels.{name}"
    group_of: dict[str, int] = {}
    for group, (title, listed) in enumerate(members.items()):
        check_label(f"levels.{name}", str(title))
        if not is_listed(listed) or not listed:
            rule = "must list the labels that a group holds"
            raise InvalidParameter(subject, listed, rule)

        for label in map(str, listed):
            rule = f"is not a label of {finer.name!r}"
            require(label in finer.labels, subject, label, rule)
            rule = "must be in one group only"
            require(label not in group_of, subject, label, rule)
            group_of[label] = group

    left = [label for label in finer.labels if label not in group_of]
    require(not left, subject, left, "must be in a group too", "put every label in one")

    of_finer = [group_of[label] for label in finer.labels]
    groups = tuple(of_finer[cell] for cell in finer.groups)
    return Level(name, tuple(map(str, members)), groups)


def to_members(level: Level, finer: Level) -> dict[str, list[str]]:
    """Return the groups of a level as lists of labels of the next finer one."""
    members: dict[str, dict[str, None]] = {label: {} for label in level.labels}
    for group, part in zip(level.groups, finer.groups, strict=True):
        members[level.labels[group]][finer.labels[part]] = None
    return {label: list(parts) for label, parts in members.items()}


def is_coarser(level: Level, finer: Level) -> bool:
    """Whether every group of the finer level lies within one group of the coarser."""
    pairs = set(zip(finer.groups, level.groups, strict=True))
    return len(pairs) == len(set(finer.groups))


def declared_fields(subject: DataclassInstance) -> dict[str, object]:
    """The fields of a dataclass that differ from what is usual, as plain values."""
    return {
        field.name: _plain(getattr(subject, field.name))
        for field in fields(subject)
        if getattr(subject, field.name) != field.default
    }


def _plain(value: object) -> object:
    """A value as JSON and YAML have it; infinities as text."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return value.isoformat() if isinstance(value, dt.date) else value
