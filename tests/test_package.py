"""The package's front: every public name resolves, lazily, and checkers see the same names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import noisewright


def test_version_is_stated() -> None:
    assert noisewright.__version__.count(".") == 2


@pytest.mark.parametrize("name", noisewright.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(noisewright, name) is not None
    assert name in dir(noisewright)


def test_checkers_and_the_interpreter_see_the_same_names() -> None:
    tree = ast.parse(Path(noisewright.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in guarded.body for alias in node.names}  # type: ignore[attr-defined]
    named = {*noisewright._HOMES, *noisewright._ROOMS}
    assert seen == named == set(noisewright.__all__) - {"__version__"}


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        noisewright.nonsense


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, noisewright; print('numpy' in sys.modules)"
    source = str(Path(noisewright.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": source},
    )
    assert done.stdout.strip() == "False"
