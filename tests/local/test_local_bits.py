from __future__ import annotations

from contextlib import suppress
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from noisewright.local.fixedpoint import (
    bernoulli,
    categorical,
    integers_below,
    thresholds,
)
from noisewright.local.histogram.sets import SubsetSelection
from noisewright.local.randomizer import bits, outcomes
from noisewright.local.randomizer.bits import (
    _ROUNDS,
    PatternTable,
    _aim,
    _remove_uniform,
    bernoulli_rows,
    get_bits,
    pattern_table,
    set_bits,
    uniform_sets,
)
from oracles.privacy_oracles import SeededSource


@pytest.mark.parametrize(
    "threshold", [1, 2**62, 2**63, 2**64 - 1, 4_960_000_000_000_000_001]
)
def test_edges_are_those_of_independent_bits(threshold):
    table = PatternTable(threshold)
    assert table.edges[-1] == 2**512
    widths = np.diff([0, *table.edges])
    p = threshold / 2**64
    for pattern in (0, 1, 7, 128, 255):
        ones = pattern.bit_count()
        expected = p**ones * (1 - p) ** (8 - ones)
        assert float(widths[pattern]) / 2.0**512 == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "threshold", [1, 2**62, 2**64 // 3, 2**63, 2**64 - 1, 2**64 * 0.731]
)
def test_a_prefix_decides_only_what_lies_in_one_interval(threshold):
    # All 65,536 prefixes, in whole numbers: with the test below, the law is exact.
    table = PatternTable(int(threshold))
    edges = [0, *table.edges]
    decided = table.lookup.tolist()
    for prefix, pattern in enumerate(decided):
        if pattern >= 0:
            assert edges[pattern] <= prefix << 496
            assert prefix + 1 << 496 <= edges[pattern + 1]
    assert decided.count(-1) <= 255


class Digits:
    """One uniform number's binary digits, as a sampler asks for them: 16, then 48, then 448."""

    def __init__(self, number):
        self.number, self.asked = number, []

    def bytes(self, count):
        self.asked.append(count)
        if count == 2:
            return (self.number >> 496).to_bytes(2, "little")
        if count == 8:  # the lowest 16 digits of this word are not looked at
            return ((self.number >> 448 & (2**48 - 1)) << 16 | 0xBEEF).to_bytes(
                8, "little"
            )
        return (self.number & (2**448 - 1)).to_bytes(count, "big")


@pytest.mark.parametrize("threshold", [1, 2**64 // 3, 2**63, 2**64 - 1])
def test_every_number_reads_its_pattern_exactly(threshold):
    table = PatternTable(threshold)
    rng = np.random.default_rng(0)
    numbers = [int.from_bytes(rng.bytes(64), "big") for _ in range(200)]
    numbers += [edge + k for edge in table.edges[:-1:5] for k in (-1, 0, 1)]
    for number in numbers:
        source = Digits(number)
        expected = sum(number >= edge for edge in table.edges[:-1])
        assert table.draw(1, source).tolist() == [expected]
        assert source.asked in ([2], [2, 8], [2, 8, 56])


def test_bits_have_their_chance_and_are_independent():
    packed = bernoulli_rows(2**64 * 3 // 11, 20_000, 13, SeededSource(0))
    assert (packed[:, -1] & 7 == 0).all()
    bits = np.unpackbits(packed, axis=1, count=13).astype(float)
    p = 3 / 11
    # Means within 5 deviations (13 of them), correlations within 5/√20000 (78): below 1e-4.
    assert np.abs(bits.mean(axis=0) - p).max() < 5 * np.sqrt(p * (1 - p) / 20_000)
    off = np.corrcoef(bits.T)[np.triu_indices(13, 1)]
    assert np.abs(off).max() < 5 / np.sqrt(20_000)


class Script:
    """Answers in order, and then no more."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def bytes(self, count):
        if not self.answers:
            raise StopIteration
        answer = self.answers.pop(0)
        assert len(answer) == count
        return answer


def codes(packed, cells):
    return np.unpackbits(packed, axis=1, count=cells) @ (1 << np.arange(cells))


@pytest.mark.parametrize("cells", [3, 5, 8])
@pytest.mark.parametrize("chosen", [1, 2, 3])
def test_corrections_are_exactly_uniform(cells, chosen):
    """Every first set of three members or so with every sequence of draws: no luck involved."""
    draws = np.array(list(product(range(8), repeat=_ROUNDS)))
    table = pattern_table(int(_aim(chosen / cells, cells) * 2.0**64))
    spare = 8 - cells
    firsts = [
        p
        for p in range(256)
        if p & ((1 << spare) - 1) == 0 and p.bit_count() <= chosen + 2
    ]
    firsts = [
        p for p in firsts if (table.lookup == p).any() and p.bit_count() >= chosen - 2
    ][:9]
    for first in firsts:
        words = np.full(
            len(draws), np.flatnonzero(table.lookup == first)[0], dtype="<u2"
        )
        # What lies beyond the places of a row must not matter.
        places = (draws.T + 8 * np.arange(len(draws)) % 2**16).astype("<u2")
        wanted = np.full(len(draws), chosen)
        script = Script(words.tobytes(), places.tobytes())
        packed = sets_so_far(cells, wanted, script)
        done = np.bitwise_count(packed[:, 0]) == chosen
        found, times = np.unique(codes(packed[done], cells), return_counts=True)
        missing = chosen - first.bit_count()
        possible = comb(cells - first.bit_count(), missing) if missing > 0 else None
        possible = possible or comb(first.bit_count(), -missing)
        assert len(found) == possible
        assert (times == times[0]).all()


def sets_so_far(cells, sizes, source):
    """The sets when the script ends: those of the wrong size would have gone on."""

    def while_it_lasts(packed, times, source):
        with suppress(StopIteration):
            _remove_uniform(packed, times, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bits, "_remove_uniform", while_it_lasts)
        return uniform_sets(cells, sizes, source)


@pytest.mark.parametrize(
    ("cells", "chosen"), [(5, 2), (5, 0), (5, 5), (6, 4), (11, 4), (12, 9)]
)
def test_sets_are_uniform(cells, chosen):
    rows = 20_000
    packed = uniform_sets(cells, np.full(rows, chosen), SeededSource(cells))
    found = codes(packed, cells)
    wanted = [sum(1 << i for i in c) for c in combinations(range(cells), chosen)]
    counts = np.array([(found == code).sum() for code in wanted])
    assert counts.sum() == rows
    expected, freedom = rows / len(wanted), len(wanted) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    # Chi-square beyond its mean by 6 deviations and 10: below 1e-6 each.
    assert statistic < freedom + 6 * np.sqrt(2 * freedom) + 10


@pytest.mark.parametrize("cells", [600, 1023])
def test_large_sets_hold_every_cell_and_pair_alike(cells):
    rows, chosen = 20_000, cells // 4
    sizes = chosen - np.arange(rows) % 2
    packed = uniform_sets(cells, sizes, SeededSource(cells))
    assert not np.unpackbits(packed, axis=1)[:, cells:].any()
    held = np.unpackbits(packed, axis=1, count=cells)
    np.testing.assert_array_equal(held.sum(axis=1), sizes)
    for kind in (0, 1):
        part, d = held[kind::2].astype(np.float64), chosen - kind
        p, pair = d / cells, d * (d - 1) / (cells * (cells - 1))
        # About 1,000 cells and 1,000 pairs within 6 deviations: false alarm below 1e-5.
        assert np.abs(part.mean(axis=0) - p).max() < 6 * np.sqrt(
            p * (1 - p) / len(part)
        )
        together = (part[:, 1:] * part[:, :-1]).mean(axis=0)
        assert np.abs(together - pair).max() < 6 * np.sqrt(
            pair * (1 - pair) / len(part)
        )


@pytest.mark.parametrize("size", [2, 5, 9])
@pytest.mark.parametrize("held", [True, False])
def test_every_set_of_others_becomes_one_report(size, held, monkeypatch):
    """The true cell is put in or left out: a one-to-one map from sets of the others to reports."""
    strategy = SubsetSelection(size, 1.0, max(1, size // 3))
    others = list(combinations(range(size - 1), strategy.chosen - held))
    members = np.zeros((len(others), size - 1), dtype=np.uint8)
    for row, chosen in enumerate(others):
        members[row, list(chosen)] = 1
    monkeypatch.setattr(outcomes, "bernoulli", lambda t, n, s: np.full(n, held))
    monkeypatch.setattr(
        outcomes, "uniform_sets", lambda cells, sizes, s: np.packbits(members, axis=1)
    )
    for value in range(size):
        reports = strategy.sampler.sample(np.full(len(others), value))
        assert strategy.collector.valid(reports).all()
        found = np.unpackbits(reports, axis=1, count=size)
        assert (found.sum(axis=1) == strategy.chosen).all()
        assert (found[:, value] == held).all()
        assert len(np.unique(found, axis=0)) == len(others)


def test_bits_are_read_and_written_in_place():
    bits = np.random.default_rng(1).random((50, 19)) < 0.4
    packed = np.packbits(bits, axis=1)
    columns = np.random.default_rng(2).integers(0, 19, 50)
    rows = np.arange(50)
    np.testing.assert_array_equal(get_bits(packed, columns), bits[rows, columns])
    flipped = ~bits[rows, columns]
    set_bits(packed, columns, flipped)
    bits[rows, columns] = flipped
    np.testing.assert_array_equal(np.unpackbits(packed, axis=1, count=19), bits)


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 1025, 2**20 + 7, 2**30 + 1])
def test_integers_are_uniform_below_their_bound(bound):
    drawn = integers_below(bound, 5000, SeededSource(bound))
    assert drawn.min() >= 0
    assert drawn.max() < bound
    if bound > 1:
        spread = (bound - 1) / np.sqrt(12)
        # Within 5 deviations of the mean: below 1e-6 each.
        assert abs(drawn.mean() - (bound - 1) / 2) < 5 * spread / np.sqrt(5000) + 1e-9


def test_lazy_comparison_is_exact_at_the_threshold():
    threshold = int.from_bytes(bytes(range(10, 18)), "big")
    below, at = threshold - 1, threshold
    for number, expected in ((below, True), (at, False)):
        digits = number.to_bytes(8, "big")

        class Digits:
            def __init__(self, digits):
                self.left = list(digits)

            def bytes(self, count):
                assert count == 1
                return bytes([self.left.pop(0)])

        assert bernoulli(threshold, 1, Digits(digits))[0] == expected


def test_categories_follow_whole_weights():
    limits = thresholds([2**62, 2**62, 2**63])
    drawn = categorical(limits, 20_000, SeededSource(9))
    shares = np.bincount(drawn, minlength=3) / 20_000
    # Within 0.02, over five deviations each.
    np.testing.assert_allclose(shares, [0.25, 0.25, 0.5], atol=0.02)
