"""Pages, one kind a file: templates that are filled, everything escaped and nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from noisewright.web import STYLE, asset_bytes, templates

_ROOM = "noisewright.report"
_UNSAID: dict[str, object] = {
    "byline": "",
    "person": None,
    "limits": (),
    "compared": "",
    "drawings": (),
    "heads": (),
    "tables": (),
    "notes": (),
    "runners_up": None,
    "truth": None,
}
"""What a page may be silent about."""


def render(template: str, **values: object) -> str:
    """The page of a template; its one script is named by its hash, and no other may run."""
    script = asset("search.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = templates(_ROOM).get_template(template)
    known = {"style": asset(STYLE), "script": script, "script_hash": f"sha256-{digest}"}

    return page.render(**{**_UNSAID, **values, **known})


def asset(name: str) -> str:
    """A style or a script, to be written into pages."""
    return asset_bytes(_ROOM, name).decode("utf-8")


def record_text(known: Mapping[str, object] | list[object]) -> str:
    """A whole record as text, for machines and whoever reads like one."""
    return json.dumps(known, indent=2, ensure_ascii=False, default=str)
