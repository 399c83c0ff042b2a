"""What would be published: the wheel holds everything it needs, and the source makes the wheel."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = (
    "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])('.'))"
)


def _built(kind: str, source: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, kind],
        cwd=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return source / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that holds the wheel's files alone, made from the source distribution."""
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(ROOT / "src", folder / "checkout" / "src",
                    ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))  # fmt: skip
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "checkout" / name)
    with tarfile.open(_built("build_sdist", folder / "checkout")) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    with zipfile.ZipFile(_built("build_wheel", source)) as wheel:
        wheel.extractall(folder / "installed")
    return folder / "installed"


def _run(installed: Path, folder: Path, *command: str) -> str:
    """A command of the installed files, started elsewhere; dependencies are those of the tests."""
    start = "import sys; from noisewright.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, *command], cwd=folder, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(installed)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_plans_releases_and_reports(installed, tmp_path):
    where = [sys.executable, "-c", "import noisewright; print(noisewright.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert Path(done.stdout.strip()).is_relative_to(installed)
    assert "noisewright" in _run(installed, tmp_path, "--version")
    _run(installed, tmp_path, "plan", "prefix:8", "--rho", "0.5", "-o", "plan.nw")
    _run(installed, tmp_path, "report", "plan.nw", "-o", "plan.html")
    assert "prefix:8" in (tmp_path / "plan.html").read_text("utf-8")


def test_every_file_that_is_no_code_is_in_the_wheel(installed):
    wanted = {
        path.relative_to(ROOT / "src")
        for path in (ROOT / "src" / "noisewright").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert wanted
    missing = {path for path in wanted if not (installed / path).exists()}
    assert missing == set()
    assert (installed / "noisewright" / "py.typed").exists()


def test_the_code_is_written_for_the_oldest_python_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (oldest,) = re.findall(r">=3\.(\d+)", project["requires-python"])
    versions = [c.rsplit(".", 1)[1] for c in project["classifiers"] if ":: Python :: 3." in c]
    assert min(versions, key=int) == oldest
    for path in (ROOT / "src").rglob("*.py"):
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, int(oldest)))


def test_the_citation_and_the_changelog_are_of_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
