"""Counting tables of people: seconds and peak memory beside hand-written SQL, from 10^5 rows up.

    python benchmarks/counting.py                       # up to 10^7 rows
    python benchmarks/counting.py --rows 100000000      # needs about 2 GB of disk
    python benchmarks/counting.py --chart counting.svg
    python benchmarks/counting.py --rows 100000000 --rounds 3 --folder tables   # keeps the files

Six attributes in Parquet: ten two-way tables and a CDF of 1,024 bins. Ours finds cells, counts and
draws the noise of a plan; the hand-written query is GROUPING SETS over the same cells, with casts
that may fail. Then 14 and 100 attributes of ten values, all tables of one or two of them. Every job
runs in a process of its own, so that its peak memory is its own, and both see the same file; with
rounds, the two take turns and ratios are medians.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np

import noisewright as nw
from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
from noisewright.planning.central.plan import CentralPlan
from noisewright.tables.counter import DuckDBCounter

REGIONS = [f"region {i}" for i in range(16)]
WIDTH = 97.65625
PEOPLE = Domain(
    [
        Numeric.integers("age", 0, 99, outside="clip", missing="other"),
        Categorical("sex", ["F", "M"], outside="other"),
        Categorical("region", REGIONS, outside="other"),
        Boolean("employed", missing="other"),
        Date(
            "admitted",
            "2024-01-01",
            "2024-12-31",
            "month",
            outside="clip",
            missing="other",
        ),
        Numeric(
            "income", [i * WIDTH for i in range(1025)], outside="clip", missing="other"
        ),
    ]
)
FIVE = PEOPLE.names[:5]
PAIRS = list(itertools.combinations(FIVE, 2))
TABLES: list[tuple[str, ...]] = [*PAIRS, ("income",)]
QUERIES = {
    "queries": [*({"marginal": list(pair)} for pair in PAIRS), {"cdf": "income"}]
}


def write_people(path: Path, rows: int) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            f"""COPY (SELECT CAST(hash(i) % 110 AS TINYINT) AS age,
                   ['F', 'M', 'X'][1 + CAST(hash(i + 1) % 3 AS INT)] AS sex,
                   'region ' || (hash(3 * i + 1) % 16) AS region,
                   hash(7 * i) % 10 < 6 AS employed,
                   DATE '2024-01-01' + CAST(hash(5 * i + 2) % 366 AS INT) AS admitted,
                   (hash(11 * i + 5) % 1000000) / 10.0 AS income
            FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
        )


def wide(attributes: int) -> Domain:
    return Domain([Categorical(f"a{i}", list(range(10))) for i in range(attributes)])


def write_wide(path: Path, rows: int, attributes: int) -> None:
    columns = ", ".join(
        f"CAST(hash(i * {2 * a + 3}) % 10 AS TINYINT) AS a{a}"
        for a in range(attributes)
    )
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {columns} FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"
        )


def ours(path: Path, plan: Path) -> list[np.ndarray]:
    """Cells, counts and noise; the exact tables are counted once more, untimed, to compare them."""
    method = planned(plan)
    method.mechanism.measure(method.exact(str(path)))
    return []


@cache
def planned(plan: Path) -> CentralPlan:
    loaded = nw.load(plan)
    assert isinstance(loaded, CentralPlan)
    # what a plan works out about its noise before any table is read
    _ = loaded.mechanism.spend
    return loaded


def exact(path: Path, plan: Path) -> list[np.ndarray]:
    return DuckDBCounter().marginals(path, PEOPLE, TABLES)


def by_hand(path: Path, plan: Path) -> list[np.ndarray]:
    """Ten two-way tables and the bins of income, in one GROUPING SETS query."""
    cells = f"""
        SELECT least(age, 99) AS age,
               CASE sex WHEN 'F' THEN 0 WHEN 'M' THEN 1 ELSE 2 END AS sex,
               CAST(substr(region, 8) AS INTEGER) AS region,
               CAST(employed AS INTEGER) AS employed,
               month(admitted) - 1 AS admitted,
               least(CAST(floor(income / {WIDTH}) AS INTEGER), 1023) AS income
        FROM read_parquet('{path}')"""
    return grouping_sets(cells, PEOPLE, TABLES)


def grouping_sets(
    cells: str, domain: Domain, wanted: list[tuple[str, ...]]
) -> list[np.ndarray]:
    names = list(dict.fromkeys(name for subset in wanted for name in subset))
    sets = ", ".join(f"({', '.join(subset)})" for subset in wanted)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        rows = connection.sql(
            f"SELECT grouping({', '.join(names)}) AS kept, {', '.join(names)}, count(*) AS n "
            f"FROM ({cells}) GROUP BY GROUPING SETS ({sets})"
        ).fetchnumpy()
    counts = []
    for subset in wanted:
        kept = sum(
            1 << (len(names) - 1 - i) for i, n in enumerate(names) if n not in subset
        )
        here = np.asarray(rows["kept"]) == kept
        shape = [domain[name].size for name in subset]
        index = np.ravel_multi_index([np.asarray(rows[n])[here] for n in subset], shape)
        table = np.zeros(int(np.prod(shape)), dtype=np.int64)
        table[index] = np.asarray(rows["n"])[here]
        counts.append(table)
    return counts


def ours_wide(path: Path, attributes: int) -> list[np.ndarray]:
    return DuckDBCounter().marginals(path, wide(attributes), pairs(attributes))


def by_hand_wide(path: Path, attributes: int) -> list[np.ndarray]:
    """The same in queries of 30 tables each, over a table in memory."""
    counts, wanted = [], pairs(attributes)
    for chunk in (wanted[i : i + 30] for i in range(0, len(wanted), 30)):
        counts += grouping_sets(
            f"SELECT * FROM read_parquet('{path}')", wide(attributes), chunk
        )
    return counts


def pairs(attributes: int) -> list[tuple[str, ...]]:
    names = wide(attributes).names
    return [s for k in (1, 2) for s in itertools.combinations(names, k)]


Job = Callable[..., "list[np.ndarray]"]


def measure(job: Job, *given: Any) -> tuple[float, float, float, str]:
    """Seconds, seconds of processors, peak memory in MB and a checksum of the counts."""
    if job is ours:
        planned(given[1])
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    counts = job(*given)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    digest = hashlib.sha256(
        np.concatenate([*counts, np.zeros(1)]).tobytes()
    ).hexdigest()
    return seconds, spent, after.ru_maxrss / 1024, digest


def apart(job: Job, *given: Any) -> tuple[float, float, float, str]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (job, *given))


Result = tuple[float, float, float, float]


def compare(
    title: str, mine: tuple[Job, Job], hand: Job, *given: Any, rounds: int = 1
) -> Result:
    """Both in turn; returns processor seconds of ours and by hand, and both ratios.

    A busy machine stretches the clock, and processor time by far less: that is what is drawn.
    """
    timed, counted = mine
    pairs = [(apart(timed, *given), apart(hand, *given)) for _ in range(rounds)]
    again = pairs[0][0] if timed is counted else apart(counted, *given)
    print(title)
    for place, name in enumerate(("ours", "GROUPING SETS")):
        seconds, spent, peak = (
            median(pair[place][i] for pair in pairs) for i in range(3)
        )
        print(
            f"  {name:14}{seconds:8.2f} s {spent:8.2f} s of processors {peak:7.0f} MB peak"
        )
    ratios = [median(own[i] / other[i] for own, other in pairs) for i in range(2)]
    print(
        f"  {'ours / hand':14}{ratios[0]:8.2f}   {ratios[1]:8.2f}"
        f"                 same counts: {again[3] == pairs[0][1][3]}",
        flush=True,
    )
    return median(p[0][1] for p in pairs), median(p[1][1] for p in pairs), *ratios


def chart(points: list[dict[str, Any]], path: str) -> None:
    import altair as alt

    def panel(over: str, title: str, subtitle: str) -> alt.Chart:
        own = [point for point in points if over in point]
        return (
            alt.Chart(alt.Data(values=own))
            .mark_line(point=True)
            .encode(
                alt.X(
                    f"{over}:Q",
                    title=over,
                    scale=alt.Scale(type="log", nice=False),
                    axis=alt.Axis(
                        values=sorted({point[over] for point in own}), format=",d"
                    ),
                ),
                alt.Y(
                    "seconds:Q",
                    scale=alt.Scale(type="log"),
                    title="seconds of processors",
                ),
                alt.Color("who:N", title=None),
            )
            .properties(
                title=alt.Title(title, subtitle=subtitle), width=360, height=260
            )
        )

    rows = panel(
        "rows",
        "Time against rows",
        "ten two-way tables and a CDF of 1,024 bins, Parquet",
    )
    wide = panel(
        "attributes", "Time against attributes", "100,000 rows, all 1- and 2-way tables"
    )
    alt.hconcat(rows, wide).save(path)


def points_of(over: str, value: int, result: Result) -> list[dict[str, Any]]:
    names = "a release" if over == "rows" else "our counts", "GROUPING SETS by hand"
    pairs = zip(names, result[:2], strict=True)
    return [{over: value, "seconds": seconds, "who": who} for who, seconds in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**7, help="the largest table")
    parser.add_argument(
        "--from", dest="first", type=int, default=10**5, help="the smallest table"
    )
    parser.add_argument("--rounds", type=int, default=1, help="turns of each")
    parser.add_argument(
        "--folder", help="keep tables here, and use those that are there"
    )
    parser.add_argument(
        "--chart", help="draw time against rows and attributes into this file"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(given, Path(given.folder or folder))


def run(given: argparse.Namespace, folder: Path) -> None:
    points: list[dict[str, Any]] = []
    plan = folder / "plan.nw"
    asked = nw.Workload.from_spec(QUERIES, PEOPLE)
    nw.plan(asked, nw.Privacy(epsilon=1, delta=1e-9)).save(plan)
    rows = given.first
    while rows <= given.rows:
        path = folder / f"people-{rows}.parquet"
        if not path.exists():
            write_people(path, rows)
        title = f"{rows:,} rows, 6 attributes, {len(TABLES)} tables"
        result = compare(title, (ours, exact), by_hand, path, plan, rounds=given.rounds)
        points += points_of("rows", rows, result)
        rows *= 10
    for attributes in (6, 14, 100):
        path = folder / f"wide-{attributes}.parquet"
        if not path.exists():
            write_wide(path, 100_000, attributes)
        title = (
            f"100,000 rows, {attributes} attributes, {len(pairs(attributes)):,} tables"
        )
        result = compare(title, (ours_wide, ours_wide), by_hand_wide, path, attributes)
        points += points_of("attributes", attributes, result)
    if given.chart:
        chart(points, given.chart)


if __name__ == "__main__":
    main()
