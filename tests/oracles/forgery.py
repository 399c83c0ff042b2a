"""Files as someone might edit them: one field or array changed, everything else as it was."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

HUGE = (2**31, 2**53 + 1, 2**62, 2**63, 2**64, 10**30, 10**400, 1e308)
ODD = (None, True, "", "abc", "-1", [], {}, [0], [[[0]]], {"a": 1})
NUMBERS = (
    0,
    1,
    2,
    -1,
    -3,
    0.5,
    0.9,
    -0.0,
    1e-6,
    1e-320,
    5e-324,
    float("nan"),
    float("inf"),
)


def forged(header: Any, arrays: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A copy of a header and its arrays after one edit, or now and then two or three."""
    header, arrays = copy.deepcopy(header), dict(arrays)
    texts = [str((header.get("arrays") or {}).get("specification"))]
    for _ in range(1 + int(rng.integers(6) // 4) + int(rng.integers(10) // 9)):
        if texts[0] in arrays and rng.random() < 0.5:
            _edit_text(arrays, texts[0], rng)
        elif arrays and rng.random() < 0.4:
            _edit_arrays(arrays, rng)
        else:
            _edit_header(header, rng)
    return header, arrays


def _pick(choices: Any, rng: np.random.Generator) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every container in a tree with every key into it."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    found = [(node, key) for key in keys]
    for key in keys:
        if isinstance(node[key], dict | list):
            found += _places(node[key])
    return found


def _edit_header(header: Any, rng: np.random.Generator) -> None:
    # What decides on privacy is edited more often than names and times.
    decisive = isinstance(header.get("strategy"), dict) and rng.random() < 0.5
    places = _places(header["strategy"] if decisive else header)
    if not places:
        return
    node, key = _pick(places, rng)
    if rng.random() < 0.1:
        del node[key]
    elif rng.random() < 0.1:  # what stands elsewhere
        other, there = _pick(places, rng)
        node[key], other[there] = copy.deepcopy(other[there]), copy.deepcopy(node[key])
    else:
        node[key] = _edited(node[key], rng)


def _edit_text(arrays: Any, name: str, rng: np.random.Generator) -> None:
    """What clients do, as JSON in an array of bytes: edited as a tree, by whoever can read it."""
    try:
        document = json.loads(arrays[name].tobytes())
        _edit_header(document, rng)
        text = json.dumps(document)
    except (ValueError, TypeError, AttributeError):  # edited before
        return
    arrays[name] = np.frombuffer(text.encode(), dtype=np.uint8)


def _edited(value: Any, rng: np.random.Generator) -> Any:
    if rng.random() < 0.15:
        return copy.deepcopy(_pick(ODD + NUMBERS + HUGE, rng))
    if isinstance(value, bool) or value is None:
        return _pick((not value, *ODD), rng)
    if isinstance(value, int | float):
        half = value // 2 if isinstance(value, int) else value / 2
        near = (value + 1, value - 1, -value, 2 * value, half, 10 * value)
        floats = (value + 0.5, value * (1 + 1e-9)) if abs(value) < 1e300 else ()
        return _pick((*near, *near, *floats, str(value), [value], *NUMBERS, *HUGE), rng)
    if isinstance(value, str):
        return _edited_text(value, rng)
    if isinstance(value, list):
        return _edited_list(value, rng)
    return _pick((list(value), {}, None, {**value, "more": 1}), rng)


def _edited_text(text: str, rng: np.random.Generator) -> Any:
    if text.isdecimal() and rng.random() < 0.7:
        number = int(text)
        return _pick(
            (str(number + 1), str(number - 1), str(2 * number), number, "0", "-1"), rng
        )
    cut = int(rng.integers(len(text) + 1))
    swapped = text.replace("2", "3") if "2" in text else text[::-1]
    return _pick(
        (text[:cut], text + text, text[cut:] + text[:cut], swapped, text.upper(), 0),
        rng,
    )


def _edited_list(values: list[Any], rng: np.random.Generator) -> Any:
    if not values:
        return _pick(([0], [[0]], [None], 0), rng)
    at, to = (int(i) for i in rng.integers(len(values), size=2))
    swapped = list(values)
    swapped[at], swapped[to] = swapped[to], swapped[at]
    twice = [*values[:at], values[at], *values[at:]]
    return _pick(
        (values[:-1], values[:at], twice, values + values, swapped, [], [values]), rng
    )


def _edit_arrays(arrays: Any, rng: np.random.Generator) -> None:
    name = _pick(sorted(arrays), rng)
    kind = int(rng.integers(12))
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = arrays[_pick(sorted(arrays), rng)]
    elif kind in (2, 3):
        arrays[name] = _reshaped(arrays[name], rng)
    elif kind == 4:
        wanted = _pick(
            ("float64", "int64", "int32", "uint8", "uint64", "bool", "float32"), rng
        )
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = arrays[name].astype(wanted)
    else:
        arrays[name] = _with_entry(arrays[name], rng)


def _reshaped(array: Any, rng: np.random.Generator) -> Any:
    shuffled = array.copy()
    rng.shuffle(shuffled)
    return _pick(
        (array[:-1], array[..., :-1], array[None], array.ravel(), array[:0], array[::-1], array.T,
         np.concatenate([array, array]), np.concatenate([array, array[:1]]), shuffled),
        rng,
    )  # fmt: skip


def _with_entry(array: Any, rng: np.random.Generator) -> Any:
    """Some entries, or all, set to or moved by something."""
    if not array.size:
        return array
    edited = array.copy()
    flat = edited.reshape(-1)
    at = (
        slice(None)
        if rng.random() < 0.2
        else rng.integers(array.size, size=rng.integers(1, 3))
    )
    if array.dtype.kind == "b":
        flat[at] = ~flat[at]
    elif array.dtype.kind == "f":
        fixed = (0.0, -1.0, 0.9, 1e308, 1e-320, np.nan, np.inf)
        with np.errstate(over="ignore"):
            flat[at] = _pick((*fixed, -flat[at], 2 * flat[at]), rng)
    else:
        info = np.iinfo(array.dtype)
        ends = (
            0,
            1,
            2,
            3,
            info.min,
            info.max,
            info.max // 2,
            info.min // 2 - 1 & info.max,
        )
        with np.errstate(over="ignore"):
            near = (
                flat[at] + np.array(1, array.dtype),
                flat[at] - np.array(1, array.dtype),
            )
            moved = (*near, *near, flat[at] * np.array(2, array.dtype), ~flat[at])
            if array.dtype.kind == "i":
                moved = (*moved, -flat[at], flat[at] * 0 - 1)
        flat[at] = _pick((*ends, *moved), rng)
    return edited
