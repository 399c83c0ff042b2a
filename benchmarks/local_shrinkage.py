"""What biased answers gain at ε = 1: worst and typical squared errors over the unbiased ones.

At the numbers of people where the unbiased variance per query is 0.1, 0.01 and 0.001 of people²:

    python benchmarks/local_shrinkage.py [workload ...]

*Worst* is the affine minimax estimate on its worst table, exact, with its certified gap. *Typical*
is the median over eleven tables (everybody in one cell at either end or in the middle, two cells,
even, a slope, a bell, and draws of Dirichlet distributions), simulated. *Projected* are answers of
the best fitting table of people, on the worst and the median of the same tables. Coverage is the
least over tables of the share of answers inside the 95 % intervals that are stated with them.
"""

from __future__ import annotations

import sys
from math import ceil

import numpy as np

import noisewright as nw

WORKLOADS = "identity:64", "prefix:64", "ranges:32", "marginals:2^6:3"
VARIANCES = 0.1, 0.01, 0.001
RUNS = 60


def tables(size: int, people: int) -> list[np.ndarray]:
    """Eleven tables of so many people."""
    rng, at = np.random.default_rng(0), np.arange(size)
    shapes = [np.eye(size)[k] for k in (0, size // 2, size - 1)]
    shapes += [np.eye(size)[0] + np.eye(size)[-1], np.ones(size), at + 1.0]
    shapes += [np.exp(-(((at - size / 2) / (size / 8)) ** 2)), 0.8**at]
    shapes += [rng.dirichlet(np.full(size, c)) for c in (0.03, 0.2, 1.0)]
    return [rng.multinomial(people, shape / shape.sum()) for shape in shapes]


def line(text: str) -> None:
    plan = nw.plan(text, nw.Privacy(epsilon=1), nw.Local(effort="low"))
    needed = plan.analysis.worst_case / plan.workload.queries
    for variance in VARIANCES:
        people = max(1, ceil(needed / variance))
        shrunk = plan.shrinkage(people)
        told = [
            plan.rehearse(table, runs=RUNS, rng=np.random.default_rng(k))
            for k, table in enumerate(tables(plan.strategy.size, people))
        ]
        shares = {
            kind: np.array(
                [(each.rmse[kind] / each.rmse["unbiased"]) ** 2 for each in told]
            )
            for kind in ("shrunk", "non_negative")
        }
        projected = np.array([each.rmse["non_negative"] ** 2 for each in told])
        worst = shrunk.unbiased / plan.workload.queries
        covered = {k: min(each.coverage[k] for each in told) for k in told[0].coverage}
        print(
            f"{text} ({plan.mechanism.name}) {variance:g} N {people:,}: "
            f"worst {shrunk.share**2:.3f} (gap {shrunk.gap:.1e}) typical "
            f"{np.median(shares['shrunk']):.3f} | "
            f"projected, worst table {projected.max() / worst:.3f} "
            f"typical {np.median(shares['non_negative']):.3f} | coverage "
            + ", ".join(f"{kind} {share:.3f}" for kind, share in covered.items()),
            flush=True,
        )


if __name__ == "__main__":
    for name in sys.argv[1:] or WORKLOADS:
        line(name)
