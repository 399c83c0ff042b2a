"""A domain of 2^20 cells, for every local mechanism whose reports have a constant size.

    python benchmarks/local_large.py [MECHANISM WORKLOAD]

One process per line, so that the peak of memory is its own: seconds to plan, to randomise a million
people, to aggregate their encoded reports, to estimate with standard errors; megabytes at the peak;
and the root mean square of (estimate − truth)/standard error, which is near one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import numpy as np

import noisewright as nw
from noisewright.errors import NoisewrightError
from noisewright.local.mechanism import EFFORT_VARIABLE

# Said for all mechanisms: those that search nothing refuse an effort of their own.
os.environ.setdefault(EFFORT_VARIABLE, "low")

PEOPLE = 1_000_000
CASES = [
    ("randomized-response", "identity:1048576"),
    ("randomized-response", "prefix:1048576"),
    ("local-hashing", "identity:1048576"),
    ("local-hashing", "prefix:1048576"),
    ("hierarchical", "identity:1048576"),
    ("hierarchical", "prefix:1048576"),
    ("fourier", "identity:1048576"),
    ("fourier", "prefix:1048576"),
    ("fourier", "marginals:2^20:2"),
    ("union", "marginals:2^20:2"),
    ("union", "marginals:2^50:2"),
    ("optimised", "marginals:2^20:2"),
    ("one-bit", "prefix:1048576"),
    ("privunit", "prefix:1048576"),
    ("one-bit", "marginals:2^20:2"),
    ("privunit", "marginals:2^20:2"),
]


def run(mechanism: str, text: str) -> str:
    seconds = []

    def lap() -> None:
        seconds.append(time.perf_counter())

    lap()
    plan = nw.plan(text, nw.Privacy(epsilon=1.0), nw.Local(mechanism=mechanism))
    plan.forecast(PEOPLE)
    lap()
    rng = np.random.default_rng(0)
    cells = np.minimum(rng.geometric(4 / 2**20, PEOPLE), 2**20) - 1
    if plan.strategy.size > 2**20:
        cells = rng.integers(0, plan.strategy.size, PEOPLE)
    lap()
    reports = plan.client.randomize_many(cells)
    lap()
    collected = plan.aggregate(plan.format.decode(reports))
    lap()
    found = plan.estimate(collected)
    lap()
    z = "-"
    if plan.strategy.size <= 2**20:
        truth = plan.workload.matvec(np.bincount(cells, minlength=plan.strategy.size))
        sure = found.std > 1e-6 * found.std.max()
        z = f"{np.sqrt(np.mean(((found.answers - truth)[sure] / found.std[sure]) ** 2)):.3f}"
    planned, _, randomised, aggregated, estimated = np.diff(seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{mechanism:21}{text:19}{plan.format.length:6}{planned:8.1f}{randomised:10.1f}"
        f"{aggregated:10.1f}{estimated:9.1f}{peak:8,.0f}{z:>8}"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        try:
            print(run(*sys.argv[1:]))
        except NoisewrightError as refusal:
            print(f"{sys.argv[1]:21}{sys.argv[2]:19}refused: {refusal}")
        sys.exit()
    print(
        f"{'mechanism':21}{'workload':19}{'bytes':>6}{'plan s':>8}{'client s':>10}"
        f"{'collect s':>10}{'answer s':>9}{'MB':>8}{'z rms':>8}"
    )
    for case in CASES:
        subprocess.run([sys.executable, __file__, *case], check=True)
