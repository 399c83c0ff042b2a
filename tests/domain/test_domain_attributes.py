"""Attributes and domains: every cell is reached, every constant is placed or refused."""

import datetime as dt
import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noisewright.domain import Attribute, Boolean, Categorical, Date, Domain, Numeric
from noisewright.errors import DomainError, InvalidParameter, TooLarge

DATES = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
PERIODS = st.sampled_from(["day", "week", "month", "quarter", "year"])


@st.composite
def edges(draw: st.DrawFn) -> list[float]:
    inner = sorted(draw(st.sets(st.floats(-1e9, 1e9), min_size=1, max_size=6)))
    first = draw(st.sampled_from([[], [-math.inf]]))
    last = draw(st.sampled_from([[], [math.inf], inner[-1:]]))
    cut = [*first, *inner, *last]
    return cut if len(cut) > 1 else [*cut, cut[0] + 1]


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    kind = draw(
        st.sampled_from(["text", "codes", "boolean", "real", "integer", "date"])
    )
    rules = {"outside": draw(st.sampled_from(["other", "error"])), "other": "<other>"}
    if kind == "text":
        values = draw(st.sets(st.text(max_size=4), min_size=1, max_size=6)) - {
            "<other>"
        }
        return Categorical("a", sorted(values) or ["x"], **rules)
    if kind == "codes":
        values = draw(
            st.sets(st.integers(-(2**53) + 1, 2**53 - 1), min_size=1, max_size=6)
        )
        return Categorical("a", sorted(values), **rules)
    if kind == "boolean":
        return Boolean("a", **rules)
    if kind == "real":
        return Numeric("a", draw(edges()), **rules)
    if kind == "integer":
        first, span = draw(st.integers(-1000, 1000)), draw(st.integers(0, 60))
        return Numeric.integers(
            "a", first, first + span, draw(st.integers(1, 9)), **rules
        )
    start, span = draw(DATES), draw(st.integers(0, 200))
    return Date("a", start, start + dt.timedelta(days=span), draw(PERIODS), **rules)


@given(attribute=attributes())
def test_representatives_lie_in_their_cells(attribute: Attribute) -> None:
    cells = list(range(attribute.size))
    values = [attribute.representative(cell) for cell in cells]
    assert attribute.encode(values).tolist() == cells
    assert attribute.decode(cells).tolist() == list(attribute.labels)
    assert len(set(attribute.labels)) == attribute.size
    declared = len(attribute.declared_labels)
    assert [attribute.locate(value) for value in values[:declared]] == cells[:declared]


@given(attribute=attributes())
@example(attribute=Categorical("a", ["\x85", "\u2028 x", "a\nb "]))
def test_attributes_survive_their_text(attribute: Attribute) -> None:
    domain = Domain([attribute])
    again = Domain.from_yaml(domain.to_yaml())
    assert again == domain
    assert again.fingerprint == domain.fingerprint


@given(
    cut=edges(),
    constant=st.floats(-1e9, 1e9),
    inclusive=st.booleans(),
    at_edge=st.integers(-1, 7),
)
def test_real_comparisons_select_whole_cells_or_are_refused(
    cut: list[float], constant: float, inclusive: bool, at_edge: int
) -> None:
    attribute = Numeric("a", cut)
    if 0 <= at_edge < len(cut) and math.isfinite(cut[at_edge]):
        constant = cut[at_edge]

    def holds(value: float) -> bool:
        return value <= constant if inclusive else value < constant

    def cell_answers(low: float, high: float, last: bool) -> set[bool]:
        top = high if last else np.nextafter(high, -math.inf)
        answers = {holds(low), holds(top)}
        return answers | ({holds(constant)} if low <= constant <= top else set())

    per_cell = [
        cell_answers(low, high, i == len(cut) - 2)
        for i, (low, high) in enumerate(itertools.pairwise(cut))
    ]
    if any(len(answers) > 1 for answers in per_cell):
        with pytest.raises(InvalidParameter, match="cuts through the cell"):
            attribute.cells_below(constant, inclusive)
    else:
        below = attribute.cells_below(constant, inclusive)
        assert [answers == {True} for answers in per_cell] == [
            i < below for i in range(len(cut) - 1)
        ]


@given(
    first=st.integers(-9, 9), span=st.integers(0, 20), step=st.integers(1, 6),
    constant=st.one_of(st.integers(-12, 40), st.floats(-12, 40)), inclusive=st.booleans(),
)  # fmt: skip
def test_whole_comparisons_select_whole_cells_or_are_refused(
    first: int, span: int, step: int, constant: float, inclusive: bool
) -> None:
    attribute = Numeric.integers("a", first, first + span, step)
    values = range(first, first + span + 1)
    answers: dict[int, set[bool]] = {}
    for value, cell in zip(values, attribute.encode(list(values)), strict=True):
        answers.setdefault(int(cell), set()).add(
            value <= constant if inclusive else value < constant
        )
    if any(len(found) > 1 for found in answers.values()):
        with pytest.raises(InvalidParameter, match="cuts through the cell"):
            attribute.cells_below(constant, inclusive)
    else:
        below = attribute.cells_below(constant, inclusive)
        assert {cell: found == {True} for cell, found in answers.items()} == {
            cell: cell < below for cell in answers
        }


def test_dates_are_compared_by_their_text() -> None:
    admitted = Date("admitted", "2024-01-15", "2024-12-31", "month")
    assert admitted.cells_below("2024-03-01") == 2
    assert admitted.cells_below("2024-02-29", inclusive=True) == 2
    assert admitted.cells_below("2025-01-01") == 12
    assert admitted.locate("2024-03-31") == 2
    with pytest.raises(InvalidParameter, match="cuts through the cell 2024-03"):
        admitted.cells_below("2024-03-02")


def test_labels_people_can_read() -> None:
    assert Numeric("a", [0, 18, 65, 120], integer=True).labels == (
        "0–17",
        "18–64",
        "65–120",
    )
    assert Numeric("a", [0, 0.5, 1]).labels == ("[0, 0.5)", "[0.5, 1]")
    assert Numeric("a", [-math.inf, 0, math.inf]).labels == ("<0", "≥0")
    assert Numeric("a", [-math.inf, math.inf]).labels == ("any",)
    assert Numeric.integers("a", 8, 10).labels == ("8", "9", "10")
    assert Numeric.integers("a", 0, 11, 5).labels == ("0–4", "5–9", "10–11")
    assert Date("a", "2023-12-30", "2024-01-09", "week").labels == (
        "2023-W52", "2024-W01", "2024-W02",
    )  # fmt: skip
    assert Date("a", "2023-12-30", "2024-04-09", "quarter").labels[-1] == "2024-Q2"


def test_bounds_for_sums_default_to_finite_edges() -> None:
    income = Numeric("income", [0, 1000, math.inf])
    assert (income.lower, income.upper) == (0, None)
    assert Numeric("income", [0, 1000, math.inf], upper=1e6).upper == 1e6


@pytest.mark.parametrize("wrap", [list, np.array, pd.Series, pl.Series, pa.array])
def test_columns_of_any_library(wrap) -> None:
    assert Numeric("a", [0, 1, 2]).encode(wrap([0.5, 2.0, 1.0])).tolist() == [0, 1, 1]
    assert Categorical("a", ["x", "y"]).encode(wrap(["y", "x"])).tolist() == [1, 0]
    assert Boolean("a").encode(wrap([True, False])).tolist() == [1, 0]
    days = wrap([dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 1)])
    assert Date("a", "2024-01-01", "2024-01-02").encode(days).tolist() == [1, 0]


def test_empty_columns() -> None:
    day = Date("a", "2024-01-01", "2024-01-01")
    for attribute in (Numeric("a", [0, 1]), Categorical("a", ["x"]), Boolean("a"), day):
        assert attribute.encode([]).tolist() == []


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        (Numeric("a", [0, 1]), ["secret"]),
        (Boolean("a"), ["secret"]),
        (Date("a", "2024-01-01", "2024-01-02"), ["secret"]),
        (Numeric("a", [0, 1]), [1, "secret"]),
        (Categorical("a", ["x"]), [["secret"]]),
        (Categorical("a", ["x"]), [1, "secret"]),
    ],
)
def test_columns_of_the_wrong_type_are_refused_without_their_content(
    attribute, column
) -> None:
    with pytest.raises(DomainError) as caught:
        attribute.encode(column)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_constants_without_a_cell_are_refused() -> None:
    sex = Categorical("sex", ["F", "M"], outside="other")
    with pytest.raises(
        InvalidParameter, match=r"sex='f' has no declared cell; the cells are F, M"
    ):
        sex.locate("f")
    assert sex.locate("other") == 2
    with pytest.raises(InvalidParameter, match="no declared cell"):
        Numeric("age", [0, 120]).locate("old")


DOMAIN = Domain(
    [
        Numeric("age", [0, 18, 65, 120], integer=True),
        Categorical("sex", ["F", "M"]),
        Boolean("eu"),
    ]
)


def test_cells_are_in_c_order() -> None:
    assert DOMAIN.shape == (3, 2, 2)
    for index in range(DOMAIN.size):
        cells = DOMAIN.unravel(index)
        assert cells == tuple(int(c) for c in np.unravel_index(index, DOMAIN.shape))
        assert DOMAIN.ravel(cells) == index


@given(indices=st.lists(st.integers(0, DOMAIN.size - 1)))
def test_encoding_whole_rows_and_back(indices: list[int]) -> None:
    labels = DOMAIN.decode(indices)
    values = {
        name: [
            DOMAIN[name].representative(DOMAIN[name].labels.index(x)) for x in column
        ]
        for name, column in labels.items()
    }
    assert DOMAIN.encode(values).tolist() == indices


def test_domains_too_large_to_number_still_have_a_size() -> None:
    huge = Domain([Numeric.integers(f"a{i}", 0, 9) for i in range(100)])
    assert huge.size == 10**100
    assert huge.unravel(huge.size - 1) == (9,) * 100
    assert huge.ravel((9,) * 100) == huge.size - 1
    with pytest.raises(TooLarge, match="project"):
        huge.encode({name: [0] for name in huge.names})
    assert huge.project(["a7", "a3"]).names == ("a7", "a3")


def test_domains_refuse_what_they_do_not_have() -> None:
    with pytest.raises(
        InvalidParameter, match=r"attribute='height' is not in the domain.*age, sex"
    ):
        DOMAIN["height"]
    with pytest.raises(InvalidParameter, match="different names"):
        DOMAIN.project(["age", "age"])
    with pytest.raises(InvalidParameter, match=r"must lie in 0\.\.11"):
        DOMAIN.unravel(12)
    with pytest.raises(InvalidParameter, match="must index a shape"):
        DOMAIN.ravel((0, 0))
    with pytest.raises(InvalidParameter, match="are missing"):
        DOMAIN.encode({"age": [1]})
    with pytest.raises(InvalidParameter, match="same length"):
        DOMAIN.encode({"age": [1], "sex": ["F", "M"], "eu": [True]})
    with pytest.raises(InvalidParameter, match=r"must lie in 0\.\.2"):
        DOMAIN["age"].decode([3])
