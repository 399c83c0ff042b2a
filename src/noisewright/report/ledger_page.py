"""The page of a ledger: what was spent of every budget, on what and when."""

from __future__ import annotations

import json
from typing import Any

from noisewright.ledger.book import Ledger
from noisewright.ledger.standing import left_text, standing, told_entries
from noisewright.report.render import render
from noisewright.report.words import Tile


def ledger_page(ledger: Ledger, title: str = "What was spent") -> str:
    """The page as HTML: every dataset with its budget, and every release that took from it."""
    history = ledger.verify()
    accounts = [standing(account) for account in history.accounts.values()]
    entries = [e for e in told_entries(history) if e["entry"] == "reserved"]
    unfinished = sum(account["spent"]["unfinished"] for account in accounts)
    last = history.last
    return render(
        "ledger.html",
        title=title,
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
        accounts=[_account(account) for account in accounts],
        releases=[_release(entry) for entry in reversed(entries)],
        provenance=[
            ("ledger", str(history.identity)),
            ("hash of the last entry", "" if last is None else last.hash),
        ],
        record=json.dumps(accounts, indent=2, ensure_ascii=False, default=str),
    )


def _account(known: dict[str, Any]) -> dict[str, Any]:
    budget, spent = known["budget"], known["spent"]
    symbols = (("epsilon", "ε"), ("delta", "δ"), ("rho", "ρ"))
    told = ", ".join(f"{s} = {budget[n]:g}" for n, s in symbols if budget.get(n) is not None)
    so_far = spent.get("odometer", {})
    holds = ", ".join(f"{s} = {so_far[n]:.4g}" for n, s in symbols if so_far.get(n) is not None)
    return {
        "name": known["dataset"],
        "budget": told,
        "share": round(100 * min(1.0, spent["share"]), 1),
        "left": left_text(known["left"]),
        "holds": holds or "nothing was spent",
        "releases": known["entries"],
        "rule": budget["statement"],
    }


def _release(entry: dict[str, Any]) -> dict[str, str]:
    version = f"@{entry['version']}" if entry.get("version") else ""
    return {
        "number": str(entry["number"]),
        "time": str(entry["time"]),
        "dataset": f"{entry['dataset']}{version}",
        "title": str(entry["title"]),
        "share": f"{100 * entry['charged']['share']:.3g} %",
        "finished": "" if entry["finished"] else "never finished",
    }
