"""The documentation names every command and public name, and its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import noisewright
from noisewright.central.registry import CENTRAL
from noisewright.cli import COMMANDS, main
from noisewright.local.registry import MECHANISMS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/tutorial.md",
    ROOT / "docs/how-to/before.md",
    ROOT / "docs/how-to/keep.md",
    ROOT / "docs/how-to/ledger.md",
    ROOT / "docs/how-to/collect.md",
    ROOT / "docs/how-to/learn.md",
    ROOT / "docs/how-to/local.md",
    ROOT / "docs/how-to/notebook.md",
    ROOT / "docs/how-to/matrices.md",
    ROOT / "docs/how-to/release.md",
    ROOT / "docs/how-to/streams.md",
    ROOT / "docs/how-to/values.md",
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


@pytest.mark.parametrize("name", noisewright.learn.__all__)
def test_every_name_of_learning_is_documented(name: str) -> None:
    pages = "docs/reference/python.md", "docs/how-to/learn.md", "docs/concepts/learning.md"
    value = getattr(noisewright.learn, name)
    assert value.__doc__
    if not isinstance(value, type):  # classes that functions return are told where these are
        assert any(f"nw.learn.{name}" in text(page) for page in pages)


def options(command: click.Command) -> set[str]:
    """Every option of a command and of the commands below it."""
    context = click.Context(command)
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    own = {name for parameter in command.params for name in parameter.opts}
    return own.union(*(options(command.get_command(context, name)) for name in below))


def test_every_option_that_a_page_names_exists() -> None:
    known = options(main) | {"--help", "--version"}
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
        assert named <= known, page.name


def described(heading: str) -> dict[str, str]:
    """Names and descriptions of the table under a heading of the page of mechanisms."""
    part = text("docs/reference/mechanisms.md").split(f"## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(.*?)` \| (.*) \|$", part, re.MULTILINE))


def test_every_central_mechanism_is_described_as_the_registry_does() -> None:
    yardstick = {True: " (yardstick)", False: ""}
    entries = {m.name: m.summary + yardstick[m.baseline] for m in CENTRAL.values()}
    assert list(described("With a curator").items()) == list(entries.items())


def test_every_local_mechanism_is_described_as_the_registry_does() -> None:
    entries = {entry.name: entry.summary for entry in MECHANISMS.values()}
    assert list(described("Without a curator").items()) == list(entries.items())


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
