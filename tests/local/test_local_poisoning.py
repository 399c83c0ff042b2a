"""Reports that honest people could not have sent, what liars can do, and who is everybody."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.analysis import influence
from noisewright.local.analysis.goodness import LEVEL, goodness_of_fit
from noisewright.local.reports.aggregate import Aggregate
from noisewright.planning.local.reading import Margins

MECHANISMS = ["randomized-response", "hadamard", "subset-selection", "rappor"]


def planned(mechanism: str, size: int = 16, epsilon: float = 1.0) -> nw.LocalPlan:
    return nw.plan(
        f"identity:{size}", nw.Privacy(epsilon), nw.Local(mechanism=mechanism)
    )


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "local-hashing", "optimised"])
def test_honest_people_hardly_ever_cause_an_alarm(mechanism):
    """100 crowds, level 1/1000: more than three alarms have a chance below 10^-5."""
    plan = planned(mechanism, 8)
    people = [
        np.repeat(np.arange(8), counts) for counts in ([400] * 8, [3000, 200] + [0] * 6)
    ]
    crowds = [plan.aggregate(plan.randomize(people[i % 2])) for i in range(100)]
    fits = [goodness_of_fit(crowd) for crowd in crowds]
    assert sum(fit.status == "alarm" for fit in fits) <= 3
    assert all(fit.p_value is not None for fit in fits)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_copies_of_one_report_are_seen(mechanism):
    """Among people who leave some cells empty: where all cells are full, some copies fit.

    Empty cells then lie seven standard errors below nobody: missed with a chance below 10^-3 each.
    """
    plan = planned(mechanism)
    honest = plan.randomize(np.arange(90_000) % 3)
    copies = np.repeat(plan.randomize([3]), 10_000, axis=0)
    fit = goodness_of_fit(plan.aggregate(np.concatenate([honest, copies])))
    assert fit.status == "alarm"
    assert fit.p_value <= LEVEL


def test_the_alarm_is_told_by_estimate(tmp_path):
    plan = planned("hadamard")
    poisoned = np.concatenate(
        [plan.randomize(np.arange(900) % 16), np.zeros(200, np.int64)]
    )
    record = plan.estimate(poisoned).metadata["fit"]
    assert record["status"] == "alarm"
    assert 0 <= record["p_value"] <= LEVEL
    # by counts
    assert plan.estimate(plan.randomize([1, 2])).metadata["fit"]["status"] == "fits"


def every_report(plan: nw.LocalPlan) -> np.ndarray:
    """All possible reports of a small plan, by its own layout."""
    size = plan.strategy.size
    if plan.mechanism.name == "subset-selection":
        held = plan.strategy.collector.size
        sets = [
            np.isin(np.arange(size), chosen)
            for chosen in combinations(range(size), held)
        ]
        return np.packbits(np.array(sets), axis=1)
    if plan.mechanism.name == "rappor":
        bits = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
        return np.packbits(bits.astype(np.uint8), axis=1)
    return np.arange(plan.strategy.collector.counters)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_influence_of_a_report_is_the_largest_there_is(mechanism):
    """Against all possible reports one by one: their answers, as estimates give them."""
    plan = nw.plan("prefix:5", nw.Privacy(1.0), nw.Local(mechanism=mechanism))
    reports = every_report(plan)
    answers = []
    for i in range(len(reports)):
        one = plan.aggregate(reports[i : i + 1])
        if one.people:
            answers.append(plan.strategy.answers(plan.workload, one.total, 1))
    spread = np.ptp(answers, axis=0)
    found = influence(plan.strategy, plan.workload)
    np.testing.assert_allclose(found, spread, rtol=1e-9, atol=1e-6)


def test_intervals_hold_with_as_many_liars_as_they_allow_for():
    """The worst that 5 % can do, drawn out of all they could send, on every answer."""
    plan = planned("hadamard", 8, 2.0)
    honest = np.arange(19_000) % 8
    sent = plan.randomize(honest)
    truth = np.bincount(honest, minlength=8) * 1.0
    outcomes = np.arange(plan.strategy.collector.counters)
    for report in outcomes:
        poisoned = np.concatenate([sent, np.full(1000, report)])
        plain, wide = plan.estimate(poisoned), plan.estimate(poisoned, liars=0.05)
        # Liars may hold any answer themselves: up to a thousand people more in a cell.
        lower, upper = wide.intervals.all
        assert ((lower <= truth + 1000) & (truth <= upper)).all()
        assert (wide.halfwidth > plain.halfwidth).all()
    assert wide.metadata["liars"] == 0.05


def test_liars_must_be_a_share():
    plan = planned("hadamard", 4)
    reports = plan.randomize([0, 1, 2, 3])
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(NoisewrightError, match="liars"):
            plan.estimate(reports, liars=share)
    with pytest.raises(NoisewrightError, match="medians"):
        plan.estimate(reports, liars=0.1, groups=2)


def test_a_cap_that_can_do_nothing_is_refused():
    for mechanism in ("randomized-response", "hadamard", "subset-selection"):
        with pytest.raises(NoisewrightError, match="can do nothing"):
            planned(mechanism).aggregate(cap=6)
    small, large = planned("rappor", 8), planned("rappor", 256)
    with pytest.raises(NoisewrightError, match="can do nothing"):
        small.aggregate(cap=6)  # no set of eight cells is that unusual
    assert large.aggregate(cap=6).cap == 6
    everything = np.full((1, 32), 255, np.uint8)
    assert large.aggregate(everything, cap=6).set_aside["outlier"] == 1


def test_rounds_of_the_same_people_are_not_added_up():
    plan = planned("hadamard", 4)
    monday, tuesday = (
        Aggregate(plan.format, round=day) for day in ("monday", "tuesday")
    )
    with pytest.raises(NoisewrightError, match="counted twice"):
        monday.merge(tuesday)
    with pytest.raises(NoisewrightError, match="counted twice"):
        monday.merge(plan.aggregate())
    assert monday.merge(tuesday, different_people=True).round is None
    assert monday.merge(monday.copy()).round == "monday"
    assert type(monday).from_bytes(monday.to_bytes(), plan.format).round == "monday"


SCHEMA = """
reviewed: true
attributes:
  - {name: age, kind: categorical, values: [young, old]}
  - {name: votes, kind: categorical, values: [yes, no, abstains]}
"""


def test_post_stratification_covers_the_population_that_did_not_answer():
    """60 surveys of a skewed crowd: intervals of the weighted answers cover as they should.

    360 intervals of 95 %: at least 320 cover, or the chance was below 10^-5; unweighted ones miss.
    """
    domain = nw.Domain.from_yaml(SCHEMA)
    workload = nw.Workload.from_spec("queries:\n  - marginal: [age, votes]\n", domain)
    plan = nw.plan(
        workload, nw.Privacy(3.0), nw.Local(mechanism="subset-selection"), domain=domain
    )
    rng = np.random.default_rng(7)
    votes = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2]])
    margins = Margins(("age",), (3_000_000.0, 7_000_000.0))
    truth = (np.array(margins.people)[:, None] * votes).ravel()
    covered = 0
    for _ in range(60):
        ages = (rng.random(20_000) < 0.2).astype(int)  # the old hardly answer
        chosen = (rng.random((20_000, 1)) > np.cumsum(votes[ages], axis=1)[:, :2]).sum(
            axis=1
        )
        release = plan.estimate(plan.randomize(3 * ages + chosen), margins=margins)
        lower, upper = release.intervals.each
        covered += int(((lower <= truth) & (truth <= upper)).sum())
        assert release.answers.sum() == pytest.approx(10_000_000)
    assert covered >= 320
    assert release.metadata["margins"] == ["age"]


def test_margins_are_read_and_checked(tmp_path):
    domain = nw.Domain.from_yaml(SCHEMA)
    good = tmp_path / "margins.csv"
    good.write_text("age,people\nold,7\nyoung,3\n")
    assert Margins.read(good, domain) == Margins(("age",), (3.0, 7.0))
    twice = "age,people,people\nold,7,1\nyoung,3,2\n"
    for text in (
        "age,people\nold,7\n",
        "height,people\n1,2\n",
        "people\n7\n",
        "age\nold\n",
        twice,
    ):
        good.write_text(text)
        with pytest.raises(NoisewrightError, match="margins"):
            Margins.read(good, domain)
    plan = nw.plan("identity:6", nw.Privacy(3.0), nw.Local(), domain=domain)
    crowd = plan.randomize(np.zeros(2000, int))
    with pytest.raises(NoisewrightError, match="too few people"):
        plan.estimate(crowd, margins=Margins(("age",), (1.0, 1.0)))
    with pytest.raises(NoisewrightError, match="combination"):
        plan.estimate(crowd, margins=Margins(("age",), (1.0,)))
