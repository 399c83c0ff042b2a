"""Parameters from anybody: what a strategy is told is checked, what it promises worked out."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from math import isqrt, nextafter

import mpmath
import numpy as np
import pytest

from local.strategies import SMALL
from noisewright.container import encode
from noisewright.errors import FileFormatError, InvalidParameter, NoisewrightError
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.composed.parts import Parts
from noisewright.local.composed.union import Union
from noisewright.local.histogram.sets import (
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from noisewright.local.listed import MatrixStrategy
from noisewright.local.randomizer.routers import Listed
from noisewright.local.randomizer.verify import log_above
from noisewright.local.reports.aggregate import Aggregate, AggregateHeader
from noisewright.local.reports.format import ReportFormat
from noisewright.local.storage import HOMES, pack, unpack
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.transform.translations import Family, Translations
from noisewright.local.vector.noisy_columns import VectorStrategy
from oracles.privacy_oracles import SeededSource

HALF = 1 << 63


# --- promises ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in SMALL if not n.startswith("matrix")])
def test_the_promise_is_the_stated_budget_where_the_chances_spend_it(name):
    strategy = SMALL[name]
    assert strategy.promise.epsilon == strategy.epsilon
    assert strategy.promise.kind == "pure"
    assert strategy.loss.epsilon <= strategy.epsilon


def test_a_budget_that_the_chances_do_not_spend_is_no_promise():
    weights = RandomizedResponse(4, 0.5).dense()
    slack = MatrixStrategy.from_chances(weights, 3.0)
    with pytest.raises(InvalidParameter, match="more than"):
        _ = slack.promise
    assert MatrixStrategy.from_chances(weights, 0.5).promise.epsilon == 0.5


@pytest.mark.parametrize(
    "ratio", [Fraction(7, 3), Fraction(10**17, 3), Fraction(2**60 + 1, 2**60)]
)
def test_logarithms_are_rounded_up_and_hardly(ratio):
    with mpmath.workdps(60):
        exact = abs(mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator))
        found = log_above(ratio)
        assert found >= exact
        assert nextafter(found, 0.0) <= exact


# --- what a component is handed ----------------------------------------------------------------


def coarse(table):
    return Mixture(
        (RandomizedResponse(3, 1.0),), (Coarsening(4, 1, table),), (1 << 64,)
    )


@pytest.mark.parametrize(
    "table",
    [
        np.array([0, 1, -1, 2]),
        np.array([0.0, 0.9, 1.0, 2.0]),
        np.array([0, 1, 2]),
        np.array([0, 1, 2, 2], dtype=np.int32),
        np.array([[0, 1, 2, 2]]),
        np.array([0, 1, 2, 3]),
    ],
)
def test_tables_of_coarse_cells_are_checked(table):
    assert coarse(np.array([0, 1, 2, 2])).size == 4
    with pytest.raises(InvalidParameter):
        coarse(table)


@pytest.mark.parametrize(
    ("size", "width"), [(4, 0), (4, -1), (4, 1.5), (-4, -1), (4, True)]
)
def test_widths_of_coarse_cells_are_checked(size, width):
    with pytest.raises(InvalidParameter):
        Coarsening(size, width)


@pytest.mark.parametrize(
    "sizes", [(-2, -3), (2, -3), (0, 3), (2.0, 3), (True, 6), (), (2**40,) * 2]
)
def test_sizes_of_attributes_are_checked(sizes):
    tables = ((0, 1),) if len(sizes) > 1 else ((0,),)
    with pytest.raises(NoisewrightError):
        Union(sizes, 1.0, tables, (1 << 64,))
    with pytest.raises(NoisewrightError):
        Parts(sizes, tables, (RandomizedResponse(6, 1.0),), (1 << 64,))
    family = Family(
        (0,), Translations((6,)), np.eye(6, dtype=bool)[:1], (1 << 64,), 1.0
    )
    with pytest.raises(NoisewrightError):
        OrbitStrategy(sizes, (family,), 1.0)


@pytest.mark.parametrize("axes", [(0, 0), (1, 0), (-1,), (2,), (0.0,), ()])
def test_attributes_of_tables_are_checked(axes):
    with pytest.raises(InvalidParameter):
        Union((2, 2), 1.0, (axes,), (1 << 64,))
    with pytest.raises(InvalidParameter):
        Parts((2, 2), (axes,), (RandomizedResponse(4, 1.0),), (1 << 64,))
    group = Translations((2,) * max(len(axes), 1))
    bits = np.eye(group.cells, dtype=bool)[:1]
    with pytest.raises(InvalidParameter):
        OrbitStrategy((2, 2), (Family(axes, group, bits, (1 << 64,), 1.0),), 1.0)


@pytest.mark.parametrize(
    "weights", [(0, 1 << 64), (HALF, HALF + 1), (HALF,), (-1, (1 << 64) + 1)]
)
def test_chances_of_draws_are_checked(weights):
    response = RandomizedResponse(2, 1.0)
    with pytest.raises(InvalidParameter):
        Mixture((response,) * 2, (Coarsening(2),) * 2, weights)
    with pytest.raises(InvalidParameter):
        Union((2, 2), 1.0, ((0,), (1,)), weights)
    with pytest.raises(InvalidParameter):
        Parts((2, 2), ((0,), (1,)), (response,) * 2, weights)


def test_no_component_reports_on_what_is_not_its_own(monkeypatch):
    """A guard of its own: even a map that no constructor let through sends nothing."""
    mixture = coarse(np.array([0, 1, 2, 2]))
    monkeypatch.setattr(Listed, "seen", lambda through, values: values - 1)
    with pytest.raises(InvalidParameter, match="values"):
        mixture.randomize(np.array([0]))


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", 2.7), ("size", "7"), ("size", True), ("size", 1 << 63), ("epsilon", "1"),
     ("epsilon", True), ("epsilon", float("nan")), ("epsilon", 10**400), ("cells", 6)],
)  # fmt: skip
def test_plain_fields_keep_their_kind(field, value):
    """ε is beside the specification; all else is in it, and one number off is another strategy."""
    settings, arrays = pack(SubsetSelection(7, 1.0))
    assert unpack(settings, arrays) == SubsetSelection(7, 1.0)
    document = json.loads(arrays["specification"].tobytes())
    beside = {**settings, field: value} if field == "epsilon" else settings
    if field != "epsilon":
        document["nodes"][0][field] = value
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    with pytest.raises(NoisewrightError):
        unpack(beside, {"specification": text})


def test_strategies_without_a_specification_are_refused():
    settings, arrays = pack(SubsetSelection(7, 1.0))
    for wrong in ({}, {"specification": arrays["specification"].astype(np.int64)}):
        with pytest.raises(FileFormatError):
            unpack(settings, wrong)
    with pytest.raises(FileFormatError, match="plan again"):
        unpack(settings, {"weights": np.ones(3)})
    other = pack(RandomizedResponse(7, 1.0))[1]
    for kind in HOMES:
        if kind not in ("randomized-response", "listed-subsets", "decoded"):
            with pytest.raises(NoisewrightError):
                unpack({**settings, "kind": kind}, other)


def test_report_numbers_do_not_wrap():
    large = RandomizedResponse(1 << 52, 1.0)
    half = Parts((1 << 52,), ((0,),), (large,), (1 << 64,))
    report = half.randomize(np.array([(1 << 52) - 1]))
    assert half.collector.valid(report).all()
    mixture = Mixture(
        (large,) * 3, (Coarsening(1 << 52),) * 3, (HALF, HALF // 2, HALF // 2)
    )
    for refused in (mixture, RandomizedResponse(1 << 61, 1.0)):
        with pytest.raises(InvalidParameter, match="outcomes"):
            refused.randomize(np.array([0]))


# --- distances of vectors ----------------------------------------------------------------------


def exact_distance(columns, order):
    """Sum of |differences|^order over the worst pair, in whole numbers."""
    listed = [[int(entry) for entry in column] for column in columns.T]
    return max(
        sum(abs(a - b) ** order for a, b in zip(u, v, strict=True))
        for u, v in combinations(listed, 2)
    )


@pytest.mark.parametrize("offset", [0, 2**30, 2**48, -(2**48)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_all_columns_share_hides_no_distance(offset, delta):
    """Squares of 2^48 leave no digits for distances of a few thousand steps."""
    rng = np.random.default_rng(4)
    for scale in (3, 40, 5000, 2**30):
        columns = offset + rng.integers(-scale, scale, size=(5, 6))
        strategy = VectorStrategy(columns, 1.0, delta)
        order = 2 if delta else 1
        exact = exact_distance(columns, order)
        assert Fraction(strategy.distance) ** order >= exact
        assert Fraction(strategy.distance) ** order <= exact * (1 + Fraction(1, 10**8))
        assert strategy.loss.epsilon <= strategy.epsilon


def test_distances_beyond_machine_words_do_not_wrap():
    columns = np.zeros((2**14, 2), dtype=np.int64)
    columns[:, 0], columns[:, 1] = 2**49 - 1, -(2**49) + 1
    with pytest.raises(InvalidParameter, match="2\\^40"):  # no noise is that large
        _ = VectorStrategy(columns, 1.0).law
    assert VectorStrategy(columns, 1.0).distance >= 2**63
    square = Fraction(VectorStrategy(columns, 1.0, 1e-6).distance) ** 2
    assert square >= exact_distance(columns, 2)
    assert isqrt(int(square)) <= 2**57 * 1.001


def test_columns_of_the_least_word_are_refused():
    """−2^63 is its own magnitude in 64 bits, and passes for small."""
    for entry in (-(2**63), 2**63 - 1, 2**49):
        with pytest.raises(InvalidParameter):
            VectorStrategy(np.array([[0, entry]]), 1.0)
    with pytest.raises(InvalidParameter, match="differ"):
        VectorStrategy(np.ones((3, 4), dtype=np.int64), 1.0)
    reports = np.array([[-(2**63)], [5]])
    assert VectorStrategy(np.array([[0, 1]]), 1.0).collector.valid(
        reports
    ).tolist() == [
        False,
        True,
    ]


# --- statistics of reports ---------------------------------------------------------------------


def aggregate(strategy, tally):
    result = Aggregate(ReportFormat(strategy))
    result.tally[0], result.group_people[0] = tally, sum(tally)
    return result


def test_merged_counts_do_not_wrap():
    large = aggregate(RandomizedResponse(2, 1.0), [2**61, 2**61])
    assert (
        large.merge(aggregate(RandomizedResponse(2, 1.0), [1, 0])).people == 2**62 + 1
    )
    with pytest.raises(InvalidParameter, match="64 bits"):
        large.merge(large).merge(large).merge(large)
    possible = RandomizedResponse(2, 1.0).collector.possible
    assert possible(np.array([2**61, 2**61]), 2**62)
    assert not possible(np.array([-1, 2]), 1)
    with pytest.raises(InvalidParameter, match="64 bits"):
        possible(np.array([2**62, 2**62]), 2**63)


def test_sums_of_large_vectors_do_not_wrap():
    strategy = VectorStrategy(np.array([[0, 1]]), 1.0)
    reports = np.full((2**13, 1), 2**50 - 1)
    assert strategy.collector.valid(reports).all()
    assert strategy.collector.tally(reports[:-1])[0] == (2**13 - 1) * (2**50 - 1)
    assert strategy.collector.tally(-reports[:-1])[0] == -(2**13 - 1) * (2**50 - 1)
    collected = Aggregate(ReportFormat(strategy)).add(reports)
    kept = collected.total[0]
    with pytest.raises(InvalidParameter, match="64 bits"):
        collected.add(reports)
    assert (collected.total[0], collected.people) == (kept, 2**13)  # all or nothing


@pytest.mark.parametrize(
    ("strategy", "tally", "people"),
    [
        (RandomizedResponse(3, 1.0), [-1, 2, 0], 1),
        (RandomizedResponse(3, 1.0), [1, 2, 0], 4),
        (SubsetSelection(3, 1.0, 1), [-1, 3, 0], 2),
        (SubsetSelection(3, 1.0, 1), [2, 2, 0], 2),
        (UnaryEncoding(3, 1.0), [-1, 0, 0], 2),
        (UnaryEncoding(3, 1.0), [2**60, 0, 0], 2),
        (VectorStrategy(np.array([[0, 1]]), 1.0), [2**53], 2),
        (VectorStrategy(np.array([[0, 1]]), 1.0), [-(2**63)], 2),
        (SMALL["local-hashing"], [1] + [0] * (SMALL["local-hashing"].outputs - 1), 1),
    ],
)
def test_statistics_that_no_reports_have_are_refused(strategy, tally, people):
    form = ReportFormat(strategy)
    empty = Aggregate(form)
    empty.tally, empty.group_people = np.array([tally]), np.array([people])
    with pytest.raises(FileFormatError, match="does not fit"):
        Aggregate.from_bytes(empty.to_bytes(), form)
    assert not strategy.collector.possible(np.array(tally), people)


@pytest.mark.parametrize("strategy", SMALL.values(), ids=SMALL)
def test_statistics_of_reports_are_possible(strategy):
    values = np.random.default_rng(0).integers(strategy.size, size=50)
    collected = Aggregate(ReportFormat(strategy)).add(
        strategy.randomize(values, SeededSource(1))
    )
    again = Aggregate.from_bytes(collected.to_bytes(), collected.format)
    assert (again.people, again.total.tolist()) == (50, collected.total.tolist())


@pytest.mark.parametrize(
    ("name", "value"),
    [("cap", "abc"), ("cap", 10**400), ("cap", 1), ("plan", 3), ("set_aside", []),
     ("set_aside", {"malformed": -1, "foreign": 0, "out_of_range": 0, "outlier": 0})],
)  # fmt: skip
def test_forged_headers_of_aggregates_are_refused(name, value):
    collected = aggregate(RandomizedResponse(3, 1.0), [1, 2, 3])
    header = {
        "plan": collected.format.name,
        "cap": None,
        "set_aside": collected.set_aside,
        "round": None,
        "tally": collected.tally,
        "people": collected.group_people,
    }
    sound, forged = (
        encode(AggregateHeader(**fields))
        for fields in (header, {**header, name: value})
    )
    assert Aggregate.from_bytes(sound, collected.format).people == 6
    with pytest.raises(NoisewrightError):
        Aggregate.from_bytes(forged, collected.format)
