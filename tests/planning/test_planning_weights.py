"""Survey weights: capped, counted exactly, and hidden by noise for the most one person can move."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.central.composite import Composite
from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.budget import NEIGHBOURS

CAP = 4.0
WEIGHT = nw.Numeric("w", (0, CAP), outside="clip", missing="other")
DOMAIN = nw.Domain(
    [
        nw.Categorical("sex", ("F", "M")),
        nw.Numeric("age", (0, 20, 40, 60, 80, 100), integer=True),
        nw.Numeric("hours", (0, 25, 50)),
        WEIGHT,
    ]
)
QUERIES = [
    {"marginal": "sex", "weight": "w"},
    {"mean": "hours", "by": "sex", "weight": "w"},
    {"sum": "hours", "weight": "w"},
    {"cdf": "age", "weight": "w", "importance": 2},
    {"quantiles": "age", "at": [0.5], "weight": "w"},
    {"count": "age >= 60", "weight": "w"},
]


def people(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], count),
            "age": rng.integers(0, 100, count),
            "hours": rng.uniform(0, 50, count),
            "w": rng.lognormal(0, 1, count),
        }
    )


def planned(privacy: nw.Privacy, queries: list[dict] = QUERIES) -> nw.Plan:
    return nw.plan(nw.Workload.from_spec({"queries": queries}, DOMAIN), privacy)


def truth(table: pa.Table) -> np.ndarray:
    """By definition, from capped weights alone."""
    sex, age, hours, w = (
        np.array(table[name].to_pylist()) for name in table.column_names
    )
    w = np.clip(w, 0, CAP)
    sexes = [w[sex == s].sum() for s in "FM"]
    means = [(w * hours)[sex == s].sum() / w[sex == s].sum() for s in "FM"]
    below = [w[age < edge].sum() for edge in (20, 40, 60, 80, 101)]
    order = np.argsort(age)
    median = age[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)]
    return np.array(
        [*sexes, *means, (w * hours).sum(), *below, median, w[age >= 60].sum()]
    )


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_answers_are_those_of_capped_weights(neighbours: str) -> None:
    """At ρ = 1e4 what is left is rounding to thousandths, and bins of the quantile."""
    table = people(4000)
    plan = planned(nw.Privacy(rho=1e4, neighbours=neighbours))
    answers, expected = plan.release(table).answers, truth(table)
    np.testing.assert_allclose(
        np.delete(answers, 10), np.delete(expected, 10), rtol=1e-3
    )
    assert answers[10] == pytest.approx(expected[10], abs=10)


COUNTED: dict[Any, list[Any]] = {}


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}], ids=str)
def test_the_sensitivity_is_the_most_that_one_person_moves(
    neighbours: str, budget: dict[str, float]
) -> None:
    """Brute force over who is added, or replaced by whom, at extreme weights and values."""
    plan = planned(nw.Privacy(**budget, neighbours=neighbours))
    assert isinstance(plan.mechanism, Composite)
    extremes = list(product("FM", range(0, 100, 20), (0.0, 50.0), (0.0, 1e9)))
    columns = dict(
        zip(("sex", "age", "hours", "w"), zip(*extremes, strict=True), strict=True)
    )
    rows = pa.table({name: list(values) for name, values in columns.items()})
    order = 1 if "epsilon" in budget else 2
    key = tuple(plan.mechanism.tables)  # which are the same under every budget
    if key not in COUNTED:
        COUNTED[key] = [plan.exact(rows.slice(k, 1)) for k in range(len(extremes))]
    tables = COUNTED[key]
    for part in plan.mechanism.parts:
        measured = getattr(part, "measured", part)
        scales = [1 / block.noise for block in measured.strategy.blocks]
        vectors = np.array(
            [
                np.concatenate(
                    [
                        scale * own
                        for scale, own in zip(
                            scales, measured.exact(counts), strict=True
                        )
                    ]
                )
                for counts in tables
            ]
        )
        moved = vectors
        if neighbours == "replace-one":
            moved = (vectors[:, None] - vectors[None]).reshape(-1, vectors.shape[1])
        most = np.linalg.norm(moved, ord=order, axis=1).max()
        assert most <= measured.sensitivity * (1 + 1e-9)
        assert measured.sensitivity == pytest.approx(most, rel=1e-6)


def test_a_weight_above_its_cap_is_the_cap_and_never_told() -> None:
    table = people(50, seed=3)
    capped = pa.table(
        {**{n: table[n] for n in table.column_names[:3]}, "w": [CAP] * 50}
    )
    wild = capped.set_column(3, "w", [pa.array([1e300, float("inf")] * 25)])
    plan = planned(nw.Privacy(rho=1))
    for mine, theirs in zip(
        plan.exact(wild).values(), plan.exact(capped).values(), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    nobody = capped.set_column(3, "w", [pa.array([None, -7.0] * 25)])
    assert not any(counts.any() for counts in plan.exact(nobody).values())


def test_weighted_answers_are_unbiased_and_covered() -> None:
    """80 runs of 12 answers: coverage of 95 % intervals is above 0.9 but for 1e-3 (each table's
    answers are dependent: at worst as 80 runs, 5 tables), means within 5 standard errors."""
    table = people(3000, seed=4)
    plan = planned(nw.Privacy(rho=0.2))
    told = plan.simulate(table, seed=5, runs=80).tables
    assert np.mean([row.covered for row in told]) > 0.9
    for row in (told[0], told[3]):
        assert row.predicted == pytest.approx(row.realised, rel=0.25)


def test_weights_live_on_and_are_asked_more(tmp_path: Path) -> None:
    release = planned(nw.Privacy(epsilon=2)).release(people(500))
    release.save(tmp_path / "r.nwr")
    loaded = nw.load(tmp_path / "r.nwr")
    np.testing.assert_array_equal(loaded.answers, release.answers)
    more = loaded.answer({"marginal": "sex", "weight": "w"})
    np.testing.assert_allclose(more.answers, release.answers[:2])
    assert set(release.to_pandas()["statistic"]) >= {"weighted count", "mean of hours"}
    with pytest.raises(nw.NoisewrightError, match="measured no numbers of people"):
        loaded.answer({"marginal": "sex"})


def test_a_builder_weighs_too() -> None:
    built = nw.table(people(200)).mean("hours", bounds=(0, 50)).by(sex=["F", "M"])
    weighted = built.important(2).weighted("w", cap=4)
    (query,) = weighted.specification["queries"]
    assert (query["weight"], query["importance"]) == ("w", 2.0)
    assert len(weighted.release(nw.Privacy(rho=1)).answers) == 3


@pytest.mark.parametrize(
    ("query", "attribute", "said"),
    [
        ({"variance": "hours", "weight": "w"}, WEIGHT, "weighs no variance"),
        ({"total": True, "weight": "sex"}, WEIGHT, "must be a numeric attribute"),
        ({"total": True, "weight": "v"}, WEIGHT, "is not in the domain"),
        (
            {"total": True, "weight": "w"},
            nw.Numeric("w", (0, 4)),
            "declare outside: clip",
        ),
        (
            {"total": True, "weight": "w"},
            nw.Numeric("w", (-1, 4), outside="clip"),
            "no weight is",
        ),
        ({"total": True, "weight": 2, "importance": 3}, WEIGHT, "is given twice"),
    ],
)
def test_weights_that_are_none_are_refused(
    query: dict, attribute: nw.Numeric, said: str
) -> None:
    domain = nw.Domain([*DOMAIN.attributes[:3], attribute])
    with pytest.raises(InvalidParameter, match=said):
        nw.Workload.from_spec({"queries": [query]}, domain)
