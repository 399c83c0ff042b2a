"""What the collector refuses, and what it never keeps."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import subprocess
import time
from urllib.request import Request, urlopen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from collect.collector import campaign, encoded, plan_bytes, running, submission
from collect.served import serving, stop, wait_until
from noisewright.collect.campaign import Campaign, Terms
from noisewright.collect.server.door import RateLimit
from noisewright.collect.server.openapi import description
from noisewright.collect.server.serve import prepare
from noisewright.collect.service import Settings
from noisewright.collect.store import key_hash
from noisewright.errors import NoisewrightError

INJECTIONS = [
    "'; DROP TABLE reports; --",
    '" OR 1=1',
    "../../etc/passwd",
    "%2e%2e%2f",
    "\x00",
    "é" * 40,
]
SCHEMATHESIS = shutil.which("schemathesis")
VIEW = [
    ("GET", "/api/campaigns"),
    ("GET", "/api/campaigns/travel/estimates"),
    ("GET", "/api/campaigns/travel/answers.csv"),
    ("GET", "/api/campaigns/travel/statistics.agg"),
    ("GET", "/metrics"),
]
ADMIN = [
    ("POST", "/api/campaigns"),
    ("GET", "/api/campaigns/travel/reports.parquet"),
    ("POST", "/api/campaigns/travel/invitations"),
    ("POST", "/api/campaigns/travel/close"),
]


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    path = tmp_path_factory.mktemp("security") / "c.db"
    with running(str(path), campaign(), most_waiting=50) as made:
        made.path = path
        yield made


def bad_reports(collector):
    """Reports that nobody's device sends, each with the reason it is refused for."""
    report = collector.report()
    yield "malformed", b""
    yield "malformed", report[:-1]
    yield "malformed", report + b"\0"
    yield "malformed", bytes([0xD2]) + report[1:]  # another version
    yield "foreign", report[:1] + bytes(8) + report[9:]
    yield "out_of_range", report[:9] + b"\xff"


def test_reports_that_no_device_sends_are_refused_and_told_apart(collector):
    before = collector.store.aggregate(collector.campaign)
    told = []
    for reason, report in bad_reports(collector):
        answer = collector.send(submission(report))
        assert answer.status_code == 422
        assert answer.json()["error"] == reason
        told.append(reason)
    assert (
        collector.send(submission(collector.report())).status_code == 201
    )  # the writer is through
    after = collector.store.aggregate(collector.campaign)
    added = {r: after.set_aside[r] - before.set_aside[r] for r in after.set_aside}
    assert added == {r: told.count(r) for r in after.set_aside}
    assert after.people == before.people + 1


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'"x"', b"\xff\xfe", b'{"nonce": 1}', b"[" * 200, b"null"],
)
def test_bodies_that_are_no_submission_are_refused(collector, content):
    answer = collector.http.post("/api/campaigns/travel/reports", content=content)
    assert answer.status_code == 422
    assert answer.json()["error"] == "malformed"


def test_unknown_fields_and_wrong_types_are_refused(collector):
    good = submission(collector.report())
    for change in (
        {"address": "x"},
        {"nonce": "short"},
        {"report": 7},
        {"round": "2026-01-01"},
    ):
        assert collector.send(good | change).status_code == 422
    for text in INJECTIONS:
        assert collector.send(good | {"nonce": text}).status_code == 422
        assert collector.send(good | {"token": text}).status_code == 422


def test_long_bodies_are_cut_off_before_they_are_read(collector):
    assert collector.send(submission(bytes(10_000))).status_code == 413
    parts = (b"x" * 1000 for _ in range(100))  # no length announced
    assert (
        collector.http.post("/api/campaigns/travel/reports", content=parts).status_code
        == 413
    )


@pytest.mark.parametrize(
    "text", [*INJECTIONS, "travel/../travel", "TRAVEL", "travel\n"]
)
def test_names_from_anybody_lead_nowhere(collector, text):
    from urllib.parse import quote

    for address in (
        "/api/campaigns/{}",
        "/campaigns/{}",
        "/assets/{}",
        "/api/campaigns/{}/reports",
    ):
        answer = collector.http.get(address.format(quote(text, safe="")))
        home = (
            answer.status_code == 200
            and "A collector of private reports" in answer.text
        )
        # clients themselves make / of some
        assert answer.status_code in (404, 405) or home
        assert text not in answer.text or len(text) < 2
    assert collector.http.get("/assets/../campaign.py").status_code == 404
    assert len(collector.store.campaigns()) == 1


@pytest.mark.parametrize(("method", "path"), ADMIN + VIEW)
def test_nothing_of_the_analyst_is_told_without_a_key(collector, method, path):
    for key in (
        None,
        "",
        "Bearer",
        "Bearer x",
        f"Basic {collector.key}",
        f"Bearer {collector.key}x",
    ):
        headers = {} if key is None else {"authorization": key}
        answer = collector.http.request(method, path, headers=headers)
        assert answer.status_code == 401, key
        assert set(answer.json()) == {"error", "detail"}


def test_every_route_with_a_key_is_listed_above():
    paths = description()["paths"]
    needed = {
        (
            method.upper(),
            path.replace("{name}", "travel").replace("{kind}", "csv"),
        ): levels
        for path, item in paths.items()
        for method, operation in item.items()
        if method != "parameters" and (levels := operation.get("security"))
    }
    assert needed.keys() == {*ADMIN, *VIEW}
    assert {
        place for place, levels in needed.items() if levels == [{"admin": []}]
    } == set(ADMIN)


def test_a_view_key_opens_estimates_and_nothing_else(collector):
    assert collector.send(submission(collector.report())).status_code == 201
    headers = {"authorization": f"Bearer {collector.store.add_key('view')}"}
    for method, path in VIEW:
        wait_until(
            lambda m=method, p=path: (
                collector.http.request(m, p, headers=headers).status_code == 200
            ),
            "a new key is known within a second",
        )
    for method, path in ADMIN:
        answer = collector.http.request(method, path, headers=headers)
        assert answer.status_code == 403, path
        assert answer.json()["error"] == "forbidden"


def test_a_posted_key_opens_a_session_that_looks_and_changes_nothing(collector):
    """The cookie is out of reach of scripts and other sites; it is not the key, and it ends."""
    http = collector.http
    assert http.post("/api/session", json={"key": "not-the-key"}).status_code == 401
    assert http.get("/api/session").json() == {"level": None}
    opened = http.post("/api/session", json={"key": collector.key})
    assert opened.status_code == 201
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/api;" in cookie
    assert collector.key not in str(opened.headers)
    kept = {"cookie": opened.headers["set-cookie"].partition(";")[0]}
    http.cookies.clear()
    assert http.get("/api/session", headers=kept).json() == {"level": "admin"}
    assert http.get("/api/campaigns/travel/estimates", headers=kept).status_code == 200
    assert (
        http.get("/api/campaigns/travel/reports.parquet", headers=kept).status_code
        == 200
    )
    for method, path in ADMIN:
        if method == "POST":
            assert http.request(method, path, headers=kept).status_code == 401, path
    assert http.delete("/api/session", headers=kept).status_code == 204
    assert http.get("/api/campaigns/travel/estimates", headers=kept).status_code == 401
    http.cookies.clear()


def test_a_session_over_https_is_not_sent_without(collector):
    address = "https://testserver/api/session"
    opened = collector.http.post(address, json={"key": collector.key})
    assert "secure" in opened.headers["set-cookie"].lower()
    collector.http.cookies.clear()


def test_sessions_end_by_themselves(collector, monkeypatch):
    from noisewright.collect import store

    secret = collector.store.add_key("view", session=True)
    assert key_hash(secret) in collector.store.levels()
    assert key_hash(secret) not in collector.store.levels(sessions=False)
    later = time.time() + 25 * 3600
    monkeypatch.setattr(store.time, "time", lambda: later)
    assert key_hash(secret) not in collector.store.levels()


def test_counts_of_the_collector_need_a_key_unless_told_not_to(tmp_path):
    with running(str(tmp_path / "c.db"), campaign()) as shut:
        assert shut.http.get("/metrics").status_code == 401
        assert (
            "noisewright_waiting" in shut.http.get("/metrics", headers=shut.admin).text
        )
    with running(str(tmp_path / "d.db"), campaign(), open_metrics=True) as told:
        assert "noisewright_connections" in told.http.get("/metrics").text


def test_keys_are_in_files_for_their_owner_and_never_printed(tmp_path):
    with serving(tmp_path, "--new-view-key") as served:
        log = served.log.read_text()
        for level in ("admin", "view"):
            path = tmp_path / f"collector.{level}-key"
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.name in log
            assert path.read_text().strip() not in log
        stop(served)
        assert served.key == (tmp_path / "collector.admin-key").read_text().strip()
    again = prepare(
        Settings(database=str(tmp_path / "collector.db")),
        None,
        None,
        folder=tmp_path,
        new_keys=["admin"],
    )
    # the first still opens
    assert again.key_files == {"admin": tmp_path / "collector.admin-key-2"}
    nothing = prepare(
        Settings(database=str(tmp_path / "collector.db")), None, None, folder=tmp_path
    )
    assert nothing.key_files == {}


def test_the_description_lists_every_address(collector):
    served = {
        (route.path, method)
        for route in collector.http.app.app.routes
        if isinstance(route, Route)
        and route.path.startswith(("/api", "/health", "/metrics", "/open"))
        for method in route.methods - {"HEAD", "OPTIONS"}
    }
    described = {
        (path, method.upper())
        for path, item in description()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert served == described


def test_pages_and_answers_carry_their_policy(collector):
    for path in (
        "/campaigns/travel",
        "/campaigns/travel/dashboard",
        "/assets/survey.js",
        "/nowhere",
    ):
        headers = collector.http.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers
        assert "access-control-allow-origin" not in headers
    assert (
        collector.http.get("/api/campaigns/travel").headers[
            "access-control-allow-origin"
        ]
        == "*"
    )


def test_texts_of_a_campaign_are_text(tmp_path):
    script = "<script>alert(1)</script>"
    hostile = campaign(
        title=script, introduction=f"{script}\n\n<img src=x onerror=alert(1)>"
    )
    with running(str(tmp_path / "c.db"), hostile) as collector:
        for path in ("/campaigns/travel", "/campaigns/travel/dashboard"):
            page = collector.http.get(path).text
            assert "<script>alert" not in page
            assert "<img" not in page
            assert "&lt;script&gt;" in page


def test_campaigns_are_published_with_a_key_and_never_changed(collector):
    def publish(**terms):
        body = {"terms": terms, "plan": encoded(plan_bytes())}
        return collector.http.post("/api/campaigns", json=body, headers=collector.admin)

    assert publish(name="second", title="Second").status_code == 201
    assert publish(name="second", title="Second").status_code == 201
    assert publish(name="second", title="Changed").status_code == 422
    for name in [*INJECTIONS, "Second", "-a", "a" * 65, "a\n", ""]:
        assert publish(name=name, title="x").status_code == 422
    assert publish(name="third", title="x", unknown=1).status_code == 422
    garbage = {"terms": {"name": "fourth", "title": "x"}, "plan": encoded(b"garbage")}
    answer = collector.http.post(
        "/api/campaigns", json=garbage, headers=collector.admin
    )
    assert answer.status_code == 422
    assert {name for _, name, _ in collector.store.campaigns()} == {"travel", "second"}


def test_plans_that_browsers_cannot_run_are_refused_with_what_they_can(tmp_path):
    import noisewright as nw

    plan = nw.plan("prefix:4", nw.Privacy(1, 1e-6), nw.Local(mechanism="matrix-l2"))
    plan.save(tmp_path / "gaussian.nw")
    with pytest.raises(NoisewrightError, match="matrix-l1"):
        Campaign.published(
            Terms(name="x", title="x"), (tmp_path / "gaussian.nw").read_bytes()
        )
    nw.plan("prefix:4", nw.Privacy(1)).save(tmp_path / "central.nw")
    with pytest.raises(NoisewrightError, match="model local"):
        Campaign.published(
            Terms(name="x", title="x"), (tmp_path / "central.nw").read_bytes()
        )


def test_downloaded_answers_run_in_no_spreadsheet(tmp_path):
    import noisewright as nw

    schema = {
        "reviewed": True,
        "attributes": [
            {"name": "way", "kind": "categorical", "values": ["=1+1", "-5", "bus"]}
        ],
    }
    domain = nw.Domain.from_dict(schema)
    workload = nw.Workload.from_spec({"queries": [{"marginal": "way"}]}, domain)
    plan = nw.plan(workload, nw.Privacy(2), nw.Local(mechanism="randomized-response"))
    plan.save(tmp_path / "plan.nw")
    terms = Terms(name="travel", title="Ways")
    asked = Campaign.published(terms, (tmp_path / "plan.nw").read_bytes())
    with running(str(tmp_path / "c.db"), asked) as collector:
        assert collector.send(submission(collector.report())).status_code == 201
        path = "/api/campaigns/travel/answers.csv"
        rows = collector.http.get(path, headers=collector.admin).text.splitlines()
    ways = [cell for row in csv.reader(rows) for cell in row]
    assert "'=1+1" in ways
    assert "-5" in ways
    assert "=1+1" not in ways


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("nonce", "report", "round", "token", "count", "terms", "plan"), JSON
    ),
)


@settings(max_examples=50)
@given(st.sampled_from(sorted(description()["paths"])), JSON | FIELDS, st.booleans())
def test_any_json_to_any_address_gets_a_described_answer(
    collector, path, document, with_key
):
    """No body brings out an answer that the description does not list, least of all a 500."""
    item = description()["paths"][path]
    address = path.replace("{name}", "travel").replace("{kind}", "csv")
    for method, operation in item.items():
        if method == "parameters" or path.endswith("/close"):
            continue
        headers = collector.admin if with_key else {}
        answer = collector.http.request(method, address, json=document, headers=headers)
        assert str(answer.status_code) in operation["responses"], (
            method,
            path,
            answer.text,
        )
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error", "detail"}


@pytest.mark.slow
@pytest.mark.skipif(SCHEMATHESIS is None, reason="schemathesis is not on the path")
def test_schemathesis_finds_nothing_that_the_description_does_not_say(tmp_path):
    """Requests made from the description, right and wrong, with a key.

    What no schema can say is left out: a report in base64 may still be of no plan.
    """
    with serving(tmp_path) as served:
        done = subprocess.run(
            [
                SCHEMATHESIS, "run", f"{served.address}/openapi.json",
                "--header", f"Authorization: Bearer {served.key}", "--seed", "1",
                "--max-examples", "100", "--exclude-checks", "positive_data_acceptance",
            ],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        log = served.log.read_text()
    assert done.returncode == 0, done.stdout[-5000:]
    assert "unexpected" not in log


def test_too_many_waiting_are_asked_to_come_back(tmp_path):
    with running(str(tmp_path / "c.db"), campaign(), most_waiting=0) as collector:
        answer = collector.send(submission(collector.report()))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1


def test_one_sender_is_slowed_down_and_not_remembered(tmp_path):
    with running(str(tmp_path / "c.db"), campaign(), rate=0.01) as collector:
        answers = [collector.send(submission(collector.report())) for _ in range(14)]
        slow = [a for a in answers if a.status_code == 429]
        assert slow
        assert all(int(a.headers["retry-after"]) >= 1 for a in slow)
    limit = RateLimit(1.0)
    limit.wait("203.0.113.77")
    assert "203.0.113.77" not in repr(vars(limit))
    assert limit._buckets.keys() != {b"203.0.113.77"}
    same = RateLimit(0.01, burst=1)
    assert same.wait("2001:db8::1") == 0
    assert same.wait("2001:db8::2") > 0  # one household


def test_keys_are_kept_as_hashes(collector):
    assert collector.store.levels()[key_hash(collector.key)] == "admin"
    assert collector.key.encode() not in collector.path.read_bytes()


def test_no_row_and_no_log_line_holds_a_sender_or_an_answer(tmp_path):
    """A full run of the real server; then every byte that is left on the disk is looked at."""
    agent, forwarded = "Mozilla/5.0 (Telltale)", "203.0.113.77"
    with serving(tmp_path) as served:
        public = json.load(urlopen(f"{served.address}/api/campaigns/travel"))
        header = bytes.fromhex(public["client"]["header"])
        for outcome in range(12):
            body = json.dumps(submission(header + bytes([outcome]))).encode()
            headers = {
                "content-type": "application/json",
                "user-agent": agent,
                "x-forwarded-for": forwarded,
                "cookie": "who=telltale",
                "referer": "https://example.org/telltale",
            }
            request = Request(
                f"{served.address}/api/campaigns/travel/reports", body, headers
            )
            assert urlopen(request).status == 201
        log = served.log.read_text()
    assert "submit 201" in log
    after_start = log[log.index("INFO") :]
    assert not re.search(r"\d+\.\d+\.\d+\.\d+|Mozilla|elltale|::1", after_start)
    with sqlite3.connect(tmp_path / "collector.db") as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        columns = {
            row[1]
            for t in tables
            for row in database.execute(f"SELECT * FROM pragma_table_info('{t}')")
        }
    database.close()
    assert not any(
        word in str(columns) for word in ("time", "date", "agent", "address")
    )
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        for word in (agent, forwarded, "elltale"):
            assert word.encode() not in content, path.name
    # Answers never arrive, so that none can be kept: what is kept of a person is a report.
    kept = sqlite3.connect(tmp_path / "collector.db")
    assert {len(row[0]) for row in kept.execute("SELECT report FROM reports")} == {
        len(header) + 1
    }
    kept.close()
