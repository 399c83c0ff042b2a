"""Whether carry noise, as it is drawn, hides one person: by undoing it for neighbours.

The density of noise follows from the draws behind it, so both neighbours' draws are worked out from
the same outcome, one row after the other, through nothing but the map that makes noise of draws.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

_DRAWS = 60


def check_carry(plan: Any) -> bool:
    """Assert that no outcome tries the promise by more than ε, when one person joins or changes."""
    method, cells = plan.mechanism, plan.workload.size
    if cells > 64 or method.carries.rows > 128:
        return False
    people = [measured(plan, cell) for cell in range(cells)]
    changes = people
    if plan.privacy.neighbours == "replace-one":
        changes = [one - other for one, other in combinations(people, 2)]
    if method.closed:
        assert all(change.sum() == 0 for change in changes)
    losses = [largest_loss(method.carries, change) for change in changes]
    assert (
        Fraction(max(losses, default=0)) / Fraction(method.scale)
        <= plan.privacy.epsilon
    )
    plan.release(np.arange(cells))
    return True


def measured(plan: Any, cell: int) -> Any:
    """What one person in a cell adds to all that is measured."""
    person = np.zeros(plan.workload.size, dtype=np.int64)
    person[cell] = 1
    (exact,) = plan.mechanism.measured.exact(plan.exact(person))
    return exact


def largest_loss(carries: Any, change: Any) -> int:
    """How much farther beyond their cores the draws of a neighbour are, over some outcomes."""
    rng = np.random.default_rng(1)
    cores = carries.cores[:, None]
    reach = cores + 3 * np.abs(change).max() + 3
    inside = rng.integers(-reach, reach + 1, size=(carries.rows, _DRAWS))
    edges = cores * rng.choice([-1, 1], inside.shape) + rng.integers(
        -2, 3, inside.shape
    )
    draws = np.where(rng.random(inside.shape) < 0.5, inside, edges)
    outcome = carries.carried(draws)
    before = undone(carries, outcome - change[:, None])
    apart = _beyond(carries, draws) - _beyond(carries, before)
    return int(np.abs(apart).max(initial=0))


def undone(carries: Any, noise: Any) -> Any:
    """The draws behind noise; that there are such is part of what is proved."""
    left, draws = noise.copy(), np.zeros_like(noise)
    for row in carries.order:
        draws[row] = left[row]
        alone = np.zeros_like(noise)
        alone[row] = draws[row]
        left -= carries.carried(alone)
    np.testing.assert_array_equal(carries.carried(draws), noise)
    return draws


def _beyond(carries: Any, draws: Any) -> Any:
    return np.maximum(np.abs(draws) - carries.cores[:, None], 0).sum(axis=0)
