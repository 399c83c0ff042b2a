"""Values that nobody listed: selected by how many people hold them, and by nothing else."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.domain import Domain, Numeric, Unit
from noisewright.errors import DomainError, InvalidParameter
from noisewright.ledger import limits_of
from noisewright.ledger.book import Ledger
from noisewright.tables.counter import DuckDBCounter

PRIVACY = nw.Privacy(epsilon=1, delta=1e-6)
SECRET = "Countess of Lovelace"


def jobs() -> pa.Table:
    names = ["clerk"] * 400 + ["nurse"] * 300 + [SECRET] + [None] * 9
    return pa.table(
        {"person": list(range(len(names))), "job": names, "age": [30] * len(names)}
    )


def test_values_of_many_are_told_and_the_rest_is_other() -> None:
    plan = nw.plan(nw.Values("job"), PRIVACY)
    assert plan.chance(0) == 0
    assert plan.chance(1) == pytest.approx(1e-6)
    assert plan.chance(300) == 1
    released = plan.release(jobs())
    assert released.values == ("clerk", "nurse")
    attribute = released.attribute()
    assert attribute.labels == ("clerk", "nurse", "other")
    domain = Domain([attribute, Numeric.integers("age", 0, 99)])
    counts = DuckDBCounter().marginals(jobs(), domain, [("job",)])[0]
    assert counts.tolist() == [400, 300, 10]
    assert SECRET not in repr(released) + str(released.metadata)


def test_a_person_counts_once_for_a_value_and_for_so_many_values() -> None:
    table = pa.table(
        {
            "person": ["a"] * 900 + ["b", "c"],
            "job": ["clerk"] * 900 + ["clerk", "nurse"],
        }
    )
    held = DuckDBCounter().values(table, "job", Unit("person", 2))
    assert held == {"clerk": 2, "nurse": 1}
    many = pa.table({"person": ["a"] * 50, "job": [f"job {i}" for i in range(50)]})
    for most in (1, 3):
        held = DuckDBCounter().values(many, "job", Unit("person", most))
        shuffled = many.take(pa.array(np.random.default_rng(0).permutation(50)))
        assert list(held.values()) == [1] * most
        assert DuckDBCounter().values(shuffled, "job", Unit("person", most)) == held
    nobody = pa.table({"person": [None, "x"], "job": ["a", "b"]})
    with pytest.raises(DomainError, match="has no 'person'"):
        DuckDBCounter().values(nobody, "job", Unit("person"))
    assert DuckDBCounter().values(nobody, "job", Unit("person", 1, "each")) == {
        "a": 1,
        "b": 1,
    }


def test_the_budget_is_shared_among_the_values_of_a_person() -> None:
    alone, shared = (
        nw.plan(nw.Values("job"), PRIVACY),
        nw.plan(nw.Values("job", unit=Unit("p", 4)), PRIVACY),
    )
    assert shared.selection.epsilon == pytest.approx(0.25)
    assert shared.selection.delta == pytest.approx(2.5e-7)
    assert shared.spend == alone.spend
    assert shared.selection.certain > alone.selection.certain


def test_the_delta_is_spent_once_and_the_ledger_shows_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    budget = nw.Privacy(epsilon=3, delta=1e-5)
    ledger.create("staff", budget, limits=limits_of(budget, pure=2, aside=5e-6))
    plan = nw.plan(nw.Values("job"), PRIVACY)
    released = plan.release(jobs(), ledger=ledger, dataset="staff")
    assert released.note is not None
    assert released.note.dataset == "staff"
    used = ledger.account("staff").used
    assert (float(used.pure), float(used.delta)) == (1.0, 1e-6)
    with pytest.raises(nw.NoisewrightError):  # the same plan from the same people again
        plan.release(jobs(), ledger=ledger, dataset="staff")
    with pytest.raises(InvalidParameter, match="have no column"):
        nw.plan(nw.Values("title"), PRIVACY).release(
            jobs(), ledger=ledger, dataset="staff"
        )
    # what fails before the draw spends nothing
    assert ledger.account("staff").used == used


def test_what_has_no_delta_or_other_neighbours_is_refused_with_the_reason() -> None:
    for privacy in (nw.Privacy(epsilon=1), nw.Privacy(rho=0.1)):
        with pytest.raises(
            InvalidParameter, match="may be told with probability delta"
        ):
            nw.plan(nw.Values("job"), privacy)
    with pytest.raises(InvalidParameter, match="must be add-remove"):
        nw.plan(
            nw.Values("job"),
            nw.Privacy(epsilon=1, delta=1e-6, neighbours="replace-one"),
        )
    with pytest.raises(DomainError, match="texts that nobody listed"):
        nw.plan(nw.Values("x"), PRIVACY).release(pd.DataFrame({"x": [0.5]}))
    with pytest.raises(InvalidParameter, match="no table can be planned"):
        nw.plan(nw.Values("job"), PRIVACY).release(pa.table({"job": ["x"]})).attribute()


def test_plans_of_values_are_kept(tmp_path: Path) -> None:
    for unit in (None, Unit("person", 3, "each")):
        plan = nw.plan(nw.Values("job", unit=unit), PRIVACY)
        plan.save(tmp_path / "values.nw")
        loaded = nw.load(tmp_path / "values.nw")
        assert (loaded.summary(), loaded.unit) == (plan.summary(), unit)
        assert isinstance(loaded, nw.Plan)
