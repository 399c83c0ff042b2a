"""What every attribute is: a name, cells, levels, and a rule for values that have no cell.

Levels are coarser groupings of cells: district → region → country. A table is counted at the
finest level only; every coarser one is a sum of its cells. Tables at different levels are therefore
answers about the same cells, and a plan makes them consistent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray, ObjectArray
from noisewright.display import Shown
from noisewright.errors import DomainError, InvalidParameter, require

if TYPE_CHECKING:
    import pyarrow as pa


Values: TypeAlias = "Sequence[object] | Array | pa.Array | pa.ChunkedArray"
Storage = Literal["text", "number", "boolean", "date"]

# Where a value without a declared cell lies; `Attribute.encode` turns these into cells or errors.
BELOW = -1
ABOVE = -2
ELSEWHERE = -3
MISSING = -4


Refuse = Callable[[str, object, str, str], InvalidParameter]

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
        if str(constant) not in self.labels:
            remedy = f"the groups are {', '.join(self.labels[:8])}" + ", …" * (
                self.size > 8
            )
            raise InvalidParameter(self.name, constant, "has no declared group", remedy)
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
        require(
            isinstance(self.name, str) and self.name,
            "name",
            self.name,
            "must be text that is not empty",
        )

        check_label("name", self.name)
        policies = ("clip", "other", "error") if self.ordered else ("other", "error")
        if self.outside not in policies:
            raise self.refuse(
                "outside", self.outside, f"must be one of {', '.join(policies)}"
            )

        if self.missing is None:
            object.__setattr__(
                self, "missing", "other" if self.outside == "other" else "error"
            )

        if self.missing not in ("other", "error"):
            raise self.refuse("missing", self.missing, "must be other or error")
        if not isinstance(self.other, str) or not self.other:
            raise self.refuse("other", self.other, "must be a label that is not empty")

        check_label(f"{self.name}.other", self.other)
        self._check()
        if self.has_other and self.other in self.declared_labels:
            raise self.refuse(
                "other", self.other, "must differ from the labels of the cells"
            )

        object.__setattr__(self, "levels", self._read_levels())

    @abstractmethod
    def _check(self) -> None:
        """Check and normalise what this kind of attribute declares."""

    def _read_levels(self) -> tuple[Level, ...]:
        if not isinstance(self.levels, Mapping):
            return tuple(self.levels)

        finer = Level(
            self.name, self.declared_labels, tuple(range(len(self.declared_labels)))
        )
        read: list[Level] = []
        for name, declared in self.levels.items():
            check_label(f"{self.name}.levels", str(name))
            if isinstance(declared, Mapping):
                level = from_members(str(name), declared, finer, self.refuse)
            else:
                level = self._coarser(str(name), declared)
            if not is_coarser(level, finer):
                raise self.refuse(
                    "levels", name, f"must not cut through groups of {finer.name!r}"
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

        labels = (*level.labels, self.other)
        if self.other in level.labels:
            raise self.refuse(
                "other", self.other, f"must differ from the labels of {level.name!r}"
            )
        return Level(level.name, labels, (*level.groups, level.size))

    def _facts(self) -> list[tuple[str, str]]:
        rules = [("outside", self.outside), ("missing", str(self.missing))]
        return [("name", self.name), ("cells", f"{self.size:,}"), *rules]

    def refuse(
        self, field: str, value: object, rule: str, remedy: str = ""
    ) -> InvalidParameter:
        """Return the error for a declared field that breaks its rule."""
        return InvalidParameter(f"{self.name}.{field}", value, rule, remedy)

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
        fault = (
            "a value outside its declared cells" if field == "outside" else "no value"
        )
        remedies = f"declare `{field}: other`" + (
            " or `outside: clip`" if field == "outside" and self.ordered else ""
        )
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

        if cell < 0:
            remedy = f"the cells are {', '.join(self.labels[:8])}" + ", …" * (
                self.size > 8
            )
            raise InvalidParameter(self.name, constant, "has no declared cell", remedy)

        return cell

    def _constant(self, constant: object) -> object:
        """Return a constant as written in a query in the type that `_place` reads."""
        return constant

    def _checked(self, codes: npt.ArrayLike) -> IntArray:
        cells = np.asarray(codes)
        if not np.issubdtype(cells.dtype, np.integer) and cells.size:
            raise self.refuse("cells", cells.dtype, "must be integers")
        if cells.size and (cells.min() < 0 or cells.max() >= self.size):
            raise self.refuse("cells", "…", f"must lie in 0..{self.size - 1}")
        return cells.astype(np.int64)


def check_label(parameter: str, text: str, most: int = LONGEST_LABEL) -> None:
    """Refuse a name or label that is too long to be shown."""
    if len(text) > most:
        rule = f"has {len(text):,} characters, where {most} are the most"
        raise InvalidParameter(parameter, f"{text[:40]}…", rule, "shorten it")


def from_members(
    name: str, members: Mapping[object, object], finer: Level, refuse: Refuse
) -> Level:
    """Return the level whose groups list labels of the next finer level, each exactly once."""
    group_of: dict[str, int] = {}
    for group, (title, listed) in enumerate(members.items()):
        check_label(f"levels.{name}", str(title))
        if isinstance(listed, str) or not isinstance(listed, Sequence) or not listed:
            raise refuse(
                f"levels.{name}", listed, "must list the labels that a group holds", ""
            )

        for label in map(str, listed):
            if label not in finer.labels:
                raise refuse(
                    f"levels.{name}", label, f"is not a label of {finer.name!r}", ""
                )
            if label in group_of:
                raise refuse(f"levels.{name}", label, "must be in one group only", "")
            group_of[label] = group

    if left := [label for label in finer.labels if label not in group_of]:
        raise refuse(
            f"levels.{name}", left, "must be in a group too", "put every label in one"
        )

    of_finer = [group_of[label] for label in finer.labels]
    return Level(
        name, tuple(map(str, members)), tuple(of_finer[cell] for cell in finer.groups)
    )


def to_members(level: Level, finer: Level) -> dict[str, list[str]]:
    """Return the groups of a level as lists of labels of the next finer one."""
    members: dict[str, dict[str, None]] = {label: {} for label in level.labels}
    for group, part in zip(level.groups, finer.groups, strict=True):
        members[level.labels[group]][finer.labels[part]] = None
    return {label: list(parts) for label, parts in members.items()}


def is_coarser(level: Level, finer: Level) -> bool:
    """Whether every group of the finer level lies within one group of the coarser."""
    return len(set(zip(finer.groups, level.groups, strict=True))) == len(
        set(finer.groups)
    )
