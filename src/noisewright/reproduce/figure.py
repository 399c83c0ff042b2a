"""What a figure is: rows that are computed, remarks about them, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noisewright.reproduce.study import Study


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
