"""The site shows every page, every command and every public name."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import yaml

import noisewright as nw
from noisewright.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def _hooks():
    specification = importlib.util.spec_from_file_location(
        "hooks", ROOT / "docs/site_hooks.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _pages(nav) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]


def test_every_page_is_in_the_navigation_once():
    listed = _pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    generated = {"reference/command-help.md", "reference/api.md"}
    linked = {"reproduced/README.md"}  # from the page on figures
    held = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert len(listed) == len(set(listed))
    assert set(listed) - generated == held - linked


def test_commands_and_names_are_written_from_the_code():
    hooks = _hooks()
    text = hooks.command_help()
    assert all(f"## noisewright {name}\n" in text for name in COMMANDS)
    assert "--ledger" in text
    api = hooks.api()
    assert all(f"## nw.{name}\n" in f"{api}\n" for name in nw.__all__)
    assert nw.plan.__doc__.splitlines()[0] in api
