"""How far local plans are above what no unbiased linear estimate can beat: certified ratios.

python benchmarks/local_certificates.py [--effort low|normal|high] [WORKLOAD ...]

A line per workload: the certified ratio at ε = 1, 2, 3, 4, 6, with the first letters of its proof
(trace, prior, order, tables, sets, cuts), and the seconds of all plans together. Nothing is cached.
"""

from __future__ import annotations

import argparse
import time

import noisewright as nw

BUDGETS = (1.0, 2.0, 3.0, 4.0, 6.0)
NAMED = (
    "prefix:64",
    "prefix:12*identity:5",
    "prefix:8*prefix:8",
    "random:20x64:0",
    "random:8x64:0",
    "ranges:64",
    "marginals:2^6:2",
    "parity:6:<=3",
    "parity:8:<=3",
    "prefix:256",
    "prefix:16*prefix:16",
    "prefix:512",
)
SMALL = 64


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=NAMED)
    parser.add_argument("--effort", help="normal to 64 cells and high beyond, unless told")
    arguments = parser.parse_args()
    head = "".join(f"{f'ε = {epsilon:g}':>12}" for epsilon in BUDGETS)
    print(f"{'workload':<22}{head}{'seconds':>10}")
    for text in arguments.workloads:
        began = time.perf_counter()
        effort = arguments.effort or ("normal" if nw.workload(text).size <= SMALL else "high")
        print(f"{text:<22}", end="", flush=True)
        for epsilon in BUDGETS:
            budget = nw.Privacy(epsilon=epsilon)
            plan = nw.plan(text, budget, model="local", effort=effort, cache=False)
            facts = plan.summary()
            ratio = facts["certified_ratio"]
            shown = "none" if ratio is None else f"{ratio:.4f} {facts['certificate'][:2]}"
            print(f"{shown:>12}", end="", flush=True)
        print(f"{time.perf_counter() - began:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
