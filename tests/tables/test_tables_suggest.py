"""Drafts: readable, marked as drafts, and never used as they are."""

import datetime as dt
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
from noisewright.errors import DomainError
from noisewright.tables import suggest
from noisewright.tables.counter import DuckDBCounter
from noisewright.tables.suggest import suggest_schema

ROWS = 60
TABLE = pa.table(
    {
        "age": list(range(17, 17 + ROWS)),
        "sex": ["F", "M", "other"] * 20,
        "code": [1, 2, None] * 20,
        "income": [i * 0.25 for i in range(ROWS)],
        "citizen": [True, False] * 30,
        "born": [dt.date(1950, 6, 1) + dt.timedelta(days=300 * i) for i in range(ROWS)],
        "name": [f"person {i}" for i in range(ROWS)],
        "empty": pa.array([None] * ROWS, pa.string()),
        "endless": [float("inf"), 1.0] * 30,
    }
)


def check(domain: Domain) -> None:
    kinds = {attribute.name: type(attribute) for attribute in domain}
    assert kinds == {
        "age": Numeric,
        "sex": Categorical,
        "code": Categorical,
        "income": Numeric,
        "citizen": Boolean,
        "born": Date,
        "endless": Categorical,
    }
    assert domain["age"].labels[:2] == ("10–19", "20–29")
    assert domain["age"].labels[-2:] == ("70–80", "other")
    assert domain["sex"].labels == ("F", "M", "other", "(other)")
    assert domain["code"].labels == ("1", "2", "other")
    assert domain["born"].labels[0] == "1950"


def test_drafts_from_typed_tables_and_from_text(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(TABLE, tmp_path / "table.csv")
    for source in (TABLE, tmp_path / "table.csv"):
        draft = suggest_schema(source)
        check(draft.domain)
        assert set(draft.left_out) == {"name", "empty"}


def test_a_draft_is_marked_and_refused_until_reviewed() -> None:
    draft = suggest_schema(TABLE)
    text = draft.to_yaml()
    assert text.startswith("# A DRAFT")
    assert "public knowledge" in text
    assert "#   'name': it holds more than 40 different texts" in text
    domain = Domain.from_yaml(text)
    assert domain == draft.domain
    with pytest.raises(DomainError, match="reviewed: true"):
        DuckDBCounter().marginals(TABLE, domain, [("age",)])
    reviewed = Domain.from_yaml(text.replace("reviewed: false", "reviewed: true"))
    counts = DuckDBCounter().marginals(
        TABLE, reviewed, [(name,) for name in reviewed.names]
    )
    assert {int(count.sum()) for count in counts} == {ROWS}


@pytest.mark.parametrize(
    "never", ["9999-12-31", "infinity", "12000-01-01", "0044-03-15 (BC)"]
)
def test_dates_that_stand_for_never_do_not_stretch_the_draft(never: str) -> None:
    days = f"SELECT unnest(['2001-05-06', '2004-12-01', '{never}'])::DATE AS day"
    labels = suggest_schema(duckdb.sql(days)).domain["day"].labels
    assert labels == ("2001", "2002", "2003", "2004", "other")


def test_texts_too_long_for_labels_are_not_drafted_and_not_repeated() -> None:
    long = "private " * 30
    draft = suggest_schema(pa.table({"note": [long] * 50, "sex": ["F", "M"] * 25}))
    assert draft.domain.names == ("sex",)
    assert "more than 200 characters" in str(draft.left_out)
    assert long[:20] not in str(draft.left_out)


def test_nothing_to_draft() -> None:
    with pytest.raises(DomainError, match="write the schema by hand"):
        suggest_schema(pa.table({"nested": [[1]], "none": [None]}))


@example(low=-2.2250738585e-313, width=500500500501.0, whole=False)
@example(low=1.5366983330111247e-259, width=6.862679566454082e-275, whole=False)
@given(low=st.floats(-1e12, 1e12), width=st.floats(0, 1e12), whole=st.booleans())
def test_drafted_edges_are_few_and_hold_every_value(
    low: float, width: float, whole: bool
) -> None:
    low, high = (round(low), round(low + width)) if whole else (low, low + width)
    attribute = suggest._binned("x", low, high, whole)
    assert attribute.edges[0] <= low <= high <= attribute.edges[-1]
    assert attribute.size <= 14
