"""One million rows of CSV, counted and released: seconds, peak memory, and what the privacy costs.

    python benchmarks/release.py [rows]

The plan is the demonstration's: CDFs of age and income and all two-way tables at ε = 1, δ = 1e-9.
The ratio compares the whole release with only counting the same tables.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.csv

import noisewright as nw
from noisewright.demo.people import domain, people, questions
from noisewright.tables.counter import DuckDBCounter


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "people.csv"
        pyarrow.csv.write_csv(people(rows, seed=1), table)
        began = time.perf_counter()
        asked = nw.Workload.from_spec(questions(), domain())
        plan = nw.plan(
            asked,
            nw.Privacy(epsilon=1, delta=1e-9),
            nw.Central(composition="many"),
        )
        planned = time.perf_counter()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        release = plan.release(str(table))
        released = time.perf_counter()
        names = [tuple(domain().names[i] for i in t) for t in plan.mechanism.tables()]
        DuckDBCounter().marginals(str(table), domain(), names)
        counted = time.perf_counter() - released
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{rows:,} rows of CSV, {len(release):,} answers")
    print(f"planned in {planned - began:.2f} s, released in {released - planned:.2f} s")
    print(f"ratio of releasing to counting alone: {(released - planned) / counted:.2f}")
    print(
        f"peak memory {peak / 1024:.0f} MB ({before / 1024:.0f} MB before the release)"
    )


if __name__ == "__main__":
    main()
