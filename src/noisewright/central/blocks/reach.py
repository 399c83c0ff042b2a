"""Which queries a strategy's measurements determine: found out before any noise is planned."""

from __future__ import annotations

from math import prod

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.central.blocks.block import (
    Block,
    Table,
    along_axes,
    is_identity,
)
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.errors import OutOfReach, TooLarge
from noisewright.workload.kinds.atoms import Total
from noisewright.workload.structure import Term

_LOST = 1e-6  # relative rounding allowed where a query is measured and comes back
_PROBES = 4  # random histograms: one would do, but for chance
_LARGEST_PROBE = 2.0**26  # cells of a table on which that is tried
_MOST_AXES = 60  # of an array: numpy has 64


def check_reach(
    strategy: BlockStrategy,
    term: Term,
    first_query: int = 0,
) -> None:
    """Refuse a term that the measurements do not determine."""
    if strategy.complete(term.attributes):
        return

    numbers = strategy.seen_by(term)
    block = strategy.blocks[numbers[0]] if len(numbers) == 1 else None
    alone = strategy.axes is None and term.factors is not None
    if alone and block and block.matrices.keys() >= set(term.attributes):
        missed = _missed_by_block(block, term)
    else:
        missed = _missed(strategy, term, numbers)

    if missed is not None:
        raise OutOfReach(
            f"query {first_query + missed} lies outside the strategy's row space; plan for a"
            " workload that includes it"
        )


def _missed(
    strategy: BlockStrategy,
    term: Term,
    numbers: list[int],
) -> int | None:
    """The first query that a random histogram, measured and answered, shows to be lost."""
    shape = [strategy.sizes[i] for i in term.attributes]
    if prod(shape) > _LARGEST_PROBE or len(shape) > _MOST_AXES:
        raise TooLarge(
            f"queries over {prod(shape):.3g} cells are not measured by a product of their own; "
            f"whether they can be answered is found out up to {_LARGEST_PROBE:.0f} cells; ask "
            f"about fewer attributes at once"
        )

    probe = np.random.default_rng(0).integers(0, 100, size=shape)
    measured: list[Array] = [np.empty(0)] * len(strategy.blocks)
    for number in numbers:
        block = strategy.blocks[number]
        measured[number] = _measured(strategy, block, term.attributes, probe)

    answers = term.answers(probe.ravel().astype(np.float64))
    seen = strategy.term_answers(term, measured)
    off = np.abs(seen - answers) > _LOST * (term.weight + np.abs(answers).max())

    return int(np.argmax(off)) if off.any() else None


def _measured(
    strategy: BlockStrategy,
    block: Block,
    attributes: Table,
    table: IntArray,
) -> FloatArray:
    """A block's measurement of the histogram that spreads a table over all other attributes."""
    sizes = {i: strategy.sizes[i] for i in block.attributes}
    summed = tuple(k for k, i in enumerate(attributes) if i not in sizes)
    spread = [i for i in sizes if i not in attributes]
    part = table.sum(axis=summed) / prod(sizes[i] for i in spread)

    full = part.reshape([1 if i in spread else n for i, n in sizes.items()])
    full = np.broadcast_to(full, list(sizes.values()))
    factors = [factor.astype(np.float64) for factor in block.factors]
    return block.scales * along_axes(factors, full)


def _missed_by_block(
    block: Block,
    term: Term,
) -> int | None:
    """The first query of a product that its one block does not reach, factor by factor.

    What comes back is compared with each query's own size: a small one is not lost among others.
    """
    lost = False
    for i, factor in block.matrices.items():
        if is_identity(factor):
            continue

        inverse = block.inverses[i]
        size = len(inverse)
        probes = np.random.default_rng(i).standard_normal((size, _PROBES))
        cells = np.hstack([probes, inverse @ (factor @ probes), np.abs(probes)])
        queries = term.by_attribute.get(i, Total(size))
        images = np.asarray(queries.matvec(cells), dtype=np.float64)

        answers, seen, bulk = np.hsplit(images, 3)
        sizes = (np.abs(answers) + 1e-3 * np.abs(bulk)).max(axis=1)
        away = np.abs(seen - answers).max(axis=1)
        off = np.flatnonzero(away > _LOST * sizes)
        if off.size and i in term.attributes:
            later = [term.by_attribute[k].queries for k in term.attributes if k > i]
            return int(off[0]) * prod(later)

        lost = lost or off.size > 0

    return 0 if lost else None
