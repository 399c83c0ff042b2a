"""Places on a scale, in per cent of its frame, so that text keeps its size on any screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noisewright.report.words.numbers import brief, ticks


@dataclass(frozen=True)
class Place:
    """A label or mark; a spare one is left out where there is little room."""

    at: float
    text: str = ""
    spare: bool = False


class Scale:
    """Numbers to per cent; what lies beyond an end is put there."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high if high > low else low + 1

    def __call__(self, value: float) -> float:
        return round(
            100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 3
        )

    def marks(self, most: int) -> tuple[Place, ...]:
        """Round numbers on the scale."""
        return marked(self, ticks(self.low, self.high, most))


def marked(
    scale: Callable[[float], float],
    values: Sequence[float],
    text: Callable[[float], str] = brief,
) -> tuple[Place, ...]:
    """Marks at values; where more than four do not fit, every other one goes."""
    return tuple(
        Place(scale(value), text(value), spare=len(values) > 4 and k % 2 == 1)
        for k, value in enumerate(values)
    )
