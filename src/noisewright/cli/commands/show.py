"""`noisewright show`: what a file is, whatever of the tool's files it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.shared.options import FILE, json_option
from noisewright.cli.shared.output import SHOWN, print_json, print_table

if TYPE_CHECKING:
    from noisewright.planning.plan import Plan
    from noisewright.planning.release import Release
    from noisewright.planning.streams.running import StreamRelease

_FORM = ("format", "version")
_TABLES = (".csv", ".parquet", ".pq")
_SECRET = "secret-running-stream"
_SEARCHES = {
    "aggregate": "statistics of people's reports",
    "local-strategy": "a strategy found by a search, kept for the next plan",
    "local-search": "the state of an interrupted search",
}
_WORDS = {
    "central-plan": "a plan with a curator",
    "local-plan": "a plan without a curator",
    "stream-plan": "a plan of a running count",
    "stream-release": "answers of a running count so far",
    _SECRET: "a running stream: SECRET, as private as the data; never publish or share it",
    "plans": "several plans under one budget",
    "release": "a release: answers that can be used again",
    "values-plan": "a plan that tells the values of a column that nobody listed",
    "open": "a plan that tells values nobody listed, and tables over them, under one budget",
    "open-release": "a release over values that were told: answers that can be used again",
    "estimate": "estimates from people's reports",
    "learning-plan": "a plan to learn or to refute a class of concepts without a curator",
    "selection": "a selection under way, from people's randomised bits",
    **_SEARCHES,
}


@click.command()
@click.argument("file", type=FILE)
@json_option
def show(file: str, as_json: bool) -> None:
    """Say what FILE is: a plan, a release, answers, a record, a schema, questions, an aggregate.

    Nothing is spent. A plan says what it would spend, a release and a record what was spent.
    """
    facts = description(Path(file))
    if as_json:
        print_json(facts)
        return

    tables = facts.pop("tables", [])
    # what the other lines say, for whoever reads the record alone
    facts.pop("statement", None)
    lines = [
        (name.replace("_", " "), _text(_worded(name, value)))
        for name, value in facts.items()
    ]
    print_table(file, ["", ""], [line for line in lines if line[1]])
    if tables:
        names = list(tables[0])
        rows = [[table[name] for name in names] for table in tables[:SHOWN]]
        more = len(tables) - len(rows)
        print_table("", names, rows, f"and {more:,} more" if more > 0 else "")


def description(path: Path) -> dict[str, Any]:
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


def _ledger(path: Path) -> dict[str, Any]:
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


def _container(path: Path) -> dict[str, Any]:
    import noisewright as nw
    from noisewright import container
    from noisewright.learn import LearningPlan, Selection
    from noisewright.planning.release import Release
    from noisewright.planning.rows.covariance import CovarianceRelease
    from noisewright.planning.rows.pairs import PairsRelease
    from noisewright.planning.streams.running import RunningStream, StreamRelease

    kind, version = container.kind_of(path)
    facts: dict[str, Any] = {
        "kind": kind,
        "what": _WORDS.get(kind, ""),
        "version": version,
    }
    if kind in _SEARCHES:
        return facts
    if kind == _SECRET:
        return facts | _running(path)

    content = nw.load(path)
    if isinstance(content, StreamRelease):
        return facts | _stream(content)
    if isinstance(content, LearningPlan | Selection):
        return facts | content.summary()
    if isinstance(content, CovarianceRelease | PairsRelease):
        return facts | content.metadata

    assert not isinstance(content, RunningStream)
    more = _release(content) if isinstance(content, Release) else _plan(content)
    return facts | more


def _running(path: Path) -> dict[str, Any]:
    """What is public of a running stream, and whether it can go on from this state."""
    from noisewright.planning.files import stored_stream

    release, place, latest = stored_stream(path)
    state = "the latest; `nw.load` goes on from it"
    if not latest:
        state = (
            "not where the position is: older, or of another disk; it does not go on"
        )

    return {"position": place, "state": state, **_stream(release)}


def _stream(release: StreamRelease) -> dict[str, Any]:
    record = dict(release.metadata)
    facts = {name: record.pop(name) for name in ("privacy", "spend")}
    figures: dict[str, Any] = {"answered": len(release)}
    if len(release):
        figures |= {
            "latest_answer": float(release.answers[-1]),
            "std_error": release.std[-1],
        }

    return {
        **facts,
        **figures,
        **{n: v for n, v in record.items() if n not in (*_FORM, "statement")},
    }


def _plan(plan: Plan) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "privacy": plan.privacy.to_dict(),
        "spend": plan.spend.to_dict(),
    }
    facts |= {
        name: value for name, value in plan.summary().items() if name not in facts
    }
    errors = getattr(plan, "table_errors", None)
    if errors is not None and (plan.model == "central" or facts.get("people")):
        names = ("name", "queries", "rmse", "max")
        facts["tables"] = [{n: getattr(row, n) for n in names} for row in errors()]

    return facts


def _release(release: Release) -> dict[str, Any]:
    record = dict(release.metadata)
    facts = {name: record.pop(name, None) for name in ("privacy", "spend")}
    facts["answers"] = len(release)
    facts |= {name: value for name, value in record.items() if name not in _FORM}
    tables = [
        {"name": t.name, "queries": t.queries, "unit": t.unit} for t in release.tables
    ]

    return {**facts, "tables": tables}


def _record(path: Path) -> dict[str, Any]:
    from noisewright.planning.release import read_record, spendings

    entries = read_record(path)
    latest = dict(entries[-1])
    kind = {"kind": "record", "what": "what was spent on the answers beside it"}
    times = {"entries": len(entries), "times_spent": spendings(entries)}

    return {**kind, "version": latest.pop("version", None), **times, **latest}


def _answers(path: Path) -> dict[str, Any]:
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


def _yaml(path: Path) -> dict[str, Any]:
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


def _worded(name: str, value: Any) -> object:
    """Promises, losses and bounds as people write them."""
    if name == "privacy" and value is not None:
        from noisewright.privacy.promise.budget import Privacy

        return Privacy.from_dict(value).text()

    if name == "spend" and value is not None:
        symbols = {"mu": "μ", "ratio": "ε", "epsilon": "ε", "delta": "δ"}
        return [
            ", ".join(
                f"{symbols[k]} = {v:.6g}" for k, v in loss.items() if k in symbols
            )
            + f" ({loss['loss']})"
            for loss in value["losses"]
        ]

    if name == "bounds":
        return "; ".join(
            f"{bound['class']}: {_text(bound['lower_bound'])} ({_text(bound['ratio'])} ×)"
            for bound in value
        )
    if name == "ledger" and isinstance(value, Mapping) and not value.get("recorded"):
        return value.get("note")

    return value


def _text(value: object) -> str:
    """A fact on one line; empty for what is not known."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{n}: {text}" for n, v in value.items() if (text := _text(v)))
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value[:6])) + (" …" if len(value) > 6 else "")

    return str(value)
