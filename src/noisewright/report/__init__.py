"""What people see of a release: a self-contained page with charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisewright.modules import make_callable

if TYPE_CHECKING:
    from noisewright.planning.release import Release
    from noisewright.planning.running import RunningStream, StreamRelease


def report(release: Release | StreamRelease | RunningStream, path: str | Path) -> None:
    """Write a page about a release, or the answers of a stream, that opens without a network."""
    from noisewright.errors import InvalidParameter
    from noisewright.files import write_text
    from noisewright.planning.release import Release
    from noisewright.planning.running import RunningStream, StreamRelease
    from noisewright.report.page import page
    from noisewright.report.stream_page import stream_page

    if isinstance(release, RunningStream):
        release = release.release  # the answers alone: the stream itself is secret
    if isinstance(release, StreamRelease):
        write_text(path, stream_page(release))
        return
    if not isinstance(release, Release):
        raise InvalidParameter("release", type(release).__name__, "is no release", "release a plan")

    write_text(path, page(release))


make_callable(__name__, report)
