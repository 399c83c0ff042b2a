"""The description of the collector's addresses in OpenAPI 3.1, from the types that are decoded."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import msgspec

from noisewright import __version__
from noisewright.collect.campaign import Terms
from noisewright.collect.server.door import Body
from noisewright.collect.server.routes import COOKIE, Entrance, Invitations, Publication
from noisewright.collect.store import Level

Node: TypeAlias = dict[str, Any]
"""A part of the document: plain values by name, as OpenAPI nests them."""
_NAME = r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$"
_SECURITY: dict[Level, list[dict[str, list[str]]]] = {
    "admin": [{"admin": []}],
    "view": [{"admin": []}, {"view": []}, {"session": []}],
}
_SCHEMES = {
    "admin": {"type": "http", "scheme": "bearer", "description": "An admin key."},
    "view": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key that opens estimates.",
    },
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


@cache
def description() -> Node:
    """The whole document."""
    kinds = (Body, Publication, Invitations, Entrance, Terms)
    _, schemas = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas["Publication"]["properties"]["terms"] = {
        "$ref": "#/components/schemas/Terms"
    }
    schemas["Error"] = {
        "type": "object",
        "required": ["error", "detail"],
        "properties": {"error": {"type": "string"}, "detail": {"type": "string"}},
    }

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "noisewright collector",
            "version": __version__,
            "description": "Private reports in, estimates out. No address knows an answer.",
        },
        "paths": _paths(),
        "components": {"schemas": schemas, "securitySchemes": _SCHEMES},
    }


def _paths() -> Node:
    paths = {**_of_devices(), **_of_analysts(), **_of_machines()}
    for path, item in paths.items():
        if "{name}" in path:
            name = {"type": "string", "pattern": _NAME}
            item["parameters"] = [_in_path("name", name)]
        if "{kind}" in path:
            kinds = {"type": "string", "enum": ["csv", "parquet"]}
            item["parameters"].append(_in_path("kind", kinds))

    return paths


_CAMPAIGN = "/api/campaigns/{name}"
_EXISTS = {404: "no campaign"}


def _of_devices() -> Node:
    taken = {
        201: "on the disk",
        200: "was on the disk",
        403: "no invitation",
        404: "no campaign",
        410: "closed",
        413: "too long",
        429: "too fast",
        503: "come again",
    }
    told = _operation("All that a device needs.", {200: "the campaign", **_EXISTS})
    summary = "Send one report. Sent again with the same nonce it is counted once."
    sent = _operation(summary, taken, Body)

    return {_CAMPAIGN: {"get": told}, f"{_CAMPAIGN}/reports": {"post": sent}}


def _of_analysts() -> Node:
    summary = "Publish a plan; the same one again is no news."
    published = _operation(summary, {201: "published"}, Publication, level="admin")
    listed = _operation("Names of all campaigns.", {200: "names"}, level="view")
    tokens = {201: "tokens", **_EXISTS, 413: "too long"}
    invited = _operation("New one-time tokens.", tokens, Invitations, level="admin")
    closed = _operation("No more.", {200: "done", **_EXISTS}, level="admin")
    reports = _figures("Reports, shuffled.", level="admin")

    return {
        "/api/campaigns": {"get": listed, "post": published},
        f"{_CAMPAIGN}/estimates": {"get": _figures("Answers with intervals.")},
        f"{_CAMPAIGN}/answers.{{kind}}": {
            "get": _figures("Answers as a file.", kind=True)
        },
        f"{_CAMPAIGN}/reports.parquet": {"get": reports},
        f"{_CAMPAIGN}/statistics.agg": {"get": _figures("What reports add up to.")},
        f"{_CAMPAIGN}/invitations": {"post": invited},
        f"{_CAMPAIGN}/close": {"post": closed},
        "/api/session": _session(),
    }


def _of_machines() -> Node:
    health = {200: "it does", 503: "hardly"}
    counts = {200: "Prometheus' text"}

    return {
        "/health": {"get": _operation("Whether the worker lives.", health)},
        "/metrics": {"get": _operation("Counts of this worker.", counts, level="view")},
        "/openapi.json": {"get": _operation("This document.", {200: "OpenAPI"})},
    }


def _session() -> Node:
    opened = {201: "a cookie for some hours", 401: "no such key"}
    return {
        "get": _operation("What the session allows.", {200: "a level, or null"}),
        "post": _operation("Open a session for a key.", opened, Entrance),
        "delete": _operation("End the session.", {204: "it is over"}),
    }


def _figures(summary: str, kind: bool = False, level: Level = "view") -> Node:
    answers = {200: "the figures", 404: "no campaign, or no such round"}
    more = {409: "no reports yet"} if kind else {}
    operation = _operation(summary, answers | more, level=level)
    schema = {"type": "string", "maxLength": 100}
    operation["parameters"] = [{"name": "round", "in": "query", "schema": schema}]

    return operation


def _in_path(name: str, schema: Node) -> Node:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _operation(
    summary: str,
    answers: dict[int, str],
    body: type | None = None,
    *,
    level: Level | None = None,
) -> Node:
    told = dict(answers)
    if body is not None:
        told |= {422: "not understood", 413: "too long"}

    if level is not None:
        told |= {401: "no key"}

    if level == "admin":
        told |= {403: "a key that opens estimates only"}

    told.setdefault(503, "come again")
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    responses = {
        str(status): {"description": text}
        | ({"content": error} if status >= 400 else {})
        for status, text in sorted(told.items())
    }
    operation: Node = {"summary": summary, "responses": responses}
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }

    if level is not None:
        operation["security"] = _SECURITY[level]

    return operation
