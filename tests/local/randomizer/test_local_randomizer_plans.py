"""Plans of every mechanism: their clients, interpreted, send what the plan collects."""

from __future__ import annotations

import json

import numpy as np
import pytest

import noisewright as nw
from local.randomizer.cases import Stream
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.specification import decode
from noisewright.local.registry import MECHANISMS
from noisewright.local.reports.format import exported

PEOPLE = 2000


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_estimates_from_interpreted_reports_are_right(mechanism):
    """Four cells, the same answers within six standard errors: false alarms below 1e-7 each."""
    asked = "allmarginals:2^2" if mechanism == "union" else "identity:4"
    delta = 1e-6 if MECHANISMS[mechanism].needs_delta else None
    plan = nw.plan(asked, nw.Privacy(1.0, delta), nw.Local(mechanism=mechanism))
    document = exported(plan.format)
    specification = decode(json.dumps(document["specification"]))
    assert document["epsilon"] <= plan.epsilon
    assert document["delta"] <= (delta or 0)
    values = np.arange(PEOPLE) ** 2 % 4  # half of them in cell 0, half in cell 1
    source, header = Stream(mechanism), bytes.fromhex(document["header"])
    reports = [
        header + interpret(specification, int(value), source) for value in values
    ]
    aggregate = plan.aggregate(reports)
    assert aggregate.people == PEOPLE
    truth = plan.workload.matvec(np.bincount(values, minlength=4).astype(float))
    release = plan.estimate(aggregate)
    assert (np.abs(release.answers - truth) <= 6 * release.std + 1e-6).all()
