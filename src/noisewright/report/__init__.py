"""What people see of a release: a self-contained page with charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisewright.modules import make_callable

if TYPE_CHECKING:
    from noisewright.planning.release import Release


def report(release: Release, path: str | Path) -> None:
    """Write a page about a release that opens without a network."""
    from noisewright.files import write_text
    from noisewright.report.page import page

    write_text(path, page(release))


make_callable(__name__, report)
