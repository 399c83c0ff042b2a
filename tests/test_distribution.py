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
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
BUILD = (
    "import sys; from setuptools import build_meta; "
    "print(getattr(build_meta, sys.argv[1])('.'))"
)


def _built(kind: str, source: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, kind],
        cwd=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return source / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, made from the source distribution alone."""
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(ROOT / "src", folder / "checkout" / "src",
                    ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))  # fmt: skip
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "checkout" / name)
    with tarfile.open(_built("build_sdist", folder / "checkout")) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return _built("build_wheel", source)


def _needed(
    requirements: Iterable[str], extra: str = ""
) -> Iterator[metadata.Distribution]:
    """The distributions that are asked for, with those that these ask for, whatever the extras."""
    for text in requirements:
        asked = Requirement(text)
        if asked.marker is None or asked.marker.evaluate({"extra": extra}):
            found = metadata.distribution(asked.name)
            yield found
            yield from _needed(found.requires or ())


def _linked(distributions: Iterable[metadata.Distribution], folder: Path) -> None:
    """The files of some distributions, and of no other, in one folder."""
    folder.mkdir()
    for distribution in distributions:
        tops = {
            file.parts[0] for file in distribution.files or () if ".." not in file.parts
        }
        for top in tops - {"__pycache__"}:
            place = folder / top
            if not place.exists():
                place.symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """An environment that holds the wheel and the dependencies that it declares, nothing else."""
    place = tmp_path_factory.mktemp("environment") / "clean"
    venv.create(place, symlinks=True)
    (site,) = (place / "lib").glob("python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _linked(_needed(project["dependencies"]), place / "dependencies")
    (site / "dependencies.pth").write_text(f"{place / 'dependencies'}\n", "utf-8")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install",
         "--quiet", "--no-deps", "--no-index", str(wheel)],
        check=True,
    )  # fmt: skip
    return place


def _run(installed: Path, folder: Path, *command: str) -> str:
    """A command of the environment, started elsewhere."""
    hidden = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run([str(installed / "bin" / command[0]), *command[1:]], cwd=folder,
                          capture_output=True, text=True, check=False, env=hidden)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_plans_releases_and_reports_with_what_it_declares(
    installed, tmp_path
):
    absent = ["pytest", "pandas", "polars", "cvxpy", "starlette"]
    asked = "import noisewright, sys; from importlib.util import find_spec; " \
            "print(noisewright.__file__, *(find_spec(name) for name in sys.argv[1:]))"  # fmt: skip
    place, *others = _run(installed, tmp_path, "python", "-c", asked, *absent).split()
    assert Path(place).resolve().is_relative_to(installed.resolve())
    assert others == ["None"] * len(absent)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    assert version in _run(installed, tmp_path, "noisewright", "--version")
    _run(
        installed,
        tmp_path,
        "noisewright",
        "plan",
        "prefix:8",
        "--rho",
        "0.5",
        "-o",
        "plan.nw",
    )
    np.save(tmp_path / "counts.npy", np.arange(8))
    _run(installed, tmp_path, "noisewright", "release", "plan.nw", "counts.npy", "-o", "out.nwr",
         "--report", "out.html")  # fmt: skip
    assert "prefix:8" in (tmp_path / "out.html").read_text("utf-8")


def test_every_file_that_is_no_code_is_in_the_wheel(wheel):
    # The rooms' pages are for those who read the source; nothing that runs needs them.
    wanted = {
        path.relative_to(ROOT / "src")
        for path in (ROOT / "src" / "noisewright").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".md")
    }
    assert wanted
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name) for name in archive.namelist()}
    assert wanted - held == set()
    assert Path("noisewright/py.typed") in held
    packages = {name.parts[0] for name in held if name.suffix == ".py"}
    assert packages == {"noisewright"}, (
        "benchmarks and reproductions stay in the checkout"
    )


def test_the_code_is_written_for_the_oldest_python_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (oldest,) = re.findall(r">=3\.(\d+)", project["requires-python"])
    versions = [
        c.rsplit(".", 1)[1] for c in project["classifiers"] if ":: Python :: 3." in c
    ]
    assert min(versions, key=int) == oldest
    for path in [
        p
        for room in ("src", "tests", "benchmarks", "reproductions")
        for p in (ROOT / room).rglob("*.py")
    ]:
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, int(oldest)))


def test_the_citation_and_the_changelog_are_of_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
