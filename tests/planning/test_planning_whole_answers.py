"""Whole numbers are rounded where answers were asked: the bounds, over random schemas.

Bounds (proved in `estimate/rounding`): an answer moves by less than one where the tables
asked are one table of counts or a chain of them, and else by less than the number of answers of
more than one cell that a person counts towards, the number of people included.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp
from scipy.stats import binom

import noisewright as nw
from noisewright.planning.after.asked_cells import (
    AskedCells,
    asked_of,
    possible_cells,
    sparse_rows,
)
from noisewright.planning.after.postprocess import post_process
from noisewright.planning.after.whole_answers import Kept, whole_answers
from noisewright.workload import workload
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges
from noisewright.workload.structure import Term
from oracles.privacy_oracles import SeededSource

FITTED = 1e-4  # the grid moves no sum by more than 2^-17


def people(seed: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Numbers of people in all cells, few and many."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.choice([0.05, 1.0, 30.0]), prod(sizes))


def domain_of(sizes: tuple[int, ...]) -> nw.Domain:
    return nw.Domain(
        [
            nw.Categorical(f"a{k}", [f"v{v}" for v in range(n)])
            for k, n in enumerate(sizes)
        ]
    )


def both(
    sizes: tuple[int, ...], tables: list[tuple[int, ...]], seed: int, **privacy: object
):
    """A plan of tables of counts, its answers not negative, and these in whole numbers."""
    spec = {"queries": [{"marginal": [f"a{i}" for i in table]} for table in tables]}
    asked = nw.Workload.from_spec(spec, domain_of(sizes))
    plan = nw.plan(asked, nw.Privacy(rho=0.1, **privacy))  # type: ignore[arg-type]
    raw = plan.noisy(plan.exact(people(seed, sizes)), source=SeededSource(seed))
    return plan, post_process(raw, non_negative=True), post_process(raw, integer=True)


SIZES = st.lists(st.integers(2, 4), min_size=2, max_size=5).map(tuple)


@settings(max_examples=30, deadline=None)
@given(st.data(), SIZES, st.integers(0, 10**6))
def test_no_answer_of_any_table_moves_by_more_than_is_proved(data, sizes, seed) -> None:
    """Random schemas, random sets of tables, some attributes in none of them."""
    some = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    sets = data.draw(st.lists(some, min_size=1, max_size=4))
    tables = sorted({tuple(sorted(table)) for table in sets})
    plan, fit, whole = both(sizes, tables, seed)
    moved = np.abs(whole.answers - fit.answers).max()
    rows = plan.workload.dense()
    counted = rows[rows.sum(axis=1) > 1].sum(axis=0).max(initial=0.0)
    assert moved < (1 if len(tables) == 1 else counted + 1) + FITTED
    np.testing.assert_array_equal(whole.answers, np.rint(whole.answers))
    assert whole.answers.min() >= 0
    again = post_process(fit, integer=True)
    np.testing.assert_array_equal(whole.answers, again.answers)
    # Some whole people have exactly these answers: all tables agree, whatever is asked of them.
    program = milp(
        np.zeros(rows.shape[1]),
        integrality=np.ones(rows.shape[1]),
        constraints=LinearConstraint(rows, whole.answers, whole.answers),
    )
    assert program.status == 0


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(2, 5), min_size=4, max_size=5).map(tuple),
    st.integers(0, 10**6),
)
def test_tables_that_overlap_in_a_chain_move_by_less_than_one(sizes, seed) -> None:
    chain = [(0,), (0, 1), (1, 2), (2,), (2, 3)]
    _, fit, whole = both(sizes, chain, seed)
    assert np.abs(whole.answers - fit.answers).max() < 1 + FITTED


@settings(max_examples=15, deadline=None)
@given(SIZES, st.integers(0, 10**6))
def test_a_public_number_of_people_is_kept(sizes, seed) -> None:
    tables = [(0,), (0, 1)]
    if people(seed, sizes).sum() == 0:
        return
    _, _, whole = both(sizes, tables, seed, neighbours="replace-one")
    for start, stop in ((0, sizes[0]), (sizes[0], sizes[0] * (1 + sizes[1]))):
        assert whole.answers[start:stop].sum() == people(seed, sizes).sum()


def test_attributes_that_nobody_asked_about_take_nobody_away() -> None:
    """300 women and 700 men, asked by sex alone in a schema of sex, age and income."""
    domain = nw.Domain(
        [
            nw.Categorical("sex", ["F", "M"]),
            nw.Numeric("age", list(range(0, 101, 5))),
            nw.Numeric("income", list(range(0, 100_001, 5_000))),
        ]
    )
    table = {"queries": [{"marginal": ["sex"]}]}
    plan = nw.plan(
        nw.Workload.from_spec(table, domain), nw.Privacy(epsilon=1, delta=1e-9)
    )
    counts = np.zeros(domain.shape, dtype=np.int64)
    rng = np.random.default_rng(0)
    for sex, number in ((0, 300), (1, 700)):
        np.add.at(
            counts[sex], (rng.integers(0, 20, number), rng.integers(0, 20, number)), 1
        )
    raw = plan.noisy(plan.exact(counts.ravel()), source=SeededSource(1))
    whole = post_process(raw, integer=True)
    assert np.abs(whole.answers - raw.answers).max() < 1
    lower, upper = raw.intervals.each
    assert (lower - 1 <= whole.intervals.each[0]).all()
    assert (whole.intervals.each[1] <= upper + 1).all()


def test_the_demo_is_rounded_and_no_more(tmp_path) -> None:
    """Its table of sex by region, where 137 standard errors were lost."""
    from click.testing import CliRunner

    from noisewright.cli import main

    made = CliRunner().invoke(main, ["demo", "--output", str(tmp_path / "demo")])
    assert made.exit_code == 0, made.stderr
    domain = nw.Domain.from_yaml(tmp_path / "demo" / "schema.yaml")
    table = {"queries": [{"marginal": ["sex", "region"]}]}
    plan = nw.plan(
        nw.Workload.from_spec(table, domain), nw.Privacy(epsilon=1, delta=1e-9)
    )
    raw = plan.release(tmp_path / "demo" / "people.csv")
    fit, whole = post_process(raw, non_negative=True), post_process(raw, integer=True)
    assert np.abs(whole.answers - fit.answers).max() < 1 + FITTED


@pytest.mark.parametrize("kind", [Identity, Prefix, Ranges])
@pytest.mark.parametrize("other", [Identity, Prefix])
def test_cumulative_counts_and_ranges_are_rounded_as_they_are_asked(
    kind, other
) -> None:
    """By group, in tables whose sums form a flow; an attribute beside them is not asked about."""
    sizes = (3, 6, 5)
    terms = [
        Term.of_product(1.0, (1,), (kind(6),)),
        Term.of_product(1.0, (0,), (other(3),)),
    ]
    asked = asked_of(terms, sizes)
    assert asked.sizes == (3, 6)
    for seed in range(6):
        values = np.random.default_rng(seed).exponential(0.6, asked.size)
        answers = whole_answers(asked, values, Kept(round(values.sum())))
        assert np.abs(answers - asked.workload.matvec(values)).max() < 1 + FITTED


def test_cells_within_one_question_are_not_rounded_apart() -> None:
    """One count over many cells of two attributes, all of the same fraction."""
    domain = nw.Domain(
        [
            nw.Categorical("sex", ["F", "M"]),
            nw.Numeric("age", list(range(101)), integer=True),
        ]
    )
    spec = {"queries": [{"count": 'age >= 65 and sex == "F"'}, {"total": True}]}
    plan = nw.plan(nw.Workload.from_spec(spec, domain), nw.Privacy(rho=0.5))
    counts = np.zeros((2, 100), dtype=np.int64)
    counts[0, 65:], counts[1] = 3, 7
    raw = plan.noisy(plan.exact(counts.ravel()), source=SeededSource(2))
    whole = post_process(raw, integer=True)
    assert np.abs(whole.answers - raw.answers).max() < 1 + FITTED


def test_declared_values_come_out_whole() -> None:
    plan, _, _ = both((3, 4, 2), [(0, 1), (1,)], 5, neighbours="replace-one")
    counts = people(5, (3, 4, 2))
    truth = plan.workload.matvec(counts.astype(float))
    raw = plan.noisy(plan.exact(counts), source=SeededSource(3))
    label = plan.labels()[0]
    done = post_process(raw, invariants={label: truth[0]}, integer=True)
    assert done.answers[0] == truth[0]
    assert done.answers[:12].sum() == done.answers[12:].sum() == counts.sum()


def test_intervals_still_cover_in_whole_numbers() -> None:
    """200 releases; an interval below 95 %, each or all at once, with an alarm rate of 1e-6."""
    sizes, tables, trials = (3, 4, 5), ["a0", "a1"], 200
    asked = nw.Workload.from_spec({"queries": [{"marginal": tables}]}, domain_of(sizes))
    plan = nw.plan(asked, nw.Privacy(rho=0.5))
    counts = np.random.default_rng(4).integers(0, 9, sizes) * (np.arange(5) < 3)
    counts[0] = 0
    truth = counts.sum(axis=2).ravel()
    source, hits, joint = SeededSource(6), np.zeros(12), 0
    for _ in range(trials):
        done = post_process(
            plan.noisy(plan.exact(counts.ravel()), source=source), integer=True
        )
        low, high = done.intervals.each
        assert ((low <= done.answers) & (done.answers <= high)).all()
        hits += (low <= truth) & (truth <= high)
        low, high = done.intervals.all
        joint += bool(((low <= truth) & (truth <= high)).all())
    least = binom.ppf(1e-6 / 13, trials, 0.95)
    assert hits.min() >= least
    assert joint >= least


def test_a_large_schema_with_few_attributes_asked_has_one_histogram() -> None:
    """Eight attributes of 12 values: tables agree, and declared values can be checked."""
    domain = nw.Domain([nw.Numeric.integers(f"n{i}", 0, 11) for i in range(8)])
    spec = {
        "queries": [
            {"marginal": ["n0", "n1"]},
            {"marginal": ["n1"]},
            {"marginal": ["n6"]},
        ]
    }
    privacy = nw.Privacy(rho=1, neighbours="replace-one")
    plan = nw.plan(nw.Workload.from_spec(spec, domain), privacy)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({f"n{i}": rng.integers(0, 12, 5000) for i in range(8)})
    label = plan.labels()[144]
    truth = float((frame["n1"] == 0).sum())
    raw = plan.release(frame)
    done = post_process(raw, invariants={label: truth}, integer=True)
    assert done.answers[144] == truth
    table = done.answers[:144].reshape(12, 12)
    np.testing.assert_array_equal(table.sum(axis=0), done.answers[144:156])
    assert "too many cells" not in str(done.metadata["post_processing"])


def test_impossible_cells_of_attributes_summed_out_are_known() -> None:
    domain = nw.Domain(
        [nw.Categorical("sex", ["F", "M"]), nw.Categorical("age", ["child", "adult"]),
         nw.Boolean("works")],
        impossible=[{"sex": ["F"], "age": ["child"]}, {"sex": ["F"], "age": ["adult"]}],
    )  # fmt: skip
    np.testing.assert_array_equal(
        possible_cells(domain, (0, 2)), [False, False, True, True]
    )
    np.testing.assert_array_equal(possible_cells(domain, (1,)), [True, True])


@pytest.mark.parametrize(
    "text", ["identity:5", "prefix:3*identity:4", "ranges:6", "parity:3:<=2"]
)
def test_questions_are_written_out_as_they_are(text: str) -> None:
    asked = workload(text)
    rows = sparse_rows(asked)
    assert rows is not None
    np.testing.assert_array_equal(rows.toarray(), asked.dense())


@pytest.mark.parametrize(
    "text", ["total:4", "marginals:3x2x4:<=2", "2@identity:4+prefix:4"]
)
def test_questions_on_the_cells_asked_are_those_of_the_plan(text: str) -> None:
    asked_for = workload(text)
    plan = nw.plan(workload(f"{text}+identity:4") if text == "total:4" else asked_for,
                   nw.Privacy(rho=1.0))  # fmt: skip
    asked = AskedCells.of_plan(plan)
    np.testing.assert_array_equal(asked.workload.dense(), plan.plain_workload.dense())
