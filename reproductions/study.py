"""What a figure is: rows that are computed once and kept, remarks, and how it is drawn.

A run that was cut short goes on, since its rows are in a file.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from noisewright.errors import FileFormatError
from noisewright.files import write_text
from noisewright.stages import stage

Value = str | float
Row = dict[str, Value]


@dataclass
class Study:
    """The rows of one figure, kept in a CSV file; `keys` are the columns that name a row."""

    path: Path
    keys: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.rows = list(_read(self.path, self.keys))

    def row(
        self, key: Mapping[str, Value], compute: Callable[[], Mapping[str, Value]]
    ) -> Row:
        """The row of a key: as it was kept, or computed now and kept."""
        wanted = {name: _text(value) for name, value in key.items()}
        for known in self.rows:
            if all(_text(known[name]) == text for name, text in wanted.items()):
                return known

        stage(", ".join(f"{name} {text}" for name, text in wanted.items()))
        row = {**key, **compute()}
        self.rows.append(row)
        self._write()

        return row

    def _write(self) -> None:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        lines = [
            names,
            *([_text(row.get(name, "")) for name in names] for row in self.rows),
        ]
        write_text(
            self.path, "".join(",".join(map(_quoted, line)) + "\n" for line in lines)
        )

    def series(
        self, x: str, y: str, by: str, **fixed: Value
    ) -> dict[str, list[tuple[float, float]]]:
        """Points of one quantity against another, by the value of a third."""
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in self.rows:
            if any(
                _text(row.get(name, "")) != _text(value)
                for name, value in fixed.items()
            ):
                continue
            if row.get(y, "") != "":
                lines.setdefault(str(row[by]), []).append(
                    (float(row[x]), float(row[y]))
                )

        return {name: sorted(points) for name, points in lines.items()}


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.9g}"


def _quoted(text: str) -> str:
    return f'"{text}"' if "," in text else text


def _read(path: Path, keys: Iterable[str]) -> Iterable[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames is None or not set(keys) <= set(reader.fieldnames):
            raise FileFormatError(f"{path}: holds no rows of this figure; move it away")
        for row in reader:
            yield {name: _value(text) for name, text in row.items() if name is not None}


def _value(text: str | None) -> Value:
    try:
        return float(text or "")
    except ValueError:
        return text or ""


@dataclass(frozen=True)
class Settings:
    """How a figure is made: small sizes in minutes, or the paper's own."""

    folder: Path
    quick: bool = False
    paper: bool = False
    data: Path | None = None
    """Where data sets of the paper lie; made-up ones stand in without."""


@dataclass(frozen=True)
class Drawing:
    """How the rows of a figure are drawn: one panel for each value of `panels`."""

    x: str
    y: str
    lines: str
    panels: str
    logarithmic: bool = True


@dataclass(frozen=True)
class Figure:
    """One figure of a paper."""

    name: str
    summary: str
    keys: tuple[str, ...]
    compute: Callable[[Study, Settings], None]
    remarks: Callable[[Study], list[str]]
    drawing: Drawing


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares in logarithms, of points above zero."""
    positive = [(x, y) for x, y in points if y > 0]
    if len(positive) < 2:
        return float("nan")
    x, y = np.log(np.array(positive)).T
    return float(np.polyfit(x, y, 1)[0])
