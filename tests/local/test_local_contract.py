"""What every registered mechanism and every stored kind owes, against oracles that know its law.

The oracle reads a plan's exported specification and lists the chances of all reports, as fractions.
Of the plan itself it knows the bytes of a report and what the collector makes of them. Noise that
cannot be listed (vectors) is held to its mean, its variance and its distances instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import exp, inf, nan

import numpy as np
import pytest
from scipy.stats import chi2

import noisewright as nw
from local import two_answers
from local.strategies import KINDS
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.local.choose.candidates import candidates
from noisewright.local.mechanism import LocalProblem, Search
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.specification import decode
from noisewright.local.randomizer.verify import verify
from noisewright.local.registry import MECHANISMS
from noisewright.local.reports.format import exported
from noisewright.local.storage import HOMES, pack, unpack
from noisewright.planning.local.plan import LocalPlan, NamedStrategy
from noisewright.workload import Workload, workload
from oracles import randomizer_law
from oracles.privacy_oracles import SeededSource

QUICK = Search(effort="low", cache=False)
DELTA = 1e-6
ASKED = (
    "identity:6",
    "prefix:7",
    "ranges:5",
    "marginals:2^3:2",
    "random:4x6:3",
    "prefix:2*total:3",
)
EPSILONS = (0.5, 2.0)
FALSE_ALARM = 1e-7
"""Of each test of a law; some 1,000 of them below 1e-4 together, had the seeds not been fixed."""

REGISTERED = [
    (name, text, e) for name in MECHANISMS for text in ASKED for e in EPSILONS
]
STORED = [
    (f"kind {name}", asked if isinstance(asked, Workload) else str(asked), e)
    for name, (_, answered) in KINDS.items()
    for asked in answered
    for e in EPSILONS
]


@dataclass(frozen=True, eq=False)
class Case:
    """A plan, and what the oracle knows of it."""

    plan: LocalPlan

    @cached_property
    def document(self):
        return json.loads(json.dumps(exported(self.plan.format)))

    @property
    def listed(self):
        return all(
            node["op"] != "grid" for node in self.document["specification"]["nodes"]
        )

    @cached_property
    def laws(self):
        """Chances of the bytes of reports, for a person in every cell."""
        specification = decode(json.dumps(self.document["specification"]))
        head, width = self.plan.format.header, specification.number_bytes
        return [
            {
                head
                + (n.to_bytes(width, "little") + b).ljust(
                    specification.report_bytes, b"\0"
                ): p
                for (n, b), p in randomizer_law.reports(
                    self.document["specification"], cell
                ).items()
            }
            for cell in range(self.plan.workload.size)
        ]

    @cached_property
    def reports(self):
        return sorted({report for law in self.laws for report, p in law.items() if p})

    @cached_property
    def chances(self):
        """Q: one row per report, one column per cell."""
        return np.array(
            [[float(law.get(o, 0)) for law in self.laws] for o in self.reports]
        )

    @cached_property
    def answers(self):
        """V: what one report makes of every answer, one column per report."""
        return np.array([self.collected([report]) for report in self.reports]).T

    def collected(self, reports):
        aggregate = self.plan.aggregate(list(reports))
        assert aggregate.people == len(reports)
        return self.plan.strategy.answers(
            self.plan.workload, aggregate.total, len(reports)
        )


@cache
def case(name, asked, epsilon):
    """The plan, or the refusal in words."""
    if name.startswith("kind "):
        strategy = KINDS[name[5:]][0](epsilon)
        if isinstance(asked, str):
            asked = workload(asked if ":" in asked else f"{asked}:{strategy.size}")
        return Case(LocalPlan(asked, None, NamedStrategy(name, strategy)))
    problem = LocalProblem(workload(asked), epsilon, DELTA, QUICK)
    (candidate,) = candidates(problem, name)
    if candidate.analysis is None:
        assert len(candidate.refusal.split()) > 3  # in words
        return None
    return Case(
        LocalPlan(
            problem.workload, None, NamedStrategy(name, candidate.analysis.strategy)
        )
    )


def every(test):
    """The test over the whole grid, half of it only among the slow ones."""
    grid = [
        pytest.param(*one, marks=pytest.mark.slow if i % 4 in (1, 2) else ())
        for i, one in enumerate(REGISTERED + STORED)
    ]
    return pytest.mark.parametrize(("name", "asked", "epsilon"), grid)(test)


def planned(name, asked, epsilon):
    found = case(name, asked, epsilon)
    if found is None:
        pytest.skip("refused in words")
    return found


def test_every_stored_kind_and_no_other_is_here():
    assert {build(1.0).kind for build, _ in KINDS.values()} == set(HOMES)


def test_every_mechanism_answers_something_here():
    """A registered mechanism that refuses the whole grid would escape it."""
    for name in MECHANISMS:
        assert any(case(name, text, EPSILONS[0]) for text in ASKED), name


# --- privacy --------------------------------------------------------------------------------------


@every
def test_privacy(name, asked, epsilon):
    """The verifier's ratio is that of the chances listed; the promise is not below it."""
    one = planned(name, asked, epsilon)
    specification = decode(json.dumps(one.document["specification"]))
    promise = verify(specification)
    assert promise.epsilon <= one.plan.privacy.epsilon <= epsilon
    assert promise.delta <= (one.plan.privacy.delta or 0.0)
    if not name.startswith("kind "):
        assert (one.plan.privacy.delta or 0.0) <= DELTA
    assert one.plan.privacy.neighbours == "replace-one"
    if not one.listed:
        return
    assert one.plan.privacy.delta is None
    worst = max(
        Fraction(
            max(law.get(o, 0) for law in one.laws),
            min(law.get(o, 0) for law in one.laws),
        )
        for o in one.reports
    )
    assert max(worst, 1 / worst) == promise.ratio
    assert float(worst) <= exp(epsilon) * (1 + 1e-12)
    assert all(sum(law.values()) == 1 for law in one.laws)


# --- law ------------------------------------------------------------------------------------------


def check_law(reports, law, people):
    """Pearson's statistic of reports against their chances, rare reports taken together."""
    assert {report for report in reports if not law.get(report)} == set()
    counts = {report: 0 for report, chance in law.items() if chance}
    for report in reports:
        counts[report] += 1
    expected = np.array([float(people * law[report]) for report in counts])
    observed = np.array(list(counts.values()), dtype=float)
    rare = expected < 8
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
    statistic = ((observed - expected) ** 2 / expected).sum()
    # The rate is that of Gaussian counts; those expected eight times and more are near enough to
    # them that a tail of 1e-7 may be some times heavier.
    assert statistic < 1.5 * chi2.isf(FALSE_ALARM, max(len(expected) - 1, 1))


@every
def test_law(name, asked, epsilon):
    one = planned(name, asked, epsilon)
    strategy, form = one.plan.strategy, one.plan.format
    specification = decode(json.dumps(one.document["specification"]))
    source = SeededSource(len(name) + 7)
    for cell in (0, strategy.size - 1):
        batch = form.encode(strategy.randomize(np.full(3000, cell), source))
        if not one.listed:
            check_noise(strategy, cell, source)
            continue
        check_law([row.tobytes() for row in batch], one.laws[cell], 3000)
        single = [
            form.header + interpret(specification, cell, source) for _ in range(400)
        ]
        check_law(single, one.laws[cell], 400)


def check_noise(strategy, cell, source):
    """Mean and variance of every coordinate: 6 standard errors, false alarms below 1e-8 each."""
    reports = strategy.randomize(np.full(4000, cell), source).astype(float)
    noise = reports - strategy.columns[:, cell]
    spread = strategy.law.standard_deviation
    assert np.abs(noise.mean(axis=0)).max() < 6 * spread / np.sqrt(4000)
    # The fourth moment of Laplace noise is 6 of its variances squared, of Gaussian 3.
    error = 6 * np.sqrt(5 / 4000)
    assert np.abs((noise**2).mean(axis=0) / spread**2 - 1).max() < error


# --- estimates ------------------------------------------------------------------------------------


@every
def test_answers_have_no_bias_and_the_variance_forecast(name, asked, epsilon):
    """VQ = W, and V(Diag(q) − qqᵀ)Vᵀ is the covariance: from single reports collected."""
    one = planned(name, asked, epsilon)
    w, plan = one.plan.workload.dense(), one.plan
    if one.listed:
        v, q = one.answers, one.chances
        scale = max(1.0, float(np.abs(v).max()))
        np.testing.assert_allclose(v @ q, w, atol=1e-9 * scale)
        each = np.array(
            [(v**2) @ q[:, u] - (v @ q[:, u]) ** 2 for u in range(w.shape[1])]
        )
    else:
        nothing = plan.strategy.answers(
            plan.workload, np.zeros(plan.strategy.collector.counters, int), 1
        )
        units = 2**20 * np.eye(plan.strategy.collector.counters, dtype=np.int64)
        v = np.array(
            [plan.strategy.answers(plan.workload, u, 1) - nothing for u in units]
        ).T
        v = v / 2**20
        np.testing.assert_allclose(
            v @ plan.strategy.columns + nothing[:, None], w, atol=1e-6
        )
        one_person = plan.strategy.law.standard_deviation**2 * (v**2).sum(axis=1)
        each = np.repeat(one_person[None], w.shape[1], axis=0)
    close = {"rtol": 1e-6, "atol": 1e-8 * max(1.0, float(each.max()))}
    np.testing.assert_allclose(
        plan.forecast(100).std ** 2 / 100, each.mean(axis=0), **close
    )
    totals = each.sum(axis=1)
    np.testing.assert_allclose(plan.analysis.worst_case, totals.max(), **close)
    if plan.bound is not None:
        assert totals.max() >= plan.bound.variance * (1 - 1e-6) - close["atol"]


@every
def test_the_worst_people_are_not_much_worse_than_the_average(name, asked, epsilon):
    """L_avg ≤ L_worst ≤ e^ε(L_avg + ‖W‖²/n) for one person, since no report is e^ε times likelier
    for somebody than on average [003]; with a δ the second does not follow."""
    plan = planned(name, asked, epsilon).plan
    average, worst = plan.analysis.average_case, plan.analysis.worst_case
    assert average <= worst * (1 + 1e-9)
    if plan.privacy.delta:
        return
    squares = np.diagonal(plan.workload.gram().dense()).mean()
    assert worst <= np.exp(plan.privacy.epsilon) * (average + squares) * (1 + 1e-9)


@every
def test_packing(name, asked, epsilon, tmp_path):
    one = planned(name, asked, epsilon)
    again = unpack(*pack(one.plan.strategy))
    assert type(again) is type(one.plan.strategy)
    plan = LocalPlan(one.plan.workload, None, NamedStrategy(name, again))
    assert exported(plan.format) == exported(one.plan.format)
    if isinstance(asked, str) and not name.startswith("kind "):
        one.plan.save(tmp_path / "p.nw")
        loaded = nw.load(tmp_path / "p.nw")
        assert exported(loaded.format) == exported(one.plan.format)
        assert loaded.sample_complexity() == one.plan.sample_complexity()


# --- refusal --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MECHANISMS)
def test_budgets_sizes_and_deltas_are_refused(name):
    asked = "marginals:2^3:2" if name == "union" else "prefix:6"
    for epsilon in (0.0, -1.0, nan, inf, 1e9):
        with pytest.raises(NoisewrightError, match="epsilon"):
            MECHANISMS[name].plan(LocalProblem(workload(asked), epsilon, DELTA, QUICK))
    with pytest.raises(InvalidParameter, match="rho"):
        nw.plan(asked, nw.Privacy(rho=1.0), nw.Local(mechanism=name))
    with pytest.raises(InvalidParameter, match="size=1"):
        nw.plan("identity:1", nw.Privacy(1.0, DELTA), nw.Local(mechanism=name))
    if MECHANISMS[name].needs_delta:
        with pytest.raises(InvalidParameter, match="give a delta"):
            nw.plan(asked, nw.Privacy(1.0), nw.Local(mechanism=name))
    else:  # a delta that is not needed is not spent
        plan = nw.plan(
            asked, nw.Privacy(1.0, DELTA), nw.Local(mechanism=name, effort="low")
        )
        assert plan.privacy.delta is None


@pytest.mark.parametrize("name", KINDS)
def test_stored_budgets_are_refused(name):
    settings, arrays = pack(KINDS[name][0](1.0))
    for epsilon in (0.0, -1.0, nan, inf, 1e9, "1", None):
        with pytest.raises(NoisewrightError):
            unpack(_forged(settings, epsilon), arrays)


def _forged(settings, epsilon):
    """The settings with every ε in them replaced."""
    if isinstance(settings, dict):
        return {
            k: epsilon if k == "epsilon" else _forged(v, epsilon)
            for k, v in settings.items()
        }
    return (
        [_forged(v, epsilon) for v in settings]
        if isinstance(settings, list)
        else settings
    )


def test_settings_that_only_a_search_reads_are_refused_at_once():
    for settings in (
        {"effort": "none"},
        {"norm": 0.5, "objective": "average"},
    ):
        with pytest.raises(InvalidParameter):
            nw.plan("prefix:6", nw.Privacy(1.0), nw.Local(**settings))


def test_a_plan_without_a_search_does_not_load_it():
    script = (
        "import sys, noisewright as nw; nw.plan('identity:8', nw.Privacy(1.0), nw.Local());"
        "print('noisewright.local.optimise.run' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert told.stdout.strip() == "False", told.stderr


# --- one more ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["identity:6", "prefix:7"])
def test_a_mechanism_is_one_file_and_one_entry(asked, monkeypatch, tmp_path):
    """Listed, it is planned by name, compared, chosen from, and held to the contract above."""
    monkeypatch.setitem(MECHANISMS, two_answers.ENTRY.name, two_answers.ENTRY)
    plan = nw.plan(asked, nw.Privacy(1.0), nw.Local(mechanism="two-answers"))
    assert plan.mechanism.name == "two-answers"
    rows = nw.compare(asked, nw.Privacy(1.0), nw.Local(effort="low"))
    (row,) = [row for row in rows if row.mechanism == "two-answers"]
    assert row.sample_complexity == plan.sample_complexity()
    chosen = nw.plan(asked, nw.Privacy(1.0), nw.Local(effort="low"))
    assert "two-answers" in {each["mechanism"] for each in chosen.runners_up}
    with pytest.raises(InvalidParameter, match="two-answers"):
        nw.plan(asked, nw.Privacy(1.0), nw.Local(mechanism="three-answers"))
    for epsilon in EPSILONS:
        test_privacy("two-answers", asked, epsilon)
        test_law("two-answers", asked, epsilon)
        test_answers_have_no_bias_and_the_variance_forecast(
            "two-answers", asked, epsilon
        )
        test_packing("two-answers", asked, epsilon, tmp_path)
    test_budgets_sizes_and_deltas_are_refused("two-answers")


@pytest.mark.parametrize("text", ["prefix:8", "marginals:2^3:2", "identity:5"])
def test_refusals_are_reasons_in_words(text: str) -> None:
    """What is said of a mechanism that does not apply names no argument that nobody gave."""
    rows = nw.compare(text, nw.Privacy(1), nw.Local(effort="low"))
    refused = [row.refusal for row in rows if row.refusal is not None]
    assert refused
    assert not any("='" in reason for reason in refused)
