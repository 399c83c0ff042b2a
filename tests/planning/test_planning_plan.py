"""What every kind of plan is: one protocol, a short text, figures worked out once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.central.blocks import mechanism as block_mechanism
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.privacy.promise.budget import Privacy
from oracles.plan_parts import read_parts, write_parts

DOMAIN = nw.Domain(
    [nw.Categorical("sex", ["F", "M"]), nw.Numeric("age", [0, 50, 100], integer=True)]
)
KINDS = {
    "counts": lambda: nw.plan("marginals:3x4:<=2", Privacy(rho=1)),
    "pure": lambda: nw.plan("prefix:8", Privacy(epsilon=1)),
    "sums": lambda: nw.plan(nw.Sums("age", [["sex"], []], DOMAIN), Privacy(rho=1)),
    "stream": lambda: nw.plan(nw.RunningCount(50), Privacy(rho=1)),
    "banded": lambda: nw.plan(
        nw.RunningCount(50), Privacy(rho=1), nw.Stream("banded", band=4)
    ),
    "together": lambda: nw.plan(
        nw.Several(["prefix:8", "identity:8"]), Privacy(1, 1e-6)
    ),
    "local": lambda: nw.plan("identity:8", Privacy(epsilon=1), nw.Local(people=1000)),
}


@pytest.fixture(scope="module", params=KINDS)
def plan(request: pytest.FixtureRequest) -> nw.Plan:
    return KINDS[request.param]()


def test_every_plan_keeps_one_protocol(plan: nw.Plan) -> None:
    assert isinstance(plan, nw.Plan)
    forecast = plan.forecast()
    assert 0 < forecast.rmse <= forecast.max
    assert {"rmse", "max"} <= forecast.summary().keys()
    assert plan.summary()["privacy"] == plan.privacy.to_dict()
    assert len(repr(plan)) < 400
    assert type(plan).__name__ in repr(plan)
    assert "<table>" in plan._repr_html_()


def test_what_is_spent_keeps_the_promise(plan: nw.Plan) -> None:
    budget = plan.privacy
    promise = plan.spend.promise(budget.delta)
    assert promise.neighbours == budget.neighbours
    if budget.rho is not None:
        assert promise.rho <= budget.rho * (1 + 1e-12)
    else:
        assert promise.epsilon <= budget.epsilon * (1 + 1e-9)


def test_every_plan_survives_its_file(plan: nw.Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "p.nw")
    again = nw.load(tmp_path / "p.nw")
    assert type(again) is type(plan)
    assert again.privacy == plan.privacy
    assert again.spend == plan.spend
    np.testing.assert_array_equal(again.forecast().std, plan.forecast().std)


def test_variances_are_worked_out_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = []
    plain = block_mechanism.query_variances

    def counted(*given):
        calls.append(1)
        return plain(*given)

    monkeypatch.setattr(block_mechanism, "query_variances", counted)
    plan = nw.plan("prefix:8", Privacy(rho=1))
    plan.forecast()
    plan.summary()
    plan.table_errors()
    for _ in range(3):
        plan.release(np.arange(8)).to_pandas()
    assert len(calls) == 1


def test_a_release_is_its_measurement_and_survives_its_file(tmp_path: Path) -> None:
    plan = nw.plan("prefix:6", Privacy(rho=1, neighbours="replace-one"))
    plain = plan.release(np.arange(6))
    fitted = nw.post_process(
        plain, invariants={"[0..5]": 15}, integer=True, suppress=2.0
    )
    for release in (plain, fitted):
        release.save(tmp_path / "r.nwr")
        again = nw.load(tmp_path / "r.nwr")
        assert isinstance(again, nw.Release)
        np.testing.assert_array_equal(again.answers, release.answers)
        for ends, other in zip(again.intervals.all, release.intervals.all, strict=True):
            np.testing.assert_array_equal(ends, other)
        assert again.metadata == release.metadata
    np.testing.assert_array_equal(nw.post_process(again.__class__(
        again.plan, again.measurement, (), again.identity, again.time
    ), integer=True).answers, nw.post_process(plain, integer=True).answers)  # fmt: skip


def test_estimates_survive_their_file(tmp_path: Path) -> None:
    plan = nw.plan("prefix:6", Privacy(epsilon=2), nw.Local(mechanism="hadamard"))
    release = plan.estimate(plan.randomize(np.arange(600) % 6), non_negative=True)
    release.save(tmp_path / "e.nwr")
    again = nw.load(tmp_path / "e.nwr")
    np.testing.assert_array_equal(again.answers, release.answers)
    assert again.metadata == release.metadata


def test_a_measurement_of_another_form_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.nwr"
    nw.plan("prefix:6", Privacy(rho=1)).release(np.arange(6)).save(file)
    header, arrays = read_parts(file)
    (number,) = header["measurement"]["values"]
    name = str(number)
    for forged in (arrays[name][:-1], arrays[name].astype(int), arrays[name] * np.nan):
        write_parts(file, header, {**arrays, name: forged})
        with pytest.raises(FileFormatError):
            nw.load(file)


def test_steps_in_an_order_that_is_refused_are_refused_from_a_file_too(
    tmp_path: Path,
) -> None:
    file = tmp_path / "r.nwr"
    plan = nw.plan("prefix:6", Privacy(rho=1, neighbours="replace-one"))
    nw.post_process(plan.release(np.arange(6)), invariants={"[0..5]": 15}).save(file)
    header, arrays = read_parts(file)
    header["steps"] = header["steps"] * 2
    write_parts(file, header, arrays)
    with pytest.raises(nw.NoisewrightError, match="before other steps"):
        nw.load(file)


def test_a_plan_over_other_cells_than_the_schema_has_is_refused(tmp_path: Path) -> None:
    """As many cells in another shape: tables of other people's cells would be added up."""
    domain = nw.Domain(
        [nw.Categorical("a", ["x", "y"]), nw.Categorical("b", ["p", "q", "r"])]
    )
    file = tmp_path / "p.nw"
    nw.plan("marginals:2x3:<=2", Privacy(rho=1), domain=domain).save(file)
    header, arrays = read_parts(file)
    header["sizes"] = [3, 2]
    write_parts(file, header, arrays)
    with pytest.raises(nw.NoisewrightError):
        nw.load(file)
    plan = nw.plan("marginals:2x3:<=2", Privacy(rho=1), domain=domain)
    with pytest.raises(InvalidParameter, match="schema's attributes"):
        replace(plan, sizes=(3, 2))


def test_a_plan_that_measures_less_than_it_asks_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.nw"
    nw.plan(nw.Sums("age", [["sex"]], DOMAIN), Privacy(rho=1)).save(file)
    header, arrays = read_parts(file)
    for member in header["strategy"]["members"]:
        write_parts(file, {**header, "strategy": member, "bound": None}, arrays)
        with pytest.raises(nw.NoisewrightError, match="plan again"):
            nw.load(file)


def test_several_plans_read_a_stream_once() -> None:
    questions = [
        nw.Workload.from_spec({"queries": [{"marginal": [name]}]}, DOMAIN)
        for name in ("sex", "age")
    ]
    together = nw.plan(nw.Several(questions), Privacy(rho=100))
    table = pa.table({"sex": ["F"] * 60 + ["M"] * 40, "age": [10] * 30 + [90] * 70})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    first, second = together.release(stream)
    np.testing.assert_allclose(first.answers, [60, 40], atol=5)
    np.testing.assert_allclose(second.answers, [30, 70], atol=5)


def test_squares_and_sums_of_many_people_fit_a_word() -> None:
    from noisewright.workload.questions.measures import _LARGEST_ROOT

    assert _LARGEST_ROOT**2 * 2**31 <= 2**63


def test_plans_for_other_neighbours_than_they_say_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.nw"
    nw.plan(nw.Several(["prefix:8", "identity:8"]), Privacy(rho=1)).save(file)
    header, arrays = read_parts(file)
    header["privacy"]["neighbours"] = "replace-one"
    write_parts(file, header, arrays)
    with pytest.raises(FileFormatError, match="more than the budget"):
        nw.load(file)


def test_plans_that_spend_more_together_than_they_say_are_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "t.nw"
    nw.plan(nw.Several(["prefix:8", "identity:8"]), Privacy(rho=1)).save(file)
    header, arrays = read_parts(file)
    header["plans"][0]["privacy"]["rho"] *= 2
    write_parts(file, header, arrays)
    with pytest.raises(FileFormatError, match="more than the budget"):
        nw.load(file)
