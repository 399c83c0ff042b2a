"""Sentences claim what is proved: no slogan known to be false, and every paper cited is listed."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest

import noisewright as nw
from noisewright.solution import BoundClass

ROOT = Path(__file__).parents[2]
BIBLIOGRAPHY = ROOT / "docs/reference/bibliography.md"
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
)
SOURCES = sorted(
    [
        *PAGES,
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("src/**/*.md"),
        *ROOT.glob("src/**/*.html"),
        *ROOT.glob("benchmarks/*.py"),
        *ROOT.glob("tests/oracles/*.py"),
        ROOT / "CITATION.cff",
        ROOT / "pyproject.toml",
    ]
)

# Each was printed or written once, and is false: a bound limits a class of methods, and some plans
# have none. Words that leave the class out belong to no sentence about bounds.
FALSE = [
    r"least any (method|mechanism|strategy)",
    r"(least|best) possible",
    r"least noise that privacy allows",
    r"(proven|proved|provable) (minimum|optimum)",
    r"no (private )?(method|mechanism|algorithm|strategy) (whatsoever|whatever|at all)",
    r"no (method|mechanism|algorithm|strategy) (can|could|does|needs|has)",
    r"any (method|mechanism|algorithm) (can|could|has|needs)",
    r"no factorization whatsoever",
    r"(?<!not )(every|each|all) plans? (reports?|states?|has|have|comes? with) (the|its|a|an) "
    r"(certified )?(ratio|bound|certificate)",
    r"× the least",
    r"certified optimal(ity)?",
]
BRACKET = re.compile(r"\[(0\d\d(?:, [^\]\n]*)?)\]")


def flat(path: Path) -> str:
    """A file with its lines joined, so that a sentence is found wherever it is broken."""
    return re.sub(r"[\s#*]+", " ", path.read_text(encoding="utf-8"))


def cited(text: str) -> set[str]:
    return {
        n for found in BRACKET.findall(text) for n in re.findall(r"\b0\d\d\b", found)
    }


def listed() -> set[str]:
    return set(
        re.findall(
            r"^- \*\*\[(0\d\d)\]\*\*", BIBLIOGRAPHY.read_text("utf-8"), re.MULTILINE
        )
    )


@pytest.mark.parametrize("rule", FALSE)
def test_no_sentence_claims_more_than_a_class_of_methods(rule: str) -> None:
    claims = [
        (path.name, found.group())
        for path in SOURCES
        for found in re.finditer(rule, flat(path), re.IGNORECASE)
    ]
    assert claims == []


def test_every_paper_cited_is_listed() -> None:
    assert {
        path.name: left for path in SOURCES if (left := cited(flat(path)) - listed())
    } == {}


def test_every_paper_listed_is_cited_and_numbered_once() -> None:
    lines = BIBLIOGRAPHY.read_text(encoding="utf-8").splitlines()
    numbers = [line[5:8] for line in lines if line.startswith("- **[")]
    assert numbers == [f"{k:03d}" for k in range(len(numbers))]
    elsewhere = [cited(flat(path)) for path in SOURCES if path != BIBLIOGRAPHY]
    assert set(numbers) == set().union(*elsewhere)


def test_the_classes_are_defined_where_the_pages_say() -> None:
    page = flat(ROOT / "docs/concepts/certificates.md")
    for each in BoundClass:
        assert each.value in page
        assert each.value in flat(ROOT / "docs/reference/commands.md")
        assert each.value in each.statement


@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_the_bibliography_is_linked(page: str) -> None:
    assert "reference/bibliography.md)" in (ROOT / page).read_text(encoding="utf-8")


ROOMS = {path.name for path in (ROOT / "src/noisewright").iterdir() if path.is_dir()}
PLACES = {"benchmarks", "clients", "deploy", "docs", "examples", "tests"}


def missing_places(text: str) -> list[str]:
    """Files, modules and folders that a text names in code marks, and that are not there."""
    named = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+(?:\.[a-z]+)?)`", text)
    missing = []
    for name in named:
        first = name.split("/")[0]
        if first not in ROOMS | PLACES:
            continue
        base = (ROOT / "src/noisewright" if first in ROOMS else ROOT) / name
        if not (base.exists() or base.with_name(base.name + ".py").exists()):
            missing.append(name)
    return missing


def test_every_file_that_a_page_names_is_there() -> None:
    assert missing_places("see `norm/no_such_file.py` and `planning/nowhere`") != []
    left = {
        path.name: gone
        for path in PAGES
        if (gone := missing_places(path.read_text("utf-8")))
    }
    assert left == {}


def missing_names(text: str) -> set[str]:
    """Public names, as `nw.plan` or `nw.local.randomize`, that are not there."""
    missing = set()
    for name in set(re.findall(r"`nw\.(\w+(?:\.\w+)*)", text)):
        try:
            reduce(getattr, name.split("."), nw)
        except AttributeError:
            missing.add(name)
    return missing


def test_every_public_name_that_a_page_names_is_there() -> None:
    assert missing_names("`nw.plan`, `nw.gone` and `nw.learn.gone`") == {
        "gone",
        "learn.gone",
    }
    left = {
        path.name: gone
        for path in SOURCES
        if (gone := missing_names(path.read_text("utf-8")))
    }
    assert left == {}


def test_every_room_has_its_row_in_the_table_of_rooms() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## What one edits")[0]
    first = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    named = set(re.findall(r"`([a-z_]+)`", first))
    files = {path.stem for path in (ROOT / "src/noisewright").glob("[a-z]*.py")}
    assert named == {room for room in ROOMS | files if not room.startswith("_")}


def test_every_room_says_what_it_is() -> None:
    for path in sorted((ROOT / "src/noisewright").glob("**/__init__.py")):
        assert not re.search("placeholder", path.read_text("utf-8"), re.IGNORECASE), (
            path
        )
