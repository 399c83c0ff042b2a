from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from local.strategies import SeededSource
from noisewright.local.bits import (
    PatternTable,
    bernoulli_rows,
    get_bits,
    set_bits,
    uniform_sets,
)
from noisewright.local.fixedpoint import bernoulli, categorical, integers_below, thresholds


class Constant:
    """The same bytes again and again: drives a sampler to a chosen number."""

    def __init__(self, pattern):
        self.pattern = pattern

    def bytes(self, count):
        return (self.pattern * count)[:count]


@pytest.mark.parametrize("threshold", [1, 2**62, 2**63, 2**64 - 1, 4_960_000_000_000_000_001])
def test_edges_are_those_of_independent_bits(threshold):
    table = PatternTable(threshold)
    assert table.edges[-1] == 2**512
    widths = np.diff([0, *table.edges])
    p = threshold / 2**64
    for pattern in (0, 1, 7, 128, 255):
        ones = pattern.bit_count()
        expected = p**ones * (1 - p) ** (8 - ones)
        assert float(widths[pattern]) / 2.0**512 == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("threshold", [2**64 // 3, 2**63])
def test_every_word_reads_its_pattern_exactly(threshold):
    table = PatternTable(threshold)
    rng = np.random.default_rng(0)
    numbers = [int.from_bytes(rng.bytes(64), "big") for _ in range(200)]
    numbers += [edge + k for edge in table.edges[:-1:17] for k in (-1, 0, 1)]
    for number in numbers:
        expected = sum(number >= edge for edge in table.edges[:-1])
        prefix, word = number >> 496, number >> 448
        if table.lookup[prefix] >= 0:
            assert table.lookup[prefix] == expected
        tail = number & ((1 << 448) - 1)
        source = Constant(tail.to_bytes(56, "big"))
        assert table._exact(word, source) == expected


def test_bits_have_their_chance_and_are_independent():
    packed = bernoulli_rows(2**64 * 3 // 11, 20_000, 13, SeededSource(0))
    assert (packed[:, -1] & 7 == 0).all()
    bits = np.unpackbits(packed, axis=1, count=13).astype(float)
    p = 3 / 11
    # Means within 5 deviations (13 of them), correlations within 5/√20000 (78): below 1e-4.
    assert np.abs(bits.mean(axis=0) - p).max() < 5 * np.sqrt(p * (1 - p) / 20_000)
    off = np.corrcoef(bits.T)[np.triu_indices(13, 1)]
    assert np.abs(off).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize(("cells", "chosen"), [(5, 2), (5, 0), (5, 5), (6, 4)])
def test_sets_are_uniform(cells, chosen):
    rows = 20_000
    packed = uniform_sets(cells, np.full(rows, chosen), 1, SeededSource(cells))
    bits = np.unpackbits(packed, axis=1, count=cells)
    codes = bits @ (1 << np.arange(cells))
    wanted = [sum(1 << i for i in c) for c in combinations(range(cells), chosen)]
    counts = np.array([(codes == code).sum() for code in wanted])
    assert counts.sum() == rows
    expected = rows / len(wanted)
    # At most 14 degrees of freedom: beyond 60 with chance below 1e-6.
    assert ((counts - expected) ** 2 / expected).sum() < 60


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
