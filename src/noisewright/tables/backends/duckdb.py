"""Tables of any origin as DuckDB relations: files, Arrow tables, frames and relations.

CSV files are read without DuckDB's sniffer. It drops lines that look like comments and may take a
record for the header, whose text would then show up in a message; here the first line is the
header, the delimiter is the one that makes sense of it, and every cell is text until an attribute
says otherwise.
"""

from __future__ import annotations

import csv
import glob
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import pyarrow as pa

from noisewright.domain.attribute import Storage
from noisewright.errors import (
    DomainError,
    FileFormatError,
    InvalidParameter,
    require,
    withholding_causes,
)
from noisewright.planning.counting import Source
from noisewright.tables.backends.paths import files_of, format_of, is_like_a_path
from noisewright.tables.encode import python_objects, read_objects, readable_column

if TYPE_CHECKING:
    from noisewright.tables.sql.request import Stage

_DELIMITERS = (",", ";", "\t", "|")
_LONGEST_LINE = 2**28  # in bytes; short lines cost no more for it
FAILURES = (duckdb.Error, pa.ArrowException, OSError)
"""What engines raise; their words quote cells."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Table:
    """A relation and the names of its columns, which are referred to by position alone.

    Positions need no quoting and know no case, so no column name can be misread as SQL.
    """

    relation: duckdb.DuckDBPyRelation
    names: tuple[str, ...]
    description: str
    sql: str = ""  # where the relation is a query

    def __post_init__(self) -> None:
        _check_different(self.names, self.description)

    @property
    def origin(self) -> str:
        """What stands after FROM where the SQL is shown."""
        return f"(\n{self.sql}\n) AS derived" if self.sql else self.description

    def asked(self, call: Callable[[], _Result]) -> _Result:
        """What the engine answers; its own words, which quote cells, end here."""
        return withholding_causes(call, FAILURES, unreadable_file(self.description))

    def chained(self, stages: Sequence[Stage]) -> duckdb.DuckDBPyRelation:
        """Selections over the table, one after the other."""
        return chained_selections(self.relation, stages)

    def batches(
        self, relation: duckdb.DuckDBPyRelation, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Stream what was selected, so many rows at once."""
        reader = self.asked(lambda: iter(relation.to_arrow_reader(rows)))
        while (batch := self.asked(lambda: next(reader, None))) is not None:
            yield batch

    def position(self, name: str) -> int:
        """Return the column's position, counted from one as in SQL."""
        return self.names.index(name) + 1

    def type(self, name: str) -> str:
        """Return the column's DuckDB type."""
        return str(self.relation.types[self.names.index(name)]).upper()

    def column(self, name: str) -> tuple[str, str]:
        """Return the SQL that names a column, and its type."""
        return f"#{self.position(name)}", self.type(name)

    def require(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks one of the columns."""
        # What the table does have stays unsaid: without a header its "names" are a person's values.
        if absent := [name for name in names if name not in self.names]:
            raise InvalidParameter(
                "attributes",
                absent,
                f"have no column of that name in {self.description}",
                "rename them in the schema or in the table (a CSV file's first line must be names)",
            )


def chained_selections(
    relation: duckdb.DuckDBPyRelation, stages: Sequence[Stage]
) -> duckdb.DuckDBPyRelation:
    """Selections over a relation, one after the other."""
    for stage in stages:
        relation = relation.project(", ".join(stage.select))
        relation = relation.filter(stage.where) if stage.where else relation
    return relation


def connect() -> duckdb.DuckDBPyConnection:
    """Open a private in-memory engine that reaches neither for the network nor for the disk."""
    # Without a temporary directory nothing of a table is ever spilled to disk.
    config = {"autoinstall_known_extensions": "false", "temp_directory": ""}
    connection = duckdb.connect(config=config)
    # or else nothing tells how far it is
    connection.execute("SET enable_progress_bar = true")
    # into a command's output
    connection.execute("SET enable_progress_bar_print = false")
    # instants are written alike on every machine
    connection.execute("SET TimeZone = 'UTC'")

    return connection


def open_table(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    storages: Mapping[str, Storage] | None = None,
) -> Table:
    """Return the source as a table.

    `storages` says, where known, which columns are wanted and how they will be read: it helps to
    read a CSV header, and columns of Python objects, which have no type of their own.
    """
    known = storages or {}
    names = tuple(known)
    match source:
        case duckdb.DuckDBPyRelation():
            return Table(source, tuple(source.columns), "the relation")
        case str() | Path():
            return _open_files(connection, files_of(source), names)
        case list() | tuple() if source:
            # A list without suffixes is more likely one of values, which no message may repeat.
            kind = type(source).__name__
            rule = "must be a list of paths alone"
            require(all(map(is_like_a_path, source)), "table", kind, rule)
            paths = [file for path in source for file in files_of(path)]
            return _open_files(connection, paths, names)

    return _from_arrow(connection, _to_arrow(connection, source, known), names)


def _open_files(
    connection: duckdb.DuckDBPyConnection, paths: list[Path], names: Sequence[str]
) -> Table:
    listed = [path.name for path in paths]
    formats = {format_of(path) for path in paths}
    require(len(formats) == 1, "table", listed, "must all be of one format")
    distinct = {path.resolve() for path in paths}
    rule = "must name every file once: each person counts once"
    require(len(distinct) == len(paths), "table", listed, rule)

    if formats == {"parquet"}:
        return _open_parquet(connection, paths)
    return _open_csv(connection, paths, names)


def _described(paths: list[Path]) -> str:
    return repr(str(paths[0])) + (" and others" if len(paths) > 1 else "")


def _open_parquet(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> Table:
    for path in paths:
        _check_different(_parquet_names(path), repr(str(path)))

    description = _described(paths)
    patterns = [glob.escape(str(path)) for path in paths]
    query = "SELECT * FROM read_parquet(?, hive_types_autocast = false)"
    read = partial(connection.sql, query, params=[patterns])
    relation = withholding_causes(read, duckdb.Error, unreadable_file(description))
    return Table(relation, tuple(relation.columns), description)


def _open_csv(
    connection: duckdb.DuckDBPyConnection, paths: list[Path], names: Sequence[str]
) -> Table:
    columns, delimiter = _header(paths[0], names)
    for path in paths[1:]:
        if _header(path, names) != (columns, delimiter):
            raise FileFormatError(
                f"{str(path)!r} has other columns than {str(paths[0])!r}"
            )

    relation = connection.read_csv(
        [glob.escape(str(path)) for path in paths],
        auto_detect=False,
        header=True,
        columns={f"c{i}": "VARCHAR" for i in range(len(columns))},
        delimiter=delimiter,
        quotechar='"',
        escapechar='"',
        max_line_size=_LONGEST_LINE,
    )
    return Table(relation, columns, _described(paths))


def _parquet_names(path: Path) -> list[str]:
    """The names that a file's footer lists: DuckDB would call the second of two another."""
    from pyarrow.parquet import read_schema

    return withholding_causes(
        lambda: read_schema(path).names,
        (pa.ArrowException, OSError),
        unreadable_file(repr(str(path))),
    )


def _header(path: Path, names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the first line's fields and the delimiter that makes the most of it."""
    best: tuple[tuple[bool, int], tuple[str, ...], str] | None = None
    for delimiter in _DELIMITERS:
        read = partial(_first_record, path, delimiter)
        failures = OSError, UnicodeDecodeError, csv.Error
        first = withholding_causes(read, failures, unreadable_file(repr(str(path))))
        fields = tuple(field.strip() for field in first)
        rank = (bool(names) and set(names) <= set(fields), len(fields))
        if best is None or rank > best[0]:
            best = (rank, fields, delimiter)

    if best is None or not best[1]:
        raise FileFormatError(
            f"{str(path)!r} has no header line; its first line must be names"
        )

    return best[1:]


def _first_record(path: Path, delimiter: str) -> list[str]:
    with pa.input_stream(str(path)) as stream:
        lines = (line.decode("utf-8-sig") for line in io.BufferedReader(stream))
        return next(csv.reader(lines, delimiter=delimiter, skipinitialspace=True), [])


def _to_arrow(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    storages: Mapping[str, Storage],
) -> pa.Table:
    # Conversions fail in many ways, all of which quote cells, or names that may be a record.
    table = withholding_causes(
        lambda: _converted(connection, source, storages),
        Exception,
        DomainError(
            "the table cannot be converted; its columns must have different names of text and be "
            "of a type that Arrow knows"
        ),
    )
    if table is None:
        raise InvalidParameter(
            "table",
            type(source).__name__,
            "must be a CSV or Parquet path, an Arrow table, a pandas or polars frame or a DuckDB "
            "relation",
        )

    return table


def _converted(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    storages: Mapping[str, Storage],
) -> pa.Table | None:
    """Return the source as an Arrow table, or None where it is no table."""
    match source:
        case pa.RecordBatch():
            return pa.Table.from_batches([source])
        case pa.RecordBatchReader():
            return source.read_all()
        case pa.Table():
            return source

    import narwhals as nw

    match nw.from_native(source, pass_through=True):
        case nw.LazyFrame() as lazy:
            frame = lazy.collect("pyarrow")
        case nw.DataFrame() as frame:
            pass
        case _:
            return None

    known = [name for name in frame.columns if name in storages] or list(frame.columns)
    columns = {}
    for name in known:
        objects = python_objects(frame[name])
        if objects is None:
            columns[name] = frame[name].to_arrow()
        else:
            storage = storages.get(name, "text")
            columns[name] = read_objects(connection, objects, storage)

    return pa.table(columns)


def _from_arrow(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, known: Sequence[str]
) -> Table:
    names = tuple(table.column_names)
    columns = [
        readable_column(column) if name in known or not known else column
        for name, column in zip(names, table.columns, strict=True)
    ]
    # DuckDB renames columns that differ in case alone; give it names that cannot clash.
    renamed = pa.table(columns, names=[f"c{i}" for i in range(len(names))])
    error = DomainError(
        "the table has a column of a type that cannot be read; convert it to text"
    )
    relation = withholding_causes(
        lambda: connection.from_arrow(renamed), duckdb.Error, error
    )

    return Table(relation, names, "the table")


def _check_different(names: Sequence[str], description: str) -> None:
    """Refuse a table of which two columns share a name: nobody could say which one is meant.

    Columns without a name, as blanks at the end of lines make them, cannot be asked for.
    """
    # Without a header the "names" are a person's values: none is repeated here.
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        raise FileFormatError(
            f"{description} has several columns of one name; rename them, or remove all but one"
        )


def unreadable_file(description: str) -> FileFormatError:
    """Return the error for a file that the engine cannot read, without the engine's own words."""
    return FileFormatError(
        f"{description} cannot be read: a line is malformed, the file is not UTF-8 text or it is "
        "damaged (the engine's message is withheld, since it quotes records)"
    )
