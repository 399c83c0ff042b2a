"""Tables are written whole or not at all, in the format that their suffix names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisewright.files import table_writer, write_table

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
def test_csv_otherwise_with_empty_cells_for_what_is_missing(name: str, tmp_path: Path) -> None:
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
