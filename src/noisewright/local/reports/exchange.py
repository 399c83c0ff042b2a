"""Reports in and out: Parquet, CSV, Arrow columns, iterators of bytes.

Everything becomes Arrow arrays of bytes, a bounded number of rows at a time; text in a CSV file is
hexadecimal or base64, told apart by its length. Whatever cannot be read becomes a null, which the
collector counts and sets aside.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import ByteArray
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.files import is_parquet, table_writer

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN = "report"
"""The column of a table that holds reports."""

ROUND = "noisewright.round"
"""Where a Parquet file says which round of a campaign its reports are of."""

_BATCH = 2**18
"""Reports that are read at a time: a few megabytes of short ones."""


def report_batches(source: object, length: int) -> Iterator[pa.Array]:
    """Arrow arrays of bytes from whatever holds reports of `length` bytes."""
    import pyarrow as pa

    match source:
        case str() | Path():
            yield from _from_file(Path(source), length)
        case bytes():
            yield pa.array([source], type=pa.binary())
        case pa.Table() | pa.RecordBatch():
            yield from _from_column(_column(source), length)
        case pa.Array() | pa.ChunkedArray():
            yield from _from_column(source, length)
        case Iterable():
            yield from _from_items(source)
        case _:
            kind = type(source).__name__
            rule = "must be a Parquet or CSV file, an Arrow column, an array or an iterator"
            raise InvalidParameter("reports", kind, rule)


def _from_items(items: Iterable[object]) -> Iterator[pa.Array]:
    import pyarrow as pa

    stream = iter(items)

    while part := list(islice(stream, _BATCH)):
        yield pa.array(map(_bytes_or_none, part), type=pa.binary())


def _bytes_or_none(item: object) -> bytes | None:
    return bytes(item) if isinstance(item, bytes | bytearray | memoryview) else None


def _from_file(path: Path, length: int) -> Iterator[pa.Array]:
    import pyarrow as pa

    if not path.is_file():
        raise InvalidParameter("reports", str(path), "is not a file", "check the path")

    try:
        if is_parquet(path):
            yield from _from_parquet(path, length)
        else:
            yield from _from_csv(path, length)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        rule = "cannot be read as reports: it is damaged or of another format"
        raise FileFormatError(f"{str(path)!r} {rule}") from None


def _from_parquet(path: Path, length: int) -> Iterator[pa.Array]:
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        _require(file.schema_arrow.names, str(path))
        for batch in file.iter_batches(_BATCH, columns=[COLUMN]):
            yield from _from_column(batch.column(0), length)


def round_in(path: str | Path) -> str | None:
    """The round that a file says its reports are of; only Parquet has a place for it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if not is_parquet(path) or not Path(path).is_file():
        return None

    try:
        metadata = parquet.read_schema(path).metadata or {}
        name = metadata.get(ROUND.encode())
        return None if name is None else name.decode()[:100]
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None  # whatever is wrong is told when the reports are read


def _from_csv(path: Path, length: int) -> Iterator[pa.Array]:
    import pyarrow as pa
    import pyarrow.csv as csv

    if path.stat().st_size == 0:
        raise FileFormatError(
            f"{str(path)!r} is empty; its first line must name `{COLUMN}`"
        )

    options = csv.ConvertOptions(
        column_types={COLUMN: pa.string()}, strings_can_be_null=True
    )
    with csv.open_csv(path, convert_options=options) as reader:
        _require(reader.schema.names, str(path))
        for batch in reader:
            yield from _from_column(_column(batch), length)


def _column(table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    names = table.schema.names
    _require(names, "the table")
    return table.column(names.index(COLUMN))


def _require(names: list[str], where: str) -> None:
    count = names.count(COLUMN)
    if count == 0:
        remedy = "name the column of reports so"
        raise FileFormatError(f"{where} has no column `{COLUMN}`; {remedy}")
    if count > 1:
        remedy = "remove all but one"
        raise FileFormatError(f"{where} has several columns `{COLUMN}`; {remedy}")


def _from_column(column: pa.Array | pa.ChunkedArray, length: int) -> Iterator[pa.Array]:
    import pyarrow as pa
    from pyarrow import types

    for chunk in getattr(column, "chunks", [column]):
        kind = chunk.type
        if types.is_string(kind) or types.is_large_string(kind):
            reports = [_decoded(text, length) for text in chunk.to_pylist()]
            yield pa.array(reports, type=pa.binary())
        elif types.is_null(kind):
            yield pa.nulls(len(chunk), pa.binary())
        elif types.is_fixed_size_binary(kind) or types.is_large_binary(kind):
            yield chunk.cast(pa.binary())
        elif types.is_binary(kind):
            yield chunk
        else:
            raise FileFormatError(
                f"the column `{COLUMN}` holds {kind}, not bytes, hexadecimal or base64"
            )


def _decoded(text: str | None, length: int) -> bytes | None:
    """A report from text; a text that is neither becomes a null."""
    if text is None:
        return None

    plain = text.strip()
    try:
        if len(plain) == 2 * length:
            report = bytes.fromhex(plain)
        else:
            report = b64decode(plain, validate=True)
    except ValueError:
        return None

    return report if len(report) == length else None


def rows_of_length(array: pa.Array, length: int) -> ByteArray:
    """The entries of exactly `length` bytes, one row each."""
    import pyarrow.compute as pc

    lengths = pc.binary_length(array)
    extremes = pc.min_max(lengths).as_py()
    if array.null_count or extremes != {"min": length, "max": length}:
        array = array.filter(pc.equal(lengths, length))

    count = len(array)
    if not count:
        return np.empty((0, length), dtype=np.uint8)

    _, offsets, content = array.buffers()
    first = int(np.frombuffer(offsets, dtype=np.int32)[array.offset])
    data = np.frombuffer(content, dtype=np.uint8)

    return data[first : first + count * length].reshape(count, length)


def as_arrow(rows: ByteArray) -> pa.Array:
    """Rows of bytes as an Arrow column, without a loop over them."""
    import pyarrow as pa

    count, length = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    content = np.ascontiguousarray(rows)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]

    return pa.Array.from_buffers(pa.binary(), count, buffers)


def write_reports(path: str | Path, batches: Iterable[ByteArray]) -> int:
    """Write rows of bytes to Parquet, or in hexadecimal to CSV; returns how many there were."""
    import pyarrow as pa

    binary = is_parquet(path)
    schema = pa.schema([(COLUMN, pa.binary() if binary else pa.string())])
    count = 0

    with table_writer(path, schema, use_dictionary=False) as writer:
        for rows in batches:
            column = as_arrow(rows)
            if not binary:
                column = pa.array([row.hex() for row in column.to_pylist()])
            writer.write_table(pa.table([column], schema=schema))
            count += len(rows)

    return count
