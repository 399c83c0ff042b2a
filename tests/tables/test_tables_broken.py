"""Tables that break: said in words that quote no cell, before anything is spent."""

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noisewright as nw
from noisewright.domain import Categorical, Domain
from noisewright.errors import NoisewrightError
from noisewright.ledger.book import Ledger
from noisewright.tables.counter import DuckDBCounter
from noisewright.tables.rows import numeric_rows
from noisewright.tables.suggest import suggest_schema

SECRET = "Lovelace"
DOMAIN = Domain([Categorical("name", ["x"], outside="other")])


def plan() -> nw.Plan:
    workload = nw.Workload.from_spec({"queries": [{"marginal": ["name"]}]}, DOMAIN)
    return nw.plan(workload, nw.Privacy(rho=0.1))


def footless(folder: Path) -> object:
    pq.write_table(pa.table({"name": [SECRET] * 50}), folder / "t.parquet")
    content = (folder / "t.parquet").read_bytes()
    (folder / "t.parquet").write_bytes(content[:-12] + b"\0" * 8 + b"PAR1")
    return folder / "t.parquet"


def cut_short(folder: Path) -> object:
    pq.write_table(
        pa.table({"name": [f"{SECRET} {i}" for i in range(10_000)]}),
        folder / "t.parquet",
    )
    content = bytearray((folder / "t.parquet").read_bytes())
    content[100:20_000] = bytes(19_900)  # the pages, not the footer: it fails half way
    (folder / "t.parquet").write_bytes(bytes(content))
    return folder / "t.parquet"


def other_columns(folder: Path) -> object:
    pq.write_table(pa.table({"name": [SECRET]}), folder / "a.parquet")
    pq.write_table(pa.table({SECRET: ["x"]}), folder / "b.parquet")
    return str(folder / "*.parquet")


def nothing(folder: Path) -> object:
    return str(folder / "*.parquet")


@pytest.mark.parametrize("broken", [footless, cut_short, other_columns, nothing])
def test_broken_files_spend_nothing_and_quote_nobody(tmp_path: Path, broken) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("people", nw.Privacy(rho=1.0))
    folder = tmp_path / "tables"
    folder.mkdir()
    with pytest.raises(NoisewrightError) as caught:
        plan().release(broken(folder), ledger=ledger, dataset="people")
    assert SECRET not in str(caught.value)
    assert ledger.account("people").releases == []


class Dying(DuckDBCounter):
    """An engine whose connection breaks while it counts."""

    def tables(self, source, domain, wanted):
        raise NoisewrightError("the connection broke; nothing was released")


def test_an_engine_that_dies_half_way_spends_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("people", nw.Privacy(rho=1.0))
    table = pa.table({"name": ["x"]})
    with pytest.raises(NoisewrightError, match="connection broke"):
        plan().release(table, counter=Dying(), ledger=ledger, dataset="people")
    assert ledger.account("people").releases == []


def twice(folder: Path) -> dict[str, object]:
    """Tables that have a column twice, in every form that can."""
    (folder / "t.csv").write_text("name,age,name\nx,1,y\n")
    (folder / "t.tsv").write_text("name\t age\t name \nx\t1\ty\n")
    with gzip.open(folder / "t.csv.gz", "wt") as file:
        file.write("age;name;age\n1;x;2\n")
    table = pa.table([["x"], [1.0], ["y"]], names=["name", "age", "name"])
    pq.write_table(table, folder / "t.parquet")
    frame = pd.DataFrame([["x", 1.0, "y"]], columns=["name", "age", "name"])
    files = {end: folder / f"t{end}" for end in (".csv", ".tsv", ".csv.gz", ".parquet")}
    return {**files, "arrow": table, "batch": table.to_batches()[0], "pandas": frame}


@pytest.mark.parametrize(
    "form", [".csv", ".tsv", ".csv.gz", ".parquet", "arrow", "batch", "pandas"]
)
def test_a_column_that_is_there_twice_is_refused_and_its_name_unsaid(
    tmp_path: Path, form: str
) -> None:
    """Every way from a table to answers: counting, sums of rows, drafts of schemas."""
    table = twice(tmp_path)[form]
    calls = [
        lambda: plan().release(table),
        lambda: suggest_schema(table),
        lambda: list(numeric_rows(table, ["age"])),
    ]
    for call in calls:
        with pytest.raises(
            NoisewrightError, match=r"columns of one name|different names"
        ) as told:
            call()
        assert not re.search(r"\bage\b|\bx\b|'name'", str(told.value))


def test_columns_without_a_name_are_no_columns_of_one_name(tmp_path: Path) -> None:
    """Blanks at the end of every line, as spreadsheets leave them."""
    (tmp_path / "t.csv").write_text("name,Name,,\n1,y,,\n2,z,,\n")
    rows = numeric_rows(tmp_path / "t.csv", ["name"])
    assert sum(len(batch) for batch in rows) == 2


@pytest.mark.parametrize("form", [".csv", ".parquet", "arrow", "pandas"])
def test_values_that_are_no_numbers_are_nan_wherever_rows_are_read(
    tmp_path: Path, form: str
) -> None:
    """Text among numbers and whole columns of it; a CSV's reader must not cast by itself."""
    words, mixed = ["x", "y", "z"], ["1.5", None, "x"]
    table = pa.table({"words": words, "mixed": mixed, "number": [1.0, 2.0, None]})
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("words,mixed,number\nx,1.5,1\ny,,2\nz,x,\n")
    source = {"arrow": table, "pandas": table.to_pandas()}.get(
        form, tmp_path / f"t{form}"
    )
    (rows,) = numeric_rows(source, ["number", "mixed", "words"])
    nan = np.nan
    np.testing.assert_array_equal(rows, [[1, 1.5, nan], [2, nan, nan], [nan, nan, nan]])
