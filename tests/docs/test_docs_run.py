"""The documentation names every command and public name, and its examples run."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

import noisewright
import noisewright as nw
from noisewright.central.registry import CENTRAL
from noisewright.cli import COMMANDS, main
from noisewright.collect.campaign import Terms
from noisewright.container import Header
from noisewright.demo.people import domain as people_domain
from noisewright.local.registry import MECHANISMS
from reproductions.__main__ import main as reproductions

ROOT = Path(__file__).parents[2]
PROGRAMS = {"noisewright": main, "python -m reproductions": reproductions}
COMMAND = re.compile(rf"^\$ ({'|'.join(PROGRAMS)})(.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Each page is run alone, in an empty folder, so that a reader may begin with any of them.
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if BLOCK.search(page.read_text(encoding="utf-8"))
]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert f"`noisewright {command}" in text("docs/reference/commands.md")


@pytest.mark.parametrize(
    "name", [n for n in noisewright.__all__ if not n.startswith("__")]
)
def test_every_public_name_is_documented(name: str) -> None:
    assert f"nw.{name}" in text("docs/reference/python.md")


@pytest.mark.parametrize("name", noisewright.learn.__all__)
def test_every_name_of_learning_is_documented(name: str) -> None:
    pages = (
        "docs/reference/python.md",
        "docs/how-to/learn.md",
        "docs/concepts/learning.md",
    )
    value = getattr(noisewright.learn, name)
    assert value.__doc__
    # classes that functions return are told where these are
    if not isinstance(value, type):
        assert any(f"nw.learn.{name}" in text(page) for page in pages)


def options(command: click.Command) -> set[str]:
    """Every option of a command and of the commands below it."""
    context = click.Context(command)
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    own = {name for parameter in command.params for name in parameter.opts}
    return own.union(*(options(command.get_command(context, name)) for name in below))


def test_every_option_that_a_page_names_exists() -> None:
    known = options(main) | options(reproductions) | {"--help", "--version"}
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        named = set(
            re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8"))
        )
        assert named <= known, page.name


def described(heading: str) -> dict[str, str]:
    """Names and descriptions of the table under a heading of the page of mechanisms."""
    part = (
        text("docs/reference/mechanisms.md")
        .split(f"## {heading}\n")[1]
        .split("\n## ")[0]
    )
    return dict(re.findall(r"^\| `(.*?)` \| (.*) \|$", part, re.MULTILINE))


def test_every_central_mechanism_is_described_as_the_registry_does() -> None:
    yardstick = {True: " (yardstick)", False: ""}
    entries = {m.name: m.summary + yardstick[m.baseline] for m in CENTRAL.values()}
    assert list(described("With a curator").items()) == list(entries.items())


def test_every_local_mechanism_is_described_as_the_registry_does() -> None:
    entries = {entry.name: entry.summary for entry in MECHANISMS.values()}
    assert list(described("Without a curator").items()) == list(entries.items())


DEMO = ["demo", "--output", "demo-output"]


def run(words: list[str], program: click.Command = main) -> None:
    result = CliRunner().invoke(program, words)
    assert result.exit_code == 0, (words, result.output)


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `noisewright demo` writes: many pages begin with it."""
    folder = tmp_path_factory.mktemp("demonstration")
    with pytest.MonkeyPatch.context() as moved:
        moved.chdir(folder)
        run(DEMO)
    return folder


@pytest.mark.parametrize(
    "page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES]
)
def test_every_example_runs(
    page: Path, demonstration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    with ExitStack() as servers:
        for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind == "python":
                exec(compile(body, page.name, "exec"), names)
                ran += 1
                continue
            for program, line in COMMAND.findall(body):
                words = shlex.split(line, comments=True)
                if words[-1:] == ["&"]:
                    servers.enter_context(_background(words[:-1]))
                elif words == DEMO:
                    shutil.copytree(demonstration, tmp_path, dirs_exist_ok=True)
                else:
                    run(words, PROGRAMS[program])
                ran += 1
    assert ran > 0


@contextmanager
def _background(words: list[str]) -> Iterator[None]:
    """A command that goes on while the page does: it is up once its port answers."""
    port = int(words[words.index("--port") + 1])
    process = subprocess.Popen([sys.executable, "-m", "noisewright", *words])
    try:
        for _ in range(600):
            assert process.poll() is None, words
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1),
            ):
                break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SETTINGS = [
    (f"{page.relative_to(ROOT)}-{k}", block)
    for page in sorted(ROOT.glob("docs/**/*.md"))
    for k, block in enumerate(YAML.findall(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(
    "block", [b for _, b in SETTINGS], ids=[name for name, _ in SETTINGS]
)
def test_every_file_that_a_page_shows_is_read(block: str) -> None:
    """A schema, questions over the people of the demonstration, or the terms of a campaign."""
    content = yaml.safe_load(block)
    if "attributes" in content:
        assert nw.Domain.from_yaml(block).attributes
    elif "queries" in content:
        assert nw.Workload.from_spec(block, people_domain()).queries
    else:
        assert Terms.read({"name": "shown", **content}).title


def _anchors(page: Path) -> set[str]:
    """The names of a page's headings, as the site and GitHub write them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def test_links_between_pages_lead_somewhere() -> None:
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
    ]:
        for target, part in re.findall(
            r"\]\(([^)#]*)#?([^)]*)\)", page.read_text("utf-8")
        ):
            if "://" in target:
                continue
            place = page.parent / target if target else page
            assert place.exists(), (page.name, target)
            assert not part or part in _anchors(place), (page.name, target, part)


def _kinds(header: type[Header]) -> Iterator[str]:
    if not header.__module__.startswith("noisewright"):  # a toy of another test
        return
    if not header.__subclasses__():
        yield str(header.__struct_config__.tag)
    for kind in header.__subclasses__():
        yield from _kinds(kind)


def test_every_kind_of_file_is_documented() -> None:
    for rooms in ("planning", "learn", "local"):
        for path in (ROOT / "src/noisewright" / rooms).rglob("*.py"):
            if "Header" in path.read_text("utf-8") or "Kept" in path.read_text("utf-8"):
                parts = path.relative_to(ROOT / "src").with_suffix("").parts
                importlib.import_module(".".join(parts))
    kinds = set(_kinds(Header))
    assert {"central-plan", "aggregate", "selection"} <= kinds
    page = text("docs/reference/files.md")
    assert {kind for kind in kinds if f"`{kind}`" not in page} == set()
