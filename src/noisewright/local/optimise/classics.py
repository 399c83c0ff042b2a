"""The classical strategies that a search must not fall behind."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from noisewright.errors import NoisewrightError
from noisewright.local.composed.hierarchical import hierarchical
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.histogram.response import RandomizedResponse
from noisewright.local.histogram.sets import SubsetSelection
from noisewright.local.optimise.control import Control
from noisewright.local.optimise.task import Task
from noisewright.local.strategy import DENSE_SIZE, IndexStrategy, Strategy
from noisewright.local.transform.fourier import fourier
from noisewright.local.transform.hadamard import HadamardResponse

_BY_MATRICES = 512
_SLIVER = 1e-5
_BY_TRANSFORMS = 2**14


def seeing_all(task: Task, strategy: Strategy) -> Strategy:
    """The strategy, with a sliver of one that sees every cell where it misses a query.

    Queries millions of times smaller than others vanish in the Gram matrix that a search goes by.
    """
    if task.reached(strategy) or not isinstance(strategy, IndexStrategy):
        return strategy
    parts: list[IndexStrategy] = [strategy, RandomizedResponse(task.size, task.epsilon)]
    whole = Coarsening(task.size)
    return Mixture.of(parts, [whole, whole], [1.0 - _SLIVER, _SLIVER])


def never_worse(task: Task, strategy: Strategy, control: Control) -> tuple[str, Strategy, float]:
    """The strategy found, or the classical one that beats it: its name, itself and its error."""
    best, name = task.value(strategy), "optimised"
    if best <= task.floor * (1 + 1e-9) or control.met(best):
        return name, strategy, best
    for candidate, build in _classics(task, isfinite(best)).items():
        try:
            built = build()
            value = task.value(built)
        except NoisewrightError:
            continue
        if value < best * (1 - 1e-9):
            best, name, strategy = value, candidate, built
    return name, strategy, best


def _classics(task: Task, quick: bool) -> dict[str, Callable[[], Strategy]]:
    """Those whose error is quickly known: by matrices on small domains, in closed form on large.

    Where nothing was found yet, one that takes seconds is tried as well.
    """
    n, epsilon = task.size, task.epsilon
    found: dict[str, Callable[[], Strategy]] = {
        "randomized-response": lambda: RandomizedResponse(n, epsilon),
        "subset-selection": lambda: SubsetSelection(n, epsilon),
    }
    if n <= _BY_MATRICES:
        found["hadamard"] = lambda: HadamardResponse(n, epsilon)
    if n <= _BY_MATRICES or n > DENSE_SIZE:
        found["hierarchical"] = lambda: hierarchical(task.gram, epsilon)
    if n <= _BY_TRANSFORMS or not quick:
        found["fourier"] = lambda: fourier(task.gram, epsilon)
    return found
