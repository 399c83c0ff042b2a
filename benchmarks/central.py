"""Central strategies: errors per unit of noise, certified ratios, seconds and peak memory.

    python benchmarks/central.py            # everything but the slow rows
    python benchmarks/central.py --slow     # with 1,024 cells under pure privacy

Set NOISEWRIGHT_SHARED to a folder with data/adult/adult-domain.json for the real domain. Each row
prints what was measured in this run beside the figure to reach.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import noisewright as nw
from noisewright.workload import Identity, Marginals, Prefix, Workload

ZCDP, PURE = nw.Privacy(rho=0.5), nw.Privacy(epsilon=1)
UNIONS = (
    "prefix:16*identity:8+identity:16*prefix:8",
    "ranges:32*total:10+total:32*identity:10+prefix:32*identity:10",
    "prefix:64*identity:64+identity:64*prefix:64",
    "prefix:32*prefix:32*identity:4+identity:32*identity:32*total:4",
    "prefix:32*identity:32*total:8+identity:32*total:32*prefix:8+total:32*ranges:32*identity:8",
)


def up_to(bases: list[Workload], ways: int) -> Marginals:
    orders = range(ways + 1)
    tables = tuple(
        t for k in orders for t in itertools.combinations(range(len(bases)), k)
    )
    return Marginals(tuple(bases), tables)


def adult() -> Marginals | None:
    folder = Path(
        os.environ.get("NOISEWRIGHT_SHARED", Path(__file__).parents[2] / "shared")
    )
    path = folder / "data" / "adult" / "adult-domain.json"
    if not path.exists():
        print("the real domain is absent; its row is left out")
        return None
    return Marginals.of_order(
        tuple(json.loads(path.read_text()).values()), 3, at_most=True
    )


def row(
    name: str,
    asked: Workload | str,
    privacy: nw.Privacy,
    target: float,
    error: str = "rmse",
) -> None:
    """The error per unit of noise: of the strategy, and of its integers as they are measured."""
    began = time.perf_counter()
    plan = nw.plan(asked, privacy, nw.Central(error=error))
    seconds = time.perf_counter() - began
    planned = plan.proposal
    ratio = "" if planned.bound is None else f"{planned.value / planned.bound:.5f}"
    print(
        f"{name:44s} {plan.mechanism.name:18s} {planned.value:10.5f} {plan.unit_error:10.5f} "
        f"{target:10.5f} {planned.value / target:12.5f} {ratio:>10s} {seconds:8.2f}"
    )


def union(text: str, error: str, privacy: nw.Privacy = ZCDP) -> None:
    """Every way to plan a union of products: error over the best certified bound."""
    rows = [
        r
        for r in nw.compare(text, privacy, nw.Central(error=error))
        if r.refusal is None
    ]
    told = ", ".join(
        f"{r.mechanism} {r.ratio:.4f} ({r.seconds:.1f} s)" for r in rows if r.ratio
    )
    print(f"{text} ({error}, {privacy.neighbours}): {told}")


def wide() -> None:
    """100 attributes of ten values, all tables of at most two of them, 100,000 people."""
    rng = np.random.default_rng(0)
    domain = nw.Domain([nw.Categorical(f"a{i}", list(range(10))) for i in range(100)])
    table = pa.table({f"a{i}": rng.integers(0, 10, 100_000) for i in range(100)})
    asked = Marginals.of_order((10,) * 100, 2, at_most=True)
    began = time.perf_counter()
    plan = nw.plan(asked, nw.Privacy(epsilon=1, delta=1e-9), domain=domain)
    planned = time.perf_counter() - began
    began = time.perf_counter()
    release = plan.release(table)
    released = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"100 attributes of 10 values, tables of <= 2: {len(release):,} answers; planned in "
        f"{planned:.1f} s (limit 10), released in {released:.1f} s (limit 60), "
        f"peak {memory:.2f} GB (limit 2)"
    )


def main() -> None:
    wide()
    print(f"{'workload':44s} {'mechanism':18s} {'value':>10s} {'measured':>10s} {'target':>10s} "
          f"{'value/target':>12s} {'certified':>10s} {'seconds':>8s}")  # fmt: skip
    for text, target in (
        ("marginals:2^8:3", 2.81843),
        ("marginals:2^8:<=3", 2.90670),
        ("allmarginals:2^8", 2.39500),
        ("prefix:16*prefix:16*identity:4", 2.85408),
    ):
        row(text, text, ZCDP, target)
    for text, target in (
        ("marginals:2^8:3", 2.81843),
        ("marginals:2^8:<=3", 2.97521),
        ("allmarginals:2^8", 3.16050),
    ):
        row(f"largest error, {text}", text, ZCDP, target, "max")
    if (real := adult()) is not None:
        row("all <= 3-way tables of 14 attributes", real, ZCDP, 10.666)
    mixed = up_to([Prefix(16), Prefix(16), Identity(4), Identity(5)], 2)
    row("<= 2-way, prefix 16, prefix 16, 4, 5 values", mixed, ZCDP, 4.01196)
    pure = [
        ("prefix:64", 3.764),
        ("ranges:64", 3.927),
        ("marginals:2^8:3", 5.657),
        ("allmarginals:2^8", 3.160),
        ("prefix:16*prefix:16*identity:4", 6.613),
    ]
    slow = [("prefix:1024", 6.803), ("ranges:1024", 7.896)]
    for text, target in pure + (slow if "--slow" in sys.argv else []):
        row(f"pure, {text}", text, PURE, target)
    for text in UNIONS:
        for error in ("rmse", "max"):
            union(text, error)
        union(text, "rmse", nw.Privacy(rho=0.5, neighbours="replace-one"))


if __name__ == "__main__":
    main()
