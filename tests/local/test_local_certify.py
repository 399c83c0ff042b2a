"""Floors by kernels: no set breaks the condition they rest on, and no strategy beats them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.floors import best_bound, floors
from noisewright.local.bounds.ordered.rearrangement import OrderedBound
from noisewright.local.bounds.tables.delsarte import SchemeBound
from noisewright.local.bounds.tables.scheme import scheme_of
from noisewright.local.bounds.tables.small_sets import pair_counts
from noisewright.local.bounds.trace import lower_bound, off_the_total
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.workload import workload
from oracles import local_matrix as oracle

TABLES = [
    "identity:7",
    "marginals:2^4:2",
    "allmarginals:3x4",
    "parity:4:<=2",
    "marginals:2x3x2:<=2",
]
ORDERED = ["prefix:7", "ranges:7", "random:9x7:2", "prefix:4+2@identity:4"]


def every_set(n: int) -> np.ndarray:
    """All sets of 1 … n−1 cells, as rows of zeros and ones."""
    return np.array(list(product((0.0, 1.0), repeat=n)))[1:-1]


def scheme(text):
    w = workload(text)
    return scheme_of(table_gram(w) or w.gram())


@pytest.mark.parametrize("text", TABLES)
def test_schemes_hold_the_gram_matrix(text):
    w, s = workload(text), scheme(text)
    values = np.sort(np.repeat(s.eigenvalues, s.counts.astype(int)))
    np.testing.assert_allclose(
        values, np.linalg.eigvalsh(table_gram(w).dense()), atol=1e-9
    )
    # Characters of different classes are orthogonal over the cells.
    gram = (s.characters * s.valencies) @ s.characters.T
    np.testing.assert_allclose(gram, np.diag(s.cells * s.counts), atol=1e-6)


@pytest.mark.parametrize(
    "groups", [((4, 2),), ((1, 2), (2, 3)), ((2, 3),), ((1, 3), (1, 2))]
)
def test_small_sets_are_listed_in_full(groups):
    sizes = [size for count, size in groups for _ in range(count)]
    cells = np.array(list(product(*map(range, sizes))))
    differ = cells[:, None] != cells[None]
    relation, column = np.zeros((len(cells), len(cells)), dtype=int), 0
    for count, _ in groups:
        parted = differ[:, :, column : column + count].sum(axis=2)
        relation = relation * (count + 1) + parted
        column += count
    classes = int(np.prod([count + 1 for count, _ in groups]))
    for k, listed in pair_counts(groups).items():
        met = set()
        # every set can be moved to hold 0
        for chosen in combinations(range(1, len(cells)), k - 1):
            pairs = relation[np.ix_((0, *chosen), (0, *chosen))][np.triu_indices(k, 1)]
            met.add(tuple(np.bincount(pairs, minlength=classes)))
        assert met == set(map(tuple, listed.astype(int)))
        if len(met) > 50 or k == 4:
            break


def test_listed_sets_raise_the_floor_where_reports_name_few_cells():
    asked = workload("parity:6:<=3")
    best = best_bound(asked, 3.0)
    plain = SchemeBound(replace(scheme("parity:6:<=3"), groups=()), 3.0).best()
    without = off_the_total(asked, table_gram(asked), plain / 64)
    assert best.variance > 1.05 * without.variance


@pytest.mark.parametrize("text", ["allmarginals:2^4", "allmarginals:3x4"])
@pytest.mark.parametrize("seed", range(3))
def test_no_set_gains_more_from_a_kernel_over_tables(text, seed):
    w, s = workload(text), scheme(text)
    kernel = np.random.default_rng(seed).exponential(size=len(s.counts))
    kernel[0] = 0.0
    bound = SchemeBound(s, 2.0)
    _, lines = bound._proof(kernel)
    # The same kernel as a matrix: a function of the Gram matrix, whose eigenvalues tell classes.
    values, vectors = np.linalg.eigh(w.gram().dense())
    nearest = np.abs(values[:, None] - s.eigenvalues).argmin(axis=1)
    matrix = (vectors * kernel[nearest]) @ vectors.T
    sets = every_set(w.size)
    gains = np.einsum("si,ij,sj->s", sets, matrix, sets)
    sizes = sets.sum(axis=1)
    lines = [line for line in lines if not line.only]
    limits = np.min(
        [sizes * (line.start + line.slope * sizes) for line in lines], axis=0
    )
    for k in bound._small:  # listed sets meet their limit
        largest = k * bound._listed(kernel @ s.characters / s.cells, k).start
        assert gains[sizes == k].max() == pytest.approx(largest, rel=1e-9)
    assert (gains <= limits + 1e-9).all()
    # and not by being vacuous
    assert gains.max() == pytest.approx(limits.max(), rel=0.5)


@settings(deadline=None, max_examples=30)
@given(st.integers(3, 9), st.floats(0.3, 6.0), st.integers(0, 2**32 - 1))
def test_no_set_gains_more_from_a_falling_kernel(n, epsilon, seed):
    rng = np.random.default_rng(seed)
    bound = OrderedBound(np.eye(n), epsilon)
    heights = rng.exponential(size=len(bound.steps)) * (
        rng.random(len(bound.steps)) < 0.6
    )
    lags = np.abs(np.arange(n)[:, None] - np.arange(n))
    kernel = (heights @ bound.steps)[lags]
    r = np.expm1(epsilon)
    tilt = rng.exponential() * 2 * r / (n * (n + r))
    limit = bound._limit(kernel, tilt)
    sums = kernel.sum(axis=1)
    multipliers = limit / n - tilt * (sums - sums.mean())
    centred = np.eye(n) - 1.0 / n
    v = 1.0 + r * every_set(n)
    gains = np.einsum("si,ij,sj->s", v, centred @ kernel @ centred, v)
    # Some set meets the condition with equality, so only rounding may break it.
    assert (
        gains <= (v @ multipliers) * v.sum(axis=1) + 1e-9 * np.abs(gains).max()
    ).all()


@pytest.mark.parametrize("text", [*TABLES, *ORDERED])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_no_strategy_beats_the_floors(text, epsilon):
    w, rng = workload(text), np.random.default_rng(5)
    dense = w.dense()
    gram = table_gram(w) or w.gram()
    known = list(floors(w, epsilon, gram))
    assert len(known) >= 2
    for _ in range(10):
        q = oracle.random_strategy(3 * w.size, w.size, epsilon, rng)
        worst = oracle.type_variances(q, dense).max()
        assert all(worst >= floor.variance for floor in known)


@pytest.mark.parametrize("text", TABLES)
def test_the_identity_kernel_gives_the_trace_bound(text):
    w, s = workload(text), scheme(text)
    trace = lower_bound(w, 2.0)
    floor = SchemeBound(s, 2.0).floor(np.append(0.0, np.ones(len(s.counts) - 1)))
    found = off_the_total(w, table_gram(w), floor / w.size)
    assert found.objective == pytest.approx(trace.objective, rel=1e-9)


@pytest.mark.parametrize("text", ["prefix:12", "ranges:9"])
def test_the_identity_step_gives_the_trace_bound(text):
    w = workload(text)
    bound = OrderedBound(w.gram().dense(), 2.0)
    floor = bound.floor(np.eye(len(bound.steps))[0], 0.0)
    found = off_the_total(w, w.gram(), floor / w.size)
    assert found.objective == pytest.approx(lower_bound(w, 2.0).objective, rel=1e-9)


@pytest.mark.parametrize("text", ["marginals:2^6:3", "parity:6:<=3", "identity:64"])
def test_randomized_response_is_proved_optimal_at_little_privacy(text):
    w = workload(text)
    cost = Analysis(RandomizedResponse(64, 6.0), w)
    found = best_bound(w, 6.0)
    assert found is not None
    assert cost.worst_case == pytest.approx(found.variance, rel=1e-3)
    assert cost.worst_case >= found.variance * (1 - 1e-12)


def test_ordered_floors_rise_where_the_trace_bound_is_weak():
    w = workload("ranges:24")
    found = best_bound(w, 4.0)
    assert found is not None
    assert found.name == "order"
    assert found.variance > 1.5 * lower_bound(w, 4.0).variance


def test_kernels_that_are_not_definite_are_made_so():
    bound = OrderedBound(workload("prefix:8").gram().dense(), 3.0)
    wide = np.zeros(len(bound.steps))
    wide[1] = 1.0  # 1[|i−j| ≤ 1] has negative eigenvalues
    assert 0 < bound.floor(wide, 0.0) <= bound.best() * (1 + 1e-9)
    assert bound.floor(-wide, 0.0) == 0.0


def test_gradient_of_the_ordered_search_is_right():
    bound = OrderedBound(workload("prefix:7").gram().dense(), 3.0)
    point = np.full(len(bound.steps) + 1, 0.2)
    point[0], point[-1] = 2.0, 0.9
    loss = bound.loss(0.01)
    _, gradient = loss(point, 20.0)
    for index, direction in enumerate(1e-6 * np.eye(len(point))):
        up, down = (loss(point + s * direction, 20.0)[0] for s in (1, -1))
        assert (up - down) / 2e-6 == pytest.approx(gradient[index], rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("text", ["total:12", "10000000@total:5"])
def test_floors_need_something_to_tell_people_apart(text, epsilon):
    w = workload(text)
    found = best_bound(w, epsilon)
    assert found is not None
    assert found.variance == pytest.approx(0.0, abs=1e-9)
