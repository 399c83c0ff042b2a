"""Pages from templates: everything is escaped, and nothing is fetched when a page is opened."""

from __future__ import annotations

import base64
import hashlib

from noisewright.web import STYLE, asset_bytes, templates

_ROOM = "noisewright.report"


def render(template: str, **values: object) -> str:
    """The page of a template; its one script is named by its hash, and no other may run."""
    script = asset("search.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = templates(_ROOM).get_template(template)
    known = {"style": asset(STYLE), "script": script, "script_hash": f"sha256-{digest}"}
    return page.render(**{"byline": "", **values, **known})


def asset(name: str) -> str:
    """A style or a script, to be written into pages."""
    return asset_bytes(_ROOM, name).decode("utf-8")
