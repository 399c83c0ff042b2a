"""What people see: self-contained pages about plans, releases, estimates, streams and ledgers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from noisewright.display import make_callable
from noisewright.errors import InvalidParameter

if TYPE_CHECKING:
    from noisewright.learn.outcomes import Outcome
    from noisewright.learn.selection import Selected
    from noisewright.ledger.book import Ledger
    from noisewright.planning.central.comparing import Explanation
    from noisewright.planning.central.rehearsal import Rehearsal
    from noisewright.planning.files import Keepable

PAGES = {
    "planning.release.Release": "release.release_page",
    "planning.streams.StreamRelease": "rows.stream_page",
    "planning.streams.RunningStream": "rows.running_page",
    "planning.central.comparing.Explanation": "plan.explained_page",
    "planning.central.rehearsal.Rehearsal": "plan.rehearsal_page",
    "learn.plans.LearningPlan": "learning.learning_page",
    "learn.selection.Selection": "learning.learning_page",
    "learn.outcomes.Outcome": "learning.outcome_page",
    "learn.selection.Selected": "learning.outcome_page",
    "ledger.book.Ledger": "ledger.ledger_page",
    "planning.plan.Plan": "plan.plan_page",
    "planning.release.Answers": "rows.row_page",
}
"""What draws which kind; a page is imported when something of its kind is at hand."""


def report(
    subject: Keepable | Explanation | Rehearsal | Outcome | Selected | Ledger,
    path: str | Path,
) -> None:
    """Write a page that opens without a network: of a release, an estimate, the answers of a
    stream, what was measured of rows, a plan before anything is spent (what `explain` gives has
    its runners-up), a rehearsal, learning and selection with what they found, or a ledger.
    """
    from noisewright.files import write_text

    write_text(path, _page(subject))


def _page(subject: object) -> str:
    """The page of the nearest kind that has one."""
    for kind in type(subject).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("noisewright.")
        if name in PAGES:
            module, _, draw = PAGES[name].rpartition(".")
            page: str = getattr(import_module(f"{__name__}.pages.{module}"), draw)(
                subject
            )
            return page

    raise InvalidParameter(
        "subject",
        type(subject).__name__,
        "has no page",
        "give a plan, a release or a ledger",
    )


make_callable(__name__, report)
