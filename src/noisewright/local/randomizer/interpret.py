"""What a client does with a specification, byte by byte: the normative interpreter.

Another implementation that reads the same random bytes gives the same reports. The one exception is
the rounded Gaussian, whose law is stated but not how many bytes it takes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import singledispatch
from itertools import accumulate

from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import bit_count
from noisewright.local.randomizer.laws import (
    Favour,
    Flip,
    Grid,
    Law,
    Owner,
    Parity,
    Rows,
    Same,
    Subset,
    Translate,
    Weigh,
)
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.specification import Specification
from noisewright.privacy.noise.integers import rounded_gaussian
from noisewright.privacy.noise.source import ByteSource, SystemSource

_FARTHEST = (1 << 63) - 1
"""The largest coordinate that eight bytes hold."""


class Choices:
    """Chances and uniform numbers, read from random bytes."""

    def __init__(self, source: ByteSource | None = None) -> None:
        self.source: ByteSource = source or SystemSource()

    def word(self) -> int:
        """A number of eight bytes, little-endian."""
        return int.from_bytes(self.source.bytes(8), "little")

    def chance(self, threshold: int) -> bool:
        """True with chance threshold/2^64."""
        return self.word() < threshold

    def place(self, sums: Sequence[int]) -> int:
        """A place by cumulative sums up to 2^64 or 2^62: the first one above a word modulo that."""
        return bisect_right(sums, self.word() % sums[-1])

    def below(self, bound: int) -> int:
        """Uniform below a bound: as many bits as it needs, again until they are below it."""
        if bound <= 1:
            return 0

        bits = (bound - 1).bit_length()
        mask = (1 << bits) - 1
        octets = -(-bits // 8)

        while True:
            drawn = self.source.bytes(octets)
            number = int.from_bytes(drawn, "little") & mask
            if number < bound:
                return number


def interpret(
    specification: Specification, value: int, source: ByteSource | None = None
) -> bytes:
    """One report of a person in the cell `value`, without the header that names its plan."""
    return report(specification, value, Choices(source))


def report(specification: Specification, value: int, choices: Choices) -> bytes:
    """The report that some choices lead to."""
    # Never the value itself in a message: it is a person's.
    if isinstance(value, bool) or not isinstance(value, int):
        kind = type(value).__name__
        raise InvalidParameter("value", kind, "must be the number of a cell")
    if not 0 <= value < specification.cells:
        rule = f"must lie in 0..{specification.cells - 1}"
        raise InvalidParameter("value", "a number", rule)

    number = 0
    cell = value
    shapes = specification.shapes
    place = len(specification.nodes) - 1

    while True:
        match specification.nodes[place]:
            case Draw() as node:
                index = choices.place(node.sums)
                earlier = node.of[:index]
                number += sum(shapes[child].outcomes for child in earlier)
                place = node.of[index]
            case View() as node:
                cell = int(node.through.seen(cell))
                place = node.of
            case Project() as node:
                row, vector = _vector(node, choices)
                number += row * shapes[node.of].outcomes
                cell = hashed(node, vector, cell)
                place = node.of
            case law:
                outcome, payload = _report_of(law, cell, choices)
                number += outcome
                break

    written = number.to_bytes(specification.number_bytes, "little") + payload
    return written.ljust(specification.report_bytes, b"\0")


# --- routers --------------------------------------------------------------------------------------


def _vector(node: Project, choices: Choices) -> tuple[int, int]:
    """What the report's number says of a vector, and the vector."""
    if node.listed:
        index = choices.place(node.sums)
        return index, node.listed[index]

    vector = 1 + choices.below(node.base**node.digits - 1)
    return vector, vector


def hashed(node: Project, vector: int, cell: int) -> int:
    """Σ a_j u_j mod base over the digits of a vector and a cell."""
    total = 0
    while vector and cell:
        vector, a = divmod(vector, node.base)
        cell, u = divmod(cell, node.base)
        total += a * u

    return total % node.base


# --- laws -----------------------------------------------------------------------------------------


@singledispatch
def _report_of(law: Law, cell: int, choices: Choices) -> tuple[int, bytes]:
    """The number that a law adds to the report, and the bytes after the number."""
    raise NotImplementedError(type(law).__name__)


@_report_of.register
def _report_of_favour(law: Favour, cell: int, choices: Choices) -> tuple[int, bytes]:
    owner = law.owner
    others = owner.outcomes - owner.own
    inside = choices.chance(int(law.threshold))
    rank = choices.below(owner.own if inside else others)
    return outcome_of_rank(owner, cell, inside, rank), b""


@_report_of.register
def _report_of_weigh(law: Weigh, cell: int, choices: Choices) -> tuple[int, bytes]:
    rows = range(len(law.rows))
    sums = list(accumulate(law.entry(row, cell) for row in rows))
    return choices.place(sums), b""


@_report_of.register
def _report_of_subset(law: Subset, cell: int, choices: Choices) -> tuple[int, bytes]:
    """The true cell or not, then a uniform set of the others by Floyd's method."""
    inside = choices.chance(int(law.threshold))
    others = law.cells - 1
    count = law.size - inside
    chosen: set[int] = set()

    for last in range(others - count, others):
        pick = choices.below(last + 1)
        chosen.add(last if pick in chosen else pick)

    # Others are numbered as if the true cell were not there.
    members = [other + (other >= cell) for other in chosen]
    return 0, _bits(members + [cell] * inside, law.cells)


@_report_of.register
def _report_of_flip(law: Flip, cell: int, choices: Choices) -> tuple[int, bytes]:
    thresholds = [int(law.other)] * law.cells
    thresholds[cell] = int(law.own)
    held = [v for v, threshold in enumerate(thresholds) if choices.chance(threshold)]
    return 0, _bits(held, law.cells)


@_report_of.register
def _report_of_grid(law: Grid, cell: int, choices: Choices) -> tuple[int, bytes]:
    payload = b""
    drawn = _noise(law, choices)

    for mean, noise in zip(law.columns[cell], drawn, strict=True):
        within = min(mean + noise, _FARTHEST)
        coordinate = max(within, -_FARTHEST - 1)
        payload += coordinate.to_bytes(8, "little", signed=True)

    return 0, payload


@singledispatch
def outcome_of_rank(owner: Owner, cell: int, inside: bool, rank: int) -> int:
    """The outcome of some rank among those that a cell owns, or among the others."""
    raise NotImplementedError(type(owner).__name__)


@outcome_of_rank.register
def _outcome_of_same(owner: Same, cell: int, inside: bool, rank: int) -> int:
    return cell if inside else rank + (rank >= cell)


@outcome_of_rank.register
def _outcome_of_rows(owner: Rows, cell: int, inside: bool, rank: int) -> int:
    return _place_of_bit(owner.row(cell), rank, inside)


@outcome_of_rank.register
def _outcome_of_translate(owner: Translate, cell: int, inside: bool, rank: int) -> int:
    place = _place_of_bit(owner.pattern, rank, inside)
    return _difference(owner.sizes, cell, place)


@outcome_of_rank.register
def _outcome_of_parity(owner: Parity, cell: int, inside: bool, rank: int) -> int:
    block, column = divmod(cell, owner.width - 1)
    first = block * owner.width
    half = owner.width // 2
    if inside:
        return first + _with_parity(column + 1, rank, 0)
    if first <= rank < first + half:
        return first + _with_parity(column + 1, rank - first, 1)

    return rank if rank < first else rank + half


def _with_parity(column: int, rank: int, parity: int) -> int:
    """The rank-th number whose bits in common with the column are even (0) or odd (1) in number.

    The column's lowest bit is free to set the parity: leave its place out of the rank.
    """
    lowest = column & -column
    spread = rank // lowest * 2 * lowest + rank % lowest
    common = (spread & column).bit_count()
    return spread + lowest * ((common + parity) % 2)


def _place_of_bit(bits: bytes, rank: int, one: bool) -> int:
    """The place of the rank-th one (or zero), the highest bit of the first byte being place 0."""
    low = 0
    high = len(bits)

    while high - low > 1:
        middle = (low + high) // 2
        ones = bit_count(bits[low:middle])
        before = ones if one else 8 * (middle - low) - ones
        if rank < before:
            high = middle
        else:
            low = middle
            rank = rank - before

    octet = f"{bits[low]:08b}"
    places = [place for place, bit in enumerate(octet) if bit == str(int(one))]
    return 8 * low + places[rank]


def _difference(sizes: Sequence[int], cell: int, shift: int) -> int:
    """cell − shift, attribute by attribute."""
    result = 0
    stride = 1

    for size in reversed(sizes):
        result += (cell - shift) % size * stride
        cell = cell // size
        shift = shift // size
        stride = stride * size

    return result


def _bits(cells: Sequence[int], count: int) -> bytes:
    """A set of cells, the first cell being the highest bit of the first byte."""
    result = bytearray(-(-count // 8))
    for cell in cells:
        result[cell >> 3] |= 128 >> (cell & 7)
    return bytes(result)


# --- noise ----------------------------------------------------------------------------------------


def _noise(law: Grid, choices: Choices) -> Sequence[int]:
    if law.continuous:
        noise: list[int] = rounded_gaussian(
            law.spread, law.coordinates, choices.source
        ).tolist()
        return noise

    p = law.spread.numerator
    q = law.spread.denominator

    return [_laplace(p, q, choices) for _ in range(law.coordinates)]


def _laplace(p: int, q: int, choices: Choices) -> int:
    """k with chance proportional to e^(−|k| q/p) (Canonne, Kamath and Steinke 2020)."""
    while True:
        part = choices.below(p)
        if not _exponential(part, p, choices):
            continue
        whole = 0
        while _exponential(1, 1, choices):
            whole += 1
        size = (part + p * whole) // q
        negative = choices.below(2)
        if size or not negative:
            return -size if negative else size


def _exponential(a: int, b: int, choices: Choices) -> bool:
    """True with chance e^(−a/b), for a at most b: the first k with below(k b) >= a is odd."""
    k = 1
    while choices.below(k * b) < a:
        k += 1
    return k % 2 == 1
