"""The collector as an ASGI application: routes, pages, headers, a log without senders."""

from __future__ import annotations

import hashlib
import logging
import os
import resource
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noisewright.collect.campaign import Campaign
from noisewright.collect.server.connections import Places
from noisewright.collect.server.door import (
    Endpoint,
    Ready,
    Refusal,
    answered,
    guarded,
    json,
    json_error,
)
from noisewright.collect.server.openapi import description
from noisewright.collect.server.routes import Routes
from noisewright.collect.service import Service, Settings
from noisewright.web import STYLE, asset_bytes, templates

_ROOM = "noisewright.collect"
_KINDS = {
    "noisewright.js": "text/javascript",
    "survey.js": "text/javascript",
    "dashboard.js": "text/javascript",
    STYLE: "text/css",
    "icon.svg": "image/svg+xml",
}


class Pages:
    """The pages over one service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def home(self, request: Request) -> Response:
        """Where people land without an address."""
        return _page("home.html")

    async def survey(self, request: Request) -> Response:
        """The form of a campaign."""
        campaign = await self._campaign(request)
        return _page("survey.html", campaign=campaign)

    async def dashboard(self, request: Request) -> Response:
        """The analyst's page; its figures need a key, this page does not hold them."""
        campaign = await self._campaign(request)
        return _page("dashboard.html", campaign=campaign)

    async def asset(self, request: Request) -> Response:
        """A script or a style."""
        name = request.path_params["name"]
        if name not in _KINDS:
            raise Refusal(404, "unknown", "there is no such file")

        content = asset_bytes(_ROOM, name)
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"etag": etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)

        return Response(content, headers=headers, media_type=_KINDS[name])

    async def _campaign(self, request: Request) -> Campaign:
        campaign = await self.service.campaign(request.path_params["name"])
        if campaign is None:
            raise Refusal(404, "unknown", "there is no such campaign")
        return campaign


def _page(template: str, **values: object) -> Response:
    html = templates(_ROOM).get_template(template).render(**values)
    headers = {"cache-control": "no-cache"}
    return Response(html, headers=headers, media_type="text/html; charset=utf-8")


SETTINGS = "NOISEWRIGHT_COLLECTOR"
"""Where workers find their settings, as JSON."""

log = logging.getLogger("noisewright.collect")

_CAMPAIGNS = "/api/campaigns/"
_REPORTS = "/reports"
BACKLOG = 256
"""Connections that may wait to be looked at; all of them are accepted at once."""

_OWN_FILES = 128  # the database, its log, libraries, pipes: some forty are seen

# the thread that writes must not keep the one that answers waiting
_SWITCH_SECONDS = 0.001

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"interest-cohort=(), browsing-topics=()"),
]
# Devices on other sites may fetch the specification and send reports: no cookie is ever involved.
_SHARED = [
    (b"access-control-allow-origin", b"*"),
    (b"cross-origin-resource-policy", b"cross-origin"),
]
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type",
    "access-control-max-age": "86400",
}


class Guard:
    """Around everything: security headers, counts and a log line without sender or path.

    Reports are answered here at once: finding their route, and the layers around it, cost more than
    all the rest of taking one.
    """

    def __init__(self, app: ASGIApp, routes: Routes) -> None:
        self.app = app
        self.routes = routes
        self.service = routes.service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        begun = time.perf_counter()
        status = 500
        headers = _HEADERS + _SHARED if _is_shared(scope["path"]) else _HEADERS

        async def guarded_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *headers]
            await send(message)

        name = _reported(scope)
        try:
            if name is None:
                await self.app(scope, receive, guarded_send)
            else:
                scope["endpoint"] = self.routes.submit
                response = await answered(self.routes.take(name, scope, receive))
                if isinstance(response, Ready):
                    status = response.status_code
                    await send(response.start)
                    await send(response.end)
                else:
                    await response(scope, receive, guarded_send)
        except Exception as error:
            log.error("unexpected %s\n%s", type(error).__name__, _code_lines(error))
            if status == 500:
                refusal = Refusal(500, "internal", "something went wrong here")
                await json_error(refusal)(scope, receive, guarded_send)
        finally:
            self.service.counters["requests", str(status)] += 1
            if log.isEnabledFor(logging.INFO):
                place = getattr(scope.get("endpoint"), "__name__", "none")
                took = 1000 * (time.perf_counter() - begun)
                log.info("%s %s %d %.1f ms", scope["method"], place, status, took)


def _reported(scope: Scope) -> str | None:
    """The campaign that a report is sent to, where the request is one."""
    path = scope["path"]
    if (
        scope["method"] == "POST"
        and path.startswith(_CAMPAIGNS)
        and path.endswith(_REPORTS)
    ):
        name = path[len(_CAMPAIGNS) : -len(_REPORTS)]
        return name if "/" not in name else None

    return None


def _is_shared(path: str) -> bool:
    """Whether pages of other sites may read what is there."""
    if path.startswith(_CAMPAIGNS):
        _, slash, rest = path[len(_CAMPAIGNS) :].partition("/")
        return not slash or rest == "reports"
    return path == "/assets/noisewright.js"


def _code_lines(error: Exception) -> str:
    """Where it failed; what failed may quote what somebody sent."""
    return "".join(
        traceback.format_list(traceback.extract_tb(error.__traceback__)[-4:])
    ).rstrip()


async def _preflight(request: Request) -> Response:
    """Tell other sites' pages that they may send reports."""
    return Response(status_code=204, headers=_PREFLIGHT)


async def _no_such_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    name = {404: "unknown", 405: "method"}.get(status, "refused")
    response = json_error(
        Refusal(status, name, "there is nothing here by that method and address")
    )
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)

    return response


def application(settings: Settings, *, own_process: bool = False) -> ASGIApp:
    """The collector over a database."""
    service = Service(settings, own_process)
    routes = Routes(service)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Places]]:
        await service.start()
        yield {"places": service.places}  # where every connection finds them
        await service.stop()

    app = Starlette(
        routes=_addresses(routes, Pages(service)),
        exception_handlers={HTTPException: _no_such_page},
        lifespan=lifespan,
    )
    return Guard(app, routes)


async def _openapi(request: Request) -> Response:
    return json(description())


def _addresses(routes: Routes, pages: Pages) -> list[Route]:
    """What stands at which address."""

    def route(path: str, endpoint: Endpoint, *methods: str) -> Route:
        return Route(path, guarded(endpoint), methods=list(methods or ("GET",)))

    campaign = "/api/campaigns/{name}"
    return [
        Route(campaign, _preflight, methods=["OPTIONS"]),
        Route(f"{campaign}/reports", _preflight, methods=["OPTIONS"]),
        route(f"{campaign}/reports", routes.submit, "POST"),
        route(campaign, routes.public),
        route("/api/campaigns", routes.campaigns, "GET", "POST"),
        route(f"{campaign}/estimates", routes.figures),
        route(f"{campaign}/answers.{{kind}}", routes.answers),
        route(f"{campaign}/reports.parquet", routes.reports),
        route(f"{campaign}/statistics.agg", routes.statistics),
        route(f"{campaign}/invitations", routes.invite, "POST"),
        route(f"{campaign}/close", routes.close, "POST"),
        route("/api/session", routes.session, "GET", "POST", "DELETE"),
        route("/openapi.json", _openapi),
        route("/health", routes.health),
        route("/metrics", routes.metrics),
        route("/", pages.home),
        route("/campaigns/{name}", pages.survey),
        route("/campaigns/{name}/dashboard", pages.dashboard),
        route("/assets/{name}", pages.asset),
    ]


def held_by_files(wanted: int) -> int:
    """How many connections the process may hold open, once it has asked for as many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + BACKLOG + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, soft - BACKLOG - _OWN_FILES)

    return wanted


def from_environment() -> ASGIApp:
    """The application of a worker process."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    log.setLevel(os.environ.get("NOISEWRIGHT_LOG", "WARNING"))
    settings = msgspec.json.decode(os.environ[SETTINGS], type=Settings)
    settings = replace(settings, connections=held_by_files(settings.connections))

    return application(settings, own_process=True)
