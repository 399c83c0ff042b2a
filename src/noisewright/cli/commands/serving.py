"""The command that collects: `serve`."""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import FILE
from noisewright.cli.output import print_table

if TYPE_CHECKING:
    from noisewright.collect.campaign import Terms
    from noisewright.collect.store import Level


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
@click.option(
    "--workers", default=1, show_default=True, help="Processes that take reports."
)
@click.option("--campaign", type=FILE, help="Title, questions and terms in YAML.")
@click.option(
    "--name", help="The campaign's name in addresses; by default that of the plan file."
)
@click.option("--title", help="What people read first.")
@click.option(
    "--rate", default=20.0, show_default=True,
    help="Reports a second from one address; 0 limits nobody. Addresses are never kept.",
)  # fmt: skip
@click.option(
    "--proxy", multiple=True, envvar="NOISEWRIGHT_PROXY", metavar="ADDRESS",
    help="Address or network of a proxy whose X-Forwarded-For tells senders apart; may be "
    "repeated. Without it no such header is believed.",
)  # fmt: skip
@click.option(
    "--connections", default=4096, show_default=True,
    help="Connections that one process holds open at most.",
)  # fmt: skip
@click.option(
    "--per-sender",
    default=128,
    show_default=True,
    help="How many of them from one address.",
)
@click.option(
    "--open-metrics", is_flag=True, help="Tell /metrics to whoever asks, without a key."
)
@click.option(
    "--new-key", is_flag=True, help="Make another admin key, in a file of its own."
)
@click.option(
    "--new-view-key", is_flag=True, help="Make a key that opens estimates only."
)
@click.option(
    "--keys", "key_folder", type=click.Path(exists=True, file_okay=False), default=".",
    help="Folder for files of new keys, which only their owner can read; by default this one.",
)  # fmt: skip
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
    proxy: tuple[str, ...],
    connections: int,
    per_sender: int,
    open_metrics: bool,
    new_key: bool,
    new_view_key: bool,
    key_folder: str,
) -> None:
    """Collect private reports from browsers under PLAN, and show estimates as they converge.

    Devices randomise; the server sees reports only. The first start writes an admin key for the
    dashboard into a file. Without a PLAN, campaigns that the database holds are served.

    \b
    Examples:
      noisewright serve survey.nw --title "How do you travel?"
      noisewright serve survey.nw --campaign travel.yaml --workers 2
    """
    from noisewright.errors import InvalidParameter

    try:
        from noisewright.collect.server.serve import prepare, run
        from noisewright.collect.service import Settings
    except ModuleNotFoundError as error:
        raise InvalidParameter(
            "serve",
            error.name,
            "is not installed",
            "pip install 'noisewright[collector]'",
        ) from None

    if workers < 1 or not 0 <= rate < float("inf"):
        raise InvalidParameter(
            "workers, rate", (workers, rate), "must be >= 1 and >= 0"
        )
    if connections < 1 or per_sender < 1:
        raise InvalidParameter("connections", (connections, per_sender), "must be >= 1")

    settings = Settings(
        database=database,
        rate=rate,
        connections=connections,
        connections_a_sender=per_sender,
        proxies=_networks(proxy),
        open_metrics=open_metrics,
    )
    terms = None if plan_file is None else _terms(plan_file, campaign, name, title)
    wanted: dict[Level, bool] = {"admin": new_key, "view": new_view_key}
    prepared = prepare(
        settings,
        plan_file,
        terms,
        folder=Path(key_folder),
        new_keys=[level for level, asked in wanted.items() if asked],
    )
    address = f"http://{host}:{port}"
    rows = [("listening on", address)]
    if prepared.campaign is not None:
        page = f"{address}/campaigns/{prepared.campaign.name}"
        plan = prepared.campaign.plan
        rows += [
            ("survey", page),
            ("dashboard", f"{page}/dashboard"),
            ("every report", f"{plan.privacy.text()}, {plan.mechanism.name}"),
        ]

    rows += [
        (f"new {level} key, in", str(file))
        for level, file in prepared.key_files.items()
    ]
    print_table(
        "Collector", ["", ""], rows, "Ctrl-C ends it; what was acknowledged is kept"
    )
    run(settings, host, port, workers)


def _networks(proxies: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses and networks, one after the other or with commas, refused where they are none."""
    from noisewright.errors import InvalidParameter

    named = [
        part.strip() for each in proxies for part in each.split(",") if part.strip()
    ]
    for each in named:
        try:
            ip_network(each, strict=False)
        except ValueError:
            rule = "is no address or network"
            raise InvalidParameter(
                "proxy", each, rule, "give 127.0.0.1 or 10.0.0.0/8"
            ) from None

    return tuple(named)


def _terms(
    plan_file: str, campaign: str | None, name: str | None, title: str | None
) -> Terms:
    """The declared terms; what is not declared follows from the name of the plan file."""
    from noisewright.collect.campaign import Terms, read_terms

    document: dict[str, object] = {} if campaign is None else read_terms(Path(campaign))
    stem = (
        re.sub(r"[^a-z0-9]+", "-", Path(plan_file).stem.lower()).strip("-")[:64]
        or "survey"
    )
    document = {"name": stem, "title": stem.replace("-", " ").capitalize()} | document
    given = {"name": name, "title": title}

    return Terms.read(
        document | {key: text for key, text in given.items() if text is not None}
    )
