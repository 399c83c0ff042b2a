"""Proofs by set size: no proof, found, damaged or invented, lies above the optimum.

The optimum is that of `oracles.local_optimum`, a cone program over all reports; the condition that
a proof rests on is also checked on every set of cells there is.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from local.test_local_bound_sweep import badly_placed
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.proof import largest_eigenvalue
from noisewright.local.bounds.proved import proved_bound
from noisewright.local.bounds.sets.proof import Condition, SetProof
from noisewright.local.bounds.sets.search import SetSearch
from noisewright.local.bounds.start import Reports
from noisewright.local.choose.options import Local
from noisewright.local.optimise.kept import Cache
from noisewright.planning.local.make import plan_local
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.kinds.explicit import Explicit
from oracles.local_optimum import optimum

TINY = 1e-9


def found(asked, epsilon):
    """A proof as the planner finds it from a quick plan; None where there is no start."""
    if asked.size < 3 or table_gram(asked).mean_square() == 0:
        return None
    plan = plan_local(
        asked, Privacy(epsilon), Local(mechanism="optimised", cache=False, effort="low")
    )
    if plan.strategy.outputs is None:
        return None
    chances = plan.strategy.dense()
    low = chances.min(axis=1)
    patterns = chances > low[:, None] * np.exp(epsilon / 2)
    start = Reports(patterns, low, plan.strategy.prior)
    try:
        *_, last = SetSearch(table_gram(asked).dense(), epsilon, start).proofs(2)
    except (NoisewrightError, np.linalg.LinAlgError):
        return None
    return last


def damaged(proof, rng):
    """The same with one of its parts moved, a little or a lot."""
    name = rng.choice(["prior", "factor", "prices", "tilts", "excess"])
    array = np.array(getattr(proof, name))
    size = 10.0 ** rng.uniform(-6, 0.5)
    moved = array * np.exp(size * rng.standard_normal(array.shape))
    if name in ("factor", "prices", "tilts") and rng.random() < 0.5:
        moved = array + size * np.abs(array).max() * rng.standard_normal(array.shape)
    if name == "prior":
        moved = moved / moved.sum()
    return replace(proof, **{name: moved.astype(array.dtype)})


def invented(n, rng):
    """Numbers of the form of a proof."""
    sizes = np.sort(
        rng.choice(np.arange(1, n + 1), int(rng.integers(1, n + 1)), replace=False)
    )
    count = len(sizes)
    return SetProof(
        np.arange(n),
        rng.dirichlet(np.ones(n) * rng.choice([0.3, 3.0, 30.0])),
        rng.standard_normal((n, int(rng.integers(1, n + 1)))),
        rng.standard_normal(n) + rng.choice([0.0, 1.0, 10.0]),
        sizes,
        rng.standard_normal((count, n)),
        rng.random((count, n * (n + 1) // 2)).astype(np.float32),
    )


def breach(proof, epsilon):
    """How far the worst set is above the condition once prices have risen, over its size."""
    n, y = proof.size, proof.factor
    v = 1.0 + np.expm1(epsilon) * np.array(list(product((0.0, 1.0), repeat=n)))
    rise = proof.rise(epsilon)
    gains = ((v @ y) ** 2).sum(axis=1)
    worst = []
    for direction in (np.full(n, 1.0 / n), proof.prior):  # one of the two is meant
        limits = (v @ (proof.prices + rise * direction)) * (v @ proof.prior)
        scale = np.abs(v @ np.abs(proof.prices)) * (v @ proof.prior) + gains
        worst.append(float(((gains - limits) / scale).max()))
    return min(worst)


def check(seed):
    matrix, epsilon = badly_placed(seed)
    asked, rng = Explicit(matrix), np.random.default_rng([seed, 7])
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


@pytest.mark.parametrize("seed", range(8))
def test_no_proof_lies_above_the_optimum(seed):
    assert check(seed) >= 3


@pytest.mark.parametrize(("text", "epsilon"), [("prefix:7", 2.0), ("prefix:6", 4.0)])
def test_proofs_come_near_the_optimum(text, epsilon):
    asked = workload(text)
    plan = plan_local(asked, Privacy(epsilon), Local(effort="normal", cache=False))
    least = optimum(asked.dense(), epsilon)
    best = plan.certificate
    assert best is not None
    assert best.name == "sets"
    assert least.below / 1.03 <= best.variance <= least.above * (1 + TINY)


def near_proof(epsilon=2.0, text="prefix:6"):
    asked = workload(text)
    proof = found(asked, epsilon)
    assert proof is not None
    gram = table_gram(asked).dense()
    return proof, gram, optimum(asked.dense(), epsilon).above


def without_eigenvalues(patch):
    patch.setattr(SetProof, "rise", lambda *_: 0.0)


def without_sizes(patch):
    patch.setattr(Condition, "of_size", lambda *_: -1e9)
    patch.setattr(Condition, "listed", lambda *_: (-1e9, -1e9))


@pytest.mark.parametrize("fault", [without_eigenvalues, without_sizes])
def test_a_fault_in_the_check_is_caught(monkeypatch, fault):
    """What the tests above compare with would show each of these."""
    proof, gram, least = near_proof(0.5)
    # breaks the condition at many sizes
    cheap = replace(proof, prices=0.7 * proof.prices)
    assert cheap.variance(gram, 0.5) <= least
    with monkeypatch.context() as patch:
        fault(patch)
        assert breach(cheap, 0.5) > 1e-3
        assert cheap.variance(gram, 0.5) > 1.05 * least


def test_a_missing_size_costs_the_proof_and_not_the_truth():
    proof, gram, least = near_proof(text="prefix:8")
    whole = proof.variance(gram, 2.0)
    assert len(proof.sizes) > 1
    for size in range(len(proof.sizes)):
        keep = np.arange(len(proof.sizes)) != size
        lacking = replace(
            proof,
            sizes=proof.sizes[keep],
            tilts=proof.tilts[keep],
            excess=proof.excess[keep],
        )
        assert lacking.variance(gram, 2.0) <= least * (1 + TINY)
        assert lacking.variance(gram, 2.0) <= whole * 1.01


def test_a_proof_made_for_a_symmetry_that_is_none_proves_little():
    proof, gram, least = near_proof()
    mean = (
        proof.factor @ proof.factor.T + (proof.factor @ proof.factor.T)[::-1, ::-1]
    ) / 2
    values, vectors = np.linalg.eigh(mean)
    mirrored = replace(
        proof,
        factor=vectors * np.sqrt(np.maximum(values, 0.0)),
        prices=(proof.prices + proof.prices[::-1]) / 2,
    )
    skewed = gram.copy()
    skewed[0] *= 3.0
    skewed[:, 0] *= 3.0  # no longer the same from the other end
    least = optimum(np.linalg.cholesky(skewed + 1e-12 * np.eye(6)).T, 2.0).above
    assert mirrored.variance(skewed, 2.0) <= least * (1 + 1e-6)


@pytest.mark.parametrize(
    "broken",
    [
        {"excess": lambda e: -e - 1},
        {"prior": lambda p: p - 1},
        {"prices": lambda p: p * np.nan},
        {"sizes": lambda s: s[::-1].copy()},
        {"tilts": lambda t: t[:, 1:]},
        {"excess": lambda e: e[:, 1:]},
    ],
)
def test_what_is_no_proof_is_refused(broken):
    proof, _, _ = near_proof(text="prefix:8")
    with pytest.raises(NoisewrightError):
        replace(
            proof,
            **{name: change(getattr(proof, name)) for name, change in broken.items()},
        )


@pytest.mark.parametrize("seed", range(6))
def test_largest_eigenvalues_are_bounded_from_above(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    whole = rng.integers(-9, 10, (n, n))
    matrix = (whole + whole.T).astype(float) * 10.0 ** rng.integers(-8, 8)
    bound = largest_eigenvalue(matrix)
    vectors = np.linalg.eigh(matrix)[1][:, -1].astype(np.longdouble)
    quotient = float(
        vectors @ matrix.astype(np.longdouble) @ vectors / (vectors @ vectors)
    )
    assert quotient <= bound <= quotient + 1e-10 * np.abs(matrix).sum()


def test_a_plan_keeps_its_proof_and_a_forged_one_proves_nothing(tmp_path):
    import noisewright as nw

    plan = plan_local(
        workload("prefix:12"), Privacy(3.0), Local(effort="normal", cache=False)
    )
    ratio = plan.summary()["certified_ratio"]
    assert plan.summary()["certificate"] == "sets"
    assert plan.proof is not None
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    assert again.summary()["certified_ratio"] == ratio
    forged = replace(plan, proof=replace(plan.proof, prices=plan.proof.prices / 100))
    forged.save(tmp_path / "f.nw")
    read = nw.load(tmp_path / "f.nw")
    told = read.summary()["certified_ratio"]
    assert told is None or told >= ratio * (1 - TINY)
    assert proved_bound(plan.workload, 3.0, plan.proof).variance > 0


def test_a_kept_proof_is_used_again_and_a_forged_one_is_not(tmp_path):
    def planned():
        return plan_local(
            workload("prefix:7"), Privacy(3.0), Local(effort="normal", cache=tmp_path)
        )

    first = planned()
    (kept,) = tmp_path.glob("*.proof.safetensors")
    again = planned()
    assert again.proof is not None
    np.testing.assert_array_equal(again.proof.factor, first.proof.factor)
    question = kept.name.removesuffix(".proof.safetensors")
    cheap = replace(first.proof, prices=first.proof.prices / 100)
    Cache(tmp_path).save_proof(question, cheap)
    assert planned().summary()["certified_ratio"] >= 1 - TINY
    kept.write_bytes(kept.read_bytes()[:-9])
    assert planned().summary()["certified_ratio"] >= 1 - TINY


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_sets_of_few_cells_are_each_looked_at(cells):
    """What listing them asks of prices is what the worst of them lacks."""
    rng = np.random.default_rng(cells)
    for n in (3, 4, 7):
        proof, epsilon = invented(n, rng), 1.5
        v = 1.0 + np.expm1(epsilon) * np.array(list(product((0.0, 1.0), repeat=n)))
        v = v[(v > 1).sum(axis=1) == cells]
        mass = v @ proof.prior
        lacking = ((v @ proof.factor) ** 2).sum(axis=1) - (v @ proof.prices) * mass
        by_even, by_prior = Condition.of(proof, epsilon).listed(cells)
        assert by_even == pytest.approx(
            (lacking / (mass * v.mean(axis=1))).max(), rel=1e-9
        )
        assert by_prior == pytest.approx((lacking / mass**2).max(), rel=1e-9)


def test_no_set_of_more_cells_is_above_what_its_size_says():
    rng = np.random.default_rng(5)
    for n in (5, 8):
        proof, epsilon = invented(n, rng), 1.0
        v = 1.0 + np.expm1(epsilon) * np.array(list(product((0.0, 1.0), repeat=n)))
        above = ((v @ proof.factor) ** 2).sum(axis=1) - (v @ proof.prices) * (
            v @ proof.prior
        )
        for cells in range(4, n):
            most = above[(v > 1).sum(axis=1) == cells].max()
            assert Condition.of(proof, epsilon).of_size(cells) >= most


@pytest.mark.parametrize("text", ["prefix:12", "prefix:4*prefix:3"])
def test_a_prior_that_follows_the_types_proves_more(text, monkeypatch):
    """From an even prior, which is not the worst: steps along the slope must raise the floor."""
    asked, epsilon = workload(text), 3.0
    plan = plan_local(
        asked, Privacy(epsilon), Local(mechanism="optimised", cache=False, effort="low")
    )
    chances, gram = plan.strategy.dense(), table_gram(asked).dense()
    low = chances.min(axis=1)
    patterns = chances > low[:, None] * np.exp(epsilon / 2)
    start = Reports(patterns, low, np.full(asked.size, 1.0 / asked.size))

    def proved():
        proofs = SetSearch(gram, epsilon, start).proofs(8)
        return max(proof.variance(gram, epsilon) for proof in proofs)

    followed = proved()
    monkeypatch.setattr(SetSearch, "_follow", lambda search: None)
    assert followed > 1.002 * proved()
