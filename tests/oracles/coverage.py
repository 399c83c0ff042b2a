"""How often intervals hold the truth: kinds of question × steps after the noise × mechanisms.

Truths are worked out from the rows by numpy alone. One measurement serves all steps of a subject,
so that a thousand releases of every case take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import noisewright as nw
from noisewright.planning.central import CentralPlan
from noisewright.workload.statistics import Column
from oracles.privacy_oracles import SeededSource

LEVEL = 0.95
PEOPLE = 12_000
REGIONS, SEXES = ("N", "S", "E"), ("F", "M")
AGES = tuple(range(0, 97, 8))
FINE = tuple(1.25 * k for k in range(81))
ATTRIBUTES = {
    "region": nw.Categorical("region", REGIONS),
    "sex": nw.Categorical("sex", SEXES),
    "age": nw.Numeric("age", edges=AGES),
    "income": nw.Numeric("income", edges=FINE, lower=0.0, upper=100.0),
    "hours": nw.Numeric("hours", edges=(0, 20, 40, 60), lower=0.0, upper=60.0, missing="other"),
    "weight": nw.Numeric("weight", edges=(0, 2, 4), lower=0.0, upper=4.0, outside="clip"),
}
Values = dict[str, np.ndarray]


def population() -> Values:
    """People whose incomes rise with their region, a third of whom told no hours."""
    rng = np.random.default_rng(27)
    region = rng.choice(3, PEOPLE, p=[0.5, 0.3, 0.2])
    hours = np.round(np.clip(rng.normal(35, 12, PEOPLE), 0, 59))
    return {
        "region": region,
        "sex": rng.integers(0, 2, PEOPLE),
        "age": np.minimum(np.floor(96 * rng.beta(2, 3, PEOPLE)), np.where(region == 2, 79, 95)),
        "income": np.round(np.clip(99 * rng.beta(2, 4 - region, PEOPLE), 0, 99)),
        "hours": np.where(rng.random(PEOPLE) < 1 / 3, np.nan, hours),
        "weight": np.round(np.clip(rng.gamma(4, 0.3, PEOPLE), 0.1, 3.9), 1),
    }


PERSONS = population()


def table(names: Sequence[str]) -> pa.Table:
    """Their rows as a table."""
    words = {"region": np.array(REGIONS), "sex": np.array(SEXES)}
    columns = {}
    for name in names:
        values = PERSONS[name]
        known = words[name][values] if name in words else values
        columns[name] = pa.array(known, from_pandas=True)
    return pa.table(columns)


# --- what is true, from the rows ------------------------------------------------------------------

ALL = np.ones(PEOPLE, dtype=bool)
BY_REGION = [PERSONS["region"] == k for k in range(3)]
BY_SEX = [PERSONS["sex"] == k for k in range(2)]
BY_AGE = [PERSONS["age"] // 8 == k for k in range(12)]


def people(groups: Sequence[np.ndarray]) -> list[float]:
    return [float(group.sum()) for group in groups]


def crossed(*sides: Sequence[np.ndarray]) -> list[np.ndarray]:
    groups = [ALL]
    for side in sides:
        groups = [one & other for one in groups for other in side]
    return groups


def of_number(
    name: str, figure: Callable[..., float], groups: Sequence[np.ndarray], weighted: bool = False
) -> list[float]:
    """A figure of the known values in every group, with people's weights where these count."""
    known = np.isfinite(PERSONS[name])
    held = [group & known for group in groups]
    weights = PERSONS["weight"] if weighted else np.ones(PEOPLE)
    return [float(figure(PERSONS[name][group], weights[group])) for group in held]


def quantile(name: str, levels: Sequence[float], groups: Sequence[np.ndarray]) -> list[float]:
    """The least value that so large a share of a group does not exceed."""
    values = [np.sort(PERSONS[name][group]) for group in groups]
    return [float(v[int(np.ceil(p * len(v))) - 1]) for v in values for p in levels]


def total(values: np.ndarray, weights: np.ndarray) -> float:
    return float((weights * values).sum())


def mean(values: np.ndarray, weights: np.ndarray) -> float:
    return total(values, weights) / float(weights.sum())


def variance(values: np.ndarray, weights: np.ndarray) -> float:
    return mean((values - mean(values, weights)) ** 2, weights)


def intervals(groups: Sequence[np.ndarray]) -> list[float]:
    """Of consecutive groups: how many people are in every run of them."""
    counts = np.array(people(groups))
    return [counts[a : b + 1].sum() for a in range(len(counts)) for b in range(a, len(counts))]


# --- questions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One kind of question: its words, the columns it is over, and its true answers."""

    entries: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    truth: Sequence[float]
    grid: str = ""
    """Why intervals may hold more often than they say."""
    read: Callable[[nw.Release], Column] = lambda release: release.intervals


def quantiles_of(release: nw.Release) -> Column:
    """Quantiles read off a released CDF, whose intervals hold at once."""
    found = nw.release_quantiles(release, LEVELS)
    lower, upper = np.array([f.lower for f in found]), np.array([f.upper for f in found])
    return Column(lower, lower, (lower, upper), (lower, upper))


TABLES = ("region", "sex", "age")
COARSE = "bins: a quantile lies inside a bin, and both its edges are far from where noise decides"
FINE_BINS = "bins: an interval ends at edges and holds every bin between two that may be meant"
LEVELS = (0.25, 0.5, 0.9)
QUESTIONS: dict[str, Question] = {
    "total": Question(({"total": True},), TABLES, [float(PEOPLE)]),
    "histogram": Question(({"histogram": "age"},), TABLES, people(BY_AGE)),
    "marginal": Question(
        ({"marginal": ["region", "sex"]},), TABLES, people(crossed(BY_REGION, BY_SEX))
    ),
    "marginals": Question(
        ({"marginals": 2},),
        TABLES,
        [
            *people(crossed(BY_REGION, BY_SEX)),
            *people(crossed(BY_REGION, BY_AGE)),
            *people(crossed(BY_SEX, BY_AGE)),
        ],
    ),
    "count": Question(
        ({"count": 'age >= 64 and sex == "F"'}, {"count": 'region == "N" or age < 16'}),
        TABLES,
        people(
            [
                (PERSONS["age"] >= 64) & BY_SEX[0],
                BY_REGION[0] | (PERSONS["age"] < 16),
            ]
        ),
    ),
    "cdf": Question(({"cdf": "age"},), TABLES, list(np.cumsum(people(BY_AGE)))),
    "ranges": Question(({"ranges": "age"},), TABLES, intervals(BY_AGE)),
    "weighted count": Question(
        ({"marginal": ["region"], "weight": "weight"},),
        ("region", "weight"),
        of_number("weight", lambda values, _: values.sum(), BY_REGION),
    ),
    "sum": Question(
        ({"sum": "income", "by": ["region"]},),
        ("region", "income"),
        of_number("income", total, BY_REGION),
    ),
    "mean": Question(
        ({"mean": "income", "by": ["region"]},),
        ("region", "income"),
        of_number("income", mean, BY_REGION),
    ),
    "mean, some missing": Question(
        ({"mean": "hours", "by": ["region", "sex"]},),
        ("region", "sex", "hours"),
        of_number("hours", mean, crossed(BY_REGION, BY_SEX)),
    ),
    "weighted mean": Question(
        ({"mean": "income", "by": ["region"], "weight": "weight"},),
        ("region", "income", "weight"),
        of_number("income", mean, BY_REGION, weighted=True),
    ),
    "mean, small groups": Question(
        ({"mean": "income", "by": ["age"]},),
        ("age", "income"),
        of_number("income", mean, BY_AGE),
    ),
    "variance": Question(
        ({"variance": "income", "by": ["region"]},),
        ("region", "income"),
        of_number("income", variance, BY_REGION),
    ),
    "quantiles": Question(
        ({"quantiles": "income", "by": ["sex"], "at": list(LEVELS)},),
        ("sex", "income"),
        quantile("income", LEVELS, BY_SEX),
        FINE_BINS,
    ),
    "quantiles, coarse bins": Question(
        ({"quantiles": "age", "by": ["sex"], "at": list(LEVELS)},),
        ("sex", "age"),
        quantile("age", LEVELS, BY_SEX),
        COARSE,
    ),
    "quantiles of a CDF": Question(
        ({"cdf": "income", "by": ["sex"]},),
        ("sex", "income"),
        quantile("income", LEVELS, BY_SEX),
        FINE_BINS,
        lambda release: quantiles_of(release),
    ),
    "all together": Question(
        (
            {"marginal": ["region", "sex"]},
            {"sum": "income", "by": ["region"]},
            {"mean": "income", "by": ["region"]},
            {"variance": "income"},
            {"quantiles": "income", "at": [0.5]},
        ),
        ("region", "sex", "income"),
        [
            *people(crossed(BY_REGION, BY_SEX)),
            *of_number("income", total, BY_REGION),
            *of_number("income", mean, BY_REGION),
            *of_number("income", variance, [ALL]),
            *quantile("income", [0.5], [ALL]),
        ],
        FINE_BINS,
    ),
}


# --- mechanisms and steps -------------------------------------------------------------------------

NOBODY = {"region": "E", "age": {"from": 80}}
RHO, EPSILON = 2e-4, 0.03
"""So little that a bin of the numbers holds about as many people as the noise is large."""

GAUSSIAN, PURE = nw.Privacy(rho=RHO), nw.Privacy(epsilon=EPSILON)
MECHANISMS: dict[str, tuple[str, nw.Privacy]] = {
    "gaussian-strategy": ("gaussian-strategy", GAUSSIAN),
    "residual": ("residual", GAUSSIAN),
    "shared-basis": ("shared-basis", GAUSSIAN),
    "split": ("split", GAUSSIAN),
    "laplace-strategy": ("laplace-strategy", PURE),
    "carry": ("carry", PURE),
    "k-norm": ("k-norm", PURE),
    "gaussian-strategy, replaced": (
        "gaussian-strategy",
        nw.Privacy(rho=RHO, neighbours="replace-one"),
    ),
    "laplace-strategy, replaced": (
        "laplace-strategy",
        nw.Privacy(epsilon=EPSILON, neighbours="replace-one"),
    ),
    "carry, replaced": ("carry", nw.Privacy(epsilon=EPSILON, neighbours="replace-one")),
}


@dataclass(frozen=True, eq=False)
class Subject:
    """A question planned with one mechanism, its exact tables read once."""

    question: Question
    mechanism: str
    impossible: bool = False

    @cached_property
    def domain(self) -> nw.Domain:
        attributes = tuple(ATTRIBUTES[name] for name in self.question.names)
        return nw.Domain(attributes, impossible=[NOBODY] if self.impossible else [])

    @cached_property
    def plan(self) -> CentralPlan:
        name, privacy = MECHANISMS[self.mechanism]
        asked = nw.Workload.from_spec({"queries": list(self.question.entries)}, self.domain)
        return nw.plan(asked, privacy, mechanism=name)

    @cached_property
    def exact(self) -> Any:
        return self.plan.counts(table(self.question.names))

    def released(self, count: int, seed: int) -> Iterator[nw.Release]:
        source = SeededSource(seed)
        for number in range(count):
            release = self.plan.release_counts(self.exact, source)
            yield replace(release, identity=f"{seed}-{number}")


Step = Callable[[nw.Release, "Subject", nw.Release], nw.Release]
"""What is done to a release of a subject, of which another release is at hand."""


def declared(release: nw.Release, subject: Subject, _: nw.Release) -> nw.Release:
    """The first answer is public."""
    return nw.post_process(release, invariants={release.labels[0]: subject.question.truth[0]})


STEPS: dict[str, Step] = {
    "none": lambda release, *_: release,
    "non-negative": lambda release, *_: nw.post_process(release, non_negative=True),
    "integer": lambda release, *_: nw.post_process(release, integer=True),
    "declared": declared,
    "suppressed": lambda release, *_: nw.post_process(release, suppress=0.3),
    "combined": lambda release, _, other: nw.combine(release, other),
    "asked later": lambda release, subject, _: release.answer(
        {"queries": list(subject.question.entries)}
    ),
}
IMPOSSIBLE = "impossible cells"  # declared before a plan is made, not after its release
AFTER_ALL = ("non-negative", "integer", "declared", "suppressed")  # of counts alone


@dataclass(frozen=True, eq=False)
class Coverage:
    """Of so many releases: which answers were inside their own intervals, and whether all were."""

    each: np.ndarray
    all: np.ndarray

    @property
    def releases(self) -> int:
        return len(self.all)

    @property
    def mean(self) -> float:
        """How often an answer is inside its own interval."""
        return float(self.each.mean())

    @property
    def error(self) -> float:
        """The standard error of that: answers of one release go together."""
        return float(self.each.mean(axis=1).std(ddof=1) / np.sqrt(self.releases))

    @property
    def least(self) -> float:
        """The same for the answer that is covered least."""
        return float(self.each.mean(axis=0).min())

    @property
    def joint(self) -> float:
        """How often all answers are inside the intervals that hold at once."""
        return float(self.all.mean())


def held(column: Column, truth: Sequence[float]) -> tuple[np.ndarray, bool]:
    """Which answers are inside their own intervals, and whether all are inside the joint ones."""
    each, all_ = (
        (low - SLACK <= truth) & (truth <= high + SLACK) | np.isnan(low)
        for low, high in (column.each, column.all)
    )
    return each, bool(all_.all())


SLACK = 1e-6  # sums of decimals are no whole numbers


def covered(
    subject: Subject, steps: Sequence[str], releases: int, seed: int
) -> dict[str, Coverage]:
    """The coverage after every step, all from the same measurements."""
    truth = np.asarray(subject.question.truth)
    hits: dict[str, list[tuple[np.ndarray, bool]]] = {step: [] for step in steps}
    drawn = subject.released(releases, seed)
    others = subject.released(releases, seed + 1)
    for release, other in zip(drawn, others, strict=True):
        for step in steps:
            hits[step].append(
                held(subject.question.read(STEPS[step](release, subject, other)), truth)
            )
    return {
        step: Coverage(np.array([each for each, _ in own]), np.array([all_ for _, all_ in own]))
        for step, own in hits.items()
    }
