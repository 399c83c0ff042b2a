"""Impossible cells, declared as public knowledge: estimates conditioned on their being empty.

The mechanism measures whole tables; that some of their cells hold nobody is known beforehand. The
best linear estimate given this knowledge is still linear in the measurements, exact variances and
all, and it is consistent across tables: no answer is patched by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.mechanism import Measurement, Mechanism
from noisewright.domain import Domain
from noisewright.domain.impossible import Box
from noisewright.errors import DeclarationWarning, OutOfReach, TooLarge, shown_value
from noisewright.estimate.accuracy import Conditioned
from noisewright.workload import Explicit
from noisewright.workload.structure import Term

FALSE_ALARMS = 1e-6
"""The chance that noise alone looks like people in impossible cells: one release in a million."""
_MOST_CELLS = 2000  # impossible ones, whose dense covariance is inverted: 32 MB
_MOST_ENTRIES = 2**24  # of covariances with answers: 128 MB


@dataclass(frozen=True, eq=False)
class Known:
    """One term per declaration whose cells are known to be empty, and the answers given that."""

    terms: tuple[Term, ...]
    accuracy: Conditioned


def given_empty_cells(
    mechanism: Mechanism, domain: Domain, terms: Sequence[Term]
) -> Known | None:
    """What a domain's impossible cells tell about answers; None where there is nothing to gain."""
    boxes = [
        _on_cells(domain, box, np.eye) for box in domain.boxes if _writable(domain, box)
    ]
    known = tuple(term for term in boxes if _reached(mechanism, term))
    cells = sum(t.queries for t in known)
    queries = sum(t.queries for t in terms)
    if not known or cells > _MOST_CELLS or queries * cells > _MOST_ENTRIES:
        return None

    accuracy = mechanism.accuracy([*terms, *known])
    conditioned = Conditioned(accuracy, np.arange(queries, queries + cells), queries)
    try:
        _ = conditioned.gain
    except TooLarge:
        return None

    return Known(known, conditioned)


def _writable(domain: Domain, box: Box) -> bool:
    """Whether queries about single cells of a box can be written out over its table."""
    cells = prod(len(cells) for _, cells in box.sides)
    return (cells + 1) * prod(domain[name].size for name in box.names) <= _MOST_ENTRIES


def _on_cells(domain: Domain, box: Box, queries: Callable[[int], FloatArray]) -> Term:
    """Queries about the cells of a box alone: `queries` gives their rows for so many cells."""
    names = sorted(box.names, key=domain.names.index)
    positions = tuple(domain.names.index(name) for name in names)
    inside = np.flatnonzero(box.holds(domain, names).ravel())
    own = queries(len(inside))
    rows = np.zeros((len(own), prod(domain.shape[i] for i in positions)))
    rows[:, inside] = own
    workload = Explicit(rows)

    return Term(1.0, positions, workload, None if len(positions) > 1 else (workload,))


def contradictions(
    mechanism: Mechanism, domain: Domain, measurement: Measurement
) -> dict[str, object] | None:
    """Whether noisy measurements say that people are in impossible cells: for records, no cost.

    Each declaration that the mechanism can see is tested by its cells one by one and all together.
    Where all of them hold, any is called contradicted with probability `FALSE_ALARMS` at most:
    tails are bounded for the very integers that are drawn. None where there is nothing to test.
    """
    visible = _testable(mechanism, domain)
    terms = [term for _, term in visible]
    if not visible:
        return None

    accuracy = mechanism.accuracy(terms)
    threshold = accuracy.tail(FALSE_ALARMS / sum(term.queries for term in terms))
    if threshold is None:
        return None

    ends = np.cumsum([term.queries for term in terms])[:-1]
    people = mechanism.answer(measurement, terms)
    high = np.split(people > np.maximum(threshold * accuracy.std, 0.5), ends)

    return {
        "tested": len(visible),
        "declared": len(domain.boxes),
        "false_alarm_rate": FALSE_ALARMS,
        "contradicted": [
            box.to_dict(domain)
            for (box, _), cells in zip(visible, high, strict=True)
            if cells.any()
        ],
    }


def warn_of(record: Mapping[str, object] | None) -> None:
    """Warn where a record of `contradictions` names any."""
    if record is not None and record["contradicted"]:
        cells = shown_value(record["contradicted"], 200)
        warnings.warn(
            f"the noisy counts say that people are in cells declared impossible: {cells}; answers "
            "take these cells for empty and are biased by those people, beyond the stated errors; "
            "correct `impossible` in the schema",
            DeclarationWarning,
            stacklevel=5,
        )


def _testable(mechanism: Mechanism, domain: Domain) -> list[tuple[Box, Term]]:
    """Declarations that the mechanism sees, with one query per cell and one for all of them."""
    result = []
    for box in domain.boxes:
        if prod(domain[name].size for name in box.names) > _MOST_ENTRIES:
            continue
        few = prod(len(cells) for _, cells in box.sides) <= _MOST_CELLS
        each = few and _writable(domain, box)
        term = _on_cells(domain, box, _each_and_all if each else _all)
        if _reached(mechanism, term):
            result.append((box, term))

    return result


def _all(cells: int) -> FloatArray:
    return np.ones((1, cells))


def _each_and_all(cells: int) -> FloatArray:
    return np.vstack([np.eye(cells), _all(cells)])


def _reached(mechanism: Mechanism, term: Term) -> bool:
    try:
        mechanism.check_reach([term])
    except OutOfReach:
        return False
    return True
