"""The description of the collector's addresses in OpenAPI 3.1, from the types that are decoded."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from noisewright import __version__
from noisewright.collect.campaign import Terms
from noisewright.collect.server.door import Body
from noisewright.collect.server.routes import COOKIE, Entrance, Invitations, Publication
from noisewright.collect.store import Level

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
def description() -> dict[str, Any]:
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


def _paths() -> dict[str, Any]:
    one = "/api/campaigns/{name}"
    listed = _operation("Names of all campaigns.", {200: "names"}, level="view")
    published = _operation(
        "Publish a plan; the same one again is no news.",
        {201: "published"},
        Publication,
        level="admin",
    )
    submitted = _operation(
        "Send one report. Sent again with the same nonce it is counted once.",
        {201: "on the disk", 200: "was on the disk", 403: "no invitation", 404: "no campaign",
         410: "closed", 413: "too long", 429: "too fast", 503: "come again"},
        Body,
    )  # fmt: skip
    exists = {404: "no campaign"}
    admin: dict[str, Any] = {
        f"{one}/estimates": {"get": _figures("Answers with intervals.")},
        f"{one}/answers.{{kind}}": {"get": _figures("Answers as a file.", kind=True)},
        f"{one}/reports.parquet": {"get": _figures("Reports, shuffled.", level="admin")},
        f"{one}/statistics.agg": {"get": _figures("What reports add up to.")},
        f"{one}/invitations": {
            "post": _operation(
                "New one-time tokens.", {201: "tokens", **exists, 413: "too long"}, Invitations,
                level="admin",
            ),
        },
        f"{one}/close": {"post": _operation("No more.", {200: "done", **exists}, level="admin")},
    }  # fmt: skip
    paths: dict[str, Any] = {
        "/api/campaigns": {"get": listed, "post": published},
        one: {
            "get": _operation(
                "All that a device needs.", {200: "the campaign", **exists}
            )
        },
        f"{one}/reports": {"post": submitted},
        **admin,
        "/health": {
            "get": _operation(
                "Whether the worker lives.", {200: "it does", 503: "hardly"}
            )
        },
        "/metrics": {
            "get": _operation(
                "Counts of this worker.", {200: "Prometheus' text"}, level="view"
            )
        },
        "/api/session": _session(),
        "/openapi.json": {"get": _operation("This document.", {200: "OpenAPI"})},
    }

    for path, item in paths.items():
        if "{name}" in path:
            item["parameters"] = [
                _in_path("name", {"type": "string", "pattern": _NAME})
            ]
        if "{kind}" in path:
            kinds = {"type": "string", "enum": ["csv", "parquet"]}
            item["parameters"].append(_in_path("kind", kinds))

    return paths


def _session() -> dict[str, Any]:
    opened = {201: "a cookie for some hours", 401: "no such key"}
    return {
        "get": _operation("What the session allows.", {200: "a level, or null"}),
        "post": _operation("Open a session for a key.", opened, Entrance),
        "delete": _operation("End the session.", {204: "it is over"}),
    }


def _figures(summary: str, kind: bool = False, level: Level = "view") -> dict[str, Any]:
    answers = {200: "the figures", 404: "no campaign, or no such round"}
    more = {409: "no reports yet"} if kind else {}
    operation = _operation(summary, answers | more, level=level)
    schema = {"type": "string", "maxLength": 100}
    operation["parameters"] = [{"name": "round", "in": "query", "schema": schema}]
    return operation


def _in_path(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _operation(
    summary: str,
    answers: dict[int, str],
    body: type | None = None,
    *,
    level: Level | None = None,
) -> dict[str, Any]:
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
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }

    if level is not None:
        operation["security"] = _SECURITY[level]

    return operation
