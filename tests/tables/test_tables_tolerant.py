"""Under a tolerant rule every row is answered, and moves no other: one person, one cell."""

from __future__ import annotations

import csv
import datetime as dt
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisewright.domain import Attribute, Boolean, Categorical, Date, Domain, Numeric
from noisewright.tables.counter import DuckDBCounter

WORDS = ["x", "1", "1.5", "true", "2024-01-02", "2024-01-02 03:04:05.5", "01:02:03"]
WORDS += ["2024-01-02 03:04:05.5+00", "9007199254740992", str(2**60)]
ATTRIBUTES: list[Attribute] = [
    Categorical("text", WORDS, outside="other"),
    Categorical("code", [0, 1, 2], outside="other"),
    Numeric("number", [0, 1, 10], outside="other"),
    Numeric("clipped", [0, 1, 10], outside="clip", missing="other"),
    Boolean("truth", outside="other"),
    Date("day", "2024-01-01", "2024-03-31", "month", outside="other"),
    Date(
        "clipped day",
        "2024-01-01",
        "2024-03-31",
        "month",
        outside="clip",
        missing="other",
    ),
]
DOMAIN = Domain(ATTRIBUTES)
NAMES = DOMAIN.names
PARIS = dt.timezone(dt.timedelta(hours=2))
NASTY: list[Any] = [
    None, "y", "", "x", " 1 ", "1_0", "0x10", "1e999", "-1e999", "1e-999", "nan", "infinity", "\0",
    "é", "\ud800", "x" * 3_000_000, b"x", b"\xff", True, False, 1, -1, 2**53, 2**60, 2**63, 2**70,
    10**400, -(10**400), 1.0, 1.5, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324,
    Decimal("1.5"), Decimal("1e100"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"),
    [1], (1,), {1}, {"k": 1}, object(), 1j, np.array([1, 2]), np.float16(1), np.int8(1),
    np.bool_(True), np.str_("x"), np.datetime64("NaT"), np.datetime64("2024-01-02"),
    np.datetime64("300000-01-01"), np.timedelta64(1, "D"), uuid.UUID(int=1), dt.time(1, 2, 3),
    dt.timedelta(days=10**6), dt.date(1, 1, 1), dt.date(2024, 1, 2), dt.date(9999, 12, 31),
    dt.datetime(2024, 1, 2, 3, 4, 5, 500_000), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2024, 1, 2, 5, 4, 5, 500_000, tzinfo=PARIS), dt.datetime(1, 1, 1, tzinfo=PARIS),
    pd.Timestamp("2024-01-02", tz="America/New_York"), pd.NaT, pd.NA,
    "99999999999-01-01", "2024-01-01T00:00:00+99:99", "2024-01-01 00:00:00+24:00",
    "294247-01-10 04:00:54.775807+00", "290309-12-22 (BC) 00:00:00+00", "2024-02-30",
]  # fmt: skip


def counts(source: Any, domain: Domain = DOMAIN) -> list[list[int]]:
    names = [(name,) for name in domain.names]
    return [
        table.tolist() for table in DuckDBCounter().marginals(source, domain, names)
    ]


def added(before: list[list[int]], after: list[list[int]]) -> None:
    """One more person in one cell of every table, and nobody moved."""
    for old, new in zip(before, after, strict=True):
        change = np.subtract(new, old)
        assert sorted(change)[-1] == 1
        assert np.abs(change).sum() == 1


def objects(values: list[Any]) -> pd.DataFrame:
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name in NAMES})


BASES: list[list[Any]] = [
    ["x", "1", None], [1, 2, 2**60, -5], [1.0, 1.5, math.nan, math.inf], [True, False, None],
    [dt.date(2024, 1, 2), dt.date(2030, 1, 1)], [b"x", None], [None, None],
    [dt.datetime(2024, 1, 2, 3, 4, 5, 500_000), pd.NaT],
    [dt.datetime(2024, 1, 2, 5, 4, 5, 500_000, tzinfo=PARIS)], [Decimal("1.5"), Decimal(2)],
    [1, "x", None, 2.5, True],
]  # fmt: skip


def rows(source: Any) -> list[tuple[int, ...]]:
    """The cells of every row by themselves."""
    batches = list(DuckDBCounter().codes(source, DOMAIN))
    return [
        tuple(map(int, row)) for batch in batches for row in zip(*batch, strict=True)
    ]


def test_the_cells_of_a_python_object_depend_on_no_other() -> None:
    alone = [rows(objects([nasty]))[0] for nasty in NASTY]
    for base in BASES:
        before = rows(objects(base))
        assert rows(objects([*base, *NASTY])) == [*before, *alone]


TYPED: list[Any] = [
    pd.Series(["x", "1", "1e999", "2024-01-02", "1_0", "true"], dtype="str"),
    pd.Series([1, 2, 2**60, -5], dtype="int64"),
    pd.Series([1, 2, 255], dtype="uint8"),
    pd.Series([1.0, 1.5, math.nan, math.inf, 2.0**53, 1e20, 0.1]),
    pd.Series([True, False]),
    pd.Series(["2024-01-02 03:04:05.5", "2024-01-02", "NaT"], dtype="datetime64[us]"),
    pd.Series(
        ["2024-01-02 03:04:05.5", "2024-02-01 00:00:00.123456789"],
        dtype="datetime64[ns]",
    ),
    pd.Series(["2024-01-02 03:04:05.5"], dtype="datetime64[us]").dt.tz_localize("UTC"),
]


@pytest.mark.parametrize("column", TYPED, ids=lambda column: str(column.dtype))
def test_a_typed_column_that_one_value_turns_into_objects_keeps_its_cells(
    column: Any,
) -> None:
    """What pandas does where a row of another type is appended."""
    date = "datetime" in str(column.dtype)
    text = str(column.dtype) == "str"
    fitting = [
        a for a in ATTRIBUTES if text or a.name == "text" or (date == ("day" in a.name))
    ]
    domain = Domain(fitting)
    before = counts(pd.DataFrame({a.name: column for a in fitting}), domain)
    for nasty in ([1], "never"):
        longer = pd.Series([*column.astype(object), nasty], dtype=object)
        added(before, counts(pd.DataFrame({a.name: longer for a in fitting}), domain))


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=NAMES)
def test_lists_of_python_values_take_any_further_value(attribute: Attribute) -> None:
    alone = [int(attribute.encode([nasty])[0]) for nasty in NASTY]
    for base in BASES:
        before = attribute.encode(base).tolist()
        assert attribute.encode([*base, *NASTY]).tolist() == [*before, *alone]


def test_categories_and_objects_of_other_frames() -> None:
    for nasty in ([1, "x", 2.5], ["x", 7]):
        frame = pd.DataFrame({name: pd.Categorical(nasty) for name in NAMES})
        assert all(sum(table) == len(nasty) for table in counts(frame))
        lazy = pl.DataFrame({name: pl.Series(nasty, dtype=pl.Object) for name in NAMES})
        assert counts(lazy) == counts(frame)


def test_text_files_take_any_further_field(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"

    def written(values: list[Any]) -> list[list[int]]:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*NAMES, "last"])
            writer.writerows([[value] * len(NAMES) + [1] for value in values])
        return counts(path)

    base = ["x", "1", "2024-01-02", "", "true"]
    before = written(base)
    for nasty in NASTY:
        text = "" if nasty is None else str(nasty) if abs_is_short(nasty) else "9" * 400
        if "\ud800" not in text:  # no UTF-8 text: see the sharp edges
            added(before, written([*base, text]))


def abs_is_short(value: Any) -> bool:
    return not (isinstance(value, int) and abs(value) > 10**300)


def ticks(kind: pa.DataType, *values: int) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).view(kind)


FAR = [
    2**63 - 1,
    -(2**63) + 1,
    -(2**63),
    2**63 - 2,
    2**63 // 1000,
    -(2**63) // 10**6,
    2**62,
]
MOMENTS = [
    pa.timestamp(u, z)
    for u in ("s", "ms", "us", "ns")
    for z in (None, "UTC", "Asia/Tokyo")
]
SPANS = [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]
SHORT = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32()]


@pytest.mark.parametrize("kind", [*MOMENTS, *SPANS, *SHORT, pa.date64()], ids=str)
def test_typed_columns_take_any_further_instant(kind: pa.DataType) -> None:
    moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    fitting = [
        a for a in ATTRIBUTES if a.name == "text" or (moment and "day" in a.name)
    ]
    domain = Domain(fitting)
    before = counts(pa.table({a.name: ticks(kind, 0) for a in fitting}), domain)
    farthest = [2**31 - 1, -(2**31)] if kind.bit_width == 32 else FAR
    together = [np.array(cells) for cells in before]
    for far in farthest:
        column = ticks(kind, 0, far)
        after = counts(pa.table({a.name: column for a in fitting}), domain)
        added(before, after)
        together = [
            t + np.subtract(a, b)
            for t, a, b in zip(together, after, before, strict=True)
        ]
        for attribute in fitting:
            if attribute.name != "text":
                assert len(attribute.encode(column)) == 2
    everyone = pa.table({a.name: ticks(kind, 0, *farthest) for a in fitting})
    assert counts(everyone.to_reader(), domain) == [
        cells.tolist() for cells in together
    ]
    if pa.types.is_date(kind):
        day = Domain([Categorical("text", ["1970-01-01"], outside="other")])
        assert counts(pa.table({"text": ticks(kind, 0, min(farthest))}), day) == [
            [1, 1]
        ]
    if moment:  # clipped to the last month, not missing
        last = pa.table({"clipped day": ticks(kind, max(farthest))})
        assert counts(last, Domain([DOMAIN["clipped day"]]))[0][2] == 1


def test_typed_numbers_and_texts_take_any_further_value(tmp_path: Path) -> None:
    broken = pa.py_buffer(b"x\xff\xfe")
    offsets = pa.py_buffer(np.array([0, 1, 3], dtype=np.int32))
    columns = [
        pa.array([0, 2**64 - 1], pa.uint64()),
        pa.array([0.0, math.inf]),
        pa.array([Decimal(0), Decimal("9" * 38)], pa.decimal128(38, 0)),
        pa.array(["x", "y" * 3_000_000]),
        pa.array(["x", "\0"], pa.large_string()),
        pa.array(["x", None]).dictionary_encode(),
        pa.Array.from_buffers(pa.string(), 2, [None, offsets, broken]),
    ]
    for column in columns:
        fitting = [
            a
            for a in ATTRIBUTES
            if pa.types.is_string(column.type) or "day" not in a.name
        ]
        domain = Domain(fitting)
        table = pa.table({a.name: column for a in fitting})
        before = counts(table.slice(0, 1), domain)
        added(before, counts(table, domain))
        if column is not columns[-1]:  # a Parquet file with such text is damaged
            pq.write_table(table, tmp_path / "people.parquet")
            added(before, counts(tmp_path / "people.parquet", domain))


def test_relations_take_any_further_instant() -> None:
    domain = Domain([ATTRIBUTES[0], ATTRIBUTES[5]])
    for kind in (
        "TIMESTAMP",
        "TIMESTAMP_S",
        "TIMESTAMP_MS",
        "TIMESTAMPTZ",
        "TIMESTAMP_NS",
        "DATE",
    ):
        for far in ("infinity", "-infinity", "1677-09-22 00:00:00"):
            made = [
                f"SELECT CAST('{day}' AS {kind}) AS text" for day in ("2024-01-02", far)
            ]
            before, after = (
                counts(duckdb.sql(f"SELECT text, text AS day FROM ({rows})"), domain)
                for rows in (made[0], " UNION ALL ".join(made))
            )
            added(before, after)
