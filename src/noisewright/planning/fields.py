"""Plain fields of a plan file's header: of the right kind, or refused."""

from __future__ import annotations

from collections.abc import Mapping

from noisewright.errors import FileFormatError

_LONGEST = 1000
_LEAST, _MOST = 1e-200, 1e200
"""Beyond these, squares of numbers leave the range of floats."""


def stored_text(header: Mapping[str, object], name: str) -> str:
    """A text, and not a book."""
    value = header[name]
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise FileFormatError(f"the field {name!r} of the plan is no text; plan again")
    return value


def stored_number(
    header: Mapping[str, object], name: str, least: float = 0.0, most: float = _MOST
) -> float:
    """A number between two ends."""
    value = header[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise FileFormatError(f"the field {name!r} of the plan is no such number; plan again")
    return float(value)


def stored_positive(header: Mapping[str, object], name: str) -> float:
    """A finite number above zero."""
    return stored_number(header, name, _LEAST)


def stored_sizes(value: object) -> tuple[int, ...]:
    """Whole numbers, none negative: sizes of attributes, or their positions."""
    if not isinstance(value, list) or any(type(n) is not int or n < 0 for n in value):
        raise FileFormatError("a list of whole numbers in the plan is none; plan again")
    return tuple(value)
