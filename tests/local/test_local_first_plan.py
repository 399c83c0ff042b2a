"""A listener hears of a plan before any search, and of better ones only."""

from __future__ import annotations

from itertools import pairwise

from noisewright.local.choose.options import Local
from noisewright.planning.local.make import plan_local
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload


def test_first_plans_are_told_one_by_one_and_get_better():
    told = []
    plan = plan_local(
        workload("prefix:16"),
        Privacy(1.0),
        Local(effort="low", cache=False, progress=told.append),
    )
    first = [state.ratio for state in told if state.stage == "first plan"]
    assert len(first) > 1
    assert all(later < earlier for earlier, later in pairwise(first))
    assert [state.stage for state in told[: len(first)]] == ["first plan"] * len(first)
    assert first[-1] >= plan.summary()["certified_ratio"]
