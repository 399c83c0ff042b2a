"""What Spark costs on one machine: a release's counts beside DuckDB's, over the same Parquet files.

    python benchmarks/spark_overhead.py                  # 10^5 to 10^7 rows
    python benchmarks/spark_overhead.py --rows 1000000

Spark runs in local mode with two threads. Seconds are of the clock and of processors, those of the
Java machine included; a busy machine stretches the first by far more than the second.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counting import PEOPLE, TABLES, write_people

from noisewright.tables.backends.spark import SparkCounter
from noisewright.tables.counter import DuckDBCounter


def processors(java: int | None) -> float:
    """Seconds of processors so far, of this process and of the Java machine."""
    own = time.process_time()
    if java is None:
        return own
    fields = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def timed(what: str, java: int | None, job: Callable[[], Any]) -> Any:
    begin, before = time.perf_counter(), processors(java)
    result = job()
    spent = processors(java) - before
    print(
        f"{what:36}{time.perf_counter() - begin:8.2f} s {spent:8.2f} s of processors",
        flush=True,
    )
    return result


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "1g",
                "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**7, help="the largest table")
    parser.add_argument(
        "--folder", help="keep tables here, and use those that are there"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given.folder or scratch)
        spark = timed("Spark: start of a session", None, session)
        java = spark.sparkContext._gateway.proc.pid
        print(
            f"{'  of which in Java':36}{'':10} {processors(java) - time.process_time():8.2f} s"
        )
        rows = 10**5
        while rows <= given.rows:
            path = folder / f"people-{rows}.parquet"
            if not path.exists():
                write_people(path, rows)
            ours = timed(
                f"DuckDB: {rows:,} rows",
                None,
                lambda p=path: DuckDBCounter().marginals(p, PEOPLE, TABLES),
            )
            for turn in ("first", "again"):
                frame = spark.read.parquet(str(path))
                counts = timed(
                    f"Spark:  {rows:,} rows, {turn}", java,
                    lambda f=frame: SparkCounter().marginals(f, PEOPLE, TABLES),
                )  # fmt: skip
                assert all((a == b).all() for a, b in zip(ours, counts, strict=True))
            rows *= 10
        spark.stop()


if __name__ == "__main__":
    main()
