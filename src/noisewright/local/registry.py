"""The list of local mechanisms: what each is, what it answers, and how it is built.

Planning, comparison, the tests and the documentation all read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from noisewright.errors import NoisewrightError, TooLarge
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.offsets import without_offsets
from noisewright.local.composed.hierarchical import hierarchical
from noisewright.local.composed.union import union
from noisewright.local.histogram.centred import identity_and_ones
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.response import RandomizedResponse
from noisewright.local.histogram.sets import SubsetSelection
from noisewright.local.histogram.unary import UnaryEncoding
from noisewright.local.strategy import DENSE_SIZE, Strategy
from noisewright.local.transform.fourier import fourier
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.vector.codebook import one_bit, privunit
from noisewright.local.vector.noisy_columns import matrix_l1, matrix_l2
from noisewright.workload.base import Workload

_MOST_CELLS = 2**24
_QUICK_MATRICES = 1024


@dataclass(frozen=True)
class LocalMechanism:
    """A named way to report; `build` raises a noisewright error, in words, where it cannot."""

    name: str
    summary: str
    build: Callable[..., Strategy]
    needs_delta: bool = False
    quick_cells: int | None = None
    """Cells up to which it is quick enough to be tried without being named."""

    by_matrices: bool = False
    """Whether, up to 4096 cells, its error may be found by matrices over pairs of them."""

    def refuses(self, delta: float | None, cells: int, named: bool) -> str | None:
        """Why the mechanism does not suit the budget or is not tried, or None."""
        if self.needs_delta and delta is None:
            return "Gaussian noise gives no pure privacy; give a delta"
        if self.quick_cells is not None and cells > self.quick_cells and not named:
            return f"takes long above {self.quick_cells} cells; plan it by name"
        if self.by_matrices and _QUICK_MATRICES < cells <= DENSE_SIZE and not named:
            return f"takes long at {cells} cells; plan it by name"
        return None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mechanism built for a workload, or the reason why it was not."""

    mechanism: str
    seconds: float
    analysis: Analysis | None = None
    refusal: str | None = None


def _cells(kind: type[Any], **fixed: Any) -> Callable[..., Strategy]:
    def build(workload: Workload, epsilon: float, **options: Any) -> Strategy:
        if workload.size > _MOST_CELLS:
            raise TooLarge(f"{workload.size:.3g} cells are too many to count one by one")
        strategy: Strategy = kind(workload.size, epsilon, **fixed, **options)
        return strategy

    return build


def _from_gram(make: Callable[..., Strategy]) -> Callable[..., Strategy]:
    def build(workload: Workload, epsilon: float, **options: Any) -> Strategy:
        return make(table_gram(workload), epsilon, **options)

    return build


def _hashing(workload: Workload, epsilon: float, **options: Any) -> Strategy:
    """Hashing to two values where lines through cells, which more values bring, are too many."""
    if workload.size > DENSE_SIZE and identity_and_ones(table_gram(workload)) is None:
        options = {"buckets": 2} | options
    return _cells(LocalHashing)(workload, epsilon, **options)


MECHANISMS: dict[str, LocalMechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        LocalMechanism(
            "randomized-response", "the true cell, or any other", _cells(RandomizedResponse)
        ),
        LocalMechanism(
            "rappor", "one bit per cell, truth and lie alike", _cells(UnaryEncoding, symmetric=True)
        ),
        LocalMechanism("unary", "one bit per cell, zeros better hidden", _cells(UnaryEncoding)),
        LocalMechanism(
            "hadamard",
            "half of a block of Hadamard rows",
            _cells(HadamardResponse),
            by_matrices=True,
        ),
        LocalMechanism("subset-selection", "a random set of cells", _cells(SubsetSelection)),
        LocalMechanism("local-hashing", "a random hash of the cell", _hashing, by_matrices=True),
        LocalMechanism(
            "hierarchical",
            "one level of a tree of blocks",
            _from_gram(hierarchical),
            by_matrices=True,
        ),
        LocalMechanism("fourier", "the sign of one Walsh character", _from_gram(fourier)),
        LocalMechanism("union", "one of the tables asked", _from_gram(union)),
        LocalMechanism("matrix-l1", "a vector with Laplace noise", matrix_l1, quick_cells=128),
        LocalMechanism(
            "matrix-l2",
            "a vector with Gaussian noise",
            matrix_l2,
            needs_delta=True,
            quick_cells=256,
        ),
        LocalMechanism("one-bit", "the sign of a random projection", one_bit, quick_cells=256),
        LocalMechanism("privunit", "a random direction near a vector", privunit, quick_cells=512),
    )
}


def candidates(
    workload: Workload, epsilon: float, delta: float | None = None, names: list[str] | None = None
) -> list[Candidate]:
    """Every mechanism for the workload, the smallest worst-case variance first.

    Those that cannot answer it, or cannot be analysed at its size, come last with the reason.
    """
    named = names is not None
    tried = names or list(MECHANISMS)
    found = [_candidate(MECHANISMS[n], workload, epsilon, delta, named) for n in tried]
    able = [c for c in found if c.analysis is not None]
    able.sort(key=lambda c: c.analysis.worst_case if c.analysis is not None else 0.0)
    return able + [c for c in found if c.analysis is None]


def _candidate(
    mechanism: LocalMechanism,
    workload: Workload,
    epsilon: float,
    delta: float | None,
    named: bool,
) -> Candidate:
    began = time.perf_counter()
    refusal = mechanism.refuses(delta, workload.size, named)
    if refusal is None:
        options = {"delta": delta} if mechanism.needs_delta else {}
        try:
            strategy = mechanism.build(without_offsets(workload), epsilon, **options)
            analysis = Analysis(strategy, workload, table_gram(workload))
            _ = analysis.worst_case
            return Candidate(mechanism.name, time.perf_counter() - began, analysis)
        except NoisewrightError as error:
            refusal = str(error)
    return Candidate(mechanism.name, time.perf_counter() - began, refusal=refusal)
