"""Work is counted, never timed: the same question makes the same plan file, however busy."""

from __future__ import annotations

import ast
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright.cli import main
from noisewright.local import time_limit
from noisewright.local.optimise.dense.growth import Growth, grow
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.search import Effort, Question, search
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.proof_race import ProofRace
from noisewright.local.optimise.run import optimise
from noisewright.local.work import (
    SECOND,
    Work,
    eigenvalues,
    eigenvectors,
    product,
    solve,
)
from noisewright.solution import Status
from noisewright.workload import workload

CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
ROOMS = ("central", "domain", "estimate", "learn", "local", "privacy", "workload")
"""Where what is found must not depend on a clock."""


def test_no_clock_is_read_but_by_the_one_time_limit() -> None:
    source = Path(nw.__file__).parent
    files = [file for room in ROOMS for file in (source / room).rglob("*.py")]
    files += [source / "planning" / "local" / name for name in ("make.py", "plan.py")]
    readers = {str(file.relative_to(source)) for file in files if _knows_clocks(file)}
    assert readers == {"local/time_limit.py"}


def _knows_clocks(file: Path) -> bool:
    """Whether a module imports what tells the time."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return bool({"time", "timeit", "resource"} & set(names))


def _written(file: Path, text: str, epsilon: float, **options: object) -> bytes:
    """The file of a plan that no earlier one helps."""
    settings: Any = {"effort": "normal", "cache": False, **options}
    plan = nw.plan(text, nw.Privacy(epsilon), nw.Local(**settings))
    plan.save(file)
    return file.read_bytes()


@pytest.mark.parametrize("pace", [0.1, 10.0, 1e6])
@pytest.mark.parametrize("text", ["prefix:12", "random:6x10:0"])
def test_a_machine_of_another_pace_makes_the_same_plan_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, pace: float
) -> None:
    plain = _written(tmp_path / "plain.nw", text, 2.0)
    with monkeypatch.context() as other:
        for name in CLOCKS:
            clock = getattr(time, name)
            other.setattr(time, name, lambda clock=clock: pace * clock())
        assert _written(tmp_path / "other.nw", text, 2.0) == plain


def test_a_search_that_its_work_ends_is_the_same_at_every_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gram, even = workload("prefix:80").gram().dense(), np.full(80, 1 / 80)
    effort = Effort(growth=Growth(work=0.1 * SECOND))
    asked = Question(gram, 2.0, even, worst_case=True)

    def found() -> tuple[bytes, int]:
        control = Control()
        design, prior = search(asked, effort, np.random.default_rng(0), control)
        return design.chances().tobytes() + prior.tobytes(), control.iterations

    plain = found()
    # every look at a clock finds it a quarter of an hour later
    ticks = count(step=1000)
    for name in CLOCKS:
        monkeypatch.setattr(time, name, lambda: float(next(ticks)))
    assert found() == plain


# --- budgets --------------------------------------------------------------------------------------


def test_what_is_done_of_a_part_is_done_of_the_whole() -> None:
    whole = Work(10.0)
    first, second = whole.part(4.0), whole.part(8.0)
    first.add(4.0)
    assert (first.over, whole.over, second.left) == (True, False, 6.0)
    second.add(6.0)
    assert (whole.done, whole.over, second.over) == (10.0, True, True)
    assert Work().left == float("inf")


def test_estimates_grow_as_the_products_do() -> None:
    assert product(2, 3, 4) == 24
    for size in (10, 100, 1000):
        assert eigenvalues(size) < eigenvectors(size)
        assert product(size, size, size) < eigenvectors(size) < eigenvectors(2 * size)
        assert solve(size, 1) < solve(size, size)


def test_designs_grow_for_as_long_as_there_is_work() -> None:
    gram, rng = workload("prefix:80").gram().dense(), np.random.default_rng(0)
    objective = Objective(gram, np.full(80, 1 / 80))
    asked = Question(gram, 2.0, objective.prior, worst_case=True)
    start = search(asked, Effort(growth=Growth(work=0.0)), rng, Control())[0]
    rounds = []
    for operations in (0.0, 0.2 * SECOND, 0.6 * SECOND):
        control = Control()
        effort = Growth(work=operations)
        grow(
            start, objective, effort, np.random.default_rng(0), control, worst_case=True
        )
        rounds.append(control.iterations)
        assert control.work.done >= operations
    assert rounds[0] < rounds[1] < rounds[2]


@pytest.mark.parametrize("text", ["prefix:10", "random:5x12:1", "marginals:2^4:2"])
def test_searches_for_proofs_count_what_they_do(text: str) -> None:
    queries, work, before = workload(text), Work(), 0.0
    strategy = optimise(queries, 2.0, effort="low", cache=False).strategy
    race = ProofRace.of(queries.gram(), strategy, work)  # type: ignore[arg-type]
    for _, _ in zip(range(3), race.proofs(), strict=False):
        assert work.done > before
        before = work.done


# --- the time limit that somebody asks for --------------------------------------------------------


def test_a_plan_cut_short_says_so(tmp_path: Path) -> None:
    privacy = nw.Privacy(2.0)
    plan = nw.plan(
        "prefix:16", privacy, nw.Local(time_limit=1e-9, people=1000, cache=False)
    )
    assert plan.cut_short
    assert plan.summary()["cut_short"]
    assert plan.forecast().summary()["cut_short"]
    assert "cut short" in repr(plan.forecast())
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    assert again.cut_short
    assert again.forecast(1000).cut_short


def test_a_search_for_another_norm_says_so_too() -> None:
    steering: Any = {"objective": "average", "norm": 4.0, "cache": False}
    cut = nw.plan("prefix:16", nw.Privacy(2.0), nw.Local(time_limit=1e-9, **steering))
    assert cut.cut_short
    assert not nw.plan("prefix:16", nw.Privacy(2.0), nw.Local(**steering)).cut_short


def test_a_limit_that_cuts_nothing_changes_nothing(tmp_path: Path) -> None:
    plain = _written(tmp_path / "plain.nw", "prefix:12", 2.0)
    assert _written(tmp_path / "patient.nw", "prefix:12", 2.0, time_limit=1e5) == plain
    plan = nw.load(tmp_path / "plain.nw")
    assert not plan.cut_short
    assert "cut_short" not in plan.forecast(1000).summary()


def test_what_a_limit_cut_short_is_not_kept_for_others(tmp_path: Path) -> None:
    plain = _written(tmp_path / "plain.nw", "prefix:12", 2.0)
    for limit in (1e-9, 0.05, None):
        again = _written(
            tmp_path / "again.nw",
            "prefix:12",
            2.0,
            cache=tmp_path / "kept",
            time_limit=limit,
        )
    assert again == plain


@pytest.mark.parametrize("text", ["prefix:16", "prefix:320", "marginals:2^4:2"])
def test_a_search_with_no_time_ends_with_what_it_has(text: str) -> None:
    found = optimise(workload(text), 2.0, time_limit=1e-9, cache=False)
    assert found.status == Status.TIME_LIMIT
    assert found.value >= found.lower_bound > 0


def test_an_interruption_cuts_short_as_a_limit_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_limit, "interrupted", lambda: True)
    plan = nw.plan("prefix:12", nw.Privacy(2.0), nw.Local(cache=False))
    assert plan.cut_short


def test_the_terminal_and_the_page_say_what_was_cut_short(tmp_path: Path) -> None:
    file = str(tmp_path / "p.nw")
    asked = ["plan", "prefix:16", "--model", "local", "--epsilon", "2", "-o", file]
    shown = CliRunner().invoke(main, [*asked, "--time-limit", "1e-9"]).output
    assert "cut short" in shown
    page = tmp_path / "p.html"
    nw.report(nw.load(file), page)
    assert "cut short" in page.read_text("utf-8")
    assert "cut short" not in CliRunner().invoke(main, asked).output
