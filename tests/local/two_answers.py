"""A toy mechanism of parts there are: half the people tell their cell, half only its half.

Its only purpose is to show that a mechanism is one file and one line of the registry.
"""

from __future__ import annotations

from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.mechanism import LocalMechanism


def _plan(problem):
    cells, half = problem.listed_cells, -(-problem.listed_cells // 2)
    components = [
        RandomizedResponse(cells, problem.epsilon),
        RandomizedResponse(-(-cells // half), problem.epsilon),
    ]
    return Mixture.of(
        components, [Coarsening(cells), Coarsening(cells, half)], [0.5, 0.5]
    )


ENTRY = LocalMechanism("two-answers", "the cell, or the half it lies in", _plan)
