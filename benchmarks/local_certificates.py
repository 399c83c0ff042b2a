"""How far optimised local plans are above the trace bound, and above the highest bound known.

python benchmarks/local_certificates.py [SIZE]
"""

from __future__ import annotations

import sys
import time

import noisewright as nw
from noisewright.local.bounds.trace import best_bound
from noisewright.local.choose.cost import ALPHA


def main() -> None:
    """Print a line per workload and ε."""
    bits = int(sys.argv[1]).bit_length() - 1 if len(sys.argv) > 1 else 6
    n = 2**bits
    named = [f"prefix:{n}", f"ranges:{n}", f"allmarginals:2^{bits}", f"marginals:2^{bits}:3"]
    print(f"{'workload':<18}{'ε':>4}{'people':>12}{'trace':>9}{'best':>9}  proof    seconds")
    for text in [*named, f"parity:{bits}:<=3"]:
        for epsilon in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0):
            plan = nw.plan(text, nw.Privacy(epsilon=epsilon), model="local")
            start = time.perf_counter()
            best = best_bound(plan.workload, epsilon)
            seconds = time.perf_counter() - start
            needed, trace = plan.sample_complexity(ALPHA), plan.comparison.ratio
            ratio = needed / best.sample_complexity(ALPHA)
            shown = f"{trace:.4f}" if trace else "none"
            line = f"{text:<18}{epsilon:>4g}{needed:>12,.1f}{shown:>9}{ratio:>9.4f}  {best.name:<8}"
            print(f"{line} {seconds:.2f}", flush=True)


if __name__ == "__main__":
    main()
