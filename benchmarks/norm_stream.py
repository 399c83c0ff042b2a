"""A million steps of a private running count: time per step, memory of the stream, error."""

from __future__ import annotations

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
    print(f"{STEPS} steps in {seconds:.1f} s, {1e6 * seconds / STEPS:.1f} µs each")
    tracemalloc.start()
    short = plan.start()
    for _ in range(5000):
        short.step(3)
    print(
        f"memory of a stream: {tracemalloc.get_traced_memory()[1] / 1024:.0f} kB at its peak"
    )
    told = plan.forecast()
    print(
        f"{plan.mechanism.memory} running sums; rmse {told.rmse:.4f}, largest {told.max:.4f}"
    )
    print(f"times the bound for linear strategies under this noise: {told.ratio:.4f}")


if __name__ == "__main__":
    main()
