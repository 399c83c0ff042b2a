"""Vector randomizers over a public list of directions: one-bit [000, 032] and PrivUnit [033].

People hold unit vectors, the padded columns of a factorization. A person's *own* directions are
those that point towards their vector: one of each pair ±g (one-bit), or the nearest few of all
(PrivUnit). The report is the number of a direction, e^ε times likelier for an own one. Directions
and vectors are whole numbers, so that everybody agrees on who owns what; and with the list fixed,
reports are decoded by least squares, which is unbiased for the list at hand and better than
averaging directions.

The vectors that people hold: columns of a factorization of the workload, as whole numbers.

The number of people is public, so a workload is factorized up to a shift of every query, and only
differences between columns matter (replace-one neighbours).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp
from typing import Literal, Self

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.information import centred
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.histogram.centred import FavouringStrategy
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Favour, Rows
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored, whole_number
from noisewright.local.strategy import (
    DENSE_SIZE,
    LARGEST_VECTOR,
    IndexStrategy,
    check_dense,
)
from noisewright.norm.factorize import factorize
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.workload.base import Workload

Randomizer = Literal["one-bit", "privunit"]

_VECTOR_STEPS = 2**20
"""Grid steps to a vector's length: with those of directions, products stay below 2^53."""

_DIRECTION_STEPS = 2**11
"""Grid steps to one standard deviation of a coordinate of a direction."""

_FEWEST = 1024
"""Directions at least: for ranges:32 half as many cost up to 8 %, twice as many gain up to 5 %."""

_MOST = 2**14
"""Directions at most: rows of a specification that clients hold."""

_OWNED_ENTRIES = 2**23
"""Directions times types: 8 MiB of who owns what."""

_SEED = 20
"""Any number would do; it is public, and plans store the directions."""

_TRANSLATED = 8
"""Directions that are translated over the whole domain."""


@dataclass(frozen=True, eq=False)
class Codebook(FavouringStrategy, IndexStrategy):
    """Report an outcome, likelier one of your own: one row of `owned` for every type."""

    owned: BoolArray
    epsilon: float

    kind = "codebook"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_dense(self.size)

    @classmethod
    def of(
        cls, vectors: IntArray, directions: IntArray, epsilon: float, chosen: int = 0
    ) -> Codebook:
        """Outcomes are directions, one row each, for the columns of `vectors`, one a type.

        With `chosen` = 0 directions are taken with both signs, and every type owns one of each
        pair; otherwise the `chosen` ones with the largest product, of equal ones the first.
        """
        for name, given in (("vectors", vectors), ("directions", directions)):
            numbers = given.dtype == np.int64 and given.ndim == 2 and given.size > 0
            require(numbers, name, f"{given.dtype}", "must be rows of whole numbers")

        coordinates = len(vectors)
        fits = directions.shape[1] == coordinates
        rule = f"must have {coordinates} coordinates"
        require(fits, "directions", directions.shape, rule)

        # Below 2^53, so that products of whole numbers are exact in double precision.
        largest = coordinates * _farthest(vectors) * _farthest(directions)
        rule = "are too long for exact products"
        require(largest < 2**53, "vectors", vectors.shape, rule)

        whole_number("chosen", chosen, 0, len(directions) - 1)
        held = vectors.T.astype(np.float64)
        products = held @ directions.T.astype(np.float64)
        if not chosen:
            return cls(np.hstack([products >= 0, products < 0]), epsilon)

        return cls(_largest(products, chosen), epsilon)

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.owned)

    @property
    def favoured(self) -> tuple[int, int]:
        """Own directions of every type."""
        return int(self.owned[0].sum()), self.owned.shape[1]

    def express(self, nodes: Nodes) -> int:
        return nodes.favour(self.threshold, Rows.of(self.owned))

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        match stored.node(Favour).owner:
            case Rows() as rows:
                return cls(rows.owned, stored.epsilon)
            case owner:
                kind = type(owner).__name__
                raise InvalidParameter("owner", kind, "must be rows of a codebook")


def _largest(products: FloatArray, count: int) -> BoolArray:
    """The largest entries of every row, of equal ones the first: no row is sorted for it."""
    last = products.shape[1] - count
    ordered = np.partition(products, last, axis=1)
    least = ordered[:, last, None]
    beyond = products > least
    equal = products == least
    missing = count - beyond.sum(axis=1, keepdims=True)
    first = equal & (equal.cumsum(axis=1) <= missing)

    return np.asarray(beyond | first)


def _farthest(entries: IntArray) -> int:
    """The largest magnitude; −2^63 has none among 64-bit numbers."""
    return max(int(entries.max()), -int(entries.min()))


def _unit_vectors(workload: Workload) -> IntArray:
    """Columns of a factorization, padded to equal length, as whole numbers."""
    return padded_vectors(factor_columns(workload))


def padded_vectors(columns: FloatArray) -> IntArray:
    """Columns padded to equal length by one more coordinate, as whole numbers."""
    lengths = np.linalg.norm(columns, axis=0)
    longest = float(lengths.max())
    require(longest > 0, "columns", "zero", "must differ", "ask more than totals")

    padding = np.sqrt(np.maximum(longest**2 - lengths**2, 0.0))
    if padding.max() > 1e-9 * longest:
        columns = np.vstack([columns, padding])

    return whole_columns(columns, longest, _VECTOR_STEPS)


def directions(coordinates: int, count: int) -> IntArray:
    """Gaussian directions on a grid, from a fixed public seed; plans store them."""
    normals = _gaussian(count, coordinates)
    return np.rint(normals * _DIRECTION_STEPS).astype(np.int64)


def _gaussian(rows: int, columns: int) -> FloatArray:
    """Numbers that everybody agrees on."""
    return np.random.default_rng(_SEED).standard_normal((rows, columns))


def _count(coordinates: int, size: int) -> int:
    """Enough directions to see every coordinate well, within the memory of a small machine."""
    wanted = min(max(16 * coordinates, _FEWEST), _MOST)
    within = min(wanted, _OWNED_ENTRIES // size)
    return int(max(4 * coordinates, within))


def codebook(
    vectors: IntArray, epsilon: float, randomizer: Randomizer, fewest: int = 1
) -> Codebook:
    """Directions for these vectors: one of each pair ±g is a person's own, or the nearest few.

    The nearest few are at least `fewest`: people who own the same ones are not told apart.
    """
    check_epsilon(epsilon)
    coordinates, size = vectors.shape
    count = _count(coordinates, size)
    if randomizer == "one-bit":
        pairs = directions(coordinates, count // 2)
        return Codebook.of(vectors, pairs, epsilon)

    best = round(count / (1 + exp(epsilon)))
    chosen = max(fewest, min(best, count // 2))
    every = directions(coordinates, count)
    return Codebook.of(vectors, every, epsilon, chosen)


def one_bit(workload: Workload, epsilon: float) -> IndexStrategy:
    """The randomised sign of the product with a public random direction."""
    check_epsilon(epsilon)
    if workload.size > DENSE_SIZE:
        positive = _projections(workload, _TRANSLATED // 2)
        signs = positive.fields >= 0
        return positive.strategy(np.concatenate([signs, ~signs]), epsilon)

    return codebook(_unit_vectors(workload), epsilon, "one-bit")


def privunit(workload: Workload, epsilon: float) -> IndexStrategy:
    """A direction near the person's vector, or one of the others."""
    check_epsilon(epsilon)
    if workload.size > DENSE_SIZE:
        from noisewright.local.histogram.sets import best_subset_size, top_cells

        near = _projections(workload, _TRANSLATED)
        count = best_subset_size(workload.size, epsilon)
        return near.strategy(top_cells(near.fields, count), epsilon)

    return codebook(_unit_vectors(workload), epsilon, "privunit")


@dataclass(frozen=True, eq=False)
class _Projections:
    """Products of all types' vectors with a few directions, on a domain whose cells are alike.

    Translating the domain turns directions into further directions, so a few of them with all
    their translates make a list long enough for any number of types, and one known by transforms.
    """

    sizes: tuple[int, ...]
    fields: FloatArray

    def strategy(self, patterns: BoolArray, epsilon: float) -> IndexStrategy:
        """Report a direction and a translation, likelier one that points towards the vector."""
        from noisewright.local.transform.orbits import OrbitStrategy

        shares = np.full(len(patterns), 1.0 / len(patterns))
        return OrbitStrategy.from_patterns(self.sizes, patterns, shares, epsilon)


def _projections(workload: Workload, count: int) -> _Projections:
    """Gaussian directions against the columns of (PMP)^{1/4}, the least-error vectors."""
    from noisewright.local.transform.invariants import (
        character_energies,
        possible_groups,
    )

    gram = table_gram(workload)
    if workload.size <= LARGEST_VECTOR:
        for group in possible_groups(gram):
            energies = character_energies(gram, group)
            if energies is not None:
                energies[0] = 0.0
                roots = np.maximum(energies, 0) ** 0.25
                noise = _gaussian(count, workload.size)
                return _Projections(group.sizes, group.apply(roots, noise))

    raise TooLarge(
        f"vectors over {workload.size:.3g} cells are too many, unless the workload treats all "
        f"cells alike; the limit is {DENSE_SIZE}"
    )


ONE_BIT = LocalMechanism(
    "one-bit",
    "the sign of a random projection",
    lambda problem: one_bit(problem.questions, problem.epsilon),
    slow=lambda cells: cells > 256,
)

PRIVUNIT = LocalMechanism(
    "privunit",
    "a random direction near a vector",
    lambda problem: privunit(problem.questions, problem.epsilon),
    slow=lambda cells: cells > 512,
)


# --- held columns ---------------------------------------------------------------------------------


RESOLUTION = 2**28
"""Grid steps to the largest distance between columns: what rounding leaves out of reach of the
workload is then a few billionths of it, below what double precision would lose anyway."""

_MARGIN = 1 + Fraction(1, 10**9)
"""Above the rounding of squared distances: 4(r + 3)·2^-53 of the largest, for r ≤ 2^19 rows."""

_SHIFTED = 128
"""Cells up to which free shifts are used."""

_FACTORIZED = 1024
"""Cells up to which a factorization is sought; beyond, (PMP)^{1/4} stands in its place."""


# several mechanisms over one workload are built one after the other
@lru_cache(maxsize=4)
def factor_columns(workload: Workload) -> FloatArray:
    """Columns of a least-error strategy, centred; read only."""
    n = workload.size
    if n > DENSE_SIZE:
        raise TooLarge(
            f"vectors over {n} cells are too many; the limit is {DENSE_SIZE}"
        )

    if n <= _FACTORIZED:
        neighbours = "replace-one" if n <= _SHIFTED else "add-remove"
        columns = factorize(
            workload, norm=2, neighbours=neighbours, tolerance=1e-3
        ).strategy.dense()
    else:
        columns = _fourth_root(workload)

    # An orthonormal basis of what the columns span: fewer coordinates, same distances.
    differences = columns - columns.mean(axis=1, keepdims=True)
    values, rows = _spectrum(differences.T @ differences)
    rounding = 1e-20 * float(np.abs(columns).max()) ** 2
    if not len(values) or values[-1] <= rounding:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "asks for totals only, which follow from the number of people",
            "ask for something that differs between people",
        )

    result = np.asarray(np.sqrt(values)[:, None] * rows)
    result.setflags(write=False)

    return result


def _spectrum(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues that are more than rounding, and eigenvectors as rows."""
    values, vectors = np.linalg.eigh(matrix)
    least = 1e-12 * max(values[-1], np.finfo(float).tiny)
    support = values > least
    return values[support], vectors[:, support].T


def _fourth_root(workload: Workload) -> FloatArray:
    """(PMP)^{1/4}: the optimum when all cells are alike, and near it when they are not."""
    m = centred(workload.gram().dense())
    values, rows = _spectrum((m + m.T) / 2)
    return np.asarray(values[:, None] ** 0.25 * rows)


def whole_columns(
    columns: FloatArray, largest: float, resolution: int = RESOLUTION
) -> IntArray:
    """Columns on a grid that gives `largest` (a distance between columns) that many steps."""
    return np.rint(columns * (resolution / largest)).astype(np.int64)


def largest_distance(columns: FloatArray | IntArray, order: int) -> float:
    """Largest ℓ1 or ℓ2 distance between two columns; of whole numbers never understated.

    Columns are taken from the first one: what all of them share costs no digits then, for none is
    longer than the largest distance, and rounding is a share of that. ℓ1 of whole numbers is exact.
    """
    moved = columns - columns[:, :1]
    if order == 2:
        values = moved.astype(np.float64)  # exact: whole numbers here are below 2^50
        squares = (values**2).sum(axis=0)
        distances = squares[:, None] + squares - 2 * values.T @ values
        largest = max(float(distances.max()), 0.0)
        return root_above(Fraction(largest) * _MARGIN)

    farthest = 2 * len(moved) * int(np.abs(moved).max())
    if moved.dtype.kind == "i" and farthest >= 2**62:
        moved = moved.astype(object)

    sums = [np.abs(moved - column[:, None]).sum(axis=0).max() for column in moved.T]
    return float_above(Fraction(max(sums)))
