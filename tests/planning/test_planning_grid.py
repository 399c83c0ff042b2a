"""Means, variances, sums and quantiles against the truth: small and large groups, both neighbours.

Truths are worked out from the rows by numpy alone. False alarms: an answer's intervals hold with
probability 0.95, so that of R runs at least R·0.95 − 4·√(R·0.95·0.05) are held but for 1e-4 (each
of some ten answers a case: below 2e-3 in all, and seeds are fixed); averages of R unbiased answers
lie within 5 standard errors but for 1e-6.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.privacy.promise.budget import NEIGHBOURS
from oracles.privacy_oracles import SeededSource

DOMAIN = nw.Domain(
    [
        nw.Categorical("group", ("A", "B")),
        nw.Numeric.integers("x", 0, 49, 5, outside="clip"),
    ]
)
LEVELS = (0.25, 0.5, 0.75)
SIZES = {"small": (8, 60), "large": (3000, 900)}
QUERIES = [
    {"sum": "x", "by": "group"},
    {"mean": "x", "by": "group"},
    {"variance": "x", "by": "group"},
    {"quantiles": "x", "at": list(LEVELS), "by": "group"},
]


def people(sizes: tuple[int, int]) -> tuple[pa.Table, list[np.ndarray]]:
    rng = np.random.default_rng(1)
    groups = [rng.integers(0, 30, sizes[0]), rng.integers(20, 50, sizes[1])]
    names = np.repeat(["A", "B"], sizes)
    return pa.table({"group": names, "x": np.concatenate(groups)}), groups


def truths(groups: list[np.ndarray]) -> np.ndarray:
    """Sums, means and variances; of a quantile the bin that holds it is checked instead."""
    figures = [[f(x) for x in groups] for f in (np.sum, np.mean, np.var)]
    return np.array(figures, dtype=float).ravel()


def check(size: str, privacy: nw.Privacy, runs: int) -> None:
    table, groups = people(SIZES[size])
    plan = nw.plan(nw.Workload.from_spec({"queries": QUERIES}, DOMAIN), privacy)
    counts, source = plan.exact(table), SeededSource(7)
    columns = [plan.noisy(counts, source=source).intervals for _ in range(runs)]
    answers = np.array([column.answers for column in columns])
    low, high = (np.array([column.each[k] for column in columns]) for k in (0, 1))
    known, expected = slice(0, 6), truths(groups)
    fewest = runs * 0.95 - 4 * np.sqrt(runs * 0.95 * 0.05)
    held = (low[:, known] <= expected + 1e-9) & (expected - 1e-9 <= high[:, known])
    assert (held.sum(axis=0) >= fewest).all(), held.mean(axis=0)
    for number, (x, level) in enumerate((x, level) for x in groups for level in LEVELS):
        value = np.quantile(x, level, method="inverted_cdf")
        inside = (low[:, 6 + number] <= value + 1) & (value <= high[:, 6 + number])
        assert inside.sum() >= fewest, (level, inside.mean())
    spread = plan.forecast_column.std[:2]
    assert (
        np.abs(answers[:, :2].mean(axis=0) - expected[:2]) < 5 * spread / np.sqrt(runs)
    ).all()
    np.testing.assert_allclose(
        answers[:, :2].std(axis=0), spread, rtol=4 / np.sqrt(runs)
    )
    if size == "large":  # ratios are stated, and nearly unbiased where counts are clear
        assert np.isfinite(answers).all()
        width = (high - low)[:, 2:6].mean(axis=0)
        assert (np.abs(answers[:, 2:6].mean(axis=0) - expected[2:]) < width / 4).all()


BUDGETS = [{"rho": 0.05}, {"epsilon": 1.0}]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_means_variances_and_quantiles_hold_what_they_say(
    size: str, neighbours: str
) -> None:
    check(size, nw.Privacy(rho=0.05, neighbours=neighbours), 100)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_whole_grid_holds(
    size: str, neighbours: str, budget: dict[str, float]
) -> None:
    check(size, nw.Privacy(**budget, neighbours=neighbours), 2000)
