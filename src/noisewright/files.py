"""Files are written whole or not at all, and are on the disk once they are said to be written."""

from __future__ import annotations

import codecs
import errno
import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from noisewright.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

PRIVATE = 0o600
"""The mode of a file that is for its owner's eyes alone."""

# What spreadsheets run, in widths of east Asia too, and behind blanks, ends of lines or quotes that
# some of them take away. A number with its sign is none, nor is a band of numbers.
_BLANKS = (
    "\u0085\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
)
_IGNORED = r"[\s\x00-\x1f\x7f\"'" + _BLANKS + "]*"
_FORMULA = rf"^{_IGNORED}[=+\-@＝＋－＠]|^[\"']*[\t\r\n]"
_NUMBER = r"^[+-]?[0-9][0-9,_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?(–-?[0-9.,_]+)?%?$"

# Formats that people may mean by a suffix, and that a table is not written in.
_OTHER_FORMATS = (
    *(
        ".xls",
        ".xlsb",
        ".xlsm",
        ".xlsx",
        ".ods",
        ".tsv",
        ".dta",
        ".sav",
        ".rds",
        ".pkl",
    ),
    *(".json", ".jsonl", ".xml", ".htm", ".html", ".pdf", ".db", ".sqlite", ".duckdb"),
    *(".arrow", ".avro", ".feather", ".ipc", ".orc", ".npy", ".npz", ".nw"),
    *(".bz2", ".gz", ".zip", ".zst"),
)

_SQLITE = b"SQLite format 3\x00"

# What file systems say that know no locks, or no flushing of directories.
_UNSUPPORTED = (
    errno.EINVAL,
    errno.ENOTSUP,
    errno.ENOSYS,
    errno.ENOLCK,
    errno.EBADF,
    errno.EACCES,
)


def check_apart(output: str | Path, *inputs: str | Path) -> None:
    """Refuse to write over what is read."""
    if Path(output).resolve() in {Path(file).resolve() for file in inputs}:
        raise InvalidParameter(
            "output", str(output), "is read from", "choose another path"
        )


def check_writable(path: str | Path, name: str = "output") -> Path:
    """Refuse a path that cannot be written, before any work (or budget) is spent on it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if target.exists():
            with target.open("ab"):
                pass
        if _is_replaceable(target):
            with tempfile.TemporaryFile(dir=target.resolve().parent):
                pass
    except OSError as error:
        rule = f"cannot be written ({error.strerror or type(error).__name__})"
        raise InvalidParameter(name, str(path), rule, "choose another path") from None

    return target


@contextmanager
def replacing_file(
    path: str | Path, name: str = "output", mode: int | None = None
) -> Iterator[Path]:
    """Yield a temporary path that takes the place of `path` once the block ends well.

    If the block fails, the temporary file is removed and `path` is as it was. After it, the new
    contents survive a loss of power. With a `mode`, nobody else can read even the temporary file.
    """
    target = check_writable(path, name)
    if not _is_replaceable(target):
        yield target
        return

    target = target.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        if mode is not None:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)  # noqa: PTH105 (one place that tests can interrupt)
        _flush_directory(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(
    path: str | Path, text: str, name: str = "output", *, mode: int | None = None
) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing_file(path, name, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_sqlite(path: str | Path) -> bool:
    """Whether a file is a database of SQLite, as ledgers are."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def check_only_name(path: str | Path, name: str) -> None:
    """Refuse a database that can be reached by another name, whose journal nobody here would see.

    SQLite keeps a journal beside the name by which a file was opened: two names are two journals.
    """
    target = Path(path).resolve()
    if target.stat().st_nlink > 1:
        raise InvalidParameter(
            name, str(path), "has other names (hard links), and each would have its own journal",
            "remove the others, or copy it: a copy is a file of its own",
        )  # fmt: skip
    if str(target) in _mount_points():
        raise InvalidParameter(
            name, str(path), "is mounted alone, without the folder that its journal lies in",
            "mount the folder",
        )  # fmt: skip


def _mount_points() -> set[str]:
    """Where this process sees something mounted, on systems that tell (containers are Linux)."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return set()

    points = [os.fsdecode(line.split(b" ")[4]) for line in lines]
    # Blanks and backslashes are written as three octal digits.
    return {
        re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), point) for point in points
    }


def is_parquet(path: str | Path) -> bool:
    """Whether a table's file is Parquet, by its suffix; CSV otherwise."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def check_table(path: str | Path, name: str = "output") -> None:
    """Refuse a table's file whose suffix names a format that would not be in it."""
    suffix = Path(path).suffix.lower()
    if suffix in _OTHER_FORMATS:
        rule = f"would hold CSV, whatever {suffix} says"
        remedy = "choose .csv (with --excel for spreadsheets) or .parquet"
        raise InvalidParameter(name, str(path), rule, remedy)


@contextmanager
def table_writer(
    path: str | Path,
    schema: pa.Schema,
    *,
    use_dictionary: bool = True,
    marked: bool = False,
) -> Iterator[CSVWriter | ParquetWriter]:
    """Write tables one after another into a file: Parquet or CSV, whole or not at all."""
    check_table(path)
    with replacing_file(path) as temporary:
        if is_parquet(path):
            from pyarrow.parquet import ParquetWriter

            with ParquetWriter(
                temporary, schema, use_dictionary=use_dictionary
            ) as writer:
                yield writer
            return

        from pyarrow.csv import CSVWriter

        with temporary.open("wb") as file:
            file.write(codecs.BOM_UTF8 if marked else b"")
            with CSVWriter(file, schema) as writer:
                yield writer


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """The same table as CSV holds it: plain columns, no text of which is a formula.

    Spreadsheets run a cell that begins with = + - or @. Texts may come from anybody, so those get
    an apostrophe in front, by which spreadsheets know text; numbers stay as they are.
    """
    import pyarrow as pa

    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            column = column.cast(kind)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        columns.append(_without_formulas(column) if is_text else column)

    names = [f"'{name}" if is_formula(name) else name for name in table.column_names]
    return pa.table(columns, names=names)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula rather than for text or a number."""
    return bool(re.search(_FORMULA, text)) and not re.search(_NUMBER, text)


def _without_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    risky = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(risky).as_py():
        return column

    plain = pc.match_substring_regex(column, _NUMBER)
    quoted = pc.binary_join_element_wise(pa.scalar("'", column.type), column, "")
    return pc.if_else(pc.and_not(risky, plain), quoted, column)


def csv_bytes(table: pa.Table) -> bytes:
    """A table as CSV, in memory."""
    import pyarrow as pa
    import pyarrow.csv as csv

    sink = pa.BufferOutputStream()
    csv.write_csv(for_spreadsheets(table), sink)
    return bytes(sink.getvalue())


def write_table(path: str | Path, table: pa.Table, *, excel: bool = False) -> None:
    """Write a table as CSV, or as Parquet by suffix, whole or not at all."""
    write_tables(path, [table], excel=excel)


def write_tables(
    path: str | Path, parts: Iterable[pa.Table], *, excel: bool = False
) -> None:
    """Write a table that comes in parts of one schema, none of which is held once it is written.

    With `excel`, CSV begins with the mark by which spreadsheets know UTF-8; others may trip on it.
    """
    plain = parts if is_parquet(path) else map(for_spreadsheets, parts)
    first = next(iterator := iter(plain))
    rest = iterator
    marked = excel and not is_parquet(path)

    with table_writer(path, first.schema, marked=marked) as writer:
        for part in chain([first], rest):
            writer.write_table(part)


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Keep other processes that ask for the same out, where the system knows such locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return

    handle = -1
    try:
        with _where_supported():
            handle = os.open(directory, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle >= 0:
            os.close(handle)  # which unlocks


def _flush_directory(directory: Path) -> None:
    """Put a renaming on the disk."""
    if os.name != "posix":
        return
    with _where_supported():
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _where_supported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _is_replaceable(target: Path) -> bool:
    """Devices and pipes are written to, never replaced by a file."""
    return not target.exists() or target.is_file()
