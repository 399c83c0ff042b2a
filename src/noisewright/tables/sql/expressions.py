"""The cells of values as SQL: the same cells as `Attribute.encode`, found by the engine itself.

A cell is a whole number; NULL stands for a value that the attribute's rules refuse. Wherever a
dialect has no exact expression the answer is None, and the engine reads values instead.
Comparisons come first and arithmetic after them: most rows then pass one branch, which is what
makes it quick, and no arithmetic sees a value for which it could fail.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import singledispatch

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.domain import Attribute, Boolean, Categorical, Date, Numeric
from noisewright.domain.attribute import EXACT_INTEGERS
from noisewright.domain.ordered import Ordered
from noisewright.domain.unit import PeriodName
from noisewright.tables.sql.dialect import Dialect, Typed
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
_LAST_DAY = dt.date(9998, 12, 31)


def cell(attribute: Attribute, typed: Typed, dialect: Dialect) -> str | None:
    """The cell of a value, NULL where the rules refuse it; None where SQL cannot say it."""
    expression = None if typed.kind == "unwritten" else _cell(attribute, typed, dialect)
    return None if expression is None or len(expression) > _MOST_TEXT else expression


def _fate(attribute: Attribute, rule: str | None) -> str:
    """Where values go that have no cell of their own."""
    return str(len(attribute.declared_labels)) if rule == "other" else "NULL"


def _else(attribute: Attribute, typed: Typed, dialect: Dialect) -> str:
    """Where a value goes that was not found, whether it is missing or outside."""
    missing, outside = (
        _fate(attribute, r) for r in (attribute.missing, attribute.outside)
    )
    if missing == outside:
        return missing
    return f"CASE WHEN {dialect.is_missing(typed)} THEN {missing} ELSE {outside} END"


@singledispatch
def _cell(attribute: Attribute, typed: Typed, dialect: Dialect) -> str | None:
    return None  # a kind that only Python can encode


@_cell.register
def _categorical(attribute: Categorical, typed: Typed, dialect: Dialect) -> str | None:
    rest = _else(attribute, typed, dialect)
    if typed.kind == "text":
        texts = [dialect.text(str(value)) for value in attribute.values]
        known = [text for text in texts if text is not None]
        if len(known) == len(texts) <= _FEW_TEXTS:
            branches = " ".join(f"WHEN {text} THEN {i}" for i, text in enumerate(known))
            return f"CASE {typed.sql} {branches} ELSE {rest} END"
        found = dialect.find(known, typed.sql) if len(known) == len(texts) else None
    else:
        values = [int(value) for value in attribute.values]
        x = typed.sql
        first = values[0]
        if values == list(range(first, first + len(values))):
            inside = f"{x} >= {first} AND {x} <= {values[-1]}"
            whole = "" if typed.kind == "whole" else f" AND {x} = floor({x})"
            index = f"{dialect.whole(x)} - ({first})"
            return f"CASE WHEN {inside}{whole} THEN {index} ELSE {rest} END"
        typed = Typed(f"({dialect.as_double(x)} + {dialect.number(0)})", "double")
        found = dialect.find(list(map(dialect.number, values)), typed.sql)

    return None if found is None else f"coalesce({found}, {rest})"


@_cell.register
def _boolean(attribute: Boolean, typed: Typed, dialect: Dialect) -> str | None:
    missing = _fate(attribute, attribute.missing)
    if typed.kind == "truth":
        return f"CASE WHEN {typed.sql} IS NULL THEN {missing} ELSE CAST({typed.sql} AS INTEGER) END"
    return f"CASE {typed.sql} WHEN 0 THEN 0 WHEN 1 THEN 1 ELSE {missing} END"


@_cell.register
def _numeric(attribute: Numeric, typed: Typed, dialect: Dialect) -> str | None:
    typed = _on_line(attribute, typed, dialect)
    if typed.kind == "whole" and attribute.outside == "clip" and _even(attribute):
        low, high = (
            _edge(float(end), typed, dialect) for end in attribute.cuts[[0, -1]]
        )
        clipped = Typed(f"least(greatest({typed.sql}, {low}), {high})", "whole")
        missing = _fate(attribute, attribute.missing)
        index = _bin(attribute, clipped, dialect)
        return f"CASE WHEN {typed.sql} IS NULL THEN {missing} ELSE {index} END"

    return _ordered(attribute, typed, dialect, _bin(attribute, typed, dialect))


def _even(attribute: Numeric) -> bool:
    """Whether all cells are equally wide, from one whole and small number to another."""
    starts = attribute.cuts[:-1]
    top = float(attribute.cuts[-1])
    finite = bool(np.isfinite(starts).all()) and math.isfinite(top)
    if len(starts) < 2 or not finite or max(abs(starts[0]), abs(top)) >= EXACT_INTEGERS:
        return False

    steps = np.diff(starts)
    return bool((starts == np.floor(starts)).all() and (steps == steps[0]).all())


def _on_line(attribute: Numeric, typed: Typed, dialect: Dialect) -> Typed:
    """Whole numbers are compared as such where all edges are whole and small, else as doubles."""
    cuts = attribute.cuts[np.isfinite(attribute.cuts)]
    whole = bool(
        (cuts == np.floor(cuts)).all() and (np.abs(cuts) < EXACT_INTEGERS).all()
    )
    if typed.kind == "double" or (typed.kind == "whole" and whole):
        return typed
    return Typed(dialect.as_double(typed.sql), "double")


@_cell.register
def _date(attribute: Date, typed: Typed, dialect: Dialect) -> str | None:
    index = _period(
        attribute.first, attribute.last, attribute.period, typed.sql, dialect
    )
    return _ordered(attribute, typed, dialect, index)


def _ordered(
    attribute: Ordered, typed: Typed, dialect: Dialect, index: str | None
) -> str | None:
    """Branches for values inside, missing, below and above, the most frequent one first."""
    if index is None:
        return None

    low, _ = _ends(attribute, typed, dialect)
    missing = _fate(attribute, attribute.missing)
    last = str(len(attribute.declared_labels) - 1)
    below, above = (
        ("0", last) if attribute.outside == "clip" else [_fate(attribute, "other")] * 2
    )
    if attribute.outside == "error":
        below = above = "NULL"

    top = _open_top(attribute, typed, dialect)
    inside = _inside(attribute, typed, dialect, "<=" if top is None else "<")
    branches = [
        f"WHEN {inside} THEN {index}",
        f"WHEN {dialect.is_missing(typed)} THEN {missing}",
    ]
    if top is not None and above != last:
        branches.append(f"WHEN {typed.sql} = {top} THEN {last}")

    if low is not None and below != above:
        branches.append(f"WHEN {typed.sql} < {low} THEN {below}")

    return f"CASE {' '.join(branches)} ELSE {above} END"


def _inside(
    attribute: Ordered, typed: Typed, dialect: Dialect, below: str = "<="
) -> str:
    """Whether a value lies between the outer edges; `below` compares it with the upper one."""
    low, high = _ends(attribute, typed, dialect)
    conditions = [f"{typed.sql} >= {low}"] if low is not None else []
    conditions += [f"{typed.sql} {below} {high}"] if high is not None else []
    # engines hold NaN for larger than any number
    if high is None and typed.kind == "double":
        conditions.append(f"NOT {dialect.is_nan(typed.sql)}")

    if low is None and high is None:  # a missing value is no NaN to some engines
        conditions.insert(0, f"{typed.sql} IS NOT NULL")

    return " AND ".join(conditions)


def _open_top(attribute: Ordered, typed: Typed, dialect: Dialect) -> str | None:
    """The upper edge of numbers that need not be whole, which lies in the last cell by itself.

    It has a branch of its own, so that no arithmetic on the others can pass the last cell.
    """
    return _ends(attribute, typed, dialect)[1] if typed.kind == "double" else None


def _ends(
    attribute: Ordered, typed: Typed, dialect: Dialect
) -> tuple[str | None, str | None]:
    """The outer edges as literals, None where there is none."""
    if isinstance(attribute, Date):
        return _day(attribute.first), _day(attribute.last)

    ends = float(attribute.cuts[0]), float(attribute.cuts[-1])
    low, high = (
        None if math.isinf(end) else _edge(end, typed, dialect) for end in ends
    )
    return low, high


def _edge(edge: float, typed: Typed, dialect: Dialect) -> str:
    return f"({int(edge)})" if typed.kind == "whole" else dialect.number(edge)


def _day(day: dt.date) -> str:
    return f"DATE '{day.isoformat()}'"


def _bin(attribute: Numeric, typed: Typed, dialect: Dialect) -> str | None:
    """The cell of a number between the outer edges."""
    starts = attribute.cuts[:-1]
    top = float(attribute.cuts[-1])
    if len(starts) == 1:
        return "0"

    x = typed.sql
    inner = [_edge(e, typed, dialect) for e in starts[1:]]
    if _even(attribute):
        first = int(starts[0])
        divisor = int(starts[1] - starts[0])
        # Cells begin at whole numbers: a value lies where its whole part does.
        whole = dialect.whole(x if typed.kind == "whole" else f"floor({x})")
        index = f"{whole} - ({first})" if first else whole
        if divisor > 1:
            index = dialect.quotient(f"({index})", divisor)
        largest = math.floor(top) if typed.kind == "whole" else math.ceil(top) - 1
        reaches = (largest - first) // divisor > len(starts) - 1
        return f"least({index}, {len(starts) - 1})" if reaches else index

    if len(starts) <= _MOST_BRANCHES:
        return _tree(x, inner, 0, len(starts))

    if math.isfinite(top) and math.isfinite(starts[0]):
        guess = _near(x, attribute.cuts, inner, dialect)
        if guess is not None:
            return guess

    return dialect.search(inner, x)


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
    cells = len(cuts) - 1
    step = (cuts[-2] - cuts[0]) / (cells - 1)
    even = cuts[0] + step * np.arange(cells)
    if not (math.isfinite(step) and np.abs(cuts[:-1] - even).max() <= step / 4):
        return None

    shift = f"({dialect.as_double(x)} - {dialect.number(cuts[0])})"
    # Division errs by far less than a quarter of a cell, so that the cell is off by one at most.
    if abs(cuts[0]) + abs(cuts[-1]) > step * 2**40:
        return None

    quotient = f"floor({shift} / {dialect.number(step)})"
    exact = [
        Fraction(cuts[0]) + k * Fraction(step) == Fraction(cuts[k])
        for k in range(cells + 1)
    ]
    if all(exact) and cuts[0] == 0:
        # A number below an edge k·step that is a double is at most its predecessor, whose quotient
        # lies below k by more than half of the gap between doubles there: it rounds to less than k.
        return dialect.whole(f"floor({x} / {dialect.number(step)})")

    guess = dialect.whole(f"least({quotient}, {dialect.number(cells - 1)})")
    if all(exact[:cells]):
        # Edges are exact multiples: no quotient is too small, and one that was rounded up shows.
        edge = f"{dialect.number(cuts[0])} + {dialect.number(step)} * {guess}"
        return f"{guess} - CASE WHEN {x} < {edge} THEN 1 ELSE 0 END"

    lowest = dialect.number(-math.inf)
    highest = dialect.number(math.inf)
    starts = dialect.element([lowest, *inner], guess)
    ends = dialect.element([*inner, highest], guess)
    if starts is None or ends is None:
        return None

    return (
        f"{guess} - CASE WHEN {x} < {starts} THEN 1 ELSE 0 END"
        f" + CASE WHEN {x} >= {ends} THEN 1 ELSE 0 END"
    )


def _period(
    first: dt.date, last: dt.date, period: PeriodName, day: str, dialect: Dialect
) -> str:
    """The calendar period of a day up to the last, counted from that of the first day."""
    if period == "day":
        return dialect.days_between(first, day)

    if period == "week":
        since_monday = f"({dialect.days_between(first, day)} + {first.weekday()})"
        return dialect.quotient(since_monday, 7)

    year = dialect.part("year", day)
    if period == "year":
        return f"{year} - {first.year}"

    parts = 4 if period == "quarter" else 12
    own = (first.month - 1) // 3 if period == "quarter" else first.month - 1
    place = dialect.part("quarter" if period == "quarter" else "month", day)
    if first.year == last.year:
        return f"{place} - {own + 1}"

    return f"({year} - {first.year}) * {parts} + {place} - {own + 1}"


def period_number(per: PeriodName, day: str, dialect: Dialect) -> str:
    """The number of the period that holds a day, NULL beyond the years 1 to 9998."""
    first = dt.date(1, 1, 1)  # a Monday
    inside = f"{day} >= {_day(first)} AND {day} <= {_day(_LAST_DAY)}"
    return f"CASE WHEN {inside} THEN {_period(first, _LAST_DAY, per, day, dialect)} END"


def content(
    attribute: Numeric, typed: Typed, measure: OfColumn, dialect: Dialect
) -> str:
    """What a person adds to a sum, as `measure.content` of `Numeric.units`; NULL where refused."""
    typed = _on_line(attribute, typed, dialect)
    own = (
        "1"
        if isinstance(measure, Respondents)
        else _summand(attribute, typed, measure, dialect)
    )
    nobody = np.zeros(1, dtype=np.int64)
    nothing = str(reached(measure, nobody, nobody > 0)[0])
    inside = _inside(attribute, typed, dialect)
    missing = dialect.is_missing(typed)
    absent = nothing if attribute.missing == "other" else "NULL"
    rest = {"clip": own, "other": nothing, "error": "NULL"}[attribute.outside]

    return f"CASE WHEN {inside} THEN {own} WHEN {missing} THEN {absent} ELSE {rest} END"


def _summand(
    attribute: Numeric, typed: Typed, measure: CentredSum | CentredSquares | Weights,
    dialect: Dialect,
) -> str:  # fmt: skip
    """What a value adds, in whole units between the bounds."""
    attribute.largest_units(measure.unit)  # refuses units too fine for sums to be exact
    return _centred(dialect.units(typed.sql, *attribute.bounds, measure.unit), measure)


def reached(measure: OfColumn, units: IntArray, held: BoolArray) -> IntArray:
    """What people add, `held` telling who has a value: never more than the noise is for."""
    added = np.where(held, measure.content(units), measure.nothing)
    return np.asarray(np.clip(added, -measure.reach, measure.reach))


def _centred(units: str, measure: CentredSum | CentredSquares | Weights) -> str:
    if isinstance(measure, Weights):
        return f"least(greatest({units}, 0), {measure.cap})"

    number_of = measure.number if isinstance(measure, CentredSquares) else measure
    centred = f"(2 * {units} - ({number_of.low + number_of.high}))"
    if isinstance(measure, CentredSquares):
        centred = f"(2 * {centred} * {centred} - {measure.reach})"

    return f"least(greatest({centred}, {-measure.reach}), {measure.reach})"
