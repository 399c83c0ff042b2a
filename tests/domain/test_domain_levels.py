"""Levels: coarser groupings of an attribute's cells, read strictly and written back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
from noisewright.errors import InvalidParameter

SCHEMA = """
attributes:
  - name: district
    kind: categorical
    values: [Alpha, Beta, Gamma, Delta]
    outside: other
    levels:
      region: {North: [Alpha, Gamma], South: [Beta], East: [Delta]}
      half: {upper: [North], lower: [South, East]}
  - {name: age, kind: numeric, edges: [0, 5, 18, 65, 120], integer: true,
     levels: {band: [0, 18, 120]}}
  - {name: seen, kind: date, start: 2023-11-05, end: 2024-12-31, period: month,
     levels: {quarter: quarter, year: year}}
"""


def test_levels_are_read_from_finer_to_coarser() -> None:
    domain = Domain.from_yaml(SCHEMA)
    region, half = domain["district"].coarser
    assert (region.labels, region.groups) == (
        ("North", "South", "East", "other"),
        (0, 1, 0, 2, 3),
    )
    assert (half.labels, half.groups) == (("upper", "lower", "other"), (0, 1, 0, 1, 2))
    (band,) = domain["age"].coarser
    assert (band.labels, band.groups) == (("0–17", "18–120"), (0, 0, 1, 1))
    quarter, year = domain["seen"].coarser
    assert quarter.labels == ("2023-Q4", "2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4")
    assert year.groups == (0,) * 2 + (1,) * 12
    assert domain.find("half") == (0, half)
    assert domain.find("age") == (1, None)
    assert domain.size == 5 * 4 * 14


def test_levels_survive_their_text() -> None:
    domain = Domain.from_yaml(SCHEMA)
    assert Domain.from_yaml(domain.to_yaml()) == domain
    assert Domain.from_dict(domain.to_dict()).fingerprint == domain.fingerprint
    plain = Domain(
        [Categorical("district", ["Alpha", "Beta", "Gamma", "Delta"], outside="other")]
    )
    assert plain.fingerprint != domain.project(["district"]).fingerprint


@given(groups=st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_matrices_sum_the_cells_of_each_group(groups: list[int]) -> None:
    cells = [f"c{i}" for i in range(len(groups))]
    members: dict[str, list[str]] = {}
    for cell, group in zip(cells, groups, strict=True):
        members.setdefault(f"g{group}", []).append(cell)
    (level,) = Categorical("cell", cells, levels={"group": members}).coarser
    counts = np.arange(1, len(cells) + 1) ** 2
    sums = {
        label: sum(int(counts[cells.index(c)]) for c in m)
        for label, m in members.items()
    }
    assert dict(zip(level.labels, level.matrix() @ counts, strict=True)) == sums


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nested({"r": {"N": ["a"]}}), r"\['b', 'c'\] must be in a group too"),
        (lambda: nested({"r": {"N": ["a", "b", "d"], "S": ["c"]}}), "'d' is not a label of 'x'"),
        (lambda: nested({"r": {"N": ["a", "b"], "S": ["b", "c"]}}), "in one group only"),
        (lambda: nested({"r": {"N": "abc"}}), "must list the labels"),
        (lambda: nested({"r": ["a"]}), "must map labels of groups"),
        (lambda: nested({"r": {"other": ["a", "b", "c"]}}, outside="other"), "must differ"),
        (lambda: Numeric("x", [0, 1, 2], levels={"r": [0, 1]}), "some of the"),
        (lambda: Numeric("x", [0, 1, 2], levels={"r": [0, 1.5, 2]}), "some of the"),
        (lambda: Numeric("x", [0, 1, 2, 3], levels={"r": [0, 2, 3], "s": [0, 1, 3]}), "cut"),
        (lambda: Date("x", "2024-01-01", "2024-06-01", "week", levels={"m": "month"}), "fits"),
        (lambda: Boolean("x", levels={"r": [True]}), "must map labels"),
        (lambda: Domain([nested({"r": {"N": ["a", "b", "c"]}}), Boolean("r")]), "different names"),
    ],
)  # fmt: skip
def test_malformed_levels_are_refused(build, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        build()


def nested(levels, **rules) -> Categorical:
    return Categorical("x", ["a", "b", "c"], levels=levels, **rules)


def test_levels_of_half_lines_and_constants() -> None:
    income = Numeric(
        "income",
        [-math.inf, 0, 10, math.inf],
        levels={"sign": [-math.inf, 0, math.inf]},
    )
    (sign,) = income.coarser
    assert sign.labels == ("<0", "≥0")
    assert sign.locate("≥0") == 1
    with pytest.raises(InvalidParameter, match="the groups are <0, ≥0"):
        sign.locate("0")
