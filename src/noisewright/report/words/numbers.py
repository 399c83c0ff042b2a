"""Numbers and times as people read them, and the round numbers that scales are marked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil, floor, isfinite, log10

LEFT_OUT = "left out"
_MOST_DECIMALS = 6
"""After the point: errors below a millionth are told with a power of ten."""
_LEAST_DIGITS = 1  # after the point of an answer, for counts with errors of tens
# of an answer: a smaller error is that of floating point, and shows no digits
_ROUNDING = 1e-8
_WHOLE = 10  # from here on a short number has no digits after its point
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figure(value: float) -> str:
    """A number with as many digits as a reader can use."""
    if not isfinite(value):
        return LEFT_OUT
    if abs(value) >= 100:
        return _typeset(f"{value:,.0f}")
    return _typeset(f"{value:,.1f}") if abs(value) >= 10 else plain_number(value, 3)


def error_figure(value: float) -> str:
    """An error, without digits that nobody needs."""
    digits = decimals(value)
    return rounded(value, digits) if digits < 0 else figure(value)


def plain_number(value: float, digits: int = 6) -> str:
    """A number as one writes it by hand: 0.25, 10⁻⁹, 1.5·10⁻⁷."""
    number, _, power = f"{value:.{digits}g}".partition("e")
    if not power:
        return _typeset(number)
    raised = f"10{str(int(power)).translate(_RAISED)}"
    return raised if number == "1" else f"{_typeset(number)}·{raised}"


def decimals(error: float) -> int:
    """Digits after the point of an answer: the first two digits of its error are worth stating.

    Below zero, for errors of thousands, digits before the point are not: three are stated then.
    """
    if not isfinite(error) or error <= 0:
        return 0
    power = floor(log10(error))
    return 2 - power if power > 2 else min(max(1 - power, 0), _MOST_DECIMALS)


def answer_digits(answers: Iterable[float], errors: Iterable[float]) -> list[int]:
    """Digits after the point of answers that may be off by so much, at least one of each."""
    return [
        _LEAST_DIGITS
        if error < _ROUNDING * abs(answer)
        else max(_LEAST_DIGITS, decimals(error))
        for answer, error in zip(answers, errors, strict=True)
    ]


def rounded(value: float, digits: int) -> str:
    """A number with so many digits after the point; below zero, with so many noughts before it."""
    if not isfinite(value):
        return LEFT_OUT
    text = f"{round(value, digits) if digits < 0 else value:,.{max(digits, 0)}f}"
    return _typeset(text.removeprefix("-") if not text.strip("-0.") else text)


def with_error(value: float, error: float) -> str:
    """A number and how far off it may be, both to the digit that this allows."""
    if not isfinite(value + error) or error == 0:
        return figure(value)
    digits = decimals(error)
    return f"{rounded(value, digits)} ± {rounded(error, digits)}"


def brief_number(value: float) -> str:
    """A number in at most six characters, for the cells of a table and the marks of a scale."""
    if not isfinite(value):
        return ""

    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 9.9995 * unit:
            scaled = value / unit
            text = (
                f"{scaled:.0f}{name}" if abs(scaled) >= 100 else f"{scaled:.3g}{name}"
            )
            return _typeset(text)

    return _typeset(f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.2g}")


def mark_texts(values: Sequence[float]) -> list[str]:
    """Marks of a scale: short, with as many digits as it takes to tell neighbours apart."""
    texts = [brief_number(value) for value in values]
    step = values[1] - values[0] if len(values) > 1 else 0.0
    told = len(set(texts)) == len(texts)
    if step <= 0 or (told and (step >= 1 or max(map(abs, values)) < _WHOLE)):
        return texts

    digits = max(0, ceil(-log10(step) - 1e-9))
    return [rounded(value, digits) for value in values]


def percent_above(value: float) -> str:
    """A probability in per cent, rounded up: what it bounds stays bounded."""
    return f"{ceil(value * 1000 - 1e-9) / 10:g}\u00a0%"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends, evenly apart."""
    if not high > low:
        return [low]

    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first = ceil(low / step - 1e-9)
    last = floor(high / step + 1e-9)

    return [k * step for k in range(first, last + 1)]


def moment_in_words(time: str) -> str:
    """A moment as a record states it, in words; what is no moment stays as it is."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return time
    zone = "UTC" if moment.utcoffset() is not None and not moment.utcoffset() else ""

    return f"{moment.day} {moment:%B %Y, %H:%M} {zone}".rstrip()


def _typeset(text: str) -> str:
    """With the sign that is as wide as a plus."""
    return f"−{text[1:]}" if text.startswith("-") else text
