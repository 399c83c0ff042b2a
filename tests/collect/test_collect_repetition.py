"""The same people again: what a device keeps and spends, what is promised, and how days add up."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import subprocess
from fractions import Fraction
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from collect.collector import campaign, plan_bytes, running, submission
from noisewright.cli import main
from noisewright.collect.campaign import Repetition
from noisewright.errors import NoisewrightError
from noisewright.local.fixedpoint import WORD

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
MEMOISED = {"mode": "memoised", "every": "day", "most": 3}


def device(days, **terms):
    """What a device does when it is asked these answers on successive days."""
    document = json.loads(msgspec.json.encode(campaign(**terms).public))
    work = {"document": document, "days": days, "from": "2026-01-01T12:00:00Z"}
    script = str(Path(__file__).with_name("year.mjs"))
    done = subprocess.run(
        [NODE, script],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_node
def test_a_year_of_memoised_answers_draws_once_for_each_value():
    rng = np.random.default_rng(1)
    values = [[int(rng.choice([0, 0, 2])), 1] for _ in range(365)]
    year = device(values, repetition=MEMOISED)
    assert year["told"] == ["accepted"] * 365
    reports = {}
    for answers, body in zip(values, year["sent"], strict=True):
        assert reports.setdefault(answers[0], body["report"]) == body["report"]
    assert len({body["nonce"] for body in year["sent"]}) == 365
    assert len({body["round"] for body in year["sent"]}) == 365
    assert year["memory"]["spent"] == pytest.approx(2 * 2.0)


@needs_node
def test_beyond_the_promised_number_of_values_the_last_report_stands_for_all():
    values = [[0, 0], [1, 0], [2, 0], [3, 0], [0, 1], [0, 0]]
    days = device(values, repetition=MEMOISED)["sent"]
    first, _, third, fourth, fifth, last = [body["report"] for body in days]
    assert third == fourth == fifth
    assert last == first


@needs_node
def test_fresh_reports_and_budgets_end():
    fresh = device([[0, 0]] * 8, repetition={"mode": "fresh", "most": 5})
    assert fresh["told"][:5] == ["accepted"] * 5
    assert all("spent" in text for text in fresh["told"][5:])
    assert len(fresh["sent"]) == 5
    assert fresh["memory"]["spent"] == pytest.approx(5 * 2.0)
    bounded = device(
        [[0, 0]] * 8, repetition={"mode": "fresh", "most": 100}, budget=6.0
    )
    assert len(bounded["sent"]) == 3
    once = device([[0, 0]] * 3)
    assert once["told"] == ["accepted", "repeated", "repeated"]
    assert len(once["sent"]) == 1


def pattern(sequence):
    """On which days the answer is the same as on which earlier day."""
    return tuple(sequence.index(value) for value in sequence)


def law(sequence, most, chances):
    """The exact law of all reports of a memoising device, by listing what it may draw."""
    values = list(dict.fromkeys(sequence))
    drawn = values[:most]
    laws = {}
    for draws in product(range(len(chances)), repeat=len(drawn)):
        kept = dict(zip(drawn, draws, strict=True))
        transcript = tuple(kept.get(value, draws[-1]) for value in sequence)
        chance = math.prod((chances[y][v] for v, y in kept.items()), start=Fraction(1))
        laws[transcript] = laws.get(transcript, Fraction(0)) + chance
    return laws


def worst(first, second):
    return max(
        (first[y] / second[y] if second.get(y) else math.inf for y in first),
        default=Fraction(1),
    )


@pytest.fixture(scope="module")
def three_answers():
    """Chances of randomized response over three answers, exactly as clients draw them."""
    threshold = Fraction(round(0.6 * WORD), WORD)
    other = (1 - threshold) / 2
    return [[threshold if y == v else other for v in range(3)] for y in range(3)]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_promise_of_memoised_answers_is_exact(three_answers, most):
    """All pairs of four days' answers: most × ε where answers change on the same days, reached."""
    one = three_answers[0][0] / three_answers[0][1]
    sequences = list(product(range(3), repeat=4))
    laws = {s: law(s, most, three_answers) for s in sequences}
    ratios = [
        worst(laws[a], laws[b])
        for a in sequences
        for b in sequences
        if pattern(a) == pattern(b)
    ]
    assert max(ratios) == one ** min(most, 3)
    if most > 1:  # and it is not promised where they change on others: that shows
        assert worst(laws[0, 1, 0, 0], laws[0, 0, 0, 0]) == math.inf


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_promise_holds_over_365_days(three_answers, most):
    one = three_answers[0][0] / three_answers[0][1]
    rng = np.random.default_rng(most)
    for _ in range(5):
        year = rng.integers(0, 3, 365).tolist()
        laws = [
            law([swap[v] for v in year], most, three_answers)
            for swap in ([0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0])
        ]
        assert all(sum(each.values()) == 1 for each in laws)
        worst_ratio = max(worst(a, b) for a in laws for b in laws)
        assert worst_ratio == one**most
        assert Repetition(mode="memoised", most=most).spent(
            math.log(one)
        ) == pytest.approx(math.log(worst_ratio))


def test_rounds_are_kept_apart_and_not_added_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("travel.nw").write_bytes(plan_bytes())
    today = dt.datetime.now(dt.UTC).date()
    rounds = [(today - dt.timedelta(days=1)).isoformat(), today.isoformat()]
    with running(str(tmp_path / "c.db"), campaign(repetition=MEMOISED)) as collector:
        for number, name in enumerate(rounds):
            for _ in range(3 + number):
                body = submission(collector.report(), round=name)
                assert collector.send(body).status_code == 201
        stale = submission(collector.report(), round="2020-01-01")
        assert collector.send(stale).json()["error"] == "round"
        assert collector.send(submission(collector.report())).json()["error"] == "round"
        assert [collector.figures(round=name)["people"] for name in rounds] == [3, 4]
        assert collector.figures()["rounds"] == rounds
        for name in rounds:
            for kind in ("statistics.agg", "reports.parquet"):
                answer = collector.http.get(
                    f"/api/campaigns/travel/{kind}",
                    headers=collector.admin,
                    params={"round": name},
                )
                Path(f"{name}-{kind}").write_bytes(answer.content)
    for kind in ("statistics.agg", "reports.parquet"):
        files = [f"{name}-{kind}" for name in rounds]
        refused = CliRunner().invoke(main, ["estimate", "travel.nw", *files])
        assert refused.exit_code == 2
        assert "counted twice" in refused.output
        told = ["--different-people", "--json"]
        merged = CliRunner().invoke(main, ["estimate", "travel.nw", *files, *told])
        assert json.loads(merged.stdout)["people"] == 7
        single = CliRunner().invoke(main, ["estimate", "travel.nw", files[0], "--json"])
        assert json.loads(single.stdout)["round"] == rounds[0]


def test_terms_that_contradict_the_plan_are_refused():
    with pytest.raises(NoisewrightError, match="budget"):
        campaign(budget=1.0)
    with pytest.raises(NoisewrightError, match="attribute"):
        campaign(questions={"height": "How tall?"})
    with pytest.raises(NoisewrightError, match="not understood"):
        campaign(repetition={"mode": "always"})
    words = campaign(repetition=MEMOISED).terms.repetition.promise
    assert "3 × ε" in words
    assert "not hidden" in words
