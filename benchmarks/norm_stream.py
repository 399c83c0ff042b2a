"""A million steps of a private running count: time per step, memory of the stream, error."""

from __future__ import annotations

import math
import time
import tracemalloc

import noisewright as nw

STEPS = 1_000_000


def main() -> None:
    plan = nw.plan(nw.RunningCount(STEPS), nw.Privacy(rho=0.1))
    stream = plan.start()
    began = time.perf_counter()
    for _ in range(STEPS):
        stream.step(3)
    seconds = time.perf_counter() - began
    factorization = plan.mechanism.factorization
    print(f"{STEPS} steps in {seconds:.1f} s, {1e6 * seconds / STEPS:.1f} µs each")
    tracemalloc.start()
    short = plan.start()
    for _ in range(5000):
        short.step(3)
    print(
        f"memory of a stream: {tracemalloc.get_traced_memory()[1] / 1024:.0f} kB at its peak"
    )
    print(f"{factorization.memory} running sums; rmse {factorization.value(2):.4f} and largest "
          f"{factorization.value(math.inf):.4f} per unit of noise, bound "
          f"{factorization.lower_bound(2):.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
