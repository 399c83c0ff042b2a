"""The same collector over PostgreSQL: several connections, a server that restarts."""

from __future__ import annotations

import secrets
import threading

import pytest

from collect.collector import campaign, running, submission
from collect.served import wait_until
from noisewright.collect.campaign import Outcome, Submission
from noisewright.collect.databases import Unavailable, open_database
from noisewright.collect.service import Settings
from noisewright.collect.store import Store


@pytest.fixture
def address(postgres):
    import psycopg

    name = f"collector_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.address.replace("/postgres", f"/{name}")


def test_reports_are_kept_counted_once_and_exported(address):
    with running(address, campaign(groups=3)) as collector:
        sent = [collector.report(cell % 12) for cell in range(30)]
        bodies = [submission(report) for report in sent]
        assert [collector.send(body).status_code for body in bodies] == [201] * 30
        assert [collector.send(body).status_code for body in bodies] == [200] * 30
        assert collector.figures()["people"] == 30
        assert sorted(collector.store.reports(collector.campaign)) == sorted(sent)


def test_invitations_are_burnt_once(address):
    with running(address, campaign(invitations=True)) as collector:
        token, other = collector.store.invite(collector.campaign.number, 2)
        body = submission(collector.report(), token=token)
        statuses = [collector.send(body).status_code for _ in range(2)]
        again = collector.send(submission(collector.report(), token=token)).status_code
        assert (*statuses, again) == (201, 200, 403)
        assert (
            collector.send(submission(collector.report(), token=other)).status_code
            == 201
        )


def test_workers_that_write_at_once_lose_nothing_and_count_nothing_twice(address):
    """Four connections send the same 200 reports in different orders, in small transactions."""
    first = Store(open_database(address))
    published = first.publish(campaign())
    reports = [
        Submission(
            published,
            "",
            secrets.token_bytes(16),
            published.plan.client.randomize(i % 12),
        )
        for i in range(200)
    ]
    outcomes: list[Outcome] = []

    def work(seed: int) -> None:
        store = Store(open_database(address))
        order = reports[seed * 50 :] + reports[: seed * 50]
        for start in range(0, 200, 7):
            outcomes.extend(store.commit(order[start : start + 7]))
        store.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(Outcome.ACCEPTED) == 200
    assert outcomes.count(Outcome.REPEATED) == 600
    assert first.aggregate(published).people == 200
    assert len(list(first.reports(published))) == 200
    first.close()


def wait_until_taken(collector, body) -> None:
    """Send a report again and again, as a browser does; until it is taken, 503 tells so."""

    def taken() -> bool:
        code = collector.send(body).status_code
        assert code in (200, 201, 503)
        return code != 503

    wait_until(taken, "the database is back")


def test_a_database_that_restarts_is_waited_for(postgres, address):
    with running(address, campaign()) as collector:
        bodies = [submission(collector.report()) for _ in range(3)]
        assert collector.send(bodies[0]).status_code == 201
        postgres.stop()
        try:
            answer = collector.send(bodies[1])
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert "127.0.0.1" not in answer.text
        finally:
            postgres.start()
        wait_until_taken(collector, bodies[1])
        wait_until_taken(collector, bodies[2])
        collector.store.close()
        assert collector.figures()["people"] == 3


def test_an_address_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="postgresql://"):
        open_database("mysql://somewhere/secret")
    unreachable = Settings(database="postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(Unavailable):
        unreachable.open_store().campaigns()
