"""One row per person: what is worked out of many rows, against plain Python, on every engine."""

import datetime as dt
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.cli import main
from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric, Unit
from noisewright.errors import DomainError, InvalidParameter, NoisewrightError
from noisewright.tables.counter import DuckDBCounter
from tables import servers

INSTANCES = 60
DERIVE: list[dict[str, Any]] = [
    {"name": "instance", "from": "patients", "maximum": "instance"},
    {"name": "treated", "from": "treatments", "count": "id"},
    {"name": "insulin", "from": "treatments", "any": "drug", "of": ["insulin", "o'x"]},
    {"name": "severe", "from": "treatments", "any": "severe"},
    {"name": "cheapest", "from": "treatments", "minimum": "cost"},
    {"name": "ward", "from": "treatments", "first": "ward", "by": "day"},
    {"name": "cost", "from": "treatments", "sum": "cost", "lower": 0, "upper": 10, "unit": 0.5},
    {"name": "last", "from": "treatments", "maximum": "day"},
    {"name": "region", "from": "treatments", "first": "region", "by": "day",
     "join": "hospitals", "on": "ward"},
]  # fmt: skip
DOMAIN = Domain(
    [
        Numeric.integers("instance", 0, INSTANCES - 1, outside="other"),
        Numeric.integers("treated", 0, 4, outside="clip"),
        Boolean("insulin"),
        Boolean("severe"),
        Numeric("cheapest", [0, 2, 5, 20], outside="clip", missing="other"),
        Categorical("ward", ["a", "b", "c"], outside="other"),
        Numeric("cost", [0, 0.5, 4, 10.5, 30], outside="clip"),
        Date("last", "2024-01-01", "2024-03-31", "month", outside="other"),
        Categorical("region", ["north", "south"], outside="other"),
    ],
    unit="id",
    derive=DERIVE,
)
TABLES = [
    ("instance", "treated", "insulin"),
    ("severe", "cheapest"),
    ("instance", "ward"),
    ("cost", "last"),
    ("region",),
    (),
]
REGIONS = {"a": "north", "b": "south", "c": "south"}


def tables(seed: int, rows: int = 400) -> dict[str, pa.Table]:
    """Many small sets of people in one: names tell the set, and most have several rows."""
    rng = random.Random(seed)
    names = [f"{i}/{n}" for i in range(INSTANCES) for n in range(4)]
    patients = [name for name in names for _ in range(rng.choice([0, 1, 1, 2]))]
    treated = [rng.choice(names) for _ in range(rows)]
    return {
        "patients": pa.table(
            {"id": patients, "instance": pa.array([int(n.split("/")[0]) for n in patients])}
        ),
        "treatments": pa.table(
            {
                "id": treated,
                "drug": [rng.choice(["insulin", "o'x", "other", None]) for _ in treated],
                "severe": pa.array([rng.choice([True, False, None]) for _ in treated], pa.bool_()),
                "cost": pa.array(
                    [rng.choice([None, math.nan, -3.0, 0.25, 0.75, 3.1, 99.0]) for _ in treated],
                    pa.float64(),
                ),
                "ward": [rng.choice(["a", "b", "c", "d", None]) for _ in treated],
                "day": pa.array(
                    [rng.choice([None, dt.date(2024, 1, 2) + dt.timedelta(rng.randrange(90))])
                     for _ in treated], pa.date32(),
                ),
            }
        ),
        "hospitals": pa.table({"ward": list(REGIONS), "region": list(REGIONS.values())}),
    }  # fmt: skip


def one_row(own: list[dict[str, Any]], instance: list[int]) -> dict[str, Any]:
    """A person's row by the definitions in the documentation."""
    costs = [
        r["cost"] for r in own if r["cost"] is not None and not math.isnan(r["cost"])
    ]
    days = [r["day"] for r in own if r["day"] is not None]

    def first(value: str) -> Any:
        if not own:
            return None
        last = dt.date.max

        def key(row: dict[str, Any]) -> tuple[Any, ...]:
            text = REGIONS.get(row["ward"]) if value == "region" else row[value]
            return row["day"] or last, row["day"] is None, text is None, text or ""

        least = min(own, key=key)
        return REGIONS.get(least["ward"]) if value == "region" else least[value]

    # halves to even, as numpy
    units = [round(min(max(cost, 0), 10) / 0.5) for cost in costs]
    return {
        "instance": max(instance, default=None),
        "treated": len(own),
        "insulin": any(r["drug"] in ("insulin", "o'x") for r in own),
        "severe": any(bool(r["severe"]) for r in own),
        "cheapest": min(costs, default=None),
        "ward": first("ward"),
        "cost": sum(units) * 0.5,
        "last": max(days, default=None),
        "region": first("region"),
    }


def expected(source: dict[str, pa.Table]) -> list[np.ndarray]:
    rows, instances = defaultdict(list), defaultdict(list)
    for row in source["treatments"].to_pylist():
        rows[row["id"]].append(row)
    for row in source["patients"].to_pylist():
        instances[row["id"]].append(row["instance"])
    names = sorted(set(rows) | set(instances))
    people = [one_row(rows[name], instances[name]) for name in names]
    kinds = {"last": pa.date32(), "cheapest": pa.float64(), "instance": pa.int64()}
    columns = {
        a.name: a.encode(pa.array([p[a.name] for p in people], kinds.get(a.name)))
        for a in DOMAIN
    }
    counts = []
    for subset in TABLES:
        shape = [DOMAIN[name].size for name in subset]
        table = np.zeros(shape, dtype=np.int64)
        np.add.at(table, tuple(columns[name] for name in subset), 1) if subset else None
        counts.append(table.ravel() if subset else np.array([len(people)]))
    return counts


def check(engine: Any, seed: int) -> None:
    source = tables(seed)
    put = {name: engine.put(table) for name, table in source.items()}
    counted = engine.counter.marginals(put, DOMAIN, TABLES)
    for subset, counts, own in zip(TABLES, counted, expected(source), strict=True):
        assert counts.tolist() == own.tolist(), subset


@pytest.mark.parametrize("seed", range(6))
def test_duckdb_derives_what_is_declared(seed: int) -> None:
    check(servers.DuckDBEngine(), seed)


def test_postgres_derives_what_is_declared() -> None:
    with servers.postgres() as engine:
        for seed in range(3):
            check(engine, seed)
        before = len(engine.log.read_text())
        source = {name: engine.put(table) for name, table in tables(9).items()}
        engine.counter.marginals(source, DOMAIN, TABLES)
        asked = [
            e for e in engine.log.read_text()[before:].split("LOG:") if "SELECT" in e
        ]
        for entry in asked:  # nothing but types and grouped counts is ever asked for
            assert "LIMIT 0" in entry or "GROUPING SETS" in entry or "SHOW" in entry
        elsewhere = {
            **source,
            "hospitals": "postgresql://tester@127.0.0.1:1/other#hospitals",
        }
        with pytest.raises(InvalidParameter, match="tables of one database"):
            engine.counter.marginals(elsewhere, DOMAIN, TABLES)


@pytest.mark.slow
def test_spark_derives_what_is_declared() -> None:
    with servers.spark() as engine:
        for seed in range(2):
            check(engine, seed)


@pytest.mark.parametrize("seed", range(4))
def test_who_is_taken_out_everywhere_takes_one_row_along(seed: int) -> None:
    """Sixty instances a seed: a person, even of ten thousand rows, is one derived row."""
    source = tables(seed)
    most = pa.table({**dict.fromkeys(["id"], ["0/0"] * 10_000),
                     **{n: [c[0].as_py()] * 10_000 for n, c in
                        ((f, source["treatments"][f]) for f in
                         ("drug", "severe", "cost", "ward", "day"))}})  # fmt: skip
    most = most.cast(source["treatments"].schema)
    source["treatments"] = pa.concat_tables([source["treatments"], most])
    wanted = [
        (*subset, "instance") if "instance" not in subset else subset
        for subset in TABLES
    ]
    before = DuckDBCounter().marginals(source, DOMAIN, wanted)
    held = {
        n.as_py() for name in ("patients", "treatments") for n in source[name]["id"]
    }
    for person in range(4):
        smaller = {
            name: table.filter(
                pa.array(
                    [not n.endswith(f"/{person}") for n in table["id"].to_pylist()]
                )
            )
            if "id" in table.column_names
            else table
            for name, table in source.items()
        }
        after = DuckDBCounter().marginals(smaller, DOMAIN, wanted)
        there = sum(f"{i}/{person}" in held for i in range(INSTANCES))
        for own, (x, y) in zip(wanted, zip(before, after, strict=True), strict=True):
            change = x - y
            assert (change >= 0).all()
            assert change.sum() == there
            axis = own.index("instance")
            shape = [DOMAIN[name].size for name in own]
            by_instance = np.moveaxis(change.reshape(shape), axis, 0).reshape(
                shape[axis], -1
            )
            assert by_instance[:INSTANCES].sum(axis=1).max() <= 1


def test_no_order_of_rows_matters() -> None:
    source = tables(3)
    rng = np.random.default_rng(1)
    shuffled = {n: t.take(pa.array(rng.permutation(len(t)))) for n, t in source.items()}
    before, after = (
        DuckDBCounter().marginals(s, DOMAIN, TABLES) for s in (source, shuffled)
    )
    assert [x.tolist() for x in before] == [x.tolist() for x in after]


def test_a_plan_derives_and_a_person_is_one_row(tmp_path: Path) -> None:
    questions = {"queries": [{"marginal": ["ward", "insulin"]}, {"mean": "cost"}]}
    plan = nw.plan(nw.Workload.from_spec(questions, DOMAIN), nw.Privacy(rho=0.5))
    assert plan.rows == 1
    assert plan.cost.unit is not None
    assert plan.cost.unit.name == "id"
    assert "worked out into one row" in plan.person
    plan.save(tmp_path / "p.nw")
    loaded = nw.load(tmp_path / "p.nw")
    assert loaded.domain == DOMAIN
    source = tables(1)
    assert np.isfinite(loaded.release(source).answers[:3]).all()
    assert "FULL JOIN" in loaded.counting_sql(source)
    import pyarrow.csv as csv

    for name, table in source.items():
        csv.write_csv(table, tmp_path / f"{name}.csv")
    named = [f"{name}={tmp_path / name}.csv" for name in source]
    answers = str(tmp_path / "a.csv")
    main(
        ["release", str(tmp_path / "p.nw"), *named, "-o", answers],
        standalone_mode=False,
    )
    assert Path(answers).is_file()


def test_files_are_derived_from_as_tables_in_memory_are(tmp_path: Path) -> None:
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    source = tables(2)
    for name, table in source.items():
        csv.write_csv(table, tmp_path / f"{name}.csv")
        pq.write_table(table, tmp_path / f"{name}.parquet")
    counted = [
        DuckDBCounter().marginals(given, DOMAIN, TABLES)
        for given in (
            source,
            {name: tmp_path / f"{name}.parquet" for name in source},
            {name: tmp_path / f"{name}.csv" for name in source},
        )
    ]
    for other in counted[1:]:
        assert [x.tolist() for x in other] == [x.tolist() for x in counted[0]]


@pytest.mark.parametrize(
    ("derive", "unit", "message"),
    [
        (DERIVE[:-1], "id", "must work out every attribute"),
        ([*DERIVE, DERIVE[0]], "id", "must work out every attribute"),
        (DERIVE, None, "unit must be a column alone"),
        (DERIVE, Unit("id", 3), "must be a column alone"),
        (DERIVE, "ward", "names people, and cannot be"),
        (
            [{"name": "x", "from": "t", "any": "a", "count": "b"}],
            "id",
            "must be a mapping of",
        ),
        ([{"name": "x", "from": "t", "median": "a"}], "id", "must be a mapping of"),
        ([{"name": "x", "from": "t", "first": "a"}], "id", "goes with `first`"),
        (
            [{"name": "x", "from": "t", "sum": "a"}],
            "id",
            "must be bounds of a row's value",
        ),
        (
            [{"name": "x", "from": "t", "maximum": "a", "lower": 0}],
            "id",
            "go with `sum`",
        ),
        (
            [{"name": "x", "from": "t", "maximum": "a", "of": ["v"]}],
            "id",
            "goes with `any`",
        ),
        (
            [{"name": "x", "from": "t", "any": "a", "of": "v"}],
            "id",
            "must be a list of values",
        ),
        ([{"name": "x", "from": "t", "any": "a", "join": "u"}], "id", "goes with `on`"),
        ([{"name": "x", "from": "", "any": "a"}], "id", "must be a name"),
    ],
)
def test_declarations_are_checked(derive: Any, unit: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Domain(DOMAIN.attributes, unit=unit, derive=derive)


def test_tables_that_are_not_those_declared_are_refused() -> None:
    source = tables(0)
    engine = DuckDBCounter()
    for given in (source["patients"], {**source, "more": source["patients"]}, {}):
        with pytest.raises(
            InvalidParameter, match="one table for every name in `derive`"
        ):
            engine.marginals(given, DOMAIN, [()])
    nameless = source["treatments"].set_column(
        0, "id", pa.array([None, *source["treatments"]["id"].to_pylist()[1:]])
    )
    with pytest.raises(DomainError, match="has no 'id'"):
        engine.marginals({**source, "treatments": nameless}, DOMAIN, [()])
    text = source["treatments"].set_column(3, "cost", pa.array(["Ada"] * 400))
    read = engine.marginals({**source, "treatments": text}, DOMAIN, [("cost",)])[0]
    # text that is no number is missing, as in any other table
    assert read[0] == read.sum()
    dates = source["treatments"].set_column(2, "severe", source["treatments"]["day"])
    with pytest.raises(NoisewrightError, match="declared as boolean for 'severe'"):
        engine.marginals({**source, "treatments": dates}, DOMAIN, [()])
    mixed = {**source, "hospitals": "postgresql://host/db#hospitals"}
    with pytest.raises(InvalidParameter, match="must all be in one engine"):
        nw.plan(
            nw.Workload.from_spec({"queries": [{"marginal": ["ward"]}]}, DOMAIN),
            nw.Privacy(rho=1),
        ).release(mixed)
