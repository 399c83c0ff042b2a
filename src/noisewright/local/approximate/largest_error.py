"""How far the worst of all answers strays, for any strategy: what maximum errors are planned by."""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import TooLarge, require
from noisewright.local.analysis.accuracy import LocalAccuracy
from noisewright.local.analysis.influence import influence
from noisewright.local.approximate.linear_answers import LinearAnswers
from noisewright.local.approximate.tails import Tails, biases
from noisewright.local.strategy import IndexStrategy, Strategy
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Explicit

_LISTED_ENTRIES = 2**24
_WORK = 2**37  # multiplications: half a minute


def strategy_tails(
    strategy: Strategy, workload: Workload, targets: FloatArray | None = None
) -> Tails:
    """The tails of answers, as shares of all people, to the workload or to targets in its place.

    Exact where reports are listed. Elsewhere the variance is the largest over all tables of people,
    with a quarter of the squared range for their drawing from a population, and the range is the
    most that one report moves an answer.
    """
    if workload.queries * workload.size > _LISTED_ENTRIES:
        raise TooLarge(
            f"the largest error of {workload.queries:,} answers is not worked out"
        )

    matrix = workload.dense()
    answered = matrix if targets is None else targets
    if isinstance(strategy, IndexStrategy) and _quick(strategy, len(answered)):
        return LinearAnswers(strategy, answered).tails_around(*biases(answered, matrix))

    asked = workload if targets is None else Explicit(targets)
    strategy.check_reach(asked)
    spread = np.ptp(answered, axis=1)
    variance = (
        LocalAccuracy(strategy, asked, 1, errors="worst").variance + spread**2 / 4
    )

    with np.errstate(invalid="ignore"):  # reports without a limit that do not matter
        reach = influence(strategy, asked)

    require(
        np.isfinite(reach).all(),
        "mechanism",
        strategy.kind,
        "has reports without a limit, for which no largest error is promised",
        "choose another mechanism",
    )

    return Tails(variance, reach, reach, *biases(answered, matrix))


def _quick(strategy: IndexStrategy, queries: int) -> bool:
    outputs = strategy.outputs
    size = strategy.size
    return outputs * size <= _LISTED_ENTRIES and queries * outputs * size <= _WORK
