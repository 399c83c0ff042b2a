"""Cache entries and checkpoints from anybody: no privacy is lost by them, and nothing crashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict, replace

from noisewright.arrays import Array
from noisewright.container import Header, read, write
from noisewright.local.histogram.sets import RandomizedResponse, UnaryEncoding
from noisewright.local.listed import MatrixStrategy
from noisewright.local.optimise.kept import Cache, KeptStrategy, Snapshot
from noisewright.local.optimise.run import optimise
from noisewright.local.storage import pack
from noisewright.local.transform.fourier import Fourier
from noisewright.local.vector.noisy_columns import VectorStrategy
from noisewright.workload import workload

ASKED = workload("prefix:4")


@pytest.fixture
def entry(tmp_path):
    """The file of a finished run, and what it held."""
    optimise(ASKED, 1.0, effort="low", cache=tmp_path)
    (file,) = tmp_path.iterdir()
    return file, read(file, KeptStrategy)


def again(file):
    return optimise(ASKED, 1.0, effort="low", cache=file.parent)


def planted(file, header, strategy, **others):
    settings, arrays = pack(strategy)
    write(file, replace(header, strategy=settings, arrays=arrays, **others))
    return again(file)


class Forged(Header, tag="local-strategy", frozen=True):
    """An entry with fields of any type."""

    question: Any
    mechanism: Any
    strategy: Any
    arrays: dict[str, Array]


class Longer(KeptStrategy, tag="local-strategy", frozen=True):
    """An entry that states what a reader would have to believe."""

    value: float = 0.0


class Foreign(Header, tag="text", frozen=True):
    """An entry of another kind."""


@pytest.mark.parametrize("mechanism", ["optimised", "matrix-l2", "randomized-response"])
def test_a_planted_vector_strategy_is_not_taken(entry, mechanism):
    """δ = 0.999999 lets the noise be next to nothing."""
    file, header = entry
    columns = 1000 * np.eye(4, dtype=np.int64)
    for delta in (0.999999, 0.0):
        found = planted(
            file, header, VectorStrategy(columns, 1.0, delta), mechanism=mechanism
        )
        assert found.status == "finished"
        assert found.strategy.kind != "vector"


@pytest.mark.parametrize(
    "strategy",
    [
        RandomizedResponse(4, 0.5),
        RandomizedResponse(4, 1.5),
        RandomizedResponse(5, 1.0),
        UnaryEncoding(4, 1.0),
        MatrixStrategy.from_chances(RandomizedResponse(4, 0.1).dense(), 1.0),
        # Sees one character only: errors of the others would come out as none.
        Fourier(4, 1.0, np.array([1]), (1 << 64,)),
    ],
    ids=["less", "more", "cells", "kind", "slack", "blind"],
)
@pytest.mark.parametrize("mechanism", ["optimised", "fourier", "unary"])
def test_an_entry_that_does_not_do_what_is_asked_is_not_taken(
    entry, strategy, mechanism
):
    file, header = entry
    assert planted(file, header, strategy, mechanism=mechanism).status == "finished"


@pytest.mark.parametrize(
    "change",
    [
        {"question": "another"},
        {"strategy": None},
        {"strategy": []},
        {"strategy": {"kind": []}},
        {"mechanism": None},
        {"mechanism": ["optimised"]},
    ],
)
def test_forged_headers_of_entries_are_as_good_as_none(entry, change):
    file, header = entry
    write(file, Forged(**{**asdict(header), **change}))
    assert Cache(file.parent).load(file.stem) is None
    assert again(file).status == "finished"


def test_entries_of_another_kind_or_with_more_to_say_are_as_good_as_none(entry):
    file, header = entry
    for forged in (Foreign(), Longer(**asdict(header))):
        write(file, forged)
        assert again(file).status == "finished"


def test_the_error_of_an_entry_is_worked_out_again(entry):
    file, header = entry
    response = RandomizedResponse(4, 1.0)
    found = planted(file, header, response, mechanism="randomized-response")
    assert found.status == "cached"
    assert found.value == pytest.approx(response.worst_variance(ASKED.gram()))
    assert found.ratio == pytest.approx(found.value / found.lower_bound)


SLOW = pytest.param("prefix:144", 3, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("text", "each"), [("prefix:14", 2), ("marginals:2^4:2", 3), SLOW]
)
def test_a_checkpoint_may_hold_anything(text, each, tmp_path, monkeypatch):
    """Whatever is in it, the strategy is private and as good as one without it, nearly."""
    from noisewright.local.optimise import run
    from noisewright.local.optimise.optimised import Control

    monkeypatch.setattr(
        run, "Control", lambda *a, **k: Control(*a, **k, snapshot_every=0.0)
    )
    path, asked = tmp_path / "state", workload(text)
    settings = {"effort": "low", "cache": False, "checkpoint": path}
    fresh = optimise(asked, 1.0, **settings)
    header = read(path, Snapshot)
    for arrays in forged(header.arrays, each, np.random.default_rng(1)):
        write(path, replace(header, arrays=arrays))
        found = optimise(asked, 1.0, **settings)
        assert found.strategy.loss.epsilon <= found.strategy.epsilon
        assert found.strategy.epsilon == 1.0
        assert found.value <= fresh.value * 1.5


def forged(sound, each, rng):
    """States with one array of another kind, shape, sign, size or sum, or gone."""
    yield {"nothing": np.zeros(1)}
    for name, array in sorted(sound.items()):
        changed = [
            array[:-1],
            array[..., :-1],
            array[None],
            array.astype(np.int8),
            array * 0,
        ]
        if array.dtype.kind == "f":
            changed += [
                array * np.nan,
                -array,
                array * 1e300,
                1e-300 * array,
                array * 2,
            ]
        else:
            changed += [~array, array.astype(np.float64), rng.permuted(array)]
        for index in rng.permutation(len(changed))[:each]:
            yield {**sound, name: changed[index]}


@pytest.mark.parametrize("epsilon", [36.0, 39.5])
@pytest.mark.parametrize("text", ["prefix:8", "ranges:5", "marginals:2^3:2"])
def test_budgets_beyond_the_digits_of_a_number_end_in_a_strategy(text, epsilon):
    found = optimise(workload(text), epsilon, effort="low", cache=False)
    assert found.strategy.promise.epsilon == epsilon
    assert np.isfinite(found.value)
