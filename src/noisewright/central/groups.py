"""Bounds on a person's rows in every group, and strategies that gain from them.

Where at most `each` of a person's `rows` fall into one cell of some attributes, and a block
measures different cells of these by different numbers, rows in different cells do not add up: their
changes are orthogonal, and the squares add. All other blocks are taken to move by all rows at once.
What is merged after the cut (levels, tables without these attributes) is such another block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod, sqrt

import numpy as np

from noisewright.arrays import IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.composite import Composite
from noisewright.central.mechanism import Mechanism
from noisewright.central.problem import CentralProblem, Proposal
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.budget import (
    Contribution,
    most_squares,
)
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Stack, Weighted, kron
from noisewright.workload.kinds.atoms import Identity, Total
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.structure import Term

_LARGEST = 4096  # values of an attribute whose cells are measured one by one


@dataclass(frozen=True)
class RowBounds:
    """At most `rows` rows of a person, at most `each` in one cell of the attributes `by`."""

    sizes: tuple[int, ...]
    rows: int = 1
    each: int = 1
    by: tuple[int, ...] = ()

    @classmethod
    def of(cls, domain: Domain | None, sizes: tuple[int, ...]) -> RowBounds:
        """What a schema declares of people's rows."""
        if domain is None or domain.unit is None or not domain.unit.by:
            rows = 1 if domain is None else domain.rows
            return cls(sizes, rows, rows)

        unit = domain.unit
        places = tuple(sorted(domain.names.index(name) for name in unit.by))
        return cls(sizes, unit.rows, unit.each, places).of_rows(unit.rows)

    def of_rows(self, rows: int) -> RowBounds:
        """The same with another number of rows, of which groups may admit fewer."""
        if not self.by:
            return replace(self, rows=rows, each=rows)
        each = min(self.each, rows)
        cells = prod(self.sizes[i] for i in self.by)
        return replace(self, rows=min(rows, each * cells), each=each)

    @property
    def grouped(self) -> bool:
        """Whether groups bound more than the number of rows does."""
        return bool(self.by) and self.each < self.rows

    def contribution(self, mechanism: Mechanism) -> Contribution:
        """How many times what a row moves the mechanism's measurement, a person does."""
        plain = Contribution(self.rows)
        if not self.grouped or mechanism.privacy.kind == "pure":
            return plain

        if isinstance(mechanism, Composite):
            parts = [self.contribution(member) for member in mechanism.members]
            return max(parts, key=lambda part: part.square)

        if isinstance(mechanism, BlockMechanism):
            return Contribution(self.rows, self._square(mechanism))

        return plain

    def _square(self, mechanism: BlockMechanism) -> Fraction:
        """Squares of rows that groups keep apart, and of all rows where they do not."""
        blocks = mechanism.strategy.blocks
        apart = [self._keeps_apart(mechanism, block) for block in blocks]
        whole, apart_squares, other = (
            _squared(mechanism.strategy.sizes, [b for b, is_so in zip(blocks, apart, strict=True)
                                                if is_so in kinds])
            for kinds in ((True, False), (True,), (False,))
        )  # fmt: skip
        if not whole:
            return Fraction(self.rows) ** 2

        return (
            most_squares(self.rows, self.each) * apart_squares + self.rows**2 * other
        ) / whole

    def _keeps_apart(self, mechanism: BlockMechanism, block: Block) -> bool:
        """Whether every number measured is of one group alone."""
        if mechanism.strategy.sizes != self.sizes:  # all attributes on one axis
            if not block.attributes:
                return False
            cells = np.indices(self.sizes).reshape(len(self.sizes), -1)[list(self.by)]
            sizes = [self.sizes[i] for i in self.by]
            return _of_one_group(
                block.factors[0],
                np.ravel_multi_index(tuple(cells), sizes),
            )

        factors = block.matrices
        return all(
            i in factors and _of_one_group(factors[i], np.arange(self.sizes[i]))
            for i in self.by
        )


def _squared(sizes: tuple[int, ...], blocks: Sequence[Block]) -> Fraction:
    strategy = BlockStrategy(sizes, tuple(blocks), separate=True)
    return Fraction(strategy.sensitivity(2)) ** 2 if blocks else Fraction(0)


def _of_one_group(factor: IntArray, groups: IntArray) -> bool:
    """Whether every row of a matrix sees cells of one group alone."""
    rows, cells = np.nonzero(factor)
    pairs = np.unique(np.stack([rows, groups[cells]]), axis=1)
    return bool(np.bincount(pairs[0], minlength=1).max(initial=0) <= 1)


def one_group(problem: CentralProblem, bounds: RowBounds) -> CentralProblem | None:
    """What is asked of one group, weighed by what errors in all groups add to the questions.

    None where some question is no product over attributes.
    """
    rest = [i for i in range(len(problem.sizes)) if i not in bounds.by]
    if not rest or any(problem.sizes[i] > _LARGEST for i in bounds.by):
        return None

    sizes = tuple(problem.sizes[i] for i in rest)
    parts = [_of_group(term, bounds.by, rest, sizes) for term in problem.terms]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None

    workload = known[0] if len(known) == 1 else Stack(tuple(known))
    return CentralProblem(
        workload,
        sizes,
        problem.privacy,
        problem.norm,
        promise=problem.promise,
    )


def _of_group(
    term: Term,
    by: Sequence[int],
    rest: Sequence[int],
    sizes: tuple[int, ...],
) -> Workload | None:
    if term.factors is None:
        return None

    factors = term.by_attribute
    # Groups err independently: Σ over groups of squared entries, over that of a table of groups.
    among = [
        factors[i] for i in by if i in factors and not isinstance(factors[i], Identity)
    ]
    weight = term.weight * sqrt(
        prod(float((f.column_norms(2) ** 2).mean()) for f in among)
    )
    places = tuple(place for place, i in enumerate(rest) if i in factors)
    inner = kron([factors[rest[place]] for place in places]) if places else Total(1)
    asked: Workload = OnAttributes(sizes, places, inner)

    return asked if weight == 1 else Weighted(weight, asked)


def in_every_group(
    proposal: Proposal,
    problem: CentralProblem,
    bounds: RowBounds,
) -> Proposal | None:
    """What was proposed for one group, for all of them; None where it cannot be written so."""
    mechanism = proposal.mechanism
    rest = [i for i in range(len(problem.sizes)) if i not in bounds.by]
    sizes = tuple(problem.sizes[i] for i in rest)
    if not isinstance(mechanism, BlockMechanism) or mechanism.strategy.sizes != sizes:
        return None

    whole = {i: np.eye(problem.sizes[i], dtype=np.int64) for i in bounds.by}
    blocks = tuple(
        _in_groups(block, rest, whole) for block in mechanism.strategy.blocks
    )
    try:
        strategy = BlockStrategy(problem.sizes, blocks, mechanism.strategy.separate)
    except InvalidParameter:  # of a sort that does not combine with whole attributes
        return None

    in_groups = BlockMechanism(
        strategy,
        problem.privacy,
        mechanism.content,
        problem.sizes,
    )
    status = f"in every group: {proposal.status}"
    return replace(
        proposal,
        mechanism=in_groups,
        bound=None,
        certificate="none",
        status=status,
    )


def _in_groups(
    block: Block,
    rest: Sequence[int],
    whole: dict[int, IntArray],
) -> Block:
    factors = {rest[i]: factor for i, factor in block.matrices.items()} | whole
    attributes = tuple(sorted(factors))
    weights = block.weights
    if weights is not None:
        weights = np.expand_dims(
            weights, [k for k, i in enumerate(attributes) if i in whole]
        )

    return replace(
        block,
        attributes=attributes,
        factors=tuple(factors[i] for i in attributes),
        weights=weights,
    )
