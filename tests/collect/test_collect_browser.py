"""A real browser: the survey, the panel, the report, the dashboard; and nothing from elsewhere."""

from __future__ import annotations

import json
import shutil
from urllib.request import urlopen

import pytest

from collect.served import PATIENCE, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    texts = {"transport": "How did you get here?", "age": "How old are you?"}
    script = (
        "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    )
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, introduction=f"Hello {script}", questions=texts) as running:
        yield running


@pytest.fixture
def page(browser, served):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    opened = context.new_page()
    opened.set_default_timeout(1000 * PATIENCE)
    opened.elsewhere, opened.faults = [], []
    opened.on(
        "request", lambda r: r.url.startswith(served.address) or opened.elsewhere.append(r.url)
    )
    opened.on("pageerror", lambda error: opened.faults.append(str(error)))
    opened.on("console", lambda m: m.type == "error" and opened.faults.append(m.text))
    yield opened
    assert opened.elsewhere == []
    context.close()


def answer(page, transport="bicycle", age="18–64"):
    page.wait_for_selector("#form:not([hidden])")
    page.get_by_label(transport).check()
    page.get_by_label(age).check()


def test_a_person_answers_and_the_analyst_sees_a_report(page, served):
    page.goto(f"{served.address}/campaigns/travel")
    answer(page)
    assert "7.4 times" in page.inner_text("#check")
    page.click("#panel summary")
    announced = json.loads(page.inner_text("#body").split("\n", 1)[1])
    page.click("#hundred")
    assert "101 drawn" in page.inner_text("#drawn")
    with page.expect_request("**/reports") as sent:
        page.click("#send")
    page.wait_for_selector("#done:not([hidden])")
    body = json.loads(sent.value.post_data)
    assert set(body) == {"nonce", "report"}
    assert body["report"] == announced["report"]  # the panel told exactly what was sent
    assert page.evaluate("document.title") == "How do you travel?"
    page.reload()
    page.wait_for_selector("text=has answered already")
    assert page.evaluate("JSON.stringify(localStorage)").count("report") == 0  # nothing is left
    page.goto(f"{served.address}/campaigns/travel/dashboard#{served.key}")
    page.wait_for_selector("#charts figure")
    assert "reports\n1" in page.inner_text("#tiles")
    assert served.key not in page.url
    with page.expect_download() as download:
        page.click("text=Answers, CSV")
    assert "transport" in download.value.path().read_text()
    assert page.faults == []


def test_the_dashboard_asks_for_its_key(page, served):
    page.goto(f"{served.address}/campaigns/travel/dashboard#not-the-key")
    page.wait_for_selector("text=not known here")
    page.fill("#key", served.key)
    page.click("text=Open")
    page.wait_for_selector("#tiles .tile")


def test_the_browser_itself_refuses_a_plan_that_spends_more_than_it_says(page, served):
    honest = json.load(urlopen(f"{served.address}/api/campaigns/travel"))
    law = honest["client"]["specification"]["nodes"][-1]
    law["threshold"] = str(2**64 - 2**40)
    page.route(
        "**/api/campaigns/travel",
        lambda route: route.fulfill(body=json.dumps(honest), content_type="application/json"),
    )
    page.goto(f"{served.address}/campaigns/travel")
    page.wait_for_selector("#check.bad")
    assert "You are not asked anything" in page.inner_text("#check")
    assert page.is_hidden("#form")


def test_a_report_that_is_not_received_is_sent_again_as_it_was(page, served):
    page.goto(f"{served.address}/campaigns/travel")
    answer(page, "bus", "65–120")
    bodies = []
    page.on("request", lambda r: r.method == "POST" and bodies.append(r.post_data))
    page.route("**/reports", lambda route: route.abort(), times=1)
    page.click("#send")
    page.wait_for_selector("#done:not([hidden])")
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
