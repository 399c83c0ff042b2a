"""A hundred million local reports: drawn from a table's rows and added up, none of them kept.

    python benchmarks/local_scale.py                    # 10^7 reports
    python benchmarks/local_scale.py --reports 100000000

A table of cells in Parquet is read, every row's report is drawn and added to an aggregate, as on
one machine of a cluster; then the histogram is estimated. Seconds of processors are those of the
reports alone; peak memory is that of the process so far.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb

import noisewright as nw

ResultT = TypeVar("ResultT")

CELLS = 1024
MECHANISMS = ("randomized-response", "hadamard", "subset-selection")


def write_cells(path: Path, rows: int) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT CAST(hash(i) % {CELLS} AS SMALLINT) AS cell FROM range({rows}) t(i)) "
            f"TO '{path}' (FORMAT parquet)"
        )


def seconds(job: Callable[[], ResultT]) -> tuple[float, float, ResultT]:
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = job()
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, spent, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=10**7)
    parser.add_argument("--mechanism", choices=MECHANISMS, action="append")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "cells.parquet")
        write_cells(table, given.reports)
        for name in given.mechanism or MECHANISMS:
            plan = nw.plan(
                f"identity:{CELLS}", nw.Privacy(epsilon=1), nw.Local(mechanism=name)
            )
            wall, spent, aggregate = seconds(lambda plan=plan: plan.tally_table(table))
            assert aggregate.people == given.reports
            estimated, _, _ = seconds(
                lambda plan=plan, a=aggregate: plan.estimate(a).answers
            )
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name:20}{given.reports:>12,} reports {wall:8.2f} s {spent:8.2f} s of processors"
                f" {1e9 * spent / given.reports:6.0f} ns each, estimated in {estimated:.2f} s,"
                f" peak {peak:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
