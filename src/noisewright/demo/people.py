"""Fifty thousand people who do not exist: age, sex, region, income and employment.

The numbers are invented but hang together as in a census: a bulge of births, jobs by age, incomes
by job, age and region. Synthetic data is the only data whose truth a report may show.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray, IntArray, TextArray
from noisewright.domain import Domain

if TYPE_CHECKING:
    import pyarrow as pa


PEOPLE = 50_000
"""Of a town, whose small cells show what noise does."""
SEED = 20_260_101
"""The people are the same on every machine."""

# Invented: what part of all people lives in a region, and incomes there beside the country's.
_REGIONS = {
    "North": (0.13, 0.94),
    "Northeast": (0.08, 0.86),
    "Midlands": (0.19, 0.95),
    "East": (0.11, 1.00),
    "Capital": (0.24, 1.32),
    "Southwest": (0.09, 0.92),
    "South": (0.13, 1.05),
    "Islands": (0.03, 0.84),
}
REGIONS = tuple(_REGIONS)
# Invented: thousands a year.
_JOB_INCOME = {
    "employed": 34.0,
    "self-employed": 30.0,
    "unemployed": 11.0,
    "student": 7.0,
    "retired": 19.0,
    "not working": 9.0,
    "under 16": 0.0,
}


def people(count: int = PEOPLE, seed: int = SEED) -> pa.Table:
    """A synthetic table, one row per person."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    age = _ages(rng, count)
    men = 0.487 + 0.0009 * (50 - age)
    sex = np.where(rng.random(count) < men, "M", "F")
    shares = [share for share, _ in _REGIONS.values()]
    region = rng.choice(len(REGIONS), size=count, p=shares)
    job = _jobs(rng, age, sex)
    income = _incomes(rng, age, sex, region, job)

    return pa.table(
        {
            "age": age,
            "sex": sex,
            "region": np.array(REGIONS)[region],
            "income": np.round(income, 1),
            "employment": job,
        }
    )


def _ages(rng: np.random.Generator, count: int) -> IntArray:
    years = np.arange(100)
    bulge = 0.22 * _bell(years, 57, 7)
    echo = 0.16 * _bell(years, 32, 6)
    births = 1.0 + bulge + echo
    alive = _step(years, 82, -6.5)
    pyramid = births * alive

    shares = pyramid / pyramid.sum()
    return rng.choice(years, size=count, p=shares)


def _jobs(rng: np.random.Generator, age: IntArray, sex: TextArray) -> TextArray:
    """Life stages as soft steps in age; each person falls into one stage."""
    retired = _step(age, 65, 2.2)
    student = (1 - _step(age, 22, 1.6)) * (age >= 16)
    draw = rng.random(len(age))
    kind = rng.random(len(age))
    at_home = np.where(sex == "F", 0.17, 0.09)
    job = np.where(kind < at_home + 0.055, "unemployed", "employed")
    job = np.where(kind < at_home, "not working", job)
    job = np.where(kind > 0.87 - 0.001 * age, "self-employed", job)

    stage = np.where(draw < retired + student, "student", job)
    stage = np.where(draw < retired, "retired", stage)
    return np.where(age < 16, "under 16", stage)


def _bell(age: IntArray, middle: float, width: float) -> FloatArray:
    distance = (age - middle) / width
    return np.asarray(np.exp(-(distance**2)))


def _step(age: IntArray, middle: float, width: float) -> FloatArray:
    distance = (age - middle) / width
    return np.asarray(1 / (1 + np.exp(-distance)))


def _incomes(
    rng: np.random.Generator,
    age: IntArray,
    sex: TextArray,
    region: IntArray,
    job: TextArray,
) -> FloatArray:
    base = np.array([_JOB_INCOME[name] for name in job])
    factors = [factor for _, factor in _REGIONS.values()]
    wealth = np.array(factors)[region]
    works = np.isin(job, ("employed", "self-employed"))
    years = np.clip(age - 18, 0, 32)
    career = np.where(works, 0.62 + 0.016 * years, 1)
    gap = np.where(sex == "F", 0.91, 1.0)

    # A log-normal law with mean one.
    spread = np.where(job == "self-employed", 0.75, 0.42)
    luck = np.exp(rng.normal(0, spread) - spread**2 / 2)
    income = base * wealth * career * gap * luck

    told = np.clip(income, 0, 400)
    return np.where(age < 16, 0.0, told)


def domain() -> Domain:
    """The table's public schema, as committed beside this file."""
    return Domain.from_yaml(_text("schema.yaml"))


def questions() -> str:
    """What the demo asks, as committed beside this file."""
    return _text("queries.yaml")


def _text(name: str) -> str:
    return files("noisewright.demo").joinpath(name).read_text(encoding="utf-8")
