"""`noisewright ledger`: budgets of datasets, and every release that took from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Budget,
    Sectioned,
    json_option,
    option,
    option_group,
)
from noisewright.cli.output import print_json, print_table
from noisewright.cli.spending import bar

if TYPE_CHECKING:
    from noisewright.ledger.standing import EntryTold, Standing
    from noisewright.privacy.promise.filters import RuleName

ledger_argument = click.argument("location", metavar="LEDGER")
dataset_option = click.option("--dataset", help="One dataset alone.")


@dataclass(frozen=True)
class Rules:
    """Whose a budget is, and how what is spent of it adds up."""

    rule: RuleName | None = option(
        "--rule",
        type=click.Choice(["gaussian", "zcdp", "sum"]),
        help="How spends add up: gaussian for ε at δ, zcdp for ρ and sum for ε alone, unless told.",
    )
    pure: float = option(
        "--pure", type=float, default=0.0, help="Of ε, kept for releases of pure ε."
    )
    aside: float = option(
        "--aside", type=float, default=0.0, help="Of δ, kept for promises (ε, δ)."
    )
    unit: str | None = option(
        "--unit",
        metavar="COLUMN",
        help="The column that names the people whose budget it is; without it a row is a person.",
    )
    groups: tuple[str, ...] = option(
        "--group", multiple=True, help="A part that shares nobody with the others."
    )


@click.group()
def ledger() -> None:
    """Budgets of datasets, and every release that took from them.

    LEDGER is a file, or an address postgresql://… where several machines spend. A dataset stands
    for people: all files and versions about the same people share its one budget.

    \b
    Examples:
      noisewright ledger create budget.db census --epsilon 1 --delta 1e-9
      noisewright release plan.nw people.csv --ledger budget.db --dataset census@2024 -o a.csv
      noisewright ledger show budget.db
    """


@ledger.command(cls=Sectioned)
@ledger_argument
@click.argument("dataset")
@option_group("budget", Budget, "The budget")
@option_group("rules", Rules, "Whose it is, and how spends add up")
@json_option
def create(
    location: str,
    dataset: str,
    budget: Budget,
    rules: Rules,
    as_json: bool,
) -> None:
    """Add DATASET with its budget; make LEDGER where there is none. The budget is for good."""
    from noisewright.ledger import limits_of
    from noisewright.ledger.book import Ledger
    from noisewright.ledger.standing import standing

    privacy = budget.privacy
    account = Ledger(location).create(
        dataset,
        privacy,
        limits=limits_of(privacy, rules.rule, rules.pure, rules.aside),
        unit=rules.unit,
        groups=rules.groups,
    )
    facts = standing(account)
    print_json(facts) if as_json else _show_one(facts)


@ledger.command()
@ledger_argument
@dataset_option
@click.option("--delta", type=float, help="The δ at which ε is stated.")
@json_option
def show(
    location: str, dataset: str | None, delta: float | None, as_json: bool
) -> None:
    """What was spent of every budget and what is left; JSON is a list where there are several."""
    from noisewright.ledger.book import Ledger
    from noisewright.ledger.standing import standing
    from noisewright.privacy.exact.rounding import probability

    if delta is not None:
        probability("delta", delta)

    history = Ledger(location).history()
    accounts = (
        history.accounts.values() if dataset is None else [history.account(dataset)]
    )
    facts = [standing(account, delta) for account in accounts]
    if as_json:
        print_json(facts[0] if len(facts) == 1 else facts)
        return

    for each in facts:
        _show_one(each)


@ledger.command()
@ledger_argument
@dataset_option
@json_option
def history(location: str, dataset: str | None, as_json: bool) -> None:
    """Every entry, oldest first, with what it took and the rule that admitted it."""
    from noisewright.ledger.book import Ledger
    from noisewright.ledger.standing import told_entries

    known = Ledger(location).history()
    if dataset is not None:
        known.account(dataset)

    entries = list(told_entries(known, dataset))
    if as_json:
        print_json(entries)
        return

    rows = [
        _row(entry) for entry in entries if entry["entry"] in ("created", "reserved")
    ]
    columns = ["entry", "time (UTC)", "dataset", "what", "of budget"]
    note = "* reserved and never finished: it counts as spent"
    unfinished = any(entry.get("finished") is False for entry in entries)
    print_table(f"History of {location}", columns, rows, note if unfinished else "")


@ledger.command()
@ledger_argument
@click.argument("checkpoints", nargs=-1, type=FILE)
@json_option
def verify(location: str, checkpoints: tuple[str, ...], as_json: bool) -> None:
    """Check every entry, every kept release, and that LEDGER goes on from CHECKPOINTS.

    CHECKPOINTS are exports, or the .meta.json beside answers: both name an entry by its hash. They
    show what a ledger alone cannot: a lost tail, or an older copy that was put back.
    """
    from noisewright.ledger.book import Ledger

    sound = Ledger(location).verify(*checkpoints)
    assert sound.last is not None
    facts = {
        "sound": True,
        "ledger": sound.identity,
        "entries": len(sound.entries),
        "hash": sound.last.hash,
        "checkpoints": len(checkpoints),
    }
    if as_json:
        print_json(facts)
        return

    against = f", which go on from {', '.join(checkpoints)}" if checkpoints else ""
    click.echo(
        f"sound: {len(sound.entries)} entries{against}; the last has hash {sound.last.hash}"
    )
    if not checkpoints:
        click.echo(
            "whether entries are missing at the end, only a checkpoint kept elsewhere tells"
        )


@ledger.command()
@ledger_argument
@click.option(
    "-o", "--output", type=FILE, required=True, help="The checkpoint, as JSON."
)
@json_option
def export(location: str, output: str, as_json: bool) -> None:
    """Write a checkpoint: keep it elsewhere, and `ledger verify` shows a lost tail or old copy."""
    from noisewright.ledger.book import Ledger

    document = Ledger(location).export(output)
    if as_json:
        print_json(document)
    else:
        click.echo(
            f"entry {document['entry']} of ledger {document['ledger']}: {output}"
        )
        click.echo("keep it where whoever can write the ledger cannot")


def _row(entry: EntryTold) -> tuple[object, ...]:
    time = entry["time"][:19].replace("T", " ")
    if entry["entry"] == "created":
        from noisewright.ledger.standing import budget_text
        from noisewright.privacy.promise.budget import Privacy

        budget = f"budget: {budget_text(Privacy.from_dict(entry['budget']))}"
        return entry["number"], time, entry["dataset"], budget, ""

    name = entry["dataset"] + (f"/{entry['group']}" if entry["group"] else "")
    name += f"@{entry['version']}" if entry["version"] else ""
    star = "" if entry["finished"] else " *"

    return (
        entry["number"],
        time,
        name,
        entry["title"],
        f"{entry['charged']['share']:.2%}{star}",
    )


def _show_one(facts: Standing) -> None:
    """A dataset as a person reads it."""
    from noisewright.ledger.standing import left_text, so_far
    from noisewright.privacy.promise.budget import Privacy

    budget = facts["budget"]
    spent = facts["spent"]
    stated = {
        k: v for k, v in budget.items() if k not in ("rule", "statement", "limits")
    }
    privacy = Privacy.from_dict(stated)
    releases = (
        "1 release" if facts["entries"] == 1 else f"{facts['entries']:,} releases"
    )
    unfinished = (
        f", {spent['unfinished']} of them unfinished" if spent["unfinished"] else ""
    )
    rows = [
        ("budget", privacy.text()),
        ("unit", facts["person"]),
        (
            "spent",
            f"{bar(spent['share'])} {spent['share']:.1%} by {releases}{unfinished}",
        ),
        ("left", left_text(facts["left"])),
    ]
    if "odometer" in spent:
        promise, note = so_far(facts)
        rows.append(("so far", f"{_promise_text(promise)}, {note}"))

    if "composed" in spent:
        rows.append(
            (
                "in advance",
                f"{_promise_text(spent['composed'])}, had all been planned first",
            )
        )

    if facts["groups"]:
        shares = ", ".join(
            f"{name} {share:.1%}" for name, share in facts["groups"].items()
        )
        rows.append(("groups", f"{shares}; above is whoever has the least left"))

    rows.append(("rule", budget["statement"]))
    print_table(f"Dataset {facts['dataset']}", ["", ""], rows)


def _promise_text(promise: dict[str, float]) -> str:
    if "rho" in promise:
        return f"ρ ≤ {promise['rho']:.4g}"
    at = f" at δ = {promise['delta']:g}" if promise.get("delta") else ""
    return f"ε ≤ {promise['epsilon']:.4g}{at}"
