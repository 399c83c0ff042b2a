"""Bounds on a person's rows in every group: what they change is what is stated, and no more."""

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.central.groups import RowBounds
from noisewright.domain import Categorical, Domain, Numeric, Unit
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.promise.budget import most_squares
from noisewright.tables.counter import DuckDBCounter
from noisewright.workload.questions.measures import COUNT

INSTANCES = 500
INSTANCE = Numeric.integers("instance", 0, INSTANCES - 1)
DAY = Categorical(
    "day",
    ["mon", "tue", "wed"],
    outside="other",
    levels={"half": {"early": ["mon", "tue"], "late": ["wed"]}},
)
WARD = Categorical("ward", ["a", "b"])
COST = Numeric("cost", [0, 1, 5], outside="clip", lower=-2, upper=4)
APPROXIMATE = nw.Privacy(epsilon=1, delta=1e-9)


def many(privacy: nw.Privacy) -> Any:
    """What keeps to Gaussian noise where noise for pure ε would do."""
    return "many" if privacy.kind == "approximate" else "one"


QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "one table": [{"marginal": ["day"]}],
    "two tables": [{"marginal": ["day", "ward"]}, {"cdf": "cost", "by": ["day"]}],
    "merged": [{"marginal": ["day", "ward"]}, {"marginal": ["ward"]}],
    "levels": [{"marginal": ["half", "ward"]}, {"marginal": ["day"]}],
    "no groups": [{"marginal": ["ward"]}],
    "means": [{"mean": "cost", "by": ["day"], "unit": 0.5}, {"marginal": ["day"]}],
}


def schema(
    rows: int, each: int, *before: Any, by: tuple[str, ...] = ("day",)
) -> Domain:
    return Domain(
        [*before, DAY, WARD, COST], unit=Unit("person", rows, by=by, each=each)
    )


def instances(seed: int) -> pa.Table:
    """Many small tables in one: people have rows on few days and many, some merged into other."""
    rng = np.random.default_rng(seed)
    size = INSTANCES * 12
    instance = rng.integers(0, INSTANCES, size)
    person = rng.geometric(0.5, size) - 1
    return pa.table(
        {
            "instance": instance,
            "person": [f"{i}/{p}" for i, p in zip(instance, person, strict=True)],
            "day": rng.choice(["mon", "tue", "wed", "sat", "sun"], size),
            "ward": rng.choice(["a", "b"], size),
            "cost": rng.normal(1, 4, size).round(1),
        }
    )


def without(table: pa.Table, number: int) -> pa.Table:
    """The same without one person of every instance."""
    kept = [not name.endswith(f"/{number}") for name in table["person"].to_pylist()]
    return table.filter(pa.array(kept))


@pytest.mark.parametrize(("rows", "each"), [(2, 1), (4, 1), (5, 2), (50, 2)])
def test_one_person_adds_as_many_rows_of_every_group_as_count(
    rows: int, each: int
) -> None:
    table = instances(rows)
    domain = schema(rows, each, INSTANCE)
    wanted = [(("instance", "day"), COUNT), (("instance", "ward"), COUNT)]
    pairs = [
        DuckDBCounter().tables(t, domain, wanted) for t in (table, without(table, 0))
    ]
    by_day, by_ward = (
        (a - b).reshape(INSTANCES, -1) for a, b in zip(*pairs, strict=True)
    )
    held: dict[tuple[str, int], int] = defaultdict(int)
    for name, day in zip(
        table["person"].to_pylist(), table["day"].to_pylist(), strict=True
    ):
        held[name, ["mon", "tue", "wed"].index(day) if day in DAY.values else 3] += 1
    expected = [
        min(rows, sum(min(each, held[f"{i}/0", day]) for day in range(4)))
        for i in range(INSTANCES)
    ]
    assert by_day.min() >= 0
    assert by_day.max() == each
    assert by_day.sum(axis=1).tolist() == expected
    assert by_ward.sum(axis=1).tolist() == expected
    assert max(expected) == min(rows, 4 * each)


@pytest.mark.parametrize("name", sorted(QUESTIONS))
@pytest.mark.parametrize(("rows", "each"), [(3, 1), (5, 2)])
def test_measured_vectors_move_by_what_is_stated_at_most(
    name: str, rows: int, each: int
) -> None:
    asked = nw.Workload.from_spec({"queries": QUESTIONS[name]}, schema(rows, each))
    plan = nw.plan(asked, APPROXIMATE, nw.Central(composition="many"))
    table = instances(7)
    changes = moved(table, without(table, 0), schema(rows, each, INSTANCE), plan)
    parts = getattr(plan.mechanism, "parts", (plan.mechanism,))
    for part in parts:
        stated = float(plan.contribution.multiple) * part.sensitivity
        vectors = [
            in_noise(part, {t: changes[t][i] for t in part.tables})
            for i in range(INSTANCES)
        ]
        assert 0 < max(map(np.linalg.norm, vectors)) <= stated * (1 + 1e-12)
    assert plan.spend.promise(1e-9).epsilon <= 1
    # Each part's own noise, over what a person can move it by: together within the budget.
    ratios = [
        float(plan.contribution.multiple) * p.sensitivity / p.law.scale for p in parts
    ]
    assert sqrt(sum(r * r for r in ratios)) == pytest.approx(plan.spend.mu)


def in_noise(mechanism: Any, counts: Any) -> np.ndarray:
    """What is measured before the noise, every block in units of its own noise."""
    blocks = zip(mechanism.exact(counts), mechanism.laws, strict=True)
    return np.concatenate(
        [v.astype(float) * (mechanism.law.scale / law.scale) for v, law in blocks]
    )


def moved(
    table: pa.Table, smaller: pa.Table, domain: Domain, plan: Any
) -> dict[Any, np.ndarray]:
    """What one person changes in every exact table of a plan, for every instance."""
    tables = plan.mechanism.tables
    named = [
        (tuple(plan.domain.names[i] for i in t.attributes), t.measure) for t in tables
    ]
    wanted = [(("instance", *names), measure) for names, measure in named]
    pair = [DuckDBCounter().tables(d, domain, wanted) for d in (table, smaller)]
    return {
        t: (a - b).reshape(INSTANCES, -1) for t, a, b in zip(tables, *pair, strict=True)
    }


@pytest.mark.parametrize(
    "name", ["one table", "two tables", "merged", "levels", "no groups"]
)
@pytest.mark.parametrize(("rows", "each"), [(3, 1), (4, 2)])
def test_no_person_whatever_moves_more_than_is_stated(
    name: str, rows: int, each: int
) -> None:
    """All ways to spread a person's rows, against the measurement written out as a matrix."""
    domain = schema(rows, each)
    plan = nw.plan(
        nw.Workload.from_spec({"queries": QUESTIONS[name]}, domain),
        APPROXIMATE,
        nw.Central(composition="many"),
    )
    cells = domain.size
    dense = np.array(
        [measured(plan, np.eye(cells, dtype=np.int64)[c]) for c in range(cells)]
    ).T
    gram = dense.T @ dense
    day = np.unravel_index(np.arange(cells), domain.shape)[0]
    largest = max(float(x @ gram @ x) for x in people(cells, day, rows, each))
    stated = float(plan.contribution.multiple) * plan.mechanism.sensitivity
    assert sqrt(largest) <= stated * (1 + 1e-9)
    if name in ("one table", "no groups"):
        assert sqrt(largest) == pytest.approx(stated)


@pytest.mark.parametrize(("rows", "each"), [(3, 1), (5, 2)])
def test_parts_that_groups_keep_apart_and_parts_they_do_not_share_one_budget(
    rows: int, each: int
) -> None:
    """ρ over all ways to spread a person's rows, each at the end of the bounds of what it adds."""
    domain, promised = schema(rows, each), nw.Privacy(rho=0.01)
    asked = [{"mean": "cost", "by": ["ward"], "unit": 0.5}, {"marginal": ["day"]}]
    plan = nw.plan(nw.Workload.from_spec({"queries": asked}, domain), promised)
    parts = plan.mechanism.parts
    squares = {plan._row_bounds.contribution(part).square for part in parts}
    # groups bound one of them, and not the other
    assert len(parts) == len(squares) == 2

    cells = domain.size
    day = np.unravel_index(np.arange(cells), domain.shape)[0]
    gram = np.zeros((cells, cells))
    for part in parts:
        (reach,) = {table.measure.reach for table in part.tables}
        moves = [_one_row(plan, part, cell) for cell in np.eye(cells, dtype=np.int64)]
        dense = reach * np.array(moves).T / part.law.scale
        gram += dense.T @ dense
    spent = max(float(x @ gram @ x) for x in people(cells, day, rows, each)) / 2
    assert spent <= 0.01 * (1 + 1e-9)
    assert spent >= 0.01 / 3  # nor is the noise for people that there cannot be


def _one_row(plan: Any, part: Any, histogram: np.ndarray) -> np.ndarray:
    shaped = histogram.reshape(plan.sizes)
    counts = {
        t: shaped.sum(axis=tuple(i for i in range(3) if i not in t.attributes)).ravel()
        for t in part.tables
    }
    return in_noise(part, counts)


def measured(plan: Any, histogram: np.ndarray) -> np.ndarray:
    return _one_row(plan, plan.mechanism, histogram)


def people(cells: int, day: np.ndarray, rows: int, each: int) -> Any:
    """Rows of a day in one cell of it: convex in where they are, so nothing else moves more."""
    by_day = [np.flatnonzero(day == d) for d in range(4)]
    for counts in product(range(each + 1), repeat=4):
        if 0 < sum(counts) <= rows:
            for chosen in product(
                *(own if n else own[:1] for own, n in zip(by_day, counts, strict=True))
            ):
                x = np.zeros(cells)
                np.add.at(x, list(chosen), counts)
                yield x


def test_a_person_with_ten_thousand_rows_reaches_the_stated_sensitivity() -> None:
    crowd = pa.table(
        {"person": ["x"] * 10_000, "day": ["mon", "tue", "wed", "sat"] * 2500,
         "ward": ["a"] * 10_000, "cost": [1.0] * 10_000}
    )  # fmt: skip
    for rows, each in ((4, 1), (7, 2), (9_999, 2_500)):
        domain = schema(rows, each)
        plan = nw.plan(
            nw.Workload.from_spec({"queries": [{"marginal": ["day"]}]}, domain),
            APPROXIMATE,
            nw.Central(composition="many"),
        )
        (counts,) = plan.exact(crowd).values()
        assert (counts.max(), counts.sum()) == (each, min(rows, 4 * each))
        reached = float(np.linalg.norm(in_noise(plan.mechanism, plan.exact(crowd))))
        stated = float(plan.contribution.multiple) * plan.mechanism.sensitivity
        assert reached == pytest.approx(stated)
        assert plan.record()["sensitivity"] == pytest.approx(stated)


def test_errors_grow_with_the_root_of_groups_and_are_those_of_rows_without_them() -> (
    None
):
    def error(
        unit: Unit | None, asked: list[dict[str, Any]], privacy: nw.Privacy
    ) -> float:
        domain = Domain([DAY, WARD, COST], unit=unit)
        plan = nw.plan(
            nw.Workload.from_spec({"queries": asked}, domain),
            privacy,
            nw.Central(composition=many(privacy)),
        )
        return plan.forecast().rmse

    table = QUESTIONS["one table"]
    one = error(None, table, APPROXIMATE)
    assert error(Unit("person", 4, by=("day",)), table, APPROXIMATE) == pytest.approx(
        2 * one, rel=1e-3
    )
    two = error(Unit("person", 4, by=("day",), each=2), table, APPROXIMATE)
    assert two == pytest.approx(sqrt(8) * one, rel=1e-3)
    # Four days of one row are four rows, whatever number is declared: also under pure privacy.
    pure = nw.Privacy(epsilon=1)
    domain = Domain([DAY, WARD, COST], unit=Unit("person", 900, by=("day",)))
    plan = nw.plan(
        nw.Workload.from_spec({"queries": table}, domain),
        pure,
        nw.Central(mechanism="laplace"),
    )
    assert (plan.rows, plan.contribution.multiple) == (4, 4)
    merged = QUESTIONS["merged"]
    within = error(Unit("person", 4, by=("day",)), merged, APPROXIMATE)
    assert within < error(Unit("person", 4), merged, APPROXIMATE)


def test_plans_with_groups_are_kept_and_state_no_bound_of_rows(tmp_path: Path) -> None:
    asked = nw.Workload.from_spec({"queries": QUESTIONS["two tables"]}, schema(6, 2))
    plan = nw.plan(asked, APPROXIMATE, nw.Central(composition="many"))
    plan.save(tmp_path / "p.nw")
    loaded = nw.load(tmp_path / "p.nw")
    assert (loaded.spend, loaded.contribution) == (plan.spend, plan.contribution)
    assert plan.forecast().lower_bound is None
    assert "at most 2 in one cell of day" in plan.person
    assert plan.error_of_rows(6) == pytest.approx(plan.forecast().rmse)
    assert plan.error_of_rows(2) < plan.error_of_rows(6) < 3 * plan.error_of_rows(2)
    released = plan.release(instances(3))
    assert released.answer({"marginal": ["ward"]}).answers.shape == (2,)
    compared = nw.compare(asked, APPROXIMATE, nw.Central(composition="many"))
    ordinary = {row.mechanism: row.rmse for row in compared}
    assert min(r for r in ordinary.values() if r) == pytest.approx(
        plan.forecast().rmse, rel=0.06
    )


def test_squares_of_rows_in_groups_are_the_largest() -> None:
    for rows, each in product(range(1, 8), range(1, 5)):
        ways = [c for c in product(range(each + 1), repeat=7) if sum(c) <= rows]
        assert most_squares(rows, min(each, rows)) == max(
            sum(n * n for n in c) for c in ways
        )
    bounds = RowBounds((3, 2), 5, 2, (0,))
    assert bounds.of_rows(100).rows == 6
    assert Fraction(most_squares(6, 2)) == 12


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"by": ["shoe"]}, "is no attribute of the schema"),
        ({"by": ["day"], "each": 0}, "must be a whole number from 1 to the rows"),
        ({"by": ["day"], "each": 9}, "must be a whole number from 1 to the rows"),
        ({"each": 2}, "must name attributes"),
        ({"by": ["day", "day"]}, "must name attributes, each once"),
        ({"by": [3]}, "must be names of attributes"),
    ],
)
def test_groups_are_checked(unit: dict[str, Any], message: str) -> None:
    document = {"attributes": [{"name": "day", "kind": "boolean"}],
                "unit": {"column": "p", "rows": 5, **unit}}  # fmt: skip
    with pytest.raises(NoisewrightError, match=message):
        Domain.from_dict(document)


def test_groups_are_kept_in_schemas_and_need_rows_not_people() -> None:
    domain = schema(5, 2, by=("day", "ward"))
    assert Domain.from_yaml(domain.to_yaml()) == domain
    assert domain.project(["day", "ward"]).unit == domain.unit
    assert domain.project(["day"]).unit == Unit("person", 5)
    replaced = nw.Privacy(epsilon=1, delta=1e-9, neighbours="replace-one")
    with pytest.raises(InvalidParameter, match="plan for add-remove"):
        nw.plan(
            nw.Workload.from_spec({"queries": QUESTIONS["one table"]}, domain), replaced
        )
