"""The page of a ledger: what was spent of every budget, on what and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noisewright.ledger.book import Ledger
from noisewright.ledger.history import Account
from noisewright.ledger.standing import (
    EntryTold,
    Standing,
    so_far,
    standing,
    told_entries,
)
from noisewright.privacy.promise.spend import best_guess
from noisewright.report.pages import record_text, render
from noisewright.report.words.facts import Tile, byline
from noisewright.report.words.numbers import (
    moment_in_words,
    percent_above,
    plain_number,
)
from noisewright.report.words.promises import letter_equals, promise_parameters

_DIGITS = 4
"""Of what is spent or left: it is a sum, seldom a number that somebody chose."""


def ledger_page(ledger: Ledger, title: str = "What was spent") -> str:
    """The page as HTML: every dataset with its budget, and every release that took from it."""
    history = ledger.verify()
    accounts = {name: standing(account) for name, account in history.accounts.items()}
    entries = [e for e in told_entries(history) if e["entry"] == "reserved"]
    unfinished = sum(account["spent"]["unfinished"] for account in accounts.values())
    last = history.last

    return render(
        "ledger.html",
        title=title,
        byline=byline({}),
        lead=(
            "Budgets belong to people: all files and versions about the same people share one. "
            "Every release was entered before its noise was drawn, and the entries are chained by "
            "hash; this page was drawn from a chain that is sound."
        ),
        tiles=[
            Tile("datasets", f"{len(accounts):,}", "each with a budget of its own"),
            Tile("releases", f"{len(entries):,}", "that took from a budget"),
            Tile("never finished", f"{unfinished:,}", "reserved, and counted as spent"),
            Tile("entries", f"{len(history.entries):,}", "in the chain"),
        ],
        accounts=[
            _account(accounts[name], account, _of_dataset(name, entries))
            for name, account in history.accounts.items()
        ],
        releases=[_release(entry) for entry in reversed(entries)],
        provenance=[
            ("ledger", str(history.identity)),
            (
                "last entry at",
                "" if last is None else moment_in_words(history.entries[-1][1].time),
            ),
            ("hash of the last entry", "" if last is None else last.hash),
        ],
        record=record_text(list(accounts.values())),
    )


def _of_dataset(name: str, entries: Sequence[EntryTold]) -> list[EntryTold]:
    return [entry for entry in entries if entry["dataset"] == name]


def _account(
    known: Standing, account: Account, entries: Sequence[EntryTold]
) -> dict[str, object]:
    budget = known["budget"]
    spent = known["spent"]

    return {
        "name": known["dataset"],
        "budget": _parameters(budget),
        "share": f"{100 * min(1.0, spent['share']):.1f} %",
        "parts": [
            (round(100 * entry["charged"]["share"], 2), entry["title"])
            for entry in entries
        ],
        "left": _left(known["left"]),
        "holds": _parameters(so_far(known)[0]) if "odometer" in spent else "",
        "guess": percent_above(best_guess(account.spend)) if entries else "",
        "releases": known["entries"],
        "person": known["person"],
        "rule": budget["statement"],
    }


def _parameters(promise: Mapping[str, object]) -> str:
    return promise_parameters(promise, _DIGITS)


def _left(left: dict[str, float]) -> str:
    """The largest plans that still fit, any one of them."""
    fits = {
        "epsilon": f"{_equals('ε', left['epsilon'])} at {_equals('δ', left['delta'])}",
        "rho": _equals("ρ", left["rho"]),
        "pure_epsilon": f"{_equals('ε', left['pure_epsilon'])} by noise without δ",
    }
    told = [text for name, text in fits.items() if left[name]]

    return f"one plan of {', or '.join(told)}" if told else "nothing"


def _equals(symbol: str, value: float) -> str:
    return letter_equals(symbol, plain_number(value, _DIGITS))


def _release(entry: EntryTold) -> dict[str, str]:
    version = f"@{entry['version']}" if entry.get("version") else ""
    return {
        "number": str(entry["number"]),
        "time": moment_in_words(str(entry["time"])),
        "dataset": f"{entry['dataset']}{version}",
        "title": str(entry["title"]),
        "share": f"{100 * entry['charged']['share']:.3g} %",
        "finished": "" if entry["finished"] else "never finished",
    }
