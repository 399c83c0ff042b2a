"""What people see: self-contained pages about plans, releases, estimates, streams and ledgers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewright.display import make_callable

if TYPE_CHECKING:
    from noisewright.learn.plans.outcomes import Outcome
    from noisewright.learn.plans.plan import LearningPlan
    from noisewright.learn.selection.plan import Selected, Selection
    from noisewright.ledger.book import Ledger
    from noisewright.planning.central.choice.explain import Explanation
    from noisewright.planning.central.rehearsal import Rehearsal
    from noisewright.planning.plan import Plan
    from noisewright.planning.release import Release
    from noisewright.planning.rows.covariance import CovarianceRelease
    from noisewright.planning.rows.pairs import PairsRelease
    from noisewright.planning.streams.running import RunningStream, StreamRelease


def report(
    subject: Release
    | StreamRelease
    | RunningStream
    | CovarianceRelease
    | PairsRelease
    | Plan
    | Explanation
    | Rehearsal
    | LearningPlan
    | Selection
    | Outcome
    | Selected
    | Ledger,
    path: str | Path,
) -> None:
    """Write a page that opens without a network: of a release, an estimate, the answers of a
    stream, what was measured of rows, a plan before anything is spent (what `explain` gives has
    its runners-up), a rehearsal, learning and selection with what they found, or a ledger.
    """
    from noisewright.files import write_text

    write_text(path, _page(subject))


def _page(subject: object) -> str:
    from noisewright.errors import InvalidParameter
    from noisewright.learn.plans.outcomes import Outcome
    from noisewright.learn.plans.plan import LearningPlan
    from noisewright.learn.selection.plan import Selected, Selection
    from noisewright.ledger.book import Ledger
    from noisewright.planning.central.choice.explain import Explanation
    from noisewright.planning.central.rehearsal import Rehearsal
    from noisewright.planning.plan import Plan
    from noisewright.planning.release import Release
    from noisewright.planning.rows.covariance import CovarianceRelease
    from noisewright.planning.rows.pairs import PairsRelease
    from noisewright.planning.streams.running import RunningStream, StreamRelease
    from noisewright.report.pages.learning import learning_page, outcome_page
    from noisewright.report.pages.ledger import ledger_page
    from noisewright.report.pages.plan import plan_page
    from noisewright.report.pages.rehearsal import rehearsal_page
    from noisewright.report.pages.release import page
    from noisewright.report.pages.rows import row_page
    from noisewright.report.pages.stream import stream_page

    pages: list[tuple[tuple[type, ...], Callable[[Any], str]]] = [
        # the stream is secret
        ((RunningStream,), lambda stream: stream_page(stream.release)),
        ((StreamRelease,), stream_page),
        ((Release,), page),
        ((CovarianceRelease, PairsRelease), row_page),
        ((Ledger,), ledger_page),
        (
            (Explanation,),
            lambda told: plan_page(told.plan, None, told.why, told.others),
        ),
        ((Rehearsal,), rehearsal_page),
        ((LearningPlan, Selection), learning_page),
        ((Outcome, Selected), outcome_page),
        ((Plan,), plan_page),
    ]

    for kinds, draw in pages:
        if isinstance(subject, kinds):
            return draw(subject)

    raise InvalidParameter(
        "subject",
        type(subject).__name__,
        "has no page",
        "give a plan, a release or a ledger",
    )


make_callable(__name__, report)
