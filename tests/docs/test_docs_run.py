"""The documentation names every command and public name, and its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import noisewright
from noisewright.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/tutorial.md",
    ROOT / "docs/how-to/local.md",
    ROOT / "docs/how-to/release.md",
    ROOT / "docs/how-to/streams.md",
]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert f"`noisewright {command}" in text("docs/reference/commands.md")


@pytest.mark.parametrize("name", [n for n in noisewright.__all__ if not n.startswith("__")])
def test_every_public_name_is_documented(name: str) -> None:
    assert f"nw.{name}" in text("docs/reference/python.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(body, page.name, "exec"), names)
            ran += 1
            continue
        for line in re.findall(r"^\$ noisewright (.*)$", body, re.MULTILINE):
            result = CliRunner().invoke(main, shlex.split(line, comments=True))
            assert result.exit_code == 0, (line, result.output)
            ran += 1
    assert ran > 0


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
