"""Paths of tables: files, folders of files and patterns, and the format of each."""

from __future__ import annotations

from pathlib import Path

from noisewright.errors import InvalidParameter

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".txt")
_COMPRESSION = (".gz", ".zst")


def is_like_a_path(path: object) -> bool:
    """Whether a value is likely meant as a path: it has a suffix, or is a folder."""
    if not isinstance(path, str | Path):
        return False
    return bool(Path(path).suffix) or Path(path).is_dir()


def files_of(path: str | Path) -> list[Path]:
    """The files that a path, a folder or a pattern stands for."""
    literal = Path(path).expanduser()
    if literal.is_file():
        return [literal]
    if literal.is_dir():
        return _inside(literal)

    anchor = Path(literal.anchor)  # empty for a relative path
    matches = sorted(anchor.glob(str(literal.relative_to(anchor))))
    if not matches:
        raise InvalidParameter("table", str(path), "does not exist", "check the path")

    return matches


def _inside(folder: Path) -> list[Path]:
    """The files of a folder and of those below it, as Arrow and Spark write tables.

    Names that begin with a dot or an underscore are such programs' notes. All others must be
    tables: people in a file that is passed over would be missing from every answer.
    """
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(
            part.startswith((".", "_")) for part in path.relative_to(folder).parts
        )
    )
    if not files:
        rule = "is a folder without files"
        raise InvalidParameter(
            "table", str(folder), rule, "give a folder of CSV or Parquet files"
        )

    return files


def format_of(path: Path) -> str:
    """The format of a file, by its suffix."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSION:
        suffixes.pop()

    if suffixes and suffixes[-1] in _PARQUET:
        return "parquet"
    if suffixes and suffixes[-1] in _CSV:
        return "csv"

    known = ", ".join((*_CSV, *_PARQUET))
    raise InvalidParameter(
        "table", path.name, f"must end in one of {known}", "convert or rename"
    )
