"""Numbers as people read them, and the round numbers that scales are marked at."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10

LEFT_OUT = "left out"


def figure(value: float) -> str:
    """A number with as many digits as a reader can use."""
    if not isfinite(value):
        return LEFT_OUT
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def brief(value: float) -> str:
    """The same in at most five characters, for the cells of a table."""
    if not isfinite(value):
        return ""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 9.9995 * unit:
            scaled = value / unit
            return f"{scaled:.0f}{name}" if abs(scaled) >= 100 else f"{scaled:.3g}{name}"
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def share(value: float) -> str:
    """A probability in per cent, rounded up: what it bounds stays bounded."""
    return f"{ceil(value * 1000 - 1e-9) / 10:g} %"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends, evenly apart."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
