"""Proofs by cuts: no proof, found, damaged or invented, lies above the optimum.

As for proofs by set size: the optimum is that of a cone program over all reports, and the condition
is also checked on every set of cells there is.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from local.test_local_bound_sweep import badly_placed
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.cuts.proof import CutProof
from noisewright.local.bounds.cuts.search import CutSearch
from noisewright.local.bounds.cuts.violated import violated_cuts
from noisewright.local.bounds.start import Reports
from noisewright.local.choose.options import Local
from noisewright.local.optimise.run import optimise
from noisewright.planning.local.make import plan_local
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.kinds.explicit import Explicit
from oracles.local_optimum import optimum

TINY = 1e-9


def found(asked, epsilon, rounds=2, effort="low"):
    """A proof as the planner finds it from a plan; None where there is no start."""
    chosen = optimise(asked, epsilon, cache=False, effort=effort).strategy
    if asked.size < 3 or chosen.outputs is None:
        return None
    chances = chosen.dense()
    low = chances.min(axis=1)
    start = Reports(chances > low[:, None] * np.exp(epsilon / 2), low, chosen.prior)
    try:
        *_, last = CutSearch(table_gram(asked).dense(), epsilon, start).proofs(rounds)
    except (NoisewrightError, np.linalg.LinAlgError):
        return None
    return last


def damaged(proof, rng):
    """The same with one of its parts moved, a little or a lot."""
    names = [
        "prior",
        "factor",
        "prices",
        "squares",
        "pairs",
        "weights",
        "centre",
        "vectors",
    ]
    name = rng.choice([name for name in names if getattr(proof, name).size])
    array = np.array(getattr(proof, name))
    size = 10.0 ** rng.uniform(-6, 0.5)
    if name == "vectors":  # still whole numbers: another cut, and as true
        return replace(proof, vectors=array + rng.integers(-1, 2, array.shape))
    moved = array * np.exp(size * rng.standard_normal(array.shape))
    if name in ("factor", "prices", "squares") and rng.random() < 0.5:
        moved = array + size * np.abs(array).max() * rng.standard_normal(array.shape)
    if name == "prior":
        moved = moved / moved.sum()
    if name == "centre":
        moved = np.clip(moved, 0.01, 0.99)
    return replace(proof, **{name: moved.astype(array.dtype)})


def invented(n, rng):
    """Numbers of the form of a proof."""
    cuts = int(rng.integers(0, 9))
    return CutProof(
        np.arange(n),
        rng.dirichlet(np.ones(n) * rng.choice([0.3, 3.0, 30.0])),
        rng.standard_normal((n, int(rng.integers(1, n + 1)))),
        rng.standard_normal(n) + rng.choice([0.0, 1.0, 10.0]),
        rng.standard_normal(n),
        rng.random(n * (n + 1) // 2).astype(np.float32),
        rng.integers(-3, 4, (cuts, n)),
        rng.integers(-3, 4, cuts),
        rng.random(cuts),
        rng.uniform(0.05, 0.95, n),
    )


def breach(proof, epsilon):
    """How far the worst set is above the condition once prices have risen, over its size."""
    n, y = proof.size, proof.factor
    v = 1.0 + np.expm1(epsilon) * np.array(list(product((0.0, 1.0), repeat=n)))
    gains = ((v @ y) ** 2).sum(axis=1)
    limits = (v @ (proof.prices + proof.rise(epsilon) / n)) * (v @ proof.prior)
    scale = np.abs(v @ np.abs(proof.prices)) * (v @ proof.prior) + gains
    return float(((gains - limits) / scale).max())


def check(seed):
    matrix, epsilon = badly_placed(seed)
    asked, rng = Explicit(matrix), np.random.default_rng([seed, 8])
    gram = table_gram(asked).dense()
    proofs = [invented(asked.size, rng) for _ in range(3)]
    proof = found(asked, epsilon)
    if proof is not None:
        proofs += [proof, *(damaged(proof, rng) for _ in range(4))]
    least = optimum(matrix, epsilon).above
    for one in proofs:
        assert breach(one, epsilon) <= TINY
        assert one.variance(gram, epsilon) <= least * (1 + TINY)
    return len(proofs)


@pytest.mark.parametrize("seed", range(5))
def test_no_proof_lies_above_the_optimum(seed):
    assert check(seed) >= 3


def near_proof(text="random:3x6:1", epsilon=1.0, rounds=3):
    asked = workload(text)
    proof = found(asked, epsilon, rounds, "normal")
    assert proof is not None
    return proof, table_gram(asked).dense(), optimum(asked.dense(), epsilon)


def test_proofs_come_near_the_optimum_with_few_queries():
    proof, gram, least = near_proof()
    assert least.below / 1.05 <= proof.variance(gram, 1.0) <= least.above * (1 + TINY)


def test_an_eigenvalue_that_is_not_paid_for_is_caught(monkeypatch):
    """What the tests above compare with would show this fault."""
    proof, gram, least = near_proof()
    cheap = replace(proof, prices=0.7 * proof.prices)
    assert cheap.variance(gram, 1.0) <= least.above
    monkeypatch.setattr(CutProof, "rise", lambda *_: 0.0)
    assert breach(cheap, 1.0) > 1e-3
    assert cheap.variance(gram, 1.0) > 1.05 * least.above


def test_a_proof_about_some_cells_holds_for_all():
    proof, gram, _ = near_proof()
    larger = np.zeros((9, 9))
    cells = np.array([1, 2, 4, 5, 7, 8])
    larger[np.ix_(cells, cells)] = gram
    larger += 0.3 * np.eye(9)
    moved = replace(proof, cells=cells)
    alone = replace(proof, cells=np.arange(6))
    assert moved.variance(larger, 1.0) == alone.variance(
        larger[np.ix_(cells, cells)], 1.0
    )
    with pytest.raises(NoisewrightError):
        moved.variance(gram, 1.0)


@pytest.mark.parametrize(
    "broken",
    [
        {"cells": lambda c: c[::-1].copy()},
        {"pairs": lambda p: -p - 1},
        {"weights": lambda u: -u - 1},
        {"prior": lambda p: p - 1},
        {"vectors": lambda b: b.astype(float) + 0.5},
        {"vectors": lambda b: b + 2**40},
        {"offsets": lambda c: np.full_like(c, np.iinfo(np.int64).min)},
        {"centre": lambda p: np.zeros_like(p)},
        {"squares": lambda d: d * np.nan},
        {"prices": lambda p: p[1:]},
    ],
)
def test_what_is_no_proof_is_refused(broken):
    proof = invented(5, np.random.default_rng(3))
    assert len(proof.weights)
    with pytest.raises(NoisewrightError):
        replace(
            proof,
            **{name: change(getattr(proof, name)) for name, change in broken.items()},
        )


def test_violated_cuts_are_violated_by_the_moments_and_by_no_set():
    rng = np.random.default_rng(2)
    n = 7
    # no sets have so little variance
    mean, covariance = np.full(n, 0.4), 0.02 * np.eye(n)
    vectors, offsets = violated_cuts(mean, covariance, rng)
    assert len(vectors)
    every = np.array(list(product((0, 1), repeat=n)))
    sums = every @ vectors.T - offsets
    assert (sums * (sums - 1) >= 0).all()
    middle = vectors @ mean - offsets
    spread = np.einsum("bi,ij,bj->b", vectors, covariance, vectors)
    assert (spread + middle * (middle - 1) < 0).all()


def test_a_plan_with_few_queries_keeps_its_proof(tmp_path):
    import noisewright as nw

    asked = workload("random:3x12:1")
    plan = plan_local(
        asked, Privacy(2.0), Local(effort="normal", cache=tmp_path, target_ratio=1.04)
    )
    assert plan.certificate.name == "cuts"
    ratio = plan.summary()["certified_ratio"]
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    assert again.summary()["certified_ratio"] == ratio
    cheap = replace(plan, proof=replace(plan.proof, prices=plan.proof.prices / 100))
    cheap.save(tmp_path / "f.nw")
    told = nw.load(tmp_path / "f.nw").summary()["certified_ratio"]
    assert told is None or told >= ratio * (1 - TINY)
    elsewhere = replace(plan, proof=replace(plan.proof, cells=plan.proof.cells + 5))
    elsewhere.save(tmp_path / "e.nw")
    with pytest.raises(NoisewrightError, match="cells that the plan does not have"):
        nw.load(tmp_path / "e.nw")
