"""Pages from templates: everything is escaped, and nothing is fetched when a page is opened."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from noisewright.report.numbers import figure, share

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """The page of a template; its one script is named by its hash, and no other may run."""
    style, script = asset("look.css"), asset("search.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = _templates().get_template(template)
    return page.render(**values, style=style, script=script, script_hash=f"sha256-{digest}")


@cache
def asset(name: str) -> str:
    """A style or a script, to be written into pages."""
    return files("noisewright.report").joinpath("web", name).read_text("utf-8")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("noisewright.report", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "share": share}
    return environment
