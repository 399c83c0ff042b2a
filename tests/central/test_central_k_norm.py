"""K-norm noise: bodies against enumeration, the law that is published, its privacy, its errors."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product
from math import exp, sqrt

import numpy as np
import pytest
from scipy.stats import chi2

import noisewright as nw
from noisewright.central.geometry.bodies import Entered, Headcount, Replaced
from noisewright.central.geometry.k_norm import KNormMechanism
from noisewright.central.geometry.partition import Partition, by_value
from noisewright.central.mechanism import Table
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.noise import levels
from noisewright.privacy.promise.budget import Privacy
from oracles.privacy_oracles import SeededSource

FALSE_ALARM = 1e-9
NEIGHBOURS = ("add-remove", "replace-one")


def level_of(body: object, z: tuple[int, ...]) -> int:
    """The least dilate that holds a vector, by its definition."""
    if isinstance(body, Headcount):
        return abs(z[0])
    if isinstance(body, Replaced):
        return sum(max(v, 0) for v in z) if sum(z) == 0 else 10**9
    return min(sum(abs(v - c) for v in z) for c in range(min(z), max(z) + 1))


def vectors(body: object, level: int) -> set[tuple[int, ...]]:
    """All whole vectors of a dilate; those that differ by a constant are one where that is so."""
    inside = set()
    for z in product(range(-level, level + 1), repeat=body.cells):
        if level_of(body, z) <= level:
            inside.add(tuple(v - z[0] for v in z) if isinstance(body, Entered) else z)
    return inside


BODIES = [Headcount(), *(kind(n) for kind in (Replaced, Entered) for n in (2, 3, 4))]


@pytest.mark.parametrize("body", BODIES, ids=str)
@pytest.mark.parametrize("level", range(4))
def test_points_and_squares_are_those_of_all_vectors(body, level):
    inside = vectors(body, level)
    assert body.points(level) == len(inside)
    centre = 0 if isinstance(body, Headcount) else Fraction(1, body.cells)
    squares = sum(sum(v * v for v in z) - sum(z) ** 2 * centre for z in inside)
    assert body.squares(level)[level] == squares


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_every_vector_of_a_dilate_is_as_likely(body):
    """χ², false alarm 1e-9."""
    level, draws, source = 2, 3000, SeededSource(5)
    inside = sorted(vectors(body, level))
    drawn = (tuple(map(int, body.draw(level, source))) for _ in range(draws))
    seen = Counter(
        tuple(v - z[0] for v in z) if isinstance(body, Entered) else z for z in drawn
    )
    assert set(seen) <= set(inside)
    expected = draws / len(inside)
    statistic = sum((seen[z] - expected) ** 2 / expected for z in inside)
    assert statistic < chi2.isf(FALSE_ALARM, len(inside) - 1)


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_simulated_points_have_the_second_moment_of_large_dilates(body):
    """Fifty thousand points; more than eight standard deviations of their mean square."""
    mean = (body.shadow(50_000, np.random.default_rng(0)) ** 2).sum(axis=1).mean()
    limit = float(body.squares(120)[120] / body.points(120)) / 120**2
    assert mean == pytest.approx(limit, rel=0.03)


PARTS = (
    Partition((0,), 3),
    Partition((0, 1), 6, np.array([0, 1, 1, 0, 1, 0])),
)
"""A table of three cells, and a query of two values over six: people are in a group of each."""


EPSILON = 3.0
MOST = 5
"""Levels listed: of the law at that ε less than 1e-4 lies beyond."""


def small(neighbours: str) -> KNormMechanism:
    mechanism = KNormMechanism(
        (3, 2), PARTS, Privacy(epsilon=EPSILON, neighbours=neighbours)
    )
    # One step per person: few outcomes, so that all of them can be listed.
    mechanism.__dict__.update(steps=1, rate=Fraction(EPSILON))
    return mechanism


def published(
    mechanism: KNormMechanism, histogram: np.ndarray, source: object
) -> tuple:
    counts = {Table((0,)): histogram.sum(axis=1), Table((0, 1)): histogram.ravel()}
    values = mechanism.measure(counts, source).values
    return tuple(int(v) for value in values for v in value)


@cache
def noise_levels(neighbours: str) -> dict[tuple, int]:
    """The level of every noise that can be seen in what is published, by the definition alone."""
    kind = Replaced if neighbours == "replace-one" else Entered
    cells = {
        n: [(z, level_of(kind(n), z)) for z in vectors(kind(n), MOST)] for n in (2, 3)
    }
    if neighbours == "replace-one":
        pairs = product(cells[3], cells[2])
        return {(*a, *b): max(level, other) for (a, level), (b, other) in pairs}
    triples = product(range(-MOST, MOST + 1), cells[3], cells[2])
    return {
        (t, *a[1:], *b[1:]): max(abs(t), level, other)
        for t, (a, level), (b, other) in triples
    }


def statistic_of(mechanism: KNormMechanism) -> tuple[float, int]:
    draws, source, histogram = (
        1000,
        SeededSource(11),
        np.array([[2, 0], [1, 3], [0, 0]]),
    )
    if mechanism.privacy.neighbours == "replace-one":
        exact = np.array([2, 4, 0, 2 + 3, 1])
    else:
        exact = np.array([6, 4 - 2, 0 - 2, 1 - (2 + 3)])
    chances = {
        z: exp(-EPSILON * m)
        for z, m in noise_levels(mechanism.privacy.neighbours).items()
    }
    whole = sum(chances.values())
    law = {z: chance / whole for z, chance in chances.items()}
    drawn = (
        np.array(published(mechanism, histogram, source)) - exact for _ in range(draws)
    )
    seen = Counter(tuple(z.tolist()) for z in drawn)
    common = [key for key, chance in law.items() if chance * draws >= 5]
    rest = draws - sum(seen[key] for key in common)
    expected = draws * (1 - sum(law[key] for key in common))
    parts = [(seen[k] - draws * law[k]) ** 2 / (draws * law[k]) for k in common]
    return sum(parts) + (rest - expected) ** 2 / expected, len(common)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_what_is_published_has_the_law_that_is_private(neighbours):
    """χ² of all that a release shows against the definition; false alarm 1e-9."""
    statistic, freedom = statistic_of(small(neighbours))
    assert freedom > 10
    assert statistic < chi2.isf(FALSE_ALARM, freedom)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_no_neighbour_changes_the_level_of_what_is_published_by_more_than_one(
    neighbours,
):
    mechanism, levels_of = small(neighbours), noise_levels(neighbours)
    histogram = np.array([[2, 0], [1, 3], [0, 1]])
    before = np.array(published(mechanism, histogram, SeededSource(1)))
    people = [tuple(cell) for cell in np.argwhere(np.ones((3, 2)))]
    farthest = 0
    for here in people:
        for there in people if neighbours == "replace-one" else [None]:
            other = histogram.copy()
            other[here] += 1
            if there is not None:
                other[there] -= 1
            change = np.array(published(mechanism, other, SeededSource(1))) - before
            moved = (
                (levels_of.get(tuple((z + change).tolist())), m)
                for z, m in levels_of.items()
            )
            steps = [abs(after - m) for after, m in moved if after is not None]
            assert len(steps) > 100
            farthest = max(farthest, *steps)
    assert farthest == 1


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_planted_faults_are_caught(neighbours, monkeypatch):
    half = small(neighbours)
    half.__dict__["rate"] *= 2  # half the noise
    statistic, freedom = statistic_of(half)
    assert statistic > 2 * chi2.isf(FALSE_ALARM, freedom)

    def too_small(weights, rate, source=None):
        return levels.draw_level(weights, rate, source) // 2  # half the body

    monkeypatch.setattr("noisewright.central.geometry.k_norm.draw_level", too_small)
    statistic, freedom = statistic_of(small(neighbours))
    assert statistic > 2 * chi2.isf(FALSE_ALARM, freedom)


def test_the_number_of_people_is_never_told_by_groups():
    """Under add-remove, adding the same to all groups changes what is published in one number."""
    mechanism, histogram = small("add-remove"), np.ones((3, 2), dtype=np.int64)
    first = published(mechanism, histogram, SeededSource(2))
    second = published(mechanism, 2 * histogram, SeededSource(2))
    assert second[0] - first[0] == 6
    assert second[1:] == first[1:]


@pytest.mark.parametrize("epsilon", [0.02, 1.0, 8.0])
@pytest.mark.parametrize("queries", [1, 4, 12])
def test_errors_of_queries_of_two_values_are_those_of_a_cube(queries, epsilon):
    """The continuous law: E z² = (k+1)(k+2)/3ε² for 0/1 queries, which the grid is close to."""
    rows = np.array(list(product([0.0, 1.0], repeat=queries))).T
    privacy = Privacy(epsilon=epsilon, neighbours="replace-one")
    plan = nw.plan(rows, privacy, nw.Central(mechanism="k-norm"))
    limit = sqrt((queries + 1) * (queries + 2) / 3) / epsilon
    assert plan.forecast().rmse == pytest.approx(limit, rel=2e-3)


def test_one_query_of_two_values_has_laplace_noise():
    mechanism = KNormMechanism(
        (2,), (Partition((0,), 2),), Privacy(1.0, neighbours="replace-one")
    )
    law = nw.plan(
        "identity:2",
        Privacy(1.0, neighbours="replace-one"),
        nw.Central(mechanism="laplace-strategy"),
    )
    assert mechanism.variances[1] / 2 == pytest.approx(
        law.forecast().std[0] ** 2, rel=4e-3
    )


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_intervals_cover(neighbours):
    """400 releases: each interval covers at its level or more, and all at once too.

    Bands of five standard deviations below the level: false alarm below 1e-6.
    """
    plan = nw.plan(
        "marginals:2x3x4:1",
        Privacy(1.0, neighbours=neighbours),
        nw.Central(mechanism="k-norm"),
    )
    histogram = np.arange(24)
    truth, source = plan.workload.matvec(histogram), SeededSource(4)
    forecast, runs = plan.forecast(), 400
    errors = np.array(
        [
            plan.mechanism.answer(
                plan.mechanism.measure(plan.exact(histogram), source), plan.terms
            )
            for _ in range(runs)
        ]
    )
    errors -= truth
    floor = 0.95 - 5 * sqrt(0.95 * 0.05 / runs)
    assert (np.mean(np.abs(errors) <= forecast.halfwidth, axis=0) >= floor).all()
    inside = (np.abs(errors) <= forecast.simultaneous_halfwidth).all(axis=1)
    assert inside.mean() >= floor
    assert np.mean(errors**2, axis=0) == pytest.approx(forecast.std**2, rel=0.4)


def test_groups_by_value_are_named_alike_and_listed_once():
    rows = np.array(
        [[1.0, -1.0, 1.0], [0.0, 5.0, 0.0], [2.0, 2.0, 2.0], [0.0, 1.0, 2.0]]
    )
    labels = by_value(rows, 3)
    assert [own.tolist() for own in labels] == [[0, 1, 0], [0, 1, 2]]
    assert by_value(rows, 2) is None


@pytest.mark.parametrize("epsilon", [1e-6, 20.0])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_extreme_budgets(epsilon, neighbours):
    plan = nw.plan(
        "marginals:2^3:1",
        Privacy(epsilon, neighbours=neighbours),
        nw.Central(mechanism="k-norm"),
    )
    release = plan.release(np.arange(8))
    assert np.isfinite(release.answers).all()
    assert plan.forecast().rmse == pytest.approx(
        nw.plan(
            "marginals:2^3:1",
            Privacy(1.0, neighbours=neighbours),
            nw.Central(mechanism="k-norm"),
        )
        .forecast()
        .rmse
        / epsilon,
        rel=1e-2,
    )


def test_what_sorts_nobody_is_refused():
    with pytest.raises(NoisewrightError):
        nw.plan("identity:1", Privacy(1.0), nw.Central(mechanism="k-norm"))
    with pytest.raises(InvalidParameter, match="pure"):
        nw.plan("prefix:8", Privacy(rho=1.0), nw.Central(mechanism="k-norm"))


@pytest.mark.parametrize("labels", [[0, 1, 3], [-1, 0, 1], [0, 0]])
def test_labels_from_a_file_must_number_the_groups(labels):
    with pytest.raises(InvalidParameter):
        Partition((0,), 3, np.array(labels))


def test_where_it_is_better_a_plan_takes_it():
    """One-way tables of many attributes: one draw for all beats noise of their own for each."""
    privacy = Privacy(1.0, neighbours="replace-one")
    plan = nw.plan("marginals:2^5:1", privacy)
    named = nw.plan(
        "marginals:2^5:1", privacy, nw.Central(mechanism="laplace-strategy")
    )
    assert plan.mechanism.name == "k-norm"
    assert plan.forecast().rmse < named.forecast().rmse


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("attributes", [2, 5, 16, 17, 100])
def test_one_cell_of_every_table_errs_no_more_than_all_of_them(attributes, neighbours):
    """Whoever has all cells has these: under replaced people both cells of a table err alike."""
    privacy = Privacy(epsilon=1, neighbours=neighbours)
    cells = nw.plan(f"marginals:2^{attributes}:1", privacy).forecast()
    asked = nw.plan(f"conjunctions:{attributes}:1", privacy).forecast()
    assert asked.rmse <= cells.max * (1 + 1e-9)
    assert asked.max <= cells.max * (1 + 1e-9)
    assert asked.rmse <= cells.rmse * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_conjunctions_of_many_attributes_are_read_off_their_tables(neighbours):
    """False alarms: 6 deviations of each of 17 means of 200 releases."""
    plan = nw.plan("conjunctions:17:1", Privacy(epsilon=1, neighbours=neighbours))
    counts = {
        table: np.array([40 + i, 60 - i])
        for i, table in enumerate(plan.mechanism.tables)
    }
    truth = np.array([60.0 - i for i in range(17)])
    source = SeededSource(5)
    errors = [
        plan.linear_answers(plan.mechanism.measure(counts, source)) - truth
        for _ in range(200)
    ]
    std = plan.forecast().std
    assert np.abs(np.mean(errors, axis=0)).max() < 6 * std.max() / sqrt(200)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(
        plan.forecast().rmse, rel=0.15
    )
