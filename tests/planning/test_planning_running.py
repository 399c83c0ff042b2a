"""Streams that are kept: they go on exactly, never twice, and only their answers are shown."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import noisewright as nw
from noisewright.central.carry import stream as carry_stream
from noisewright.errors import FileFormatError, NoisewrightError, OutOfReach
from noisewright.planning.streams import RunningStream, StreamRelease
from noisewright.privacy.noise.law import NoiseLaw
from oracles.plan_parts import read_parts, write_parts

RHO, PURE = nw.Privacy(rho=0.1), nw.Privacy(epsilon=1)
PLANS: dict[str, Any] = {
    "column-normalised": lambda: nw.plan(nw.RunningCount(60), RHO),
    "square-root": lambda: nw.plan(nw.RunningCount(60), RHO, nw.Stream("square-root")),
    "banded": lambda: nw.plan(nw.RunningCount(60), RHO, nw.Stream("banded", band=7)),
    "band of one": lambda: nw.plan(
        nw.RunningCount(60), RHO, nw.Stream("banded", band=1)
    ),
    "carry": lambda: nw.plan(nw.RunningCount(60), PURE),
    "carry, two levels": lambda: nw.plan(nw.RunningCount(5000), PURE),
}
COUNTS = [int(x) for x in np.random.default_rng(3).integers(0, 50, 60)]


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Any:
    return PLANS[request.param]()


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is not zero and the same at every draw, in place of the system's."""
    monkeypatch.setattr(
        NoiseLaw, "sample", lambda _, size, source: np.full(size, 12345)
    )
    cores = lambda scale, cores, source: np.full(len(cores), 7)  # noqa: E731
    monkeypatch.setattr(carry_stream, "flat_core", cores)


def kept(stream: RunningStream, path: Path) -> RunningStream:
    stream.save(path)
    again = nw.load(path)
    assert isinstance(again, RunningStream)
    return again


@pytest.mark.usefixtures("same_noise")
def test_a_stream_goes_on_exactly_as_if_it_had_never_stopped(
    plan: Any, tmp_path: Path
) -> None:
    through = plan.start()
    expected = [through.step(count) for count in COUNTS]
    stream = plan.start(position=tmp_path / "position")
    for number, count in enumerate(COUNTS):
        if number in (0, 1, 2, 7, 8, 30, 59):  # before the band is full, and after
            stream = kept(stream, tmp_path / "s.stream")
        stream.step(count)
    np.testing.assert_array_equal(stream.answers, expected)
    np.testing.assert_array_equal(kept(stream, tmp_path / "s.stream").answers, expected)


def test_no_step_is_answered_twice(plan: Any, tmp_path: Path) -> None:
    file = tmp_path / "s.stream"
    stream = plan.start(position=tmp_path / "position")
    stream.step(3)
    stream.save(file)
    copies = [nw.load(file), nw.load(file)]
    copies[0].step(5)
    for late in (stream, copies[1]):
        with pytest.raises(NoisewrightError, match="taken before"):
            late.step(5)
        assert late.steps == 1
    with pytest.raises(
        NoisewrightError, match="not at step 1: this state is not the latest"
    ):
        nw.load(file)
    (tmp_path / "position").rename(tmp_path / "elsewhere")
    with pytest.raises(NoisewrightError, match="position is gone"):
        nw.load(file)


def test_copies_never_share_noise_and_the_file_holds_none(tmp_path: Path) -> None:
    """Each of 64 pairs of draws is equal with a probability below 1e-6: five, less than 1e-20."""
    stream = nw.plan(nw.RunningCount(64), RHO).start(position=tmp_path / "position")
    stream.step(3)
    unused = set(stream.stream._noise)
    other = kept(stream, tmp_path / "s.stream")
    assert not other.stream._noise
    other.step(5)
    assert len(unused.intersection(other.stream._noise)) < 5
    pure = nw.plan(nw.RunningCount(64), PURE).start(position=tmp_path / "pure")
    pure.step(3)
    assert not any(kept(pure, tmp_path / "p.stream").stream._draws)


def test_what_is_kept_of_a_stream_is_secret(tmp_path: Path) -> None:
    file = tmp_path / "s.stream"
    stream = nw.plan(nw.RunningCount(8), RHO).start(position=tmp_path / "position")
    stream.save(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_parts(file)[0]["kind"] == "secret-running-stream"
    with pytest.raises(NoisewrightError, match="without a position"):
        nw.plan(nw.RunningCount(8), RHO).start().save(file)


def test_an_interrupted_step_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = nw.plan(nw.RunningCount(8), RHO).start(position=tmp_path / "position")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(stream.stream._filter, "estimate", None)
        with pytest.raises(TypeError):
            stream.step(1)
    with pytest.raises(NoisewrightError, match="interrupted"):
        stream.save(tmp_path / "s.stream")


def changed(header: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {**header, first: changed(header[first], rest, value) if rest else value}


FORGERIES: dict[str, list[tuple[str, Any]]] = {
    "column-normalised": [
        ("answers.plan.privacy.rho", 50.0),  # little noise for the people still to come
        ("answers.plan.steps", 61),
        ("answers.plan.factorization", "square-root"),
        ("name", "0" * 48),
        ("name", "../" + "0" * 45),
        ("position", ""),
        ("state.sums", ["0"]),
        ("state.sums", ["x"]),
        ("state.estimates", [1.0]),
        ("state", {"type": "carry", "open": ["0"], "carried": ["0"], "sums": ["0"]}),
        ("more", 1),
    ],
    "banded": [
        ("state.sums", []),
        ("state.estimates", [1.0] * 60),
        ("answers.plan.band", 8),
    ],
    "carry": [
        ("answers.plan.privacy.epsilon", 9.0),
        ("state.carried", ["ffffff"]),
        ("state.open", ["1"]),
        ("state.sums", ["1"]),
        ("state.sums", []),
    ],
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_states_are_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "s.stream"
    stream = PLANS[name]().start(position=tmp_path / "position")
    for count in COUNTS[:10]:
        stream.step(count)
    stream.save(file)
    header, arrays = read_parts(file)
    for path, value in FORGERIES[name]:
        write_parts(file, changed(header, path, value), arrays)
        with pytest.raises(NoisewrightError):
            nw.load(file)
    name = str(header["answers"]["answers"])
    good = arrays[name]
    for answers in (
        good[:-1],
        good * np.nan,
        good.astype(int),
        np.zeros(99),
        good[None],
        None,
    ):
        forged = {} if answers is None else {name: answers}
        write_parts(file, header, forged)
        with pytest.raises(NoisewrightError):
            nw.load(file)
    write_parts(file, header, arrays)
    nw.load(file).step(1)


def test_answers_are_those_given_with_the_errors_forecast(
    plan: Any, tmp_path: Path
) -> None:
    stream = plan.start()
    given = [stream.step(count) for count in COUNTS[:20]]
    release = stream.release
    np.testing.assert_array_equal(release.answers, given)
    frame, forecast = release.to_pandas(), plan.forecast()
    assert list(frame["step"]) == list(range(1, 21))
    np.testing.assert_array_equal(frame["std_error"], plan.mechanism.errors[:20])
    np.testing.assert_allclose(
        frame["upper"] - frame["answer"], forecast.halfwidth[:20]
    )
    np.testing.assert_allclose(
        frame["answer"] - frame["lower_all"], forecast.simultaneous_halfwidth[:20]
    )
    release.save(tmp_path / "r.nwr")
    again = nw.load(tmp_path / "r.nwr")
    assert isinstance(again, StreamRelease)
    np.testing.assert_array_equal(again.answers, given)
    assert again.metadata == release.metadata
    assert release.statement()["promise"] == plan.privacy.text()
    assert again.to_arrow().equals(release.to_arrow())


def test_writing_again_after_more_steps_is_one_spending(tmp_path: Path) -> None:
    stream = nw.plan(nw.RunningCount(8), RHO).start()
    for name in ("a.csv", "a.parquet"):
        for _ in range(2):
            stream.step(1)
            record = stream.release.write(tmp_path / name)
        assert "history" not in record.read_text(encoding="utf-8")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 4
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 3


def test_answers_of_a_stream_that_no_plan_gives_are_refused(tmp_path: Path) -> None:
    stream = nw.plan(nw.RunningCount(2), RHO).start()
    stream.step(1)
    file = tmp_path / "r.nwr"
    stream.release.save(file)
    header, _ = read_parts(file)
    for answers in (np.zeros(3), np.full(1, np.inf), np.zeros(1, dtype=np.float32)):
        write_parts(file, header, {str(header["answers"]): answers})
        with pytest.raises(FileFormatError):
            nw.load(file)


def test_a_ledger_names_the_spending_of_a_stream(tmp_path: Path) -> None:
    ledger = nw.Ledger(tmp_path / "ledger")
    ledger.create("people", nw.Privacy(rho=1))
    stream = nw.plan(nw.RunningCount(8), RHO).start(
        tmp_path / "p", ledger=ledger, dataset="people"
    )
    note = kept(stream, tmp_path / "s.stream").release.metadata["ledger"]
    assert note["recorded"]
    assert note["dataset"] == "people"


def test_the_page_shows_answers_alone(plan: Any, tmp_path: Path) -> None:
    stream, page = plan.start(), tmp_path / "r.html"
    with pytest.raises(OutOfReach, match="nothing to draw"):
        nw.report(stream, page)
    for _ in range(2):
        stream.step(3)
        nw.report(stream, page)
        text = page.read_text(encoding="utf-8")
        assert "<svg" in text
        assert f"{stream.steps} of " in text
    nw.report(plan, page)  # of the plan itself: errors before any step
    assert "A running count of people, one answer at each of" in page.read_text(
        encoding="utf-8"
    )


def test_a_band_without_a_kind_is_that_of_a_banded_stream() -> None:
    """However often people count: it changes what is planned, or is refused."""
    for asked in (nw.RunningCount(60), nw.RunningCount(60, 2, 30)):
        plans = [
            nw.plan(asked, RHO, nw.Stream(kind, band=7)) for kind in (None, "banded")
        ]
        assert plans[0].summary() == plans[1].summary()
        assert plans[0].mechanism.memory == 7
