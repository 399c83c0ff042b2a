"""Records of spending: whenever a run ends, the record covers whatever answers are on the disk."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright import files, plan
from noisewright.cli import main
from noisewright.errors import InvalidParameter
from noisewright.planning.after.postprocess import post_process
from noisewright.planning.release import Release, metadata_path
from noisewright.privacy.promise.budget import Privacy

COUNTS = np.array([40, 0, 7, 1000])
LARGE, SMALL = (plan("identity:4", Privacy(rho=rho)) for rho in (1.0, 0.01))


class Killed(BaseException):
    """The process is gone: nothing after it happens, not even a clean-up."""


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the calls that touch the disk count, and the `step`-th of them the last."""
    calls = iter(range(10**6))

    def guarded(call: Any) -> Any:
        def act(*arguments: Any, **options: Any) -> Any:
            if next(calls) == step:
                raise Killed
            return call(*arguments, **options)

        return act

    for place, name in (
        (os, "replace"), (os, "fsync"), (Path, "replace"), (Path, "write_text"),
        (pyarrow.csv, "write_csv"), (pyarrow.parquet, "write_table"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, guarded(getattr(place, name)))
    # the dead do not tidy up
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)


def recorded(path: Path) -> list[dict[str, Any]]:
    """All entries of a record, read without the code under test."""
    latest = json.loads(metadata_path(path).read_text())
    return [*latest.pop("history", []), latest]


def answers_found(path: Path) -> list[np.ndarray]:
    """The answers in every file of the folder that holds any, temporary ones included."""
    found = []
    for file in path.parent.iterdir():
        if "meta.json" in file.name or not file.stat().st_size:
            continue
        read = (
            pyarrow.parquet.read_table
            if ".parquet" in file.name
            else pyarrow.csv.read_csv
        )
        found.append(np.asarray(read(file)["answer"]))
    return found


@pytest.mark.parametrize("name", ["answers.csv", "answers.parquet"])
@pytest.mark.parametrize("rerun", ["release", "post-processing"])
def test_the_record_covers_the_answers_wherever_a_rerun_is_killed(
    name: str, rerun: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = False
    for step in range(50):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / name
        first = LARGE.release(COUNTS)
        first.write(path)
        again = rerun == "release"
        second = SMALL.release(COUNTS) if again else post_process(first, integer=True)
        with monkeypatch.context() as patch:
            kill_at(step, patch)
            try:
                second.write(path)
                finished = True
            except Killed:
                pass
        entries = recorded(path)
        assert entries[0]["privacy"] == LARGE.privacy.to_dict(), (
            "the first spending is forgotten"
        )
        for answers in answers_found(path):
            owner = first if np.allclose(answers, first.answers) else second
            np.testing.assert_allclose(answers, owner.answers)
            assert json.loads(json.dumps(owner.metadata)) in entries
        if finished:
            break
    assert finished
    # both files were written, flushed, renamed and their folder flushed
    assert step >= 5


def test_everything_is_flushed_before_and_after_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    flush, rename = os.fsync, os.replace

    def told_flush(handle: int) -> None:
        events.append(
            "folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "file"
        )
        flush(handle)

    def told_rename(*arguments: Any) -> None:
        events.append("rename")
        rename(*arguments)

    monkeypatch.setattr(os, "fsync", told_flush)
    monkeypatch.setattr(os, "replace", told_rename)
    LARGE.release(COUNTS).write(tmp_path / "answers.csv")
    assert events == ["file", "rename", "folder"] * 2


def test_a_record_grows_by_what_is_new_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    releases = [LARGE.release(COUNTS), SMALL.release(COUNTS), SMALL.release(COUNTS)]
    for release in releases:
        release.write(path)
        release.write(path)
    assert [entry["release"] for entry in recorded(path)] == [
        release.metadata["release"] for release in releases
    ]
    assert len({release.metadata["release"] for release in releases}) == 3
    fitted = post_process(releases[-1], non_negative=True)
    fitted.write(path)
    assert len(recorded(path)) == 4
    assert recorded(path)[-1]["release"] == recorded(path)[-2]["release"]


def test_a_second_step_keeps_the_record_of_the_first() -> None:
    raw = LARGE.release(COUNTS)
    done = raw
    for steps in ({"non_negative": True}, {"integer": True}, {"suppress": 0.5}):
        done = post_process(done, **steps)
    record = done.metadata["post_processing"]
    told = [entry["steps"] for entry in (*record["history"], record)]
    assert [set(steps) for steps in told] == [
        {"non_negative"}, {"non_negative", "integer"}, {"suppress"}
    ]  # fmt: skip
    assert raw.metadata.get("post_processing") is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"format": "x"}', '{"format": "noisewright-release", "history": 1}',
     '{"format": "noisewright-release", "history": [{}]}', "[" * 5000, "\udcff"],
)  # fmt: skip
def test_what_is_no_record_is_not_written_over(content: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    bytes_ = content.encode("utf-8", "surrogateescape")
    metadata_path(path).write_bytes(bytes_)
    with pytest.raises(InvalidParameter, match="is no record of releases"):
        LARGE.release(COUNTS).write(path)
    assert metadata_path(path).read_bytes() == bytes_
    assert not path.exists()


def test_two_writers_at_once_lose_no_entry(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "answers.csv"
    releases: list[Release] = [SMALL.release(COUNTS) for _ in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda release: release.write(path), releases))
    names = {entry["release"] for entry in recorded(path)}
    assert names == {release.metadata["release"] for release in releases}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(
        "attributes:\n  - {name: age, kind: numeric, edges: [0, 18, 65, 100], outside: clip}\n"
        "  - {name: sex, kind: categorical, values: [F, M]}\n"
    )
    Path("queries.yaml").write_text("queries:\n  - cdf: age\n")
    Path("people.csv").write_text("age,sex\n" + "17,F\n" * 30)
    asked = ["--queries", "queries.yaml", "--schema", "schema.yaml", "--rho", "1"]
    assert run("plan", *asked, "-o", "p.nw").exit_code == 0
    return tmp_path


SUMS = (
    "sums",
    "people.csv",
    "--schema",
    "schema.yaml",
    "--value",
    "age",
    "--by",
    "sex",
    "--rho",
)


def test_a_second_run_adds_to_the_record(planned: Path) -> None:
    commands = [
        ("release", "p.nw", "people.csv"),
        (*SUMS, "0.1"),
        ("release", "p.nw", "people.csv"),
    ]
    for number, command in enumerate(commands):
        result = run(*command, "-o", "answers.csv", *(["--force"] if number else []))
        assert result.exit_code == 0, result.stderr
        assert ("spent on this output" in result.stderr) == (number > 0)
        assert len(recorded(Path("answers.csv"))) == number + 1
    assert [entry["privacy"]["rho"] for entry in recorded(Path("answers.csv"))] == [
        1,
        0.1,
        1,
    ]


@pytest.mark.parametrize("blocked", ["answers.csv", "answers.csv.meta.json",
                                     "answers.csv.quantiles.csv"])  # fmt: skip
def test_every_output_is_checked_before_anything_is_spent(
    blocked: str, planned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noisewright.planning.central.plan import CentralPlan

    spent: list[object] = []
    monkeypatch.setattr(CentralPlan, "release", lambda *_, **__: spent.append(1))
    Path(blocked).mkdir()
    result = run(
        "release", "p.nw", "people.csv", "-o", "answers.csv", "--quantile", "0.5"
    )
    assert result.exit_code == 2
    assert blocked in result.stderr
    assert not spent


@pytest.mark.parametrize("name", ["answers.csv.meta.json", "answers.csv.quantiles.csv"])
def test_what_is_written_beside_the_answers_is_no_input(
    name: str, planned: Path
) -> None:
    table = Path("people.csv").read_bytes()
    Path(name).write_bytes(table)
    result = run("release", "p.nw", name, "-o", "answers.csv", "--quantile", "0.5")
    assert result.exit_code == 2
    assert Path(name).read_bytes() == table


def test_private_files_are_private_from_the_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "draft.yaml"
    path.write_text("readable by all")
    path.chmod(0o644)
    with files.replacing_file(path, mode=files.PRIVATE) as temporary:
        temporary.write_text("private")
        assert temporary.stat().st_mode & 0o077 == 0
    assert path.stat().st_mode & 0o077 == 0


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_every_kind_of_answers_says_when_it_was_made_and_files_keep_it(
    tmp_path: Path,
) -> None:
    local = plan("identity:4", Privacy(epsilon=1), nw.Local())
    stream = nw.plan(nw.RunningCount(9), Privacy(rho=1)).start(
        position=tmp_path / "position"
    )
    stream.step(3)
    rows = np.zeros((5, 2))
    before = datetime.now(UTC).replace(microsecond=0)
    for number, made in enumerate(
        [
            LARGE.release(COUNTS),
            local.estimate(local.randomize([0, 1, 2])),
            nw.plan(nw.Moments(["a", "b"]), Privacy(rho=1)).release(rows),
            nw.plan(nw.Pairs(["a", "b"]), Privacy(rho=1)).release(rows),
        ]
    ):
        path = tmp_path / f"{number}.nwr"
        made.save(path)
        assert before <= _moment(made.metadata["time"]) <= datetime.now(UTC)
        assert nw.load(path).metadata["time"] == made.metadata["time"]
    started = stream.release.metadata["time"]
    stream.step(4)
    stream.save(tmp_path / "stream.nw")
    stream.release.save(tmp_path / "stream.nwr")
    # the record is the same after every step
    assert stream.release.metadata["time"] == started
    assert nw.load(tmp_path / "stream.nwr").metadata["time"] == started
    assert nw.load(tmp_path / "stream.nw").release.metadata["time"] == started


def test_reports_read_again_are_no_second_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost nothing again: the entry tells the latest time, and is one."""
    local = plan("identity:4", Privacy(epsilon=1), nw.Local())
    reports = local.randomize([0, 1, 2, 3] * 20)
    for hour in (9, 10):
        time = f"2024-05-01T{hour:02}:00:00+00:00"
        monkeypatch.setattr(
            "noisewright.planning.local.plan.release_time", lambda time=time: time
        )
        local.estimate(reports).write(tmp_path / "answers.csv")
    (entry,) = recorded(tmp_path / "answers.csv")
    assert _moment(entry["time"]).hour == 10
    local.estimate(reports[:40]).write(tmp_path / "answers.csv")
    assert len(recorded(tmp_path / "answers.csv")) == 2
