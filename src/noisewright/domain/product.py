"""The domain of a table: the product of its attributes, its cells in C order."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from noisewright.arrays import BoolArray, IntArray, ObjectArray
from noisewright.display import Shown, short_count
from noisewright.domain import schema
from noisewright.domain.attribute import Attribute, Values
from noisewright.domain.derive import Derived, read_derived, tables_of
from noisewright.domain.impossible import Box, read_box
from noisewright.domain.levels import Level
from noisewright.domain.unit import ROW_IS_PERSON, Unit, read_unit
from noisewright.errors import (
    DomainError,
    TooLarge,
    read_plain_values,
    require,
    unknown_name,
)

_LARGEST_INDEX = 2**63  # beyond what 64 bits count, with a sign
_MOST_MASK = 2**27
"""Cells of a table that are listed one by one: 128 MiB of truth values."""


@dataclass(frozen=True)
class Domain(Shown):
    """Publicly known attributes of a table of people.

    `reviewed` is false for a draft made by looking at data. A draft can be read and edited, but
    nothing plans or releases from it. `impossible` lists combinations that nobody can have, such as
    `{"age": {"below": 15}, "employment": ["retired"]}`. `unit` says which rows are one person's;
    without it one row is one person. `derive` works every attribute out from tables in which people
    have many rows; afterwards a person is one row.
    """

    attributes: Sequence[Attribute]
    reviewed: bool = True
    impossible: Sequence[Box | Mapping[str, object]] = ()
    unit: Unit | None = None
    derive: Sequence[Derived | Mapping[str, object]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        require(self.attributes, "attributes", [], "must name at least one attribute")
        require(
            isinstance(self.reviewed, bool),
            "reviewed",
            self.reviewed,
            "must be true or false",
        )

        names = Counter([*self.names, *self._level_names])
        repeated = [name for name, times in names.items() if times > 1]
        require(
            not repeated,
            "attributes",
            repeated,
            "must have different names",
            "rename or remove one",
        )

        object.__setattr__(self, "unit", read_unit(self.unit))
        self._check_groups()
        object.__setattr__(self, "derive", tuple(map(read_derived, self.derive)))
        if self.derive:
            self._check_derived()

        boxes = tuple(read_box(declared, self) for declared in self.impossible)
        object.__setattr__(self, "impossible", boxes)

    def _check_groups(self) -> None:
        """What bounds rows in every cell is an attribute."""
        for name in () if self.unit is None else self.unit.by:
            require(
                name in self.names, "unit.by", name, "is no attribute of the schema"
            )

    def _check_derived(self) -> None:
        """Every attribute is worked out once, and persons are named, each by themselves."""
        person = "" if self.unit is None else self.unit.column
        rule = "names people, and cannot be what is worked out of their rows too"
        require(person not in self.names, "unit", person, rule)

        worked_out = [one.name for one in self.derived]
        rule = "must work out every attribute, each once"
        require(sorted(worked_out) == sorted(self.names), "derive", worked_out, rule)

        require(
            self.unit is not None and self.unit == Unit(person),
            "unit",
            self.unit and self.unit.to_dict(),
            "must be a column alone: what is derived is one row per person",
            "leave `rows`, `missing`, `key` and `per` out",
        )

        for one in self.derived:
            one.check(self[one.name])

        private, public = tables_of(self.derived)
        both = sorted(set(private) & set(public))
        require(not both, "derive", both, "cannot be tables of people and public ones")

    @property
    def derived(self) -> tuple[Derived, ...]:
        """How every attribute is worked out, where it is no column of the table."""
        return self.derive  # type: ignore[return-value]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def _level_names(self) -> list[str]:
        return [level.name for a in self.attributes for level in a.coarser]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of cells of every attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """The number of cells, an exact Python integer however large."""
        return math.prod(self.shape)

    def _facts(self) -> list[tuple[str, str]]:
        attributes = ", ".join(f"{a.name} ({a.size:,})" for a in self.attributes)
        state = [] if self.reviewed else [("reviewed", "no: a draft")]
        return [("attributes", attributes), ("cells", short_count(self.size)), *state]

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def index(self, name: str) -> int:
        """Return the position of the attribute of that name."""
        if name not in self.names:
            known = [*self.names, *self._level_names]
            rule = "is not in the domain"
            raise unknown_name("attribute", name, rule, known, "the domain has")
        return self.names.index(name)

    def find(self, name: str) -> tuple[int, Level | None]:
        """Return the position of the attribute that has the name, or a level of that name."""
        for position, attribute in enumerate(self.attributes):
            for level in attribute.coarser:
                if level.name == name:
                    return position, level
        return self.index(name), None

    def project(self, names: Sequence[str]) -> Domain:
        """Return the domain of some attributes, in the order asked for."""
        boxes = [box for box in self.boxes if set(box.names) <= set(names)]
        return Domain(
            [self[name] for name in names],
            self.reviewed,
            [box.to_dict(self) for box in boxes],
            self._unit_of(names),
            [one for one in self.derived if one.name in names],
        )

    def _unit_of(self, names: Sequence[str]) -> Unit | None:
        """The unit where only these attributes are left: cells of others bound no rows."""
        if self.unit is None or set(self.unit.by) <= set(names):
            return self.unit
        return replace(self.unit, by=(), each=1)

    @cached_property
    def rows(self) -> int:
        """How many rows of one person count at most."""
        return 1 if self.unit is None else self.unit.rows

    @property
    def person(self) -> str:
        """Whose privacy it is, in words."""
        if self.unit is not None and self.derived:
            return f"a person is all rows with one {self.unit.column}, worked out into one row"
        return ROW_IS_PERSON if self.unit is None else self.unit.text()

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """The impossible combinations, as cells."""
        return self.impossible  # type: ignore[return-value]

    def possible(self, names: Sequence[str]) -> BoolArray:
        """Return which cells of a marginal table can hold people, flat and in C order.

        A cell is left out where a declaration about attributes of this very table forbids it; what
        several declarations imply together about fewer attributes is not worked out.
        """
        shape = tuple(self[name].size for name in names)
        if math.prod(shape) > _MOST_MASK:
            raise TooLarge(
                f"a table of {math.prod(shape)} cells is too large to list its cells"
            )

        possible = np.ones(shape, dtype=np.bool_)
        for box in self.boxes:
            if set(box.names) <= set(names):
                possible &= ~box.holds(self, names)

        return possible.ravel()

    def require_reviewed(self) -> None:
        """Refuse a draft."""
        if not self.reviewed:
            raise DomainError(
                "this schema is a draft, made by looking at a table; make sure that every value "
                "and bound in it comes from public knowledge, then set `reviewed: true`"
            )

    def unravel(self, index: int) -> tuple[int, ...]:
        """Return the cell of every attribute at a flat index."""
        inside = 0 <= index < self.size
        require(inside, "cell", index, f"must lie in 0..{self.size - 1}")

        cells = []
        for size in reversed(self.shape):
            index, cell = divmod(int(index), size)
            cells.append(cell)

        return tuple(reversed(cells))

    def ravel(self, cells: Sequence[int]) -> int:
        """Return the flat index of one cell per attribute."""
        inside = len(cells) == len(self) and all(
            0 <= cell < size for cell, size in zip(cells, self.shape, strict=True)
        )
        require(inside, "cells", cells, f"must index a shape of {self.shape}")

        index = 0
        for cell, size in zip(cells, self.shape, strict=True):
            index = index * size + int(cell)

        return index

    def encode(self, columns: Mapping[str, Values]) -> IntArray:
        """Return the flat cell of every row, from one column per attribute."""
        self.require_indexable()
        absent = [name for name in self.names if name not in columns]
        require(not absent, "columns", absent, "are missing", "give one per attribute")

        codes = [each.encode(columns[each.name]) for each in self.attributes]
        require(
            len({len(column) for column in codes}) <= 1,
            "columns",
            list(self.names),
            "must be of the same length",
        )

        return np.ravel_multi_index(codes, self.shape).astype(np.int64)

    def decode(self, indices: npt.ArrayLike) -> dict[str, ObjectArray]:
        """Return the labels, one column per attribute, of flat cells."""
        self.require_indexable()
        codes = np.unravel_index(np.asarray(indices, dtype=np.int64), self.shape)
        pairs = zip(self.attributes, codes, strict=True)
        return {attribute.name: attribute.decode(cells) for attribute, cells in pairs}

    def require_indexable(self) -> None:
        """Refuse a domain whose flat index does not fit 64 bits."""
        if self.size > _LARGEST_INDEX:
            raise TooLarge(
                f"the domain's {self.size} cells cannot be numbered in 64 bits; "
                "work with some of its attributes: domain.project(names)"
            )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the cells mean (SHA-256, in hexadecimal)."""
        document = replace(self, reviewed=True).to_dict()
        del document["reviewed"]
        meaning = json.dumps(document, sort_keys=True)
        return hashlib.sha256(meaning.encode()).hexdigest()

    def to_dict(self) -> dict[str, object]:
        """Return the schema as plain values, ready for JSON."""
        document = schema.to_dict(self.attributes, self.reviewed)
        if self.boxes:
            document["impossible"] = [box.to_dict(self) for box in self.boxes]

        if self.unit is not None:
            document["unit"] = self.unit.to_dict()

        if self.derived:
            document["derive"] = [one.to_dict() for one in self.derived]

        return document

    @classmethod
    def from_dict(cls, document: object) -> Domain:
        """Read a schema from plain values; unknown keys are refused."""
        declared = schema.from_dict(document)
        rule = "schema: `impossible`, `unit` or `derive` is not understood"
        return read_plain_values(lambda: cls(**declared), partial(DomainError, rule))

    def to_yaml(self) -> str:
        """Return the schema as YAML."""
        return schema.dump_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, source: str | Path) -> Domain:
        """Read a schema from YAML (or JSON, which is YAML): a path, or text of several lines."""
        return cls.from_dict(schema.load_yaml(source))
