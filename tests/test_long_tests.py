"""Tests are marked by what they need, so that `make quick` can leave them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from long_tests import LONG, Measure, listed

ROOT = Path(__file__).parent.parent

STALE = 0.05
"""Share of the list that may be of tests that were renamed since it was measured."""


def test_tests_that_take_long_are_there() -> None:
    text = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")}
    stale = [
        name
        for name in listed()
        if f"def {name.partition('::')[2]}("
        not in text.get(ROOT / name.partition("::")[0], "")
    ]
    assert len(stale) <= STALE * len(listed()), stale


def test_whoever_takes_the_browser_is_marked(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        takes = "chromium" in getattr(item, "fixturenames", ())
        assert takes == (item.get_closest_marker("browser") is not None)


def test_what_takes_long_is_found_and_what_was_not_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.txt"
    file.write_text("tests/a.py::test_a\ntests/a.py::test_b\n", "utf-8")
    monkeypatch.setattr("long_tests.LISTED", file)
    measure = Measure()
    measure.seconds["tests/a.py::test_b"] = [0.0]
    measure.seconds["tests/a.py::test_c"] = [0.0, 4 * LONG]
    measure.pytest_sessionfinish()
    assert listed() == {"tests/a.py::test_a", "tests/a.py::test_c"}
