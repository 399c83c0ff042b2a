"""Constants, scales and rounding: what does not change a question changes no figure."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from noisewright.errors import Contradiction, InvalidParameter
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.grams import Nothing, table_gram, without_offsets
from noisewright.local.bounds import floors as quick
from noisewright.local.bounds.trace import LowerBound, lower_bound, optimised_prior
from noisewright.local.choose.cost import LocalComparison
from noisewright.local.choose.options import Local
from noisewright.local.fixedpoint import exponential
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.optimise.run import optimise
from noisewright.local.transform.fourier import fourier
from noisewright.planning.local.make import plan_local
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Identity, Prefix, Total, kron, workload
from noisewright.workload.kinds.explicit import Explicit


def floors(asked, epsilon):
    return {
        bound.name: bound.variance
        for bound in quick.floors(asked, epsilon, table_gram(asked))
    }


@pytest.mark.parametrize("constant", [1.0, 1e7, -1e8])
def test_differences_are_those_of_exact_numbers(constant):
    rng = np.random.default_rng(3)
    first = Explicit(rng.standard_normal((3, 4)) + constant)
    second = Explicit(rng.integers(-2, 3, (2, 3)) + constant * np.array([[1.0], [2.0]]))
    for asked in (first, kron([first, second])):
        moved = without_offsets(asked).dense()
        parts = asked.factors if asked is not first else (first,)
        rows = [[Fraction(1)]]
        for part in parts:
            given = [[Fraction(x) for x in row] for row in part.dense().tolist()]
            rows = [
                [a * b for a in row for b in other] for row in rows for other in given
            ]
        for row, mine in zip(rows, moved.tolist(), strict=True):
            exact = np.array([float(x - row[0]) for x in row])
            found = np.array([float(Fraction(x) - Fraction(mine[0])) for x in mine])
            np.testing.assert_allclose(
                found, exact, rtol=0, atol=1e-14 * np.abs(exact).max()
            )


def test_structure_is_kept():
    prefix = Prefix(2000)
    assert without_offsets(prefix) is prefix
    stacked = without_offsets(prefix + Total(2000))
    assert stacked.parts == (prefix, Nothing(2000))
    assert table_gram(workload("prefix:9+1000000@total:9")) == Prefix(9).gram()
    assert table_gram(workload("total:9")).trace() == 0.0
    labels = without_offsets(kron([Explicit(np.ones((1, 2)) * 1e9), Identity(2)]))
    assert (
        labels.labels() == kron([Explicit(np.ones((1, 2)) * 1e9), Identity(2)]).labels()
    )


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_a_constant_in_every_row_moves_no_floor_and_no_plan(epsilon):
    plain, moved = (
        Explicit(np.tril(np.ones((8, 8)))),
        Explicit(np.tril(np.ones((8, 8))) + 1e7),
    )
    before, after = floors(plain, epsilon), floors(moved, epsilon)
    assert before == pytest.approx(after, rel=1e-6)
    plans = [
        plan_local(w, Privacy(epsilon), Local(cache=False, effort="low"))
        for w in (plain, moved)
    ]
    worst = [plan.analysis.worst_case for plan in plans]
    assert worst[1] == pytest.approx(worst[0], rel=2e-2)
    assert all(plan.summary()["certified_ratio"] >= 1 for plan in plans)


@pytest.mark.parametrize("text", ["prefix:3*identity:2", "prefix:6", "marginals:2^3:2"])
@pytest.mark.parametrize("scale", [1e-8, 1e-5, 1e5, 1e30])
def test_floors_and_errors_scale_with_the_queries(text, scale):
    plain, scaled = workload(text), workload(f"{scale:.60f}@({text})".rstrip("0"))
    for name, floor in floors(plain, 2.0).items():
        assert floors(scaled, 2.0)[name] == pytest.approx(
            scaled.weight**2 * floor, rel=1e-9
        )
    found = [optimise(w, 1.0, effort="low", cache=False).value for w in (plain, scaled)]
    assert found[1] == pytest.approx(scaled.weight**2 * found[0], rel=1e-3)


def test_a_weight_inside_a_product_is_a_weight_outside():
    inside, outside = (
        workload("(0.00001@prefix:3)*identity:2"),
        "0.00001@(prefix:3*identity:2)",
    )
    assert floors(inside, 1.0) == pytest.approx(
        floors(workload(outside), 1.0), rel=1e-12
    )


def test_fourier_weighs_characters_alike_at_every_scale():
    one, other = (
        fourier(workload(t).gram(), 1.0) for t in ("ranges:6", "0.0000001@ranges:6")
    )
    assert other.weights == pytest.approx(one.weights, rel=1e-6)


@pytest.mark.parametrize("text", ["1e200@prefix:4", "1e-180@prefix:4"])
def test_squares_beyond_double_precision_are_refused(text):
    weight, inner = text.split("@")
    with pytest.raises(InvalidParameter, match="double precision"):
        plan_local(float(weight) @ workload(inner), Privacy(1.0), Local(cache=False))


def exact_histogram_variance(cells, epsilon):
    """What the best set size needs, in exact arithmetic and from the definition."""
    e, best = exponential(epsilon), None
    for d in range(1, cells):
        p = e * d / (e * d + cells - d)
        other = (d - p) / (cells - 1)
        pairs = (
            (d - 1) * (d - 2 * p) / ((cells - 1) * (cells - 2))
            if cells > 2
            else Fraction(0)
        )
        own_pair, gap = p * (d - 1) / (cells - 1), p - other
        spread = (other - pairs) / gap**2
        own = (gap - 2 * (own_pair - pairs)) / gap**2 - 1
        variance = (cells - 1) * spread + own * Fraction(cells - 1, cells)
        best = variance if best is None else min(best, variance)
    return best


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("cells", [3, 7, 16])
def test_floors_that_are_tight_are_rounded_down(cells, epsilon):
    """Rotated, scaled and moved, the histogram keeps its optimum, which the trace bound meets."""
    exact = exact_histogram_variance(cells, epsilon)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        turned, _ = np.linalg.qr(rng.standard_normal((cells, cells)))
        for asked in (Identity(cells), Explicit(turned)):
            floor = lower_bound(asked, epsilon).variance
            assert Fraction(floor) <= exact * (1 + Fraction(1, 10**14))
            assert floor >= float(exact) * (1 - 1e-8)


def test_searches_for_priors_stay_within_double_precision():
    for seed in range(60):
        row = np.random.default_rng(seed).standard_normal((1, 5))
        bound, prior = optimised_prior(Explicit(row), 4.0)
        assert np.isfinite(bound.variance)
        assert np.isfinite(prior).all()


def test_rows_that_once_broke_the_planner_are_planned():
    for shape, epsilon in (((6, 6), 2.0), ((2, 5), 1.0)):
        for seed in range(4):
            rows = 1e5 + 1.6e-4 * np.random.default_rng(seed).integers(-1, 3, shape)
            plan = plan_local(
                Explicit(rows), Privacy(epsilon), Local(cache=False, effort="low")
            )
            assert plan.summary()["certified_ratio"] >= 1


def test_no_result_survives_below_its_floor():
    found = optimise(workload("prefix:4"), 1.0, effort="low", cache=False)
    with pytest.raises(Contradiction, match="please report"):
        replace(found, lower_bound=found.value * 1.001)
    analysis = Analysis(RandomizedResponse(4, 1.0), workload("prefix:4"))
    false = LowerBound(
        variance=analysis.worst_case * 1.001, mean_square=0.0, size=4, queries=4
    )
    with pytest.raises(Contradiction, match="please report"):
        LocalComparison.of("randomized-response", 1.0, analysis, false, 0.0)
    with pytest.raises(Contradiction, match="please report"):
        false.ratio(float("nan"))
    assert replace(false, variance=-3.0).ratio(1.0) is None
