from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.bounds.trace import lower_bound
from noisewright.local.composed import hierarchical as module
from noisewright.local.composed.hierarchical import (
    TreeMixture,
    hierarchical,
    level_weights,
)
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.listed import Decoded
from noisewright.local.transform.spectrum import (
    Intervals,
    SummedGram,
    block_traces,
    has_closed_form,
    interval_products,
)
from noisewright.workload import workload


@pytest.mark.parametrize(
    "text",
    ["identity:12", "total:12", "prefix:12", "ranges:12", "2@prefix:12+identity:12"],
)
def test_sums_over_blocks(text):
    gram = workload(text).gram()
    m = gram.dense()
    start, stop = np.array([0, 3, 4, 11]), np.array([2, 4, 8, 12])
    outer_start, outer_stop = np.array([0, 0, 4, 6]), np.array([12, 6, 12, 12])
    expected = [
        m[a:b, c:d].sum()
        for a, b, c, d in zip(start, stop, outer_start, outer_stop, strict=True)
    ]
    for form in (gram, SummedGram.of(gram)):
        assert has_closed_form(form)
        over = Intervals(start, stop, outer_start, outer_stop)
        found = interval_products(form, over)
        np.testing.assert_allclose(found, expected)
    blocks = [m[a : a + 5, a : a + 5].sum() for a in (0, 5, 10)]
    assert block_traces(gram, 5) == pytest.approx(sum(blocks))


@pytest.mark.parametrize(
    "text",
    ["identity:16", "prefix:64", "ranges:27", "random:20x16:1", "marginals:2^4:2"],
)
def test_closed_forms_equal_matrices(text, monkeypatch):
    monkeypatch.setattr(module, "DENSE_SIZE", 4)
    w = workload(text)
    tree = hierarchical(w.gram(), 1.0)
    assert isinstance(tree, TreeMixture)
    dense = Mixture(tree.components, tree.coarsenings, tree.weights)
    np.testing.assert_allclose(
        tree.information.dense(), dense.information.dense(), atol=1e-9
    )
    np.testing.assert_allclose(
        tree.type_variances(w.gram()), dense.type_variances(w.gram()), rtol=1e-9
    )


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(
    "text", ["prefix:20", "prefix:50", "ranges:31", "identity:17", "prefix:6*prefix:5"]
)
def test_all_levels_are_decoded_together_where_nobody_errs_more(text, epsilon):
    w = workload(text)
    strategy = hierarchical(w.gram(), epsilon)
    inner = strategy.inner if isinstance(strategy, Decoded) else strategy
    apart = Mixture(inner.components, inner.coarsenings, inner.weights)
    here, before = Analysis(strategy, w), Analysis(apart, w)
    assert here.worst_case <= before.worst_case * (1 + 1e-12)
    assert here.average_case <= before.average_case * (1 + 1e-9)
    # tr WX⁺Wᵀ with X of single reports at the even distribution: the least of unbiased estimates.
    q, dense = strategy.dense(), w.dense()
    q = q[q.max(axis=1) > 0]  # some reports never come
    information = q.T @ (q / q.mean(axis=1, keepdims=True))
    told = np.trace(dense @ np.linalg.pinv(information) @ dense.T)
    least = told - (dense**2).sum() / w.size
    assert here.average_case >= least * (1 - 1e-9)
    if isinstance(strategy, Decoded):
        assert here.average_case == pytest.approx(least, rel=1e-9)


def test_uneven_trees_need_fewer_people_when_decoded_together():
    w = workload("prefix:50")
    strategy = hierarchical(w.gram(), 2.0)
    assert isinstance(strategy, Decoded)
    assert (
        Analysis(strategy, w).worst_case < 0.98 * Analysis(strategy.inner, w).worst_case
    )


def test_level_weights_are_optimal():
    rng = np.random.default_rng(1)
    detail, gains = rng.uniform(1, 5, 4), rng.uniform(0.1, 2, 4)
    objective, weights = level_weights(detail, gains)

    def cost(z):
        p = np.exp(z) / np.exp(z).sum()
        return float((detail / np.cumsum(p * gains)).sum())

    best = min(minimize(cost, rng.normal(size=4)).fun for _ in range(5))
    assert objective == pytest.approx(cost(np.log(weights + 1e-15)), rel=1e-6)
    assert objective <= best * (1 + 1e-4)


@pytest.mark.parametrize(
    "kind", ["identity", "prefix", pytest.param("ranges", marks=pytest.mark.slow)]
)
def test_large_domains_have_exact_errors(kind):
    w = workload(f"{kind}:65536")
    analysis = Analysis(hierarchical(w.gram(), 1.0), w)
    ratio = analysis.sample_complexity() / lower_bound(w, 1.0).sample_complexity()
    assert 1.0 <= ratio < 2.1
    assert analysis.average_case <= analysis.worst_case


@pytest.mark.slow
def test_a_million_cells_are_collected_and_estimated():
    w = workload("prefix:1048576")
    strategy = hierarchical(w.gram(), 2.0)
    people = 20_000
    values = np.full(people, 300_000)
    tally = strategy.collector.tally(strategy.randomize(values))
    answers = w.matvec(strategy.estimate(tally, people))
    assert answers[-1] == pytest.approx(people)
    # A CDF that jumps from 0 to all at one cell, within ten standard deviations (about 3000 here).
    worst = np.sqrt(people * Analysis(strategy, w).worst_case / w.queries)
    assert abs(answers[100_000]) < 10 * worst
    assert abs(answers[900_000] - people) < 10 * worst


def test_bad_trees_are_refused():
    gram = workload("prefix:8").gram()
    for bad in (1, 0, 2.5):
        with pytest.raises(InvalidParameter):
            hierarchical(gram, 1.0, branching=bad)
    with pytest.raises(TooLarge):
        hierarchical(workload("prefix:10007").gram(), 1.0)
    response = RandomizedResponse(4, 1.0)
    with pytest.raises(InvalidParameter):
        TreeMixture((response,), (Coarsening(8, 2),), (2**64,))
