"""The command that collects: `serve`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import FILE, Sectioned, option, option_group
from noisewright.cli.output import print_table
from noisewright.errors import InvalidParameter

if TYPE_CHECKING:
    from noisewright.collect.campaign import Terms
    from noisewright.collect.service import Settings
    from noisewright.collect.store import Level


@dataclass(frozen=True)
class Listening:
    """Where it listens, and how much of it one sender can take."""

    port: int = option(
        "--port", default=8000, show_default=True, help="Where to listen."
    )
    host: str = option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="On which address to listen; 0.0.0.0 for all, behind a proxy that speaks HTTPS.",
    )
    workers: int = option(
        "--workers", default=1, show_default=True, help="Processes that take reports."
    )
    rate: float = option(
        "--rate",
        default=20.0,
        show_default=True,
        help="Reports a second from one address; 0 limits nobody. Addresses are never kept.",
    )
    proxy: tuple[str, ...] = option(
        "--proxy",
        multiple=True,
        envvar="NOISEWRIGHT_PROXY",
        metavar="ADDRESS",
        help="Address or network of a proxy whose X-Forwarded-For tells senders apart; may be "
        "repeated. Without it no such header is believed.",
    )
    connections: int = option(
        "--connections",
        default=4096,
        show_default=True,
        help="Connections that one process holds open at most.",
    )
    per_sender: int = option(
        "--per-sender",
        default=128,
        show_default=True,
        help="How many of them from one address.",
    )

    def settings(self, database: str, open_metrics: bool) -> Settings:
        """What the collector runs by."""
        from noisewright.collect.service import Settings

        if self.workers < 1 or not 0 <= self.rate < float("inf"):
            given = (self.workers, self.rate)
            raise InvalidParameter("workers, rate", given, "must be >= 1 and >= 0")
        if self.connections < 1 or self.per_sender < 1:
            given = (self.connections, self.per_sender)
            raise InvalidParameter("connections", given, "must be >= 1")

        return Settings(
            database=database,
            rate=self.rate,
            connections=self.connections,
            connections_a_sender=self.per_sender,
            proxies=_networks(self.proxy),
            open_metrics=open_metrics,
        )


@dataclass(frozen=True)
class Survey:
    """What people read."""

    campaign: str | None = option(
        "--campaign", type=FILE, help="Title, questions and terms in YAML."
    )
    name: str | None = option(
        "--name",
        help="The campaign's name in addresses; by default that of the plan file.",
    )
    title: str | None = option("--title", help="What people read first.")

    def terms(self, plan_file: str) -> Terms:
        """The declared terms; what is not declared follows from the name of the plan file."""
        from noisewright.collect.campaign import Terms, read_terms

        stem = re.sub(r"[^a-z0-9]+", "-", Path(plan_file).stem.lower()).strip("-")
        stem = stem[:64] or "survey"
        told = {"name": stem, "title": stem.replace("-", " ").capitalize()}
        declared = {} if self.campaign is None else read_terms(Path(self.campaign))
        given = {"name": self.name, "title": self.title}
        given = {key: text for key, text in given.items() if text is not None}

        return Terms.read(told | declared | given)


@dataclass(frozen=True)
class Keys:
    """Who may see what."""

    open_metrics: bool = option(
        "--open-metrics",
        is_flag=True,
        help="Tell /metrics to whoever asks, without a key.",
    )
    new_key: bool = option(
        "--new-key", is_flag=True, help="Make another admin key, in a file of its own."
    )
    new_view_key: bool = option(
        "--new-view-key", is_flag=True, help="Make a key that opens estimates only."
    )
    key_folder: str = option(
        "--keys",
        type=click.Path(exists=True, file_okay=False),
        default=".",
        help="Folder for files of new keys, which only their owner can read; by default this one.",
    )

    @property
    def wanted(self) -> list[Level]:
        """The levels of the keys to be made."""
        asked: dict[Level, bool] = {"admin": self.new_key, "view": self.new_view_key}
        return [level for level, wanted in asked.items() if wanted]


@click.command(cls=Sectioned)
@click.argument("plan_file", metavar="[PLAN]", type=FILE, required=False)
@click.option(
    "--database", default="collector.db", show_default=True,
    help="A file (SQLite), or postgresql://…; NOISEWRIGHT_DATABASE keeps a password off the list "
    "of processes.", envvar="NOISEWRIGHT_DATABASE",
)  # fmt: skip
@option_group("listening", Listening, "Where it listens")
@option_group("survey", Survey, "What people read")
@option_group("keys", Keys, "Keys")
def serve(
    plan_file: str | None,
    database: str,
    listening: Listening,
    survey: Survey,
    keys: Keys,
) -> None:
    """Collect private reports from browsers under PLAN, and show estimates as they converge.

    Devices randomise; the server sees reports only. The first start writes an admin key for the
    dashboard into a file. Without a PLAN, campaigns that the database holds are served.

    \b
    Examples:
      noisewright serve survey.nw --title "How do you travel?"
      noisewright serve survey.nw --campaign travel.yaml --workers 2
    """
    try:
        from noisewright.collect.server.serve import prepare, run
    except ModuleNotFoundError as error:
        raise InvalidParameter(
            "serve",
            error.name,
            "is not installed",
            "pip install 'noisewright[collector]'",
        ) from None

    settings = listening.settings(database, keys.open_metrics)
    terms = None if plan_file is None else survey.terms(plan_file)
    prepared = prepare(
        settings,
        plan_file,
        terms,
        folder=Path(keys.key_folder),
        new_keys=keys.wanted,
    )
    address = f"http://{listening.host}:{listening.port}"
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
    run(settings, listening.host, listening.port, listening.workers)


def _networks(proxies: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses and networks, one after the other or with commas, refused where they are none."""
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
