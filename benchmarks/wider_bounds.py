"""Plans over the bounds for any noise, any unbiased mechanism and any mechanism, in one run.

python benchmarks/wider_bounds.py [WORKLOAD ...]
"""

from __future__ import annotations

import sys
import time

import noisewright as nw
from noisewright.solution import BoundClass

WORKLOADS = (
    "total:1",
    "identity:64",
    "prefix:8",
    "prefix:64",
    "ranges:64",
    "marginals:2^8:3",
)
BUDGETS = (
    nw.Privacy(epsilon=1.0),
    nw.Privacy(epsilon=2.0),
    nw.Privacy(rho=0.05),
    nw.Privacy(rho=0.1),
    nw.Privacy(epsilon=1.0, delta=1e-6),
)
SHORT = {
    BoundClass.ANY_NOISE: "any noise",
    BoundClass.ANY_UNBIASED: "unbiased",
    BoundClass.ANY_MECHANISM: "any mechanism",
}


def main(workloads: tuple[str, ...]) -> None:
    """Print the error of the best plan and its ratio to the bound of every class."""
    for privacy in BUDGETS:
        print(privacy.text())
        for text in workloads:
            plan = nw.plan(text, privacy)
            began = time.perf_counter()
            limits = {SHORT[b.bound_class]: b for b in plan.bounds}
            seconds = time.perf_counter() - began
            linear = plan.forecast().ratio
            ratios = [
                ("linear", linear),
                *((name, b.ratio) for name, b in limits.items()),
            ]
            told = ", ".join(
                f"{name} {ratio:.3f}" for name, ratio in ratios if ratio is not None
            )
            print(f"  {text:16} {plan.mechanism.name:18} {plan.achieved:8.4f}  over: {told}"
                  f"  (bounds in {seconds / max(plan.seconds, 1e-9):.2f} × planning)")  # fmt: skip


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or WORKLOADS)
