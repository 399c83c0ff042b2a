"""The cells of values as SQL: the same cells as `Attribute.encode`, found by the engine itself.

A cell is a whole number; NULL stands for a value that the attribute's rules refuse. Wherever a
dialect has no exact expression the answer is None, and the engine reads values instead.
Comparisons come first and arithmetic after them: most rows then pass one branch, which is what
makes it quick, and no arithmetic sees a value for which it could fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.domain import Attribute, Boolean, Categorical, Date, Numeric
from noisewright.domain.attribute import EXACT_INTEGERS
from noisewright.domain.ordered import Ordered
from noisewright.tables.sql.dialect import Dialect, Typed
from noisewright.tables.sql.periods import index_of_period, literal
from noisewright.workload.questions.measures import (
    CentredSquares,
    CentredSum,
    OfColumn,
    Respondents,
    Weights,
)

_FEW_TEXTS = 4  # compared one by one; of more, a dialect knows better
# comparisons one after the other; beyond, a dialect may know better
_MOST_BRANCHES = 32
_MOST_TEXT = 2**20  # characters of SQL for one attribute


def cell(attribute: Attribute, typed: Typed, dialect: Dialect) -> str | None:
    """The cell of a value, NULL where the rules refuse it; None where SQL cannot say it."""
    if typed.kind == "unwritten":
        return None

    expression = _KINDS.get(type(attribute), _Cells)(attribute, typed, dialect).sql()
    return None if expression is None or len(expression) > _MOST_TEXT else expression


def content(
    attribute: Numeric, typed: Typed, measure: OfColumn, dialect: Dialect
) -> str:
    """What a person adds to a sum, as `measure.content` of `Numeric.units`; NULL where refused."""
    return _NumericCells(attribute, typed, dialect).content(measure)


@dataclass(frozen=True)
class _Cells:
    """The cells of a column: what is declared of it, its values as SQL, the engine's dialect."""

    attribute: Attribute
    typed: Typed
    dialect: Dialect

    def sql(self) -> str | None:
        """The cell of a value; None for a kind that only Python can encode."""
        return None

    @property
    def x(self) -> str:
        """The value."""
        return self.typed.sql

    @property
    def is_missing(self) -> str:
        """Whether there is no value."""
        return self.dialect.is_missing(self.typed)

    def fate(self, rule: str | None) -> str:
        """Where values go that have no cell of their own."""
        return str(len(self.attribute.declared_labels)) if rule == "other" else "NULL"

    @property
    def missing(self) -> str:
        """Where missing values go."""
        return self.fate(self.attribute.missing)

    @property
    def rest(self) -> str:
        """Where a value goes that was not found, whether it is missing or outside."""
        outside = self.fate(self.attribute.outside)
        if self.missing == outside:
            return outside
        return f"CASE WHEN {self.is_missing} THEN {self.missing} ELSE {outside} END"


@dataclass(frozen=True)
class _CategoricalCells(_Cells):
    attribute: Categorical

    def sql(self) -> str | None:
        return self._of_texts() if self.typed.kind == "text" else self._of_numbers()

    def _of_texts(self) -> str | None:
        texts = [self.dialect.text(str(value)) for value in self.attribute.values]
        known = [text for text in texts if text is not None]
        if len(known) < len(texts):
            return None
        if len(known) > _FEW_TEXTS:
            return self._found(self.dialect.find(known, self.x))

        branches = " ".join(f"WHEN {text} THEN {i}" for i, text in enumerate(known))
        return f"CASE {self.x} {branches} ELSE {self.rest} END"

    def _of_numbers(self) -> str | None:
        x = self.x
        values = [int(value) for value in self.attribute.values]
        first = values[0]
        if values != list(range(first, first + len(values))):
            literals = [self.dialect.number(value) for value in values]
            double = f"({self.dialect.as_double(x)} + {self.dialect.number(0)})"
            return self._found(self.dialect.find(literals, double))

        inside = f"{x} >= {first} AND {x} <= {values[-1]}"
        whole = "" if self.typed.kind == "whole" else f" AND {x} = floor({x})"
        index = f"{self.dialect.whole(x)} - ({first})"
        return f"CASE WHEN {inside}{whole} THEN {index} ELSE {self.rest} END"

    def _found(self, position: str | None) -> str | None:
        return None if position is None else f"coalesce({position}, {self.rest})"


class _BooleanCells(_Cells):
    def sql(self) -> str:
        x = self.x
        if self.typed.kind == "truth":
            bit = f"CAST({x} AS INTEGER)"
            return f"CASE WHEN {x} IS NULL THEN {self.missing} ELSE {bit} END"
        return f"CASE {x} WHEN 0 THEN 0 WHEN 1 THEN 1 ELSE {self.missing} END"


@dataclass(frozen=True)
class _OrderedCells(_Cells):
    attribute: Ordered

    @property
    def ends(self) -> tuple[str | None, str | None]:
        """The outer edges as literals, None where there is none."""
        raise NotImplementedError

    @property
    def open_top(self) -> str | None:
        """The upper edge of numbers that need not be whole, which lies in the last cell by itself.

        It has a branch of its own, so that no arithmetic on the others can pass the last cell.
        """
        return self.ends[1] if self.typed.kind == "double" else None

    def inside(self, below: str = "<=") -> str:
        """Whether a value lies between the outer edges; `below` compares it with the upper one."""
        low, high = self.ends
        conditions = [f"{self.x} >= {low}"] if low is not None else []
        conditions += [f"{self.x} {below} {high}"] if high is not None else []
        # engines hold NaN for larger than any number
        if high is None and self.typed.kind == "double":
            conditions.append(f"NOT {self.dialect.is_nan(self.x)}")

        if low is None and high is None:  # a missing value is no NaN to some engines
            conditions.insert(0, f"{self.x} IS NOT NULL")

        return " AND ".join(conditions)

    def branches(self, index: str | None) -> str | None:
        """Branches for values inside, missing, below and above, the most frequent one first."""
        if index is None:
            return None

        last = str(len(self.attribute.declared_labels) - 1)
        below = above = self.fate(self.attribute.outside)
        if self.attribute.outside == "clip":
            below, above = "0", last

        top = self.open_top
        inside = self.inside("<=" if top is None else "<")
        branches = [
            f"WHEN {inside} THEN {index}",
            f"WHEN {self.is_missing} THEN {self.missing}",
        ]
        if top is not None and above != last:
            branches.append(f"WHEN {self.x} = {top} THEN {last}")

        low = self.ends[0]
        if low is not None and below != above:
            branches.append(f"WHEN {self.x} < {low} THEN {below}")

        return f"CASE {' '.join(branches)} ELSE {above} END"


@dataclass(frozen=True)
class _DateCells(_OrderedCells):
    attribute: Date

    def sql(self) -> str | None:
        days = self.attribute.first, self.attribute.last
        index = index_of_period(*days, self.attribute.period, self.x, self.dialect)
        return self.branches(index)

    @property
    def ends(self) -> tuple[str, str]:
        return literal(self.attribute.first), literal(self.attribute.last)


@dataclass(frozen=True)
class _NumericCells(_OrderedCells):
    attribute: Numeric

    def __post_init__(self) -> None:
        """Compare whole numbers as such where all edges are whole and small, else as doubles."""
        cuts = self.attribute.cuts[np.isfinite(self.attribute.cuts)]
        whole = (cuts == np.floor(cuts)).all() and (np.abs(cuts) < EXACT_INTEGERS).all()
        kind = self.typed.kind
        if kind != "double" and not (kind == "whole" and whole):
            double = Typed(self.dialect.as_double(self.x), "double")
            object.__setattr__(self, "typed", double)

    def sql(self) -> str | None:
        clips = self.attribute.outside == "clip"
        if not (clips and self.typed.kind == "whole" and self.even):
            return self.branches(self.index(self.x))

        low, high = (self.edge(float(end)) for end in self.attribute.cuts[[0, -1]])
        index = self.index(f"least(greatest({self.x}, {low}), {high})")
        return f"CASE WHEN {self.x} IS NULL THEN {self.missing} ELSE {index} END"

    def edge(self, edge: float) -> str:
        """An edge as a literal."""
        whole = self.typed.kind == "whole"
        return f"({int(edge)})" if whole else self.dialect.number(edge)

    @property
    def ends(self) -> tuple[str | None, str | None]:
        ends = self.attribute.cuts[[0, -1]].tolist()
        low, high = (None if math.isinf(end) else self.edge(end) for end in ends)
        return low, high

    @cached_property
    def even(self) -> bool:
        """Whether all cells are equally wide, from one whole and small number to another."""
        cuts = self.attribute.cuts
        if len(cuts) < 3 or not np.isfinite(cuts).all():
            return False

        starts = cuts[:-1]
        steps = np.diff(starts)
        small = max(abs(cuts[0]), abs(cuts[-1])) < EXACT_INTEGERS
        whole = (starts == np.floor(starts)).all()
        return bool(small and whole and (steps == steps[0]).all())

    def index(self, x: str) -> str | None:
        """The cell of a number between the outer edges."""
        cuts = self.attribute.cuts
        cells = len(cuts) - 1
        if cells == 1:
            return "0"
        if self.even:
            return self._by_division(x)

        inner = [self.edge(edge) for edge in cuts[1:-1]]
        if cells <= _MOST_BRANCHES:
            return _tree(x, inner, 0, cells)

        finite = math.isfinite(cuts[0]) and math.isfinite(cuts[-1])
        near = _near(x, cuts, inner, self.dialect) if finite else None
        return self.dialect.search(inner, x) if near is None else near

    def _by_division(self, x: str) -> str:
        """Cells that begin at whole numbers: a value lies where its whole part does."""
        first, second = (int(cut) for cut in self.attribute.cuts[:2])
        top = float(self.attribute.cuts[-1])
        last = len(self.attribute.cuts) - 2
        is_whole = self.typed.kind == "whole"

        whole = self.dialect.whole(x if is_whole else f"floor({x})")
        index = f"{whole} - ({first})" if first else whole
        divisor = second - first
        if divisor > 1:
            index = self.dialect.quotient(f"({index})", divisor)

        largest = math.floor(top) if is_whole else math.ceil(top) - 1
        reaches = (largest - first) // divisor > last
        return f"least({index}, {last})" if reaches else index

    def content(self, measure: OfColumn) -> str:
        """What a person adds to a sum; NULL where refused."""
        own = "1" if isinstance(measure, Respondents) else self._summand(measure)
        nobody = np.zeros(1, dtype=np.int64)
        nothing = str(clipped_contribution(measure, nobody, nobody > 0)[0])
        absent = nothing if self.attribute.missing == "other" else "NULL"
        outside = {"clip": own, "other": nothing, "error": "NULL"}
        rest = outside[self.attribute.outside]

        known = f"WHEN {self.inside()} THEN {own} WHEN {self.is_missing} THEN {absent}"
        return f"CASE {known} ELSE {rest} END"

    def _summand(self, measure: CentredSum | CentredSquares | Weights) -> str:
        """What a value adds, in whole units between the bounds."""
        self.attribute.largest_units(measure.unit)  # refuses what sums cannot hold
        bounds = self.attribute.bounds
        return _centred(self.dialect.units(self.x, *bounds, measure.unit), measure)


_KINDS: dict[type[Attribute], type[_Cells]] = {
    Categorical: _CategoricalCells,
    Boolean: _BooleanCells,
    Numeric: _NumericCells,
    Date: _DateCells,
}


def _tree(x: str, inner: Sequence[str], low: int, high: int) -> str:
    """Halve the cells low..high−1 until one is left."""
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    left = _tree(x, inner, low, middle)
    right = _tree(x, inner, middle, high)

    return f"CASE WHEN {x} < {inner[middle - 1]} THEN {left} ELSE {right} END"


def _near(x: str, cuts: FloatArray, inner: list[str], dialect: Dialect) -> str | None:
    """Cells of almost equal width: the cell by division, moved by comparing with its own edges."""
    number = dialect.number
    cells = len(cuts) - 1
    step = (cuts[-2] - cuts[0]) / (cells - 1)
    even = cuts[0] + step * np.arange(cells)
    if not (math.isfinite(step) and np.abs(cuts[:-1] - even).max() <= step / 4):
        return None

    # Division errs by far less than a quarter of a cell, so that the cell is off by one at most.
    if abs(cuts[0]) + abs(cuts[-1]) > step * 2**40:
        return None

    multiples = [Fraction(cuts[0]) + k * Fraction(step) for k in range(cells + 1)]
    exact = [
        multiple == Fraction(cut) for multiple, cut in zip(multiples, cuts, strict=True)
    ]
    if all(exact) and cuts[0] == 0:
        # A number below an edge k·step that is a double is at most its predecessor, whose quotient
        # lies below k by more than half of the gap between doubles there: it rounds to less than k.
        return dialect.whole(f"floor({x} / {number(step)})")

    shift = f"({dialect.as_double(x)} - {number(cuts[0])})"
    quotient = f"floor({shift} / {number(step)})"
    guess = dialect.whole(f"least({quotient}, {number(cells - 1)})")
    if all(exact[:cells]):
        # Edges are exact multiples: no quotient is too small, and one that was rounded up shows.
        edge = f"{number(cuts[0])} + {number(step)} * {guess}"
        return f"{guess} - CASE WHEN {x} < {edge} THEN 1 ELSE 0 END"

    start = dialect.element([number(-math.inf), *inner], guess)
    end = dialect.element([*inner, number(math.inf)], guess)
    if start is None or end is None:
        return None

    below = f"CASE WHEN {x} < {start} THEN 1 ELSE 0 END"
    above = f"CASE WHEN {x} >= {end} THEN 1 ELSE 0 END"
    return f"{guess} - {below} + {above}"


def clipped_contribution(
    measure: OfColumn, units: IntArray, held: BoolArray
) -> IntArray:
    """What people add, `held` telling who has a value: never more than the noise is for."""
    added = np.where(held, measure.content(units), measure.nothing)
    return np.asarray(np.clip(added, -measure.reach, measure.reach))


def _centred(units: str, measure: CentredSum | CentredSquares | Weights) -> str:
    match measure:
        case Weights():
            return f"least(greatest({units}, 0), {measure.cap})"
        case CentredSquares():
            inner = _doubled(units, measure.number)
            centred = f"(2 * {inner} * {inner} - {measure.reach})"
        case CentredSum():
            centred = _doubled(units, measure)

    return f"least(greatest({centred}, {-measure.reach}), {measure.reach})"


def _doubled(units: str, number: CentredSum) -> str:
    """Twice a number's distance from the middle of its bounds."""
    return f"(2 * {units} - ({number.low + number.high}))"
