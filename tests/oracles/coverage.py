"""How often intervals hold the truth: kinds of question × steps after the noise × mechanisms.

Truths are worked out from the rows by numpy alone. One measurement serves all steps of a subject,
so that a thousand releases of every case take minutes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import noisewright as nw
from noisewright.central.mechanism import Measurement
from noisewright.estimate.accuracy import Accuracy, Conditioned
from noisewright.planning.after import postprocess
from noisewright.planning.central.plan import CentralPlan
from noisewright.workload.questions.statistics import Column
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
    "hours": nw.Numeric(
        "hours", edges=(0, 20, 40, 60), lower=0.0, upper=60.0, missing="other"
    ),
    "weight": nw.Numeric(
        "weight", edges=(0, 2, 4), lower=0.0, upper=4.0, outside="clip"
    ),
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
        "age": np.minimum(
            np.floor(96 * rng.beta(2, 3, PEOPLE)), np.where(region == 2, 79, 95)
        ),
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
    name: str,
    figure: Callable[..., float],
    groups: Sequence[np.ndarray],
    weighted: bool = False,
) -> list[float]:
    """A figure of the known values in every group, with people's weights where these count."""
    known = np.isfinite(PERSONS[name])
    held = [group & known for group in groups]
    weights = PERSONS["weight"] if weighted else np.ones(PEOPLE)
    return [float(figure(PERSONS[name][group], weights[group])) for group in held]


def quantile(
    name: str, levels: Sequence[float], groups: Sequence[np.ndarray]
) -> list[float]:
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
    return [
        counts[a : b + 1].sum()
        for a in range(len(counts))
        for b in range(a, len(counts))
    ]


def cumulative(groups: Sequence[np.ndarray]) -> list[float]:
    """People up to every age, by group; the first attribute of the schema varies slowest."""
    counts = np.array([people([group & age for age in BY_AGE]) for group in groups])
    return list(counts.cumsum(axis=1).ravel())


# --- questions ------------------------------------------------------------------------------------


def printed(release: nw.Release) -> Column:
    """What a release says of its own questions."""
    return release.intervals


@dataclass(frozen=True)
class Question:
    """One kind of question: its words, the columns it is over, and its true answers."""

    entries: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    truth: Sequence[float]
    grid: str = ""
    """Why intervals may hold more often than they say."""
    read: Callable[[nw.Release], Column] = printed


def quantiles_of(release: nw.Release) -> Column:
    """Quantiles read off a released CDF, whose intervals hold at once."""
    found = nw.release_quantiles(release, LEVELS)
    lower, upper = (
        np.array([f.lower for f in found]),
        np.array([f.upper for f in found]),
    )
    return Column(lower, lower, (lower, upper), (lower, upper))


TABLES = ("region", "sex", "age")
COARSE = "bins: a quantile lies inside a bin, and both its edges are far from where noise decides"
OF_THE_MEAN = (
    "a mean that is not known widens it where counts are not far above their noise"
)
FINE_BINS = (
    "bins: an interval ends at edges and holds every bin between two that may be meant"
)
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
    "cdfs": Question(
        ({"cdf": "age", "by": ["sex"]}, {"cdf": "age", "by": ["region"]}),
        TABLES,
        [*cumulative(BY_SEX), *cumulative(BY_REGION)],
    ),
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
        OF_THE_MEAN,
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


# --- mechanisms -----------------------------------------------------------------------------------

NOBODY = {"region": ["E"], "age": {"from": 80}}
RHO, EPSILON = 2e-4, 0.03
"""So little that a bin of the numbers holds about as many people as the noise is large."""

GAUSSIAN, PURE = nw.Privacy(rho=RHO), nw.Privacy(epsilon=EPSILON)
GAUSSIAN_REPLACED = nw.Privacy(rho=RHO, neighbours="replace-one")
PURE_REPLACED = nw.Privacy(epsilon=EPSILON, neighbours="replace-one")
MECHANISMS: dict[str, tuple[str, nw.Privacy]] = {
    "gaussian-strategy": ("gaussian-strategy", GAUSSIAN),
    "laplace-strategy": ("laplace-strategy", PURE),
    "carry": ("carry", PURE),
    "residual": ("residual", GAUSSIAN),
    "split": ("split", GAUSSIAN),
    "shared-basis": ("shared-basis", GAUSSIAN),
    "k-norm": ("k-norm", PURE),
    "hardt-talwar": ("hardt-talwar", PURE),
    "projection": ("projection", GAUSSIAN),
    "jl, replaced": ("jl", PURE_REPLACED),
    "gaussian-strategy, replaced": ("gaussian-strategy", GAUSSIAN_REPLACED),
    "laplace-strategy, replaced": ("laplace-strategy", PURE_REPLACED),
    "carry, replaced": ("carry", PURE_REPLACED),
}
ALWAYS = ("gaussian-strategy", "laplace-strategy", "carry")
REPLACED = tuple(f"{name}, replaced" for name in ALWAYS)
BIASED = {
    "projection": "widened to hold the projected answer, which is the nearer one",
    "jl, replaced": "widened by the most that a sketch may be off on average",
}
"""Those that are planned for a number of people, and what that does to intervals."""
OTHERS: dict[str, tuple[str, ...]] = {
    "histogram": ("k-norm",),
    "marginal": ("k-norm",),
    "marginals": ("residual", "split", "k-norm", "hardt-talwar", *BIASED),
    "count": ("residual", "k-norm", "hardt-talwar", *BIASED),
    "cdf": ("k-norm", "hardt-talwar", *BIASED),
    "cdfs": ("split", "shared-basis"),
    "quantiles, coarse bins": ("k-norm",),
    "quantiles of a CDF": ("projection",),
}
"""What plans a question beside the mechanisms that plan them all."""


def mechanisms(question: str) -> tuple[str, ...]:
    """All that plan a question; of the number of people nothing is private when one is replaced."""
    replaced = () if question == "total" else REPLACED
    return (*ALWAYS, *OTHERS.get(question, ()), *replaced)


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
        asked = nw.Workload.from_spec(
            {"queries": list(self.question.entries)}, self.domain
        )
        people = PEOPLE if self.mechanism in BIASED else None
        return nw.plan(asked, privacy, nw.Central(mechanism=name, people=people))

    @cached_property
    def exact(self) -> Any:
        return self.plan.exact(table(self.question.names))

    def released(self, count: int, seed: int) -> Iterator[nw.Release]:
        source = SeededSource(seed)
        for number in range(count):
            release = self.plan.noisy(self.exact, source=source)
            yield replace(release, identity=f"{seed}-{number}")

    @cached_property
    def plans(self) -> dict[str, CentralPlan]:
        """Plans of what is done to releases, which are the same for all of them."""
        return {}


# --- steps after the noise ------------------------------------------------------------------------

Step = Callable[[nw.Release, Subject, nw.Release], nw.Release]
"""What is done to a release of a subject, of which another release is at hand."""


def declared(release: nw.Release, subject: Subject, _: nw.Release) -> nw.Release:
    """The first answer is public."""
    first = next(iter(subject.plan.each_label()))
    return nw.post_process(release, invariants={first: subject.question.truth[0]})


def combined(release: nw.Release, subject: Subject, other: nw.Release) -> nw.Release:
    if "combined" not in subject.plans:
        subject.plans["combined"] = nw.combine(release, other).plan
    both = Measurement(parts=(release.measurement, other.measurement))
    return replace(release, plan=subject.plans["combined"], measurement=both)


def asked_later(release: nw.Release, subject: Subject, _: nw.Release) -> nw.Release:
    if "later" not in subject.plans:
        asked = {"queries": list(subject.question.entries)}
        subject.plans["later"] = release.answer(asked).plan
    return replace(release, plan=subject.plans["later"])


STEPS: dict[str, Step] = {
    "none": lambda release, *_: release,
    "non-negative": lambda release, *_: nw.post_process(release, non_negative=True),
    "integer": lambda release, *_: nw.post_process(release, integer=True),
    "declared": declared,
    "suppressed": lambda release, *_: nw.post_process(release, suppress=0.3),
    "combined": combined,
    "asked later": asked_later,
}
IMPOSSIBLE = "impossible cells"  # declared before a plan is made, not after its release
OF_COUNTS = ("non-negative", "integer", "declared", "suppressed", IMPOSSIBLE)


def steps(question: str, mechanism: str) -> tuple[str, ...]:
    """Steps that can be taken: those of counts alone after them, under one mechanism of a kind."""
    if QUESTIONS[question].read is not printed or mechanism not in ALWAYS:
        return ("none",)
    asked = QUESTIONS[question]
    counts = asked.names == TABLES and not any(
        "quantiles" in entry for entry in asked.entries
    )
    after = [
        step
        for step in OF_COUNTS
        if counts and (question, step) != ("total", "declared")
    ]
    return ("none", "combined", "asked later", *after)


def reason(question: str, mechanism: str, step: str) -> str:
    """Why a case may cover more than .99; empty where it may not."""
    if mechanism in BIASED:
        return BIASED[mechanism]
    if step == "suppressed":
        return "both intervals are those for all answers at once"
    if step in ("non-negative", "integer"):
        return "widened to hold the answer, which is the nearer one"
    return QUESTIONS[question].grid


CASES = [
    (question, mechanism, step)
    for question in QUESTIONS
    for mechanism in mechanisms(question)
    for step in steps(question, mechanism)
]


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
        """The standard error of that where 95 % are: answers of one release go together."""
        spread = self.each.mean(axis=1).std(ddof=1)
        return float(max(spread, 1 / self.each.shape[1] / 10) / np.sqrt(self.releases))

    @property
    def least(self) -> float:
        """How often the answer is inside that is covered least."""
        return float(self.each.mean(axis=0).min())

    @property
    def joint(self) -> float:
        """How often all answers are inside the intervals that hold at once."""
        return float(self.all.mean())


SLACK = 1e-6  # sums of decimals are no whole numbers


def held(column: Column, truth: np.ndarray) -> tuple[np.ndarray, bool]:
    """Which answers are inside their own intervals, and whether all are inside the joint ones."""
    each, all_ = (
        (low - SLACK <= truth) & (truth <= high + SLACK) | np.isnan(low)
        for low, high in (column.each, column.all)
    )
    return each, bool(all_.all())


@contextmanager
def conditions_kept() -> Iterator[None]:
    """What declared values do to errors follows from the plan: worked out once, not per release."""
    original, known = postprocess.Conditioned, dict[tuple[int, bytes], Conditioned]()

    def kept(
        inner: Accuracy, places: np.ndarray, count: int, exact: np.ndarray
    ) -> Conditioned:
        key = id(inner), places.tobytes()
        if key not in known:
            known[key] = original(inner, places, count, exact)
        return known[key]

    with mock.patch.object(postprocess, "Conditioned", kept):
        yield


def covered(
    question: str, mechanism: str, wanted: Sequence[str], releases: int, seed: int
) -> dict[str, Coverage]:
    """The coverage after every step, those of one plan from the same measurements."""
    found = {}
    for impossible in (False, True):
        own = [step for step in wanted if (step == IMPOSSIBLE) == impossible]
        if own:
            subject = Subject(QUESTIONS[question], mechanism, impossible)
            with conditions_kept():
                found |= _covered(subject, own, releases, seed)
    return {step: found[step] for step in wanted}


def _covered(
    subject: Subject, wanted: Sequence[str], releases: int, seed: int
) -> dict[str, Coverage]:
    truth = np.asarray(subject.question.truth)
    hits: dict[str, list[tuple[np.ndarray, bool]]] = {step: [] for step in wanted}
    pairs = zip(
        subject.released(releases, seed),
        subject.released(releases, seed + 1),
        strict=True,
    )
    for release, other in pairs:
        for step in wanted:
            result = STEPS.get(step, STEPS["none"])(release, subject, other)
            hits[step].append(held(subject.question.read(result), truth))
    return {
        step: Coverage(
            np.array([each for each, _ in own]), np.array([all_ for _, all_ in own])
        )
        for step, own in hits.items()
    }


def seed_of(question: str, mechanism: str) -> int:
    """One seed for each plan."""
    return 1 + zlib.crc32(f"{question}/{mechanism}".encode())
