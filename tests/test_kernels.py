"""Tests run under several kernels of linear algebra, and it is said where one cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernels

ROOT = Path(__file__).parent.parent


def _asked(core: str) -> tuple[int, str]:
    file = str(ROOT / "tests" / "kernels.py")
    done = subprocess.run(
        [sys.executable, file, core], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def _steps(target: str) -> str:
    """What a target would run."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    told = [make, "--dry-run", target]
    return subprocess.run(
        told, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


@pytest.mark.parametrize("core", kernels.NAMES)
def test_kernels_are_set_or_it_is_said_what_runs(core: str) -> None:
    code, told = _asked(core)
    runs = any(
        name in told.removeprefix(f"OPENBLAS_CORETYPE={core}")
        for name in kernels.NAMES[core]
    )
    assert runs == (code == 0)
    assert ("could not be set" in told) == (code == 1)


def test_a_core_type_that_nobody_knows_cannot_be_set() -> None:
    code, told = _asked("Nonsense")
    assert code == 1
    assert "OPENBLAS_CORETYPE=Nonsense could not be set" in told


def test_the_whole_suite_runs_under_every_kernel_and_with_one_and_two_threads() -> None:
    told = _steps("test-processors")
    for core in kernels.NAMES:
        assert core in told
    assert "for threads in 1 2" in told


def test_sensitive_files_are_there() -> None:
    told = _steps("test-kernel")
    words = [word.strip(";") for word in told.split()]
    files = [word for word in words if word.startswith("tests/") and "test_" in word]
    assert len(files) >= 5
    assert all((ROOT / file).exists() for file in files)
