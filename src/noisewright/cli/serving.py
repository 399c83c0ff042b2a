"""The command that collects: `serve`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.options import FILE
from noisewright.cli.output import print_table

if TYPE_CHECKING:
    from noisewright.collect.campaign import Terms


@click.command()
@click.argument("plan_file", metavar="[PLAN]", type=FILE, required=False)
@click.option("--port", default=8000, show_default=True, help="Where to listen.")
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help="On which address to listen; 0.0.0.0 for all, behind a proxy that speaks HTTPS.",
)  # fmt: skip
@click.option(
    "--database", default="collector.db", show_default=True,
    help="A file (SQLite), or postgresql://…; NOISEWRIGHT_DATABASE keeps a password off the list "
    "of processes.", envvar="NOISEWRIGHT_DATABASE",
)  # fmt: skip
@click.option("--workers", default=1, show_default=True, help="Processes that take reports.")
@click.option("--campaign", type=FILE, help="Title, questions and terms in YAML.")
@click.option("--name", help="The campaign's name in addresses; by default that of the plan file.")
@click.option("--title", help="What people read first.")
@click.option(
    "--rate", default=20.0, show_default=True,
    help="Reports a second from one address; 0 limits nobody. Addresses are never kept.",
)  # fmt: skip
@click.option("--new-key", is_flag=True, help="Make another admin key, and print it once.")
def serve(
    plan_file: str | None,
    port: int,
    host: str,
    database: str,
    workers: int,
    campaign: str | None,
    name: str | None,
    title: str | None,
    rate: float,
    new_key: bool,
) -> None:
    """Collect private reports from browsers under PLAN, and show estimates as they converge.

    Devices randomise; the server sees reports only. The first start prints an admin key for the
    dashboard. Without a PLAN, campaigns that the database holds are served.

    \b
    Examples:
      noisewright serve survey.nw --title "How do you travel?"
      noisewright serve survey.nw --campaign travel.yaml --workers 2
    """
    from noisewright.errors import InvalidParameter

    try:
        from noisewright.collect.serve import prepare, run
        from noisewright.collect.service import Settings
    except ModuleNotFoundError as error:
        raise InvalidParameter(
            "serve", error.name, "is not installed", "pip install 'noisewright[collector]'"
        ) from None

    if workers < 1 or not 0 <= rate < float("inf"):
        raise InvalidParameter("workers, rate", (workers, rate), "must be >= 1 and >= 0")
    settings = Settings(database=database, rate=rate)
    terms = None if plan_file is None else _terms(plan_file, campaign, name, title)
    prepared = prepare(settings, plan_file, terms, new_key=new_key)
    address = f"http://{host}:{port}"
    rows = [("listening on", address)]
    if prepared.campaign is not None:
        page = f"{address}/campaigns/{prepared.campaign.name}"
        plan = prepared.campaign.plan
        rows += [
            ("survey", page),
            ("dashboard", f"{page}/dashboard" + (f"#{prepared.key}" if prepared.key else "")),
            ("every report", f"{plan.privacy.text()}, {plan.mechanism}"),
        ]
    if prepared.key is not None:
        rows.append(("admin key, shown once", prepared.key))
    print_table("Collector", ["", ""], rows, "Ctrl-C ends it; what was acknowledged is kept")
    run(settings, host, port, workers)


def _terms(plan_file: str, campaign: str | None, name: str | None, title: str | None) -> Terms:
    """The declared terms; what is not declared follows from the name of the plan file."""
    from noisewright.collect.campaign import Terms, read_terms

    document: dict[str, Any] = {} if campaign is None else read_terms(Path(campaign))
    stem = re.sub(r"[^a-z0-9]+", "-", Path(plan_file).stem.lower()).strip("-")[:64] or "survey"
    document = {"name": stem, "title": stem.replace("-", " ").capitalize()} | document
    given = {"name": name, "title": title}
    return Terms.read(document | {key: text for key, text in given.items() if text is not None})
