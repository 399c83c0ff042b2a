"""Every kind of file that has something to show has a page: plans, estimates, streams, ledgers."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.learn.outcomes import Outcome
from noisewright.learn.selection import Selected
from noisewright.planning.after.postprocess import Steps
from noisewright.planning.central.rehearsal import Rehearsal
from noisewright.planning.local.plan import Reading
from noisewright.privacy.promise.spend import Gaussian, Promise, Spend
from noisewright.report.pages.plan import plan_page
from noisewright.report.pages.release import release_page
from noisewright.report.sections import sections
from noisewright.report.words.numbers import figure, moment_in_words
from noisewright.report.words.plans import plan_words
from noisewright.report.words.promises import Person
from noisewright.report.words.queries import steps_in_words
from noisewright.workload.questions.statistics import Column
from report.test_report_page import DOMAIN, SPEC, tags_of

# pages that promise nothing to anybody
UNPROTECTED = (nw.Ledger, Rehearsal, Outcome, Selected)
RNG = np.random.default_rng(7)


def drawn(subject: object, folder: Path) -> str:
    nw.report(subject, folder / "page.html")
    text = (folder / "page.html").read_text(encoding="utf-8")
    tags = tags_of(text)
    assert tags.addresses == []
    assert len(tags.scripts) == 1
    assert "What this means for one person" in text or isinstance(subject, UNPROTECTED)
    return text


def test_plans_tell_the_errors_of_every_table(tmp_path: Path) -> None:
    plan = nw.plan(nw.Workload.from_spec(SPEC, DOMAIN), nw.Privacy(epsilon=1))
    text = drawn(plan, tmp_path)
    assert "Nothing was spent yet" in text
    assert all(f"<td>{table.name}</td>" in text for table in plan.tables())
    known = plan.summary()
    ratios = [known["ratio"], *(bound["ratio"] for bound in known["bounds"])]
    assert (
        text.count("is unavoidable") == sum(ratio is not None for ratio in ratios) > 0
    )


def test_plans_without_a_curator_tell_the_people_needed_and_the_others(
    tmp_path: Path,
) -> None:
    plan = nw.plan("prefix:6", nw.Privacy(epsilon=1), nw.Local())
    text = drawn(plan, tmp_path)
    assert f"<b>{plan.people_for():,}</b>" in text
    assert "1,000,000 people" in text
    assert "randomized-response" in text


def test_estimates_have_the_page_of_a_release(tmp_path: Path) -> None:
    workload = nw.Workload.from_spec({"queries": [{"histogram": "age"}]}, DOMAIN)
    plan = nw.plan(workload, nw.Privacy(epsilon=1), nw.Local(mechanism="unary"))
    estimate = plan.estimate(plan.randomize(RNG.integers(0, 3, 2_000)))
    text = drawn(estimate, tmp_path)
    assert "one report, sent by one person" in text
    assert "more than 73.2\u00a0% of the time" in text  # e/(1+e), rounded up
    assert "2000" in text


def test_streams_and_their_plans_have_pages(tmp_path: Path) -> None:
    plan = nw.plan(nw.RunningCount(50), nw.Privacy(rho=0.5))
    assert "A running count" in drawn(plan, tmp_path)
    stream = plan.start()
    for count in RNG.integers(0, 9, 20):
        stream.step(int(count))
    assert "20 of 50 planned steps" in drawn(stream, tmp_path)


def test_a_ledger_shows_what_was_spent_on_what(tmp_path: Path) -> None:
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("census", nw.Privacy(epsilon=2))
    plan = nw.plan("total:4", nw.Privacy(epsilon=0.5))
    plan.release(np.arange(4), ledger=ledger, dataset="census@2024")
    text = drawn(ledger, tmp_path)
    assert "census@2024" in text
    assert "<b>25.0 %</b>" in text
    # √e/(1+√e), rounded up
    assert "guesses right about one person at most 62.3\u00a0%" in text
    assert "total:4" in text


def test_a_covariance_has_its_errors_and_marks_what_is_unsure(tmp_path: Path) -> None:
    plan = nw.plan(nw.Moments(["height", "weight"], radius=1.0), nw.Privacy(rho=0.1))
    assert "height, weight" in drawn(plan, tmp_path)
    rows = RNG.normal(0.3, 0.1, (4_000, 2))
    release = plan.release(rows)
    text = drawn(release, tmp_path)
    for name in ("mean", "covariance", "correlation", "second moment"):
        assert f"<b>{name}</b>" in text
    unsure = 1.96 * release.std["covariance"] > np.abs(release.covariance) / 2
    second = 1.96 * release.std["second_moment"] > np.abs(release.second_moment) / 2
    assert text.count("<td class=unsure") == unsure.sum() + second.sum()


def test_pairs_have_every_pair(tmp_path: Path) -> None:
    plan = nw.plan(nw.Pairs(["a", "b", "c"]), nw.Privacy(epsilon=1))
    assert "any two of 3 attributes" in drawn(plan, tmp_path)
    text = drawn(plan.release((RNG.random((900, 3)) < 0.5).astype(float)), tmp_path)
    assert all(text.count(f"<td>{pair}</td>") == 2 for pair in ("a, b", "a, c", "b, c"))


def test_pages_of_learning_say_what_a_report_is_about_and_what_else_there_is(
    tmp_path: Path,
) -> None:
    for text, about in (
        ("parities:2", "one concept"),
        ("thresholds:8", "all concepts"),
    ):
        plan = nw.plan(nw.learn.Agnostic(text, alpha=0.3), nw.Privacy(epsilon=1))
        page = drawn(plan, tmp_path)
        assert f"<b>{about}</b>" in page
        ((name, people),) = plan.others.items()
        assert f"{name} takes {people:,} people" in page


def test_learning_and_selection_have_pages(tmp_path: Path) -> None:
    plan = nw.plan(
        nw.learn.Agnostic("thresholds:4", alpha=0.3, beta=0.1), nw.Privacy(epsilon=1)
    )
    assert f"<b>{plan.people:,}</b>" in drawn(plan, tmp_path)
    points = RNG.integers(0, 4, 200)
    found = plan.decide(plan.randomize(points, np.where(points < 2, 1, -1)))
    assert escape(found.name) in drawn(found, tmp_path)
    selection = nw.plan(nw.learn.LargestMean(5, alpha=0.3), nw.Privacy(epsilon=1))
    selection.tell(selection.randomize(np.ones(len(selection.ask_many(9)), dtype=bool)))
    assert f"of {selection.people:,} at most" in drawn(selection, tmp_path)
    assert "What the reports say" in drawn(selection.result(), tmp_path)


def test_a_rehearsal_shows_errors_and_no_answers(tmp_path: Path) -> None:
    plan = nw.plan(nw.Workload.from_spec(SPEC, DOMAIN), nw.Privacy(rho=0.1))
    text = drawn(plan.simulate(np.full(6, 7_654_321), seed=1), tmp_path)
    assert "It protects nobody" in text
    assert "7,654,321" not in text


def test_a_plan_of_values_tells_from_how_many_people_on(tmp_path: Path) -> None:
    plan = nw.plan(nw.Values("town"), nw.Privacy(epsilon=1, delta=1e-6))
    assert f"{plan.selection.certain:,} people" in drawn(plan, tmp_path)


def test_what_has_no_page_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="has no page"):
        nw.report(np.arange(3), tmp_path / "page.html")


def test_the_page_of_an_explanation_has_the_runners_up(tmp_path):
    told = nw.explain("prefix:8", nw.Privacy(epsilon=1))
    nw.report(told, tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "Runners-up" in page
    assert all(other.mechanism in page for other in told.others)
    nw.report(told.plan, tmp_path / "alone.html")
    assert "Runners-up" not in (tmp_path / "alone.html").read_text(encoding="utf-8")


def test_a_bound_on_a_weighted_error_is_not_told_in_people():
    """With a weight, the error planned for is no longer the root mean square in people."""
    domain = nw.Domain(
        [nw.Categorical("sex", ("F", "M")), nw.Numeric("age", (0, 20, 40, 90))]
    )
    plain, weighted = (
        plan_page(
            nw.plan(
                nw.Workload.from_spec(
                    {
                        "queries": [
                            {"cdf": "age", "weight": weight},
                            {"marginal": "sex"},
                        ]
                    },
                    domain,
                ),
                nw.Privacy(rho=0.1),
            )
        )
        for weight in (1, 7)
    )
    assert "people: linear strategies under this noise" in plain
    assert "people: linear strategies under this noise" not in weighted
    assert "questions weighed" in weighted
    assert "questions weighed" not in plain


def test_errors_in_other_units_are_no_part_of_those_of_counts() -> None:
    """A typical error of counts and sums together would be in no unit at all."""
    domain = nw.Domain(
        [
            nw.Categorical("sex", ("F", "M")),
            nw.Numeric("pay", tuple(range(0, 10_001, 500))),
        ]
    )
    spec = {"queries": [{"marginal": "sex"}, {"sum": "pay"}, {"cdf": "pay"}]}
    plan = nw.plan(nw.Workload.from_spec(spec, domain), nw.Privacy(rho=0.1))
    words = plan_words(plan)
    counts = [e for e in plan.table_errors() if not e.name.startswith("sum")]
    total = sum(error.queries for error in counts)
    typical = np.sqrt(sum(error.queries * error.rmse**2 for error in counts) / total)
    assert words.tiles[0].value == f"± {figure(typical)}"
    assert [line.part is None for line in words.tables] == [False, True, False]
    assert max(line.part for line in words.tables if line.part is not None) == 100


def test_queries_in_text_are_told_in_words_and_drawn(tmp_path: Path) -> None:
    """Cells by number alone: running sums are a curve, and few queries of any kind are bars."""
    drawn_by = {
        "prefix:70": "curve",
        "identity:9": "bars",
        "ranges:4": "bars",
        "total:3": "bars",
    }
    for text, kind in drawn_by.items():
        plan = nw.plan(text, nw.Privacy(rho=1))
        release = plan.release(np.arange(plan.workload.size))
        (section,) = sections(release, None)
        assert [drawing.kind for drawing in section.drawings] == [kind]
        assert f"{text}, how many people" in drawn(release, tmp_path)


def test_what_is_known_is_not_told_with_the_error_of_rounding() -> None:
    """How many sent a report is known: the last of the running sums has no error."""
    plan = nw.plan("prefix:12", nw.Privacy(epsilon=1), nw.Local(effort="low"))
    estimate = plan.estimate(plan.randomize(RNG.integers(0, 12, 3_000)))
    rounding = np.append(estimate.std[:-1], 1e-6)  # as differences of variances end in
    estimate.__dict__["intervals"] = Column.around(estimate.answers, rounding, 2.0, 3.0)
    (section,) = sections(estimate, None)
    assert section.rows[-1][1:] == ["3,000", "0", "3,000 … 3,000"]
    assert section.error.startswith("standard error 0 to ")


def test_a_person_who_counts_at_several_steps_is_told_as_one(tmp_path: Path) -> None:
    plan = nw.plan(nw.RunningCount(50, appearances=3, apart=7), nw.Privacy(rho=0.5))
    stream = plan.start()
    stream.step(1)
    person = "one person, who counts at up to 3 steps, any two of them 7 or more apart"
    assert (
        stream.release.statement()["unit"]
        == stream.release.metadata["person"]
        == person
    )
    assert person in drawn(plan, tmp_path)
    assert person in drawn(stream, tmp_path)


def test_pages_say_when_answers_were_made_and_from_which_plan(tmp_path: Path) -> None:
    local = nw.plan("identity:3", nw.Privacy(epsilon=1), nw.Local())
    table = nw.plan("identity:3", nw.Privacy(epsilon=1))
    moments = nw.plan(nw.Moments(["a", "b"]), nw.Privacy(rho=1))
    stream = nw.plan(nw.RunningCount(5), nw.Privacy(rho=1)).start()
    stream.step(1)
    for made, verb, digest in (
        (local.estimate(local.randomize([0, 1])), "estimated on", local.format.name),
        (table.release(np.arange(3)), "released on", table.digest),
        (moments.release(np.zeros((4, 2))), "released on", moments.digest),
        (stream.release, "started on", stream.release.plan.digest),
    ):
        text = drawn(made, tmp_path)
        assert f"{verb} {moment_in_words(made.metadata['time'])}" in text
        assert f"<dd>{digest}</dd>" in text
    assert "page drawn on" in drawn(table, tmp_path)
    later = table.release(np.arange(3)).answer("total:3")
    assert "hash of the plan" not in drawn(later, tmp_path)  # nobody planned it


def test_every_step_after_the_noise_is_told_in_a_sentence() -> None:
    """Names of fields are for records; whoever adds a step writes its sentence too."""
    fields = {*Steps.__struct_fields__, *Reading.__struct_fields__}
    example: dict[str, object] = {
        "invariants": {"all": 5.0},
        "suppress": 0.2,
        "liars": 0.1,
    }
    for name in fields:
        (text,) = steps_in_words([{name: example.get(name, True)}], changed=True)
        assert text.endswith(".")
        assert ": True" not in text
    assert "unbiased" in steps_in_words([], changed=False)[0]


def test_a_promise_is_told_in_the_figures_that_it_was_not_stated_in() -> None:
    """ρ as an ε at 10⁻⁹, pure ε as odds; a sum of kinds, for which neither is known, as neither."""
    gaussian = Spend("add-remove", (Gaussian(0.4),))
    usual = figure(gaussian.promise(1e-9).epsilon or 0.0)
    told = {
        "rho": Person.of(gaussian, nw.Privacy(rho=0.08), "one person"),
        "both": Person.of(gaussian, nw.Privacy(epsilon=1, delta=1e-4), "one person"),
        "pure": Person.of(
            Spend("add-remove", (Promise(1.0),)), nw.Privacy(epsilon=1), "one person"
        ),
        "mixed": Person.of(
            Spend("add-remove", (Promise(1.0, 1e-6), Gaussian(0.4))),
            nw.Privacy(epsilon=2, delta=1e-5), "one person",
        ),
    }  # fmt: skip
    text = {name: " ".join(person.sentences) for name, person in told.items()}
    assert f"ε\u00a0=\u00a0{usual} at δ\u00a0=\u00a010⁻⁹" in text["rho"]
    # odds of 1 to 99, e times as large
    assert "2.7\u00a0% likely at most" in text["pure"]
    for name in ("both", "mixed"):
        assert "usual figures" not in text[name]
        assert "likely at most" not in text[name]


def test_a_page_says_what_was_asked_where_the_plan_keeps_more() -> None:
    both = nw.Privacy(epsilon=1, delta=1e-9)
    one, many = (
        nw.plan("identity:4", both, nw.Central(composition=each))
        for each in ("one", "many")
    )
    for made in (plan_page(one), release_page(one.release(np.arange(4)))):
        assert "Asked for was" in made
        assert "without any δ" in made
    assert "Asked for was" not in plan_page(many)
