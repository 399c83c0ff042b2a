"""Parameters that may come from anybody: whole numbers, sizes, chances and arrays, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array
from noisewright.errors import FileFormatError, InvalidParameter, TooLarge, require
from noisewright.local.randomizer.whole_numbers import MOST_CELLS, WORD


def whole(name: str, value: object, least: int = 0, most: int = MOST_CELLS) -> int:
    """A whole number within its range; 2.5, true and "2" are none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidParameter(name, value, "must be a whole number")
    if not least <= value <= most:
        raise InvalidParameter(name, value, f"must lie in {least}..{most}")
    return int(value)


def listed(name: str, value: object) -> Sequence[object]:
    """A list; text and mappings, which can be run through as well, are none."""
    if not isinstance(value, list | tuple):
        raise InvalidParameter(name, value, "must be a list")
    return value


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Numbers of values of attributes whose cells can be numbered."""
    checked = tuple(whole("sizes", size, 1) for size in listed("sizes", sizes))
    require(checked, "sizes", checked, "must name one attribute at least")
    if prod(checked) > MOST_CELLS:
        raise TooLarge(
            f"a domain of {prod(checked):.3g} cells has no whole-number types"
        )
    return checked


def check_axes(name: str, axes: Sequence[int], attributes: int) -> tuple[int, ...]:
    """Some attributes, by number: each once and in order, so that tables have one layout."""
    checked = tuple(whole(name, axis, 0, attributes - 1) for axis in listed(name, axes))
    require(
        checked and not any(a >= b for a, b in pairwise(checked)),
        name,
        checked,
        "must be attributes in order, each once",
    )
    return checked


def check_weights(weights: Sequence[int], count: int) -> tuple[int, ...]:
    """Chances of `count` components out of 2^64: all positive, and exactly one together."""
    checked = tuple(
        whole("weights", weight, 1, WORD) for weight in listed("weights", weights)
    )
    require(
        len(checked) == count and sum(checked) == WORD,
        "weights",
        len(checked),
        f"must be {count} that sum to 2^64",
    )
    return checked


def stored(
    arrays: Mapping[str, Array],
    name: str,
    dtype: npt.DTypeLike,
    shape: tuple[int | None, ...],
) -> Array:
    """An array of a file, if it has the type and the shape (None: any length) that it must have."""
    array = arrays.get(name)
    if array is None:
        raise FileFormatError(f"the array {name!r} is missing")

    fits = len(array.shape) == len(shape) and all(
        extent in (None, length)
        for extent, length in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        raise FileFormatError(
            f"the array {name!r} holds {array.dtype} of shape {array.shape}, not "
            f"{np.dtype(dtype)} of shape {shape}"
        )

    return array
