"""The pages and what they load: templates, the stylesheet of all pages, and three scripts."""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response

from noisewright.collect.campaign import Campaign
from noisewright.collect.server.door import Refusal
from noisewright.collect.service import Service
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
