"""What travels with answers says what was drawn, and another library recovers ε from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.planning.after.postprocess import post_process
from noisewright.privacy.promise.spend import Gaussian, Laplace, Promise, Spend

COUNTS = np.array([40, 0, 7, 1000])
FIELDS = {
    "unit", "neighbours", "promise", "spend", "noise", "noise_unit", "adaptivity",
    "post_processing", "unbiased", "ledger", "versions",
}  # fmt: skip


@pytest.mark.parametrize(
    "budget", [{"rho": 0.1}, {"epsilon": 1.0}, {"epsilon": 1, "delta": 1e-9}]
)
def test_a_statement_tells_what_was_drawn(
    budget: dict[str, float], tmp_path: Path
) -> None:
    plan = nw.plan("prefix:4", nw.Privacy(**budget))
    release = plan.release(COUNTS)
    stated = release.statement()
    assert set(stated) == FIELDS
    (noise,) = stated["noise"]
    (loss,) = plan.spend.losses
    ratio = loss.mu if isinstance(loss, Gaussian) else loss.ratio
    assert noise["sensitivity"] / noise["scale"] == pytest.approx(ratio, rel=1e-15)
    assert stated["ledger"]["recorded"] is False
    assert "not known here" in stated["adaptivity"]
    done = post_process(release, non_negative=True)
    assert (stated["unbiased"], done.statement()["unbiased"]) == (True, False)
    assert done.statement()["post_processing"][0]["non_negative"] is True
    done.write(tmp_path / "a.csv")
    written = json.loads((tmp_path / "a.csv.meta.json").read_text())
    assert written["statement"] == json.loads(json.dumps(done.statement()))


def test_estimates_have_a_statement_too() -> None:
    plan = nw.plan("identity:4", nw.Privacy(epsilon=1.0), nw.Local())
    stated = plan.estimate(plan.randomize(np.arange(400) % 4)).statement()
    assert stated["unit"] == "one report, sent by one person"


def accountant(event: object) -> object:
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant(value_discretization_interval=2.0**-13).compose(event)


def test_dp_accounting_recovers_the_epsilon_of_a_gaussian_release() -> None:
    release = nw.plan(
        "prefix:4", nw.Privacy(epsilon=1, delta=1e-6), nw.Central(composition="many")
    ).release(COUNTS)
    found = accountant(release.to_dp_accounting()).get_epsilon(1e-6)
    assert found == pytest.approx(1.0, abs=1e-6)


def test_dp_accounting_recovers_the_epsilon_of_a_mixture() -> None:
    spend = Spend(
        "add-remove", (Gaussian(0.4), Laplace(3000 * 2.0**-13), Gaussian(0.3))
    )
    found = accountant(spend.to_dp_accounting()).get_epsilon(1e-6)
    from noisewright.privacy.promise.composition import composed_epsilon

    assert found == pytest.approx(composed_epsilon(spend, 1e-6), abs=1e-6)


def test_promises_that_may_fail_are_no_event() -> None:
    with pytest.raises(nw.NoisewrightError, match="no event of dp-accounting"):
        Spend("add-remove", (Promise(1.0, 1e-9),)).to_dp_accounting()
