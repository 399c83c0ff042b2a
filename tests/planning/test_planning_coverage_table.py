"""Intervals hold the truth as often as they say: every kind of question × step × mechanism.

The registry of cases is `oracles.coverage`; `benchmarks/coverage.py` prints the table that is kept
in docs/reproduced.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from scipy.stats import binom

from noisewright.workload.questions.entries import KINDS
from oracles.coverage import (
    CASES,
    LEVEL,
    MECHANISMS,
    QUESTIONS,
    Coverage,
    covered,
    mechanisms,
    reason,
    seed_of,
    steps,
)

DOCS = Path(__file__).parents[2] / "docs"
TABLE, PAGE = DOCS / "concepts" / "coverage.csv", DOCS / "concepts" / "coverage.md"
RELEASES = 1000
FAR = 3  # standard errors below 95 % that no case may be
MOST = 0.99  # where the law is known
ALARM = 1e-6  # of the answer covered least, Bonferroni over the answers of a case
TOGETHER = [
    (question, mechanism)
    for question in QUESTIONS
    for mechanism in mechanisms(question)
]

FEW = 60
QUICK = [
    ("marginals", "residual"),
    ("cdf", "laplace-strategy"),
    ("sum", "carry"),
    ("mean", "gaussian-strategy"),
    ("mean, some missing", "carry"),
    ("weighted mean", "laplace-strategy"),
    ("variance", "gaussian-strategy"),
    ("quantiles, coarse bins", "laplace-strategy"),
    ("quantiles, coarse bins", "k-norm"),
    ("all together", "gaussian-strategy"),
]


def test_every_kind_of_question_and_mechanism_has_a_case() -> None:
    asked = {
        key
        for question in QUESTIONS.values()
        for entry in question.entries
        for key in entry
    }
    assert asked >= set(KINDS)
    assert {mechanism for _, mechanism, _ in CASES} == set(MECHANISMS)


@pytest.mark.parametrize(("question", "mechanism"), QUICK)
def test_no_case_is_far_below_its_level(question: str, mechanism: str) -> None:
    """60 releases after every step: so few see gross faults alone; alarm 1e-6 for each band."""
    wanted = steps(question, mechanism)
    found = covered(question, mechanism, wanted, FEW, seed_of(question, mechanism))
    for step, coverage in found.items():
        answers = coverage.each.shape[1]
        hits = round(coverage.least * FEW)
        assert hits >= binom.ppf(ALARM / answers, FEW, LEVEL), (
            question,
            mechanism,
            step,
        )
        assert coverage.all.sum() >= binom.ppf(ALARM, FEW, LEVEL), (
            question,
            mechanism,
            step,
        )


@pytest.mark.slow
@pytest.mark.parametrize(("question", "mechanism"), TOGETHER)
def test_intervals_cover_as_often_as_they_say(question: str, mechanism: str) -> None:
    """1,000 releases of every case, fixed seeds.

    A case at exactly 95 % is three standard errors below with probability 0.0014 for each of its
    two figures; most are a little above, as quantiles found by simulation are taken from above.
    """
    wanted = steps(question, mechanism)
    found = covered(question, mechanism, wanted, RELEASES, seed_of(question, mechanism))
    for step, coverage in found.items():
        check(coverage, reason(question, mechanism, step), step)


def check(coverage: Coverage, why: str, step: str) -> None:
    answers, error = coverage.each.shape[1], (LEVEL * (1 - LEVEL) / RELEASES) ** 0.5
    assert coverage.mean >= LEVEL - FAR * max(coverage.error, error / answers**0.5), (
        step
    )
    assert coverage.joint >= LEVEL - FAR * error, step
    hits = round(coverage.least * RELEASES)
    assert hits >= binom.ppf(ALARM / answers, RELEASES, LEVEL), step
    if not why:
        assert max(coverage.mean, coverage.joint) <= MOST, step


def test_the_table_in_the_documentation_holds_what_it_claims() -> None:
    """Every case once, none too low, none above 0.99 without a reason."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = [(row["question"], row["mechanism"], row["step"]) for row in rows]
    assert sorted(told) == sorted(CASES)
    for row in rows:
        case = row["question"], row["mechanism"], row["step"]
        releases, answers = int(row["releases"]), int(row["answers"])
        each, error, least, all_ = (
            float(row[key]) for key in ("each", "error", "least", "all")
        )
        alone = (LEVEL * (1 - LEVEL) / releases) ** 0.5
        assert releases >= RELEASES, case
        assert each >= LEVEL - FAR * max(error, alone / answers**0.5), case
        assert all_ >= LEVEL - FAR * alone, case
        assert round(least * releases) >= binom.ppf(ALARM / answers, releases, LEVEL), (
            case
        )
        assert row["why"] == reason(*case), case
        assert row["why"] or max(each, all_) <= MOST, case


def test_the_page_tells_the_least_and_the_largest_of_every_question() -> None:
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for question in dict.fromkeys(row["question"] for row in rows):
        own = [row for row in rows if row["question"] == question]
        each, all_ = ([float(row[name]) for row in own] for name in ("each", "all"))
        ends = [f"{end:.3f}" for end in (min(each), max(each), min(all_), max(all_))]
        lines.append(f"| {' | '.join([question, str(len(own)), *ends])} |")
    page = PAGE.read_text(encoding="utf-8").splitlines()
    start = page.index("|---|---|---|---|---|---|") + 1
    assert page[start : start + len(lines) + 1] == [*lines, ""]
