"""What so many people cannot be told privately: packing bounds [004, Lemma 2.2], and widths.

Data sets that put m people into one of M cells, and all others into a base cell, are pairwise at
most m replacements apart. If their answers are pairwise farther than 2t apart, no ε-private answers
can be within t of the truth on all of them with probability above e^(εm)/M on average, so that some
data set has a mean square error of at least t²(1 - e^(εm)/M).

Packings of tables over many binary attributes: Hadamard columns times codes [004, Theorem 7.3].

Attributes are w blocks, and a query has one of each (or is left out). In the first block, people
have a word of a code whose words differ in at least δ places; in each of the others, the places
where a column of a Hadamard matrix is +1. Every sequence s of columns gets `copies` of one word
f(s), and functions f are themselves words of a code, of as many letters as there are words, that
differ in at least Δ places. Products of different columns are orthogonal, so that answers to two
such data sets differ by copies²·4^(1-w)·Δ·order^(w-1)·δ at least, squared and added up, while
copies people for each of s differ at most. How many words there are is what Gilbert and Varshamov
prove, so none is written down, nor any cell: attributes may be hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import comb, exp, floor, inf, lgamma, log, sqrt

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.problem import CentralProblem
from noisewright.errors import require
from noisewright.workload import Identity, Workload
from noisewright.workload.kinds.conjunctions import Conjunctions
from noisewright.workload.kinds.marginals import Marginals

_MOST_ENTRIES = 2**24  # of the columns of all cells, which are written out: 128 MB
_MOST_PACKED = 4096  # cells: the bound grows with their logarithm alone
_MOST_WORK = 2**32  # numbers that are looked at in choosing them
_ROUNDING = 1e-12  # of squared lengths: nearer columns are the same
# far above the rounding of distances and of logarithms
_LESS = 1 - 1e-9  # far above the rounding of distances


@dataclass(frozen=True, eq=False)
class Packing:
    """Cells whose columns lie apart, and how many people are put into one of them.

    The bound is worked out from these alone, whoever chose them.
    """

    cells: IntArray
    moved: int

    def bound(
        self,
        workload: Workload,
        epsilon: float,
        steps: int,
    ) -> float:
        """A root mean square error that some data set has, under every ε-private mechanism.

        `steps` is how many neighbours apart a replacement is: one, or two where one is removed and
        another added.
        """
        columns = _columns(workload, self.cells)
        squares = (columns**2).sum(axis=1)
        apart = squares[:, None] + squares - 2 * columns @ columns.T
        np.fill_diagonal(apart, np.inf)
        require(
            len(set(self.cells.tolist())) >= max(2, len(self.cells))
            and self.moved >= 1,
            "cells",
            len(self.cells),
            "must be two different ones or more",
        )

        distance = self.moved * sqrt(max(0.0, float(apart.min())) / workload.queries)
        chance = exp(
            min(
                700.0,
                epsilon * steps * self.moved - log(len(self.cells)),
            )
        )

        return distance / 2 * sqrt(max(0.0, 1 - chance)) * _LESS


def _columns(workload: Workload, cells: IntArray) -> FloatArray:
    chosen = np.zeros((workload.size, len(cells)))
    chosen[cells, np.arange(len(cells))] = 1.0
    return np.asarray(workload.matvec(chosen).T, dtype=np.float64)


def best_packing(problem: CentralProblem) -> tuple[Packing, float] | None:
    """Cells chosen farthest first, and the number of people that makes the bound highest."""
    workload = problem.workload
    given = problem.given
    if given is None or problem.privacy.kind != "pure" or workload.size < 2:
        return None
    if workload.size * workload.queries > _MOST_ENTRIES:
        return None

    rate = problem.epsilon * (1 if problem.neighbours == "replace-one" else 2)
    order, distances = farthest_first(_columns(workload, np.arange(workload.size)))
    trials = [(0.0, 0, 0)]
    for count in {2**j for j in range(1, 13)} | {len(order)}:
        if count > len(order):
            continue
        most = min(given.people, floor(log(count) / rate))
        for moved in range(1, most + 1):
            chance = max(0.0, 1 - exp(rate * moved) / count)
            reached = moved * distances[count - 1] * sqrt(chance)
            trials.append((reached, count, moved))

    _, count, moved = max(trials)
    if not count:
        return None
    packing = Packing(order[:count], moved)
    steps = 1 if problem.neighbours == "replace-one" else 2
    return packing, packing.bound(workload, problem.epsilon, steps)


def packing_bound(problem: CentralProblem) -> float | None:
    """The highest packing bound known: by cells, or by codes where all tables of some size are."""
    by_cells = best_packing(problem)
    bounds = [] if by_cells is None else [by_cells[1]]
    tables = binary_tables(problem.workload)
    given = problem.given
    epsilon = problem.privacy.epsilon
    pure = problem.privacy.kind == "pure"
    if tables is not None and given is not None and pure and epsilon is not None:
        steps = 1 if problem.neighbours == "replace-one" else 2
        by_codes = best_code_packing(
            *tables,
            epsilon,
            steps,
            given.people,
        )
        bounds += [] if by_codes is None else [by_codes[1]]

    return max(bounds, default=None)


def farthest_first(
    columns: FloatArray, distance: float = 0.0
) -> tuple[IntArray, FloatArray]:
    """Columns in an order in which each is farthest from all before it, and how far that is.

    It ends where no column is farther than `distance` from all in it.
    """
    squares = (columns**2).sum(axis=1)
    nothing = _ROUNDING * float(squares.max(initial=0.0))
    order = [0]
    distances = [np.inf]
    nearest = np.full(len(columns), np.inf)

    for _ in range(
        min(
            len(columns),
            _MOST_PACKED,
            max(64, _MOST_WORK // columns.size),
        )
        - 1
    ):
        last = order[-1]
        apart = squares + squares[last] - 2 * (columns @ columns[last])
        nearest = np.minimum(nearest, apart)
        nearest[last] = 0.0
        following = int(np.argmax(nearest))
        if nearest[following] <= max(nothing, distance**2):
            break
        order.append(following)
        distances.append(sqrt(nearest[following]))

    return np.array(order), np.minimum.accumulate(np.array(distances))


@dataclass(frozen=True)
class Width:
    """E max over cells of ⟨g, column⟩ for a Gaussian g, by simulation, with a 99.9 % interval."""

    value: float
    lower: float
    upper: float

    def to_dict(self) -> dict[str, object]:
        """The figures, ready for JSON."""
        return vars(self).copy()


def gaussian_width(
    workload: Workload,
    draws: int = 200,
    seed: int = 0,
) -> Width:
    """The Gaussian width of what one person can answer: small where projections help much."""
    rng = np.random.default_rng(seed)
    largest = np.array(
        [
            workload.rmatvec(rng.standard_normal(workload.queries)).max()
            for _ in range(draws)
        ]
    )
    mean = float(largest.mean())
    spread = float(largest.std(ddof=1) / sqrt(draws))

    return Width(mean, mean - 3.29 * spread, mean + 3.29 * spread)


_TRIED = 24  # distances of a code that are tried
_MOST_LENGTH = 1024  # of a code: log_words adds up as many terms as its distance


@lru_cache(maxsize=4096)
def log_words(
    length: int,
    letters_log: float,
    distance: int,
) -> float:
    """At most the logarithm of how many words of so many letters differ in `distance` places."""
    others = letters_log if letters_log > 30 else log(max(exp(letters_log) - 1, 1e-300))
    terms = [
        lgamma(length + 1) - lgamma(i + 1) - lgamma(length - i + 1) + i * others
        for i in range(distance)
    ]
    largest = max(terms)
    ball = largest + log(sum(exp(term - largest) for term in terms))

    return max(0.0, (length * letters_log - ball) * _LESS - 1e-9)


@dataclass(frozen=True)
class CodePacking:
    """Data sets of binary attributes by two codes; the bound is worked out from these alone."""

    ways: int
    word: int
    apart: int
    order: int
    sequences: int
    changed: int
    copies: int

    def __post_init__(self) -> None:
        hadamard = self.order >= 2 and self.order & (self.order - 1) == 0
        most = (self.order - 1) ** (self.ways - 1)
        require(
            self.ways <= 1 or hadamard,
            "order",
            self.order,
            "must be a power of two",
        )
        require(
            1 <= self.apart <= self.word
            and 1 <= self.changed <= self.sequences <= most,
            "distance",
            self.apart,
            "must be one of words",
        )
        require(
            self.copies >= 1,
            "copies",
            self.copies,
            "must be >= 1",
        )

    @property
    def attributes(self) -> int:
        """How many attributes the blocks need."""
        return self.word + (self.ways - 1) * self.order

    @property
    def people(self) -> int:
        """How many people differ at most."""
        return self.copies * self.sequences

    @property
    def log_sets(self) -> float:
        """At most the logarithm of how many data sets there are."""
        letters = log_words(self.word, log(2), self.apart)
        return log_words(self.sequences, letters, self.changed) if letters else 0.0

    @property
    def square(self) -> float:
        """Squared distance of answers, with one query per set of attributes, at least."""
        blocks = (self.order / 4) ** (self.ways - 1)
        return self.copies**2 * blocks * self.changed * self.apart

    def bound(
        self,
        attributes: int,
        epsilon: float,
        steps: int,
    ) -> float:
        """A root mean square error over all sets of attributes, under every ε-private mechanism."""
        if attributes < self.attributes:
            return 0.0
        left = 1 - exp(min(0.0, epsilon * steps * self.people - self.log_sets))
        return sqrt(self.square / comb(attributes, self.ways) * left) / 2 * _LESS


def binary_tables(workload: Workload) -> tuple[int, int] | None:
    """How many binary attributes there are, and how many every table has; None for other queries.

    All tables of so many must be asked, each with the same weight of one, whole or by its last
    cell: every cell of a table differs by as much, so that both have one bound.
    """
    if not isinstance(workload, Marginals) or set(workload.weights) != {1.0}:
        return None

    whole = all(
        isinstance(base, Identity) and base.size == 2 for base in workload.bases
    )
    ways = {len(table) for table in workload.tables}
    attributes = len(workload.bases)
    if not (whole or isinstance(workload, Conjunctions)) or len(ways) != 1 or 0 in ways:
        return None

    every = len(set(workload.tables)) == comb(attributes, min(ways))
    return (attributes, min(ways)) if every else None


def best_code_packing(
    attributes: int,
    ways: int,
    epsilon: float,
    steps: int,
    people: int,
) -> tuple[CodePacking, float] | None:
    """The blocks, distances and copies with the highest bound for so many people."""
    best: tuple[CodePacking, float] | None = None
    orders = [2**j for j in range(1, 12)] if ways > 1 else [1]
    for order in orders:
        word = attributes - (ways - 1) * order
        most = min((order - 1) ** (ways - 1), people, _MOST_LENGTH)
        if word < 1 or most < 1:
            continue

        pairs = product(_distances(word // 2), {most, max(1, most // 2)})
        for apart, sequences in pairs:
            for changed in _distances(sequences):
                base = CodePacking(
                    ways,
                    word,
                    apart,
                    order,
                    sequences,
                    changed,
                    1,
                )
                found = _copied(
                    base,
                    attributes,
                    epsilon,
                    steps,
                    people,
                )
                if found is not None and (best is None or found[1] > best[1]):
                    best = found

    return best


def _distances(most: int) -> list[int]:
    """Some numbers up to this one, evenly."""
    return sorted({max(1, round(most * i / _TRIED)) for i in range(1, _TRIED + 1)})


def _copied(
    base: CodePacking,
    attributes: int,
    epsilon: float,
    steps: int,
    people: int,
) -> tuple[CodePacking, float] | None:
    """The best number of copies: near where what is left of chances is a few times e^-2."""
    limit = (
        base.log_sets / (epsilon * steps * base.sequences) if base.sequences else inf
    )
    most = min(int(limit), people // base.sequences)
    options = []

    for copies in range(max(1, most - 3), most + 1):
        packing = CodePacking(**{**vars(base), "copies": copies})
        options.append((packing, packing.bound(attributes, epsilon, steps)))

    return max(options, key=lambda option: option[1], default=None)
