"""Every stored strategy as a specification, with the strategy's own numbering of reports.

Orbits alone differ, by rounding: their chances of an own outcome are out of 2^64 here and out of
whatever an orbit weighs there. They agree to about 2^-60, and never exceed the ratio stored.
"""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.composed.parts import Parts
from noisewright.local.composed.union import Union
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.response import RandomizedResponse
from noisewright.local.histogram.sets import ListedSubsets, SubsetSelection
from noisewright.local.histogram.unary import UnaryEncoding
from noisewright.local.listed.decoded import Decoded
from noisewright.local.listed.matrix import MatrixStrategy
from noisewright.local.optimise.orbits.orbit_families import Family
from noisewright.local.optimise.orbits.strategy import OrbitStrategy
from noisewright.local.randomizer.laws import (
    Favour,
    Flip,
    Grid,
    Owner,
    Parity,
    Rows,
    Same,
    Subset,
    Translate,
    TwoValued,
    Weigh,
)
from noisewright.local.randomizer.routers import Axes, Blocks, Draw, Listed, Project, View
from noisewright.local.randomizer.specification import Primitive, Specification, decode, encode
from noisewright.local.randomizer.whole_numbers import UNIT, WORD
from noisewright.local.strategy import Strategy
from noisewright.local.transform.fourier import Fourier
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.vector.codebook import Codebook
from noisewright.local.vector.noisy_columns import VectorStrategy


def specification_of(strategy: Strategy, meaning: str = "") -> Specification:
    """What a client of the strategy does; its reports are those that the strategy counts."""
    nodes = Nodes()
    nodes.root(strategy)
    specification = Specification(
        format="noisewright-randomizer",
        version=1,
        meaning=meaning,
        report_bytes=strategy.layout.bytes,
        nodes=tuple(nodes.listed),
    )
    # Read back, so that what was written here is held to the rules for what anybody wrote.
    return decode(encode(specification))


class Nodes:
    """Nodes in the order they are needed, equal ones only once."""

    def __init__(self) -> None:
        self.listed: list[Primitive] = []
        self._places: dict[bytes, int] = {}

    def add(self, node: Primitive) -> int:
        """The place of a node."""
        text = msgspec.json.encode(node)
        if text not in self._places:
            self._places[text] = len(self.listed)
            self.listed.append(node)
        return self._places[text]

    def root(self, strategy: Strategy) -> int:
        """The place of what a strategy's clients begin with."""
        return express(strategy, self)

    def favour(self, threshold: int, owner: Owner) -> int:
        """The place of a favouring law."""
        return self.add(Favour(threshold=str(threshold), owner=owner))

    def silent(self, sizes: tuple[int, ...]) -> int:
        """The place of a report that says nothing: the only one about a domain seen as one cell."""
        nothing = self.add(Weigh(cells=1, rows=((str(UNIT),),)))
        return self.view(nothing, Axes(sizes=sizes, keep=()))

    def view(self, of: int, through: Axes | Blocks | Listed) -> int:
        """The place of a view; seeing everything in its order needs none."""
        everything = isinstance(through, Axes) and through.keep == tuple(range(len(through.sizes)))
        if everything or (isinstance(through, Blocks) and through.width == 1):
            return of
        return self.add(View(of=of, through=through))

    def draw(self, weights: list[int], of: list[int]) -> int:
        """The place of a draw."""
        return self.add(Draw(weights=tuple(map(str, weights)), of=tuple(of)))


@singledispatch
def express(strategy: Any, nodes: Nodes) -> int:
    """The place of what a strategy's clients begin with, its nodes added."""
    raise InvalidParameter("strategy", type(strategy).__name__, "has no specification")


@express.register
def _(strategy: RandomizedResponse, nodes: Nodes) -> int:
    return nodes.favour(strategy.threshold, Same(cells=strategy.size))


@express.register
def _(strategy: HadamardResponse, nodes: Nodes) -> int:
    owner = Parity(cells=strategy.size, width=strategy.width, blocks=strategy.parts)
    return nodes.favour(strategy.threshold, owner)


@express.register
def _(strategy: LocalHashing, nodes: Nodes) -> int:
    return nodes.add(
        Project(
            cells=str(strategy.size),
            base=strategy.buckets,
            digits=strategy.digits,
            of=nodes.favour(strategy.threshold, Same(cells=strategy.buckets)),
        )
    )


@express.register
def _(strategy: Fourier, nodes: Nodes) -> int:
    return nodes.add(
        Project(
            cells=str(strategy.size),
            base=2,
            digits=len(strategy.sizes),
            of=nodes.favour(strategy.threshold, Same(cells=2)),
            vectors=tuple(map(str, strategy.masks.tolist())),
            weights=tuple(map(str, strategy.weights)),
        )
    )


@express.register
def _(strategy: SubsetSelection, nodes: Nodes) -> int:
    threshold = str(strategy.threshold)
    return nodes.add(Subset(cells=strategy.size, size=strategy.chosen, threshold=threshold))


@express.register
def _(strategy: UnaryEncoding, nodes: Nodes) -> int:
    own, other = map(str, strategy.thresholds)
    return nodes.add(Flip(cells=strategy.size, own=own, other=other))


@express.register
def _(strategy: ListedSubsets, nodes: Nodes) -> int:
    size, chosen = strategy.size, strategy.sets.chosen
    if chosen == 1:  # sets in order are the cells in order
        return nodes.favour(strategy.sets.threshold, Same(cells=size))
    held = np.zeros((size, strategy.outputs), dtype=bool)
    for number, members in enumerate(combinations(range(size), chosen)):
        held[list(members), number] = True
    return nodes.favour(strategy.sets.threshold, _rows(held))


@express.register
def _(strategy: Codebook, nodes: Nodes) -> int:
    return nodes.favour(strategy.threshold, _rows(strategy._membership.T))


def _rows(held: np.ndarray[Any, np.dtype[np.bool_]]) -> Rows:
    cells, outcomes = held.shape
    return Rows(cells=cells, outcomes=outcomes, rows=np.packbits(held, axis=1).tobytes())


@express.register
def _(strategy: MatrixStrategy, nodes: Nodes) -> int:
    rows: list[TwoValued | tuple[str, ...]] = []
    for row, two in zip(strategy.weights, strategy.two_valued_rows, strict=True):
        if two:
            bits = np.packbits(row > row.min()).tobytes()
            rows.append(TwoValued(low=str(row.min()), high=str(row.max()), bits=bits))
        else:
            rows.append(tuple(map(str, row.tolist())))
    return nodes.add(Weigh(cells=strategy.size, rows=tuple(rows)))


@express.register
def _(strategy: VectorStrategy, nodes: Nodes) -> int:
    gaussian = strategy.law.law == "rounded-gaussian"
    return nodes.add(
        Grid(
            columns=tuple(map(tuple, strategy.columns.T.tolist())),
            law="rounded-gaussian" if gaussian else "discrete-laplace",
            scale=_fraction(strategy.law.scale),
            epsilon=_fraction(strategy.epsilon) if gaussian else None,
        )
    )


def _fraction(value: float) -> tuple[str, str]:
    p, q = Fraction(value).as_integer_ratio()
    return str(p), str(q)


@express.register
def _(strategy: Decoded, nodes: Nodes) -> int:
    return nodes.root(strategy.inner)  # the guess is the estimator's, not the client's


@express.register
def _(strategy: Mixture, nodes: Nodes) -> int:
    pairs = zip(strategy.components, strategy.coarsenings, strict=True)
    of = [nodes.view(nodes.root(part), _through(coarsening)) for part, coarsening in pairs]
    return nodes.draw(list(strategy.weights), of)


def _through(coarsening: Coarsening) -> Blocks | Listed:
    if coarsening.table is not None:
        return Listed(table=tuple(coarsening.table.tolist()))
    return Blocks(domain=str(coarsening.size), width=coarsening.width)


@express.register
def _(strategy: Parts, nodes: Nodes) -> int:
    pairs = zip(strategy.components, strategy.tables, strict=True)
    of = [
        nodes.view(nodes.root(part), Axes(sizes=strategy.sizes, keep=table))
        for part, table in pairs
    ]
    return nodes.draw(list(strategy.weights), of)


@express.register
def _(strategy: Union, nodes: Nodes) -> int:
    of = [
        nodes.view(nodes.root(strategy.oracle(index)), Axes(sizes=strategy.sizes, keep=table))
        for index, table in enumerate(strategy.tables)
    ]
    return nodes.draw(list(strategy.weights), of)


@express.register
def _(strategy: OrbitStrategy, nodes: Nodes) -> int:
    weights, of = [], []
    for family in strategy.families:
        through = Axes(sizes=strategy.sizes, keep=family.axes)
        for orbit in range(len(family.masses)):
            share, law = _orbit(family, orbit, nodes)
            weights.append(share * (WORD // UNIT))
            of.append(nodes.silent(strategy.sizes) if law is None else nodes.view(law, through))
    if strategy.spare:
        weights.append(strategy.spare * (WORD // UNIT))
        of.append(nodes.silent(strategy.sizes))
    return nodes.draw(weights, of)


def _orbit(family: Family, orbit: int, nodes: Nodes) -> tuple[int, int | None]:
    """What an orbit weighs out of 2^62, and the place of its law; none for a single cell."""
    cells, pattern = family.group.cells, family.patterns[orbit]
    ones, low, high = int(pattern.sum()), int(family.low[orbit]), int(family.high[orbit])
    mass = (cells - ones) * low + ones * high
    if cells == 1:
        return mass, None
    own = ones * high
    if ones in (0, cells):  # all outcomes alike: any one cell's share of them is its fair share
        pattern, own = np.arange(cells) == 0, mass // cells
    # Rounded down, so that an own outcome is never likelier than stored.
    threshold = max(own * WORD // mass, 1)
    bits = np.packbits(pattern).tobytes()
    return mass, nodes.favour(threshold, Translate(sizes=family.group.sizes, pattern=bits))
