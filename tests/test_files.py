"""Tables are written whole or not at all, in the format that their suffix names."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisewright.files import (
    csv_bytes,
    for_spreadsheets,
    is_formula,
    table_writer,
    write_table,
)

TABLE = pa.table(
    {
        "table": pa.array(["a", "b", "a"]).dictionary_encode(),
        "query": ['x = "1", y', "z", "ü"],
        "answer": [1.5, None, -2.0],
    }
)


@pytest.mark.parametrize("name", ["t.parquet", "t.PQ"])
def test_parquet_by_suffix_keeps_every_type(name: str, tmp_path: Path) -> None:
    write_table(tmp_path / name, TABLE)
    assert pyarrow.parquet.read_table(tmp_path / name).equals(TABLE)


@pytest.mark.parametrize("name", ["t.csv", "t", "t.parquet.txt"])
def test_csv_otherwise_with_empty_cells_for_what_is_missing(
    name: str, tmp_path: Path
) -> None:
    write_table(tmp_path / name, TABLE)
    assert pyarrow.csv.read_csv(tmp_path / name).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_cut_short_leaves_the_old_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("old")
    schema = pa.schema([("answer", pa.float64())])

    def cut_short() -> None:
        with table_writer(path, schema) as writer:
            writer.write_table(TABLE.select(["answer"]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        cut_short()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == [name]


FORMULAS = [
    '=HYPERLINK("http://x","y")',
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\rx",
    "\n=1",
    " =1",
    '"=1+1',
    "'=1",
    "＝1+1",
    "＠x",
    "\ufeff=1",
    "=",
    "-",
    "--1",
]
HARMLESS = [
    "-5",
    "+3.25",
    "-1e-5",
    "-10–-1",
    "-3–4",
    "-12%",
    "a=1",
    "x - y",
    "",
    "ü",
    "[-1, 0)",
    "<-5",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_and_no_head_of_a_csv_is_a_formula(text: str, tmp_path: Path) -> None:
    """Whatever people wrote is text to a spreadsheet; Parquet, which runs nothing, keeps it."""
    table = pa.table(
        {text: [text, "b"], "kind": pa.array([text, "b"]).dictionary_encode()}
    )
    write_table(tmp_path / "t.csv", table)
    written = (tmp_path / "t.csv").read_bytes()
    assert written == csv_bytes(table)
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [[f"'{text}", "kind"], [f"'{text}", f"'{text}"], ["b", "b"]]
    write_table(tmp_path / "t.parquet", table)
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet")[text][0].as_py() == text


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_bands_and_plain_texts_stay_as_they_are(
    text: str, tmp_path: Path
) -> None:
    table = pa.table({"query": [text, "=1"], "answer": [-1.5, 2.0], "count": [-1, 2]})
    write_table(tmp_path / "t.csv", table)
    read = pyarrow.csv.read_csv(tmp_path / "t.csv").to_pylist()
    assert str(read[0]["query"] or "") == text
    assert [(row["answer"], row["count"]) for row in read] == [(-1.5, -1), (2.0, 2)]


@given(st.text(st.sampled_from("=+-@＝'\" \t\r\n5.,e–a%"), max_size=6))
def test_texts_that_differ_are_written_differently_and_rows_as_heads_are(
    text: str,
) -> None:
    """One rule for heads and cells: a text either stays or gets one apostrophe."""
    cell = for_spreadsheets(pa.table({text: [text, None]})).to_pydict()
    assert cell == {f"'{text}" if is_formula(text) else text: [*cell.keys(), None]}
    assert is_formula(text) or not text.strip().startswith(("=", "@", "＝"))
    if text.startswith("'") and is_formula(text[1:]):
        assert is_formula(text)  # else it would be written as text[1:] is


def test_every_blank_before_a_formula_is_seen_in_headers_and_in_cells() -> None:
    """Two engines of patterns read them, one of which knows blanks of ASCII alone."""
    blanks = [chr(code) for code in range(0x10000) if chr(code).isspace()]
    texts = [
        blank + "=1+1" for blank in [*blanks, "\u200b", "\u2060", "\ufeff", "\u00ad"]
    ]
    written = for_spreadsheets(pa.table({"text": texts}))["text"].to_pylist()
    assert written == ["'" + text for text in texts]
    assert all(map(is_formula, texts))
