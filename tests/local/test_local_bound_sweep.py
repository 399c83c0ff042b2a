"""Random small workloads, badly placed and badly scaled, against the optimum over all strategies.

Each is a few queries over at most six cells, with constants up to 1e8 and scales from 1e-8 to 1e8,
equal rows and rows of zeros. No floor of any kind may lie above the least variance that any
strategy reaches, and the planner must neither fail nor state a ratio below one.
"""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.errors import InvalidParameter
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.floors import floors
from noisewright.local.bounds.trace import prior_bound
from noisewright.local.choose.options import Local
from noisewright.planning.local.make import plan_local
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.kinds.explicit import Explicit
from oracles.local_optimum import optimum

TINY = 1e-9


def badly_placed(seed, most_cells=6):
    """A random matrix of queries and a budget."""
    rng = np.random.default_rng([seed, 20])
    p, n = int(rng.integers(1, 7)), int(rng.integers(2, most_cells + 1))
    draws = {
        0: lambda: rng.standard_normal((p, n)),
        1: lambda: rng.integers(0, 2, (p, n)).astype(float),
        2: lambda: rng.integers(-2, 3, (p, n)).astype(float),
        3: lambda: np.tril(np.ones((n, n)))[:p],
        4: lambda: np.eye(n)[:p],
    }
    rows = draws[seed % 5]()
    if rng.random() < 0.2:
        rows[int(rng.integers(len(rows)))] = rows[0]
    if rng.random() < 0.2:
        rows[int(rng.integers(len(rows)))] = 0.0
    each = rng.random() < 0.3
    rows = rows * 10.0 ** rng.uniform(-8, 8, (len(rows) if each else 1, 1))
    if rng.random() < 0.6:
        rows = rows + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(
            -2, 8, (len(rows), 1)
        )
    return rows, float(np.exp(rng.uniform(np.log(0.1), np.log(8.0))))


def check_floors(asked, matrix, epsilon, prior):
    """All floors are at most what the best strategy needs; returns how much that is."""
    worst, mean = optimum(matrix, epsilon), optimum(matrix, epsilon, worst=False)
    # the oracle knows what it says
    assert worst.above - worst.below <= 1e-4 * worst.above
    for floor in floors(asked, epsilon, table_gram(asked)):
        assert floor.variance <= worst.above * (1 + TINY), floor.name
        if floor.name == "trace":  # proved with people spread evenly
            assert floor.variance <= mean.above * (1 + TINY)
    assert prior_bound(asked, epsilon, prior).variance <= worst.above * (1 + TINY)
    return worst


def check_plan(asked, epsilon, worst):
    """A plan is made, and states nothing that cannot be."""
    plan = plan_local(
        asked, Privacy(epsilon), Local(cache=False, effort="low", people=1000)
    )
    summary = plan.summary()
    assert plan.analysis.worst_case >= worst.below * (1 - TINY)
    for name in ("ratio", "certified_ratio"):
        assert summary[name] is None or summary[name] >= 1 - TINY
    assert np.isfinite(plan.forecast().std).all()


def check(seed, plan=True):
    matrix, epsilon = badly_placed(seed)
    asked = Explicit(matrix)
    prior = np.random.default_rng(seed).dirichlet(np.ones(asked.size))
    worst = check_floors(asked, matrix, epsilon, prior)
    if not plan:
        return
    if table_gram(asked).mean_square() > 0:
        check_plan(asked, epsilon, worst)
        return
    with pytest.raises(InvalidParameter, match="tells no two people apart"):
        check_plan(asked, epsilon, worst)


@pytest.mark.parametrize("seed", range(40))
def test_no_floor_lies_above_the_optimum(seed):
    check(seed, plan=seed % 4 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_floor_of_two_thousand_lies_above_the_optimum(block):
    for seed in range(100 * block, 100 * block + 100):
        check(seed)


@pytest.mark.parametrize(
    "text",
    [
        "prefix:6+10000000@total:6",
        "(0.00001@prefix:3)*identity:2",
        "0.00001@(prefix:3*identity:2)",
        "(prefix:3+100000@total:3)*(prefix:2+100000@total:2)",
        "allmarginals:2x3",
        "100000000@parity:2:<=1",
    ],
)
def test_no_floor_of_a_structured_workload_lies_above_the_optimum(text):
    asked = workload(text)
    prior = np.random.default_rng(0).dirichlet(np.ones(asked.size))
    check_plan(asked, 2.0, check_floors(asked, asked.dense(), 2.0, prior))


def test_queries_that_tell_nobody_apart_have_no_floor_above_nothing_and_no_plan():
    asked = workload("10000000@total:5")
    prior = np.random.default_rng(0).dirichlet(np.ones(asked.size))
    check_floors(asked, asked.dense(), 2.0, prior)
    with pytest.raises(InvalidParameter, match="tells no two people apart"):
        plan_local(asked, Privacy(2.0), Local(cache=False, effort="low"))
