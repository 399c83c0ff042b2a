"""Short runs of like cells, as starts at little privacy."""

from __future__ import annotations

import pytest

from noisewright.local.analysis.grams import table_gram
from noisewright.local.optimise.dense.families import runs
from noisewright.workload import workload


@pytest.mark.parametrize(
    ("text", "strides"), [("prefix:24", {1}), ("prefix:6*prefix:6", {1, 6})]
)
def test_runs_follow_the_axes_of_a_workload(text, strides):
    patterns = runs(table_gram(workload(text)).dense(), 6.0)
    pairs = patterns[patterns.sum(axis=1) == 2]
    steps = {int(last - first) for first, last in (row.nonzero()[0] for row in pairs)}
    assert steps == strides
    assert (patterns.sum(axis=1)[:-1] <= patterns.sum(axis=1)[1:]).all()


def test_there_are_none_where_reports_favour_many_cells():
    assert not len(runs(table_gram(workload("prefix:24")).dense(), 2.0))
    assert not len(runs(table_gram(workload("prefix:4")).dense(), 6.0))
