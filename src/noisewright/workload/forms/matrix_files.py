"""Matrices in files, one row per query: NumPy's .npy and .npz, Matrix Market, CSV.

A file may come from anybody: nothing in it is run, and it is refused where it promises more numbers
than it holds or than are sensible, before room is made for them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import Array
from noisewright.errors import FileFormatError, NoisewrightError, TooLarge, shown_value

if TYPE_CHECKING:
    from scipy.sparse import sparray

SUFFIXES = (".npy", ".npz", ".mtx", ".mtx.gz", ".csv", ".tsv")
"""Endings of file names that are read as matrices."""

_MOST_ENTRIES = 2**28  # two GiB as dense numbers


def is_matrix_file(text: str) -> bool:
    """Whether a text is the name of a matrix file rather than a workload."""
    return text.lower().endswith(SUFFIXES)


def read_matrix(path: str | Path) -> Any:
    """A matrix as NumPy or SciPy hold it, from a file whose ending says what it is."""
    file = Path(path)
    name = shown_value(str(path))
    if not file.is_file():
        raise FileFormatError(f"{name} is no file; check the path")

    ending = file.name.lower()
    readers = [read for suffix, read in _READERS.items() if ending.endswith(suffix)]
    if not readers:
        raise FileFormatError(f"{name} is not one of {', '.join(SUFFIXES)}")

    try:
        return readers[0](file)
    except NoisewrightError:
        raise
    except (OSError, ValueError, TypeError, LookupError, EOFError, zipfile.BadZipFile):
        raise FileFormatError(
            f"{name} is not a matrix of numbers in the format of its ending; write one row per "
            "query and one column per cell, without a header"
        ) from None


def _check_entries(count: float) -> None:
    if count > _MOST_ENTRIES:
        raise TooLarge(
            f"the matrix has {count:.3g} entries, more than {_MOST_ENTRIES}; store it sparse "
            "(.npz of scipy.sparse, or coordinates in Matrix Market)"
        )


def _npy(file: Path) -> Array:
    # checks the size of the file
    mapped = np.load(file, mmap_mode="r", allow_pickle=False)
    _check_entries(mapped.size)

    return np.array(mapped, dtype=np.float64)


def _npz(file: Path) -> Any:
    """One array, or a sparse matrix as `scipy.sparse.save_npz` writes it."""
    from scipy.sparse import load_npz

    with zipfile.ZipFile(file) as archive:
        _check_entries(sum(member.file_size for member in archive.infolist()) / 8)
        names = archive.namelist()

    if "format.npy" in names:
        return load_npz(file)

    with np.load(file, allow_pickle=False) as arrays:
        (only,) = arrays.files
        return np.array(arrays[only], dtype=np.float64)


def _market(file: Path) -> Array | sparray:
    from scipy.io import mminfo, mmread

    rows, columns, entries, form, *_ = mminfo(file)
    _check_entries(rows * columns if form == "array" else entries)

    return mmread(file, spmatrix=False)


def _text(file: Path) -> Array:
    _check_entries(file.stat().st_size / 2)
    with file.open(encoding="utf-8") as lines:
        first = lines.readline()

    delimiter = next((mark for mark in ",;\t" if mark in first), None)
    return np.loadtxt(
        file, delimiter=delimiter, ndmin=2, encoding="utf-8", comments=None
    )


_READERS = {
    ".npy": _npy,
    ".npz": _npz,
    ".mtx": _market,
    ".mtx.gz": _market,
    ".csv": _text,
    ".tsv": _text,
}
