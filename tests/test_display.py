"""Public objects show what identifies them, on one line and as a small table, and nothing large."""

from __future__ import annotations

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
LOCAL = nw.plan("prefix:16", nw.Privacy(epsilon=1), model="local", mechanism="unary")
REPORTS = LOCAL.aggregate(LOCAL.randomize(np.zeros(50, dtype=np.int64)))
OBJECTS = {
    "domain": (DOMAIN, "age (100), <town> (501)"),
    "attribute": (DOMAIN["<town>"], "outside=other"),
    "prefix": (nw.workload("prefix:64"), "prefix:64"),
    "matrix": (nw.workload(np.eye(300)), "queries=300"),
    "sums": (nw.workload("+".join(["2@prefix:64"] * 40)), "queries=2,560"),
    "questions": (nw.Workload.from_spec(SPEC, DOMAIN), "cells=50,100"),
    "privacy": (BUDGET, "epsilon=1"),
    "factorization": (nw.factorize("prefix:64"), "value=2.09986"),
    "approximate": (nw.approximate_norm("prefix:4", 0.1), "entrywise=0.1"),
    "strategy": (LOCAL.strategy, "cells=16"),
    "client": (LOCAL.client, "bytes"),
    "aggregate": (REPORTS, "people=50"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_console_shows_one_short_line(name: str) -> None:
    shown, text = OBJECTS[name]
    line = repr(shown)
    assert text in line
    assert type(shown).__name__ in line
    assert len(line) <= 200
    assert "\n" not in line


@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "privacy"])
def test_a_notebook_shows_a_table_without_markup_of_others(name: str) -> None:
    table = OBJECTS[name][0]._repr_html_()
    assert table.startswith("<table>")
    assert "<town>" not in table


def test_every_kind_of_workload_is_short() -> None:
    def kinds(kind: type) -> list[type]:
        return [kind, *(below for sub in kind.__subclasses__() for below in kinds(sub))]

    for kind in kinds(Workload):
        assert kind.__repr__ is Shown.__repr__, kind.__name__


def test_an_object_of_many_parts_stays_short() -> None:
    wide = nw.Domain([nw.Boolean(f"attribute {k}") for k in range(200)])
    assert len(repr(wide)) < 200
