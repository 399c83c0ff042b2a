"""Run the collector: publish a plan, make sure of a key, start the workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil
from pathlib import Path

import msgspec

from noisewright.collect.campaign import Campaign, Terms
from noisewright.collect.server.application import BACKLOG, SETTINGS
from noisewright.collect.service import Settings
from noisewright.collect.store import Level, Store
from noisewright.errors import InvalidParameter
from noisewright.files import PRIVATE


@dataclass(frozen=True)
class Prepared:
    """What is ready to be served, and the files of keys that were made."""

    campaign: Campaign | None
    key_files: dict[Level, Path]


def prepare(
    settings: Settings,
    plan: str | Path | None,
    terms: Terms | None,
    *,
    folder: Path,
    new_keys: Sequence[Level] = (),
) -> Prepared:
    """Publish the campaign of a plan (the same one again is no news) and make a key if none is."""
    store = settings.open_store()
    try:
        campaign = None
        if plan is not None and terms is not None:
            campaign = store.publish(Campaign.published(terms, Path(plan).read_bytes()))
        levels = list(new_keys)
        if (
            "admin" not in levels
            and "admin" not in store.levels(sessions=False).values()
        ):
            levels.insert(0, "admin")
        return Prepared(
            campaign, {level: _key_file(store, level, folder) for level in levels}
        )
    finally:
        store.close()


def _key_file(store: Store, level: Level, folder: Path) -> Path:
    """Make a key and write it where only its owner reads it: whatever is printed may be logged."""
    for number in count(1):
        path = folder / f"collector.{level}-key{'' if number == 1 else f'-{number}'}"
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE)
        except FileExistsError:
            continue  # another key, which still opens
        except OSError as error:
            reason = error.strerror or "cannot be written"
            raise InvalidParameter(
                "keys", str(path), f"cannot be written ({reason})"
            ) from None

        with os.fdopen(descriptor, "w") as file:
            file.write(store.add_key(level) + "\n")

        return path
    raise AssertionError("numbers do not end")


def run(settings: Settings, host: str, port: int, workers: int) -> None:
    """Serve until told to stop; whatever was acknowledged by then is on the disk."""
    import uvicorn

    os.environ[SETTINGS] = msgspec.json.encode(settings).decode()
    uvicorn.run(
        "noisewright.collect.server.application:from_environment",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        access_log=False,  # it would hold addresses
        log_level="warning",
        server_header=False,
        date_header=True,
        # bounds and deadlines
        http="noisewright.collect.server.connections:Connection",
        backlog=BACKLOG,
        proxy_headers=False,  # a connection reads them, where it was told of a proxy
        timeout_graceful_shutdown=10,
        timeout_keep_alive=max(1, ceil(settings.patience)),
        ws="none",
    )
