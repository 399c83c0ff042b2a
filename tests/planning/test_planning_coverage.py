"""Monte Carlo coverage of 95 % intervals over 5,000 releases, per query and for all at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from noisewright import Central, plan
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Identity, Marginals, Prefix, Workload, workload
from planning.test_planning_release import repeated

RELEASES = 5000
ALARM = 1e-6  # of any one band of a case, Bonferroni over its queries

CASES: dict[str, tuple[Workload, Privacy]] = {
    "dense": (workload("prefix:12"), Privacy(epsilon=1, delta=1e-6)),
    "counts": (workload("marginals:3x2x4:<=2"), Privacy(rho=0.2)),
    "mixed": (
        Marginals((Prefix(6), Identity(3), Prefix(4)), ((0, 1), (1, 2), (2,))),
        Privacy(epsilon=0.5, delta=1e-9),
    ),
    "pure": (workload("prefix:9"), Privacy(epsilon=1)),
    "pure tables": (workload("marginals:2^4:1"), Privacy(epsilon=0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_intervals_cover(name: str) -> None:
    asked, privacy = CASES[name]
    named = "laplace-strategy" if privacy.kind == "pure" else "auto"
    composition = "many" if privacy.kind == "approximate" else "one"
    p = plan(asked, privacy, Central(mechanism=named, composition=composition))
    forecast = p.forecast()
    x = np.random.default_rng(1).integers(0, 300, size=asked.size)
    errors = np.abs(repeated(p, x, seed=2, releases=RELEASES) - asked.matvec(x))
    alarm = ALARM / (2 * (asked.queries + 1))
    hits = (errors <= forecast.halfwidth).sum(axis=0)
    assert hits.min() >= binom.ppf(alarm, RELEASES, 0.95)
    # Gaussian intervals are exact; Laplace ones may be a little wide
    if privacy.kind != "pure":
        assert hits.max() <= binom.ppf(1 - alarm, RELEASES, 0.95)
    joint = int((errors <= forecast.simultaneous_halfwidth).all(axis=1).sum())
    # The simulated multiplier lies between the quantiles of levels 0.95 and 0.965.
    assert (
        binom.ppf(alarm, RELEASES, 0.95)
        <= joint
        <= binom.ppf(1 - alarm, RELEASES, 0.965)
    )
