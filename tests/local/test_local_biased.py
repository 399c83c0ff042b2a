"""Why a local bound names its class: an estimate with a bias needs fewer people than the bound.

Shrinking towards even answers, c·x̂ + (1 − c)·N/n, is linear in the reports but biased. Everything
here is exact: no reports are drawn, and the variance is that of the textbook estimate by counting.
"""

from __future__ import annotations

from math import ceil, exp

import numpy as np
import pytest

import noisewright as nw
from noisewright.solution import BoundClass

ALPHA = 0.01


def counting_variance(cells: int, chosen: int, epsilon: float) -> float:
    """Total variance per person of subset selection's usual estimate, the same for every type.

    A set of `chosen` cells holds one's own with chance p and any other with chance q; the estimate
    of a cell is (held − q)/(p − q).
    """
    own = chosen * exp(epsilon)
    p = own / (own + cells - chosen)
    q = (p * (chosen - 1) + (1 - p) * chosen) / (cells - 1)
    return (p * (1 - p) + (cells - 1) * q * (1 - q)) / (p - q) ** 2


def shrunk_error(
    variance: float, people: float, factor: float, shares: np.ndarray
) -> float:
    """Mean squared error per cell, of shares, of c·x̂/N + (1 − c)/n at these shares of people."""
    cells = len(shares)
    bias = (1 - factor) ** 2 * float(((shares - 1 / cells) ** 2).sum())
    return (factor**2 * variance / people + bias) / cells


@pytest.mark.parametrize(("cells", "times"), [(64, 2.5), (16, 1.1)])
def test_shrinking_needs_fewer_people_than_the_bound_on_unbiased_estimates(
    cells: int, times: float
) -> None:
    plan = nw.plan(f"identity:{cells}", nw.Privacy(epsilon=1), nw.Local())
    assert plan.mechanism.name == "subset-selection"
    summary = plan.summary()
    bound = summary["certified_lower_bound"]
    assert summary["bound_class"] == BoundClass.UNBIASED
    assert summary["certified_ratio"] == pytest.approx(1.0, abs=1e-9)

    chosen = [counting_variance(cells, k, 1.0) for k in range(1, cells)]
    variance = min(chosen)  # the best set size; the plan has found it
    assert variance == pytest.approx(cells * ALPHA * bound, rel=1e-9)

    # All people in one cell is the worst case: the variance is the same on all data, and the bias,
    # convex in the shares, is largest at a corner. There the best factor is far/(far + variance/N).
    far = 1 - 1 / cells
    people = ceil(variance * (far - cells * ALPHA) / (cells * ALPHA * far))
    factor = far / (far + variance / people)
    rng = np.random.default_rng(0)
    data = [
        np.eye(cells)[0],
        np.full(cells, 1 / cells),
        *rng.dirichlet(np.full(cells, 0.1), 50),
    ]
    errors = [shrunk_error(variance, people, factor, shares) for shares in data]
    assert max(errors) == errors[0] <= ALPHA
    assert people * times < bound

    # The plan's own estimate, with as many people, is worse by as much as the bound says.
    assert shrunk_error(variance, people, 1.0, data[0]) == pytest.approx(
        ALPHA * bound / people
    )


def test_the_estimate_by_counting_is_what_the_plan_reports_allow() -> None:
    """The oracle above against every set written out, on few cells."""
    from itertools import combinations

    cells, chosen, epsilon = 6, 2, 1.0
    sets = np.array(
        [[u in s for u in range(cells)] for s in combinations(range(cells), chosen)]
    )
    chances = np.where(sets, exp(epsilon), 1.0)
    chances /= chances.sum(axis=0)
    held = (chances * sets).sum(axis=0)[0]
    other = float(chances[:, 0] @ sets[:, 1])
    estimates = (sets - other) / (held - other)
    means = estimates.T @ chances
    # unbiased, whoever is asked
    assert means == pytest.approx(np.eye(cells), abs=1e-12)
    variances = ((estimates**2).T @ chances - means**2).sum(axis=0)
    assert variances == pytest.approx(
        np.full(cells, counting_variance(cells, chosen, epsilon))
    )
