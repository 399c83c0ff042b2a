"""Quantiles from released CDFs."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.planning.after.further import release_quantiles
from oracles.privacy_oracles import SeededSource

DOMAIN = nw.Domain(
    (
        nw.Numeric("income", edges=tuple(range(0, 101, 5))),
        nw.Categorical("sex", ("F", "M")),
    )
)


def test_quantiles_by_group_are_near_and_enclosed() -> None:
    asked = nw.Workload.from_spec(
        {"queries": [{"cdf": "income", "by": "sex"}, {"marginal": "sex"}]}, DOMAIN
    )
    made = nw.plan(asked, nw.Privacy(rho=1))
    x = np.random.default_rng(0).integers(0, 200, size=DOMAIN.shape)
    release = made.noisy(made.exact(x), source=SeededSource(2))
    found = release_quantiles(release, [0.25, 0.5])
    assert [(f.group, f.level) for f in found] == [
        ("sex = F", 0.25), ("sex = F", 0.5), ("sex = M", 0.25), ("sex = M", 0.5),
    ]  # fmt: skip
    for f in found:
        counts = x[:, 0 if f.group == "sex = F" else 1]
        ends = np.cumsum(counts) / counts.sum()
        exact = 5.0 * (np.searchsorted(ends, f.level) + 1)
        assert f.lower < exact <= f.upper
        assert abs(f.estimate - exact) <= 10


def test_only_cdfs_have_quantiles() -> None:
    asked = nw.Workload.from_spec({"queries": [{"marginal": "sex"}]}, DOMAIN)
    made = nw.plan(asked, nw.Privacy(rho=1))
    release = made.noisy(
        made.exact(np.ones(DOMAIN.shape, dtype=int)), source=SeededSource(2)
    )
    with pytest.raises(InvalidParameter, match="CDF"):
        release_quantiles(release, [0.5])


def test_quantiles_come_from_the_release_as_it_was() -> None:
    asked = nw.Workload.from_spec({"queries": [{"cdf": "income"}]}, DOMAIN)
    made = nw.plan(asked, nw.Privacy(rho=1))
    release = made.noisy(
        made.exact(np.ones(DOMAIN.shape, dtype=int)), source=SeededSource(2)
    )
    fitted = nw.post_process(release, non_negative=True)
    with pytest.raises(InvalidParameter, match="before"):
        release_quantiles(fitted, [0.5])
    with pytest.raises(InvalidParameter, match="level"):
        release_quantiles(release, [0.0])
