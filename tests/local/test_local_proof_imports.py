"""What checks a stored proof shares no code with what searches for one."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

BOUNDS = "noisewright.local.bounds"
CHECKS = ("proof", "sets.proof", "cuts.proof", "tables.proof", "ordered.intervals")
SEARCHES = {
    "joint_problem",
    "blocks",
    "proof_search",
    "start",
    "folding",
    "sets.search",
    "sets.blocks",
    "sets.completion",
    "cuts.search",
    "cuts.block",
    "cuts.violated",
    "tables.search",
    "tables.program",
    "tables.cube",
    "tables.pool",
    "ordered.search",
}
CONTAINERS = {"SetProof", "CutProof", "TripleProof", "Proof", "MOST_CELLS", "LISTED"}
CONTAINERS |= {"Claim", "FallingKernel", "centred_root"}
"""What a search may take from a check: the form in which it hands over what it found. Claims about
intervals are not stored: their search ranks them by what they prove."""


def imports(module):
    """Names that a module imports from the package, by module."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "noisewright"
        ):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                whole = find_spec(node.module).submodule_search_locations and find_spec(
                    inner
                )
                # A whole module that is imported may be asked for any of its names.
                place, name = (inner, "*") if whole else (node.module, alias.name)
                found.setdefault(place, set()).add(name)
        assert not (isinstance(node, ast.ImportFrom) and node.level), (
            "imports are absolute"
        )
    return found


def reached(module):
    """All modules of the bounds' room that a module leads to."""
    known, waiting = set(), [module]
    while waiting:
        for name in imports(waiting.pop()):
            if name.startswith(BOUNDS) and name not in known:
                known.add(name)
                waiting.append(name)
    return {name.removeprefix(f"{BOUNDS}.") for name in known}


@pytest.mark.parametrize("check", CHECKS)
def test_no_check_leads_to_a_search(check):
    leads = reached(f"{BOUNDS}.{check}")
    assert not leads & SEARCHES
    assert not any(
        name.startswith("noisewright.local.optimise")
        for name in imports(f"{BOUNDS}.{check}")
    )


@pytest.mark.parametrize("search", sorted(SEARCHES))
def test_a_search_takes_nothing_from_a_check_but_its_form(search):
    for module, names in imports(f"{BOUNDS}.{search}").items():
        if module.removeprefix(f"{BOUNDS}.") in {*CHECKS, "tables.small_sets"}:
            assert names <= CONTAINERS, module


def test_all_searches_are_named_here():
    room = Path(find_spec(BOUNDS).origin).parent
    named = {f"{path.parent.name}.search" for path in room.glob("*/search.py")}
    assert named
    assert named <= SEARCHES
