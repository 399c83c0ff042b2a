"""Numbers cut at declared edges, and what values add to sums in whole units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.domain.attribute import EXACT_INTEGERS, Storage, Values
from noisewright.domain.levels import Level
from noisewright.domain.ordered import Ordered
from noisewright.errors import is_whole, require

_EXACT_DIGITS = 1e16  # from here on Python writes whole numbers with powers of ten
_MOST_UNITS = 2**31  # four billion people then still fit a 64-bit sum


@dataclass(frozen=True)
class Numeric(Ordered):
    """A number cut at declared edges: [e0, e1), [e1, e2), …, the last cell closed.

    The outer edges may be infinite. The last two edges may be equal: the last cell is then that
    single number. `lower` and `upper` are the bounds to which values are clipped in sums and
    means; they default to the outer edges where those are finite. With `integer`, labels are
    written for whole numbers (0–17) and `<= 17` means `< 18`.
    """

    edges: Sequence[float] = ()
    integer: bool = False
    lower: float | None = None
    upper: float | None = None

    kind: ClassVar[str] = "numeric"

    @classmethod
    def integers(
        cls, name: str, first: int, last: int, step: int = 1, **rules: Any
    ) -> Numeric:
        """Declare the whole numbers first..last in runs of `step`: 0–4, 5–9, …"""
        require(
            is_whole(step) and step > 0 and first <= last,
            f"{name}.integers",
            (first, last, step),
            "must be first <= last and step >= 1",
        )
        return cls(name, (*range(first, last + 1, step), last), integer=True, **rules)

    def _check(self) -> None:
        whole = self.integer
        self.require(isinstance(whole, bool), "integer", whole, "must be true or false")
        self.require(
            not isinstance(self.edges, str) and len(self.edges) > 1,
            "edges",
            self.edges,
            "must list at least two numbers",
        )
        edges = tuple(self._number("edges", edge) for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        self._check_edges()

        for field, end in (("lower", edges[0]), ("upper", edges[-1])):
            bound = getattr(self, field)
            if bound is not None:
                bound = self._number(field, bound)
                self.require(math.isfinite(bound), field, bound, "must be finite")
            elif math.isfinite(end):
                bound = end
            object.__setattr__(self, field, bound)

        if self.lower is not None and self.upper is not None:
            rule = f"must be <= upper={self.upper}"
            self.require(self.lower <= self.upper, "lower", self.lower, rule)

    def _check_edges(self) -> None:
        edges = self.edges
        inner = all(map(math.isfinite, edges[1:-1]))
        self.require(inner, "edges", edges, "may be infinite only at the ends")

        rising = all(a < b for a, b in itertools.pairwise(edges[:-1]))
        self.require(
            rising and edges[-2] <= edges[-1],
            "edges",
            edges,
            "must increase (the last may repeat)",
        )
        self.require(
            math.isfinite(edges[-2]) or edges[-2] < edges[-1],
            "edges",
            edges,
            "must increase",
        )

        whole = all(edge == int(edge) for edge in edges if math.isfinite(edge))
        self.require(
            whole or not self.integer,
            "edges",
            edges,
            "must be whole numbers with `integer`",
        )

    def usual_fields(self) -> dict[str, object]:
        ends = {"lower": self.edges[0], "upper": self.edges[-1]}
        return super().usual_fields() | ends

    def _number(self, field: str, value: object) -> float:
        match value:
            case "inf" | "-inf":  # as text, since JSON has no infinity
                return float(value)
            case bool():
                pass  # no number, though Python counts with them
            case int() | np.integer() if abs(int(value)) < EXACT_INTEGERS:
                return int(value)
            case int() | float() | np.number() if not math.isnan(value):
                return float(value)

        remedy = "infinite edges are inf and -inf"
        raise self.refuse(field, value, "must be a number", remedy)

    def largest_units(self, unit: float) -> int:
        """Return the most that one person can change a sum by, in whole units."""
        positive = math.isfinite(unit) and unit > 0
        self.require(positive, "unit", unit, "must be a positive number")

        low, high = self.bounds
        units = max(abs(low), abs(high)) / unit
        rule = f"must be at least {units * unit / _MOST_UNITS:g}"
        self.require(units <= _MOST_UNITS, "unit", unit, rule)

        return round(units)

    @property
    def bounds(self) -> tuple[float, float]:
        """To which values are clipped in sums; refused where they are not known."""
        if self.lower is None or self.upper is None:
            raise self.refuse(
                "bounds",
                (self.lower, self.upper),
                "must both be declared",
                "add lower and upper",
            )
        return self.lower, self.upper

    def units(self, values: Values, unit: float) -> IntArray:
        """Return every value clipped to `lower`..`upper` and rounded to whole units.

        Values that `encode` puts into the `other` cell are none; rules are those of `encode`.
        Whole units make sums exact, and what one person can add is `largest_units`.
        """
        self.largest_units(unit)
        return self.held_units(values, unit)[0]

    def holds(self, values: Values) -> BoolArray:
        """Who has a value, that is, one outside the `other` cell."""
        return np.asarray(self.encode(values) < len(self.declared_labels))

    def held_units(self, values: Values, unit: float) -> tuple[IntArray, BoolArray]:
        """The same, zero for whoever has no value, and who has one."""
        held = self.holds(values)
        numbers = np.clip(np.nan_to_num(self._numbers(values)), self.lower, self.upper)
        return np.where(held, np.rint(numbers / unit), 0).astype(np.int64), held

    @cached_property
    def storage(self) -> Storage:
        return "number"

    @property
    def whole(self) -> bool:
        return self.integer

    @cached_property
    def cuts(self) -> FloatArray:
        return np.array(self.edges, dtype=np.float64)

    def _numbers(self, values: Values) -> FloatArray:
        from noisewright.domain import columns

        return columns.numbers(self.name, values)

    @cached_property
    def declared_labels(self) -> tuple[str, ...]:
        """Labels such as 0–17 for whole numbers and [0, 18) otherwise."""
        *cells, last = itertools.pairwise(self.edges)
        return (*(self._label(a, b) for a, b in cells), self._label(*last, last=True))

    def _label(self, a: float, b: float, last: bool = False) -> str:
        if math.isinf(a) and math.isinf(b):
            return "any"
        if math.isinf(a):
            return f"{'≤' if last else '<'}{_plain(b)}"
        if math.isinf(b):
            return f"≥{_plain(a)}"

        if self.integer:
            top = b if last else b - 1
            return _plain(a) if a == top else f"{_plain(a)}–{_plain(top)}"

        if a == b:
            return _plain(a)

        return f"[{_plain(a)}, {_plain(b)}{']' if last else ')'}"

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        *cells, last = itertools.pairwise(self.edges)
        inside = 1 if self.integer else 0
        return (*((a, b - inside) for a, b in cells), last)

    def _coarser(self, name: str, declared: object) -> Level:
        """Read a level given by some of the edges: `{"band": [0, 18, 65, 120]}`."""
        whole = self.integer
        coarse = Numeric(f"{self.name}.levels.{name}", declared, integer=whole)  # type: ignore[arg-type]
        ends = (self.edges[0], self.edges[-1])
        self.require(
            set(coarse.edges) <= set(self.edges)
            and (coarse.edges[0], coarse.edges[-1]) == ends,
            f"levels.{name}",
            declared,
            "must be some of the attribute's edges, its first and last among them",
        )

        return self._grouped(name, coarse)

    def representative(self, cell: int) -> float | None:
        cell = int(self._checked(cell))
        if cell == len(self.edges) - 1:
            return None

        a = self.edges[cell]
        b = self.edges[cell + 1]
        if math.isinf(b):
            return 0.0 if math.isinf(a) else a
        if math.isinf(a):
            return float(np.nextafter(b, -math.inf))

        middle = a / 2 + b / 2
        if self.integer:
            middle = math.floor(middle)

        return middle if a <= middle < b else a


def _plain(number: float) -> str:
    """Write a number without a needless decimal point."""
    whole = number == int(number) and abs(number) < _EXACT_DIGITS
    return str(int(number)) if whole else repr(number)
