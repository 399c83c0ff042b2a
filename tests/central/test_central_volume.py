"""Volume bounds: sharp for balls, below every noise of ours, from volumes in closed form."""

from __future__ import annotations

from itertools import product
from math import comb, exp, factorial, log, sqrt

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import noisewright as nw
from noisewright.central.geometry.limits import volume
from noisewright.central.geometry.limits.volume import (
    body_columns,
    corner_radius,
    log_ball,
    reach_along,
    sampled_radius,
    volume_bound,
)
from noisewright.planning.central.problems import central_problem
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload

REPLACED, ADDED = Privacy(1.0, neighbours="replace-one"), Privacy(1.0)
BOTH = [REPLACED, ADDED]


def bound(queries, privacy: Privacy) -> float:
    return volume_bound(central_problem(workload(queries), privacy, nw.Central())).value


def radius_of(volume_: float, d: int) -> float:
    return exp((log(volume_) - log_ball(d)) / d)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_volumes_are_those_of_the_hulls(d):
    """Corners of a simplex and of a cross-polytope, against a hull of all their points."""
    rng = np.random.default_rng(d)
    columns = rng.standard_normal((d + 1, d))
    differences = np.array([a - b for a, b in product(columns, columns)])
    hull = ConvexHull(differences).volume
    simplex = abs(np.linalg.det(columns[1:] - columns[0])) / factorial(d)
    assert hull == pytest.approx(comb(2 * d, d) * simplex)
    assert corner_radius(columns, True) == pytest.approx(radius_of(hull, d))
    own = columns[1:]
    crossed = ConvexHull(np.vstack([own, -own])).volume
    assert corner_radius(own, False) == pytest.approx(radius_of(crossed, d))


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_sampled_and_cornered_radii_are_not_above_the_hull(replaced, seed):
    columns = np.random.default_rng(seed).standard_normal((12, 3))
    pairs = product(columns, columns) if replaced else ((c, -c) for c in columns)
    points = (
        [a - b for a, b in pairs] if replaced else [p for pair in pairs for p in pair]
    )
    hull = ConvexHull(np.array(points))
    true = radius_of(hull.volume, 3)
    assert corner_radius(columns, replaced) <= true * (1 + 1e-9)
    sampled = sampled_radius(columns, replaced, np.eye(3))
    assert 0.6 * true < sampled <= true  # false alarm 1 in 2,000, seeds fixed
    way = np.array([0.6, 0.0, 0.8])
    limits = -hull.equations[:, 3] / np.maximum(hull.equations[:, :3] @ way, 1e-12)
    assert reach_along(columns, way, replaced) == pytest.approx(limits.min(), rel=1e-6)


def test_a_cube_is_measured_by_directions():
    """All sign patterns: the body is [-2, 2]^6, and K-norm noise is within a tenth of the bound."""
    queries = np.array(list(product([-1.0, 1.0], repeat=6))).T
    true = sqrt(7) * radius_of(4.0**6, 6)
    assert 0.85 * true < bound(queries, REPLACED) <= true
    drawn = nw.plan(queries, REPLACED, nw.Central(mechanism="k-norm")).achieved
    assert true < drawn < 1.15 * true


def test_a_ball_meets_its_bound():
    """Points on a circle: the ball around them is drawn, and nothing is left to gain but 1 %."""
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    queries = np.rint(500 * np.stack([np.cos(angles), np.sin(angles)]))
    drawn = nw.plan(queries, REPLACED, nw.Central(mechanism="hardt-talwar")).achieved
    exact = sqrt(3) * 1000
    assert drawn == pytest.approx(exact, rel=0.02)
    assert 0.97 * exact < bound(queries, REPLACED) <= drawn


@pytest.mark.parametrize("privacy", BOTH, ids=lambda p: p.text())
@pytest.mark.parametrize(
    "text", ["identity:6", "prefix:8", "parity:3:<=2", "marginals:2^3:2"]
)
def test_no_noise_of_ours_is_below(text, privacy):
    """At ε = 1/4, where noise on whole people is as large as any."""
    small = Privacy(0.25, neighbours=privacy.neighbours)
    least = bound(text, small)
    assert least > 0
    assert nw.plan(text, small).achieved > least
    assert least == pytest.approx(4 * bound(text, privacy), rel=1e-9)


def test_a_dimension_too_many_would_be_caught():
    """Columns that sum to one span a dimension less where people are replaced."""
    assert body_columns(np.eye(5), True)[0].shape == (5, 4)
    assert body_columns(np.eye(5), False)[0].shape == (5, 5)
    assert body_columns(np.ones((3, 4)), True)[0].shape[1] == 0


def test_where_no_volume_is_known():
    gaussian = Privacy(1.0, 1e-6)
    assert (
        volume_bound(central_problem(workload("prefix:4"), gaussian, nw.Central()))
        is None
    )
    assert (
        volume_bound(central_problem(workload("identity:1"), ADDED, nw.Central()))
        is None
    )
    large = workload("identity:4096")
    assert large.size * large.queries > volume._MOST_ENTRIES
    assert volume_bound(central_problem(large, ADDED, nw.Central())) is None
