"""Values that nobody listed, and tables over them, in one plan and one entry of a ledger."""

import csv
import json
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

import noisewright as nw
from noisewright import container
from noisewright.errors import DomainError, FileFormatError, InvalidParameter
from noisewright.ledger import limits_of
from noisewright.ledger.book import Ledger
from noisewright.planning.found.open_files import OpenReleaseFile
from noisewright.planning.rows.files import PairsReleaseFile
from noisewright.privacy.promise.spend import Gaussian, Promise

PRIVACY = nw.Privacy(epsilon=2, delta=1e-6)
SCHEMA = {
    "attributes": [
        {"name": "job", "kind": "open"},
        {"name": "sex", "kind": "categorical", "values": ["F", "M"]},
    ]
}
QUERIES = {"queries": [{"marginal": ["job", "sex"]}, {"marginal": ["sex"]}]}
SECRET = "Astronomer Royal"


def staff() -> pd.DataFrame:
    jobs = ["clerk"] * 4000 + ["nurse"] * 2500 + [SECRET] + [None] * 9
    return pd.DataFrame({"job": jobs, "sex": ["F", "M"] * (len(jobs) // 2)})


def test_values_are_told_and_tables_measured_over_them() -> None:
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY)
    assert (plan.chance(0), plan.chance(4000)) == (0, 1)
    assert plan.chance(1) == pytest.approx(1e-6 * 0.25)
    released = plan.release(staff())
    assert released.plan.values == {"job": ("clerk", "nurse")}
    answers = released
    # Seven cells of Gaussian noise: none errs by eight deviations but with chance below 1e-14.
    exact = [2000, 2000, 1250, 1250, 5, 5, 3255, 3255]
    assert (np.abs(answers.answers - exact) <= 8 * answers.std).all()
    assert SECRET not in str(released.metadata) + released.to_pandas().to_csv()


def test_all_of_it_is_one_promise_that_keeps_the_budget() -> None:
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA, share=0.4), PRIVACY)
    values, tables = plan.spend.losses
    assert isinstance(values, Promise)
    assert isinstance(tables, Gaussian)
    assert (values.epsilon, values.delta) == pytest.approx((0.8, 4e-7))
    promised = plan.spend.promise(PRIVACY.delta)
    assert promised.epsilon <= PRIVACY.epsilon
    # Whatever is told, the tables spend no more than is reserved.
    for count in (1, 3, 50):
        assert plan.over({"job": [f"j{i}" for i in range(count)]}).spend.mu <= tables.mu


def test_the_delta_is_spent_once_and_the_ledger_shows_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    budget = nw.Privacy(epsilon=4, delta=1e-5)
    ledger.create("staff", budget, limits=limits_of(budget, pure=1, aside=1e-6))
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY)
    with pytest.raises(InvalidParameter, match="have no column"):
        plan.release(staff().drop(columns="job"), ledger=ledger, dataset="staff")
    # what fails before the draw spends nothing
    assert ledger.account("staff").releases == []
    released = plan.release(staff(), ledger=ledger, dataset="staff")
    account = ledger.account("staff")
    assert len(account.releases) == 1
    assert float(account.used.delta) == pytest.approx(2.5e-7)
    assert released.metadata["ledger"]["dataset"] == "staff"
    assert released.metadata["privacy"]["epsilon"] == 2
    with pytest.raises(nw.NoisewrightError, match="released from staff before"):
        plan.release(staff(), ledger=ledger, dataset="staff")


def test_people_with_many_rows_share_their_budget_among_values() -> None:
    schema = {**SCHEMA, "unit": {"column": "person", "rows": 3}}
    plan = nw.plan(nw.OpenQuestions(QUERIES, schema), PRIVACY)
    assert plan.value_plans[0].selection.epsilon == pytest.approx(0.5 / 3)
    assert plan.over({"job": ["x"]}).rows == 3
    assert plan.cost.unit is not None
    table = staff().assign(person=[i // 2 for i in range(len(staff()))])
    assert plan.release(table).plan.values["job"] == ("clerk", "nurse")


def test_forecasts_are_for_a_number_of_values() -> None:
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY)
    assert len(plan.forecast(5).std) == 6 * 2 + 2
    summary = plan.summary()
    assert summary["people_for_even_chance"] < summary["people_for_95_percent"]
    assert plan.chance(summary["people_for_95_percent"]) >= 0.95
    assert summary["rmse"] > 0


def test_plans_are_kept_and_told_anew(tmp_path: Path) -> None:
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA, share=0.5), PRIVACY)
    plan.save(tmp_path / "open.nw")
    loaded = nw.load(tmp_path / "open.nw")
    assert loaded.spend == plan.spend
    assert loaded.cost.plan == plan.cost.plan
    released = loaded.release(staff())
    beside = released.write(tmp_path / "answers.csv")
    assert json.loads(beside.read_text())["open"] == {"job": 2}


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    for privacy in (nw.Privacy(epsilon=1), nw.Privacy(rho=0.1)):
        with pytest.raises(
            InvalidParameter, match="may be told with probability delta"
        ):
            nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), privacy)
    closed = {"attributes": SCHEMA["attributes"][1:]}
    with pytest.raises(InvalidParameter, match="declares no attribute of that kind"):
        nw.plan(nw.OpenQuestions({"queries": [{"marginal": ["sex"]}]}, closed), PRIVACY)
    with pytest.raises(InvalidParameter, match="share"):
        nw.plan(nw.OpenQuestions(QUERIES, SCHEMA, share=1.0), PRIVACY)
    listed = {"attributes": [{"name": "job", "kind": "open", "values": ["x"]}]}
    with pytest.raises(DomainError, match="no values of its own"):
        nw.plan(nw.OpenQuestions({"queries": [{"marginal": ["job"]}]}, listed), PRIVACY)
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY)
    with pytest.raises(DomainError, match="no value of job is held by enough"):
        plan.release(pd.DataFrame({"job": [SECRET], "sex": ["F"]}))
    import pyarrow as pa

    stream = pa.Table.from_pandas(staff()).to_reader()
    with pytest.raises(InvalidParameter, match="is read twice"):
        plan.release(stream)


def test_releases_are_kept_whole_and_bought_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    budget = nw.Privacy(epsilon=8, delta=1e-5)
    ledger.create("staff", budget, limits=limits_of(budget, pure=4, aside=1e-6))
    plan = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY)
    released = plan.release(staff(), ledger=ledger, dataset="staff")
    again = plan.release(staff(), ledger=ledger, dataset="staff", again="stored")
    released.save(tmp_path / "answers.nwr")
    loaded = nw.load(tmp_path / "answers.nwr")
    for other in (again, loaded):
        assert other.answers.tolist() == released.answers.tolist()
        assert other.metadata == released.metadata
        assert other.plan.values == released.plan.values
    assert len(ledger.account("staff").releases) == 1
    assert loaded.plan.privacy == PRIVACY
    assert loaded.answer({"marginal": ["job"]}).answers.shape == (3,)
    assert loaded.statement()["spend"] == plan.spend.to_dict()
    with pytest.raises(InvalidParameter, match="is of one release"):
        loaded.plan.release(staff())


def test_files_whose_tables_are_not_of_the_values_told_are_refused(
    tmp_path: Path,
) -> None:
    released = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY).release(staff())
    tables = released.plan
    others = {"job": ("clerk", SECRET)}
    with pytest.raises(InvalidParameter, match="are not those of the values told"):
        tables.selection.told(tables, others)
    with pytest.raises(InvalidParameter, match="are not of the open attributes"):
        tables.selection.told(tables, {})
    # A larger share for the tables than the budget leaves them.
    richer = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA, share=0.1), PRIVACY).over(
        tables.values
    )
    with pytest.raises(InvalidParameter, match="are not those of the values told"):
        tables.selection.told(richer, tables.values)


def test_values_that_people_wrote_run_in_no_spreadsheet_and_have_a_length(
    tmp_path: Path,
) -> None:
    """A formula is told as text; what is too long to be a label is among the others."""
    formula, endless = '=HYPERLINK("http://example.org","more")', "x" * 201
    jobs = [formula] * 4000 + ["nurse"] * 2500 + [endless] * 2500
    table = pd.DataFrame({"job": jobs, "sex": ["F", "M"] * (len(jobs) // 2)})
    released = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY).release(table)
    assert released.plan.values == {"job": (formula, "nurse")}
    released.write(tmp_path / "answers.csv")
    lines = (tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()
    cells = {cell for row in csv.reader(lines) for cell in row}
    assert f"'{formula}" in cells
    assert not any(cell.startswith("=") for cell in cells)
    assert not any(endless in cell for cell in cells)


def test_a_file_with_a_release_of_another_kind_as_its_tables_is_refused(
    tmp_path: Path,
) -> None:
    released = nw.plan(nw.OpenQuestions(QUERIES, SCHEMA), PRIVACY).release(staff())
    other = nw.plan(nw.Pairs(3), nw.Privacy(epsilon=1)).release(np.ones((9, 3)))
    forged = msgspec.structs.replace(
        OpenReleaseFile.of(released), tables=PairsReleaseFile.of(other)
    )
    (tmp_path / "forged.nwr").write_bytes(container.encode(forged))
    with pytest.raises(FileFormatError):
        nw.load(tmp_path / "forged.nwr")
