"""Selection: what is proven, what is asked, and that each protocol keeps its promise."""

from __future__ import annotations

from itertools import product
from math import log, tanh

import numpy as np
import pytest
from scipy.stats import binom

import noisewright as nw
from noisewright.errors import InvalidParameter, NoisewrightError, TooLarge
from noisewright.learn import simulation as simulated_selection
from noisewright.learn.protocols import (
    Bandit,
    Contest,
    Elimination,
    NonInteractive,
    Runs,
)
from noisewright.learn.selection import people_by_protocol

ONE = nw.Privacy(epsilon=1)


def test_people_are_those_of_the_bounds() -> None:
    contest = Contest(200, 1.0, 0.1, 0.05)
    t = tanh(0.5)
    assert contest.slope == pytest.approx(t, rel=1e-12)
    each = log(199 / 0.05) / (t * 0.1) ** 2
    needed = people_by_protocol(contest)
    assert needed["non-interactive"] == pytest.approx(200 * each, rel=1e-3)
    assert needed["elimination"] < 1.05 * needed["non-interactive"]
    runs = Runs.best(contest)
    assert runs.people == needed["bandit"] > 10**9
    one_run = (25 / (t * 0.1 * 0.05)) ** 2 * 200
    assert runs.people < one_run  # repeating is cheaper than one long run
    assert nw.plan(nw.learn.LargestMean(200), ONE).protocol == "non-interactive"


def test_the_bound_holds_for_the_exact_law_of_two_coordinates() -> None:
    """Pr[the worse leads or ties], by summing binomials, for several truths."""
    contest = Contest(2, 1.0, 0.3, 0.1)
    each = contest.people_each(0.3, 0.1)
    for best in (0.3, 0.5, 0.8, 1.0):
        high, low = (
            (1 - contest.slope) / 2 + contest.slope * m for m in (best, best - 0.3)
        )
        counts = np.arange(each + 1)
        loses = binom.pmf(counts, each, low) @ binom.cdf(counts, each, high)
        assert loses <= 0.1


@pytest.mark.parametrize("protocol", ["non-interactive", "elimination"])
@pytest.mark.parametrize("instance", ["one good", "all equal", "two close"])
def test_failures_are_rarer_than_promised(protocol: str, instance: str) -> None:
    """β = .05 and 200 runs: more than 22 fail with chance below 3e-4 even were it met exactly."""
    means = np.full(30, 0.4)
    means[7] += {"one good": 0.1501, "all equal": 0.0, "two close": 0.2}[instance]
    means[11] += {"one good": 0.0, "all equal": 0.0, "two close": 0.19}[instance]
    selection = nw.plan(nw.learn.LargestMean(30, alpha=0.15, protocol=protocol), ONE)
    people, missed = nw.learn.simulated(selection, means, 200, np.random.default_rng(1))
    assert missed * 200 <= 22
    assert people <= selection.people


def test_elimination_ends_early_where_one_is_far_better() -> None:
    means = np.full(50, 0.2)
    means[3] = 0.9
    selection = nw.plan(nw.learn.LargestMean(50, protocol="elimination"), ONE)
    people, missed = nw.learn.simulated(selection, means, 40, np.random.default_rng(2))
    assert missed == 0
    assert people < selection.people / 5


def test_checkpoints_spend_no_more_than_beta() -> None:
    """Every coordinate's chance of being ahead by the radius, from Hoeffding, adds up to β."""
    contest = Contest(20, 0.7, 0.2, 0.05)
    listed = Elimination(contest).checkpoints
    chances = [19 * np.exp(-n * (contest.slope * w) ** 2) for n, w in listed]
    assert sum(chances) <= 0.05 * (1 + 1e-9)
    assert [n for n, _ in listed] == sorted({n for n, _ in listed})
    assert listed[-1][1] == 0.2


def test_answers_one_by_one_and_in_bulk_are_the_same() -> None:
    rng = np.random.default_rng(3)
    bits = rng.random(5000) < 0.5
    for protocol in ("non-interactive", "elimination"):
        one, many = (
            nw.plan(nw.learn.LargestMean(6, alpha=0.4, protocol=protocol), ONE)
            for _ in range(2)
        )
        used = 0
        while not many.finished:
            count = len(many.ask_many(97))
            many.tell(bits[used : used + count])
            used += count
        for bit in bits[:used]:
            assert one.ask() in range(6)
            one.tell(bit)
        assert one.finished
        assert repr(one.result()) == repr(many.result())


def arms_by_steps(chances: np.ndarray, rounds: int, picked: int) -> np.ndarray:
    """Chances of the arm of a round, from the protocol itself over all sequences of answers."""
    contest = Contest(len(chances), 1.0, 0.3, 0.1)
    law = np.zeros(len(chances))
    for bits in product((0, 1), repeat=picked):
        state, chance = Bandit(contest, [picked], Runs(1, rounds, 0.3, 0)), 1.0
        for bit in bits:
            block = state.block()
            assert block is not None
            p = chances[block.coordinates[0]]
            chance *= p if bit else 1 - p
            state.learn(block, np.array([bit]))
        last = state.block()
        assert last is not None
        law[last.coordinates[0]] += chance
    return law


@pytest.mark.parametrize("few", [1, 16])
def test_bursts_have_the_law_of_single_steps(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4,000 draws of one arm of three: each share is off by .04 with a chance below 1e-6."""
    monkeypatch.setattr(simulated_selection, "_FEW", few)
    chances, rounds, picked = np.array([0.4, 0.7, 0.5]), 12, 10
    rng = np.random.default_rng(6)
    drawn = [
        simulated_selection.arm_of_round(chances, rounds, picked, rng)
        for _ in range(4000)
    ]
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    np.testing.assert_allclose(
        shares, arms_by_steps(chances, rounds, picked), atol=0.04
    )


def test_the_whole_bandit_keeps_its_promise() -> None:
    """β = .2 and 40 protocols: more than 20 miss with chance below 1e-5 even were it met exactly.

    All runs at their proven lengths, and the comparison of their arms.
    """
    asked = nw.learn.LargestMean(4, alpha=0.4, beta=0.2, protocol="bandit")
    selection = nw.plan(asked, nw.Privacy(epsilon=3))
    means = np.array([0.3, 0.2, 0.75, 0.3])
    people, missed = nw.learn.simulated(selection, means, 40, np.random.default_rng(4))
    assert missed * 40 <= 20
    runs = Runs.best(selection.contest)
    assert runs.count * runs.rounds <= people <= selection.people


def test_results_before_the_end_say_what_is_proven() -> None:
    rng = np.random.default_rng(5)
    selection = nw.plan(nw.learn.LargestMean(4, alpha=0.2), ONE)
    assert isinstance(selection._state, NonInteractive)
    assert selection.result().alpha is None
    selection.tell(rng.random(3 * selection.people // 4) < 0.5)
    partial = selection.result()
    assert 0.2 < partial.alpha < 1
    assert f"{selection.people:,} are needed" in partial.warning
    selection.tell(rng.random(selection.people - selection.asked) < 0.5)
    assert selection.finished
    assert selection.result().alpha <= 0.2
    assert selection.result().warning is None
    with pytest.raises(InvalidParameter, match="asks nobody"):
        selection.ask()
    with pytest.raises(InvalidParameter, match="more than"):
        selection.tell([1])


def test_devices_answer_with_exactly_the_odds_promised() -> None:
    selection = nw.plan(nw.learn.LargestMean(3), ONE)
    assert selection.privacy.epsilon == 1
    chances = selection.contest.response.dense()
    assert chances.max() / chances.min() <= np.e * (1 + 1e-12)
    told = selection.randomize(np.ones(40_000, dtype=bool))
    # 6 standard errors of the mean: false alarm below 1e-8
    assert abs(told.mean() - chances.max()) < 6 * 0.5 / 200
    assert len(selection.client.randomize(1)) > 0


def test_one_coordinate_needs_nobody() -> None:
    selection = nw.plan(nw.learn.LargestMean(1), ONE)
    assert (selection.people, selection.finished) == (0, True)
    assert (selection.result().coordinate, selection.result().alpha) == (0, 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"coordinates": 0},
        {"coordinates": 2.5},
        {"alpha": 0},
        {"alpha": 2},
        {"beta": 0},
        {"protocol": "luck"},
        {"privacy": nw.Privacy(1.0, 1e-9)},
    ],
    ids=str,
)
def test_bad_input_is_refused(changes: dict[str, object]) -> None:
    said = {"coordinates": 5, **changes}
    budget = said.pop("privacy", ONE)
    with pytest.raises(NoisewrightError):
        nw.plan(nw.learn.LargestMean(**said), budget)
    selection = nw.plan(nw.learn.LargestMean(5), ONE)
    for bits in ([2], [0.5], [[1]], ["1"]):
        with pytest.raises(NoisewrightError):
            selection.tell(bits)


@pytest.mark.parametrize("protocol", ["non-interactive", "elimination"])
def test_blocks_of_more_people_than_memory_holds_are_refused(protocol: str) -> None:
    with pytest.raises(TooLarge, match="raise epsilon or alpha"):
        nw.plan(nw.learn.LargestMean(64, protocol=protocol), nw.Privacy(epsilon=1e-5))
