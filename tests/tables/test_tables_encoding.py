"""A table's rows get the same cells however the table arrives: the cells of the slow oracle."""

import csv
import datetime as dt
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.domain import Attribute, Boolean, Categorical, Date, Domain, Numeric
from noisewright.errors import DomainError
from noisewright.tables.counter import DuckDBCounter
from oracles.encoding import REFUSED, cell_of

AWKWARD = [
    "",
    " ",
    '"',
    "'",
    ",",
    ";",
    "#x",
    "é",
    "Ελλάδα",
    "a\nb",
    "NULL",
    "null",
    "nan",
    "\\",
    "-",
]

ATTRIBUTES: list[tuple[Attribute, st.SearchStrategy[Any]]] = [
    (
        Numeric("real", [-1.5, 0, 1e-3, 18, 1e6], outside="clip", missing="other"),
        st.one_of(
            st.none(),
            st.sampled_from([-1.5, 0.0, -0.0, 1e-3, 18.0, 1e6, math.inf, -math.inf, math.nan]),
            st.floats(),
            st.floats(-2, 20),
        ),
    ),
    (
        Numeric("half line", [-math.inf, 0, 10, math.inf], outside="other"),
        st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 10.0, math.inf, -math.inf])),
    ),
    (
        Numeric.integers("age", 0, 20, step=5, outside="other"),
        st.one_of(st.none(), st.integers(-3, 25)),
    ),
    (
        Categorical('text "x"; DROP', ["F", "M", *AWKWARD[1:]], outside="other"),
        st.one_of(st.none(), st.sampled_from(["F", "M", *AWKWARD[1:]]), st.text(max_size=3)),
    ),
    (
        Categorical("code", [0, 1, -7, 2**40], outside="other"),
        st.one_of(st.none(), st.integers(-8, 2), st.just(2**40), st.just(2**40 + 1)),
    ),
    (Boolean("citizen", missing="other"), st.one_of(st.none(), st.booleans())),
    *(
        (
            Date(period, "2023-11-15", "2025-02-10", period, outside=outside, missing="other"),
            st.one_of(
                st.none(),
                st.dates(dt.date(2023, 10, 1), dt.date(2025, 4, 1)),
                st.sampled_from([dt.date(2023, 11, 15), dt.date(2025, 2, 10), dt.date(1, 1, 1)]),
            ),
        )
        for period, outside in [
            ("day", "other"), ("week", "clip"), ("month", "other"), ("quarter", "clip"),
            ("year", "other"),
        ]
    ),
]  # fmt: skip
DOMAIN = Domain([attribute for attribute, _ in ATTRIBUTES])
TYPES = {
    "number": pa.float64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
TABLES = st.lists(
    st.fixed_dictionaries({attribute.name: values for attribute, values in ATTRIBUTES}),
    max_size=12,
)


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    types = {a.name: TYPES[a.storage] for a in DOMAIN}
    types |= {"age": pa.int16(), "code": pa.int64()}
    return pa.table(
        {
            name: pa.array([row[name] for row in rows], kind)
            for name, kind in types.items()
        }
    )


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_MINIMAL)
        writer.writerow(DOMAIN.names)
        writer.writerows(
            ["" if v is None else str(v) for v in map(row.get, DOMAIN.names)]
            for row in rows
        )


def cells(source: Any, domain: Domain = DOMAIN) -> list[tuple[int, ...]]:
    batches = list(DuckDBCounter().codes(source, domain))
    return [
        tuple(map(int, row)) for batch in batches for row in zip(*batch, strict=True)
    ]


def expected(rows: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(cell_of(a, row[a.name]) for a in DOMAIN) for row in rows]


@settings(max_examples=20)
@given(rows=TABLES)
def test_typed_tables_are_encoded_as_the_oracle_says(rows) -> None:
    table = arrow(rows)
    assert cells(table) == expected(rows)
    assert cells(pl.from_arrow(table)) == expected(rows)
    assert cells(table.to_pandas()) == expected(rows)
    assert cells(duckdb.from_arrow(table)) == expected(rows)


@settings(max_examples=20)
@given(rows=TABLES)
def test_files_are_encoded_as_the_oracle_says(rows, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(arrow(rows), folder / "table.parquet")
    assert cells(folder / "table.parquet") == expected(rows)
    # in a CSV file an empty text is a missing value, and NUL cannot be written
    rows = [
        {k: None if v == "" else v.replace("\0", "") or None if isinstance(v, str) else v
         for k, v in row.items()}
        for row in rows
    ]  # fmt: skip
    write_csv(folder / "table.csv", rows)
    assert cells(folder / "table.csv") == expected(rows)


@settings(max_examples=60)
@given(rows=TABLES)
def test_columns_in_python_are_encoded_as_the_oracle_says(rows) -> None:
    for attribute, _ in ATTRIBUTES:
        column = [row[attribute.name] for row in rows]
        codes = attribute.encode(column)
        assert codes.tolist() == [cell_of(attribute, value) for value in column]


ZONES = [
    dt.UTC,
    dt.timezone(dt.timedelta(hours=-5)),
    dt.timezone(dt.timedelta(hours=9, minutes=30)),
]


@settings(max_examples=10)
@given(
    moments=st.lists(
        st.datetimes(
            dt.datetime(2023, 12, 30),
            dt.datetime(2024, 1, 4),
            timezones=st.sampled_from(ZONES),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_instants_with_a_zone_are_read_in_utc(moments, tmp_path_factory) -> None:
    domain = Domain([Date("when", "2023-12-31", "2024-01-02", outside="other")])
    path = tmp_path_factory.mktemp("zones") / "zones.csv"
    path.write_text("when\n" + "".join(f"{moment.isoformat()}\n" for moment in moments))
    rows = [(cell_of(domain["when"], moment),) for moment in moments]
    assert cells(path, domain) == rows
    for unit in ("us", "ns"):
        for zone in ("UTC", "America/New_York"):
            table = pa.table({"when": pa.array(moments, pa.timestamp(unit, zone))})
            assert cells(table, domain) == rows
            assert [(int(c),) for c in domain["when"].encode(table["when"])] == rows


def test_the_last_nanosecond_of_a_day_belongs_to_it() -> None:
    day = Date("day", "2024-01-01", "2024-01-02")
    last = np.array(["2024-01-01T23:59:59.999999999"], dtype="datetime64[ns]")
    assert day.encode(last).tolist() == [0]


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        (Categorical("a", ["x"]), ["x", "Ada Lovelace"]),
        (Categorical("a", ["x"]), ["x", None]),
        (Numeric("a", [0, 1]), [0.5, 77712.0]),
        (Numeric("a", [0, 1], outside="clip"), [0.5, None]),
        (Boolean("a"), [True, None]),
        (Date("a", "2024-01-01", "2024-01-02"), [dt.date(1815, 12, 10)]),
    ],
)
def test_a_refusal_names_the_attribute_and_the_rule_alone(attribute, column) -> None:
    assert REFUSED in [cell_of(attribute, value) for value in column]
    domain = Domain([attribute])
    for act in (
        lambda: attribute.encode(column),
        lambda: list(DuckDBCounter().codes(pa.table({"a": column}), domain)),
        lambda: DuckDBCounter().marginals(pa.table({"a": column}), domain, [("a",)]),
    ):
        with pytest.raises(DomainError) as caught:
            act()
        message = str(caught.value)
        assert "attribute 'a'" in message
        assert ": error`" in message
        assert not any(
            private in message for private in ("Ada", "777", "1815", "2", "1")
        )
        assert caught.value.__cause__ is None


def test_the_same_number_in_any_dress(tmp_path: Path) -> None:
    domain = Domain([Categorical("code", [1, 20], outside="other")])
    path = tmp_path / "codes.csv"
    path.write_text("code\n1\n01\n 1.0 \n2e1\n1.5\nx\n")
    assert cells(path, domain) == [(0,), (0,), (0,), (1,), (2,), (2,)]
    assert cells(pa.table({"code": [1.0, None, 20.0]}), domain) == [(0,), (2,), (1,)]
    zero = Domain([Categorical("code", [0], outside="other")])
    assert cells(pa.table({"code": [0.0, -0.0]}), zero) == [(0,), (0,)]
    text = Domain([Categorical("code", ["1", "x", "true", "0.5"], outside="other")])
    assert cells(pa.table({"code": [1, 2]}), text) == [(0,), (4,)]
    assert cells(pa.table({"code": [1.0, 0.5, None]}), text) == [(0,), (3,), (4,)]
    assert cells(pa.table({"code": [True, False]}), text) == [(2,), (4,)]


def test_truth_values_in_text(tmp_path: Path) -> None:
    domain = Domain([Boolean("b", outside="other")])
    path = tmp_path / "b.csv"
    path.write_text("b\nTRUE\nt\nYes\ny\n1\n1.0\nfalse\nF\nno\nN\n0\n2\nmaybe\n")
    assert cells(path, domain) == [(1,)] * 6 + [(0,)] * 5 + [(2,)] * 2
