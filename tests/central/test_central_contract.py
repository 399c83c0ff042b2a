"""What every registered central mechanism owes, against oracles that know nothing of its family.

The oracle measures histograms with the same bytes of randomness, so noise cancels and what is left
is exact integers: how far neighbours move them, what the answers make of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from math import exp, inf, prod, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import chi2, norm

import noisewright as nw
from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.mechanism import Given, Measurement, Mechanism, Table
from noisewright.central.problem import CentralProblem, Proposal
from noisewright.central.registry import CENTRAL
from noisewright.errors import InvalidParameter
from noisewright.planning.central.problems import central_problem
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.structure import Term, terms
from oracles.exact_plans import mean
from oracles.privacy_oracles import SeededSource

ASKED = (
    "prefix:5",
    "identity:4",
    "prefix:4*identity:3",
    "marginals:2x3x2:2",
    "allmarginals:2x3",
    "prefix:3*identity:2+identity:3*prefix:2",
    "total:4",
    "total:3*prefix:2+2@(prefix:3*total:2)",
    "random:4x5:0",
)
BUDGETS = ({"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6})
NEIGHBOURS = ("add-remove", "replace-one")
DRAWS = 30
FALSE_ALARM = 1e-9
"""Of each test of noise; a few hundred of them below 1e-6 together, had seeds not been fixed."""


@cache
def problem(text: str, budget: int, neighbours: str, p: float) -> CentralProblem | None:
    """The problem, or None where planning refuses before any mechanism is asked."""
    privacy = Privacy(**BUDGETS[budget], neighbours=neighbours)
    if text.startswith("total:4") and neighbours == "replace-one":
        with pytest.raises(InvalidParameter, match="public"):
            central_problem(workload(text), privacy, nw.Central(error=p))
        return None
    return central_problem(workload(text), privacy, nw.Central(error=p))


KEYS = [(t, b, n, 2.0) for t in ASKED for b in range(len(BUDGETS)) for n in NEIGHBOURS]
KEYS += [(t, b, n, inf) for t in ASKED[::2] for b in (0, 1) for n in NEIGHBOURS]
PROBLEMS = {key: found for key in KEYS if (found := problem(*key)) is not None}
REFUSALS = {
    (name, *key): entry.refuses(asked)
    for name, entry in CENTRAL.items()
    for key, asked in PROBLEMS.items()
}
ACCEPTED = [key for key, reason in REFUSALS.items() if reason is None]


def name_of(key: tuple) -> str:
    return "-".join(map(str, key))


every = pytest.mark.parametrize("key", ACCEPTED, ids=name_of)

OTHER_NOISE = ("carry", "k-norm", "hardt-talwar")
"""Mechanisms whose noise is not per number: their privacy is tested beside their family."""

INDEPENDENT = [key for key in ACCEPTED if key[0] not in OTHER_NOISE]
independent = pytest.mark.parametrize("key", INDEPENDENT, ids=name_of)


@dataclass(frozen=True, eq=False)
class Case:
    """A proposal, and what the oracle finds out about it."""

    asked: CentralProblem
    proposal: Proposal

    @cached_property
    def mechanism(self) -> Mechanism:
        return self.proposal.mechanism

    @cached_property
    def blocks(self) -> BlockMechanism:
        assert isinstance(self.mechanism, BlockMechanism)
        return self.mechanism

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.asked.sizes

    @cached_property
    def terms(self) -> list[Term]:
        return terms(self.asked.workload, self.sizes)

    def counts(self, histogram: np.ndarray) -> dict[Table, np.ndarray]:
        cells = histogram.reshape(self.sizes)
        counts = {}
        for table in self.mechanism.tables:
            others = tuple(
                i for i in range(len(self.sizes)) if i not in table.attributes
            )
            counts[table] = cells.sum(axis=others).ravel()
        return counts

    def measure(self, histogram: np.ndarray) -> list[np.ndarray]:
        return self.blocks.exact(self.counts(histogram))

    @cached_property
    def columns(self) -> list[list[list[int]]]:
        """What one person in each cell adds to every measured integer, block by block, exactly."""
        people = np.arange(3, 3 + prod(self.sizes))
        before = self.measure(people)
        after = [self.measure(people + one) for one in np.eye(len(people), dtype=int)]
        return [
            [
                [int(y) - int(x) for x, y in zip(b, a, strict=True)]
                for b, a in zip(before, part, strict=True)
            ]
            for part in after
        ]

    @cached_property
    def scales(self) -> list[Fraction]:
        return [Fraction(law.scale) for law in self.blocks.laws]

    def ratio(self, change: list[list[int]]) -> Fraction:
        """How far a change goes in units of noise: L1, or L2 squared."""
        pairs = zip(change, self.scales, strict=True)
        return sum(
            (
                abs(Fraction(x) / s) ** self.asked.order
                for part, s in pairs
                for x in part
            ),
            Fraction(0),
        )

    @cached_property
    def farthest(self) -> Fraction:
        """How far any neighbour goes."""
        if self.asked.neighbours == "add-remove":
            return max(map(self.ratio, self.columns))
        return max(
            self.ratio(
                [
                    [x - y for x, y in zip(a, b, strict=True)]
                    for a, b in zip(u, v, strict=True)
                ]
            )
            for k, u in enumerate(self.columns)
            for v in self.columns[:k]
        )

    @cached_property
    def matrix(self) -> np.ndarray:
        """A: what is measured, over all cells."""
        return np.array(
            [[x for part in column for x in part] for column in self.columns],
            dtype=float,
        ).T

    @cached_property
    def answers(self) -> np.ndarray:
        """R: what every measured integer adds to every answer."""
        counts = [len(part) for part in self.columns[0]]
        units = np.split(np.eye(sum(counts)), np.cumsum(counts)[:-1])
        return np.asarray(self.mechanism.answer(Measurement(tuple(units)), self.terms))

    def spread(self, of_block: list[float]) -> np.ndarray:
        counts = [len(part) for part in self.columns[0]]
        return np.repeat(of_block, counts)

    @cached_property
    def unit_error(self) -> float:
        """The p-th mean error times how far a neighbour goes, both in units of noise."""
        noise = self.spread([float(s) for s in self.scales])
        far = float(self.farthest)
        return mean(np.linalg.norm(self.answers * noise, axis=1), self.asked.norm) * (
            far if self.asked.order == 1 else sqrt(far)
        )


@cache
def case(key: tuple) -> Case:
    name, *rest = key
    asked = PROBLEMS[tuple(rest)]
    return Case(asked, CENTRAL[name].plan(asked))


@independent
def test_no_neighbour_goes_farther_than_what_is_spent_and_that_is_the_budget(
    key: tuple,
) -> None:
    found, privacy = case(key), case(key).asked.privacy
    mechanism = found.mechanism
    assert mechanism.privacy == privacy
    assert mechanism.spend.neighbours == privacy.neighbours
    (loss,) = mechanism.spend.losses
    stated = Fraction(loss.ratio if privacy.kind == "pure" else loss.mu)
    assert found.farthest <= stated**found.asked.order
    if privacy.kind == "pure":
        assert found.farthest <= Fraction(privacy.epsilon)
    elif privacy.rho is not None:
        assert found.farthest / 2 <= Fraction(privacy.rho)
    else:
        mu, e = sqrt(found.farthest), privacy.epsilon
        delta = norm.cdf(mu / 2 - e / mu) - exp(e) * norm.cdf(-mu / 2 - e / mu)
        assert delta <= privacy.delta * (1 + 1e-9)
    # Calibrated to what neighbours can do, not to much more: a plan that wastes budget is no best.
    assert stated**found.asked.order <= found.farthest * Fraction(3, 2)


@independent
def test_what_is_measured_without_noise_gives_the_exact_answers(key: tuple) -> None:
    found = case(key)
    rows = found.asked.workload.dense()
    np.testing.assert_allclose(
        found.answers @ found.matrix, rows, atol=1e-6 * np.abs(rows).max()
    )
    found.mechanism.check_reach(found.terms)


@independent
def test_variances_are_those_of_the_answers_and_of_least_squares(key: tuple) -> None:
    found = case(key)
    variances = found.spread([law.variance for law in found.blocks.laws])
    stated = found.mechanism.accuracy(found.terms).variance
    rounding = 1e-9 * stated.max()
    np.testing.assert_allclose(
        stated, found.answers**2 @ variances, rtol=1e-6, atol=rounding
    )
    # Gauss and Markov: no unbiased linear answers vary less than those of least squares, where
    # rows without noise are public and leave the directions that they do not see.
    # of whole numbers: but for such a chance nothing is added
    public = variances < 1e-9
    unseen = (
        null_space(found.matrix[public])
        if public.any()
        else np.eye(found.matrix.shape[1])
    )
    scaled = found.matrix[~public] @ unseen / np.sqrt(variances[~public])[:, None]
    asked = found.asked.workload.dense() @ unseen
    best = np.linalg.norm(asked @ np.linalg.pinv(scaled), axis=1) ** 2
    assert (stated >= best * (1 - 1e-4) - rounding).all()
    if not found.blocks.strategy.separate:
        assert stated.sum() <= best.sum() * 1.001


@pytest.mark.parametrize("key", [key for key in ACCEPTED if key[-1] == 2], ids=name_of)
def test_noise_is_of_the_law_that_is_stated(key: tuple) -> None:
    """Standardised answers of 30 draws, in Gaussian bands with room for the tails of Laplace."""
    found = case(key)
    people = np.arange(prod(found.sizes))
    source = SeededSource(7)
    exact = found.asked.workload.matvec(people)
    std = found.mechanism.accuracy(found.terms).std
    seen = std > 1e-6 * std.max()
    mechanism, counts = found.mechanism, found.counts(people)
    draws = (mechanism.measure(counts, source) for _ in range(DRAWS))
    answers = np.array([mechanism.answer(drawn, found.terms) for drawn in draws])
    errors = (answers - exact)[:, seen] / std[seen]
    beyond = norm.isf(FALSE_ALARM / 2)
    assert (np.abs(errors.mean(axis=0)) * sqrt(DRAWS) < beyond * 1.5).all()
    first = (errors[:, 0] ** 2).sum()
    least, most = chi2.ppf([FALSE_ALARM, 1 - FALSE_ALARM], DRAWS)
    assert least / 2 <= first <= most * 2


@independent
def test_the_error_is_the_one_proposed_and_no_bound_is_above_it(key: tuple) -> None:
    found = case(key)
    proposal = found.proposal
    assert proposal.neighbours == found.asked.neighbours
    assert found.unit_error == pytest.approx(proposal.value, rel=2e-3)
    assert proposal.bound is None or 0 < proposal.bound <= proposal.value
    assert (proposal.bound is None) == (proposal.certificate == "none")
    assert proposal.status


@every
def test_answers_are_right_on_average_and_covariances_fit_variances(key: tuple) -> None:
    """With the same bytes of randomness, noise cancels: what is left is exact."""
    found = case(key)
    mechanism, people = found.mechanism, np.arange(3, 3 + prod(found.sizes))
    more = people + np.arange(prod(found.sizes)) % 3 * (
        1 if key[3] == "add-remove" else 0
    )
    if key[3] == "replace-one":
        more = more[::-1]
    first, second = (
        mechanism.answer(
            mechanism.measure(found.counts(x), SeededSource(1)), found.terms
        )
        for x in (people, more)
    )
    truth = found.asked.workload.matvec(more - people)
    np.testing.assert_allclose(
        second - first, truth, atol=1e-6 * max(1, np.abs(truth).max())
    )
    accuracy = mechanism.accuracy(found.terms)
    every = np.arange(len(accuracy.variance))
    scale = accuracy.variance.max()
    covariance = accuracy.covariance(every)
    np.testing.assert_allclose(
        np.diag(covariance), accuracy.variance, atol=1e-9 * scale
    )
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-9 * scale)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * scale * len(every)
    # variances: 1e-6 alarms at 8 deviations
    errors = accuracy.draw(2000, np.random.default_rng(0))
    spread = 8 * np.sqrt(5 / 2000)
    assert (
        np.abs((errors**2).mean(axis=0) - accuracy.variance) <= spread * scale
    ).all()
    mechanism.check_reach(found.terms)


@pytest.mark.parametrize("key", PROBLEMS, ids=name_of)
def test_no_mechanism_is_better_than_any_bound(key: tuple) -> None:
    cases = [case(other) for other in INDEPENDENT if other[1:] == key]
    assert cases
    bounds = [
        found.proposal.bound for found in cases if found.proposal.bound is not None
    ]
    assert max(bounds, default=0.0) <= min(found.unit_error for found in cases) * (
        1 + 1e-6
    )


def test_refusals_are_words_and_every_mechanism_both_plans_and_refuses() -> None:
    for name, entry in CENTRAL.items():
        assert entry.name == name
        assert entry.summary
        reasons = [reason for key, reason in REFUSALS.items() if key[0] == name]
        # its errors depend on people, of whom these problems say nothing
        if entry.biased:
            told = [replace(asked, given=Given(1_000)) for asked in PROBLEMS.values()]
            reasons += [entry.refuses(asked) for asked in told]
        assert None in reasons
        said = {reason for reason in reasons if reason is not None}
        assert said
        assert all(len(reason.split()) > 3 for reason in said)


@pytest.mark.parametrize("name", CENTRAL)
def test_a_refused_plan_says_why(name: str) -> None:
    key, reason = next(
        (k, r) for k, r in REFUSALS.items() if k[0] == name and r is not None
    )
    asked = PROBLEMS[key[1:]]
    with pytest.raises(InvalidParameter) as refused:
        nw.plan(asked.workload, asked.privacy, nw.Central(error="rmse", mechanism=name))
    assert reason in str(refused.value)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("name", CENTRAL)
def test_plans_survive_their_files(name: str, neighbours: str, tmp_path: Path) -> None:
    keys = [key for key in ACCEPTED if key[0] == name and key[3] == neighbours]
    for key in keys[:: max(1, len(keys) // 2)]:
        asked = PROBLEMS[key[1:]]
        error = "rmse" if key[-1] == 2 else "max"
        plan = nw.plan(
            asked.workload, asked.privacy, nw.Central(error=error, mechanism=name)
        )
        plan.save(tmp_path / "plan.nw")
        again = nw.load(tmp_path / "plan.nw")
        assert again.privacy == plan.privacy
        assert again.mechanism.name == name
        np.testing.assert_array_equal(again.standard_errors, plan.standard_errors)
        json.dumps(case(key).mechanism.record())
        ledger = nw.Ledger(tmp_path / f"{name_of(key)}.db".replace("*", "x"))
        ledger.create("people", again.privacy)  # one release of just that budget fits
        released = again.release(
            np.arange(asked.workload.size), ledger=ledger, dataset="people"
        )
        assert ledger.account("people").releases
        assert released.answers.shape == (asked.workload.queries,)
