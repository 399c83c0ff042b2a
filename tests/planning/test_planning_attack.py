"""A randomised attack on plan files: whatever is edited, a plan is refused or keeps its promise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import noisewright as nw
from local.strategies import SMALL, small_tree, uneven_mixture
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.mechanism import CarryMechanism
from noisewright.domain import Categorical, Domain
from noisewright.errors import NoisewrightError
from noisewright.local.composed.coarse_fine import CoarseFine
from noisewright.local.composed.mixture import Coarsening
from noisewright.local.composed.parts import Parts
from noisewright.local.composed.union import union
from noisewright.local.histogram.sets import (
    ListedSubsets,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from noisewright.local.listed import Decoded, MatrixStrategy
from noisewright.local.storage import HOMES
from noisewright.local.strategy import Strategy
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.vector.codebook import Codebook
from noisewright.local.vector.noisy_columns import VectorStrategy
from noisewright.planning.files import load
from noisewright.planning.local.plan import LocalPlan, NamedStrategy
from noisewright.workload import workload
from oracles.carry_promises import check_carry
from oracles.forgery import forged
from oracles.plan_parts import read_parts, write_parts
from oracles.promises import check_central, check_local

DOMAIN = Domain([Categorical("sex", ["F", "M"]), Categorical("size", ["S", "M", "L"])])
ASKED = nw.Workload.from_spec(
    {"queries": [{"marginal": ["sex", "size"]}, {"marginal": ["size"], "weight": 2}]},
    DOMAIN,
)


def random_patterns(rows: int, cells: int) -> Any:
    return np.random.default_rng(rows).random((rows, cells)) < 0.4


def orbits(sizes: tuple[int, ...], rows: int) -> OrbitStrategy:
    patterns = random_patterns(rows, int(np.prod(sizes)))
    return OrbitStrategy.from_patterns(sizes, patterns, np.arange(1.0, rows + 1), 1.0)


def coarse_fine() -> CoarseFine:
    coarse = MatrixStrategy.from_chances(RandomizedResponse(4, 1.0).dense(), 1.0)
    maps = [Coarsening(8, 2), Coarsening(8)]
    return CoarseFine.of([coarse, orbits((8,), 2)], maps, [0.4, 0.6])


def codebook(chosen: int) -> Codebook:
    rng = np.random.default_rng(chosen)
    vectors, directions = (
        rng.integers(-9, 9, size=(2, 4)),
        rng.integers(-9, 9, size=(10, 2)),
    )
    return Codebook.of(vectors, directions, 1.0, chosen)


def strategies() -> dict[str, Strategy]:
    columns = np.array([[0, 3, 5, 9], [1, 0, 2, 7]])
    response = RandomizedResponse(5, 1.0)
    components = (RandomizedResponse(2, 1.0), RandomizedResponse(6, 1.0))
    parts = Parts.of((2, 3), ((0,), (0, 1)), components, np.array([0.3, 0.7]))
    return {
        "matrix": MatrixStrategy.from_chances(response.dense(), 1.0, np.full(5, 0.2)),
        "randomized-response": response,
        "subset-selection": SubsetSelection(7, 1.0),
        "listed-subsets": ListedSubsets(8, 1.0),
        "unary": UnaryEncoding(6, 2.0),
        "hadamard": SMALL["hadamard"],
        "local-hashing": SMALL["local-hashing"],
        "fourier": SMALL["fourier"],
        "vector": VectorStrategy(columns, 1.0),
        "vector-gaussian": VectorStrategy(columns, 1.0, 1e-6),
        "codebook": codebook(3),
        "codebook-signs": codebook(0),
        "union": union(workload("marginals:2x3x2:2").gram(), 1.0),
        "parts": parts,
        "tree-mixture": small_tree(),
        "mixture": uneven_mixture(),
        "decoded": Decoded(SMALL["randomized-response"], np.arange(1.0, 8) / 28),
        "orbits": orbits((2, 4), 5),
        "coarse-fine": coarse_fine(),
    }


CENTRAL = {
    "dense": ("prefix:6", nw.Privacy(1, 1e-6)),
    "dense-replace": ("prefix:5", nw.Privacy(1, 1e-6, neighbours="replace-one")),
    "pure": ("prefix:6", nw.Privacy(1)),
    "pure-replace": ("prefix:6", nw.Privacy(0.5, neighbours="replace-one")),
    "zcdp": ("identity:3*prefix:4", nw.Privacy(rho=0.1)),
    "tables": ("marginals:2x3x2:2", nw.Privacy(1, 1e-6)),
    "tables-replace": (
        "marginals:2x3x2:2",
        nw.Privacy(1, 1e-6, neighbours="replace-one"),
    ),
    "tables-pure": ("marginals:2x3x2:<=2", nw.Privacy(1)),
    "products": ("prefix:3*total:4+total:3*prefix:4", nw.Privacy(1, 1e-6)),
    "questions": (ASKED, nw.Privacy(1, 1e-6)),
    "questions-pure": (ASKED, nw.Privacy(1)),
}
CARRY = {
    "carry": ("prefix:5", nw.Privacy(0.5)),
    "carry-lattice": ("prefix:5", nw.Privacy(2)),
    "carry-replace": ("prefix:5", nw.Privacy(1, neighbours="replace-one")),
    "carry-product": ("prefix:3*identity:2", nw.Privacy(1)),
    "carry-signs": (np.array([[1, -1, 0, 2], [2, -2, 1, 0]]), nw.Privacy(1)),
    "carry-sums": ("prefix:2", nw.Privacy(1)),
}
NAMES = (*strategies(), *CENTRAL, *CARRY)


@cache
def plans() -> dict[str, Any]:
    local = {}
    for name, strategy in strategies().items():
        asked = ASKED if name == "parts" else workload(f"prefix:{strategy.size}")
        domain = DOMAIN if name == "parts" else None
        next_best = ({"mechanism": "any", "sample_complexity": 2.0},)
        local[name] = LocalPlan(
            asked, domain, NamedStrategy("any", strategy), 1.0, next_best, 100, 0.01
        )
    central = {name: _central(*asked) for name, asked in CENTRAL.items()}
    carry = {
        name: nw.plan(*asked, nw.Central(mechanism="carry"))
        for name, asked in CARRY.items()
    }
    carry["carry-sums"] = _with_sum(carry["carry-sums"])
    return {**local, **central, **carry}


def _with_sum(plan: Any) -> Any:
    """The same over two cells and a sum of them, each column of L1 norm three."""
    targets, parts = (
        np.array([[2, 0], [0, 2], [0, 0]]),
        np.array([[-3, 0], [-2, 2], [0, 0]]),
    )
    cores, one = np.array([3, 4, 0]), np.ones(3, dtype=np.int64)
    carries = Carries(np.array([1, 0, 2]), cores, one, targets, parts)
    block = Block((0,), (np.array([[2, 0], [0, 1], [1, 2]]),))
    measured = BlockMechanism(
        BlockStrategy((2,), (block,)), plan.privacy, attribute_sizes=(2,)
    )
    proposal = replace(plan.proposal, mechanism=CarryMechanism(measured, carries))
    return replace(plan, proposal=proposal)


def _central(asked: Any, privacy: nw.Privacy) -> nw.Plan:
    """A plan by blocks; K-norm noise is attacked beside its own tests."""
    named = "laplace-strategy" if privacy.kind == "pure" else "auto"
    composition = "many" if privacy.kind == "approximate" else "one"
    return nw.plan(asked, privacy, nw.Central(mechanism=named, composition=composition))


def test_every_stored_kind_is_attacked() -> None:
    assert {strategy.kind for strategy in strategies().values()} == set(HOMES)


def attack(name: str, count: int, folder: Path) -> tuple[int, int]:
    """Numbers of edited plans that could be used, and of those checked to the last chance."""
    file = folder / "plan.nw"
    plans()[name].save(file)
    header, arrays = read_parts(file)
    check = (
        check_central
        if name in CENTRAL
        else check_carry
        if name in CARRY
        else check_local
    )
    assert check(load(file))
    rng = np.random.default_rng(crc32(name.encode()))
    loaded = checked = 0
    for number in range(count):
        changed, beside = forged(header, arrays, rng)
        try:
            write_parts(file, changed, beside)
            # a plan that loads may still refuse before any data is read
            whole = check(load(file))
            loaded, checked = loaded + 1, checked + whole
        except NoisewrightError:
            continue
        except BaseException as error:
            error.add_note(f"{name}, mutant {number}")
            raise
    return loaded, checked


@pytest.mark.parametrize("name", NAMES)
def test_edited_plans_are_refused_or_keep_their_promise(
    name: str, tmp_path: Path
) -> None:
    attack(name, 25, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_edited_plans_are_refused_or_keep_their_promise(
    name: str, tmp_path: Path
) -> None:
    """More than 20,000 in all; a fair part of them loads, or the attack would be none."""
    loaded, checked = attack(name, 700, tmp_path)
    assert loaded > 40
    assert checked > 0.9 * loaded
