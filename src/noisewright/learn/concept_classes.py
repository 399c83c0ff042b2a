"""Concept classes: finitely many ways to label finitely many points with −1 or +1.

A class is a table with a row per concept and a column per point, from text, a matrix or predicates.
A person holds a point and a label; the loss of a concept is the share of people whom it mislabels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import isnan
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray, SignArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, TooLarge, require, unknown_name

Predicate = Callable[[Any], object]

MOST_ENTRIES = 2**25
"""Largest table of concepts × points that is written out."""

_MOST_POINTS = 2**20  # of a class that is named: beyond, its matrix is never held
FORMS = "thresholds:128 intervals:128 parities:8 conjunctions:8 monotone-conjunctions:8"


@dataclass(frozen=True, eq=False)
class ConceptClass(Shown):
    """Concepts as rows of −1 and +1, one column per point; `names` tell concepts to people.

    `text` is the class's own text form, where it has one, and `points` what the columns stand for,
    where that is not 0, 1, 2, … `numbers` are the rows that the concepts had in the class they were
    taken from, where that is another.
    """

    table: SignArray
    names: tuple[str, ...]
    text: str | None = None
    points: tuple[Hashable, ...] | None = None
    numbers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        table = self.table
        points = self.points
        numbers = self.numbers

        if table.ndim != 2 or 0 in table.shape:
            rule = "must hold at least one concept and one point, a row per concept"
            raise InvalidParameter("concepts", f"shape {table.shape}", rule)

        if table.dtype != np.int8 or not (np.abs(table) == 1).all():
            raise InvalidParameter(
                "concepts", f"shape {table.shape}", "must label with −1 and +1"
            )
        if len(self.names) != len(table):
            raise InvalidParameter("names", len(self.names), f"must be {len(table)}")

        if (
            points is not None
            and not len(points) == _different(points) == table.shape[1]
        ):
            rule = f"must be {table.shape[1]}, one for each column, all different"
            raise InvalidParameter("points", len(points), rule)

        if numbers is not None and not _rising(numbers, len(table)):
            raise InvalidParameter(
                "numbers", len(numbers), f"must be {len(table)} rows, in order"
            )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("class", self.title),
            ("concepts", f"{self.count:,}"),
            ("points", f"{self.size:,}"),
        ]

    @property
    def title(self) -> str:
        """The text form, or what kind of thing it is."""
        return self.text or "a class of its own"

    @property
    def count(self) -> int:
        """How many concepts there are."""
        return len(self.table)

    @property
    def size(self) -> int:
        """How many points there are."""
        return int(self.table.shape[1])

    @property
    def matrix(self) -> FloatArray:
        """The table as real numbers: q_c(a, b) = b·c(a) over points."""
        return self.table.astype(np.float64)

    def distinct(self) -> ConceptClass:
        """The same class, with every concept once."""
        _, first = np.unique(self.table, axis=0, return_index=True)
        if len(first) == self.count:
            return self

        kept = np.sort(first).tolist()
        return replace(
            self,
            table=self.table[kept],
            names=tuple(self.names[k] for k in kept),
            numbers=tuple(self.number(k) for k in kept),
        )

    def number(self, row: int) -> int:
        """The row that a concept had in the class this one was taken from."""
        return row if self.numbers is None else self.numbers[row]

    @cached_property
    def _places(self) -> dict[Hashable, int] | None:
        return (
            None if self.points is None else {p: k for k, p in enumerate(self.points)}
        )

    def columns(self, points: Iterable[object] | npt.ArrayLike) -> IntArray:
        """The columns that points stand for; what a point is never appears in an error."""
        if self._places is None:
            return columns_below(self.size, points)

        try:
            found = np.array(
                [self._places.get(p, -1) for p in listed_points(points)], dtype=np.int64
            )
        except TypeError:
            rule = "must be a list of points of the class"
            raise InvalidParameter("points", type(points).__name__, rule) from None

        return _within(self.size, found)

    def losses(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
        """The share of people whom each concept mislabels; for tests and public data only."""
        at = self.columns(points)
        signs = label_signs(labels)
        require(
            len(at) == len(signs) and len(at),
            "labels",
            len(signs),
            f"must be one for each of {len(at)} points",
        )

        total = np.bincount(at, weights=signs, minlength=self.size)
        return np.asarray((1 - self.matrix @ total / len(at)) / 2)


def listed_points(points: Any) -> tuple[Hashable, ...]:
    """Points as Python has them: entries of an array as plain values, its rows as tuples."""
    if not isinstance(points, np.ndarray):
        return tuple(p.item() if isinstance(p, np.generic) else p for p in points)
    return (
        tuple(map(tuple, points.tolist()))
        if points.ndim == 2
        else tuple(points.tolist())
    )


def columns_below(size: int, points: Iterable[object] | npt.ArrayLike) -> IntArray:
    """Points that are the numbers of columns themselves, of a class of so many."""
    numbers = np.asarray(points)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        rule = "must be a list of whole numbers, the columns of the class"
        raise InvalidParameter("points", f"{numbers.dtype} {numbers.shape}", rule)
    return _within(size, numbers.astype(np.int64))


def _within(size: int, found: IntArray) -> IntArray:
    require(
        not ((found < 0) | (found >= size)).any(),
        "points",
        f"{len(found)} of them",
        "must all be of the class",
    )
    return found


def _different(points: tuple[Hashable, ...]) -> int:
    """How many different points there are; NaN is none, for nobody is ever found at it."""
    try:
        return len({p for p in points if not (isinstance(p, float) and isnan(p))})
    except TypeError:
        rule = "must be text, numbers or tuples of them"
        raise InvalidParameter("points", len(points), rule) from None


def _rising(numbers: tuple[int, ...], count: int) -> bool:
    """Whether these can be the rows of so many concepts, in their order."""
    steps = zip((-1, *numbers), numbers, strict=False)
    return len(numbers) == count and all(before < after for before, after in steps)


Concepts: TypeAlias = "ConceptClass | str | npt.ArrayLike | Sequence[Predicate]"
"""A class, its text form, a matrix of labels (±1 or booleans), or predicates over points."""


def concepts(
    source: Concepts, points: Iterable[Hashable] | None = None
) -> ConceptClass:
    """A concept class from text, a matrix with a row per concept, or predicates over `points`.

    A matrix holds −1 and +1, or booleans. A predicate is a function of a point, true for +1.
    """
    if isinstance(source, ConceptClass | str):
        if points is not None:
            rule = "cannot be given with a class that has its own points"
            raise InvalidParameter(
                "points", "given", rule, "leave them out, or give predicates"
            )
        return _from_text(source) if isinstance(source, str) else source

    held = None if points is None else listed_points(points)
    if hasattr(source, "shape"):
        return _from_matrix(np.asarray(source), held)

    given: list[Any] = list(source)  # type: ignore[arg-type]
    require(given, "concepts", 0, "must not be empty", "give one concept at least")
    if all(callable(each) for each in given):
        return _from_predicates(given, held)

    return _from_matrix(np.asarray(given), held)


def label_signs(labels: npt.ArrayLike) -> SignArray:
    """Labels as −1 and +1; booleans stand for themselves. No label appears in an error."""
    given = np.asarray(labels)
    if given.ndim == 1 and given.dtype == np.bool_:
        return np.where(given, 1, -1).astype(np.int8)

    if (
        given.ndim != 1
        or given.dtype.kind not in "iuf"
        or not (np.abs(given) == 1).all()
    ):
        shape = f"{given.dtype} {given.shape}"
        raise InvalidParameter(
            "labels", shape, "must be a list of −1 and +1, or of booleans"
        )

    return given.astype(np.int8)


def _from_matrix(given: Array, points: tuple[Hashable, ...] | None) -> ConceptClass:
    require(
        given.ndim == 2 and 0 not in given.shape,
        "concepts",
        f"shape {given.shape}",
        "must have a row per concept",
    )

    _check_entries(*given.shape)
    if given.dtype == np.bool_:
        table = np.where(given, 1, -1).astype(np.int8)
    elif given.dtype.kind in "iuf" and (np.abs(given) == 1).all():
        table = given.astype(np.int8)
    else:
        raise InvalidParameter(
            "concepts", str(given.dtype), "must hold −1 and +1, or booleans"
        )

    return ConceptClass(
        table, tuple(f"concept {k}" for k in range(len(table))), points=points
    )


def _from_predicates(
    predicates: Sequence[Predicate], points: tuple[Hashable, ...] | None
) -> ConceptClass:
    if not points:
        raise InvalidParameter(
            "points", 0, "must be given with predicates", "list all of them"
        )

    _check_entries(len(predicates), len(points))
    table = np.array([[bool(says(p)) for p in points] for says in predicates])
    names = []

    for k, says in enumerate(predicates):
        name = getattr(says, "__name__", "")
        names.append(name if name and name != "<lambda>" else f"concept {k}")

    return ConceptClass(
        np.where(table, 1, -1).astype(np.int8), tuple(names), points=points
    )


def _check_entries(rows: int, columns: int) -> None:
    if rows * columns > MOST_ENTRIES:
        raise TooLarge(
            f"{rows:,} concepts on {columns:,} points are too many to be written out (limit "
            f"{MOST_ENTRIES:,} labels); learn a smaller class, or ask statistical queries"
        )


def _from_text(text: str) -> ConceptClass:
    kind, _, number = text.strip().partition(":")
    if kind not in _KINDS:
        raise unknown_name(
            "concepts", kind, "is no class of concepts", _KINDS, "for example"
        )

    require(
        number.isascii()
        and number.isdecimal()
        and 1 <= int(number[:9]) <= _MOST_POINTS,
        "concepts",
        text,
        f"must end in a count, as in {FORMS}",
    )

    true, names = _KINDS[kind](int(number))
    table = np.where(true, 1, -1).astype(np.int8)
    return ConceptClass(table, names, text=f"{kind}:{int(number)}")


_Listed = tuple[BoolArray, tuple[str, ...]]


def _thresholds(n: int) -> _Listed:
    """+1 below each of n + 1 thresholds."""
    _check_entries(n + 1, n)
    true = np.arange(n) < np.arange(n + 1)[:, None]
    return true, tuple(f"point < {t}" for t in range(n + 1))


def _intervals(n: int) -> _Listed:
    """+1 inside each interval, and the empty one."""
    _check_entries(n * (n + 1) // 2 + 1, n)
    first, last = np.triu_indices(n)
    at = np.arange(n)
    true = (at >= first[:, None]) & (at <= last[:, None])

    names = [
        f"{a} <= point <= {b}"
        for a, b in zip(first.tolist(), last.tolist(), strict=True)
    ]

    return np.vstack([np.zeros((1, n), bool), true]), ("nowhere", *names)


def _bits(d: int) -> IntArray:
    """All points of {0,1}^d, the first bit the most significant; a row per point."""
    if d > 20:
        raise TooLarge(f"{d} bits have 2^{d} points; the limit is 20")
    return np.arange(2**d)[:, None] >> np.arange(d - 1, -1, -1) & 1


def _parities(d: int) -> _Listed:
    """+1 where an odd number of chosen bits is set."""
    _check_entries(2 ** min(d, 40), 2 ** min(d, 40))
    bits = _bits(d)
    names = [_joined(row, " xor ", "never") for row in bits]
    return (bits @ bits.T % 2).astype(bool), tuple(names)


def _monotone(d: int) -> _Listed:
    """+1 where all chosen bits are set."""
    _check_entries(2 ** min(d, 40), 2 ** min(d, 40))
    bits = _bits(d)
    names = [_joined(row, " and ", "always") for row in bits]
    return (bits @ (1 - bits.T)) == 0, tuple(names)


def _conjunctions(d: int) -> _Listed:
    """+1 where every chosen bit is set, or not set, as chosen."""
    _check_entries(3 ** min(d, 30), 2 ** min(d, 40))
    bits = _bits(d)

    wanted = np.array(list(product((0, 1, -1), repeat=d)))
    missed = (wanted == 1).astype(np.int64) @ (1 - bits.T)
    missed += (wanted == -1).astype(np.int64) @ bits.T

    signs = {1: "bit {}", -1: "not bit {}"}
    names = [
        " and ".join(signs[w].format(k + 1) for k, w in enumerate(row) if w) or "always"
        for row in wanted.tolist()
    ]

    return missed == 0, tuple(names)


def _joined(chosen: IntArray, word: str, none: str) -> str:
    return word.join(f"bit {k + 1}" for k in np.flatnonzero(chosen)) or none


_KINDS: dict[str, Callable[[int], _Listed]] = {
    "thresholds": _thresholds,
    "intervals": _intervals,
    "parities": _parities,
    "conjunctions": _conjunctions,
    "monotone-conjunctions": _monotone,
}
