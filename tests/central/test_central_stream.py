"""Continual release: exact without noise, calibrated to what a neighbour can move."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.running import Stream
from noisewright.central.stream import sensitivity
from noisewright.errors import InvalidParameter, NoisewrightError, OutOfReach
from noisewright.norm.exact.prefix import Kind
from noisewright.planning.streams import StreamPlan, plan_stream
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy

KINDS: list[Kind] = ["column-normalised", "square-root", "banded"]
PRIVACY = Privacy(epsilon=1, delta=1e-9)


class Seeded(ByteSource):
    """Reproducible bytes for simulations."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def bytes(self, count: int) -> bytes:
        return self._rng.bytes(count)


def measured(plan: StreamPlan, increments: np.ndarray) -> np.ndarray:
    """The measured vector without its noise, on the grid."""
    stream = Stream(plan.mechanism, None)
    stream._refill()
    lengths = itertools.chain(stream._lengths)
    scale = 1 << (plan.mechanism.grid_bits + 40)
    exact = [
        int(x) * int(scale / length)
        for x, length in zip(increments, lengths, strict=False)
    ]
    return np.array([stream._filter.measure(x) for x in exact], dtype=object)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_answers_are_the_running_counts(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_stream(500, PRIVACY, kind, band=16 if kind == "banded" else None)
    monkeypatch.setattr(
        NoiseLaw, "sample", lambda _, size, source: np.zeros(size, np.int64)
    )
    stream = plan.start()
    increments = np.random.default_rng(1).integers(0, 1000, 500)
    answers = [stream.step(int(x)) for x in increments]
    np.testing.assert_allclose(answers, np.cumsum(increments), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_neighbour_moves_the_measurements_by_no_more_than_planned(
    kind: Kind, neighbours: str
) -> None:
    plan = plan_stream(
        300,
        Privacy(rho=0.5, neighbours=neighbours),
        kind,
        band=16 if kind == "banded" else None,
    )
    most = sensitivity(
        plan.mechanism.factorization, plan.mechanism.grid_bits, neighbours
    )
    assert (
        most
        <= (1 + 1e-4)
        * (1.4142136 if neighbours == "replace-one" else 1)
        * 2**plan.mechanism.grid_bits
    )
    rng = np.random.default_rng(2)
    base = rng.integers(0, 20, 300)
    before = measured(plan, base)
    for position in (0, 1, 150, 298, 299):
        changed = base.copy()
        changed[position] += 1
        if neighbours == "replace-one":
            other = int(rng.integers(0, 300))
            changed[other] -= 1
        difference = (measured(plan, changed) - before).astype(float)
        assert np.linalg.norm(difference) <= most


def test_errors_are_those_forecast() -> None:
    """500 streams of 40 steps; each step's variance in the 1e-6 band of a chi-square law."""
    plan = plan_stream(40, Privacy(rho=0.5))
    increments = np.arange(40)
    answers = np.array(
        [[stream.step(int(x)) for x in increments]
         for stream in (Stream(plan.mechanism, Seeded(seed)) for seed in range(500))]
    )  # fmt: skip
    deviations = (answers - np.cumsum(increments)) / plan.mechanism.errors
    # False alarms: 40 two-sided tests at 1e-6 each, 4e-5 in all.
    ratio = (deviations**2).mean(axis=0)
    spread = 4.9 * math.sqrt(2 / 500)
    assert np.abs(ratio - 1).max() < spread
    assert np.abs(deviations.mean(axis=0)).max() < 4.9 / math.sqrt(500)


def test_the_noise_is_that_of_the_gaussian_mechanism() -> None:
    plan = plan_stream(1000, Privacy(rho=0.5))
    assert plan.mechanism.noise == pytest.approx(1.0, rel=1e-4)
    loose = plan_stream(1000, Privacy(rho=0.5, neighbours="replace-one"))
    assert loose.mechanism.noise == pytest.approx(math.sqrt(2), rel=1e-4)


def test_small_budgets_coarsen_the_grid_instead_of_failing() -> None:
    plan = plan_stream(1000, Privacy(rho=1e-12))
    assert plan.mechanism.noise == pytest.approx(math.sqrt(0.5e12), rel=1e-2)


def test_a_stream_is_not_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each copy would answer the next step with fresh noise, and their mean tells the count."""
    plan = plan_stream(64, Privacy(rho=0.1))
    for stream in (plan.start(), plan.start(position=tmp_path / "position")):
        stream.step(3)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(NoisewrightError, match="position"):
                copied(stream)
    stream = plan.start()
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        with pytest.raises(NoisewrightError, match="process"):
            stream.step(5)
    stream.step(5)
    assert stream.steps == 1


@pytest.mark.system_noise
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_stream_does_not_go_on() -> None:
    stream = plan_stream(64, Privacy(rho=0.1)).start()
    stream.step(3)
    child = os.fork()
    if child == 0:
        try:
            stream.step(5)
        except NoisewrightError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.system_noise
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("privacy", [Privacy(rho=0.001), Privacy(epsilon=0.01)])
def test_a_fork_that_has_the_position_draws_noise_of_its_own(
    privacy: Privacy, tmp_path: Path
) -> None:
    """No draw that the parent holds is in the child: of thousands, hundreds of steps wide.

    Draws that happen to be alike, place by place, are fewer than one in ten but once in 10^20 runs.
    """
    stream = plan_stream(600, privacy).start(position=tmp_path / "position")
    stream.step(3)
    held = unused_noise(stream)
    assert len(held) > 100
    child = os.fork()
    if child == 0:
        code = 1
        try:
            stream.step(5)
            own = unused_noise(stream)
            # What the parent would use next is the child's next, if anything was kept.
            kept = sum(a == b for a, b in zip(held[1:], own, strict=False))
            code = 0 if own and kept < len(own) / 10 else 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def unused_noise(stream: Any) -> list[int]:
    """What a stream has drawn and not used yet, of its lowest level under carry noise."""
    inner = stream.stream
    return list(inner._noise if hasattr(inner, "_noise") else inner._draws[0])


def test_a_position_is_new_and_stays(tmp_path: Path) -> None:
    plan = plan_stream(8, PRIVACY)
    place = tmp_path / "position"
    stream = plan.start(position=place)
    with pytest.raises(InvalidParameter, match="position="):
        plan.start(position=place)
    with pytest.raises(InvalidParameter, match="position="):
        plan.start(position=tmp_path / "missing" / "position")
    shutil.rmtree(place)
    # another stream in the same place does not speak for the first
    plan.start(position=place)
    with pytest.raises(NoisewrightError, match="taken before"):
        stream.step(1)


def test_an_interrupted_step_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = plan_stream(8, PRIVACY).start()
    stream.step(1)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(stream.stream._filter, "estimate", None)
        with pytest.raises(TypeError):
            stream.step(1)
    with pytest.raises(NoisewrightError, match="interrupted"):
        stream.step(1)


def test_refusals() -> None:
    stream = nw.plan(nw.RunningCount(2), PRIVACY).start()
    for increment in (0.5, float("nan"), float("inf"), "secret", True, None):
        with pytest.raises(InvalidParameter, match="increment='\\?'"):
            stream.step(increment)  # type: ignore[arg-type]
    stream.step(1)
    stream.step(1)
    assert stream.steps == 2
    with pytest.raises(OutOfReach, match="2 steps"):
        stream.step(1)
    with pytest.raises(InvalidParameter, match="kind="):
        plan_stream(10, Privacy(epsilon=1), "square-root")
