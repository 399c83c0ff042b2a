"""Counting tables of people: seconds, peak memory, and the ratio to counting in SQL.

    python benchmarks/counting.py

Two jobs: one million rows of CSV with five attributes (every marginal of up to three of them),
and 100,000 rows of Parquet with 100 attributes of ten values (all 5,050 marginals of one or two).
Each runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
from noisewright.tables.counter import DuckDBCounter

PEOPLE = Domain(
    [
        Numeric.integers("age", 0, 99, outside="clip"),
        Categorical("sex", ["F", "M"], outside="other"),
        Categorical("region", [f"region {i}" for i in range(16)]),
        Boolean("employed"),
        Date("admitted", "2024-01-01", "2024-12-31", "month"),
    ]
)
WIDE = Domain([Categorical(f"a{i}", list(range(10))) for i in range(100)])


def subsets(domain: Domain, most: int) -> list[tuple[str, ...]]:
    return [s for k in range(1, most + 1) for s in itertools.combinations(domain.names, k)]


def write_people(path: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    days = np.datetime64("2024-01-01") + rng.integers(0, 366, rows)
    table = pa.table(
        {
            "age": rng.integers(0, 110, rows),
            "sex": np.array(["F", "M", "X"])[rng.integers(0, 3, rows)],
            "region": np.array([f"region {i}" for i in range(16)])[rng.integers(0, 16, rows)],
            "employed": rng.random(rows) < 0.6,
            "admitted": days,
        }
    )
    pyarrow.csv.write_csv(table, path)


def write_wide(path: Path, rows: int) -> None:
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, 10, rows, dtype=np.int8) for name in WIDE.names}
    pyarrow.parquet.write_table(pa.table(columns), path)


def ours(path: Path, domain: Domain, most: int) -> list[np.ndarray]:
    return DuckDBCounter().marginals(path, domain, subsets(domain, most))


def sql_people(path: Path, domain: Domain, most: int) -> list[np.ndarray]:
    """Encode and count in SQL: GROUPING SETS over the same cells."""
    codes = f"""
        SELECT least(TRY_CAST(age AS INTEGER), 99) AS age,
               CASE sex WHEN 'F' THEN 0 WHEN 'M' THEN 1 ELSE 2 END AS sex,
               CAST(substr(region, 8) AS INTEGER) AS region,
               CAST(employed = 'true' AS INTEGER) AS employed,
               month(CAST(admitted AS DATE)) - 1 AS admitted
        FROM read_csv('{path}', all_varchar = true)"""
    return grouping_sets(codes, domain, most)


def sql_wide(path: Path, domain: Domain, most: int) -> list[np.ndarray]:
    return grouping_sets(f"SELECT * FROM read_parquet('{path}')", domain, most, batch=32)


def grouping_sets(codes: str, domain: Domain, most: int, batch: int = 25) -> list[np.ndarray]:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"CREATE TEMP TABLE codes AS {codes}")
    counts = []
    wanted = subsets(domain, most)
    for chunk in (wanted[i : i + batch] for i in range(0, len(wanted), batch)):
        sets = ", ".join(f"({', '.join(subset)})" for subset in chunk)
        names = list(dict.fromkeys(name for subset in chunk for name in subset))
        rows = connection.sql(
            f"SELECT grouping({', '.join(names)}) AS kept, {', '.join(names)}, count(*) AS n "
            f"FROM codes GROUP BY GROUPING SETS ({sets})"
        ).fetchnumpy()
        for subset in chunk:
            kept = sum(1 << (len(names) - 1 - i) for i, n in enumerate(names) if n not in subset)
            here = np.asarray(rows["kept"]) == kept
            shape = [domain[name].size for name in subset]
            index = np.ravel_multi_index([np.asarray(rows[n])[here] for n in subset], shape)
            table = np.zeros(int(np.prod(shape)), dtype=np.int64)
            table[index] = np.asarray(rows["n"])[here]
            counts.append(table)
    return counts


Job = Callable[[Path, Domain, int], "list[np.ndarray]"]


def measure(job: Job, path: Path, domain: Domain, most: int) -> tuple[float, float, str]:
    """Return seconds, peak memory in MB and a checksum of the counts."""
    begin = time.perf_counter()
    counts = job(path, domain, most)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds, peak, hashlib.sha256(np.concatenate(counts).tobytes()).hexdigest()


def apart(job: Job, path: Path, domain: Domain, most: int) -> tuple[float, float, str]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (job, path, domain, most))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        people, wide = Path(folder, "people.csv"), Path(folder, "wide.parquet")
        write_people(people, 1_000_000)
        write_wide(wide, 100_000)
        for title, path, domain, most, sql in (
            ("1,000,000 rows of CSV, 5 attributes, <= 3-way", people, PEOPLE, 3, sql_people),
            ("100,000 rows of Parquet, 100 attributes, <= 2-way", wide, WIDE, 2, sql_wide),
        ):
            seconds, peak, digest = apart(ours, path, domain, most)
            sql_seconds, sql_peak, sql_digest = apart(sql, path, domain, most)
            print(f"{title} ({len(subsets(domain, most))} marginals)")
            print(f"  ours          {seconds:7.2f} s  {peak:7.0f} MB peak")
            print(f"  GROUPING SETS {sql_seconds:7.2f} s  {sql_peak:7.0f} MB peak")
            print(f"  ratio         {sql_seconds / seconds:7.2f}    same: {digest == sql_digest}")


if __name__ == "__main__":
    main()
