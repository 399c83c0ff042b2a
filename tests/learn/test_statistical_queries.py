"""Oracles: exact privacy of what is kept and told, and tolerances that hold."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import e

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.learn.queries.oracle import GRID, Demand, Listed, Question, on_grid
from noisewright.learn.queries.statistical import NoisySums, PanPrivateOracle
from oracles.privacy_oracles import SeededSource

ONE = nw.Privacy(epsilon=1)


# --- pan-privacy: the joint law of the memory seen and the answer -------------------------------

EPSILON = 1.0
WINDOW = 40


class _Noise:
    """Noise that is handed out number by number and remembers which scale was asked for."""

    def __init__(self, values: tuple[int, ...]) -> None:
        self._left, self.scales = list(values), list[Fraction]()

    def __call__(self, scale: Fraction, size: int) -> np.ndarray:
        self.scales.append(scale)
        return np.array([self._left.pop(0) for _ in range(size)], dtype=np.int64)


def _joint_law(
    sums: type[NoisySums], queries: np.ndarray, people: tuple[int, ...], seen: int
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], Fraction]:
    """Weights x^(Σ|z|) of every (memory after `seen` people, answer), from the code itself.

    x stands for e^(−1/scale) with the scale that the code asked for. It is a number of its own here
    (1/2), so that weights are exact; ratios of weights are then powers of x, which are compared
    with the power that e^ε is. No memory or answer near the window's edge is returned.
    """
    law: dict[tuple[tuple[int, ...], tuple[int, ...]], Fraction] = defaultdict(Fraction)
    count = len(queries)
    for noise in product(range(-WINDOW, WINDOW + 1), repeat=2 * count):
        draw = _Noise(noise)
        memory = sums(queries, EPSILON, draw)
        state = memory.state
        for place, cell in enumerate(people):
            if place == seen:
                state = memory.state
            memory.add([cell])
        if seen == len(people):
            state = memory.state
        answer = memory.answer()
        used = sum(abs(z) for z in noise[: 2 * count - len(draw._left)])
        law[tuple(state.tolist()), tuple(answer.tolist())] += Fraction(1, 2) ** used
    return law


def _worst_loss(
    sums: type[NoisySums], queries: np.ndarray, people: int, inner: int
) -> float:
    """The largest loss, in units of ε, over neighbours, intrusion times, memories and answers."""
    cells = queries.shape[1]
    scale = sums(queries, EPSILON, _Noise((0,) * 100)).scale
    worst = 0.0
    for seen in range(people + 1):
        laws = {
            data: _joint_law(sums, queries, data, seen)
            for data in product(range(cells), repeat=people)
        }
        for data, place, cell in product(laws, range(people), range(cells)):
            other = (*data[:place], cell, *data[place + 1 :])
            for (state, answer), weight in laws[data].items():
                if max(map(abs, (*state, *answer))) > inner:
                    continue  # where the window cuts the noise off
                against = laws[other].get((state, answer), Fraction(0))
                if against == 0:
                    return float("inf")
                ratio = weight / against
                steps = (
                    max(ratio.numerator.bit_length(), ratio.denominator.bit_length())
                    - 1
                )
                assert Fraction(2) ** steps in (ratio, 1 / ratio)
                worst = max(worst, float(steps / scale / Fraction(EPSILON)))
    return worst


SMALL = np.array([[-1, 0, 2]])


def test_memory_and_answer_together_spend_exactly_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "WINDOW", 11)
    assert _worst_loss(NoisySums, SMALL, people=2, inner=3) == 1.0


def test_queries_that_share_people_spend_exactly_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "WINDOW", 3)
    shared = np.array([[0, 1], [1, 0]])
    assert _worst_loss(NoisySums, shared, people=1, inner=1) == 1.0


class _NoFirstNoise(NoisySums):
    def __init__(self, queries: np.ndarray, epsilon: float, draw: object) -> None:
        super().__init__(queries, epsilon, draw)
        self.state = np.zeros(len(queries), dtype=np.int64)


class _NoLastNoise(NoisySums):
    def answer(self) -> np.ndarray:
        return self.state


class _HalfNoise(NoisySums):
    """Noise for half of what a person moves."""

    def __init__(self, queries: np.ndarray, epsilon: float, draw: object) -> None:
        super().__init__(queries, epsilon, draw)
        self.scale = self.scale / 2


class _SameNoise(NoisySums):
    """The first noise is taken back before the answer."""

    def __init__(self, queries: np.ndarray, epsilon: float, draw: object) -> None:
        super().__init__(queries, epsilon, draw)
        self._first = self.state

    def answer(self) -> np.ndarray:
        return super().answer() - self._first


@pytest.mark.parametrize("bug", [_NoFirstNoise, _NoLastNoise, _HalfNoise, _SameNoise])
def test_planted_bugs_are_caught(
    bug: type[NoisySums], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "WINDOW", 10)
    try:
        loss = _worst_loss(bug, SMALL, people=1, inner=3)
    # a ratio that is no power of x at all: the law is another one
    except AssertionError:
        return
    assert loss > 1.5


def test_noise_is_for_what_a_person_moves_in_all_queries() -> None:
    queries = np.array([on_grid([1.0, -1.0, 0.5], 3), on_grid([0.0, 0.25, 0.25], 3)])
    sums = NoisySums(queries, 0.5, _Noise((0,) * 2))
    assert sums.scale == Fraction(2 * GRID + GRID // 4) / Fraction(0.5)


# --- local privacy ------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_bit_is_private_for_every_pair_of_values(epsilon: float) -> None:
    question = Question(on_grid(np.linspace(-1, 1, 9), 9), epsilon)
    chances = question.chances()
    for side in (chances, [1 - c for c in chances]):
        assert float(max(side) / min(side)) <= e**epsilon * (1 + 1e-12)
    # and it tells the value without bias
    for value, chance in zip(np.linspace(-1, 1, 9), chances, strict=True):
        assert float((2 * chance - 1) / question.slope) == pytest.approx(
            value, abs=1e-5
        )


def test_devices_draw_the_chances_that_are_stated() -> None:
    question = Question(on_grid([-1.0, -0.3, 0.0, 0.7], 4), 1.0)
    count = 100_000
    for cell, chance in enumerate(question.chances()):
        bits = question.randomize(np.full(count, cell), SeededSource(cell))
        # 5.5 standard errors: false alarm below 2e-7 in all
        assert abs(bits.mean() - float(chance)) < 5.5 * 0.5 / count**0.5


# --- tolerances ---------------------------------------------------------------------------------

QUERIES = [np.array([1.0, -1.0, 0.2, 0.0]), np.array([0.3, 0.3, -0.9, 1.0])]
SHARES = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("sequential", {}),
        ("pan-private", {}),
        ("pan-private", {"together": 2}),
        ("pan-private", {"intrusions": 3}),
    ],
)
def test_answers_keep_their_tolerance(model: str, more: dict[str, int]) -> None:
    """β = .1 and 40 oracles: more than 12 fail with chance below 1e-4 even were it met exactly."""
    settings = {
        "size": 4,
        "queries": 2,
        "tolerance": 0.1,
        "beta": 0.1,
        "model": model,
        **more,
    }
    need = nw.learn.statistical_queries([], ONE, **settings).people
    rng, missed = np.random.default_rng(0), 0
    for _ in range(40):
        people = rng.choice(4, need, p=SHARES)
        oracle = nw.learn.statistical_queries(people, ONE, **settings)
        told = oracle.ask_together(QUERIES)
        missed += bool(np.abs(told - [q @ SHARES for q in QUERIES]).max() > 0.1)
    assert missed <= 12
    assert oracle.privacy.epsilon == 1


def test_needs_are_those_of_the_models() -> None:
    """Sequential 1/(ετ)², pan-private 1/τ² + 1/(ετ); sharing people is cheaper than not."""

    def need(epsilon: float, tolerance: float, **more: object) -> int:
        settings = {"size": 2, "queries": 8, "tolerance": tolerance, **more}
        return nw.learn.statistical_queries([], nw.Privacy(epsilon), **settings).people

    assert need(0.1, 0.01) / need(0.1, 0.02) == pytest.approx(4, rel=0.02)
    assert need(0.05, 0.01) / need(0.1, 0.01) == pytest.approx(4, rel=0.02)
    pan = {"model": "pan-private"}
    assert need(0.1, 0.01, **pan) < need(0.1, 0.01) / 20
    assert need(1e-3, 0.01, **pan) / need(2e-3, 0.01, **pan) == pytest.approx(
        2, rel=0.05
    )
    assert need(1.0, 0.01, together=8, **pan) < need(1.0, 0.01, **pan) / 4
    assert need(1.0, 0.1, model="pan-private", intrusions=2) == need(1.0, 0.1)


def test_failures_of_pan_private_answers_are_bounded_by_the_exact_law() -> None:
    """Everybody in one cell: the error is that of two noises alone, whose tail is summed here."""
    demand = Demand(1, 0.2, 0.05)
    oracle = PanPrivateOracle(Listed([], 2), 2, 0.3, demand)
    n = oracle.people_per_batch
    scale = 2 / 0.3  # in units of the query
    # of two Laplace noises
    tail = (1 + 0.2 * n / (2 * scale)) * np.exp(-0.2 * n / scale)
    assert tail <= oracle.failure(n) <= 0.05


def test_exact_oracles_may_lie_within_their_tolerance() -> None:
    from noisewright.learn.queries.oracle import ExactOracle

    oracle = ExactOracle(SHARES, Demand(9, 0.05), np.random.default_rng(0))
    told = [oracle.ask(QUERIES[0]) - QUERIES[0] @ SHARES for _ in range(9)]
    assert np.abs(told) == pytest.approx(0.05, abs=1e-4)
    assert nw.learn.statistical_queries(
        SHARES, size=4, queries=1, tolerance=0.1, model="exact"
    ).ask(QUERIES[1]) == pytest.approx(QUERIES[1] @ SHARES, abs=1e-4)


def test_people_are_asked_once_and_running_out_is_an_error() -> None:
    settings = {"size": 4, "queries": 2, "tolerance": 0.3}
    need = nw.learn.statistical_queries([], ONE, **settings).people
    oracle = nw.learn.statistical_queries(np.zeros(need - 1, int), ONE, **settings)
    oracle.ask(QUERIES[0])
    with pytest.raises(InvalidParameter, match="too few"):
        oracle.ask(QUERIES[1])
    oracle = nw.learn.statistical_queries(np.zeros(need, int), ONE, **settings)
    oracle.ask_together(QUERIES)
    with pytest.raises(InvalidParameter, match="more than the 2"):
        oracle.ask(QUERIES[0])
    assert sum(len(bits) for _, bits in oracle.transcript) == need


def test_people_may_be_reached_by_ones_own_means() -> None:
    class Post:
        def respond(self, question: Question, count: int) -> np.ndarray:
            return question.randomize(np.full(count, 2), SeededSource(count))

    oracle = nw.learn.statistical_queries(Post(), ONE, size=4, queries=1, tolerance=0.1)
    assert abs(oracle.ask(QUERIES[0]) - 0.2) <= 0.1
    with pytest.raises(InvalidParameter, match="curator"):
        nw.learn.statistical_queries(
            Post(), ONE, size=4, queries=1, tolerance=0.1, model="pan-private"
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"queries": 0},
        {"tolerance": 0.0},
        {"tolerance": 2.0},
        {"beta": 0.0},
        {"model": "telepathy"},
        {"intrusions": 0},
        {"together": 3, "model": "pan-private"},
        {"privacy": None},
        {"privacy": nw.Privacy(rho=0.1)},
        {"people": [4]},
        {"people": [0.5]},
        {"people": [[0]]},
        {"model": "exact", "people": [1.0, -1.0, 0, 0]},
        {"model": "exact", "people": [1.0]},
    ],
    ids=str,
)
def test_bad_input_is_refused(changes: dict[str, object]) -> None:
    settings = {
        "people": [0],
        "privacy": ONE,
        "size": 4,
        "queries": 2,
        "tolerance": 0.1,
    }
    with pytest.raises(NoisewrightError):
        nw.learn.statistical_queries(**{**settings, **changes})
    for query in ([1.0], [2.0, 0, 0, 0], [np.nan] * 4):
        with pytest.raises(NoisewrightError):
            on_grid(query, 4)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"together": 2}, "together"),
        ({"intrusions": 2}, "intrusions"),
        ({"model": "exact", "people": [0.5, 0.5]}, "privacy"),
        ({"model": "pan-private", "together": 2, "intrusions": 2}, "together"),
    ],
    ids=str,
)
def test_settings_that_a_model_would_not_look_at_are_refused(
    settings: dict[str, object], name: str
) -> None:
    asked = {
        "people": [],
        "privacy": ONE,
        "size": 2,
        "queries": 2,
        "tolerance": 0.1,
        **settings,
    }
    with pytest.raises(InvalidParameter, match=name):
        nw.learn.statistical_queries(**asked)
