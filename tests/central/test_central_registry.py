"""A mechanism is one file and one entry: listed, it is planned, compared and chosen from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from central import common_shift
from noisewright.central.problem import CentralMechanism
from noisewright.central.registry import CENTRAL
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.planning.central import choose as choice

ASKED = ["prefix:6", "prefix:3*identity:2+identity:3*prefix:2", "marginals:2^3:2"]
BUDGETS = [
    nw.Privacy(rho=0.5),
    nw.Privacy(epsilon=1, delta=1e-6),
    nw.Privacy(rho=0.5, neighbours="replace-one"),
]


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CENTRAL, common_shift.ENTRY.name, common_shift.ENTRY)


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
@pytest.mark.parametrize("asked", ASKED)
def test_noise_that_is_not_per_number_is_planned_and_released(
    asked: str, privacy: nw.Privacy
) -> None:
    plan = nw.plan(asked, privacy, nw.Central(mechanism="common-shift"))
    assert plan.mechanism.name == "common-shift"
    assert plan.spend.neighbours == privacy.neighbours
    kept = plan.spend.promise(privacy.delta)
    assert (kept.rho or kept.epsilon) <= (privacy.rho or privacy.epsilon) * (1 + 1e-12)
    rows = nw.workload(asked).dense()
    variance = plan.mechanism.law.variance
    std = np.sqrt(variance * ((rows**2).sum(axis=1) + rows.sum(axis=1) ** 2))
    forecast = plan.forecast()
    np.testing.assert_allclose(forecast.std, std)
    assert forecast.rmse == pytest.approx(np.sqrt(np.mean(std**2)))
    assert (forecast.lower_bound, forecast.ratio) == (None, None)
    assert (forecast.simultaneous_halfwidth > 1.9 * std).all()
    counts = np.arange(rows.shape[1]) * 7
    released = plan.release(counts)
    # Gaussian, standardised: beyond seven with probability 3e-12 each; the noise is fresh.
    assert (np.abs(released.answers - rows @ counts) < 7 * std).all()


@pytest.mark.parametrize("asked", ASKED)
def test_it_is_compared_and_chosen_from(asked: str) -> None:
    rows = {row.mechanism: row for row in nw.compare(asked, BUDGETS[0])}
    assert set(rows) == set(CENTRAL)
    row = rows["common-shift"]
    assert row.rmse == pytest.approx(
        nw.plan(asked, BUDGETS[0], nw.Central(mechanism="common-shift")).achieved
    )
    chosen = nw.plan(asked, BUDGETS[0])
    assert (
        chosen.mechanism.name != "common-shift"
    )  # it is never better than its cells alone
    assert chosen.achieved < row.rmse


def test_refusals_are_told_with_those_of_others() -> None:
    with pytest.raises(
        InvalidParameter, match="common-shift: Gaussian noise gives no pure"
    ):
        nw.plan("prefix:6", nw.Privacy(epsilon=1), nw.Central(mechanism="common-shift"))
    with pytest.raises(InvalidParameter, match=r"choose from auto, .*common-shift"):
        nw.plan("prefix:6", BUDGETS[0], nw.Central(mechanism="uncommon-shift"))


def test_a_plan_of_no_known_kind_is_not_kept(tmp_path: Path) -> None:
    plan = nw.plan("prefix:6", BUDGETS[0], nw.Central(mechanism="common-shift"))
    with pytest.raises(FileFormatError, match="plans by common-shift cannot be kept"):
        plan.save(tmp_path / "plan.nw")
    assert not list(tmp_path.iterdir())


def test_what_is_slow_comes_last_and_is_not_asked_where_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[str] = []
    quick = CENTRAL["gaussian-strategy"]

    def slow(name: str, refusal: str | None) -> CentralMechanism:
        return replace(
            quick,
            name=name,
            refuses=lambda _: refusal,
            slow=lambda _: not times.append(f"{name} asked"),
            plan=lambda problem: times.append(f"{name} planned") or quick.plan(problem),
        )

    entries = [slow("refusing", "never"), slow("slow", None), quick]
    monkeypatch.setattr(choice, "CENTRAL", {entry.name: entry for entry in entries})
    assert (
        nw.plan("prefix:6", BUDGETS[1], nw.Central(composition="many")).mechanism.name
        == quick.name
    )
    assert times == ["slow asked"]
    assert (
        nw.plan("prefix:6", BUDGETS[1], nw.Central(mechanism="slow")).mechanism.name
        == "slow"
    )
    assert times[-1] == "slow planned"
