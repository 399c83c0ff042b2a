"""Every room says truly what lives in it, what it may import, and where to start reading."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/noisewright"
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
PARTS = ("What lives here", "May import", "Start reading", "Notation")

LONGEST = 40
"""Lines of a room's page: it is read before the code, so it fits on one screen."""
MOST_MODULES = 12
"""Modules of a folder, as many as a reader keeps in view."""


def sections(room: str) -> dict[str, str]:
    """The parts of a room's page by their headings; what stands above them under its own name."""
    text = (SOURCE / room / "README.md").read_text("utf-8")
    above, *rest = text.split("\n## ")
    return {"": above} | dict(part.split("\n", 1) for part in rest)


def marked(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text.replace("```", ""))


def layers() -> list[set[str]]:
    """The rooms from the highest to the lowest, those beside each other together."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return [{room.strip() for room in layer.split("|")} for layer in contract["layers"]]


def below(room: str) -> set[str]:
    (height,) = [k for k, layer in enumerate(layers()) if room in layer]
    return set().union(*layers()[height + 1 :])


def missing_files(room: str, text: str) -> list[str]:
    """Files and folders named in code marks that are not in the room."""
    named = [
        name
        for name in marked(text)
        if re.fullmatch(r"[\w/]+(/|\.(py|html|css|js|yaml))", name)
    ]
    return [name for name in named if not (SOURCE / room / name).exists()]


def test_every_room_has_a_page_and_no_other_folder_is_a_room() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {
        "__pycache__"
    }
    assert set(ROOMS) == folders
    assert {path.parent.name for path in SOURCE.glob("*/README.md")} == folders


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_is_short_and_has_its_parts(room: str) -> None:
    text = (SOURCE / room / "README.md").read_text("utf-8")
    assert text.startswith(f"# `{room}`: ")
    assert len(text.splitlines()) <= LONGEST
    parts = sections(room)
    assert tuple(parts) == ("", *PARTS)
    assert "```text" in parts[""], "the one picture"


@pytest.mark.parametrize("room", ROOMS)
def test_every_file_that_a_page_names_is_there(room: str) -> None:
    assert missing_files(room, "`no_such_file.py`, `no_such_folder/`") != []
    assert missing_files(room, (SOURCE / room / "README.md").read_text("utf-8")) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_and_file_of_a_room_is_in_its_page(room: str) -> None:
    named = marked(sections(room)["What lives here"])
    folders = {f"{path.name}/" for path in (SOURCE / room).iterdir() if path.is_dir()}
    files = {path.name for path in (SOURCE / room).glob("[a-z]*.py")}
    assert (folders | files) - {"__pycache__/"} - set(named) == set()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_may_import_what_the_import_contract_lets_it(room: str) -> None:
    assert set(marked(sections(room)["May import"])) == below(room)


@pytest.mark.parametrize("room", ROOMS)
def test_reading_starts_with_three_files(room: str) -> None:
    assert len(set(marked(sections(room)["Start reading"]))) == 3


def symbols(cells: list[str]) -> set[str]:
    return {
        symbol for cell in cells for symbol in re.findall(r"[^\s,=();×|]+", cell)
    } - {"with"}


@pytest.mark.parametrize("room", ROOMS)
def test_symbols_are_those_of_the_page_on_notation(room: str) -> None:
    page = (ROOT / "docs/concepts/notation.md").read_text("utf-8")
    text = sections(room)["Notation"]
    used = symbols(re.findall(r"^- (.+?):", text, re.MULTILINE))
    assert used or text.startswith("None: ")
    assert used <= symbols(re.findall(r"^\| (.+?) \|", page, re.MULTILINE))


def test_the_picture_of_the_rooms_has_the_layers_in_their_order() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    picture = page.split("```text\n")[1].split("```")[0]
    drawn = [
        set(re.findall(r"[a-z]+", line[19:].split("  ")[0]))
        for line in picture.splitlines()
    ]
    known = set().union(*layers())
    assert [layer for layer in drawn if layer and layer <= known] == layers()


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_a_folder_holds_few_modules_and_says_what_it_is(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
