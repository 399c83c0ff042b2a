"""Cells found by the engine's SQL are the cells of the Python encoder, for every kind of value."""

import datetime as dt
import itertools
import math
from typing import Any, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.domain import Attribute, Boolean, Categorical, Date, Domain, Numeric
from noisewright.errors import DomainError
from noisewright.tables.backends.duckdb import connect, open_table
from noisewright.tables.backends.duckdb_dialect import DuckDBDialect
from noisewright.tables.counter import DuckDBCounter, _content, _typed
from noisewright.tables.sql.covers import (
    MOST_CELLS,
    covers_of,
    marginal,
    smallest_cover,
)
from noisewright.tables.sql.expressions import cell, content
from noisewright.tables.sql.request import Request
from noisewright.workload.questions.entries import summed_attribute
from noisewright.workload.questions.measures import (
    CentredSquares,
    Missing,
    OfColumn,
    Respondents,
)

EDGES: dict[str, list[float]] = {
    "one cell": [0, 10],
    "all": [-math.inf, math.inf],
    "even": [0, 1, 2, 3, 4],
    "steps of five, last shorter": [-10, -5, 0, 5, 7],
    "last wider": [0, 2, 4, 100],
    "last alone": [0, 1, 2, 2],
    "few": [-1.5, 0, 1e-3, 18, 1e6],
    "half lines": [-math.inf, 0, 10, math.inf],
    "from below": [-math.inf, *range(40)],
    "upwards": [*range(40), math.inf],
    "even fractions": [i / 10 for i in range(101)],
    "nearly even": [float(i) + 0.1 * math.sin(i) for i in range(100)],
    "powers": [0.0, *(1.3**i for i in range(60))],
    "large": [-(2.0**60), 0, 2.0**53, 2.0**60],
    "thousand": [i * 97.65625 for i in range(1025)],
}
KINDS: dict[str, pa.DataType] = {
    "double": pa.float64(), "float": pa.float32(), "int8": pa.int8(), "int64": pa.int64(),
    "uint64": pa.uint64(), "decimal": pa.decimal128(20, 3), "bool": pa.bool_(), "text": pa.string(),
}  # fmt: skip


def numbers_near(edges: list[float]) -> list[float]:
    """The edges, their neighbours, and what lies between and beyond."""
    finite = [edge for edge in edges if math.isfinite(edge)]
    near = [math.nextafter(e, side) for e in finite for side in (math.inf, -math.inf)]
    middle = [(a + b) / 2 for a, b in itertools.pairwise(finite)]
    odd = [
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        5e-324,
        -5e-324,
        1e308,
        -1e308,
        2.0**53 + 2,
        1e19,
    ]
    return [*finite, *near, *middle, *odd, *range(-12, 130)]


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values that the type can hold, and a missing one."""
    kept: list[Any] = [None]
    for value in values:
        if pa.types.is_string(kind):
            kept.append(repr(value))
            continue
        try:
            own = value if pa.types.is_floating(kind) else int(value)
            pa.array([own], kind)
        except (OverflowError, ValueError, pa.ArrowException):
            continue
        kept.append(bool(own) if pa.types.is_boolean(kind) else own)
    return pa.array(kept, kind)


CONNECTION = connect()  # one for all: to open one takes longer than most questions here


def in_sql(
    attribute: Attribute, values: pa.Array, **measure: Any
) -> list[int | None] | None:
    """Every value's cell (or what it adds to a sum) by DuckDB; None where there is no SQL."""
    table = open_table(CONNECTION, pa.table({"a": values}), {"a": attribute.storage})
    typed = DuckDBDialect().read(*table.column("a"), attribute.storage)
    assert typed is not None
    if measure:
        expression = content(attribute, typed, measure["of"], DuckDBDialect())
    else:
        expression = cell(attribute, typed, DuckDBDialect())
    if expression is None:
        return None
    return [row[0] for row in table.relation.project(f"{expression} AS c").fetchall()]


def in_python(attribute: Attribute, values: pa.Array) -> list[int | None]:
    """The same by the Python encoder on typed columns, one value at a time where it refuses."""
    table = open_table(CONNECTION, pa.table({"a": values}), {"a": attribute.storage})
    typed = table.relation.project(f"{_typed(table, attribute)} AS c").to_arrow_table()[
        "c"
    ]
    if {attribute.outside, attribute.missing} <= {"clip", "other"}:
        return attribute.encode(typed).tolist()
    cells: list[int | None] = []
    for row in range(len(typed)):
        try:
            cells.append(int(attribute.encode(typed.slice(row, 1))[0]))
        except DomainError:
            cells.append(None)
    return cells


RULES = [("clip", "other"), ("other", "other"), ("error", "error"), ("clip", "error")]


@pytest.mark.parametrize("edges", EDGES)
def test_numbers(edges: str) -> None:
    kinds = KINDS if edges in ("even", "few", "large") else ("double", "int64")
    for kind in kinds:
        values = column(numbers_near(EDGES[edges])[:1500], KINDS[kind])
        for outside, missing in RULES:
            slow = outside == "error" or missing == "error"
            some = values.slice(0, 40) if slow else values  # one by one in Python
            attribute = Numeric("a", EDGES[edges], outside=outside, missing=missing)
            cells = in_sql(attribute, some)
            assert cells is None or cells == in_python(attribute, some)
            assert cells is not None or edges in ("powers", "from below", "upwards")


@pytest.mark.parametrize("edges", ["even", "few", "even fractions", "last wider"])
def test_contents_of_sums_and_squares(edges: str) -> None:
    for kind in (pa.float64(), pa.int8(), pa.string()):
        values = column(numbers_near(EDGES[edges]), kind)
        for outside, missing in RULES[:2]:
            attribute = Numeric(
                "a",
                EDGES[edges],
                lower=-3.5,
                upper=90,
                outside=outside,
                missing=missing,
            )
            zero, left_out = (
                summed_attribute(attribute, 0.25, m) for m in get_args(Missing)[::-1]
            )
            squares = CentredSquares(zero), CentredSquares(left_out)
            table = open_table(CONNECTION, pa.table({"a": values}), {"a": "number"})
            read = table.relation.project(
                f"{_typed(table, attribute)} AS c"
            ).to_arrow_table()["c"]
            for measure in (zero, left_out, *squares, Respondents("a")):
                expected = [
                    by_hand(attribute, measure, value) for value in read.to_pylist()
                ]
                assert (
                    _content(Request(Domain([attribute]), []), measure, read).tolist()
                    == expected
                )
                assert in_sql(attribute, values, of=measure) == expected


def by_hand(attribute: Numeric, measure: OfColumn, value: float | None) -> int:
    """What a person adds, from the definition."""
    outside = (
        value is not None and not attribute.edges[0] <= value <= attribute.edges[-1]
    )
    held = (
        value is not None
        and not math.isnan(value)
        and (attribute.outside == "clip" or not outside)
    )
    if isinstance(measure, Respondents):
        return int(held)
    number = measure.number if isinstance(measure, CentredSquares) else measure
    if not held and number.missing == "left-out":
        return 0
    units = round(min(max(value, -3.5), 90) / number.unit) if held else 0
    centred = 2 * units - (number.low + number.high)
    squared = 2 * centred**2 - number.reach**2
    return squared if isinstance(measure, CentredSquares) else centred


CODES = [[0, 1, 2, 3], [3, 4, 5], [0, 1, -7, 2**40], [5, 4, 3], [7]]


@pytest.mark.parametrize("values", CODES, ids=str)
def test_declared_numbers(values: list[int]) -> None:
    for outside in ("other", "error"):
        attribute = Categorical("a", values, outside=outside)
        for kind in KINDS.values():
            some = column([*values, 2**40 + 1, *numbers_near([0, 3])][:60], kind)
            assert in_sql(attribute, some) == in_python(attribute, some)


TEXTS = ["", " ", "F", "f", "M", "é", "e\u0301", "Ελλάδα", "a\nb", "'", '"', "\\", "NULL", "nan",
         "1", "01", "1.0", "true", "😀", "x" * 200, "--", ";", "$1", "{", "%s"]  # fmt: skip


def test_texts_of_any_script() -> None:
    for outside in ("other", "error"):
        for declared in (
            TEXTS[:12],
            TEXTS[12:],
            ["F"],
            ["true", "1", "2024-01-01", "0.5"],
        ):
            attribute = Categorical("a", declared, outside=outside)
            values = pa.array([None, *TEXTS, "\0", "F\0"])
            assert in_sql(attribute, values) == in_python(attribute, values)
            for typed in (
                pa.array([1, 2, None]), pa.array([True, None]), pa.array([dt.date(2024, 1, 1)]),
                pa.array(["F", None]).dictionary_encode(),
            ):  # fmt: skip
                assert in_sql(attribute, typed) == in_python(attribute, typed)
            # written by Python alone
            assert in_sql(attribute, pa.array([1.0, 0.5])) is None
    assert in_sql(Categorical("a", ["\0"], outside="other"), pa.array(["\0"])) is None


@settings(max_examples=25)
@given(
    declared=st.lists(st.text(max_size=4), min_size=1, max_size=6, unique=True),
    held=st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=12),
)
def test_texts_at_random(declared, held) -> None:
    attribute = Categorical("a", declared, outside="other", other="none of these")
    values = pa.array([*held, *declared], pa.string())
    cells = in_sql(attribute, values)
    assert cells is None or cells == in_python(attribute, values)
    assert cells is not None or any("\0" in text for text in declared)


def test_truth_values() -> None:
    words = [
        "TRUE",
        "t",
        "Yes",
        "y",
        "1",
        "1.0",
        "false",
        "F",
        "no",
        "N",
        "0",
        "2",
        "maybe",
        "",
        None,
    ]
    for missing in ("other", "error"):
        attribute = Boolean("a", missing=missing)
        for values in (pa.array([True, False, None]), pa.array(words), pa.array([0, 1, 2, None]),
                       pa.array([0.0, -0.0, 1.0, 0.5, math.nan])):  # fmt: skip
            assert in_sql(attribute, values) == in_python(attribute, values)


def test_days_of_every_period_zone_and_calendar() -> None:
    days = [dt.date(2023, 11, 14) + dt.timedelta(days=i) for i in range(460)]
    far = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]
    moments = [
        dt.datetime(d.year, d.month, d.day, 23, 59, 59, 999_999)
        for d in [*days[:60], *far]
    ]
    zone = dt.timezone(dt.timedelta(hours=-5))
    columns = [
        pa.array([None, *days, *far]),
        pa.array([None, *moments]),
        pa.array([m.replace(tzinfo=zone) for m in moments[:60]], pa.timestamp("us", "UTC")),
        pa.array([-1, 0, 86_399_999_999_999, -86_400_000_000_001, None]).view(pa.timestamp("ns")),
        pa.array([None, "x", *(str(d) for d in days[:50]), "2024-01-01T23:30:00-05:00",
                  "2023-12-31 23:59:59", "2024-02-30", "infinity", "-infinity"]),
    ]  # fmt: skip
    for period in ("day", "week", "month", "quarter", "year"):
        for outside, missing in (("clip", "other"), ("other", "other")):
            for start in ("2023-11-15", "1969-12-20", "0001-01-02"):
                end = (
                    "1970-01-10"
                    if period == "day" and start[0] == "0"
                    else "2025-02-10"
                )
                if start[0] == "0" and period in ("day", "week"):
                    start = "1969-12-29"
                attribute = Date(
                    "a", start, end, period, outside=outside, missing=missing
                )
                for values in columns:
                    cells = in_sql(attribute, values)
                    nanoseconds = values.type == pa.timestamp("ns")
                    assert (
                        nanoseconds
                        if cells is None
                        else cells == in_python(attribute, values)
                    )


def test_instants_beyond_the_calendar() -> None:
    attribute = Date(
        "a", "2024-01-01", "2024-12-31", "month", outside="clip", missing="other"
    )
    domain = Domain([attribute])
    for kind in (
        "TIMESTAMP",
        "TIMESTAMP_S",
        "TIMESTAMP_MS",
        "TIMESTAMPTZ",
        "TIMESTAMP_NS",
        "DATE",
    ):
        for far, expected in (("infinity", 11), ("-infinity", 0)):
            relation = duckdb.sql(f"SELECT CAST('{far}' AS {kind}) AS a")
            counts = DuckDBCounter().marginals(relation, domain, [("a",)])[0]
            assert counts[expected] == 1, kind


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    data=st.data(),
)
def test_covers_hold_every_table_and_give_it_back(sizes, data) -> None:
    names = [f"n{i}" for i in range(len(sizes))]
    subsets = data.draw(
        st.lists(
            st.lists(st.sampled_from(names), unique=True, max_size=3).map(tuple),
            min_size=1,
        )
    )
    by_name = dict(zip(names, sizes, strict=True))
    covers = covers_of(by_name, subsets)
    rng = np.random.default_rng(1)
    rows = {name: rng.integers(0, size, 50) for name, size in by_name.items()}
    for subset in subsets:
        cover = covers[smallest_cover(by_name, covers, subset)]
        assert math.prod(by_name[n] for n in cover) <= MOST_CELLS
        joint = table_of(rows, by_name, cover)
        expected = table_of(rows, by_name, subset).tolist()
        assert marginal(by_name, cover, joint, subset).tolist() == expected


def table_of(
    rows: dict[str, Any], sizes: dict[str, int], names: tuple[str, ...]
) -> Any:
    counts = np.zeros([sizes[name] for name in names], dtype=np.int64)
    for row in range(50):
        counts[tuple(rows[name][row] for name in names)] += 1
    return counts.ravel()


def test_no_quotient_reaches_an_edge_that_its_number_does_not() -> None:
    """Cells that begin at exact multiples of a step need no look at their edges after division."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        step = float(rng.integers(1, 2**30)) * 2.0 ** -int(rng.integers(0, 40))
        k = rng.integers(1, 2**20, 2000).astype(np.float64)
        k[:40] = 2.0 ** np.arange(40).clip(max=20)
        edges = k * step
        below = np.nextafter(edges, -np.inf)  # products of 20 and 30 bits are exact
        assert (np.floor(below / step) < k).all()
        assert (np.floor(edges / step) >= k).all()
