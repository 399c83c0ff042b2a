"""Public objects show what identifies them, on one line and as a small table, and nothing large."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.display import Shown
from noisewright.workload.base import Workload

DOMAIN = nw.Domain(
    [
        nw.Numeric("age", range(0, 101), integer=True, outside="clip"),
        nw.Categorical("<town>", [f"town {k}" for k in range(500)], outside="other"),
    ]
)
SPEC = {"queries": [{"cdf": "age"}, {"histogram": "<town>"}]}
BUDGET = nw.Privacy(epsilon=1, delta=1e-9)


@cache
def objects() -> dict[str, tuple[Any, str]]:
    """Every public kind of object, and a part of the line that shows it."""
    sums = nw.plan(nw.Sums("age", [["<town>"]], DOMAIN), BUDGET)
    central = nw.plan("prefix:64", BUDGET, nw.Central(composition="many"))
    local = nw.plan("prefix:16", nw.Privacy(epsilon=1), nw.Local(mechanism="unary"))
    reports = local.aggregate(local.randomize(np.zeros(50, dtype=np.int64)))
    return {
        "domain": (DOMAIN, "age (100), <town> (501)"),
        "attribute": (DOMAIN["<town>"], "outside=other"),
        "prefix": (nw.workload("prefix:64"), "prefix:64"),
        "matrix": (nw.workload(np.eye(300)), "queries=300"),
        "sums": (nw.workload("+".join(["2@prefix:64"] * 40)), "queries=2,560"),
        "questions": (nw.Workload.from_spec(SPEC, DOMAIN), "cells=50,100"),
        "privacy": (BUDGET, "epsilon=1"),
        "factorization": (nw.factorize("prefix:64"), "value=2.09986"),
        "approximate": (nw.approximate_norm("prefix:4", 0.1), "entrywise=0.1"),
        "plan": (central, "mechanism=gaussian-strategy"),
        "plan of sums": (sums, "CentralPlan"),
        "plan of a stream": (nw.plan(nw.RunningCount(64), BUDGET), "StreamPlan"),
        "plans together": (
            nw.plan(nw.Several(["prefix:8", "identity:8"]), BUDGET),
            "Together",
        ),
        "local plan": (local, "mechanism=unary"),
        "forecast": (central.forecast(), "rmse="),
        "local forecast": (local.forecast(1000), "people=1,000"),
        "release": (central.release(np.arange(64)), "64 answers"),
        "estimate": (local.estimate(reports), "16 answers"),
        "strategy": (local.strategy, "cells=16"),
        "client": (local.client, "bytes"),
        "aggregate": (reports, "people=50"),
    }


NAMES = (
    "domain",
    "attribute",
    "prefix",
    "matrix",
    "sums",
    "questions",
    "privacy",
    "factorization",
    "approximate",
    "plan",
    "plan of sums",
    "plan of a stream",
    "plans together",
    "local plan",
    "forecast",
    "local forecast",
    "release",
    "estimate",
    "strategy",
    "client",
    "aggregate",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_console_shows_one_short_line(name: str) -> None:
    shown, text = objects()[name]
    line = repr(shown)
    assert text in line
    assert type(shown).__name__ in line
    assert len(line) <= 200
    assert "\n" not in line


@pytest.mark.parametrize("name", [name for name in NAMES if name != "privacy"])
def test_a_notebook_shows_a_table_without_markup_of_others(name: str) -> None:
    table = objects()[name][0]._repr_html_()
    assert table.startswith("<table")
    assert "<town>" not in table


def test_every_object_is_looked_at() -> None:
    assert tuple(objects()) == NAMES


def test_every_kind_of_workload_is_short() -> None:
    def kinds(kind: type) -> list[type]:
        return [kind, *(below for sub in kind.__subclasses__() for below in kinds(sub))]

    for kind in kinds(Workload):
        assert kind.__repr__ is Shown.__repr__, kind.__name__


def test_an_object_of_many_parts_stays_short() -> None:
    wide = nw.Domain([nw.Boolean(f"attribute {k}") for k in range(200)])
    assert len(repr(wide)) < 200


def test_a_release_in_a_notebook_is_its_first_answers_with_intervals():
    asked = nw.workload("prefix:30")
    release = nw.plan(asked, nw.Privacy(rho=1.0)).release(np.arange(30))
    shown = release._repr_html_()
    assert shown.count("<tr>") == 1 + 20
    assert "and 10 more" in shown
    assert "nan" not in shown.lower()
