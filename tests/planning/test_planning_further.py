"""Releases live on: saved, loaded, asked more from the same measurement, with exact errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, OutOfReach
from oracles.blocks import whole_matrix
from oracles.plan_parts import read_parts, write_parts

DOMAIN = nw.Domain(
    [
        nw.Numeric("age", (0, 18, 40, 65, 100), integer=True),
        nw.Categorical("sex", ("F", "M")),
        nw.Categorical("region", ("N", "S", "W")),
        nw.Numeric("hours", (0, 50)),
    ]
)
QUESTIONS = {
    "queries": [
        {"cdf": "age", "by": ["sex"]},
        {"marginal": ["region", "sex"]},
        {"mean": "hours", "by": ["region"]},
    ]
}
ROWS = np.random.default_rng(5)
PEOPLE = 3000
TABLE = {
    "age": ROWS.integers(0, 100, PEOPLE),
    "sex": ROWS.choice(["F", "M"], PEOPLE),
    "region": ROWS.choice(["N", "S", "W"], PEOPLE),
    "hours": ROWS.uniform(0, 50, PEOPLE),
}


def released(
    privacy: nw.Privacy, questions: dict = QUESTIONS, mechanism: str = "auto"
) -> nw.Release:
    import pyarrow as pa

    asked = nw.Workload.from_spec(questions, DOMAIN)
    return nw.plan(asked, privacy, nw.Central(mechanism=mechanism)).release(
        pa.table(TABLE)
    )


PRIVACIES = [
    nw.Privacy(rho=0.5),
    nw.Privacy(epsilon=1),
    nw.Privacy(rho=0.5, neighbours="replace-one"),
]


@pytest.mark.parametrize("privacy", PRIVACIES, ids=lambda p: p.text())
def test_further_answers_have_the_errors_of_least_squares(privacy: nw.Privacy) -> None:
    """The oracle is weighted least squares over all cells, from the dense measured matrix."""
    counts = {"queries": QUESTIONS["queries"][:2]}
    blocks_by = "laplace-strategy" if privacy.kind == "pure" else "gaussian-strategy"
    release = released(privacy, counts, blocks_by)
    method = release.plan.mechanism
    blocks = method.strategy.blocks
    # Under replace-one neighbours the total has no noise.
    noise = [max(law.standard_deviation, 1e-3) for law in method.laws]
    units = [
        block.noise / deviation for block, deviation in zip(blocks, noise, strict=True)
    ]
    rows_of_blocks = np.repeat(units, [block.rows for block in blocks])
    matrix = whole_matrix(method.strategy) * rows_of_blocks[:, None]
    covariance = np.linalg.pinv(matrix.T @ matrix)
    more = release.answer([{"histogram": "age"}, {"count": 'age < 18 and sex == "M"'}])
    rows = more.plan.plain_workload.dense()
    expected = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
    np.testing.assert_allclose(more.std, expected, rtol=1e-5)


def test_sums_of_answers_are_the_answers_to_sums() -> None:
    release = released(nw.Privacy(rho=0.5))
    sexes, regions = (
        release.answer({"marginal": "sex"}),
        release.answer({"marginal": "region"}),
    )
    assert sexes.answers.sum() == pytest.approx(regions.answers.sum(), rel=1e-9)
    cdf = release.answers[:8].reshape(4, 2)
    np.testing.assert_allclose(sexes.answers, cdf[-1], rtol=1e-9)
    mean = release.answer({"mean": "hours"})
    assert mean.answers[0] == pytest.approx(TABLE["hours"].mean(), abs=2)


def test_what_is_asked_again_is_answered_again() -> None:
    release = released(nw.Privacy(rho=0.5))
    again = release.answer(QUESTIONS)
    np.testing.assert_allclose(again.answers, release.answers)
    np.testing.assert_allclose(again.std, release.std)
    assert again.identity == release.identity  # one spending, whatever is asked of it


def test_a_release_is_loaded_and_asked_in_any_form(tmp_path: Path) -> None:
    path = tmp_path / "r.nwr"
    release = released(nw.Privacy(rho=0.5))
    release.save(path)
    loaded = nw.load(path)
    yaml = tmp_path / "more.yaml"
    yaml.write_text("queries:\n  - histogram: age\n")
    forms = [{"histogram": "age"}, {"queries": [{"histogram": "age"}]}, yaml, str(yaml)]
    forms += ["queries:\n  - histogram: age\n", nw.Workload.from_spec(yaml, DOMAIN)]
    answers = [loaded.answer(form).answers for form in forms]
    for other in answers:
        np.testing.assert_array_equal(other, answers[0])
    later = loaded.answer({"histogram": "age"})
    later.save(path)
    np.testing.assert_array_equal(nw.load(path).answers, later.answers)
    assert later.metadata["release"] == release.identity
    assert nw.post_process(later, non_negative=True).answers.min() >= 0


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ({"marginal": ["age", "region"]}, "age × region.*cannot be told.*region"),
        ({"mean": "hours", "by": ["sex"]}, "mean of hours by sex.*cannot be told"),
        ({"variance": "hours"}, "measured no squares"),
        ({"mean": "hours", "unit": 5}, "measured no sums of hours.*units of 5"),
    ],
)
def test_what_was_not_measured_is_refused_in_words(queries: dict, words: str) -> None:
    with pytest.raises(OutOfReach, match=words):
        released(nw.Privacy(rho=0.5)).answer(queries)


def test_other_cells_are_refused() -> None:
    release = released(nw.Privacy(rho=0.5))
    with pytest.raises(InvalidParameter, match="other cells"):
        release.answer("prefix:7")
    other = nw.Domain([nw.Numeric("age", (0, 50, 100)), *DOMAIN.attributes[1:]])
    with pytest.raises(InvalidParameter, match="other cells"):
        release.answer(nw.Workload.from_spec({"queries": [{"cdf": "age"}]}, other))
    with pytest.raises(InvalidParameter, match="knows none"):
        nw.plan("prefix:4", nw.Privacy(rho=1)).release(np.arange(4)).answer(
            {"cdf": "age"}
        )


def test_a_file_that_asks_beyond_its_measurement_is_refused(tmp_path: Path) -> None:
    """A forged release whose questions its measurement does not determine has no answers."""
    path = tmp_path / "r.nwr"
    release = released(nw.Privacy(rho=0.5), {"queries": [{"marginal": ["sex"]}]})
    release.save(path)
    content, arrays = read_parts(path)
    content["plan"]["workload"]["queries"] = "queries:\n- marginal: [region]\n"
    write_parts(path, content, arrays)
    with pytest.raises(OutOfReach):
        nw.load(path)


def test_estimates_from_reports_answer_more() -> None:
    queries = nw.Workload.from_spec(
        {"queries": [{"marginal": ["sex"]}, {"marginal": ["region"]}]}, DOMAIN
    )
    plan = nw.plan(queries, nw.Privacy(epsilon=2), nw.Local(mechanism="union"))
    cells = np.random.default_rng(1).integers(0, plan.workload.size, 5000)
    estimate = plan.estimate(plan.randomize(cells))
    again = estimate.answer({"marginal": ["region"]})
    np.testing.assert_allclose(again.answers, estimate.answers[2:])
    with pytest.raises(OutOfReach):
        estimate.answer({"marginal": ["region", "sex"]})
    with pytest.raises((OutOfReach, InvalidParameter)):
        estimate.answer({"mean": "hours"})
