"""Run the collector: publish a plan, make sure of a key, start the workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from noisewright.collect.application import SETTINGS
from noisewright.collect.campaign import Campaign, Terms
from noisewright.collect.service import Settings


@dataclass(frozen=True)
class Prepared:
    """What is ready to be served, and the key where a new one was made."""

    campaign: Campaign | None
    key: str | None


def prepare(
    settings: Settings, plan: str | Path | None, terms: Terms | None, *, new_key: bool = False
) -> Prepared:
    """Publish the campaign of a plan (the same one again is no news) and make a key if none is."""
    store = settings.open_store()
    try:
        campaign = None
        if plan is not None and terms is not None:
            campaign = store.publish(Campaign.published(terms, Path(plan).read_bytes()))
        key = store.add_admin_key() if new_key or not store.admin_keys() else None
        return Prepared(campaign, key)
    finally:
        store.close()


def run(settings: Settings, host: str, port: int, workers: int) -> None:
    """Serve until told to stop; whatever was acknowledged by then is on the disk."""
    import uvicorn

    os.environ[SETTINGS] = msgspec.json.encode(settings).decode()
    uvicorn.run(
        "noisewright.collect.application:from_environment",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        access_log=False,  # it would hold addresses
        log_level="warning",
        server_header=False,
        date_header=True,
        proxy_headers=True,
        timeout_graceful_shutdown=10,
        timeout_keep_alive=30,
        limit_concurrency=None,
        ws="none",
    )
