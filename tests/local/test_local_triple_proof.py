"""Proofs by triples of cells: no proof, found, damaged or invented, lies above the optimum.

On three yes/no attributes the optimum is that of a cone program over all reports, and the condition
is checked on every set of cells; on four attributes it is checked on all 65,536 sets.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import permutations, product

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.tables import proof as triple_proof
from noisewright.local.bounds.tables.cube import cube
from noisewright.local.bounds.tables.program import Program
from noisewright.local.bounds.tables.proof import TripleProof
from noisewright.local.bounds.tables.scheme import scheme_of
from noisewright.local.bounds.tables.search import TripleSearch
from noisewright.local.optimise.run import optimise
from noisewright.workload import workload
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.linear.gram import XorGram
from oracles.local_optimum import optimum

TINY = 1e-9


def alike(seed, bits=3):
    """Random queries that permutations of attributes leave unchanged, their Gram and a budget."""
    rng, n = np.random.default_rng([seed, 21]), 2**bits
    by_degree = 10.0 ** rng.uniform(-3, 3, bits + 1) * (rng.random(bits + 1) < 0.7)
    by_degree[int(rng.integers(1, bits + 1))] += 1.0
    cells, weights = np.arange(n), cube(bits).weights
    rows = np.sqrt(by_degree[weights] / n)[:, None] * (
        1.0 - 2 * (weights[cells[:, None] & cells] % 2)
    )
    rows = rows + (rng.random() < 0.5) * 10.0 ** rng.uniform(-2, 6, (n, 1))
    return (
        rows,
        XorGram(by_degree[weights]),
        float(np.exp(rng.uniform(np.log(0.1), np.log(8.0)))),
    )


def found(gram, epsilon, rounds=2):
    """A proof as the planner finds it."""
    scheme = scheme_of(gram)
    assert scheme is not None
    assert TripleSearch.fits(scheme)
    strategy = optimise(gram, epsilon, cache=False, effort="low").strategy
    chances = strategy.dense()
    patterns = chances > chances.min(axis=1)[:, None] * np.exp(epsilon / 2)
    search = TripleSearch(scheme, epsilon, patterns)
    *_, last = search.proofs(rounds)
    return last, search


def found_for_every_size(gram, epsilon):
    """The same with multipliers for all sizes, whether they are needed or not."""
    _, search = found(gram, epsilon)
    spectrum, level = search._kernel()
    sizes = range(3, scheme_of(gram).cells - 2)
    return search._proof(
        spectrum, level, {k: search._solved(spectrum, k) for k in sizes}
    )


@lru_cache
def of_sixteen_cells(text, epsilon):
    return found_for_every_size(table_gram(workload(text)), epsilon)


@pytest.fixture
def nothing_listed(monkeypatch):
    """Sets of few cells are not listed, so that all depends on the multipliers."""
    monkeypatch.setattr(triple_proof, "pair_counts", lambda _: {})


def damaged(proof, rng):
    """The same with one of its parts moved, a little or a lot."""
    names = ["factor", "prices", "inside", "outside", "apart", "tilts", "waves"]
    name = rng.choice([name for name in names if getattr(proof, name).size])
    array = np.array(getattr(proof, name))
    size = 10.0 ** rng.uniform(-6, 0.5)
    if name == "prices":
        return replace(proof, prices=array * np.exp(size * rng.standard_normal()))
    moved = array * np.exp(size * rng.standard_normal(array.shape))
    if name not in ("apart", "waves") and rng.random() < 0.5:
        moved = array + size * np.abs(array).max() * rng.standard_normal(array.shape)
    return replace(proof, **{name: moved})


def invented(n, rng):
    """Numbers of the form of a proof."""
    side = n.bit_length()
    sizes = np.sort(
        rng.choice(np.arange(2, n), int(rng.integers(1, n - 2)), replace=False)
    )
    shape = (len(sizes), side, side, side)
    return TripleProof(
        np.arange(n),
        np.full(n, 1.0 / n),
        rng.standard_normal((n, int(rng.integers(1, n + 1)))),
        np.full(n, rng.standard_normal() + rng.choice([0.0, 1.0, 10.0])),
        sizes,
        rng.standard_normal(shape),
        rng.standard_normal(shape),
        rng.random(shape),
        rng.standard_normal(shape[:2]),
        rng.random(shape[:2]),
    )


def breach(proof, epsilon):
    """How far the worst set is above the condition once prices have risen, over its size."""
    n, y = proof.size, proof.factor
    v = 1.0 + np.expm1(epsilon) * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    gains = ((v @ y) ** 2).sum(axis=1)
    limits = (v @ (proof.prices + proof.rise(epsilon) / n)) * (v @ proof.prior)
    scale = np.abs(v @ np.abs(proof.prices)) * (v @ proof.prior) + gains
    return float(((gains - limits) / scale).max())


def certificates(seed):
    """Check proofs for one workload; returns how many there were."""
    matrix, asked, epsilon = alike(seed)
    rng, gram = np.random.default_rng([seed, 22]), table_gram(Explicit(matrix)).dense()
    least = optimum(matrix, epsilon).above
    whole = found_for_every_size(asked, epsilon)
    proofs = [found(asked, epsilon)[0], whole, *(damaged(whole, rng) for _ in range(4))]
    proofs += [invented(8, rng) for _ in range(2)]
    for one in proofs:
        assert breach(one, epsilon) <= TINY
        assert one.variance(gram, epsilon) <= least * (1 + TINY)
    return len(proofs)


@pytest.mark.parametrize("seed", range(2))
def test_no_proof_lies_above_the_optimum(seed):
    assert certificates(seed) == 8


@pytest.mark.usefixtures("nothing_listed")
def test_no_proof_lies_above_the_optimum_by_multipliers_alone():
    assert certificates(4) == 8


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_listed")
@pytest.mark.parametrize("block", range(10))
def test_no_proof_of_eight_hundred_lies_above_the_optimum(block):
    assert (
        sum(certificates(seed) for seed in range(100 + 10 * block, 110 + 10 * block))
        == 80
    )


@pytest.mark.usefixtures("nothing_listed")
@pytest.mark.parametrize(
    ("text", "epsilon"), [("parity:4:<=2", 1.5), ("marginals:2^4:1", 3.0)]
)
def test_no_set_of_sixteen_cells_breaks_a_proof(text, epsilon):
    proof, rng = of_sixteen_cells(text, epsilon), np.random.default_rng(4)
    for one in (proof, *(damaged(proof, rng) for _ in range(3))):
        assert breach(one, epsilon) <= TINY


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_proofs_come_near_the_optimum(epsilon):
    asked = workload("parity:3:<=2")
    least = optimum(asked.dense(), epsilon)
    floor = found(table_gram(asked), epsilon)[0].variance(
        table_gram(asked).dense(), epsilon
    )
    assert least.below / 1.001 <= floor <= least.above * (1 + TINY)


def without_eigenvalues(patch):
    patch.setattr(triple_proof.Distances, "_least", lambda *_: 0.0)


def without_what_is_left(patch):
    patch.setattr(TripleProof, "rise", lambda *_: 0.0)


def with_odd_sums_for_every_set(patch):
    def odd(self, prices, _):
        return float(prices[1:] @ self.waves[1:, 0])

    patch.setattr(triple_proof.Distances, "_waves_least", odd)


@pytest.mark.usefixtures("nothing_listed")
@pytest.mark.parametrize(
    ("fault", "damage"),
    [
        (without_eigenvalues, {"inside": lambda p: p - 0.1 * np.abs(p).max()}),
        (without_what_is_left, {"prices": lambda p: 0.7 * p}),
        (with_odd_sums_for_every_set, {"waves": lambda a: a + 0.1 * a.max()}),
    ],
)
def test_a_fault_in_the_check_is_caught(monkeypatch, fault, damage):
    """What the tests above compare with would show each of these."""
    proof = of_sixteen_cells("parity:4:<=2", 1.5)
    wrong = replace(
        proof, **{name: move(getattr(proof, name)) for name, move in damage.items()}
    )
    assert breach(wrong, 1.5) <= TINY
    fault(monkeypatch)
    assert breach(wrong, 1.5) > 1e-3


def test_a_missing_size_costs_the_proof_and_not_the_truth():
    asked, epsilon = workload("parity:5:<=2"), 2.0
    proof, gram = found(table_gram(asked), epsilon)[0], table_gram(asked).dense()
    whole = proof.variance(gram, epsilon)
    names = ("sizes", "inside", "outside", "apart", "tilts", "waves")
    without = [
        replace(
            proof,
            **{name: np.delete(getattr(proof, name), size, axis=0) for name in names},
        )
        for size in range(len(proof.sizes))
    ]
    floors = [lacking.variance(gram, epsilon) for lacking in without]
    assert max(floors) <= whole
    assert min(floors) < whole * 0.999


@pytest.mark.parametrize(
    "broken",
    [
        {"cells": lambda c: c[1:]},
        {"cells": lambda c: c + 1},
        {"prior": lambda p: np.linspace(0.5, 1.5, 8) * p},
        {"prices": lambda p: np.linspace(0.5, 1.5, 8) * p},
        {"sizes": lambda s: s[::-1].copy()},
        {"sizes": lambda s: s * 0},
        {"apart": lambda u: -u - 1},
        {"waves": lambda a: -a - 1},
        {"inside": lambda p: p * np.nan},
        {"tilts": lambda t: t[:, 1:]},
    ],
)
def test_what_is_no_proof_is_refused(broken):
    proof = invented(8, np.random.default_rng(3))
    assert len(proof.sizes) > 1
    with pytest.raises(NoisewrightError):
        replace(
            proof,
            **{name: change(getattr(proof, name)) for name, change in broken.items()},
        )


@pytest.mark.parametrize("size", [3, 5, 6, 7, 9, 10, 12])
def test_real_sets_keep_all_that_a_program_knows(size):
    """Counts of random sets: equations, inequalities, matrices."""
    program, rng = Program(4, size), np.random.default_rng(size)
    weights = cube(4).weights
    members = rng.permutation(16)[:size]
    seen = members[:, None] ^ members
    counts = np.bincount(weights[seen].ravel(), minlength=5) / size
    triples = [
        sum(
            weights[u ^ v] == i and weights[u ^ w] == j and weights[v ^ w] == c
            for u, v, w in product(members, repeat=3)
        )
        / size
        for i, j, c in cube(4).triples
    ]
    known = np.concatenate([counts, triples])
    equations = program.equations[:6, : len(known)]
    np.testing.assert_allclose(equations @ known, [0, 0, 0, 0, 0, 1], atol=1e-9)
    shares = program.unknowns - len(known)
    # Twice an odd number: one of the weights must do.
    options = np.eye(shares) if shares else np.zeros((1, 0))
    slacks = [
        program.rows @ np.concatenate([known, one]) - program.limits for one in options
    ]
    assert max(slack.min() for slack in slacks) > -1e-9
    for block in program.inside + program.outside:
        matrix = np.tensordot(known, block.along[: len(known)], 1)
        assert np.linalg.eigvalsh(matrix).min(initial=0.0) > -1e-9


def test_counts_do_not_depend_on_the_order_of_distances():
    pairs = cube(5).pairs
    for order in permutations(range(3)):
        np.testing.assert_array_equal(pairs, pairs.transpose(order))


def test_a_plan_keeps_its_proof_and_a_forged_one_proves_nothing(tmp_path):
    asked, budget = "parity:5:<=2", nw.Privacy(epsilon=2.0)
    plan = nw.plan(asked, budget, nw.Local(effort="normal", cache=False))
    ratio = plan.summary()["certified_ratio"]
    assert plan.summary()["certificate"] == "triples"
    plan.save(tmp_path / "p.nw")
    assert nw.load(tmp_path / "p.nw").summary()["certified_ratio"] == ratio
    forged = replace(plan, proof=replace(plan.proof, prices=plan.proof.prices / 100))
    forged.save(tmp_path / "f.nw")
    told = nw.load(tmp_path / "f.nw").summary()["certified_ratio"]
    assert told is None or told >= ratio * (1 - TINY)
