"""Draft a schema by looking at a table. The draft is as private as the table, and is not used."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from noisewright.domain import Attribute, Boolean, Categorical, Date, Domain, Numeric
from noisewright.domain.levels import LONGEST_LABEL
from noisewright.errors import DomainError, InvalidParameter, require
from noisewright.planning.counting import Source
from noisewright.tables.backends.duckdb import Table, connect, open_table
from noisewright.tables.encode import read_as

_MOST_ROWS = 100_000  # a draft needs no more, and has to be checked by a person anyway
_MOST_VALUES = 40  # of texts: more are rarely a list of codes, and nobody reviews them
_MOST_CODES = 12  # whole numbers with more distinct values are binned
_BINS = 10  # or so, between round numbers: few enough to be looked at one by one
_MOST_DAYS = 32  # told day by day: a month
_MOST_MONTHS = 3 * 366  # in days, told month by month: three years

_HEADING = """\
# A DRAFT, made by looking at private data: keep it as private as the table itself.
#
# Everything declared here will be public. Every value, edge, bound and date below must come from
# public knowledge (a code book, a questionnaire, the law), never from the table: a value that only
# occurs because one person is in the table would reveal that person.
#
# Go through every line, replace what the table told by what is publicly known, and then write
# `reviewed: true`. Nothing plans or releases from a draft, and a file with an attribute marked as
# drafted stays one until this is written. The marks may go as you go through the attributes.
"""


@dataclass(frozen=True)
class Draft:
    """A schema to be reviewed, columns for which nothing could be drafted, and what was guessed."""

    domain: Domain
    left_out: dict[str, str]
    notes: dict[str, str]

    def to_yaml(self) -> str:
        """Return the draft with its warning, ready to be edited."""
        left_out = _listed("Columns left out:", self.left_out)
        guesses = _listed("Codes or quantities? Look twice:", self.notes)
        return _HEADING + left_out + guesses + self.domain.to_yaml()


def _listed(title: str, notes: dict[str, str]) -> str:
    """Notes on columns as comments; nothing where there are none."""
    lines = [f"#   {name!r}: {note}\n" for name, note in notes.items()]
    return "".join([f"#\n# {title}\n", *lines]) if lines else ""


def suggest_schema(
    source: Source, codes: Sequence[str] = (), numbers: Sequence[str] = ()
) -> Draft:
    """Draft a schema, marked as not reviewed, from a table.

    `codes` are columns of numbers that are names, such as those of regions; `numbers` are columns
    of few different numbers that are quantities all the same.
    """
    with closing(connect()) as connection:
        table = open_table(connection, source)
        _check_named(table, codes, numbers)
        looks = table.asked(lambda: {name: _look(table, name) for name in table.names})

    attributes: list[Attribute] = []
    left_out: dict[str, str] = {}
    notes: dict[str, str] = {}
    times = Counter(table.names)
    for name, look in looks.items():
        drafted = _draft(look, name in codes, name in numbers)
        guess = _guess(look, drafted)
        if guess and name not in codes and name not in numbers:
            notes[name] = guess

        if times[name] > 1 or not name:
            left_out[name] = "its name is empty or not unique"
        elif isinstance(drafted, str):
            left_out[name] = drafted
        else:
            attributes.append(drafted)

    if not attributes:
        raise DomainError(
            f"nothing can be drafted from {table.description}; write the schema by hand"
        )

    return Draft(Domain(attributes, reviewed=False), left_out, notes)


def _check_named(table: Table, codes: Sequence[str], numbers: Sequence[str]) -> None:
    # What the table does have stays unsaid: without a header its "names" are a person's values.
    for option, names in (("codes", codes), ("numbers", numbers)):
        for name in names:
            require(
                name in table.names,
                option,
                name,
                "is no column of the table",
                "check its name",
            )
    if both := sorted(set(codes) & set(numbers)):
        raise InvalidParameter(
            "numbers", both[0], "is also among the codes", "name it once"
        )


def _guess(column: _Column | None, drafted: Attribute | str) -> str | None:
    """What was guessed about a column of numbers, and how to say otherwise."""
    if column is None or not column.whole or column.numbers != column.present:
        return None

    alike = column.shortest is not None and 4 <= column.shortest == column.longest
    match drafted:
        case Categorical():
            return "few numbers, taken for codes without an order; if quantities: --numbers"
        case Numeric() if column.padded or alike:
            return "numbers all written alike, taken for quantities; if codes: --codes"
    return None


@dataclass(frozen=True)
class _Column:
    """What a look at one column told; every field is private."""

    name: str
    values: list[str]
    present: int
    distinct: int
    truths: int
    numbers: int
    whole: bool
    low: float | None
    high: float | None
    dates: int
    first: dt.date | None
    last: dt.date | None
    shortest: int | None
    longest: int | None
    padded: bool


def _look(table: Table, name: str) -> _Column | None:
    """Return what a column holds, or None where it cannot be read as simple values."""
    kind = table.type(name)
    column = f"#{table.position(name)}"
    text = read_as(column, kind, "text")
    if text is None:
        return None

    nothing = "CAST(NULL AS DOUBLE)"
    number = read_as(column, kind, "number") if kind != "BOOLEAN" else None
    truth = read_as(column, kind, "boolean") if kind in ("BOOLEAN", "VARCHAR") else None
    day = read_as(column, kind, "date") or "CAST(NULL AS DATE)"
    readings = table.relation.limit(_MOST_ROWS).project(
        f"CAST({text} AS VARCHAR) AS t, {truth or nothing} AS b, {number or nothing} AS n, "
        f"CAST({day} AS DATE) AS d"
    )
    summary = readings.aggregate(
        "count(t), count(DISTINCT t), count(*) FILTER (b IN (0, 1)), "
        "count(n), coalesce(bool_and(n = floor(n)), false), min(n) FILTER (isfinite(n)), "
        "max(n) FILTER (isfinite(n)), count(d), "
        # 9999-12-31 and the infinities stand for "never"; Python knows no dates beyond them.
        "min(d) FILTER (year(d) BETWEEN 1 AND 9998), max(d) FILTER (year(d) BETWEEN 1 AND 9998), "
        "min(length(t)), max(length(t)), coalesce(bool_or(regexp_full_match(t, '0[0-9]+')), false)"
    ).fetchall()[0]
    values = []
    if summary[1] <= _MOST_VALUES:
        listed = readings.project("t").distinct().fetchall()
        values = sorted(text for (text,) in listed if text is not None)

    return _Column(name, values, *summary)


def _draft(column: _Column | None, code: bool, quantity: bool) -> Attribute | str:
    """Return an attribute for the column, or the reason why there is none."""
    if column is None:
        return "its values are not simple"
    if column.present == 0:
        return "it holds no values"
    if column.truths == column.present > column.numbers:
        return Boolean(column.name, outside="other")

    numbers = column.numbers == column.present
    if numbers and column.low is not None and column.high is not None:
        whole = column.whole and max(abs(column.low), abs(column.high)) < 2**53
        if code and not (whole and column.values):
            most = f"more than {_MOST_VALUES} different codes"
            return f"it holds {most}: list them by hand"
        if whole and not quantity and (code or column.distinct <= _MOST_CODES):
            values = map(float, column.values)
            codes = sorted({int(value) for value in values if math.isfinite(value)})
            return Categorical(column.name, codes, outside="other")
        return _binned(column.name, column.low, column.high, whole)

    dates = column.dates == column.present
    if dates and column.first is not None and column.last is not None:
        return _dated(column.name, column.first, column.last)
    if any(len(value) > LONGEST_LABEL for value in column.values):
        return f"it holds texts of more than {LONGEST_LABEL} characters"
    if column.values:
        other = _unused(column)
        return Categorical(column.name, column.values, outside="other", other=other)

    return f"it holds more than {_MOST_VALUES} different texts"


def _unused(column: _Column) -> str:
    label = "other"
    while label in column.values:
        label = f"({label})"
    return label


def _binned(name: str, low: float, high: float, whole: bool) -> Numeric:
    """Return about ten cells between round numbers."""
    rough = high / _BINS - low / _BINS if high > low else 1.0
    # edges must differ as floats
    rough = max(rough, 2.0**-40 * max(abs(low), abs(high)), 1e-300)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = (power * factor for factor in (1, 2, 5, 10))
    step = next(step for step in steps if step >= rough * 0.999)
    step = max(step, 1.0) if whole else step
    digits = max(0, -math.floor(math.log10(step)))

    def edge(k: int) -> float:
        return round(k * step, digits)

    first = math.floor(low / step)
    last = math.ceil(high / step)
    # after rounding
    first = first - (edge(first) > low)
    last = last + (edge(last) < high)
    edges = [edge(k) for k in range(first, max(last, first + 1) + 1)]

    return Numeric(
        name,
        [int(edge) for edge in edges] if whole else edges,
        integer=whole,
        outside="clip",
        missing="other",
    )


def _dated(name: str, first: dt.date, last: dt.date) -> Date:
    """Return whole calendar years, cut more or less finely by how many there are."""
    days = (last - first).days
    period = "year"
    if days < _MOST_MONTHS:
        period = "day" if days < _MOST_DAYS else "month"

    start = dt.date(first.year, 1, 1)
    end = dt.date(last.year, 12, 31)
    return Date(name, start, end, period, outside="clip", missing="other")  # type: ignore[arg-type]
