"""Groups that share nobody take from budgets of their own; whose budget it is stays the same."""

from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from ledger.ledgers import cost, ledger, rho
from noisewright.domain import Categorical, Domain, Unit
from noisewright.errors import BudgetExceeded, FileFormatError, InvalidParameter
from noisewright.ledger.entries import Reserved, next_line

BUDGET = nw.Privacy(rho=1.0)
GROUPS = ("north", "south")


def test_disjoint_groups_take_the_maximum_and_the_same_people_add(
    tmp_path: Path,
) -> None:
    book = ledger(tmp_path, BUDGET, groups=GROUPS)
    book.reserve("people/north@2023", cost(rho(0.6))).commit()
    book.reserve("people/south@2023", cost(rho(0.7))).commit()  # nobody is in both
    assert book.show("people")["spent"]["rho"] == pytest.approx(0.7)
    # the same people, another year
    book.reserve("people/north@2024", cost(rho(0.3))).commit()
    with pytest.raises(BudgetExceeded, match="people/north"):
        book.reserve("people/north@2025", cost(rho(0.2)))
    book.reserve("people", cost(rho(0.1))).commit()  # of everybody, so of both groups
    shares = book.show("people")["groups"]
    assert shares == pytest.approx({"north": 1.0, "south": 0.8})
    with pytest.raises(BudgetExceeded, match="people/north"):
        book.reserve("people", cost(rho(0.1), plan="another"))
    book.reserve("people/south", cost(rho(0.2))).commit()


@pytest.mark.parametrize("seed", range(30))
def test_what_a_person_can_lose_never_passes_the_budget(
    tmp_path: Path, seed: int
) -> None:
    """Against plain sums: one person is in one group, and in every release of all people."""
    rng = np.random.default_rng(seed)
    book = ledger(tmp_path, BUDGET, groups=("a", "b", "c"))
    spent = dict.fromkeys(["a", "b", "c", ""], 0.0)
    for number in range(25):
        group = str(rng.choice(["a", "b", "c", ""]))
        amount = float(rng.uniform(0.02, 0.3))
        readers = [group] if group else list(spent)
        fits = all(spent[reader] + amount <= 1 for reader in readers)
        name = f"people/{group}" if group else "people"
        try:
            book.reserve(name, cost(rho(amount), plan=str(number)))
        except BudgetExceeded:
            assert not fits
        else:
            assert fits
            spent |= {reader: spent[reader] + amount for reader in readers}
    assert book.account("people").used.most <= 1
    assert float(book.account("people").used.most) == pytest.approx(max(spent.values()))


def test_groups_are_declared_at_first_and_once(tmp_path: Path) -> None:
    book = ledger(tmp_path, BUDGET, groups=GROUPS)
    with pytest.raises(InvalidParameter, match=r"no such group.*north, south"):
        book.reserve("people/east", cost(rho(0.1)))
    for groups in (("a", "a"), ("a/b",)):
        with pytest.raises(InvalidParameter, match="groups"):
            book.create("other", BUDGET, groups=groups)
    # Whoever is replaced may turn up in another group.
    replaced = nw.Privacy(rho=1.0, neighbours="replace-one")
    with pytest.raises(InvalidParameter, match="add-remove"):
        book.create("other", replaced, groups=GROUPS)
    book.create("a/b", BUDGET)  # a name with a slash is a name, as before
    book.reserve("a/b", cost(rho(0.1))).commit()


def test_another_group_is_not_the_same_release_again(tmp_path: Path) -> None:
    book = ledger(tmp_path, BUDGET, groups=GROUPS)
    book.reserve("people/north", cost(rho(0.1))).commit(b"kept")
    book.check("people/south", cost(rho(0.1)))
    assert book.stored("people/north", "plan") == b"kept"
    assert book.stored("people/south", "plan") is None


def test_a_release_written_by_hand_into_an_unknown_group_is_refused(
    tmp_path: Path,
) -> None:
    book = ledger(tmp_path, BUDGET, groups=GROUPS)
    book.reserve("people/north", cost(rho(0.1)))
    history = book.history()
    reserved = next(e for _, e in history.entries if isinstance(e, Reserved))
    for forged in ({"group": "east", "release": "another"},):
        entry = Reserved(
            **{f: getattr(reserved, f) for f in reserved.__struct_fields__} | forged
        )
        lines = [*(line for line, _ in history.entries), next_line(history.last, entry)]
        with pytest.raises(FileFormatError, match="breaks the rules"):
            type(history)(lines, "here")


def test_a_person_in_a_month_has_a_budget_of_their_own(tmp_path: Path) -> None:
    domain = Domain(
        [Categorical("sex", ["F", "M"])], unit=Unit("id", per="month", date="day")
    )
    workload = nw.Workload.from_spec({"queries": [{"marginal": ["sex"]}]}, domain)
    monthly = nw.plan(workload, nw.Privacy(rho=0.1)).cost
    book = ledger(tmp_path, BUDGET, unit="id")
    with pytest.raises(
        InvalidParameter, match="unit='id per month of day' is not whose budget"
    ):
        book.reserve("people", monthly)
    book.create(
        "months", BUDGET, unit="id per month of day", groups=("January", "February")
    )
    book.reserve("months/January", monthly).commit()
    book.reserve("months/February", monthly).commit()
    assert book.show("months")["spent"]["rho"] == pytest.approx(0.1)
