"""Attributes without an order: declared values and truth values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from noisewright.arrays import IntArray
from noisewright.domain.attribute import (
    ELSEWHERE,
    EXACT_INTEGERS,
    MISSING,
    Attribute,
    Storage,
    Values,
)
from noisewright.domain.levels import check_label
from noisewright.errors import is_whole


@dataclass(frozen=True)
class Categorical(Attribute):
    """Declared values, one cell each.

    Values are text or integers. Where all are integers, columns are compared as numbers (1, 1.0
    and the text "01" are the same); otherwise everything is compared as exact text.
    """

    values: Sequence[str | int] = ()

    kind: ClassVar[str] = "categorical"

    def _check(self) -> None:
        rule = "must list at least one value"
        listed = not isinstance(self.values, str) and self.values
        self.require(listed, "values", self.values, rule)
        for value in self.values:
            match value:
                case str():
                    continue
                case int() if not is_whole(value):
                    rule = "must be text or integers"
                case int() if abs(value) < EXACT_INTEGERS:
                    continue
                case int():
                    rule = "must be smaller than 2^53"
                case _:
                    rule = "must be text or integers"
            raise self.refuse("values", value, rule, "quote it")

        values = tuple(self.values)
        if not all(map(is_whole, values)):
            values = tuple(map(str, values))
        object.__setattr__(self, "values", values)

        for label in self.declared_labels:
            check_label(f"{self.name}.values", label)

        labels = Counter(self.declared_labels)
        repeated = [label for label, times in labels.items() if times > 1]
        self.require(not repeated, "values", repeated, "must differ from each other")

    @cached_property
    def storage(self) -> Storage:
        return "number" if is_whole(self.values[0]) else "text"

    @cached_property
    def declared_labels(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.values)

    def _place(self, values: Values) -> IntArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        from noisewright.domain import columns

        if self.storage == "number":
            numbers = columns.numbers(self.name, values) + 0.0  # minus zero is zero
            column = pa.array(numbers)
            missing = np.isnan(numbers)
            declared = pa.array([float(value) for value in self.values])
        else:
            column = columns.texts(self.name, values)
            missing = column.is_null().to_numpy(zero_copy_only=False)
            declared = pa.array(self.values, pa.string())

        found = pc.index_in(column, value_set=declared).cast(pa.int64())
        cells = found.fill_null(ELSEWHERE).to_numpy(zero_copy_only=False)
        return np.where(missing, MISSING, cells).astype(np.int64)

    def representative(self, cell: int) -> str | int | None:
        cell = int(self._checked(cell))
        return self.values[cell] if cell < len(self.values) else None


@dataclass(frozen=True)
class Boolean(Attribute):
    """Two cells, false and true.

    In text, true/t/yes/y/1 and false/f/no/n/0 are read in any case; anything else is missing.
    """

    kind: ClassVar[str] = "boolean"

    def _check(self) -> None:
        """Accept: nothing further is declared."""

    @cached_property
    def storage(self) -> Storage:
        return "boolean"

    @cached_property
    def declared_labels(self) -> tuple[str, ...]:
        return ("false", "true")

    def _place(self, values: Values) -> IntArray:
        from noisewright.domain import columns

        bits = columns.booleans(self.name, values)
        return np.where(np.isnan(bits), MISSING, bits).astype(np.int64)

    def representative(self, cell: int) -> bool | None:
        return (False, True, None)[int(self._checked(cell))]
