"""Two releases of the same table as one, better than either."""

from __future__ import annotations

from dataclasses import replace

from noisewright.central.combined import Combined
from noisewright.central.mechanism import Measurement
from noisewright.central.problem import Proposal
from noisewright.errors import InvalidParameter, require
from noisewright.planning.after.further import Further, further_answers
from noisewright.planning.budgets.spending import LedgerNote
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.release import Release

COMBINED = "two releases combined"  # the state of a plan that is two others
_JOIN = "+"


def combine(first: Release, second: Release, queries: Further | None = None) -> Release:
    """One release from two of the same table: answers weighed by the inverse of their covariance.

    It answers what either was asked, or `queries`; its spending is both of theirs. That the two are
    of the same people is the caller's word; that they are of the same schema, neighbours, dataset
    where a ledger names it, and of different noise is checked.
    """
    mine = first.plan
    theirs = second.plan
    if not isinstance(mine, CentralPlan) or not isinstance(theirs, CentralPlan):
        raise InvalidParameter(
            "release", "estimates", "are merged as aggregates", "merge those"
        )
    if mine.domain != theirs.domain or mine.sizes != theirs.sizes:
        raise InvalidParameter(
            "releases",
            mine.workload.brief(),
            "are over different schemas",
            "combine like with like",
        )

    for plan in (mine, theirs):
        if plan.measures_only is not plan.mechanism:
            raise InvalidParameter(
                "releases",
                plan.mechanism.name,
                "is biased, and is not weighed with others",
                "combine releases without projection",
            )

    _check_rows(mine)
    names = [set((r.identity or "").split(_JOIN)) for r in (first, second)]
    if names[0] & names[1] or "" in names[0] | names[1]:
        raise InvalidParameter(
            "releases",
            first.identity,
            "share a measurement: the same noise twice tells nothing new",
            "ask one of them more with release.answer",
        )

    name = f"{mine.mechanism.name} and {theirs.mechanism.name}"
    both = Combined(mine.mechanism, theirs.mechanism, name=name)
    plan = replace(
        mine,
        workload=mine.workload.joined(theirs.workload),
        proposal=Proposal(both, None, None, "none", COMBINED, mine.privacy.neighbours),
        seconds=0.0,
        asked=None,
        known_accuracy=None,
    )
    measurement = Measurement(parts=(first.measurement, second.measurement))
    identity = _JOIN.join(sorted(names[0] | names[1]))
    time = max(first.time or "", second.time or "") or None
    note = _note(first.ledger, second.ledger)
    whole = Release(plan, measurement, (), identity, time, note)

    return whole if queries is None else further_answers(whole, queries)


def _check_rows(plan: CentralPlan) -> None:
    """Refuse where some rows of a person count and others do not.

    Which rows are kept follows from all columns that were read with them, also for other plans of
    the same reading, so that two releases need not be about the same rows: their truths differ.
    """
    require(
        plan.domain is None or plan.domain.unit is None,
        "releases",
        plan.person,
        "need not be about the same rows of a person, so their answers differ by more than"
        " noise",
        "plan all of it at once, or ask one of them more with release.answer",
    )


def _note(first: LedgerNote | None, second: LedgerNote | None) -> LedgerNote | None:
    """The later entry of a ledger, whose hash covers the other; none unless it has both."""
    if first is None or second is None or first.ledger != second.ledger:
        return None
    if first.dataset != second.dataset:
        raise InvalidParameter(
            "releases",
            [first.dataset, second.dataset],
            "are of different datasets, so of different people",
            "combine releases of one",
        )

    return max(first, second, key=lambda note: note.entry)
