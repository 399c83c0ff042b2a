"""Random integers are unbiased and come from the operating system."""

from __future__ import annotations

import inspect
from random import Random

import numpy as np
import pytest
from scipy import stats

from noisewright.errors import InvalidParameter
from noisewright.privacy.noise import integers as noise
from noisewright.privacy.noise import source
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import (
    SystemSource,
    uniform_integers,
    uniform_words,
)
from oracles.privacy_oracles import ScriptedSource, SeededSource


def test_words_are_the_bytes_of_the_source() -> None:
    words = [0, 1, 1 << 63, (1 << 64) - 1]
    assert uniform_words(4, ScriptedSource(words)).tolist() == words
    assert uniform_words(0).size == 0


@pytest.mark.system_noise
def test_a_system_source_is_fresh() -> None:
    assert len(SystemSource().bytes(5)) == 5
    # Two strings of 32 bytes agree with probability 2^-256.
    assert SystemSource().bytes(32) != SystemSource().bytes(32)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000])
def test_integers_are_uniform(bound: int) -> None:
    drawn = uniform_integers(bound, 100_000, SeededSource(3))
    counts = np.bincount(drawn.astype(int), minlength=bound)
    assert counts.size == bound
    # False-alarm rate of a fresh seed 1e-6 per bound.
    assert bound == 1 or stats.chisquare(counts).pvalue > 1e-6


def test_rejected_words_are_redrawn_in_order() -> None:
    top = 1 << 62  # bound 3 keeps the two leading bits of a word
    script = [3 * top, 1 * top, 3 * top, 3 * top, 2 * top, 0]
    assert uniform_integers(3, 3, ScriptedSource(script)).tolist() == [0, 1, 2]


def test_the_full_range_keeps_whole_words() -> None:
    words = [Random(1).getrandbits(64) for _ in range(8)]
    assert uniform_integers(1 << 64, 8, ScriptedSource(words)).tolist() == words


@pytest.mark.parametrize("bound", [0, -1, (1 << 64) + 1])
def test_impossible_bounds_are_refused(bound: int) -> None:
    with pytest.raises(InvalidParameter, match="bound="):
        uniform_integers(bound, 1)


def test_nothing_in_the_room_takes_a_seed() -> None:
    functions = [
        *(value for _, value in inspect.getmembers(noise, inspect.isfunction)),
        *(value for _, value in inspect.getmembers(source, inspect.isfunction)),
        NoiseLaw.sample,
    ]
    for function in functions:
        assert not {"seed", "rng", "random_state"} & set(
            inspect.signature(function).parameters
        )
