"""One suite for every engine: the same cells, sums, kept rows and refusals as plain Python."""

import datetime as dt
import hashlib
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.domain import (
    Attribute,
    Boolean,
    Categorical,
    Date,
    Domain,
    Numeric,
    Unit,
)
from noisewright.errors import DomainError, InvalidParameter, NoisewrightError
from noisewright.ledger.book import Ledger
from noisewright.tables.backends.postgres import Address, PostgresCounter
from noisewright.tables.backends.spark import SparkCounter
from noisewright.tables.engines import engine_of
from noisewright.workload.questions.entries import summed_attribute
from noisewright.workload.questions.measures import (
    COUNT,
    CentredSquares,
    Respondents,
    WeightedRespondents,
    WeightedSum,
    Weights,
)
from tables import servers

SECRET = "Ada Lovelace"
TEXTS = [
    "F",
    "f",
    "M",
    "",
    " ",
    "é",
    "e\u0301",
    "Ελλάδα",
    "a\nb",
    "'",
    '"',
    "\\",
    "😀",
    "{x}",
    "%s",
]
REAL = Numeric(
    "real",
    [-1.5, 0, 1e-3, 18, 1e6],
    outside="clip",
    missing="other",
    lower=-2,
    upper=30,
)
ATTRIBUTES: list[tuple[Attribute, pa.DataType, list[Any]]] = [
    (REAL, pa.float64(), [-1.5, -0.0, 1e-3, 17.999, 18.0, 2.25, math.inf, -math.inf, math.nan]),
    (Numeric("line", [-math.inf, 0, 10, math.inf], outside="other"), pa.float32(),
     [0.0, 10.0, -0.5, math.inf, -math.inf, math.nan]),
    (Numeric.integers("age", 0, 20, step=5, outside="other"), pa.int8(), [-3, 0, 4, 5, 19, 20, 21]),
    (Numeric("fine", [i / 10 for i in range(101)], outside="clip", missing="other"), pa.float64(),
     [0.1, 0.3, 0.7, math.nextafter(0.7, 0), 9.9, 10.0, 11.0, -1.0]),
    (Numeric("uneven", [0.0, *(1.3**i for i in range(60))], outside="other"), pa.float64(),
     [0.0, 1.3, 1.3**7, math.nextafter(1.3**7, 0), 1e9]),
    (Numeric("money", [0, 1, 2.5, 100], outside="clip", missing="other"), pa.decimal128(20, 3),
     [Decimal("2.499"), Decimal("2.500"), Decimal("-1.000"), Decimal("99999999.000")]),
    (Categorical("text", TEXTS[:10], outside="other"), pa.string(), TEXTS),
    (Categorical("many", [f"v{i}" for i in range(90)] + TEXTS, outside="other"), pa.string(),
     ["v0", "v89", "v9", *TEXTS]),
    (Categorical("run", [3, 4, 5], outside="other"), pa.int64(), [2, 3, 5, 6, 2**60]),
    (Categorical("code", [0, 1, -7, 2**40], outside="other"), pa.float64(),
     [-0.0, 1.0, -7.0, 2.0**40, 0.5, math.nan]),
    (Categorical("number", ["1", "-7", "x"], outside="other"), pa.int64(), [1, -7, 2]),
    (Categorical("truth text", ["true", "x"], outside="other"), pa.bool_(), [True, False]),
    (Boolean("truth", missing="other"), pa.bool_(), [True, False]),
    (Boolean("zero or one", missing="other"), pa.int64(), [0, 1, 2]),
    (Date("day", "2023-12-30", "2024-01-03", outside="other"), pa.date32(),
     [dt.date(2023, 12, 29), dt.date(2023, 12, 30), dt.date(2024, 1, 3), dt.date(2024, 1, 4),
      dt.date(1, 1, 1)]),
    *(
        (Date(period, "2023-11-15", "2025-02-10", period, outside="clip", missing="other"),
         pa.timestamp("us", zone),
         [dt.datetime(y, m, d, 23, 30, tzinfo=zone and dt.UTC) for y, m, d in
          ((2023, 11, 14), (2023, 11, 15), (2024, 2, 1), (2024, 9, 9), (2025, 2, 9), (1969, 1, 1))])
        for period, zone in (("week", None), ("month", "UTC"), ("quarter", None), ("year", "UTC"))
    ),
]  # fmt: skip
DOMAIN = Domain([attribute for attribute, _, _ in ATTRIBUTES])
PAIRS = [
    ("real", "text"),
    ("age", "week", "truth"),
    ("month", "code"),
    ("truth", "age"),
]


def people(rows: int = 120, seed: int = 1) -> pa.Table:
    rng = random.Random(seed)
    columns: dict[str, Any] = {
        attribute.name: pa.array(
            [rng.choice([None, *values]) for _ in range(rows)], kind
        )
        for attribute, kind, values in ATTRIBUTES
    }
    columns["person"] = pa.array(
        [rng.choice(["a", "b", "é'", "", "x,1"]) for _ in range(rows)]
    )
    columns["number"] = pa.array(
        [rng.choice([None, 1, -7, 2]) for _ in range(rows)], pa.int64()
    )
    columns["who"] = pa.array([rng.randrange(12) for _ in range(rows)], pa.int64())
    return pa.table(columns)


def encoded(table: pa.Table, domain: Domain = DOMAIN) -> dict[str, np.ndarray]:
    return {a.name: a.encode(table[a.name]) for a in domain}


def tabulated(
    codes: dict[str, np.ndarray], domain: Domain, names: tuple[str, ...], weights=None
):
    """Counts, or sums, row by row."""
    counts = np.zeros([domain[name].size for name in names], dtype=np.int64)
    rows = len(next(iter(codes.values())))
    for row in range(rows):
        counts[tuple(codes[n][row] for n in names)] += (
            1 if weights is None else weights[row]
        )
    return counts.ravel().tolist()


def check_cells(engine: Any) -> None:
    table = people()
    codes = encoded(table)
    subsets = [*((name,) for name in DOMAIN.names), *PAIRS, ()]
    counted = engine.counter.marginals(engine.put(table), DOMAIN, subsets)
    for subset, counts in zip(subsets, counted, strict=True):
        assert counts.tolist() == tabulated(codes, DOMAIN, subset), subset


def check_sums(engine: Any) -> None:
    table = people(seed=2)
    domain = Domain([REAL, DOMAIN["truth"]])
    codes = encoded(table, domain)
    total = summed_attribute(REAL, 0.5, "zero")
    bounded = Numeric(
        "real", REAL.edges, outside="clip", missing="error", lower=0, upper=3
    )
    units = REAL.units(table["real"], 0.5)
    weights = np.clip(total.content(units), -total.reach, total.reach)
    wanted = [
        (("truth",), total),
        ((), total),
        (("truth", "real"), total),
        (("truth",), COUNT),
    ]
    results = engine.counter.tables(engine.put(table), domain, wanted)
    for (subset, measure), result in zip(wanted, results, strict=True):
        own = None if measure == COUNT else weights
        assert result.tolist() == tabulated(codes, domain, subset, own)
    full = table.filter(
        pa.array([v is not None and v == v for v in table["real"].to_pylist()])
    )
    squares = CentredSquares(summed_attribute(bounded, 0.5))
    result = engine.counter.tables(
        engine.put(full), Domain([bounded]), [((), squares)]
    )[0]
    assert result.tolist() == [squares.content(bounded.units(full["real"], 0.5)).sum()]
    weights = Weights("real", 0.25, 5)  # a cap below the bounds still holds
    weighted = WeightedSum(weights, total)
    results = engine.counter.tables(
        engine.put(table), domain, [((), weights), ((), weighted)]
    )
    own = np.clip(REAL.units(table["real"], 0.25), 0, 5)
    centred = np.clip(total.content(units), -total.reach, total.reach)
    assert [result.tolist() for result in results] == [
        [own.sum()],
        [(own * centred).sum()],
    ]


def check_those_who_have_a_value(engine: Any) -> None:
    """Row by row: who has no value of a number, or one outside, is in no sum and no number."""
    table = people(seed=4)
    domain = Domain([REAL, DOMAIN["truth"]])
    codes, units = encoded(table, domain), REAL.units(table["real"], 0.5)
    held = codes["real"] < len(REAL.declared_labels)
    assert 0 < held.sum() < len(held)
    holds, total, weights = (
        Respondents("real"),
        summed_attribute(REAL, 0.5),
        Weights("real", 0.25, 5),
    )
    own = np.clip(REAL.units(table["real"], 0.25), 0, 5)
    squares = 2 * total.content(units) ** 2 - total.reach**2
    expected = {
        holds: held.astype(int),
        total: held * total.content(units),
        CentredSquares(total): held * squares,
        WeightedRespondents(weights, holds): held * own,
        WeightedSum(weights, total): held * own * total.content(units),
    }
    wanted = [(("truth",), measure) for measure in expected]
    results = engine.counter.tables(engine.put(table), domain, wanted)
    for (subset, measure), result in zip(wanted, results, strict=True):
        assert result.tolist() == tabulated(codes, domain, subset, expected[measure]), (
            measure
        )


def kept_rows(
    table: pa.Table, domain: Domain, names: tuple[str, ...], column: str
) -> list[int]:
    """Rows with the least digests, worked out by the definition in the documentation."""
    unit, codes = domain.unit, encoded(table, domain.project(names))
    assert unit is not None
    by_person: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    alike: dict[Any, int] = defaultdict(int)
    for row, person in enumerate(table[column].to_pylist()):
        own = tuple(int(codes[name][row]) for name in names)
        alike[person, own] += 1
        text = ",".join(map(str, [unit.key, person, *own, alike[person, own]]))
        by_person[person].append((hashlib.md5(text.encode()).hexdigest(), row))
    return [row for rows in by_person.values() for _, row in sorted(rows)[: unit.rows]]


def check_people_with_many_rows(engine: Any) -> None:
    table = people(300, seed=3)
    for column, rows, key in (("person", 3, ""), ("who", 1, "k"), ("who", 7, "")):
        domain = Domain(DOMAIN.attributes, unit=Unit(column, rows, key=key))
        names = ("real", "age", "text")
        kept = table.take(pa.array(kept_rows(table, domain, names, column)))
        expected = tabulated(encoded(kept), DOMAIN, names)
        shuffled = table.take(
            pa.array(np.random.default_rng(1).permutation(len(table)))
        )
        for source in (table, shuffled):
            assert (
                engine.counter.marginals(engine.put(source), domain, [names])[
                    0
                ].tolist()
                == expected
            )
    nameless = Domain([DOMAIN["truth"]], unit=Unit("number", 1, "each"))
    counts = engine.counter.marginals(engine.put(table), nameless, [()])[0]
    names = table["number"].to_pylist()
    assert counts.tolist() == [names.count(None) + len(set(names) - {None})]
    refused = Domain([DOMAIN["truth"]], unit=Unit("number"))
    with pytest.raises(DomainError, match="has no 'number'"):
        engine.counter.marginals(engine.put(table), refused, [()])
    with pytest.raises(DomainError, match="convert it to text"):
        engine.counter.marginals(engine.put(table), Domain([REAL], unit="fine"), [()])


def check_rows_in_groups(engine: Any) -> None:
    """At most so many rows of a person in one cell, then so many in all: by the least digests."""
    table = people(300, seed=6)
    names = ("age", "text", "truth")
    domain = Domain(
        DOMAIN.attributes, unit=Unit("who", 5, by=("text", "truth"), each=2)
    )
    codes = encoded(table, domain.project(names))
    alike: dict[Any, int] = defaultdict(int)
    groups: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for row, person in enumerate(table["who"].to_pylist()):
        own = tuple(int(codes[name][row]) for name in names)
        alike[person, own] += 1
        text = ",".join(map(str, ["", person, *own, alike[person, own]]))
        groups[person, own[1:]].append((hashlib.md5(text.encode()).hexdigest(), row))
    by_person: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for (person, _), rows in groups.items():
        by_person[person] += sorted(rows)[:2]
    kept = [row for rows in by_person.values() for _, row in sorted(rows)[:5]]
    expected = tabulated(encoded(table.take(pa.array(kept))), DOMAIN, names)
    assert (
        engine.counter.marginals(engine.put(table), domain, [names])[0].tolist()
        == expected
    )


INSTANCES = 1000


def crowds(seed: int) -> pa.Table:
    """Many small tables in one, in which one person has ten thousand rows."""
    rng = np.random.default_rng(seed)
    instance = np.concatenate(
        [rng.integers(0, INSTANCES, 6 * INSTANCES), np.zeros(10_000)]
    )
    person = np.concatenate([rng.geometric(0.5, 6 * INSTANCES) - 1, np.zeros(10_000)])
    pairs = zip(instance.astype(int), person.astype(int), strict=True)
    size = len(instance)
    return pa.table(
        {
            "instance": instance.astype(np.int64),
            "who": [f"{i}/{p}" for i, p in pairs],
            "text": rng.choice(["F", "M", "other things", "é"], size),
            "real": rng.normal(5, 20, size).round(0),
        }
    )


def check_one_person(engine: Any) -> None:
    """In a thousand random tables: one person changes as many rows as count, and nothing else."""
    table = crowds(seed=12)
    names = np.array(table["who"].to_pylist())
    others = table.filter(pa.array([not name.endswith("/0") for name in names]))
    shuffled = table.take(pa.array(np.random.default_rng(2).permutation(len(table))))
    sources = [engine.put(t) for t in (table, others, shuffled)]
    text, total = (
        Categorical("text", ["F", "M"], outside="other"),
        summed_attribute(REAL, 0.5),
    )
    index = Numeric.integers("instance", 0, INSTANCES - 1)
    cells = np.array(
        [{"F": 0, "M": 1}.get(value, 2) for value in table["text"].to_pylist()]
    )
    own = np.zeros((INSTANCES, 3), dtype=np.int64)
    mine = np.array([name.endswith("/0") for name in names])
    np.add.at(own, (table["instance"].to_numpy()[mine], cells[mine]), 1)
    for unit in (Unit("who", 3), Unit("who", 4, by=("text",), each=2)):
        domain = Domain([index, text, REAL], unit=unit)
        wanted = [(("instance", "text"), COUNT), (("instance",), total)]
        whole, less, again = (engine.counter.tables(s, domain, wanted) for s in sources)
        assert all((a == b).all() for a, b in zip(whole, again, strict=True))
        change = (whole[0] - less[0]).reshape(INSTANCES, 3)
        most = np.minimum(own, unit.each) if unit.by else own
        assert change.min() >= 0
        assert (change <= most).all()
        rows = np.minimum(most.sum(axis=1), unit.rows)
        assert change.sum(axis=1).tolist() == rows.tolist()
        assert rows[0] == unit.rows  # of ten thousand
        assert (np.abs(whole[1] - less[1]) <= rows * total.reach).all()


def check_rows_of_people(engine: Any) -> None:
    """How many people have so many rows, those without a name apart."""
    table = people(300, seed=5)
    source = engine.put(table)
    times = Counter(table["number"].to_pylist())
    nameless = times.pop(None)
    expected = Counter(times.values()) + Counter({1: nameless})
    assert engine.counter.rows_held(source, Unit("number", 1, "each")) == expected
    with pytest.raises(DomainError, match="has no 'number'"):
        engine.counter.rows_held(source, Unit("number"))


def check_people_in_periods(engine: Any) -> None:
    """A unit is a person in a period: as many rows of each count as are declared."""
    table = people(300, seed=8)
    keys: dict[str, Callable[[Any], Any]] = {
        "day": lambda day: day.toordinal(),
        "week": lambda day: day.isocalendar()[:2],
        "month": lambda day: (day.year, day.month),
        "quarter": lambda day: (day.year, (day.month - 1) // 3),
        "year": lambda day: day.year,
    }
    source = engine.put(table)
    for per, key in keys.items():
        domain = Domain(
            [DOMAIN["truth"]], unit=Unit("who", 2, "each", per=per, date="month")
        )
        times: dict[Any, int] = defaultdict(int)
        nameless = 0
        rows = zip(table["who"].to_pylist(), table["month"].to_pylist(), strict=True)
        for person, moment in rows:
            if moment is None:
                nameless += 1
            else:
                times[person, key(moment.date())] += 1
        expected = nameless + sum(min(2, count) for count in times.values())
        assert engine.counter.marginals(source, domain, [()])[0].tolist() == [
            expected
        ], per
    refused = Domain([DOMAIN["truth"]], unit=Unit("who", per="day", date="month"))
    with pytest.raises(DomainError, match="has no 'who' or 'month'"):
        engine.counter.marginals(source, refused, [()])
    wrong = Domain([DOMAIN["truth"]], unit=Unit("who", per="day", date="fine"))
    with pytest.raises(DomainError, match="declared as the date of a unit"):
        engine.counter.marginals(source, wrong, [()])


def check_cells_of_rows(engine: Any) -> None:
    domain = Domain([DOMAIN["age"], DOMAIN["truth"]])
    table = people(80, seed=4)
    batches = list(engine.counter.cells(engine.put(table), domain))
    assert (
        np.concatenate(batches).tolist()
        == domain.encode({n: table[n] for n in domain.names}).tolist()
    )


def check_refusals(engine: Any) -> None:
    table = pa.table(
        {"text": ["F", SECRET], "real": [1.0, None], "when": [dt.date(2024, 1, 1)] * 2}
    )
    source = engine.put(table)
    for attribute, message in (
        (Categorical("text", ["F"]), "`outside: error` refuses"),
        (Numeric("real", [0, 2]), "`missing: error` refuses"),
        (Numeric("when", [0, 1]), "declared as numeric, but its column has the type"),
        (Numeric("height", [0, 1]), "have no column of that name"),
    ):
        with pytest.raises((DomainError, InvalidParameter), match=message) as caught:
            engine.counter.marginals(source, Domain([attribute]), [(attribute.name,)])
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


def check_plans(engine: Any) -> None:
    domain = Domain([REAL, DOMAIN["truth"]], unit=Unit("who", 2))
    questions = {
        "queries": [{"marginal": ["truth"]}, {"mean": "real", "by": ["truth"]}]
    }
    plan = nw.plan(nw.Workload.from_spec(questions, domain), nw.Privacy(rho=0.1))
    source = engine.put(people())
    assert np.isfinite(plan.release(source).answers[:2]).all()
    assert "SELECT" in plan.counting_sql(source)


SUITE: list[Callable[[Any], None]] = [
    check_cells, check_sums, check_those_who_have_a_value, check_people_with_many_rows,
    check_rows_in_groups, check_one_person,
    check_rows_of_people, check_people_in_periods,
    check_cells_of_rows, check_refusals, check_plans,
]  # fmt: skip


@pytest.mark.parametrize("check", SUITE, ids=lambda check: check.__name__)
def test_duckdb(check: Callable[[Any], None]) -> None:
    check(servers.DuckDBEngine())


@pytest.fixture(scope="module")
def postgres() -> Iterator[servers.PostgresEngine]:
    with servers.postgres() as engine:
        yield engine


def test_postgres(postgres: servers.PostgresEngine, tmp_path: Path) -> None:
    for check in SUITE:
        check(postgres)
    statements_fetch_no_row(postgres)
    a_broken_connection_tells_nothing(postgres)
    a_connection_that_dies_half_way_spends_nothing(postgres, tmp_path)


def statements_fetch_no_row(engine: servers.PostgresEngine) -> None:
    """The server's own log: what was asked of a table counts, or asks for no row."""
    before = len(engine.log.read_text())
    source = engine.put(people(seed=9))
    name = Address.of(source).source
    domain = Domain(DOMAIN.attributes, unit="who")
    engine.counter.marginals(source, domain, [("real", "text"), ("age",)])
    log = engine.log.read_text()[before:].split("LOG:")
    asked = [
        entry
        for entry in log
        if name in entry and "COPY" not in entry and "CREATE" not in entry
    ]
    assert len(asked) == 2
    assert "LIMIT 0" in asked[0]
    assert "GROUP BY c0" in asked[1]
    assert (
        asked[1].split("FROM")[0].split(":", 1)[1].strip()
        == "SELECT 0 AS g, c0, count(*) AS n"
    )


def a_broken_connection_tells_nothing(engine: servers.PostgresEngine) -> None:
    domain = Domain([DOMAIN["truth"]])
    for address in (
        f"{engine.address}#no such table",
        f"postgresql://{SECRET.replace(' ', '')}:{SECRET.replace(' ', '')}@127.0.0.1:1/db#people",
    ):
        with pytest.raises(NoisewrightError, match="nothing was released") as caught:
            PostgresCounter().marginals(address, domain, [("truth",)])
        assert "Lovelace" not in str(caught.value)
        assert caught.value.__context__ is None
    with pytest.raises(InvalidParameter, match="names no table"):
        PostgresCounter().marginals(engine.address, domain, [("truth",)])


def a_connection_that_dies_half_way_spends_nothing(
    engine: servers.PostgresEngine, folder: Path
) -> None:
    """A view that ends the very connection that counts it."""
    import psycopg

    table = Address.of(engine.put(people(seed=10))).source
    with psycopg.connect(engine.address) as connection:
        ends = "pg_terminate_backend(pg_backend_pid())"
        connection.execute(
            f"CREATE VIEW dying AS SELECT truth FROM {table} WHERE {ends}"
        )
    ledger = Ledger(folder / "budget.db")
    ledger.create("people", nw.Privacy(rho=1.0))
    asked = nw.Workload.from_spec(
        {"queries": [{"marginal": ["truth"]}]}, Domain([DOMAIN["truth"]])
    )
    plan = nw.plan(asked, nw.Privacy(rho=0.1))
    with pytest.raises(NoisewrightError, match="nothing was released") as caught:
        plan.release(f"{engine.address}#dying", ledger=ledger, dataset="people")
    assert caught.value.__context__ is None
    assert ledger.account("people").releases == []


def test_spark_counts_what_duckdb_counts() -> None:
    """Briefly: to start a session takes longer than to count; the whole suite is a slow test."""
    with servers.spark(compiled=False) as engine:
        table = people()
        names = ("real", "line", "text", "code", "week", "month")
        domain = Domain([DOMAIN[name] for name in names], unit=Unit("person", 3))
        subsets = [*((name,) for name in names), ("real", "text")]
        counts = engine.counter.marginals(engine.put(table), domain, subsets)
        expected = servers.DuckDBEngine.counter.marginals(table, domain, subsets)
        assert [c.tolist() for c in counts] == [c.tolist() for c in expected]
        failing = engine.put(table).selectExpr(f"raise_error('{SECRET}') AS truth")
        failing = failing.selectExpr("CAST(truth AS BOOLEAN) AS truth")
        with pytest.raises(NoisewrightError, match="nothing was released") as caught:
            engine.counter.marginals(failing, Domain([DOMAIN["truth"]]), [("truth",)])
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.slow
def test_spark() -> None:
    with servers.spark() as engine:
        for check in SUITE:
            check(engine)
        frame = engine.put(people())
        assert isinstance(engine_of(frame), SparkCounter)
        engine.session.stop()
        with pytest.raises(NoisewrightError, match="nothing was released") as caught:
            engine.counter.marginals(frame, Domain([DOMAIN["truth"]]), [("truth",)])
        assert caught.value.__context__ is None


def test_addresses_choose_their_engine() -> None:
    assert isinstance(engine_of("postgresql://host/db#people"), PostgresCounter)
    assert isinstance(engine_of("sc://host:15002#people"), SparkCounter)
    for unknown in (
        "postgress://me:Lovelace@host/db#t",
        ["postgresql://me:Lovelace@host/db#t"],
    ):
        with pytest.raises(InvalidParameter, match="must be one address") as caught:
            engine_of(unknown)
        assert "Lovelace" not in str(caught.value)
