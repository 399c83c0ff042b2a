"""What every page has in common: one frame, one stylesheet, one way to fill templates."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

STYLE = "look.css"


@cache
def templates(room: str) -> Environment:
    """The templates of a room, and the frame that all extend: everything filled in is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader(
            [PackageLoader(room, "web"), PackageLoader("noisewright", "web")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset_bytes(room: str, name: str) -> bytes:
    """A style, a script or a picture of a room's pages; the one stylesheet is everybody's."""
    folder = files("noisewright") if name == STYLE else files(room)
    return folder.joinpath("web", name).read_bytes()
