"""Marginals are counted exactly, from any source, and no error carries a record."""

import gzip
import io
import itertools
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from noisewright.domain import Boolean, Categorical, Domain, Numeric
from noisewright.errors import DomainError, FileFormatError, InvalidParameter, TooLarge
from noisewright.tables import counter
from noisewright.tables.backends.duckdb import connect
from noisewright.tables.counter import DuckDBCounter
from noisewright.workload.questions.entries import summed_attribute
from noisewright.workload.questions.measures import COUNT, CentredSum

DOMAIN = Domain(
    [
        Numeric("age", [0, 18, 65, 120], integer=True, outside="clip"),
        Categorical("sex", ["F", "M"], outside="other"),
        Boolean("citizen", missing="other"),
    ]
)
SECRET = "Ada Lovelace"


def people(rows: int, seed: int = 7) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(-5, 130, rows),
            "sex": rng.choice(["F", "M", "X"], rows),
            "citizen": rng.choice([True, False, None], rows),
            "unused": SECRET,
        }
    )


def slow_counts(frame: pd.DataFrame, subset: tuple[str, ...]) -> np.ndarray:
    cells = {
        "age": [0 if a < 18 else 1 if a < 65 else 2 for a in frame["age"]],
        "sex": [{"F": 0, "M": 1}.get(s, 2) for s in frame["sex"]],
        "citizen": [2 if c is None else int(c) for c in frame["citizen"]],
    }
    counts = np.zeros([3] * len(subset), dtype=np.int64)
    for row in range(len(frame)):
        counts[tuple(cells[name][row] for name in subset)] += 1
    return counts.ravel()


SUBSETS = [
    subset
    for k in range(4)
    for subset in itertools.permutations(("age", "sex", "citizen"), k)
]


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_every_marginal_from_every_source(
    rows: int, tmp_path: Path, monkeypatch
) -> None:
    frame = people(rows)
    expected = [slow_counts(frame, subset) for subset in SUBSETS]
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_csv(tmp_path / "table[1]*.csv.gz", index=False)
    frame.to_csv(tmp_path / "table.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "semicolon.txt", index=False, sep=";")
    frame.iloc[: rows // 3].to_csv(tmp_path / "part1.csv", index=False)
    frame.iloc[rows // 3 :].to_csv(tmp_path / "part2.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet", index=False)
    # several batches, several chunks
    monkeypatch.setattr(counter, "_MOST_ROWS_A_BATCH", 64)
    for source in (
        frame,
        pa.Table.from_pandas(frame),
        pa.Table.from_pandas(frame).to_reader(),
        duckdb.from_df(frame),
        tmp_path / "table.csv",
        str(tmp_path / "table[1]*.csv.gz"),
        tmp_path / "table.tsv",
        tmp_path / "semicolon.txt",
        tmp_path / "part*.csv",
        [tmp_path / "part2.csv", tmp_path / "part1.csv"],
        tmp_path / "table.parquet",
    ):
        counts = DuckDBCounter().marginals(source, DOMAIN, SUBSETS)
        for count, wanted in zip(counts, expected, strict=True):
            assert count.dtype == np.int64
            assert count.tolist() == wanted.tolist()


def test_flat_cells_of_the_whole_domain() -> None:
    frame = people(200)
    cells = np.concatenate(list(DuckDBCounter().cells(frame, DOMAIN)))
    assert (
        np.bincount(cells, minlength=27).tolist()
        == slow_counts(frame, DOMAIN.names).tolist()
    )


def test_sums_are_exact_in_whole_units(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(counter, "_MOST_ROWS_A_BATCH", 2048)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.normal(30, 40, 5000).round(2),
            "sex": rng.choice(["F", "M"], 5000),
        }
    )
    frame.loc[::7, "income"] = np.nan
    frame.to_csv(tmp_path / "table.csv", index=False)
    bounds = {"lower": -10, "upper": 90.5}
    edges = [-20, 0, 100]
    for outside in ("clip", "other"):
        income = Numeric("income", edges, outside=outside, missing="other", **bounds)
        domain = Domain([income, Categorical("sex", ["F", "M"])])
        kept = frame["income"].notna()
        if outside == "other":
            kept &= frame["income"].between(-20, 100)
        units = (
            np.rint(frame["income"].clip(-10, 90.5) / 0.01)
            .where(kept, 0)
            .astype(np.int64)
        )
        for source in (frame, tmp_path / "table.csv"):
            subsets: list[tuple[str, ...]] = [(), ("sex",)]
            income_units = summed_attribute(income, 0.01, "zero")
            wanted = [(subset, m) for m in (COUNT, income_units) for subset in subsets]
            *counts, total, by_sex = DuckDBCounter().tables(source, domain, wanted)
            counted = DuckDBCounter().marginals(source, domain, subsets)
            assert [c.tolist() for c in counts] == [c.tolist() for c in counted]
            # Back from twice the value, less the sum of the bounds for everybody.
            middle = income_units.low + income_units.high
            total, by_sex = (
                (centred + middle * count) // 2
                for centred, count in zip((total, by_sex), counts, strict=True)
            )
            assert total.tolist() == [units.sum()]
            assert by_sex.tolist() == [
                units[frame["sex"] == sex].sum() for sex in ("F", "M")
            ]
        assert units.abs().max() <= income.largest_units(0.01) == 9050


def test_sums_refuse_what_has_no_bounds() -> None:
    open_ended = Domain([Numeric("x", [0, float("inf")]), Boolean("b")])
    table = pa.table({"x": [1.0], "b": [True]})
    for unit, message in (
        (1.0, "must both be declared"),
        (0.0, "must be a positive number"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            summed_attribute(open_ended["x"], unit)
    with pytest.raises(InvalidParameter, match="must be at least"):
        summed_attribute(Numeric("x", [0, 1e6]), 1e-6)
    forged = CentredSum("b", 1.0, 0, 1)
    with pytest.raises(InvalidParameter, match="must be a numeric attribute"):
        DuckDBCounter().tables(table, open_ended, [((), forged)])


def test_sparse_marginals_and_awkward_shapes() -> None:
    domain = Domain(
        [
            Categorical("one", ["x"]),
            Numeric.integers("wide", 0, 255),
            Numeric.integers("n", 0, 999),
        ]
    )
    table = pa.table({"one": ["x"] * 3, "wide": [0, 255, 255], "n": [5, 999, 999]})
    counts = DuckDBCounter().marginals(table, domain, [("one", "wide"), ("wide", "n")])
    assert {int(i): int(counts[0][i]) for i in counts[0].nonzero()[0]} == {0: 1, 255: 2}
    assert {int(i): int(counts[1][i]) for i in counts[1].nonzero()[0]} == {
        5: 1,
        255_999: 2,
    }


def test_names_are_never_read_as_sql_nor_confused_by_case() -> None:
    names = ['a"b; DROP TABLE people; --', "A", "a", "#2", "c0", "select"]
    domain = Domain([Categorical(name, ["x", "y"]) for name in names])
    for position, name in enumerate(names):
        table = pa.table({other: ["y" if other == name else "x"] for other in names})
        codes = next(DuckDBCounter().codes(table, domain))
        assert [int(code[0]) for code in codes] == [
            int(i == position) for i in range(len(names))
        ]


def test_lines_that_look_like_comments_count(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('sex,note\n#F,"a\nb"\n"F",\nF,"x,""y"""\n', encoding="utf-8-sig")
    domain = Domain([Categorical("sex", ["F", "#F"])])
    assert DuckDBCounter().marginals(path, domain, [("sex",)])[0].tolist() == [2, 1]


def test_headers_may_be_quoted_spaced_and_last_lines_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('"a, or\nb", "sex" , age\n1,F,17\n\n2,M,18')
    counts = DuckDBCounter().marginals(path, DOMAIN, [("sex",), ("age",)])
    assert [count.tolist() for count in counts] == [[1, 1, 0], [1, 1, 0]]


def refusal(source: object, subsets=(("age",),), domain: Domain = DOMAIN) -> str:
    with pytest.raises(
        (DomainError, FileFormatError, InvalidParameter, TooLarge)
    ) as caught:
        DuckDBCounter().marginals(source, domain, list(subsets))
    assert caught.value.__cause__ is None
    # not merely suppressed: loggers walk the chain
    assert caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_missing_columns_are_named_and_present_ones_are_not(tmp_path: Path) -> None:
    assert "attributes=['age'] have no column" in refusal(people(3).drop(columns="age"))
    assert "attributes=['age'] have no column" in refusal(
        pd.DataFrame({SECRET: [1, "x"]})
    )
    path = tmp_path / "headless.csv"
    path.write_text(f"{SECRET},F,1\n")
    assert "first line must be names" in refusal(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"age,sex\n1,F\n{SECRET},F,1\n".encode(), "cannot be read"),
        (f"age,sex\n{SECRET}\xe9,F\n".encode("latin-1"), "cannot be read"),
        (b"\xff\xfe\x00age\n", "cannot be read"),
        (b"", "has no header line"),
    ],
)
def test_damaged_csv_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    assert message in refusal(tmp_path / "bad.csv", [("age", "sex")])
    with gzip.open(tmp_path / "bad.csv.gz", "wb") as file:
        file.write(content)
    assert message in refusal(tmp_path / "bad.csv.gz", [("age", "sex")])


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(people(50)), tmp_path / "whole.parquet")
    content = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(content[: len(content) // 2])
    assert "cannot be read" in refusal(tmp_path / "cut.parquet")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"age\n" + b"17\n" * 9999)[:60])
    assert "cannot be read" in refusal(tmp_path / "cut.csv.gz")
    (tmp_path / "table.xlsx").write_bytes(b"")
    assert "must end in one of" in refusal(tmp_path / "table.xlsx")
    assert "does not exist" in refusal(tmp_path / "absent.csv")
    assert "must end in one of" in refusal(tmp_path)
    assert "one format" in refusal(
        [tmp_path / "whole.parquet", tmp_path / "cut.csv.gz"]
    )


def test_files_of_one_table_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n")
    (tmp_path / "b.csv").write_text("sex,age\nF,1\n")
    assert "other columns" in refusal(tmp_path / "*.csv")


def test_what_is_not_a_table() -> None:
    assert "must be a CSV or Parquet path" in refusal(42)
    assert "list of paths alone" in refusal([SECRET, 1])
    mixed = pd.DataFrame({"age": [1, SECRET, None]}, dtype=object)
    assert "`missing: error` refuses" in refusal(mixed)
    assert "list of paths alone" in refusal([SECRET])
    assert "DATE" in refusal(pa.table({"age": pa.array([1], pa.date32())}))
    assert "[]" in refusal(pa.table({"age": [[1]]}))


def stream_with_a_bad_cell() -> pa.RecordBatchReader:
    content = b"age\n" + b"1\n" * 9999 + SECRET.encode() + b"\n"
    return pa_csv.open_csv(io.BytesIO(content), pa_csv.ReadOptions(block_size=4096))


FAILING = {
    "numbered pandas": lambda: pd.DataFrame({0: [1, SECRET], 1: [2, 3]}),
    "the same, twice": lambda: pd.DataFrame([[1, 2]], columns=[SECRET, SECRET]),
    "lazy polars": lambda: pl.LazyFrame({"age": [SECRET]}).with_columns(
        pl.col("age").cast(int)
    ),
    "arrow stream": stream_with_a_bad_cell,
    "relation": lambda: duckdb.sql(f"SELECT CAST('{SECRET}' AS INTEGER) AS age"),
    "half floats": lambda: pa.table({"age": np.array([1.0], dtype=np.float16)}),
}


@pytest.mark.parametrize("form", FAILING)
def test_failing_conversions_tell_nothing(form: str) -> None:
    assert "cannot be" in refusal(FAILING[form]())


def test_a_file_named_twice_would_count_its_people_twice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    assert "every file once" in refusal([tmp_path / "a.csv", tmp_path / "a.csv"])
    assert "every file once" in refusal([tmp_path / "a.csv", str(tmp_path / "*.csv")])
    assert "every file once" in refusal(tmp_path / "*.csv")


def test_the_engine_leaves_nothing_on_disk() -> None:
    with closing(connect()) as connection:
        settings = connection.execute(
            "SELECT current_setting('temp_directory')"
        ).fetchall()
    assert settings == [("",)]


def test_unsuitable_requests() -> None:
    assert "must not name an attribute twice" in refusal(people(3), [("age", "age")])
    assert "attribute='height' is not in the domain" in refusal(
        people(3), [("height",)]
    )
    wide = Domain([Numeric.integers(name, 0, 9999) for name in "abc"])
    assert "1000000000000 cells" in refusal(people(3), [("a", "b", "c")], wide)
    assert "reviewed: true" in refusal(
        people(3), domain=Domain(DOMAIN.attributes, reviewed=False)
    )
