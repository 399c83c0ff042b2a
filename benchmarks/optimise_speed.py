"""The local optimiser against Algorithms 1 and 2 of [003], and its time per iteration.

python benchmarks/optimise_speed.py [reach|iterations] [--cap SECONDS] [--chart FILE.svg]

`reach` runs the plain implementation of the published algorithms under tests/oracles for 500
iterations, or up to the cap, and times how long noisewright takes to reach the value it ended at
(average-case error of prefix sums, ε = 1). `iterations` times one step of the dense descent with
m = 4n rows, as the paper does (139 s at n = 4096 there), and draws it against n. Without a word
both are run: some minutes and 8 GB of memory for n = 4096 (--largest 2048 for less).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from noisewright.local.optimise.dense.descent import Chart
from noisewright.local.optimise.dense.design import spectral_patterns
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.quasinewton import minimise
from noisewright.local.optimise.run import optimise
from noisewright.workload import workload
from oracles import published_optimiser

EPSILON = 1.0
ITERATIONS = 500
TRIALS = 10
PAPER = {1024: 2.5, 2048: 19.0, 4096: 139.0}


# --- time to reach a value ------------------------------------------------------------------------


def published(gram: np.ndarray, cap: float) -> tuple[float, float, float, int]:
    """Value the published algorithms end at, seconds until it was first met, total, iterations.

    The search for a step size counts, as it does for their users.
    """
    began = time.perf_counter()
    trace: list[tuple[float, float]] = []
    start = published_optimiser._start(gram, EPSILON, 0)
    by_q, _ = published_optimiser.gradients(*start, EPSILON, gram)
    scale = 1.0 / (len(gram) * np.abs(by_q).max())
    best = None
    for step in scale * 10.0 ** np.arange(-3.0, 2.0):
        q, z, values = published_optimiser.run(
            gram, EPSILON, step, TRIALS, None, start=start
        )
        if np.isfinite(values[-1]) and (best is None or values[-1] < best[0]):
            best = values[-1], step, (q, z)
    assert best is not None
    _, step, state = best
    done = 0
    while done < ITERATIONS and time.perf_counter() - began < cap:
        q, z, values = published_optimiser.run(
            gram, EPSILON, step, 1, None, start=state
        )
        state, done = (q, z), done + 1
        trace.append((time.perf_counter() - began, values[-1]))
    final = min(value for _, value in trace)
    first = next(seconds for seconds, value in trace if value <= final * (1 + 1e-9))
    return final, first, time.perf_counter() - began, done


def ours(n: int, variance: float) -> tuple[float, float]:
    """Seconds until the finished, rounded strategy is at least that good, and its variance."""
    text, target = f"prefix:{n}", None
    floor = optimise(
        workload(text), EPSILON, objective="average", effort="low"
    ).lower_bound
    for margin in (0.0, 0.005, 0.02, 0.05):
        target = variance / floor * (1 - margin)
        found = optimise(
            workload(text),
            EPSILON,
            objective="average",
            target_ratio=target,
            cache=False,
        )
        if found.value <= variance:
            return found.seconds, found.value
    return float("inf"), found.value


def reach(cap: float) -> None:
    """Print both times for n = 64 and 256, and their quotient."""
    print(
        f"time to reach the final value of the published algorithms, prefix, ε = {EPSILON:g}"
    )
    for n in (64, 256):
        gram = workload(f"prefix:{n}").gram().dense()
        value, first, total, done = published(gram, cap)
        variance = (value - float(np.trace(gram))) / n
        seconds, reached = ours(n, variance)
        whole = (
            ""
            if done == ITERATIONS
            else f" (stopped at the cap after {done} iterations)"
        )
        print(
            f"n = {n}: published {first:.1f} s of {total:.1f} s{whole}, variance {variance:.4f}"
        )
        print(f"        noisewright {seconds:.2f} s, variance {reached:.4f}")
        least = "" if done == ITERATIONS else "at least "
        print(f"        {least}{first / seconds:.0f} times faster", flush=True)


# --- time per iteration ---------------------------------------------------------------------------


def iteration(n: int, steps: int) -> float:
    """Seconds per step of the dense descent with 4n rows."""
    rng = np.random.default_rng(0)
    objective = Objective(workload(f"prefix:{n}").gram().dense(), np.full(n, 1.0 / n))
    patterns = spectral_patterns(np.eye(n), EPSILON, 4 * n, rng)
    chart = Chart(4 * n, n, EPSILON)
    x = chart.variables(0.1 + 0.8 * patterns, np.ones(4 * n))
    marks = [time.perf_counter()]

    def mark(_: object, __: float) -> bool:
        marks.append(time.perf_counter())
        return len(marks) > steps + 1

    minimise(lambda v: chart.evaluate(v, objective), x, steps + 1, 3, stop=mark)
    # The first step also evaluates the start: the others are what every further one costs.
    return float(np.median(np.diff(marks)[1:]))


def iterations(largest: int, chart: str | None) -> None:
    """Print seconds per iteration for n = 64 … 4096, and draw them."""
    print(
        "seconds per iteration of the dense descent, m = 4n (the paper's in brackets)"
    )
    rows = []
    for n in (64, 128, 256, 512, 1024, 2048, 4096):
        if n > largest:
            break
        seconds = iteration(n, 9 if n <= 512 else 3 if n <= 1024 else 2)
        rows.append({"n": n, "seconds": seconds, "code": "noisewright"})
        paper = f"  ({PAPER[n]:g})" if n in PAPER else ""
        print(f"n = {n:>5}: {seconds:10.4f} s{paper}", flush=True)
    if chart is not None:
        rows += [
            {"n": n, "seconds": s, "code": "[003], as printed"}
            for n, s in PAPER.items()
        ]
        Path(chart).write_text(drawn(rows), encoding="utf-8")
        print(f"chart: {chart}")


def drawn(rows: list[dict[str, object]]) -> str:
    """Time against n, both on logarithmic axes, as SVG."""
    import altair as alt
    import vl_convert

    from noisewright.report.charts import styled_chart

    x = alt.X("n:Q", title="cells n, with 4n rows").scale(type="log", base=2)
    y = alt.Y("seconds:Q", title="seconds per iteration").scale(type="log")
    code = alt.Color("code:N", title=None).scale(range=["#9aa3af", "#1f5fbf"])
    base = alt.Chart(alt.Data(values=rows)).encode(x, y, code)
    both = alt.layer(base.mark_line(), base.mark_point(filled=True, size=50))
    return str(
        vl_convert.vegalite_to_svg(
            styled_chart(both.properties(width=460, height=300), "white").to_json(),
            vl_version="6.4",
        )
    )


def main() -> None:
    """Run what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "part", nargs="?", choices=["reach", "iterations", "all"], default="all"
    )
    parser.add_argument(
        "--cap", type=float, default=150.0, help="seconds for the slow code"
    )
    parser.add_argument(
        "--largest", type=int, default=4096, help="largest n of an iteration"
    )
    parser.add_argument("--chart", help="SVG file for the time per iteration")
    told = parser.parse_args()
    if told.part in ("reach", "all"):
        reach(told.cap)
    if told.part in ("iterations", "all"):
        iterations(told.largest, told.chart)


if __name__ == "__main__":
    main()
