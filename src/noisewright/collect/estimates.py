"""What the analyst sees: answers with intervals, how they converge, whether to trust them."""

from __future__ import annotations

import numpy as np

from noisewright.collect.campaign import Campaign
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.analysis import influence
from noisewright.local.analysis.goodness import Fit, goodness_of_fit
from noisewright.local.reports.aggregate import Aggregate
from noisewright.planning.release import Release

_MOST_SHOWN = 400  # answers on the dashboard; all of them are in its file
_CURVE = 24  # numbers of people at which errors are told


def dashboard_figures(campaign: Campaign, aggregate: Aggregate) -> dict[str, object]:
    """The dashboard's figures, ready for JSON: statistics in, no single report."""
    people = aggregate.people
    document: dict[str, object] = {
        "name": campaign.name,
        "title": campaign.terms.title,
        "closed": campaign.closed,
        "round": aggregate.round or "",
        "people": people,
        "target": campaign.terms.target,
        "set_aside": dict(aggregate.set_aside),
        "mechanism": campaign.plan.mechanism.name,
        "epsilon": campaign.plan.epsilon,
        "spends_at_most": campaign.terms.repetition.spent(campaign.plan.epsilon),
        "repetition": campaign.terms.repetition,
        "expected": _expected(campaign, people),
        "answers": None,
    }
    if people:
        release = campaign.plan.estimate(aggregate)
        document["answers"] = _answers(release)
        document["fit"] = _fit(goodness_of_fit(aggregate))
        document["influence"] = _influence(campaign, aggregate)
        document["population"] = _population(campaign, aggregate)

    return document


def _fit(fit: Fit) -> dict[str, object]:
    least = ""
    if fit.least_liars:
        least = f" At least {fit.least_liars:,} were not sent by honest devices."

    known = [test for test in fit.tests if test.p_value is not None]
    rate = f"An alarm is false in at most {fit.level:.1%} of looks at honest reports"

    return {
        "status": fit.status,
        "text": _p_value(fit.p_value, "too few reports yet"),
        "about": f"{rate}; {len(known)} of {len(fit.tests)} tests apply. Lies about an answer that "
        "are randomised honestly cannot be seen.",
        "warning": "These reports do not fit any honest people, whatever their answers are: so bad "
        f"a fit has chance {fit.p_value or 0:.1g} at most.{least} Estimates may be "
        "poisoned, and the intervals do not cover that.",
        "tests": [
            {"name": test.about, "text": _p_value(test.p_value, "not tested")}
            for test in fit.tests
        ],
    }


def _p_value(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"p = {value:.2g}"


def _influence(campaign: Campaign, aggregate: Aggregate) -> dict[str, str] | None:
    """What liars can do at most, in a sentence."""
    try:
        moved = influence(
            campaign.plan.strategy, campaign.plan.plain_workload, aggregate.cap
        )
    except NoisewrightError:
        return None

    most = float(moved.max())
    if not np.isfinite(most):
        text = "One report can move an answer without limit: set a cap in the campaign."
    else:
        hundred = 100 * most / aggregate.people if aggregate.people else 0.0
        text = (
            f"One report moves an answer by at most {most:,.1f} people, whatever it says; a "
            f"hundred liars by {100 * most:,.0f}, {hundred:.2g} times the number of reports."
        )

    invited = campaign.terms.invitations
    once = (
        "Nobody can send more than their invitations"
        if invited
        else "One person can send many"
    )
    wider = "noisewright estimate --liars 0.05 gives answers and limits that hold with 5 % of liars"
    about = f"{once}. {wider}."

    return {"text": text, "about": about}


def _population(campaign: Campaign, aggregate: Aggregate) -> dict[str, object] | None:
    """Answers weighted to the population's public margins, where the campaign has them."""
    margins = campaign.terms.margins
    if margins is None:
        return None

    try:
        return _answers(campaign.plan.estimate(aggregate, margins=margins))
    except NoisewrightError as error:
        return {"refused": str(error)}


def _answers(release: Release) -> dict[str, object]:
    tables = release.tables
    names = np.repeat([t.name for t in tables], [t.queries for t in tables])
    bounds = release.intervals
    columns = {
        "table": names,
        "query": np.array(release.labels, dtype=object),
        "answer": release.answers,
        "std_error": release.std,
        "lower": bounds.each[0],
        "upper": bounds.each[1],
        "lower_all": bounds.all[0],
        "upper_all": bounds.all[1],
    }
    shown = {name: values[:_MOST_SHOWN].tolist() for name, values in columns.items()}

    return {"count": len(release), "shown": min(len(release), _MOST_SHOWN), **shown}


def _expected(campaign: Campaign, people: int) -> dict[str, object] | None:
    """The expected error of an answer, in percent of people, against the number of reports."""
    most = max(campaign.terms.target or 0, 4 * people, 1000)
    counts = np.unique(np.geomspace(max(10, most / 1000), most, _CURVE).astype(int))
    try:
        # In percent of people, for one person; errors fall with the root of their number.
        unit = 100 * campaign.plan.forecast(10_000).rmse / 10_000 * 100
    except NoisewrightError:
        return None

    return {
        "people": counts.tolist(),
        "error": (unit / np.sqrt(counts)).tolist(),
        "unit": unit,
    }
