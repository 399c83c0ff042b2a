"""The interpreter's law, exactly: every choice it can make, against the strategies' chances."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import exp

import numpy as np
import pytest

from local.randomizer.cases import KINDS, VECTORS, Stream, grid_of_kinds, large, whole
from local.randomizer.vectors import bits_below_a_draw
from local.strategies import listed_reports
from noisewright.errors import InvalidParameter
from noisewright.local.randomizer import interpret as room
from noisewright.local.randomizer import verify as verifier
from noisewright.local.randomizer.interpret import (
    Choices,
    interpret,
    outcome_of_rank,
    report,
)
from noisewright.local.randomizer.laws import Grid
from noisewright.local.randomizer.specification import Specification, encode
from noisewright.local.randomizer.verify import verify
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import ReportFormat
from noisewright.local.storage import HOMES, pack, unpack
from noisewright.local.transform.hadamard import HadamardResponse
from oracles import randomizer_law

GRID = dict(grid_of_kinds())
WHOLE = {
    f"whole-{k}": s for k, s in whole().items() if s.size < 100 and s.kind != "vector"
}
EVERY = {**GRID, **KINDS, **WHOLE}


class Branch(Exception):
    """A choice beyond the script: its options and their chances."""


class Scripted(Choices):
    """Takes the choices of a script, and says what could come next."""

    def __init__(self, script):
        self.script, self.chance_so_far = list(script), Fraction(1)

    def _take(self, options):
        if not self.script:
            raise Branch([option for option, chance in options if chance])
        taken = self.script.pop(0)
        self.chance_so_far *= dict(options)[taken]
        return taken

    def chance(self, threshold):
        own = Fraction(threshold, 2**64)
        return self._take([(True, own), (False, 1 - own)])

    def place(self, sums):
        pairs = zip(sums, [0, *sums], strict=False)
        return self._take(
            [(i, Fraction(b - a, sums[-1])) for i, (b, a) in enumerate(pairs)]
        )

    def below(self, bound):
        if bound <= 1:
            return 0
        if self.script:
            self.chance_so_far *= Fraction(1, bound)
            return self.script.pop(0)
        raise Branch(range(bound))


def enumerated(specification, value, least=Fraction(0)):
    """Exact chances of all reports; choices less likely than `least` are left out."""
    law, scripts = Counter(), [()]
    while scripts:
        script = scripts.pop()
        choices = Scripted(script)
        try:
            law[report(specification, value, choices)] += choices.chance_so_far
        except Branch as branch:
            if choices.chance_so_far > least:
                scripts += [(*script, option) for option in branch.args[0]]
    return law


def listed_law(specification, value):
    """What the oracle says of the JSON, as bytes of reports."""
    law = randomizer_law.reports(json.loads(encode(specification)), value)
    width = specification.number_bytes
    return {
        (number.to_bytes(width, "little") + payload).ljust(
            specification.report_bytes, b"\0"
        ): p
        for (number, payload), p in law.items()
    }


def test_every_stored_kind_is_among_the_cases():
    assert {s.kind for s in (EVERY | VECTORS).values()} == set(HOMES)


@pytest.mark.parametrize("name", EVERY)
def test_the_interpreter_follows_the_stated_law_and_the_strategy_exactly(name):
    strategy = EVERY[name]
    specification = strategy.specification
    assert specification.cells == strategy.size
    assert specification.report_bytes == strategy.specification.layout.bytes
    dense, format = strategy.dense(), ReportFormat(strategy)
    encoded = [row.tobytes()[9:] for row in format.encode(listed_reports(strategy))]
    for value in {0, strategy.size // 2, strategy.size - 1}:
        law = enumerated(specification, value)
        assert sum(law.values()) == 1
        assert law == listed_law(specification, value)
        chances = [float(law.get(report, 0)) for report in encoded]
        np.testing.assert_allclose(chances, dense[:, value], rtol=1e-12, atol=1e-15)
        assert set(law) <= set(encoded)


@pytest.mark.parametrize("name", EVERY)
def test_the_promise_is_what_the_listed_chances_spend(name):
    specification = EVERY[name].specification
    ratio = randomizer_law.worst_ratio(json.loads(encode(specification)))
    loss = EVERY[name].loss
    assert loss == verify(specification)
    assert loss.ratio == max(ratio, 1 / ratio)
    assert loss.exact
    assert loss.delta == 0
    assert loss.epsilon <= EVERY[name].epsilon


@pytest.mark.parametrize("name", EVERY)
def test_the_promise_is_the_worst_ratio_of_the_strategy_s_own_chances(name):
    """The least float not below the logarithm, and what the estimator reckons with."""
    chances, loss = EVERY[name].dense(), EVERY[name].loss
    listed = chances[chances.max(axis=1) > 0]
    spent = np.log(listed.max(axis=1) / listed.min(axis=1)).max()
    assert loss.epsilon == pytest.approx(spent, rel=1e-9, abs=1e-12)
    with localcontext(Context(prec=60)):
        exact = (Decimal(loss.ratio.numerator) / Decimal(loss.ratio.denominator)).ln()
        below = Decimal(np.nextafter(loss.epsilon, 0)) if loss.epsilon else Decimal(-1)
        assert below < exact <= Decimal(loss.epsilon)


def test_a_single_character_is_stored_with_all_its_chance():
    again = unpack(*pack(KINDS["fourier-one"]))
    assert again.weights == KINDS["fourier-one"].weights


@pytest.mark.parametrize("name", EVERY | VECTORS)
def test_interpreted_reports_are_collected_and_estimated(name):
    strategy = (EVERY | VECTORS)[name]
    format, specification = ReportFormat(strategy), strategy.specification
    source = Stream(name)
    reports = [
        format.header + interpret(specification, i % strategy.size, source)
        for i in range(40)
    ]
    aggregate = Aggregate(format).add(reports)
    assert aggregate.people == 40
    assert not any(aggregate.set_aside.values())
    assert np.isfinite(strategy.score(aggregate.total, 40)).all()


class Ladder(Choices):
    """Two branches at each step of a Bernoulli factory: below its numerator, or not."""

    def __init__(self, numerator, steps):
        self.numerator, self.steps, self.chance_so_far = numerator, steps, Fraction(1)

    def below(self, bound):
        up = Fraction(min(self.numerator, bound), bound)
        self.steps -= 1
        self.chance_so_far *= up if self.steps >= 0 else 1 - up
        return 0 if self.steps >= 0 else bound - 1


@pytest.mark.parametrize(("a", "b"), [(0, 3), (1, 3), (2, 3), (1, 1), (5, 8)])
def test_exponential_chances_are_exact(a, b):
    """The chance of yes is summed over where the ladder ends; sixty steps leave nothing over."""
    yes = total = Fraction(0)
    for steps in range(60):
        ladder = Ladder(a, steps)
        answer = room._exponential(a, b, ladder)
        total += ladder.chance_so_far
        yes += ladder.chance_so_far * answer
    assert float(total) == pytest.approx(1, abs=1e-15)
    assert float(yes) == pytest.approx(exp(-a / b), rel=1e-14)


class Restart(Exception):
    """The proposal was refused."""


class OneProposal(Scripted):
    """Stops where the sampler begins again: what is kept follows the law in proportion."""

    def __init__(self, script, p):
        super().__init__(script)
        self.p, self.begun = p, False

    def below(self, bound):
        if bound == self.p:
            if self.begun:
                raise Restart
            self.begun = True
        return super().below(bound)


@pytest.mark.parametrize(("p", "q"), [(3, 2), (1, 1), (1, 3), (5, 1), (7, 4)])
def test_laplace_noise_follows_its_law(p, q, monkeypatch):
    """All choices of one proposal, with exponential chances taken for granted."""

    def exponential(a, b, choices):
        own = Fraction(exp(-a / b))
        return choices._take([(True, own), (False, 1 - own)])

    monkeypatch.setattr(room, "_exponential", exponential)
    law, scripts = Counter(), [()]
    while scripts:
        script = scripts.pop()
        choices = OneProposal(script, p)
        try:
            law[room._laplace(p, q, choices)] += choices.chance_so_far
        except Restart:
            pass
        except Branch as branch:
            if choices.chance_so_far > Fraction(1, 10**9):
                scripts += [(*script, option) for option in branch.args[0]]
    accepted = float(sum(law.values()))
    step = exp(-q / p)
    for k in range(-5, 6):
        exact = (1 - step) / (1 + step) * step ** abs(k)
        assert float(law[k]) / accepted == pytest.approx(exact, rel=1e-6, abs=1e-9)


def grid(columns, law):
    node = Grid(columns=tuple(map(tuple, columns)), law=law[0], scale=law[1:])
    return Specification(
        format="noisewright-randomizer", version=1, meaning="",
        report_bytes=8 * len(columns[0]), nodes=(node,),
    )  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_promise_their_distance(name):
    strategy = VECTORS[name]
    promise = verify(strategy.specification)
    columns = strategy.columns.T.tolist()
    order = 2 if strategy.delta else 1
    largest = max(
        sum(abs(a - b) ** order for a, b in zip(u, v, strict=True))
        for u in columns
        for v in columns
    )
    assert promise.exact
    assert promise.ratio is None
    assert promise.epsilon <= strategy.epsilon
    assert promise.delta <= strategy.delta
    if not strategy.delta:
        expected = Fraction(largest) / Fraction(strategy.law.scale)
        assert Fraction(promise.epsilon) >= expected
        assert promise.epsilon == pytest.approx(float(expected), rel=1e-15)
    else:
        assert promise.delta == pytest.approx(strategy.delta, rel=1e-6)


def test_far_vectors_are_bounded_by_their_ranges(monkeypatch):
    specification = grid([[0, 4], [3, 0], [1, 1]], ("discrete-laplace", "10", "1"))
    exact = verify(specification)
    assert exact.epsilon == pytest.approx(0.7, rel=1e-15)
    assert Fraction(exact.epsilon) >= Fraction(7, 10)
    monkeypatch.setattr(verifier, "PAIRS", 1)
    bounded = verify(specification)
    assert bounded.epsilon >= exact.epsilon
    assert not bounded.exact


def test_bits_below_a_draw_keep_the_number_before_them():
    specification = bits_below_a_draw()
    lengths = Counter(
        len(interpret(specification, 99, Stream(str(i)))) for i in range(50)
    )
    assert lengths == {18: 50}


@pytest.mark.parametrize("name", large())
def test_large_domains_are_interpreted_without_listing_them(name):
    """A report reads a few dozen bytes, whatever the domain; the strategy's own rows agree."""
    strategy = large()[name]
    specification = strategy.specification
    assert strategy.loss.epsilon <= strategy.epsilon
    assert strategy.loss.epsilon == pytest.approx(strategy.epsilon, rel=1e-12)
    values = [0, 1, strategy.size // 3, strategy.size - 1]
    for value in values:
        source = Stream(f"{name}/{value}")
        written = interpret(specification, value, source)
        assert len(source.read) <= 200
        number = np.frombuffer(written, dtype=strategy.specification.layout.dtype)
        assert strategy.collector.valid(number).all()


def test_outcomes_of_large_domains_are_the_strategy_s():
    """Own and other outcomes as the strategy's rows have them, at a thousand cells."""
    strategy = HadamardResponse(1000, 1.0)
    specification = strategy.specification
    owner = specification.nodes[0].owner
    for value in (0, 1, 511, 999):
        own = [outcome_of_rank(owner, value, True, r) for r in range(owner.own)]
        rest = range(owner.outcomes - owner.own)
        other = [outcome_of_rank(owner, value, False, r) for r in rest]
        assert own == sorted(own)
        assert other == sorted(other)
        column = strategy.rows(0, strategy.outputs)[:, value]
        assert np.flatnonzero(column > column.min()).tolist() == own
        assert sorted(own + other) == list(range(owner.outcomes))


# --- random bytes ---------------------------------------------------------------------------------


class Given:
    def __init__(self, data):
        self.data = data

    def bytes(self, count):
        if count > len(self.data):
            raise EOFError
        taken, self.data = self.data[:count], self.data[count:]
        return taken


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 128, 129, 255, 256, 257, 4000])
def test_numbers_below_a_bound_are_uniform_over_all_bytes(bound):
    """One try of every content of the bytes: each number as often, the rest drawn again."""
    if bound == 1:
        assert Choices(Given(b"")).below(1) == 0
        return
    length = -(-(bound - 1).bit_length() // 8)
    counts, again = Counter(), 0
    for content in range(256**length):
        try:
            counts[Choices(Given(content.to_bytes(length, "little"))).below(bound)] += 1
        except EOFError:
            again += 1
    assert set(counts) == set(range(bound))
    assert len(set(counts.values())) == 1
    assert sum(counts.values()) + again == 256**length


@pytest.mark.parametrize("threshold", [1, 2**32 + 5, 2**63, 2**64 - 1])
def test_chances_and_places_turn_at_the_word_itself(threshold):
    for word in (0, threshold - 1, threshold, 2**64 - 1):
        data = (word % 2**64).to_bytes(8, "little")
        assert Choices(Given(data)).chance(threshold) == (word < threshold)
        sums = (threshold, threshold, 2**64)
        assert Choices(Given(data)).place(sums) == (0 if word < threshold else 2)
    top = (3 * 2**62 + 5).to_bytes(8, "little")
    # the two highest bits are left out
    assert Choices(Given(top)).place((5, 2**62)) == 1
    assert Choices(Given(top)).place((6, 2**62)) == 0


def test_a_value_outside_is_refused_without_quoting_it():
    specification = KINDS["randomized-response"].specification
    for value in (-1, 7, 271828, True, "271828", 2.0):
        with pytest.raises(InvalidParameter) as refusal:
            interpret(specification, value)
        assert "271828" not in str(refusal.value)


def test_the_system_s_randomness_is_the_default():
    specification = KINDS["local-hashing"].specification
    assert len({interpret(specification, 3) for _ in range(64)}) > 1
