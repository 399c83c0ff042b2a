"""Impossible cells, declared as public knowledge: estimates conditioned on their being empty.

The strategy measures whole tables; that some of their cells hold nobody is known beforehand. The
best linear estimate given this knowledge is still linear in the measurements, exact variances and
all, and it is consistent across tables: no answer is patched by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.central.gaussian import as_one_axis
from noisewright.central.strategy import BlockStrategy
from noisewright.domain import Domain
from noisewright.errors import OutOfReach
from noisewright.privacy.law import NoiseLaw
from noisewright.workload import Explicit, OnAttributes
from noisewright.workload.base import FloatArray
from noisewright.workload.terms import Term

_MOST_CELLS = 2000
_MOST_ENTRIES = 2**24


@dataclass(frozen=True, eq=False)
class ZeroFit:
    """What estimates of impossible cells tell about the answers asked."""

    terms: tuple[Term, ...]
    gain: FloatArray
    reduction: FloatArray

    def correct(
        self,
        strategy: BlockStrategy,
        measured: Sequence[npt.NDArray[Any]],
        answers: FloatArray,
    ) -> FloatArray:
        """Answers given that the impossible cells are empty."""
        found = np.concatenate(strategy.answers(self.terms, measured))
        return np.asarray(answers - self.gain @ found)


def impossible_terms(domain: Domain, joint: bool) -> list[Term]:
    """One query per impossible cell, on the marginal tables of the declarations."""
    result = []
    for box in domain.boxes:
        names = sorted(box.names, key=domain.names.index)
        positions = tuple(domain.names.index(name) for name in names)
        inside = np.flatnonzero(box.holds(domain, names).ravel())
        rows = np.zeros((len(inside), int(np.prod([domain.shape[i] for i in positions]))))
        rows[np.arange(len(inside)), inside] = 1.0
        asked = Explicit(rows)
        if joint:
            result.append(as_one_axis(OnAttributes(domain.shape, positions, asked)))
        else:
            result.append(Term(1.0, positions, asked, None if len(positions) > 1 else (asked,)))
    return result


def zero_fit(
    strategy: BlockStrategy, domain: Domain, terms: Sequence[Term], law: NoiseLaw
) -> ZeroFit | None:
    """The correction for a domain's impossible cells; None where there is nothing to gain."""
    known = [t for t in _small(domain, strategy) if _reached(strategy, t)]
    cells, queries = sum(t.queries for t in known), sum(t.queries for t in terms)
    largest = max(block.rows for block in strategy.blocks)
    entries = max(queries, largest) * max(largest, cells)
    if not known or cells > _MOST_CELLS or entries > _MOST_ENTRIES:
        return None
    cross, own = np.zeros((queries, cells)), np.zeros((cells, cells))
    for number, (block, drawn) in enumerate(zip(strategy.blocks, strategy.laws(law), strict=True)):
        units = [np.zeros((b.rows, block.rows)) for b in strategy.blocks]
        units[number] = np.eye(block.rows)
        empty = np.concatenate(strategy.answers(known, units))
        cross += drawn.variance * (np.concatenate(strategy.answers(terms, units)) @ empty.T)
        own += drawn.variance * (empty @ empty.T)
    gain = cross @ np.linalg.pinv(own, rcond=1e-10, hermitian=True)
    return ZeroFit(tuple(known), gain, np.einsum("ij,ij->i", gain, cross))


def _small(domain: Domain, strategy: BlockStrategy) -> list[Term]:
    joint = strategy.sizes != domain.shape
    size = int(np.prod([min(n, 10**6) for n in domain.shape], dtype=object))
    return [] if joint and size > _MOST_CELLS * 4 else impossible_terms(domain, joint)


def _reached(strategy: BlockStrategy, term: Term) -> bool:
    try:
        strategy.check_reach(term)
    except OutOfReach:
        return False
    return True
