"""A person counts once, however many rows they have: they change what is stated, and no more."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright import container
from noisewright.domain import Categorical, Domain, Numeric, Unit
from noisewright.errors import DomainError, InvalidParameter, NoisewrightError
from noisewright.planning.central.files import CentralFile
from noisewright.privacy.promise.budget import Contribution
from noisewright.privacy.promise.calibration import calibrate, row_budget
from noisewright.privacy.promise.spend import Gaussian, Laplace, Promise, Spend
from noisewright.tables.counter import DuckDBCounter
from noisewright.workload.questions.entries import summed_attribute
from noisewright.workload.questions.measures import COUNT

INSTANCES = 700
SECRET = "Ada Lovelace"
COLOURS = Categorical("colour", ["red", "green"], outside="other")
WEIGHT = Numeric(
    "weight", [0, 1, 5, 25], outside="clip", missing="other", lower=-2, upper=20
)
INSTANCE = Numeric.integers("instance", 0, INSTANCES - 1)


def domain(rows: int, **more: Any) -> Domain:
    return Domain([INSTANCE, COLOURS, WEIGHT], unit=Unit("person", rows, **more))


def instances(seed: int) -> pa.Table:
    """Many small tables in one: some people have one row, some have many, some rows are alike."""
    rng = np.random.default_rng(seed)
    size = INSTANCES * 9
    instance = rng.integers(0, INSTANCES, size)
    person = rng.geometric(0.45, size) - 1
    return pa.table(
        {
            "instance": instance,
            "person": [f"{i}/{p}" for i, p in zip(instance, person, strict=True)],
            "colour": rng.choice(["red", "green", "blue", None], size),
            "weight": np.where(
                rng.random(size) < 0.1, np.nan, rng.normal(5, 9, size).round(0)
            ),
        }
    )


def without(table: pa.Table, number: int) -> pa.Table:
    """The same without one person of every instance."""
    kept = [not name.endswith(f"/{number}") for name in table["person"].to_pylist()]
    return table.filter(pa.array(kept))


def counted(
    table: pa.Table, rows: int, measure: Any = COUNT, **more: Any
) -> np.ndarray:
    wanted = [(("instance", "colour", "weight"), measure)]
    counts = DuckDBCounter().tables(table, domain(rows, **more), wanted)[0]
    return counts.reshape(INSTANCES, -1)


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("person", [0, 1])
def test_one_person_adds_as_many_rows_as_count_and_moves_nobody_else(
    rows, person
) -> None:
    table = instances(seed=rows)
    change = counted(table, rows) - counted(without(table, person), rows)
    names, times = np.unique(table["person"].to_pylist(), return_counts=True)
    own = dict(zip(names, times, strict=True))
    expected = [min(rows, own.get(f"{i}/{person}", 0)) for i in range(INSTANCES)]
    assert (change >= 0).all()
    assert change.sum(axis=1).tolist() == expected
    assert max(expected) == min(rows, max(times))  # some do have more rows than count


@pytest.mark.parametrize("rows", [1, 3])
def test_one_person_moves_a_sum_by_the_reach_of_every_row_at_most(rows) -> None:
    measure = summed_attribute(WEIGHT, 0.5)
    table = instances(seed=11)
    change = counted(table, rows, measure) - counted(without(table, 0), rows, measure)
    assert 0 < np.abs(change).sum(axis=1).max() <= rows * measure.reach


QUESTIONS = {
    "queries": [
        {"marginal": ["colour"]},
        {"marginal": ["colour", "weight"]},
        {"cdf": "weight", "by": ["colour"]},
        {"mean": "weight", "by": ["colour"], "unit": 0.5},
    ]
}
BUDGETS = [
    nw.Privacy(epsilon=1),
    nw.Privacy(epsilon=1, delta=1e-9),
    nw.Privacy(rho=0.1),
]


def many(privacy: nw.Privacy) -> Any:
    """What keeps to Gaussian noise where noise for pure ε would do."""
    return "many" if privacy.kind == "approximate" else "one"


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda privacy: privacy.kind)
def test_the_measured_vector_moves_by_the_stated_sensitivity_at_most(privacy) -> None:
    rows, table = 3, instances(seed=5)
    smaller = without(table, 0)
    schema = Domain([COLOURS, WEIGHT], unit=Unit("person", rows))
    named = "laplace-strategy" if privacy.kind == "pure" else "auto"
    plan = nw.plan(
        nw.Workload.from_spec(QUESTIONS, schema),
        privacy,
        nw.Central(mechanism=named, composition=many(privacy)),
    )
    changes = {t: moved(table, smaller, rows, plan, t) for t in plan.mechanism.tables}
    order = 1 if privacy.kind == "pure" else 2
    for part in plan.mechanism.parts:
        largest = 0.0
        for i in range(INSTANCES):
            vector = in_noise(part, {t: changes[t][i] for t in part.tables})
            largest = max(largest, float(np.linalg.norm(vector, order)))
        assert 0 < largest <= rows * part.sensitivity
        # The noise is for that many rows, from the person's own budget.
        assert part.law == calibrate(part.privacy, **{f"l{order}": part.sensitivity})
    assert plan.spend.of_rows(Contribution(1)) == plan.spend
    promised = plan.spend.promise(privacy.delta)
    assert (promised.epsilon or promised.rho) <= (privacy.epsilon or privacy.rho)
    assert plan.spend == plan.mechanism.spend.of_rows(Contribution(rows))


def in_noise(mechanism: Any, counts: Any) -> np.ndarray:
    """What is measured before the noise, every block in units of its own noise."""
    blocks = zip(mechanism.exact(counts), mechanism.laws, strict=True)
    return np.concatenate(
        [v.astype(float) * (mechanism.law.scale / law.scale) for v, law in blocks]
    )


def moved(
    table: pa.Table, smaller: pa.Table, rows: int, plan: Any, t: Any
) -> np.ndarray:
    """What one person changes in one exact table, for every instance."""
    names = tuple(plan.domain.names[i] for i in t.attributes)
    wanted = [
        (("instance", *names), t.measure),
        (("instance", "colour", "weight"), COUNT),
    ]
    pair = [
        DuckDBCounter().tables(d, domain(rows), wanted)[0] for d in (table, smaller)
    ]
    return (pair[0] - pair[1]).reshape(INSTANCES, -1)


def test_rows_that_fall_into_one_cell_reach_the_stated_sensitivity() -> None:
    crowd = pa.table(
        {"person": ["x"] * 10_000, "colour": ["red"] * 10_000, "weight": [3.0] * 10_000}
    )
    for privacy in BUDGETS:
        schema = Domain([COLOURS], unit=Unit("person", 50))
        asked = nw.Workload.from_spec({"queries": [{"marginal": ["colour"]}]}, schema)
        plan = nw.plan(
            asked,
            privacy,
            nw.Central(mechanism="laplace" if privacy.kind == "pure" else "gaussian"),
        )
        counts = plan.exact(crowd)
        assert [c.sum() for c in counts.values()] == [50]
        vector = in_noise(plan.mechanism, counts)
        order = 1 if privacy.kind == "pure" else 2
        assert np.linalg.norm(vector, order) == pytest.approx(
            50 * plan.mechanism.sensitivity
        )


def test_the_rows_kept_follow_from_no_order_and_from_the_key() -> None:
    table = instances(seed=3)
    rng = np.random.default_rng(0)
    kept = counted(table, 2)
    for _ in range(3):
        shuffled = table.take(pa.array(rng.permutation(len(table))))
        assert (counted(shuffled, 2) == kept).all()
    assert (counted(table, 2, key="another") != kept).any()
    # Another key keeps other rows, of the same people: as many, and each as likely as any other.
    assert counted(table, 2, key="another").sum() == kept.sum()


def test_identical_rows_are_as_likely_as_others() -> None:
    """Of 2,000 people with 8 red rows and 2 green ones, one row is kept: green 1 in 5.

    The number of greens has deviation 17.9; five of them are exceeded once in 1.7 million runs.
    """
    names = np.repeat(np.arange(2000), 10)
    colours = np.tile(["red"] * 8 + ["green"] * 2, 2000)
    schema = Domain([COLOURS], unit="person")
    counts = DuckDBCounter().marginals(
        pa.table({"person": names, "colour": colours}), schema, [("colour",)]
    )[0]
    assert counts.sum() == 2000
    assert abs(counts[1] - 400) < 5 * 17.9


def test_rows_without_a_name_are_refused_or_one_person_each() -> None:
    table = pa.table({"person": ["a", "a", None, None], "colour": ["red"] * 4})
    schema = Domain([COLOURS], unit="person")
    with pytest.raises(DomainError, match="has no 'person'"):
        DuckDBCounter().marginals(table, schema, [("colour",)])
    each = replace(schema, unit=Unit("person", 1, "each"))
    assert DuckDBCounter().marginals(table, each, [("colour",)])[0].tolist() == [
        3,
        0,
        0,
    ]


def test_names_that_engines_write_in_their_own_way_are_refused() -> None:
    schema = Domain([COLOURS], unit="person")
    for names in ([1.0, 2.5], [True, False], [b"x", b"y"]):
        table = pa.table({"person": names, "colour": ["red", "red"]})
        with pytest.raises(DomainError, match="convert it to text") as caught:
            DuckDBCounter().marginals(table, schema, [("colour",)])
        assert "2.5" not in str(caught.value)
    with pytest.raises(InvalidParameter, match="have no column"):
        DuckDBCounter().marginals(pa.table({"colour": ["red"]}), schema, [("colour",)])
    for names in (pa.array([7, 7], pa.uint64()), pa.array(["7", "7"])):
        table = pa.table({"person": names, "colour": ["red", "red"]})
        assert DuckDBCounter().marginals(table, schema, [("colour",)])[0].tolist() == [
            1,
            0,
            0,
        ]


def test_a_refused_value_is_noticed_in_rows_that_would_not_count() -> None:
    strict = Domain([Categorical("colour", ["red"])], unit="person")
    table = pa.table({"person": ["a"] * 50, "colour": ["red"] * 49 + [SECRET]})
    with pytest.raises(DomainError, match="outside: error") as caught:
        DuckDBCounter().marginals(table, strict, [("colour",)])
    assert SECRET not in str(caught.value)


def test_values_that_only_python_encodes_are_bounded_too() -> None:
    """Fractions read as text have no SQL here."""
    schema = Domain(
        [Categorical("x", ["0.5", "1"], outside="other")], unit=Unit("person", 2)
    )
    table = pa.table({"person": ["a"] * 5 + ["b"], "x": [0.5] * 5 + [1.0]})
    assert DuckDBCounter().marginals(table, schema, [("x",)])[0].tolist() == [2, 1, 0]


def test_errors_grow_with_the_rows_that_count() -> None:
    base = Domain([COLOURS, WEIGHT])
    for privacy in BUDGETS:
        # Carry noise fits its cores to the budget, so that errors grow in other steps.
        named = "laplace-strategy" if privacy.kind == "pure" else "auto"
        one = nw.plan(
            nw.Workload.from_spec(QUESTIONS, base),
            privacy,
            nw.Central(mechanism=named, composition=many(privacy)),
        )
        assert one.person == "one row is one person"
        for rows in (1, 4):
            schema = replace(base, unit=Unit("person", rows))
            plan = nw.plan(
                nw.Workload.from_spec(QUESTIONS, schema),
                privacy,
                nw.Central(mechanism=named, composition=many(privacy)),
            )
            assert plan.forecast().rmse == pytest.approx(
                rows * one.forecast().rmse, rel=1e-3
            )
            assert plan.privacy == privacy
            assert (
                f"at most {'one row' if rows == 1 else '4 rows'}"
                in plan.record()["person"]
            )


def test_of_rows_is_the_loss_of_a_group() -> None:
    spend = Spend(
        "add-remove", (Gaussian(0.5), Laplace(0.25), Promise(0.1, 1e-9), Promise(0.1))
    )
    grown = spend.of_rows(Contribution(3)).losses
    assert grown[0] == Gaussian(1.5)
    assert grown[1] == Laplace(0.75)
    promise = grown[2]
    assert promise.epsilon >= Fraction(3, 10) - Fraction(1, 10**9)
    # (ε, δ) three times over: δ(1 + e^ε + e^2ε), as one neighbour leads to the next.
    assert promise.delta >= 1e-9 * (1 + np.exp(0.1) + np.exp(0.2))
    assert grown[3].delta == 0


def test_budgets_of_rows_are_refused_where_the_number_of_rows_is_not_public() -> None:
    replaced = nw.Privacy(epsilon=1, neighbours="replace-one")
    assert row_budget(replaced, Contribution(1)) == replaced
    with pytest.raises(InvalidParameter, match="plan for add-remove"):
        row_budget(replaced, Contribution(2))


def test_a_file_cannot_say_that_fewer_rows_count(tmp_path: Path) -> None:
    schema = Domain([COLOURS], unit=Unit("person", 5))
    asked = nw.Workload.from_spec({"queries": [{"marginal": ["colour"]}]}, schema)
    plan = nw.plan(asked, nw.Privacy(epsilon=1))
    path = tmp_path / "plan.nw"
    plan.save(path)
    loaded = nw.load(path)
    assert (loaded.privacy, loaded.spend, loaded.rows) == (plan.privacy, plan.spend, 5)
    header = container.read(path, CentralFile, "plan again")
    # Whatever the file says of rows decides both the noise and which rows are counted.
    header.workload.domain["unit"] = {"column": "person", "rows": 1}
    container.write(path, header)
    assert nw.load(path).rows == 1
    assert nw.load(path).spend.promise().epsilon <= 1
    with pytest.raises(InvalidParameter, match="is not the share of one row"):
        replace(plan, promise=nw.Privacy(epsilon=0.2))
    with pytest.raises(InvalidParameter, match="is not the share of one row"):
        replace(plan, promise=None)


def test_histograms_and_reports_know_no_people_with_many_rows() -> None:
    schema = Domain([COLOURS], unit="person")
    asked = nw.Workload.from_spec({"queries": [{"marginal": ["colour"]}]}, schema)
    plan = nw.plan(asked, nw.Privacy(epsilon=1))
    with pytest.raises(
        InvalidParameter, match="does not tell which rows share a person"
    ):
        plan.release([1, 2, 3])
    with pytest.raises(InvalidParameter, match="without a curator"):
        nw.plan(asked, nw.Privacy(epsilon=1, neighbours="replace-one"), nw.Local())


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"column": "x", "rows": 0}, "unit.rows=0 must be a whole number"),
        ({"column": "x", "rows": True}, "unit.rows=True must be"),
        ({"column": ""}, "unit.column='' must be the name"),
        ({"column": "x", "missing": "skip"}, "must be one of refuse, each"),
        ({"column": "x", "key": "a'b"}, "without quotes"),
        ({"rows": 2}, "must be a column's name"),
        ({"column": "x", "per": "decade", "date": "d"}, "must be one of day, week"),
        ({"column": "x", "per": "day"}, "goes with `per`"),
        ({"column": "x", "date": "d"}, "goes with `per`"),
        ([1], "must be a column's name"),
    ],
)
def test_units_are_checked(declared: object, message: str) -> None:
    document = {"attributes": [{"name": "a", "kind": "boolean"}], "unit": declared}
    with pytest.raises(NoisewrightError, match=message):
        Domain.from_dict(document)


def test_units_are_kept_in_schemas() -> None:
    for unit in (
        Unit("id"),
        Unit("id", 3, "each", "k"),
        Unit("id", per="week", date="d"),
    ):
        schema = Domain([COLOURS], unit=unit)
        assert Domain.from_yaml(schema.to_yaml()) == schema
        assert schema.fingerprint != Domain([COLOURS]).fingerprint
        assert schema.project(["colour"]).unit == unit


def test_joint_cells_that_python_finds_do_not_overflow() -> None:
    """A value in the last cell of many is counted like any other, with a unit as without."""
    # no engine writes these alike: found in Python
    fractions = tuple(f"{i}.5" for i in range(20))
    words = tuple(str(i) for i in range(20))
    attributes = [
        Categorical("a", fractions, outside="other"),
        Categorical("b", words, outside="other"),
    ]
    table = pa.table({"p": ["x", "y"], "a": [1.5, 19.5], "b": ["2", "19"]})
    for unit in (Unit("p"), None):
        (counts,) = DuckDBCounter().tables(
            table, Domain(attributes, unit=unit), [(("a", "b"), COUNT)]
        )
        assert counts.sum() == 2
        assert counts[19 * 21 + 19] == 1
