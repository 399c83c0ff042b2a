"""Reports as bytes, and aggregates of them: what is read, what is set aside, what adds."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.strategies import SMALL
from noisewright.domain import Boolean, Categorical, Domain
from noisewright.errors import (
    DomainError,
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
)
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.histogram.sets import RandomizedResponse, UnaryEncoding
from noisewright.local.reports.aggregate import REASONS, Aggregate
from noisewright.local.reports.exchange import as_arrow
from noisewright.local.reports.format import HEADER, Client, ReportFormat
from oracles.privacy_oracles import SeededSource

RESPONSE = ReportFormat(RandomizedResponse(7, 1.0))
UNARY = ReportFormat(UnaryEncoding(30, 1.0))


def encoded(form, count, seed=0):
    values = np.arange(count) % form.strategy.size
    return form.encode(form.strategy.randomize(values, SeededSource(seed)))


def same(a, b):
    return (
        np.array_equal(a.tally, b.tally)
        and np.array_equal(a.group_people, b.group_people)
        and a.set_aside == b.set_aside
    )


@pytest.mark.parametrize("name", SMALL)
def test_encoding_keeps_every_report(name):
    form = ReportFormat(SMALL[name])
    reports = form.strategy.randomize(
        np.arange(200) % form.strategy.size, SeededSource(1)
    )
    rows = form.encode(reports)
    assert rows.shape == (200, HEADER + form.strategy.specification.layout.bytes)
    assert np.array_equal(form.decode(rows), reports)
    direct = Aggregate(form).add(reports)
    assert same(direct, Aggregate(form).add([row.tobytes() for row in rows]))
    assert direct.people == 200
    assert np.array_equal(direct.total, form.strategy.collector.tally(reports))


def test_names_tell_parameters_epsilon_and_meaning_apart():
    forms = [
        ReportFormat(RandomizedResponse(7, 1.0)),
        ReportFormat(RandomizedResponse(8, 1.0)),
        ReportFormat(RandomizedResponse(7, 1.5)),
        ReportFormat(RandomizedResponse(7, 1.0), "another domain"),
    ]
    assert len({form.identifier for form in forms}) == 4
    assert forms[0].identifier == RESPONSE.identifier


@pytest.mark.parametrize("form", [RESPONSE, UNARY], ids=["response", "unary"])
def test_every_source_says_the_same(form, tmp_path):
    rows = encoded(form, 500)
    blobs = [row.tobytes() for row in rows]
    expected = Aggregate(form).add(iter(blobs))
    column = as_arrow(rows)
    table = pa.table({"person": np.arange(500), "report": column})
    parquet.write_table(table, tmp_path / "r.parquet")
    fixed = pa.table({"report": column.cast(pa.binary(form.length))})
    parquet.write_table(fixed, tmp_path / "fixed.parquet")
    for name, write in (
        ("hex", bytes.hex),
        ("base64", lambda b: base64.b64encode(b).decode()),
    ):
        lines = "\n".join(["report,note", *(f"{write(blob)},x" for blob in blobs)])
        (tmp_path / f"{name}.csv").write_text(lines + "\n")
    files = [
        tmp_path / n for n in ("r.parquet", "fixed.parquet", "hex.csv", "base64.csv")
    ]
    for source in [
        table,
        column,
        pa.chunked_array([column, column[:0]]),
        str(files[0]),
        *files,
    ]:
        assert same(Aggregate(form).add(source), expected)
    numbers = form.decode(rows)
    assert same(Aggregate(form).add(numbers), expected)


@pytest.mark.parametrize("form", [RESPONSE, UNARY], ids=["response", "unary"])
def test_bad_reports_are_counted_and_set_aside(form, tmp_path):
    good = encoded(form, 20)
    foreign = ReportFormat(form.strategy, "elsewhere").encode(form.decode(good[:3]))
    longer = ReportFormat(UnaryEncoding(100, 1.0))
    impossible = good[:2].copy()
    impossible[:, HEADER:] = 255
    bad = [
        b"",
        b"x",
        b"\xd1",
        good[0].tobytes()[:-1],
        good[0].tobytes() + b"\0",
        None,
        7,
        "text",
    ]
    blobs = [row.tobytes() for rows in (good, foreign, impossible) for row in rows]
    blobs += [*bad, *(row.tobytes() for row in encoded(longer, 4))]
    found = Aggregate(form).add(blobs)
    assert found.people == 20
    assert found.set_aside == {
        "malformed": len(bad),
        "foreign": 3 + 4,
        "out_of_range": 2,
        "outlier": 0,
    }
    lines = [r.hex() if isinstance(r, bytes) else "zz" for r in blobs]
    (tmp_path / "r.csv").write_text(
        "report\n" + "\n".join(f'"{line}"' for line in lines) + "\n"
    )
    read = Aggregate(form).add(tmp_path / "r.csv")
    assert read.people == 20
    assert sum(read.set_aside.values()) == len(blobs) - 20


def test_numbers_out_of_range_are_set_aside():
    found = Aggregate(RESPONSE).add(np.array([0, 6, 7, -1, 300, 2**40]))
    assert found.people == 2
    assert found.set_aside["out_of_range"] == 4
    with pytest.raises(InvalidParameter, match="shape"):
        Aggregate(RESPONSE).add(np.zeros((3, 2), dtype=np.int64))


def test_reports_that_never_come_are_set_aside():
    """Alone or below a draw, the zero function of a hash is nobody's report."""
    for name in ("local-hashing", "mixture-hashing"):
        strategy = SMALL["local-hashing"]
        if name != "local-hashing":
            cells = Coarsening(strategy.size)
            parts = [RandomizedResponse(strategy.size, 1.0), strategy]
            strategy = Mixture.of(parts, [cells, cells], [0.5, 0.5])
        every = np.arange(strategy.outputs)
        never = strategy.dense().max(axis=1) == 0
        assert never.any()
        assert np.array_equal(strategy.collector.valid(every), ~never)
        found = Aggregate(ReportFormat(strategy)).add(every)
        assert found.set_aside["out_of_range"] == never.sum()
        assert found.people == len(every) - never.sum()
        assert not strategy.collector.possible(np.ones_like(every), len(every))


@pytest.mark.parametrize(
    "content", ["", "other\nab\n", "report,report\nab,cd\n", "report\n"]
)
def test_files_without_reports_are_refused_or_empty(tmp_path, content):
    path = tmp_path / "r.csv"
    path.write_text(content)
    if content == "report\n":
        assert Aggregate(RESPONSE).add(path).people == 0
    else:
        with pytest.raises(FileFormatError, match="report"):
            Aggregate(RESPONSE).add(path)
    (tmp_path / "r.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(FileFormatError, match="damaged"):
        Aggregate(RESPONSE).add(tmp_path / "r.parquet")
    with pytest.raises(InvalidParameter, match="not a file"):
        Aggregate(RESPONSE).add(tmp_path / "absent.parquet")


parts = st.lists(
    st.one_of(
        st.integers(0, 8).map(lambda v: RESPONSE.encode(np.array([v])).tobytes()),
        st.binary(max_size=12),
    ),
    max_size=30,
)


@given(parts, parts, parts)
@settings(max_examples=40)
def test_merging_is_addition(a, b, c):
    x, y, z = (Aggregate(RESPONSE).add(part) for part in (a, b, c))
    whole = Aggregate(RESPONSE).add([*a, *b, *c])
    assert same(x.merge(y).merge(z), whole)
    assert same(x.merge(y.merge(z)), whole)
    assert same(z.merge(y).merge(x), whole)
    assert whole.people + sum(whole.set_aside.values()) == len(a) + len(b) + len(c)
    assert same(Aggregate.from_bytes(whole.to_bytes(), RESPONSE), whole)
    assert set(whole.set_aside) == set(REASONS)


def test_aggregates_of_other_plans_are_refused():
    other = ReportFormat(RandomizedResponse(7, 2.0))
    with pytest.raises(InvalidParameter, match="another plan"):
        Aggregate(RESPONSE).merge(Aggregate(other))
    with pytest.raises(InvalidParameter, match="another plan"):
        Aggregate.from_bytes(Aggregate(other).to_bytes(), RESPONSE)
    with pytest.raises(InvalidParameter, match="robust"):
        Aggregate(RESPONSE, groups=3).merge(Aggregate(RESPONSE))


@given(st.binary(max_size=80) | st.integers(0, 300))
@settings(max_examples=60)
def test_damaged_aggregates_are_refused(damage):
    content = Aggregate(RESPONSE).add(np.array([1, 2])).to_bytes()
    broken = damage if isinstance(damage, bytes) else content[:damage]
    if broken != content:
        with pytest.raises(NoisewrightError):
            Aggregate.from_bytes(broken, RESPONSE)


def test_groups_and_cap():
    form = UNARY
    reports = form.strategy.randomize(np.arange(900) % 30, SeededSource(5))
    grouped = Aggregate(form, groups=3).add(reports)
    assert grouped.people == 900
    assert grouped.group_people.min() > 200  # false alarm below 1e-9
    assert np.array_equal(grouped.total, Aggregate(form).add(reports).total)
    poison = np.full((50, 4), 255, dtype=np.uint8)
    poison[:, -1] = 0b11111100
    capped = Aggregate(form, cap=6).add(np.vstack([reports, poison]))
    assert capped.set_aside["outlier"] >= 50
    assert capped.people >= 895
    with pytest.raises(InvalidParameter, match="cap"):
        Aggregate(form, cap=1)
    with pytest.raises(InvalidParameter, match="groups"):
        Aggregate(form, groups=0)


def test_a_client_reports_cells_and_attribute_values():
    domain = Domain([Categorical("sex", ["F", "M"]), Boolean("member")])
    # ε = 30: never lies
    form = ReportFormat(RandomizedResponse(4, 30.0), domain.fingerprint)
    client = Client(form, domain)
    expected = form.encode(np.array([3])).tobytes()
    for value in ({"sex": "M", "member": True}, ("M", True), 3, np.int64(3)):
        assert client.randomize(value) == expected
    assert client.randomize_many([3, 3]).tobytes() == expected * 2
    single = Client(
        ReportFormat(RandomizedResponse(2, 30.0)), Domain([Boolean("member")])
    )
    assert single.randomize(True) == single.randomize(1)


def test_a_client_refuses_values_outside_the_domain_without_quoting_them():
    domain = Domain([Categorical("city", ["Rome", "Oslo"])])
    client = Client(ReportFormat(RandomizedResponse(2, 1.0)), domain)
    for value in (
        2,
        -1,
        {"city": "SECRET"},
        ("SECRET",),
        "SECRET",
        {"town": "SECRET"},
        (1, 2, 3),
    ):
        with pytest.raises((InvalidParameter, DomainError)) as caught:
            client.randomize(value)
        assert "SECRET" not in str(caught.value)
    bare = Client(ReportFormat(RandomizedResponse(2, 1.0)))
    for value in (0.5, "SECRET", True, None, {"city": "Rome"}):
        with pytest.raises(InvalidParameter) as caught:
            bare.randomize(value)
        assert "SECRET" not in str(caught.value)
