"""A small campaign, a collector over it in this process, and requests as devices make them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.testclient import TestClient

import noisewright as nw
from noisewright.collect.campaign import Campaign, Terms
from noisewright.collect.server.application import application
from noisewright.collect.service import Settings
from noisewright.collect.store import Store

SCHEMA = """
reviewed: true
attributes:
  - {name: transport, kind: categorical, values: [walk, bicycle, bus, car]}
  - {name: age, kind: numeric, edges: [0, 18, 65, 120], integer: true}
"""
QUERIES = "queries:\n  - marginal: [transport, age]\n"


@cache
def plan_bytes(mechanism: str = "randomized-response", epsilon: float = 2.0) -> bytes:
    domain = nw.Domain.from_yaml(SCHEMA)
    workload = nw.Workload.from_spec(QUERIES, domain)
    plan = nw.plan(workload, nw.Privacy(epsilon=epsilon), nw.Local(mechanism=mechanism))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.nw"
        plan.save(path)
        return path.read_bytes()


def campaign(mechanism: str = "randomized-response", **terms: object) -> Campaign:
    declared = Terms.read({"name": "travel", "title": "How do you travel?", **terms})
    return Campaign.published(declared, plan_bytes(mechanism))


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def submission(
    report: bytes, nonce: bytes | None = None, **more: object
) -> dict[str, object]:
    fresh = secrets.token_bytes(16) if nonce is None else nonce
    return {"nonce": encoded(fresh), "report": encoded(report), **more}


class Collector:
    """A running collector: a client without a key, one with, and the store behind them."""

    def __init__(
        self, http: TestClient, store: Store, key: str, campaign: Campaign
    ) -> None:
        self.http, self.store, self.key, self.campaign = http, store, key, campaign
        self.admin = {"authorization": f"Bearer {key}"}

    def report(self, cell: int = 0) -> bytes:
        return self.campaign.plan.client.randomize(cell)

    def send(self, body: object) -> object:
        return self.http.post(f"/api/campaigns/{self.campaign.name}/reports", json=body)

    def figures(self, **query: str) -> dict:
        address = f"/api/campaigns/{self.campaign.name}/estimates"
        return self.http.get(address, headers=self.admin, params=query).json()


@contextmanager
def running(database: str, chosen: Campaign, **settings: object) -> Iterator[Collector]:
    configured = Settings(database=database, **{"rate": 0.0, **settings})
    store = configured.open_store()
    published, key = store.publish(chosen), store.add_key("admin")
    with TestClient(application(configured), raise_server_exceptions=True) as http:
        yield Collector(http, store, key, published)
    store.close()
