"""What a file is and says: `show` on the screen, `report` as a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from noisewright.cli.options import FILE, check_output, json_option
from noisewright.cli.output import SHOWN, print_json, print_table, progress

_TABLES = (".csv", ".parquet", ".pq")
_SECRET = "secret-running-stream"
_SEARCHES = {
    "aggregate": "statistics of people's reports",
    "local-strategy": "a strategy found by a search, kept for the next plan",
    "local-search": "the state of an interrupted search",
}


@click.command()
@click.argument("file", type=FILE)
@json_option
def show(file: str, as_json: bool) -> None:
    """Say what FILE is: a plan, a release, answers, a record, a schema, questions, an aggregate.

    Nothing is spent. A plan says what it would spend, a release and a record what was spent.
    """
    from noisewright.planning.facts import facts

    known = description(Path(file))
    if as_json:
        print_json(known)
        return

    tables = cast("list[dict[str, object]]", known.pop("tables", []))
    # what the other lines say, for whoever reads the record alone
    known.pop("statement", None)
    lines = [(fact.words, fact.text) for fact in facts(known)]
    print_table(file, ["", ""], [line for line in lines if line[1]])
    if tables:
        names = list(tables[0])
        rows = [[table[name] for name in names] for table in tables[:SHOWN]]
        more = len(tables) - len(rows)
        print_table("", names, rows, f"and {more:,} more" if more > 0 else "")


def description(path: Path) -> dict[str, object]:
    """What a file is and holds, ready for JSON."""
    from noisewright.errors import FileFormatError
    from noisewright.files import is_sqlite

    if not path.exists():
        raise FileFormatError(f"{path}: there is no such file; check the path")

    suffix = path.suffix.lower()
    if is_sqlite(path):
        return _ledger(path)
    if suffix in _TABLES:
        return _answers(path)
    if suffix in (".yaml", ".yml"):
        return _yaml(path)
    if path.name.endswith(".meta.json"):
        return _record(path)

    return _container(path)


def _ledger(path: Path) -> dict[str, object]:
    from noisewright.ledger.book import Ledger
    from noisewright.ledger.standing import standing

    history = Ledger(path).history()
    stood = [standing(account) for account in history.accounts.values()]
    facts = {
        "kind": "ledger",
        "what": "budgets of datasets; `noisewright ledger show` says more",
    }
    tables = [
        {
            "dataset": s["dataset"],
            "releases": s["entries"],
            "spent": f"{s['spent']['share']:.1%}",
        }
        for s in stood
    ]

    return {
        **facts,
        "ledger": history.identity,
        "entries": len(history.entries),
        "tables": tables,
    }


def _container(path: Path) -> dict[str, object]:
    import noisewright as nw
    from noisewright import container
    from noisewright.planning.files import KINDS

    kind, version = container.kind_of(path)
    facts: dict[str, object] = {
        "kind": kind,
        "what": KINDS[kind].words if kind in KINDS else _SEARCHES.get(kind, ""),
        "version": version,
    }
    if kind in _SEARCHES:
        return facts
    if kind == _SECRET:
        return facts | _running(path)

    return facts | nw.load(path).description()


def _running(path: Path) -> dict[str, object]:
    """What is public of a running stream, and whether it can go on from this state."""
    from noisewright.planning.stream_files import stored_stream

    release, place, latest = stored_stream(path)
    state = "the latest; `nw.load` goes on from it"
    if not latest:
        state = (
            "not where the position is: older, or of another disk; it does not go on"
        )

    return {"position": place, "state": state, **release.description()}


def _record(path: Path) -> dict[str, object]:
    from noisewright.planning.release import count_spendings, read_record

    entries = read_record(path)
    latest = dict(entries[-1])
    kind = {"kind": "record", "what": "what was spent on the answers beside it"}
    times = {"entries": len(entries), "times_spent": count_spendings(entries)}

    return {**kind, "version": latest.pop("version", None), **times, **latest}


def _answers(path: Path) -> dict[str, object]:
    """The table's form alone: whose rows these are is told by the record beside it."""
    from noisewright.planning.release import metadata_path

    beside = metadata_path(path)
    if not beside.exists():
        note = f"no {beside.name} beside it: not answers, or without the record of what they cost"
        return {"kind": "table", "what": note}

    return {
        **_record(beside),
        "kind": "answers",
        "what": f"answers; {beside.name} is their record",
    }


def _yaml(path: Path) -> dict[str, object]:
    from noisewright.domain import Domain
    from noisewright.domain.schema import load_yaml
    from noisewright.planning.found.open_values import declares_open

    document = load_yaml(path)
    if isinstance(document, Mapping) and "queries" in document:
        asked = document["queries"]
        count = len(asked) if isinstance(asked, list) else 0
        return {
            "kind": "questions",
            "what": "what is asked of a table",
            "questions": count,
        }

    if isinstance(document, Mapping) and declares_open(document):
        names = ("name", "kind")
        return {
            "kind": "schema",
            "what": "the public schema of a table, with attributes whose values are told first",
            "tables": [
                {n: entry.get(n) for n in names} for entry in document["attributes"]
            ],
        }

    domain = Domain.from_yaml(path)
    state = (
        "reviewed" if domain.reviewed else "a draft: nothing plans or releases from it"
    )
    return {
        "kind": "schema",
        "what": f"the public schema of a table, {state}",
        "size": domain.size if domain.size < 2**53 else str(domain.size),
        "fingerprint": domain.fingerprint,
        "tables": [
            {"name": a.name, "kind": a.kind, "cells": a.size, "outside": a.outside}
            for a in domain
        ],
    }


@click.command()
@click.argument("file", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The page, in HTML.")
@json_option
def report(file: str, output: str, as_json: bool) -> None:
    """Write a self-contained page about FILE: promise, errors, proofs, charts and answers.

    FILE is a release (.nwr, or the answers beside it), estimates, a plan before anything is spent,
    learning or a selection, or a ledger. Of a running stream that was kept, the page shows the
    answers alone: nothing of its state.
    """
    import noisewright as nw

    check_output(output, file)
    with progress("drawing"):
        nw.report(_subject(file), output)

    if as_json:
        print_json({"report": output})
    else:
        click.echo(f"written to {output}")


def _subject(path: str) -> Any:
    """What a page can be drawn of; of a stream its answers, older states too."""
    import noisewright as nw
    from noisewright import container
    from noisewright.files import is_sqlite
    from noisewright.planning.stream_files import SECRET, stored_stream

    if is_sqlite(path):
        from noisewright.ledger.book import Ledger

        return Ledger(path)

    path = _behind(path)
    if container.kind_of(path)[0] == SECRET:
        return stored_stream(path)[0]

    return nw.load(path)


def _behind(path: str) -> str:
    """The release behind answers or their record, where it was kept beside them."""
    from pathlib import Path

    from noisewright.errors import FileFormatError
    from noisewright.planning.release import kept_path, metadata_path, read_record

    answers = Path(path.removesuffix(".meta.json"))
    record = metadata_path(answers)
    kept = kept_path(answers)
    if not record.exists() or str(kept) == path:
        return path

    name = read_record(record)[-1].get("release")
    if not kept.exists() or _identity(kept) != name:
        raise FileFormatError(
            f"{path}: the release behind these answers is not beside them"
        )

    return str(kept)


def _identity(path: Path) -> str:
    """The name of a kept release, of whatever kind."""
    import noisewright as nw

    identity: str = getattr(nw.load(path), "identity", "")
    return identity
