"""Strategies as stacks of integer blocks: exact measurement, sensitivity, reconstruction.

A block measures the marginal table of a few attributes by one small integer matrix per attribute
(their Kronecker product; all other attributes are summed out) under noise of its own scale. A dense
strategy is one block on one axis; a Kronecker strategy one block on several; a strategy for tables
of many attributes is a stack of blocks of one of three sorts: every attribute has one set of
contrasts, the same in all blocks that measure it (see `axes`); or the blocks' row spaces are
orthogonal, which is checked in integers; or every block is a whole table (`Overlap`). In the
first two the least-squares answer is the sum of what each block says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import inf, isfinite, prod

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.central.blocks.axes import Axis, Components, Overlap
from noisewright.central.blocks.block import Block, Table, is_identity
from noisewright.central.blocks.sensitivity import squared_change
from noisewright.errors import OutOfReach, TooLarge, require
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.workload.base import check_neighbours, check_order
from noisewright.workload.kinds.atoms import Total
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.linear.tensor import apply_along_axes
from noisewright.workload.structure import Term, cell_answers

_LOST = 1e-6  # relative rounding allowed where a query is measured and comes back
_PROBES = 4  # random histograms: one would do, but for chance
_MOST_SHARED = 2**18  # cells of a table that several terms are summed from together
_LARGEST_PROBE = 2.0**26  # cells of a table on which that is tried


@dataclass(frozen=True, eq=False)
class BlockStrategy:
    """Blocks over attributes with `sizes` values.

    With `separate`, blocks may overlap in any way, and a query is answered from one of them alone:
    the one that says it best.
    """

    sizes: tuple[int, ...]
    blocks: tuple[Block, ...]
    separate: bool = False

    def __post_init__(self) -> None:
        for block in self.blocks:
            require(
                [f.shape[1] for f in block.factors]
                == [self.sizes[i] for i in block.attributes],
                "blocks",
                block.attributes,
                "must have one factor per attribute, of its size",
            )

        if self.separate:
            return

        require(
            self.axes is not None
            or not any(block.weights is not None for block in self.blocks),
            "weights",
            None,
            "need contrasts that all blocks share",
        )
        require(
            self.axes is not None
            or self.overlap is not None
            or _orthogonal(self.blocks),
            "blocks",
            len(self.blocks),
            "must share their contrasts, be whole tables, or have orthogonal row spaces",
        )

    @classmethod
    def of_parts(cls, parts: Sequence[BlockStrategy]) -> BlockStrategy:
        """Strategies over the same attributes side by side, each to answer its own queries."""
        return cls(
            parts[0].sizes,
            tuple(b for part in parts for b in part.blocks),
            separate=True,
        )

    @cached_property
    def axes(self) -> dict[int, Axis] | None:
        """The split of every measured attribute, where all blocks measure it by one contrast."""
        result: dict[int, Axis] = {}
        if (
            self.separate
            or len(self.blocks) < 2
            or len({b.attributes for b in self.blocks}) < len(self.blocks)
        ):
            return None

        for block in self.blocks:
            for i, factor in zip(block.attributes, block.factors, strict=True):
                if i in self.whole:
                    continue
                axis = result.setdefault(i, Axis(factor))
                same = axis.contrasts is factor or np.array_equal(
                    axis.contrasts, factor
                )
                if not (same and axis.splits):
                    return None

        return result

    @cached_property
    def whole(self) -> frozenset[int]:
        """Attributes of which every block measures every value by itself: one strategy in each."""
        first, *others = self.blocks
        return frozenset(
            i
            for i, factor in zip(first.attributes, first.factors, strict=True)
            if is_identity(factor)
            and all(i in b.attributes and is_identity(b.factor(i)) for b in others)
        )

    @cached_property
    def overlap(self) -> Overlap | None:
        """How whole tables are combined, where all blocks are such."""
        tables = [block.attributes for block in self.blocks]
        whole = all(
            b.weights is None and all(is_identity(f) for f in b.factors)
            for b in self.blocks
        )
        if (
            self.separate
            or not whole
            or len(tables) < 2
            or len(set(tables)) < len(tables)
        ):
            return None

        return Overlap(
            self.sizes, tables, [b.noise / b.multiplier for b in self.blocks]
        )

    @cached_property
    def _numbers(self) -> dict[Table, int]:
        return {block.attributes: number for number, block in enumerate(self.blocks)}

    def visible(self, attributes: Table) -> list[int]:
        """Numbers of the blocks that say something of a table."""
        if self.axes is None:
            return [
                k for k, block in enumerate(self.blocks) if _sees(block, attributes)
            ]

        varied = tuple(i for i in attributes if i not in self.whole)
        parts = (tuple(sorted({*part, *self.whole})) for part in subsets(varied))
        return [self._numbers[part] for part in parts if part in self._numbers]

    def inverses(self, block: Block) -> tuple[FloatArray, ...]:
        """The way back from each of a block's factors to cells."""
        if self.axes is None:
            return block.inverses

        pairs = zip(block.attributes, block.factors, strict=True)
        return tuple(
            factor.astype(np.float64) if i in self.whole else self.axes[i].inverse
            for i, factor in pairs
        )

    def reference(self, attribute: int) -> FloatArray:
        """How a block that does not measure an attribute spreads over its values."""
        if self.axes is not None and attribute in self.axes:
            return self.axes[attribute].reference
        return np.full(self.sizes[attribute], 1.0 / self.sizes[attribute])

    @property
    def matrix(self) -> IntArray:
        """The factor of a strategy that is one block on one axis."""
        (block,) = self.blocks
        (factor,) = block.factors
        return factor

    def with_noise(self, noise: float) -> BlockStrategy:
        """All blocks under noise of this relative scale."""
        return replace(self, blocks=tuple(replace(b, noise=noise) for b in self.blocks))

    def with_total(self, scale: float, total: Block) -> BlockStrategy:
        """The noise times `scale`, and the number of people measured by another block."""
        blocks = [
            replace(b, noise=b.noise * scale) if b.attributes else total
            for b in self.blocks
        ]
        return replace(self, blocks=tuple(blocks))

    @property
    def measurements(self) -> int:
        """Number of measured integers."""
        return sum(block.rows for block in self.blocks)

    @property
    def tables(self) -> list[Table]:
        """The marginal tables that must be counted, each once."""
        return list(dict.fromkeys(block.attributes for block in self.blocks))

    def sensitivity(self, order: int = 2, neighbours: str = "add-remove") -> float:
        """Upper bound on the change one neighbour makes, each block in units of its noise."""
        check_order(order)
        check_neighbours(neighbours)
        with np.errstate(over="ignore", invalid="ignore"):
            total = sum(
                (b.change(order, neighbours) for b in self.blocks), start=Fraction(0)
            )
            if order == 1:
                return float_above(total)
            sharper = squared_change(self.sizes, self.blocks, neighbours)

        # Numbers of an edited file may leave the range of floats: no bound then, never a warning.
        known = sharper is not None and isfinite(sharper)
        least = (
            min(total, Fraction(sharper)) if known and sharper is not None else total
        )
        return root_above(least) if least else 0.0

    def measure(self, tables: Mapping[Table, IntArray]) -> list[IntArray]:
        """Exact measurements of every block, from the exact counts of its marginal table."""
        return [block.measure(tables[block.attributes]) for block in self.blocks]

    def laws(self, law: NoiseLaw) -> list[NoiseLaw]:
        """The law of every block's noise, when a block of relative scale 1 has `law`."""
        scale = Fraction(law.scale)
        return [
            NoiseLaw(law.law, float_above(scale * Fraction(b.noise)))
            for b in self.blocks
        ]

    def draw(self, law: NoiseLaw, source: ByteSource | None = None) -> list[IntArray]:
        """Fresh noise for every measured integer; only tests pass a source."""
        pairs = zip(self.blocks, self.laws(law), strict=True)
        return [noise.sample(block.rows, source) for block, noise in pairs]

    def table(self, attributes: Table, measured: Sequence[Array]) -> FloatArray:
        """Least-squares estimate of a marginal table; trailing axes of `measured` are a batch."""
        if self.overlap is not None:
            return self.overlap.table(attributes, self._components(measured))

        shape = tuple(self.sizes[i] for i in attributes)
        visible = self.visible(attributes)
        batch = measured[visible[0]].shape[1:] if visible else ()
        total = np.zeros((*shape, *batch))

        for number in visible:
            total += self._contribution(
                self.blocks[number], attributes, measured[number]
            )

        return total.reshape(-1, *batch)

    def _components(self, measured: Sequence[Array]) -> Components:
        assert self.overlap is not None
        pairs = zip(self.blocks, measured, strict=True)
        return self.overlap.components(
            [values / block.multiplier for block, values in pairs]
        )

    def _contribution(
        self,
        block: Block,
        attributes: Table,
        values: Array,
    ) -> FloatArray:
        """What one block says of a table: inverse, summed over extra axes, spread over missing."""
        maps = []
        for i, inverse in zip(block.attributes, self.inverses(block), strict=True):
            matrix = inverse if i in attributes else inverse.sum(axis=0, keepdims=True)
            maps.append((*matrix.shape, matrix.__matmul__))

        batch = values.shape[1:]
        scales = np.asarray(block.scales).reshape(-1, *[1] * len(batch))
        table = apply_along_axes(maps, values / scales)
        result = table.reshape(
            [self.sizes[i] if i in block.attributes else 1 for i in attributes]
            + list(batch)
        )

        for position, i in enumerate(attributes):
            if i not in block.attributes:
                shape = [1] * result.ndim
                shape[position] = self.sizes[i]
                result = result * self.reference(i).reshape(shape)

        return result

    def term_answers(self, term: Term, measured: Sequence[Array]) -> FloatArray:
        """Least-squares answers of one term of a workload."""
        if self.separate:
            number = self.seen_by(term)[0]
            values = measured[number]
            table = self._contribution(self.blocks[number], term.attributes, values)
            table = table.reshape(-1, *values.shape[1:])
        else:
            table = self.table(term.attributes, measured)
        return np.asarray(term.answers(table), dtype=np.float64)

    def seen_by(self, term: Term) -> list[int]:
        """Numbers of the blocks that a term is answered from."""
        if not self.separate:
            return self.visible(term.attributes)

        attributes = set(term.attributes)
        holding = [
            k for k, b in enumerate(self.blocks) if attributes <= set(b.attributes)
        ]
        return [
            min(holding, key=lambda k: _variance_of(self.blocks[k], term), default=0)
        ]

    def answers(
        self, terms: Sequence[Term], measured: Sequence[Array]
    ) -> list[FloatArray]:
        """Least-squares answers of all terms of a workload."""
        if len(terms) > 1 and self._in_one_table(terms):
            attributes = self.blocks[0].attributes
            own = [
                replace(t, attributes=tuple(map(attributes.index, t.attributes)))
                for t in terms
            ]
            sizes = [self.sizes[i] for i in attributes]
            answers = cell_answers(self.table(attributes, measured), sizes, own)
            return [np.asarray(values, dtype=np.float64) for values in answers]

        if self.overlap is None:
            return [self.term_answers(term, measured) for term in terms]

        components = self._components(measured)
        tables = (self.overlap.table(term.attributes, components) for term in terms)
        return [
            np.asarray(t.answers(v), dtype=np.float64)
            for t, v in zip(terms, tables, strict=True)
        ]

    def _in_one_table(self, terms: Sequence[Term]) -> bool:
        """Whether one block tells all terms, whose cells can be listed: they share their sums."""
        if self.separate or len(self.blocks) > 1:
            return False
        own = self.blocks[0].attributes
        listed = prod(self.sizes[i] for i in own) <= _MOST_SHARED
        return listed and all(set(term.attributes) <= set(own) for term in terms)

    def check_reach(self, term: Term, first_query: int = 0) -> None:
        """Refuse a term that the measurements do not determine, before any noise is planned."""
        if self._complete(term.attributes):
            return

        numbers = self.seen_by(term)
        alone = self.axes is None and len(numbers) == 1 and term.factors is not None
        if alone and set(term.attributes) <= set(self.blocks[numbers[0]].attributes):
            if (missed := _missed_by_block(self.blocks[numbers[0]], term)) is not None:
                raise _out_of_reach(first_query + missed)
            return

        shape = [self.sizes[i] for i in term.attributes]
        if prod(shape) > _LARGEST_PROBE or len(shape) > 60:
            raise TooLarge(
                f"queries over {prod(shape):.3g} cells are not measured by a product of their own; "
                f"whether they can be answered is found out up to {_LARGEST_PROBE:.0f} cells; ask "
                f"about fewer attributes at once"
            )

        # A random histogram is reproduced, up to rounding, exactly by strategies that reach it.
        probe = np.random.default_rng(0).integers(0, 100, size=shape)
        answers = term.answers(probe.ravel().astype(np.float64))
        measured: list[Array] = [np.empty(0)] * len(self.blocks)

        for number in numbers:
            measured[number] = self._measure_spread(
                self.blocks[number], term.attributes, probe
            )

        seen = self.term_answers(term, measured)
        off = np.abs(seen - answers) > _LOST * (term.weight + np.abs(answers).max())
        if off.any():
            raise _out_of_reach(first_query + int(np.argmax(off)))

    def _complete(self, attributes: Table) -> bool:
        """Whether every interaction of these attributes is measured in full."""
        if self.overlap is not None:
            return all(part in self.overlap.weights for part in subsets(attributes))
        if self.axes is None or self.separate:
            return False

        movable = tuple(
            i for i in attributes if self.sizes[i] > 1 and i not in self.whole
        )
        known = all(i in self.axes and self.axes[i].complete for i in movable)
        return known and len(self.visible(movable)) == 2 ** len(movable)

    def _measure_spread(
        self,
        block: Block,
        attributes: Table,
        table: IntArray,
    ) -> FloatArray:
        """A block's measurement of the histogram that spreads a table over all other attributes."""
        extra = [i for i in block.attributes if i not in attributes]
        axes = tuple(k for k, i in enumerate(attributes) if i not in block.attributes)
        part = table.sum(axis=axes) / prod(self.sizes[i] for i in extra)
        full = part.reshape(
            [1 if i in extra else self.sizes[i] for i in block.attributes]
        )
        full = np.broadcast_to(full, [self.sizes[i] for i in block.attributes])
        maps = [(*f.shape, f.astype(np.float64).__matmul__) for f in block.factors]
        exact = apply_along_axes(maps, np.ascontiguousarray(full).reshape(-1))

        return block.scales * exact


def _missed_by_block(block: Block, term: Term) -> int | None:
    """The first query of a product that its one block does not reach, factor by factor.

    What comes back is compared with each query's own size: a small one is not lost among others.
    """
    factors = dict(zip(term.attributes, term.factors or (), strict=True))
    missed = np.zeros(0, dtype=np.intp)
    for i, factor, inverse in zip(
        block.attributes,
        block.factors,
        block.inverses,
        strict=True,
    ):
        if is_identity(factor):
            continue

        rng = np.random.default_rng(i)
        probes = rng.standard_normal((len(inverse), _PROBES))
        queries = factors.get(i, Total(len(inverse)))
        cells = np.hstack([probes, inverse @ (factor @ probes), np.abs(probes)])
        images = np.asarray(queries.matvec(cells), dtype=np.float64)
        answers, seen, bulk = np.hsplit(images, 3)
        sizes = np.abs(answers) + 1e-3 * np.abs(bulk)
        off = np.flatnonzero(
            np.abs(seen - answers).max(axis=1) > _LOST * sizes.max(axis=1)
        )
        if off.size and i in factors:
            later = [factors[k].queries for k in term.attributes if k > i]
            return int(off[0]) * prod(later)

        missed = np.concatenate([missed, off])

    return 0 if missed.size else None


def _out_of_reach(row: int) -> OutOfReach:
    return OutOfReach(
        f"query {row} lies outside the strategy's row space; plan for a workload that includes it"
    )


def _sees(block: Block, attributes: Table) -> bool:
    pairs = zip(block.attributes, block.zero_sum, strict=True)
    return all(i in attributes or not differences for i, differences in pairs)


def _orthogonal(blocks: Sequence[Block]) -> bool:
    if len({b.attributes for b in blocks}) == len(blocks) and all(
        all(b.zero_sum) for b in blocks
    ):
        return True  # distinct interactions of attributes never overlap
    return all(_orthogonal_pair(a, b) for a, b in combinations(blocks, 2))


def _orthogonal_pair(a: Block, b: Block) -> bool:
    first = dict(
        zip(a.attributes, zip(a.factors, a.zero_sum, strict=True), strict=True)
    )
    second = dict(
        zip(b.attributes, zip(b.factors, b.zero_sum, strict=True), strict=True)
    )
    only = [first[i][1] for i in first if i not in second]
    only += [second[i][1] for i in second if i not in first]
    both = [(first[i][0], second[i][0]) for i in first if i in second]

    return any(only) or any(
        not (f.astype(object) @ g.T.astype(object)).any() for f, g in both
    )


def _variance_of(block: Block, term: Term) -> float:
    """Total variance of a term's answers from one block; infinite where it does not tell them."""
    total = (block.noise / block.multiplier) ** 2
    for i, factor, inverse in zip(
        block.attributes,
        block.factors,
        block.inverses,
        strict=True,
    ):
        rows = _asked_of(term, i, len(inverse))
        blind = np.eye(len(inverse)) - inverse @ factor
        if np.einsum("ij,ij->", blind, rows @ blind) > 1e-9 * np.trace(rows):
            return inf
        total *= float(np.einsum("ij,ij->", rows @ inverse, inverse))

    return total


def _asked_of(
    term: Term,
    attribute: int,
    size: int,
) -> FloatArray:
    """The Gram matrix of a term on one attribute; of all its cells where it is no product."""
    if attribute not in term.attributes:
        return np.ones((size, size))
    if term.factors is None:
        return np.eye(size)
    return term.factors[term.attributes.index(attribute)].gram().dense()
