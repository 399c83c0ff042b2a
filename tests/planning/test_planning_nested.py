"""Nested attributes and large domains, from a table of people to tables fit for print."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.domain import Categorical, Domain, Numeric
from noisewright.errors import TooLarge
from noisewright.planning.after.postprocess import Steps, check_steps
from noisewright.planning.release import Release
from noisewright.privacy.promise.budget import Privacy

DISTRICTS = [f"d{k}" for k in range(12)]
REGIONS = {"north": DISTRICTS[:3], "east": DISTRICTS[3:8], "south": DISTRICTS[8:]}
DOMAIN = Domain(
    [
        Categorical("district", DISTRICTS, levels={"region": REGIONS}),
        Categorical("sex", ["F", "M"]),
        Numeric("age", [0, 18, 40, 65, 100], integer=True, outside="clip"),
    ],
    impossible=[{"district": ["d11"], "age": {"below": 18}}],
)
ASKED = [
    {"cdf": "age", "by": ["region", "sex"]},
    {"marginal": ["region"]},
    {"marginal": ["district"]},
    {"marginal": ["region", "sex"]},
    {"marginals": 2},
    {"total": True},
]


def people(count: int) -> pa.Table:
    rng = np.random.default_rng(7)
    district = rng.choice(DISTRICTS, count)
    age = rng.integers(0, 100, count)
    age[district == "d11"] += 18
    return pa.table(
        {"district": district, "sex": rng.choice(["F", "M"], count), "age": age}
    )


def answers(release: Release) -> dict[str, dict[str, float]]:
    frame = release.to_pandas()
    return {
        str(table): dict(zip(part["query"], part["answer"], strict=True))
        for table, part in frame.groupby("table", observed=True)
    }


@pytest.mark.parametrize(
    "steps", [{}, {"non_negative": True}, {"integer": True}], ids=str
)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_every_level_adds_up(neighbours: str, steps: dict[str, bool]) -> None:
    questions = nw.Workload.from_spec({"queries": ASKED}, DOMAIN)
    plan = nw.plan(questions, Privacy(rho=0.2, neighbours=neighbours))
    assert not plan.mechanism.strategy.separate
    released = plan.release(people(3000))
    done = nw.post_process(released, **steps) if steps else released
    found = answers(done)
    total = found["total"]["total"]
    assert sum(found["region"].values()) == pytest.approx(total, abs=1e-4)
    for region, members in REGIONS.items():
        whole = found["region"][f"region = {region}"]
        parts = sum(found["district"][f"district = {d}"] for d in members)
        assert parts == pytest.approx(whole, abs=1e-4)
        by_sex = [found["region × sex"][f"region = {region}, sex = {s}"] for s in "FM"]
        assert sum(by_sex) == pytest.approx(whole, abs=1e-4)
        last = [
            v
            for k, v in found["region × sex × cdf of age"].items()
            if f"region = {region}" in k and "up to 65" in k
        ]
        assert len(last) == 2
        assert sum(last) == pytest.approx(whole, abs=1e-4)
    # Nobody can be there, and that is public: exactly zero.
    assert found["district × age"]["district = d11, age = 0–17"] == pytest.approx(
        0, abs=1e-6
    )


def test_errors_of_a_release_are_as_forecast() -> None:
    questions = nw.Workload.from_spec({"queries": ASKED}, DOMAIN)
    table = people(3000)
    exact = nw.plan(questions, Privacy(rho=1e8)).release(table).answers
    plan = nw.plan(questions, Privacy(rho=0.2))
    z = np.array([plan.release(table).answers - exact for _ in range(40)])
    std = plan.forecast().std
    z = z[:, std > 0] / std[std > 0]
    # Mean square of correlated standard normals: 40 draws bring it within 25 % (alarm below 1e-6
    # were there only five independent directions).
    assert 0.6 < float(np.mean(z**2)) < 1.5


def test_domains_too_large_for_one_histogram_are_fitted_table_by_table() -> None:
    sizes = (8,) * 8  # 16.8 million cells
    domain = Domain([Categorical(f"a{i}", list(range(n))) for i, n in enumerate(sizes)])
    rng = np.random.default_rng(3)
    table = pa.table({f"a{i}": rng.integers(0, n, 500) for i, n in enumerate(sizes)})
    pairs = [
        {"marginal": [f"a{i}", f"a{j}"]} for i, j in itertools.combinations(range(8), 2)
    ]
    asked = [*pairs, {"marginal": ["a0"]}, {"total": True}]
    plan = nw.plan(nw.Workload.from_spec({"queries": asked}, domain), Privacy(rho=0.1))
    released = plan.release(table)
    fit = answers(nw.post_process(released, non_negative=True))
    for label, value in fit["a0"].items():
        parts = sum(v for k, v in fit["a0 × a5"].items() if k.startswith(f"{label},"))
        assert parts == pytest.approx(value, abs=1e-2)
    done = nw.post_process(released, integer=True)
    assert done.answers.min() >= 0
    np.testing.assert_array_equal(done.answers, np.rint(done.answers))
    totals = {round(sum(part.values())) for part in answers(done).values()}
    assert len(totals) == 1
    assert "one by one" in done.metadata["post_processing"]["effects"]["non_negative"]
    lower, upper = done.intervals.each
    assert (lower <= done.answers).all()
    assert (done.answers <= upper).all()


def test_a_single_table_too_large_to_fit_is_refused_before_anything_is_spent() -> None:
    plan = nw.plan("identity:1024*identity:1025", Privacy(rho=0.1))
    with pytest.raises(TooLarge, match="smaller tables"):
        check_steps(plan, Steps(non_negative=True))
