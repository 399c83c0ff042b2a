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
from math import isfinite, prod

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.central.blocks.axes import (
    Axis,
    Components,
    Overlap,
)
from noisewright.central.blocks.block import Block, Table, is_identity, orthogonal
from noisewright.central.blocks.sensitivity import squared_change
from noisewright.errors import InvalidParameter
from noisewright.privacy.exact.rounding import (
    float_above,
    root_above,
)
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.linear.linear_map import check_neighbours, check_order
from noisewright.workload.linear.tensor import apply_along_axes
from noisewright.workload.structure import Term, cell_answers, each_answered

_MOST_SHARED = 2**18  # cells of a table that several terms are summed from together


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
            sizes = [factor.shape[1] for factor in block.factors]
            if sizes != self._shape(block.attributes):
                rule = "must have one factor per attribute, of its size"
                raise InvalidParameter("blocks", block.attributes, rule)

        if self.separate or self.axes is not None:
            return

        if any(block.weights is not None for block in self.blocks):
            rule = "need contrasts that all blocks share"
            raise InvalidParameter("weights", None, rule)
        if self.overlap is None and not orthogonal(self.blocks):
            rule = "must share their contrasts, be whole tables, or have orthogonal row spaces"
            raise InvalidParameter("blocks", len(self.blocks), rule)

    def _shape(self, attributes: Sequence[int]) -> list[int]:
        return [self.sizes[i] for i in attributes]

    @classmethod
    def of_parts(cls, parts: Sequence[BlockStrategy]) -> BlockStrategy:
        """Strategies over the same attributes side by side, each to answer its own queries."""
        blocks = tuple(block for part in parts for block in part.blocks)
        return cls(parts[0].sizes, blocks, separate=True)

    # --- how blocks combine -----------------------------------------------------------------------

    @property
    def _one_each(self) -> bool:
        """Whether several blocks answer together, each of a table of its own."""
        tables = {block.attributes for block in self.blocks}
        return not self.separate and 2 <= len(self.blocks) == len(tables)

    @cached_property
    def axes(self) -> dict[int, Axis] | None:
        """The split of every measured attribute, where all blocks measure it by one contrast."""
        if not self._one_each:
            return None

        result: dict[int, Axis] = {}
        for block in self.blocks:
            for i, factor in block.matrices.items():
                if i in self.whole:
                    continue
                axis = result.setdefault(i, Axis(factor))
                same = axis.contrasts is factor
                same = same or np.array_equal(axis.contrasts, factor)
                if not (same and axis.splits):
                    return None

        return result

    @cached_property
    def whole(self) -> frozenset[int]:
        """Attributes of which every block measures every value by itself: one strategy in each."""
        first, *others = self.blocks
        return frozenset(
            i
            for i, factor in first.matrices.items()
            if is_identity(factor)
            and all(i in b.matrices and is_identity(b.matrices[i]) for b in others)
        )

    @cached_property
    def overlap(self) -> Overlap | None:
        """How whole tables are combined, where all blocks are such."""
        whole = all(
            block.weights is None and all(map(is_identity, block.factors))
            for block in self.blocks
        )
        if not (self._one_each and whole):
            return None

        deviations = [block.noise / block.multiplier for block in self.blocks]
        return Overlap(self.sizes, self.tables, deviations)

    @cached_property
    def _numbers(self) -> dict[Table, int]:
        return {block.attributes: number for number, block in enumerate(self.blocks)}

    def visible(self, attributes: Table) -> list[int]:
        """Numbers of the blocks that say something of a table."""
        if self.axes is None:
            return [
                number
                for number, block in enumerate(self.blocks)
                if block.differences <= set(attributes)
            ]

        varied = tuple(i for i in attributes if i not in self.whole)
        parts = (tuple(sorted({*part, *self.whole})) for part in subsets(varied))
        return [self._numbers[part] for part in parts if part in self._numbers]

    def seen_by(self, term: Term) -> list[int]:
        """Numbers of the blocks that a term is answered from."""
        if not self.separate:
            return self.visible(term.attributes)

        holding = [
            number
            for number, block in enumerate(self.blocks)
            if block.matrices.keys() >= set(term.attributes)
        ]
        best = min(
            holding,
            key=lambda number: self.blocks[number].variance_of(term),
            default=0,
        )
        return [best]

    def complete(self, attributes: Table) -> bool:
        """Whether every interaction of these attributes is measured in full."""
        if self.overlap is not None:
            return all(part in self.overlap.weights for part in subsets(attributes))
        if self.axes is None:
            return False

        movable = tuple(
            i for i in attributes if self.sizes[i] > 1 and i not in self.whole
        )
        known = all(i in self.axes and self.axes[i].complete for i in movable)
        return known and len(self.visible(movable)) == 2 ** len(movable)

    def inverses(self, block: Block) -> Mapping[int, FloatArray]:
        """The way back from each of a block's factors to cells."""
        if self.axes is None:
            return block.inverses
        return {
            i: factor.astype(np.float64) if i in self.whole else self.axes[i].inverse
            for i, factor in block.matrices.items()
        }

    def reference(self, attribute: int) -> FloatArray:
        """How a block that does not measure an attribute spreads over its values."""
        if self.axes is not None and attribute in self.axes:
            return self.axes[attribute].reference
        return np.full(self.sizes[attribute], 1.0 / self.sizes[attribute])

    # --- what is measured -------------------------------------------------------------------------

    @property
    def matrix(self) -> IntArray:
        """The factor of a strategy that is one block on one axis."""
        (block,) = self.blocks
        (factor,) = block.factors
        return factor

    def with_noise(self, noise: float) -> BlockStrategy:
        """All blocks under noise of this relative scale."""
        return replace(
            self,
            blocks=tuple(replace(b, noise=noise) for b in self.blocks),
        )

    def with_total(self, scale: float, total: Block) -> BlockStrategy:
        """The noise times `scale`, and the number of people measured by another block."""
        blocks = [
            replace(block, noise=block.noise * scale) if block.attributes else total
            for block in self.blocks
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

        # Numbers of an edited file may leave the range of floats: no bound then, never a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            changes = (block.change(order, neighbours) for block in self.blocks)
            total = sum(changes, start=Fraction(0))
            if order == 1:
                return float_above(total)
            sharper = squared_change(self.sizes, self.blocks, neighbours)

        if sharper is not None and isfinite(sharper):
            total = min(total, Fraction(sharper))

        return root_above(total) if total else 0.0

    def measure(self, tables: Mapping[Table, IntArray]) -> list[IntArray]:
        """Exact measurements of every block, from the exact counts of its marginal table."""
        return [block.measure(tables[block.attributes]) for block in self.blocks]

    def laws(self, law: NoiseLaw) -> list[NoiseLaw]:
        """The law of every block's noise, when a block of relative scale 1 has `law`."""
        scale = Fraction(law.scale)
        scales = [float_above(scale * Fraction(block.noise)) for block in self.blocks]
        return [NoiseLaw(law.law, scale) for scale in scales]

    def draw(
        self, laws: Sequence[NoiseLaw], source: ByteSource | None = None
    ) -> list[IntArray]:
        """Fresh noise for every integer, by the law of its block; only tests pass a source."""
        pairs = zip(self.blocks, laws, strict=True)
        return [noise.sample(block.rows, source) for block, noise in pairs]

    # --- what is answered -------------------------------------------------------------------------

    def table(self, attributes: Table, measured: Sequence[Array]) -> FloatArray:
        """Least-squares estimate of a marginal table; trailing axes of `measured` are a batch."""
        if self.overlap is not None:
            components = self._components(measured)
            return self.overlap.tables_of([attributes], components)[0]

        visible = self.visible(attributes)
        batch = measured[visible[0]].shape[1:] if visible else ()
        total = np.zeros((*self._shape(attributes), *batch))

        for number in visible:
            total += self._contribution(number, attributes, measured)

        return total.reshape(-1, *batch)

    def _components(self, measured: Sequence[Array]) -> Components:
        assert self.overlap is not None
        pairs = zip(self.blocks, measured, strict=True)
        return self.overlap.components(
            [values / block.multiplier for block, values in pairs]
        )

    def _contribution(
        self,
        number: int,
        attributes: Table,
        measured: Sequence[Array],
    ) -> FloatArray:
        """What one block says of a table: inverse, summed over extra axes, spread over missing."""
        block = self.blocks[number]
        values = measured[number]
        batch = values.shape[1:]

        maps = []

        for i, inverse in self.inverses(block).items():
            matrix = inverse if i in attributes else inverse.sum(axis=0, keepdims=True)
            maps.append((*matrix.shape, matrix.__matmul__))

        scales = np.asarray(block.scales).reshape(-1, *[1] * len(batch))
        table = apply_along_axes(maps, values / scales)
        shape = [self.sizes[i] if i in block.matrices else 1 for i in attributes]
        result = table.reshape([*shape, *batch])

        for position, i in enumerate(attributes):
            if i not in block.matrices:
                shape = [1] * result.ndim
                shape[position] = self.sizes[i]
                result = result * self.reference(i).reshape(shape)

        return result

    def term_answers(self, term: Term, measured: Sequence[Array]) -> FloatArray:
        """Least-squares answers of one term of a workload."""
        return self.answers([term], measured)[0]

    def answers(
        self, terms: Sequence[Term], measured: Sequence[Array]
    ) -> list[FloatArray]:
        """Least-squares answers of all terms of a workload."""
        if len(terms) > 1 and self._in_one_table(terms):
            answers = self._from_one_table(terms, measured)
        else:
            tables = self._tables(terms, measured)
            answers = each_answered(terms, tables)

        return [np.asarray(values, dtype=np.float64) for values in answers]

    def _tables(
        self, terms: Sequence[Term], measured: Sequence[Array]
    ) -> list[FloatArray]:
        """The marginal table of every term."""
        if self.overlap is not None:
            components = self._components(measured)
            wanted = [term.attributes for term in terms]
            return self.overlap.tables_of(wanted, components)

        if not self.separate:
            return [self.table(term.attributes, measured) for term in terms]

        tables = []
        for term in terms:
            (number,) = self.seen_by(term)
            table = self._contribution(number, term.attributes, measured)
            tables.append(table.reshape(-1, *measured[number].shape[1:]))

        return tables

    def _in_one_table(self, terms: Sequence[Term]) -> bool:
        """Whether one block tells all terms, whose cells can be listed: they share their sums."""
        if self.separate or len(self.blocks) > 1:
            return False
        attributes = self.blocks[0].attributes
        listed = prod(self._shape(attributes)) <= _MOST_SHARED
        return listed and all(set(term.attributes) <= set(attributes) for term in terms)

    def _from_one_table(
        self, terms: Sequence[Term], measured: Sequence[Array]
    ) -> list[FloatArray]:
        """Answers from the one block's table, whose attributes are numbered by their places."""
        attributes = self.blocks[0].attributes
        placed = [
            replace(
                term,
                attributes=tuple(map(attributes.index, term.attributes)),
            )
            for term in terms
        ]
        cells = self.table(attributes, measured)

        return cell_answers(cells, self._shape(attributes), placed)
