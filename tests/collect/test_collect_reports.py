"""Reports in, counted once, and estimates out, over SQLite."""

from __future__ import annotations

import numpy as np
import pytest

from collect.collector import campaign, running, submission
from noisewright.errors import NoisewrightError
from noisewright.local.reports.aggregate import Aggregate


def test_reports_come_in_and_estimates_come_out(tmp_path):
    with running(str(tmp_path / "c.db"), campaign()) as collector:
        assert collector.figures()["answers"] is None
        plan = collector.campaign.plan
        reports = [bytes(row) for row in plan.client.randomize_many(np.arange(60) % 12)]
        for report in reports:
            answer = collector.send(submission(report))
            assert (answer.status_code, answer.json()) == (201, {"status": "accepted"})
        figures = collector.figures()
        assert figures["people"] == 60
        expected = plan.estimate(reports)
        assert figures["answers"]["answer"] == expected.answers.tolist()
        assert figures["answers"]["lower"] == expected.intervals.each[0].tolist()
        kept = collector.http.get(
            "/api/campaigns/travel/statistics.agg", headers=collector.admin
        ).content
        assert (
            Aggregate.from_bytes(kept, plan.format).tally == expected.measurement.tally
        ).all()


def test_a_retry_is_counted_once(tmp_path):
    with running(str(tmp_path / "c.db"), campaign()) as collector:
        body = submission(collector.report())
        answers = [collector.send(body).json()["status"] for _ in range(3)]
        assert answers == ["accepted", "repeated", "repeated"]
        assert collector.figures()["people"] == 1


@pytest.mark.parametrize("keep", [True, False])
def test_reports_lie_in_another_order_than_they_came(tmp_path, keep):
    with running(str(tmp_path / "c.db"), campaign(keep_reports=keep)) as collector:
        sent = [collector.report(cell % 12) for cell in range(40)]
        for report in sent:
            assert collector.send(submission(report)).status_code == 201
        kept = list(collector.store.reports(collector.campaign))
        if keep:
            assert sorted(kept) == sorted(sent)
            # twelve reports, forty places: the same order has chance 10^-30
            assert kept != sent
        else:
            assert kept == []
        assert collector.figures()["people"] == 40
        assert collector.send(submission(sent[0])).json()["status"] == "accepted"


def test_a_published_campaign_never_changes(tmp_path):
    with running(str(tmp_path / "c.db"), campaign()) as collector:
        assert collector.store.publish(campaign()).number == collector.campaign.number
        for changed in (campaign(title="Something else"), campaign("hadamard")):
            with pytest.raises(NoisewrightError, match="never change"):
                collector.store.publish(changed)


def test_invitations_are_burnt_once(tmp_path):
    with running(str(tmp_path / "c.db"), campaign(invitations=True)) as collector:
        address = "/api/campaigns/travel/invitations"
        made = collector.http.post(address, json={"count": 2}, headers=collector.admin)
        first, second = made.json()["tokens"]
        body = submission(collector.report(), token=first)
        assert collector.send(submission(collector.report())).status_code == 403
        assert (
            collector.send(submission(collector.report(), token="x" * 22)).status_code
            == 403
        )
        assert collector.send(body).status_code == 201
        # a retry, although its token is burnt
        assert collector.send(body).status_code == 200
        assert (
            collector.send(submission(collector.report(), token=first)).status_code
            == 403
        )
        assert (
            collector.send(submission(collector.report(), token=second)).status_code
            == 201
        )
        assert collector.figures()["people"] == 2
        rows = collector.store.database.run("SELECT * FROM tokens")
        assert first not in str(rows)
        assert [row[2] for row in rows] == [1, 1]


def test_a_closed_campaign_takes_nothing(tmp_path):
    with running(str(tmp_path / "c.db"), campaign()) as collector:
        assert collector.send(submission(collector.report())).status_code == 201
        closed = collector.http.post(
            "/api/campaigns/travel/close", headers=collector.admin
        )
        assert closed.status_code == 200
        assert collector.send(submission(collector.report())).status_code == 410
        assert collector.figures()["people"] == 1


def test_groups_and_several_campaigns_are_kept_apart(tmp_path):
    with running(str(tmp_path / "c.db"), campaign(groups=5)) as collector:
        other = collector.store.publish(campaign("hadamard", name="other"))
        for cell in range(12):
            assert collector.send(submission(collector.report(cell))).status_code == 201
        report = other.plan.client.randomize(3)
        address = "/api/campaigns/other/reports"
        assert collector.http.post(address, json=submission(report)).status_code == 201
        assert collector.send(submission(report)).json()["error"] == "foreign"
        kept = collector.store.aggregate(collector.campaign)
        assert kept.groups == 5
        assert kept.people == 12
        assert collector.store.aggregate(other).people == 1
