"""What people see: self-contained pages about plans, releases, estimates, streams and ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisewright.modules import make_callable

if TYPE_CHECKING:
    from noisewright.ledger.book import Ledger
    from noisewright.planning.explain import Explanation
    from noisewright.planning.plan import Plan
    from noisewright.planning.release import Release
    from noisewright.planning.running import RunningStream, StreamRelease


def report(
    subject: Release | StreamRelease | RunningStream | Plan | Explanation | Ledger,
    path: str | Path,
) -> None:
    """Write a page that opens without a network: of a release, an estimate, the answers of a
    stream, a plan before anything is spent (what `explain` gives has its runners-up), or a ledger.
    """
    from noisewright.files import write_text

    write_text(path, _page(subject))


def _page(subject: object) -> str:
    from noisewright.errors import InvalidParameter
    from noisewright.ledger.book import Ledger
    from noisewright.planning.explain import Explanation
    from noisewright.planning.plan import Plan
    from noisewright.planning.release import Release
    from noisewright.planning.running import RunningStream, StreamRelease

    if isinstance(subject, RunningStream):
        subject = subject.release  # the answers alone: the stream itself is secret
    if isinstance(subject, StreamRelease):
        from noisewright.report.stream_page import stream_page

        return stream_page(subject)
    if isinstance(subject, Release):
        from noisewright.report.page import page

        return page(subject)
    if isinstance(subject, Ledger):
        from noisewright.report.ledger_page import ledger_page

        return ledger_page(subject)
    if isinstance(subject, Explanation):
        from noisewright.report.plan_page import plan_page

        return plan_page(subject.plan, others=subject.others)
    if isinstance(subject, Plan):
        from noisewright.report.plan_page import plan_page

        return plan_page(subject)
    raise InvalidParameter(
        "subject", type(subject).__name__, "has no page", "give a plan, a release or a ledger"
    )


make_callable(__name__, report)
