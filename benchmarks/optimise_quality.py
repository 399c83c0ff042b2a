"""How close optimised local strategies come to the lower bound, and how long they take.

python benchmarks/optimise_quality.py [table|reference|seeds|large] ...

`table`: six workloads at 64 and 512 cells, ε = 1, against the ratios aimed at. `reference`: every
cell of the shared reference against the better of the published and the corrected code. `seeds`:
the spread over ten seeds at 64 cells. `large`: 4096 cells and more. All by default settings,
nothing cached: ratio of worst-case sample complexity to the trace bound for uniform people.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

from noisewright.local.optimise.optimised import Optimised
from noisewright.local.optimise.run import optimise
from noisewright.workload import workload

AIMS = {
    "identity:64": 1.0001,
    "prefix:64": 1.09,
    "ranges:64": 1.05,
    "allmarginals:2^6": 1.02,
    "marginals:2^6:3": 1.07,
    "parity:6:<=3": 1.07,
    "identity:512": 1.0001,
    "prefix:512": 1.20,
    "ranges:512": 1.09,
    "allmarginals:2^9": 1.04,
    "marginals:2^9:3": 1.21,
    "parity:9:<=3": 1.22,
}
LARGE = {
    "allmarginals:2^12": (None, 2),
    "marginals:2^12:3": (None, None),
    "allmarginals:2^16": (1.07, 10),
    "ranges:65536": (1.25, 120),
    "prefix:65536": (1.6, 120),
    "allmarginals:2^20": (None, 60),
}
SHARED = os.environ.get("NOISEWRIGHT_SHARED", Path(__file__).parents[2] / "shared")


def found(text: str, epsilon: float = 1.0, seed: int = 0) -> Optimised:
    """A strategy by default settings, not from the cache."""
    return optimise(workload(text), epsilon, seed=seed, cache=False)


def table() -> None:
    """The ratios at ε = 1."""
    print(f"{'workload':<20}{'ratio':>9}{'aim':>9}{'seconds':>9}")
    for text, aim in AIMS.items():
        got = found(text)
        mark = "" if got.ratio <= aim else "  MISSED"
        print(
            f"{text:<20}{got.ratio:>9.4f}{aim:>9.4g}{got.seconds:>9.1f}{mark}",
            flush=True,
        )


def reference() -> None:
    """Every published cell."""
    path = Path(SHARED) / "reference" / "local.csv"
    if not path.exists():
        print("no shared reference here (NOISEWRIGHT_SHARED)")
        return
    cells: dict[tuple[str, float], float] = defaultdict(lambda: float("inf"))
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["mechanism"].startswith("published optimiser"):
                key = row["workload"], float(row["epsilon"])
                cells[key] = min(cells[key], float(row["sample_complexity_alpha_0.01"]))
    print(f"{'workload':<20}{'ε':>5}{'people':>12}{'published':>12}{'seconds':>9}")
    for (text, epsilon), people in cells.items():
        got = found(text, epsilon)
        ours = got.value / workload(text).queries / 0.01
        mark = "" if ours <= people * (1 + 1e-9) else "  WORSE"
        line = (
            f"{text:<20}{epsilon:>5g}{ours:>12,.1f}{people:>12,.1f}{got.seconds:>9.1f}"
        )
        print(line + mark, flush=True)


def seeds() -> None:
    """Largest over smallest error of ten seeds."""
    for text in list(AIMS)[1:6]:
        values = [found(text, seed=seed).value for seed in range(10)]
        print(
            f"{text:<20} spread over ten seeds {max(values) / min(values) - 1:.3%}",
            flush=True,
        )


def large() -> None:
    """Large domains, wall time of the whole call; libraries are loaded before."""
    optimise(workload("prefix:8"), 1.0, cache=False)
    print(f"{'workload':<20}{'ratio':>9}{'aim':>7}{'seconds':>9}{'aim':>7}")
    for text, (ratio, seconds) in LARGE.items():
        asked, began = workload(text), time.perf_counter()
        got = optimise(asked, 1.0, cache=False)
        took = time.perf_counter() - began
        missed = (ratio is not None and got.ratio > ratio) or (seconds or took) < took
        line = (
            f"{text:<20}{got.ratio:>9.4f}{ratio or '':>7}{took:>9.1f}{seconds or '':>7}"
        )
        print(line + ("  MISSED" if missed else ""), flush=True)


def main() -> None:
    """Run the parts that were named, or all."""
    parts = {"table": table, "reference": reference, "seeds": seeds, "large": large}
    for name in sys.argv[1:] or list(parts):
        print(f"--- {name}")
        parts[name]()


if __name__ == "__main__":
    main()
