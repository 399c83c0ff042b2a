"""Two releases as one: better than either, spent twice, and never of different truths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.mechanism import Measurement
from noisewright.errors import InvalidParameter
from noisewright.ledger.book import Ledger
from oracles.privacy_oracles import SeededSource

COUNTS = np.array([40, 0, 7, 1000])
DOMAIN = nw.Domain(
    [nw.Categorical("sex", ("F", "M")), nw.Categorical("region", ("N", "S", "W"))]
)
TABLE = {"sex": ["F", "M", "F", "F"] * 50, "region": ["N", "S", "W", "W"] * 50}


def asked(*queries: dict) -> nw.Workload:
    return nw.Workload.from_spec({"queries": list(queries)}, DOMAIN)


@pytest.mark.parametrize("second", [0.2, 0.05])
def test_equal_questions_are_weighed_by_inverse_variance(second: float) -> None:
    pair = [
        nw.plan("identity:4", nw.Privacy(rho=rho)).release(COUNTS)
        for rho in (0.1, second)
    ]
    both = nw.combine(*pair)
    weights = [release.std**-2 for release in pair]
    mean = sum(w * r.answers for w, r in zip(weights, pair, strict=True)) / sum(weights)
    np.testing.assert_allclose(both.answers, mean, rtol=1e-9)
    np.testing.assert_allclose(both.std, sum(weights) ** -0.5, rtol=1e-6)
    assert both.plan.spend == pair[0].plan.spend + pair[1].plan.spend
    assert both.plan.privacy.rho == pytest.approx(0.1 + second, rel=1e-6)


def test_answers_of_different_questions_are_unbiased_with_the_errors_told() -> None:
    """Bands: each of 10 means within 5 standard errors of 300 runs, and each spread within 25 %:
    false alarm below 1e-5 (a deviation of 300 normals is off by 25 % with chance 1e-8)."""
    import pyarrow as pa

    first = nw.plan(asked({"marginal": ["sex", "region"]}), nw.Privacy(rho=0.4))
    second = nw.plan(
        asked({"marginal": ["region"]}, {"total": True}), nw.Privacy(rho=0.8)
    )
    table, runs = pa.table(TABLE), 300
    both = nw.combine(first.release(table), second.release(table))
    counts = [plan.exact(table) for plan in (first, second)]
    source = SeededSource(3)
    answers = np.array(
        [
            both.plan.linear_answers(
                Measurement(
                    parts=tuple(
                        plan.mechanism.measure(own, source)
                        for plan, own in zip((first, second), counts, strict=True)
                    )
                )
            )
            for _ in range(runs)
        ]
    )
    truth = np.array([50, 0, 100, 0, 50, 0, 50, 50, 100, 200.0])
    assert (both.std[:6] < first.forecast().std - 1e-9).all()
    assert (both.std[6:9] < second.forecast().std[:3] - 1e-9).all()
    assert (np.abs(answers.mean(axis=0) - truth) < 5 * both.std / np.sqrt(runs)).all()
    np.testing.assert_allclose(answers.std(axis=0), both.std, rtol=0.25)


def test_a_combined_release_is_kept_and_asked_more(tmp_path: Path) -> None:
    import pyarrow as pa

    plan = nw.plan(asked({"marginal": ["sex", "region"]}), nw.Privacy(epsilon=1))
    both = nw.combine(plan.release(pa.table(TABLE)), plan.release(pa.table(TABLE)))
    both.save(tmp_path / "both.nwr")
    loaded = nw.load(tmp_path / "both.nwr")
    np.testing.assert_array_equal(loaded.answers, both.answers)
    assert loaded.metadata["spend"] == both.metadata["spend"]
    assert loaded.plan.privacy.epsilon == pytest.approx(2)
    more = loaded.answer({"marginal": "sex"})
    np.testing.assert_allclose(more.answers, both.answers.reshape(2, 3).sum(axis=1))


def test_the_same_noise_is_never_used_twice() -> None:
    plan = nw.plan("identity:4", nw.Privacy(rho=0.1))
    first, second = plan.release(COUNTS), plan.release(COUNTS)
    for pair in ((first, first), (nw.combine(first, second), first)):
        with pytest.raises(InvalidParameter, match="share a measurement"):
            nw.combine(*pair)


@pytest.mark.parametrize("rows", [1, 3])
def test_releases_that_keep_some_rows_of_a_person_are_not_mixed(
    rows: int, tmp_path: Path
) -> None:
    """Which rows count follows from what is read, so that the truths of the two differ."""
    domain = nw.Domain(DOMAIN.attributes, unit=nw.Unit("person", rows))
    path = tmp_path / "rows.csv"
    lines = [f"{i // 5},{'FM'[i % 2]},{'NSW'[i % 3]}" for i in range(200)]
    path.write_text("\n".join(["person,sex,region", *lines]))
    releases = [
        nw.plan(
            nw.Workload.from_spec({"queries": [{"marginal": n}]}, domain),
            nw.Privacy(rho=1),
        )
        for n in (["sex"], ["sex", "region"])
    ]
    truths = [next(iter(plan.exact(path).values())).sum() for plan in releases]
    assert truths == [40 * rows] * 2
    with pytest.raises(
        InvalidParameter, match="need not be about the same rows of a person"
    ):
        nw.combine(*(plan.release(path) for plan in releases))


def test_a_ledger_tells_whether_both_are_of_the_same_people(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "budget.db")
    for name in ("people", "others"):
        book.create(name, nw.Privacy(rho=1.0))
    plan = nw.plan("identity:4", nw.Privacy(rho=0.1))

    def release(dataset: str) -> nw.Release:
        return plan.release(COUNTS, ledger=book, dataset=dataset, again="spend")

    first, second = release("people"), release("people")
    later = max(r.metadata["ledger"]["entry"] for r in (first, second))
    for pair in ((first, second), (second, first)):
        assert nw.combine(*pair).metadata["ledger"]["entry"] == later
    assert (
        nw.combine(first, plan.release(COUNTS)).metadata["ledger"]["recorded"] is False
    )
    with pytest.raises(InvalidParameter, match="are of different datasets"):
        nw.combine(first, release("others"))
