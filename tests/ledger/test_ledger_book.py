"""Reserve, commit, refuse: what a ledger admits, and what it says when it does not."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from ledger.ledgers import Gaussian, Laplace, Promise, cost, ledger, rho
from noisewright.errors import (
    BudgetExceeded,
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
    ReleasedBefore,
)
from noisewright.ledger import book as book_module
from noisewright.ledger import limits_of
from noisewright.ledger.book import Ledger
from noisewright.ledger.entries import Noise, Person
from noisewright.planning.release import Release
from noisewright.privacy.promise.budget import Contribution

COUNTS = np.array([40, 0, 7, 1000])


def many(budget: Mapping[str, object]) -> Any:
    """How releases of this budget are planned that add up: Gaussian noise where there is a δ."""
    return "many" if "delta" in budget and "rho" not in budget else "one"


def plan(**budget: float) -> nw.Plan:
    return nw.plan(
        "prefix:4", nw.Privacy(**budget), nw.Central(composition=many(budget))
    )


def entries(book: Ledger) -> int:
    return len(book.history().entries)


def test_a_release_is_reserved_committed_and_shown(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=0.1))
    made = plan(rho=0.04)
    release = made.release(COUNTS, ledger=book, dataset="people@2024")
    (spent,) = book.account("people").releases
    assert spent.committed is not None
    assert spent.reserved.release == release.identity
    assert (spent.reserved.version, spent.reserved.spend) == ("2024", made.spend)
    (noise,) = spent.reserved.noise
    assert noise == Noise(
        "rounded-gaussian", made.mechanism.law.scale, made.mechanism.sensitivity
    )
    told = release.metadata["ledger"]
    assert (told["recorded"], told["entry"]) == (True, spent.number)
    assert told["hash"] == book.history().entries[spent.number - 1][0].hash
    assert "zCDP filter" in told["rule"]
    assert made.release(COUNTS).metadata["ledger"]["recorded"] is False


@pytest.mark.parametrize(
    "budget",
    [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-9}, {"rho": 0.1}, {"rho": 1 / 3}],
    ids=str,
)
def test_a_plan_of_the_whole_budget_fits_to_the_last_bit_and_nothing_after_it(
    tmp_path: Path, budget: dict[str, float]
) -> None:
    book = ledger(tmp_path, nw.Privacy(**budget))
    plan(**budget).release(COUNTS, ledger=book, dataset="people")
    before = entries(book)
    with pytest.raises(
        BudgetExceeded, match="nothing of this kind is left; nothing was spent"
    ):
        plan(**budget).release(COUNTS, ledger=book, dataset="people", again="spend")
    assert entries(book) == before


@pytest.mark.parametrize("rows", [3, 7])
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-9}, {"rho": 0.1}]
)
def test_people_of_several_rows_are_charged_for_all_of_them(
    tmp_path: Path, budget: dict[str, float], rows: int
) -> None:
    schema = {
        "reviewed": True,
        "unit": {"column": "person", "rows": rows},
        "attributes": [{"name": "sex", "kind": "categorical", "values": ["F", "M"]}],
    }
    domain = nw.Domain.from_dict(schema)
    table = tmp_path / "people.csv"
    table.write_text("person,sex\n1,F\n1,M\n2,F\n")
    made = nw.plan(
        "identity:2",
        nw.Privacy(**budget),
        nw.Central(composition=many(budget)),
        domain=domain,
    )
    book = ledger(tmp_path, nw.Privacy(**budget), unit="person")
    release = made.release(table, ledger=book, dataset="people")
    account = book.account("people")
    (spent,) = account.releases
    assert spent.reserved.unit == Person("person", rows)
    assert release.statement()["unit"] == domain.person
    assert account.spend == made.mechanism.spend.of_rows(Contribution(rows))
    assert 1 - account.created.limits.share(account.used) < 1e-9


def test_a_budget_is_of_rows_or_of_those_that_a_column_names(tmp_path: Path) -> None:
    """What is spent on one unit says nothing of another: it is refused, and nothing is spent."""
    sexes = nw.Categorical("sex", ("F", "M"))
    named, other, rows = (
        nw.plan("identity:2", nw.Privacy(rho=0.1), domain=nw.Domain([sexes], unit=unit))
        for unit in (nw.Unit("person", 2), nw.Unit("household", 2), None)
    )
    book = ledger(tmp_path, nw.Privacy(rho=1.0), unit="person")
    book.create("rows", nw.Privacy(rho=1.0))
    assert (book.show("people")["unit"], book.show("rows")["unit"]) == ("person", None)
    for plan_, dataset, said in (
        (other, "people", "unit='household' is not whose budget 'people' is"),
        (
            rows,
            "people",
            "unit='one row' is not .* name it in the schema, .unit: {column: person",
        ),
        (named, "rows", "unit='person' is not .* a dataset made with --unit"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            book.reserve(dataset, plan_.cost)
    stream = nw.plan(nw.RunningCount(8), nw.Privacy(rho=0.1))
    with pytest.raises(InvalidParameter, match="unit='one row'"):
        stream.start(ledger=book, dataset="people")
    values = nw.plan(
        nw.Values("job", unit="person"), nw.Privacy(epsilon=0.1, delta=1e-9)
    )
    assert values.cost.unit == nw.Unit("person")
    assert entries(book) == 3
    book.reserve("people", named.cost)
    book.reserve("rows", rows.cost)
    with pytest.raises(InvalidParameter, match=r"unit\.column"):
        book.create("nobody", nw.Privacy(rho=1.0), unit="")


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        ({"epsilon": 1.0}, {"epsilon": 0.7}),
        ({"epsilon": 1.0, "delta": 1e-9}, {"epsilon": 0.7, "delta": 1e-9}),
        ({"rho": 0.1}, {"rho": 0.07}),
        ({"rho": 0.1}, {"epsilon": 0.9, "delta": 1e-6}),
        ({"rho": 1.0}, {"epsilon": 1.1}),
        ({"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 0.4}),
    ],
    ids=str,
)
def test_a_refusal_names_the_largest_plan_that_fits(
    tmp_path: Path, budget: dict[str, float], share: dict[str, float]
) -> None:
    book = ledger(tmp_path, nw.Privacy(**budget))
    first = plan(**share)
    first.release(COUNTS, ledger=book, dataset="people")
    for _ in range(10):
        try:
            first.release(COUNTS, ledger=book, dataset="people", again="spend")
        except BudgetExceeded as error:
            refusal = error
            break
    fits = refusal.fits
    assert isinstance(fits, nw.Privacy)
    assert fits.kind == first.privacy.kind
    larger = {
        k: v if k == "delta" else v * 1.01
        for k, v in fits.to_dict().items()
        if k in share
    }
    with pytest.raises(BudgetExceeded):
        plan(**larger).release(COUNTS, ledger=book, dataset="people")
    nw.plan("prefix:4", fits, nw.Central(composition=many(fits.to_dict()))).release(
        COUNTS, ledger=book, dataset="people"
    )


def test_the_same_plan_is_refused_returned_or_bought_again(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    first = plan(rho=0.1).release(COUNTS, ledger=book, dataset="people@1")
    before = entries(book)
    with pytest.raises(
        ReleasedBefore, match=r"released from people@1 before \(entry 3, .*nothing"
    ):
        plan(rho=0.1).release(COUNTS, ledger=book, dataset="people@1")
    same = plan(rho=0.1).release(
        COUNTS, ledger=book, dataset="people@1", again="stored"
    )
    assert isinstance(same, Release)
    np.testing.assert_array_equal(same.answers, first.answers)
    assert same.metadata == first.metadata
    assert entries(book) == before
    other = plan(rho=0.1).release(COUNTS, ledger=book, dataset="people@2")
    again = plan(rho=0.1).release(
        COUNTS, ledger=book, dataset="people@1", again="spend"
    )
    assert len({first.identity, other.identity, again.identity}) == 3
    assert len(book.account("people").releases) == 3


def test_a_release_cut_short_is_spent_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    made = plan(rho=0.1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(made.mechanism), "measure", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        made.release(COUNTS, ledger=book, dataset="people")
    assert "counts as spent: entry 3" in caught.value.__notes__[0]
    (spent,) = book.account("people").releases
    assert spent.committed is None
    assert book.account("people").used.most > 0
    with pytest.raises(ReleasedBefore, match="never finished"):
        made.release(COUNTS, ledger=book, dataset="people", again="stored")


def test_a_table_that_cannot_be_read_spends_nothing(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    with pytest.raises(InvalidParameter, match="must have 4 cells"):
        plan(rho=0.1).release(np.arange(5), ledger=book, dataset="people")
    assert book.account("people").releases == []


def test_several_plans_and_streams_are_entries_too(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(epsilon=1, delta=1e-9))
    half = nw.plan(
        nw.Several(["identity:4", "prefix:4"]),
        nw.Privacy(epsilon=0.5, delta=1e-9),
        nw.Central(composition="many"),
    )
    releases = half.release(COUNTS, ledger=book, dataset="people")
    assert {release.metadata["ledger"]["entry"] for release in releases} == {3}
    half_again = nw.Privacy(epsilon=0.5, delta=1e-9)
    stream = nw.plan(nw.RunningCount(8), half_again, nw.Stream(composition="many"))
    stream.start(ledger=book, dataset="people").step(3)
    account = book.account("people")
    assert [len(s.reserved.spend.losses) for s in account.releases] == [2, 1]
    assert account.spend == half.spend + stream.spend
    with pytest.raises(ReleasedBefore):
        stream.start(ledger=book, dataset="people")
    with pytest.raises(ReleasedBefore, match="its answers are not kept by the ledger"):
        stream.start(ledger=book, dataset="people", again="stored")


def test_rules_and_relations_that_do_not_suit_are_refused(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(epsilon=1.0))
    with pytest.raises(BudgetExceeded, match="adds up pure ε, of which 1 is left"):
        book.reserve("people", cost(Gaussian(0.01)))
    replaced = nw.plan("prefix:4", nw.Privacy(epsilon=0.1, neighbours="replace-one"))
    with pytest.raises(
        InvalidParameter, match="'replace-one' is not the dataset's relation"
    ):
        replaced.release(COUNTS, ledger=book, dataset="people")
    for options, name in (
        ({"rule": "zcdp"}, "rule"), ({"pure": 0.5}, "pure"), ({"aside": 1e-9}, "aside"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match=name):
            limits_of(nw.Privacy(epsilon=1.0), **options)

    larger = limits_of(nw.Privacy(epsilon=2.0))
    with pytest.raises(InvalidParameter, match="allow more than the budget"):
        book.create("other", nw.Privacy(epsilon=1.0), limits=larger)
    assert entries(book) == 2


def test_promises_take_their_delta_from_what_was_set_aside(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(epsilon=2, delta=1e-6), aside=4e-7, pure=1.0)
    book.reserve("people", cost(Promise(0.5, 3e-7), plan="a"))
    with pytest.raises(BudgetExceeded):
        book.reserve("people", cost(Promise(0.1, 2e-7), plan="b"))
    book.reserve("people", cost(Laplace(0.5), plan="c"))
    used = book.account("people").used
    assert (used.pure, used.delta, used.most) == (1, pytest.approx(3e-7), 0)
    # beyond `pure`: as Gaussian noise
    book.reserve("people", cost(Laplace(0.01), plan="d"))
    assert book.account("people").used.most > 0


def test_names_are_one_budget_each_and_versions_share_it(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=0.1))
    with pytest.raises(InvalidParameter, match="'people' is in this ledger already"):
        book.create("people", nw.Privacy(rho=5.0))
    with pytest.raises(InvalidParameter, match="has a version"):
        book.create("people@2", nw.Privacy(rho=5.0))
    with pytest.raises(InvalidParameter, match="it holds: people; nothing was spent"):
        book.reserve("nobody", cost(rho(0.05)))
    book.reserve("people@1", cost(rho(0.06)))
    with pytest.raises(BudgetExceeded):
        book.reserve("people@2", cost(rho(0.06)))
    for name in ("", "@1", "a\nb", " a"):
        with pytest.raises(InvalidParameter, match="dataset"):
            book.reserve(name, cost(rho(0.01)))


def test_a_clock_that_goes_back_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=0.1))
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="microseconds")
    monkeypatch.setattr(book_module, "_now", lambda: past)
    for call in (book.check, book.reserve):
        with pytest.raises(
            NoisewrightError, match=r"the clock says .*; nothing was spent"
        ):
            call("people", cost(rho(0.01)))
    late = (datetime.now(UTC) - timedelta(seconds=5)).isoformat(timespec="microseconds")
    # other machines' clocks differ a little
    monkeypatch.setattr(book_module, "_now", lambda: late)
    book.reserve("people", cost(rho(0.01)))
    times = [entry.time for _, entry in book.history().entries]
    assert times == sorted(times)


def test_noise_that_is_not_what_is_spent_is_refused(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=0.1))
    made = plan(rho=0.05)
    forged = type(made.cost)(
        made.spend, made.privacy, "x", "y", [{**made.cost.noise[0], "scale": 1e6}]
    )
    with pytest.raises(InvalidParameter, match="is not what the plan spends"):
        book.reserve("people", forged)


def test_what_is_no_ledger_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="does not exist; make it with"):
        Ledger(tmp_path / "absent.db").history()
    (tmp_path / "text.db").write_text("hello, this is not a database at all" * 40)
    with pytest.raises(FileFormatError, match="damaged or no ledger"):
        Ledger(tmp_path / "text.db").history()
    sqlite3.connect(tmp_path / "other.db").execute(
        "CREATE TABLE t (x)"
    ).connection.close()
    with pytest.raises(FileFormatError, match="is no ledger"):
        Ledger(tmp_path / "other.db").reserve("people", cost(rho(0.1)))
    (tmp_path / "empty.db").touch()
    with pytest.raises(FileFormatError, match="is no ledger"):
        Ledger(tmp_path / "empty.db").history()
    # a killed `create`
    Ledger(tmp_path / "empty.db").create("people", nw.Privacy(rho=1.0))
    shutil.rmtree(tmp_path)
    with pytest.raises(
        InvalidParameter, match=r"cannot be used .*; nothing was spent|not exist"
    ):
        Ledger(tmp_path / "empty.db").create("people", nw.Privacy(rho=1.0))
