"""Texts and budgets that are well formed and absurd: a result, or a refusal in words.

Nothing but the library's own errors may escape, and never the one that says that a result
contradicts itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import Contradiction, NoisewrightError
from noisewright.privacy.promise.budget import Privacy

HUGE = ["1" + "0" * 9, "1" + "0" * 17, "1" + "0" * 30, "1" + "0" * 400]
WEIGHTS = [
    "0.5",
    "3",
    "1e-8",
    "1e8",
    "1e60",
    "1e-60",
    "1e154",
    "1e300",
    "5e-324",
    "1e-300",
]
EPSILONS = [5e-324, 1e-300, 1e-12, 1e-3, 0.3, 1.0, 7.0, 40.0, 700.0, 1e9, 1e300]
DELTAS = [5e-324, 1e-300, 1e-30, 1e-6, 0.3, 0.999999]
RHOS = [5e-324, 1e-200, 1e-9, 0.02, 0.5, 30.0, 1e10, 1e300]

ABSURD = [
    "marginals:2^100000:3",
    "marginals:2^60:<=30",
    "allmarginals:2^100000",
    "marginals:2^1" + "0" * 30 + ":1",
    "prefix:1" + "0" * 30,
    "identity:1" + "0" * 400,
    "identity:1000000000*identity:1000000000",
    "total:1" + "0" * 18 + "*total:1" + "0" * 18,
    "parity:100000:3",
    "parity:62:31",
    "parity:1" + "0" * 30 + ":1",
    "random:1000000x1000000:1",
    "on:2^100000:0,1:(prefix:4)",
    "on:2xx3:0:(prefix:2)",
    "on:0x3:0:(prefix:2)",
    "on:2x3:0:1:(prefix:2)",
    "2@" * 500 + "prefix:3",
    "(" * 500 + "prefix:3" + ")" * 500,
    "*".join(["prefix:3"] * 400),
    "1e300@prefix:4",
    "1e-300@prefix:4",
    "1e160@identity:4",
    "(1e154@prefix:2)*(1e154@prefix:2)",
    "1e200@(1e200@prefix:3)",
]


def tried(call: Any) -> str:
    """Whether it gave a result or a refusal; anything else is raised."""
    try:
        call()
    except Contradiction:
        raise
    except NoisewrightError as refusal:
        message = str(refusal)
    else:
        return "ok"
    assert len(message) < 2000
    return "refused"


def used(text: str, privacy: Privacy, error: Any = "rmse") -> None:
    """Plan, forecast and, where the domain is small, release."""
    plan = nw.plan(text, privacy, nw.Central(error=error))
    if plan.workload.size <= 4096 and plan.workload.queries <= 4096:
        plan.forecast()
        plan.release(np.ones(plan.workload.size, dtype=np.int64))


@pytest.mark.parametrize("text", ABSURD, ids=[text[:30] for text in ABSURD])
def test_absurd_workloads_are_refused_in_words_or_answered(text: str) -> None:
    for budget in ({"epsilon": 1.0}, {"rho": 0.5}):
        for neighbours in ("add-remove", "replace-one"):
            privacy = Privacy(**budget, neighbours=neighbours)
            tried(lambda privacy=privacy: used(text, privacy))
            norm = 2 if "rho" in budget else 4
            tried(
                lambda norm=norm, kind=neighbours: nw.factorize(
                    text, norm, neighbours=kind
                )
            )
    tried(lambda: nw.approximate_norm(text, 0.1, iterations=20))


@pytest.mark.parametrize(
    "text", ["marginals:2^100000:3", "prefix:1" + "0" * 30, "1e300@prefix:4"]
)
def test_what_cannot_be_planned_is_refused(text: str) -> None:
    assert tried(lambda: nw.plan(text, Privacy(rho=0.5))) == "refused"


@pytest.mark.parametrize("error", ["rmse", "max", 3.0])
@pytest.mark.parametrize(
    "text", ["allmarginals:1x3x2", "marginals:1x3x2:<=2", "prefix:1*prefix:3"]
)
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_attributes_of_one_value_are_planned(
    text: str, error: Any, budget: dict[str, float]
) -> None:
    plan = nw.plan(text, Privacy(**budget), nw.Central(error=error))
    # beside which noise is nothing
    counts = np.arange(1, plan.workload.size + 1) * 10**9
    released = plan.release(counts)
    np.testing.assert_allclose(
        released.answers, plan.workload.matvec(counts), rtol=1e-6
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_budgets_of_every_size_are_kept_or_refused(neighbours: Any) -> None:
    budgets: list[dict[str, float]] = [{"epsilon": epsilon} for epsilon in EPSILONS]
    pairs = zip(EPSILONS * 2, DELTAS[:3] * 4 + DELTAS[3:] * 4, strict=False)
    budgets += [{"epsilon": epsilon, "delta": delta} for epsilon, delta in pairs]
    budgets += [{"rho": rho} for rho in RHOS]
    results = [
        tried(lambda b=b: used("prefix:3", Privacy(**b, neighbours=neighbours)))
        for b in budgets
    ]
    assert "ok" in results
    assert tried(lambda: used("prefix:3", Privacy(epsilon=5e-324))) == "refused"


def random_text(rng: np.random.Generator, depth: int = 2) -> str:
    """A text of the grammar: mostly small, now and then out of all proportion."""
    kind = rng.integers(8) if depth else rng.integers(4, 8)
    size = str(rng.choice(HUGE)) if rng.random() < 0.06 else str(rng.integers(1, 6))
    if kind == 0:
        return f"{rng.choice(WEIGHTS)}@({random_text(rng, depth - 1)})"
    if kind == 1:
        return f"({random_text(rng, depth - 1)})*({random_text(rng, depth - 1)})"
    if kind in (2, 3):
        cells = int(rng.integers(1, 6))
        parts = [
            f"{rng.choice(WEIGHTS)}@prefix:{cells}",
            f"identity:{cells}",
            f"total:{cells}",
        ]
        parts += [
            f"ranges:{cells}",
            f"random:{rng.integers(1, 7)}x{cells}:{rng.integers(9)}",
        ]
        return "+".join(rng.choice(parts, size=int(rng.integers(1, 4))))
    if kind == 4:
        sizes = "x".join(
            str(n) for n in rng.integers(1, 4, size=int(rng.integers(1, 4)))
        )
        return f"{rng.choice(['marginals', 'marginals'])}:{sizes}:{rng.choice(['1', '<=1', '2'])}"
    if kind == 5:
        return f"allmarginals:{rng.integers(1, 4)}x{size}"
    if kind == 6:
        return f"parity:{rng.integers(1, 5)}:<={rng.integers(0, 3)}"
    return f"{rng.choice(['prefix', 'identity', 'total', 'ranges'])}:{size}"


def random_privacy(rng: np.random.Generator) -> Privacy:
    neighbours: Any = rng.choice(["add-remove", "replace-one"])
    kind = rng.integers(3)
    if kind == 0:
        return Privacy(rho=float(rng.choice(RHOS)), neighbours=neighbours)
    delta = float(rng.choice(DELTAS)) if kind == 1 else None
    return Privacy(
        epsilon=float(rng.choice(EPSILONS)), delta=delta, neighbours=neighbours
    )


def fuzz(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, privacy = random_text(rng), random_privacy(rng)
    error: Any = ["rmse", 3.0, "max"][rng.integers(3)]
    tried(lambda: used(text, privacy, error))
    norm = [2, 4, np.inf][rng.integers(3)]
    tried(
        lambda: nw.factorize(text, norm, neighbours=privacy.neighbours, iterations=100)
    )
    if seed % 4 == 0:
        tried(lambda: nw.compare(text, privacy))
    if seed % 8 == 1:
        tried(
            lambda: nw.approximate_norm(text, 0.1, shift=seed % 16 == 1, iterations=20)
        )


@pytest.mark.parametrize("seed", range(24))
def test_random_texts_and_budgets(seed: int) -> None:
    fuzz(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_random_texts_and_budgets(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        fuzz(seed)
