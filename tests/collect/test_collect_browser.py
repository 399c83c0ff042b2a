"""A real browser: the survey, the panel, the report, the dashboard; and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from urllib.request import urlopen

import pytest

from browser import CHROMIUM
from collect.served import PATIENCE, serving
from noisewright.web import STYLE, asset_bytes

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Debian's chromium is not installed"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    texts = {"transport": "How did you get here?", "age": "How old are you?"}
    script = (
        "<script>document.title = 'owned'</script>"
        "<img src=x onerror=\"document.title='owned'\">"
    )
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, introduction=f"Hello {script}", questions=texts) as running:
        yield running


@pytest.fixture
def page(chromium, served):
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    opened = context.new_page()
    opened.set_default_timeout(1000 * PATIENCE)
    opened.elsewhere, opened.faults = [], []
    opened.on(
        "request",
        lambda r: r.url.startswith(served.address) or opened.elsewhere.append(r.url),
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


def open_dashboard(page, served):
    page.goto(f"{served.address}/campaigns/travel/dashboard")
    page.fill("#key", served.key)
    page.click("text=Open")


def test_a_person_answers_and_the_analyst_sees_a_report(page, served):
    page.goto(f"{served.address}/campaigns/travel")
    answer(page)
    assert "7.4 times" in page.inner_text("#check")
    assert "at most 88.1 % of the time" in page.inner_text("#check")  # e²/(1 + e²)
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
    # nothing is left
    assert page.evaluate("JSON.stringify(localStorage)").count("report") == 0
    open_dashboard(page, served)
    page.wait_for_selector("#charts figure")
    assert "reports\n1" in page.inner_text("#tiles")
    assert served.key not in page.url
    stored = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"
    assert served.key not in page.evaluate(stored)
    page.reload()  # the session goes on
    page.wait_for_selector("#charts figure")
    with page.expect_download() as download:
        page.click("text=Answers, CSV")
    assert "transport" in download.value.path().read_text()
    assert page.faults == []


def test_a_word_about_missing_answers_goes_once_none_is_missing(page, served):
    page.goto(f"{served.address}/campaigns/travel")
    page.wait_for_selector("#form:not([hidden])")
    page.click("#send")
    assert "every question" in page.inner_text("#told")
    page.get_by_label("bicycle").check()
    assert "every question" in page.inner_text("#told")
    page.get_by_label("18–64").check()
    assert page.inner_text("#told") == ""


def test_the_dashboard_asks_for_its_key(page, served):
    page.goto(f"{served.address}/campaigns/travel/dashboard")
    page.fill("#key", "not-the-key")
    page.click("text=Open")
    page.wait_for_selector("text=not known here")
    page.fill("#key", served.key)
    page.click("text=Open")
    page.wait_for_selector("#tiles .tile")
    page.click("#leave")
    page.wait_for_selector("#entrance:not([hidden])")


def test_the_browser_itself_refuses_a_plan_that_spends_more_than_it_says(page, served):
    honest = json.load(urlopen(f"{served.address}/api/campaigns/travel"))
    law = honest["client"]["specification"]["nodes"][-1]
    law["threshold"] = str(2**64 - 2**40)
    page.route(
        "**/api/campaigns/travel",
        lambda route: route.fulfill(
            body=json.dumps(honest), content_type="application/json"
        ),
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


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pages_fit_a_phone_and_are_used_without_a_mouse(page, served):
    page.goto(f"{served.address}/campaigns/travel")
    page.wait_for_selector("#form:not([hidden])")
    page.keyboard.press("Tab")  # to the first question, whose first answer is
    page.keyboard.press("Space")  # chosen
    page.keyboard.press("ArrowDown")  # and then the second
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens the panel
    assert "bicycle" in page.inner_text("label:has(:checked) >> nth=0")
    page.wait_for_selector("#body")
    assert fits(page)
    page.keyboard.press("Tab")  # the request, which can be scrolled
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # again
    assert "2 drawn" in page.inner_text("#drawn")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # sends
    page.wait_for_selector("#done:not([hidden])")
    open_dashboard(page, served)
    page.wait_for_selector("#charts figure")
    assert fits(page)
    unlabelled = "input:not([id]), select:not([id])"
    assert page.locator(f"#content >> {unlabelled}").count() == 0
    assert page.faults == []


def contrast(first: str, second: str) -> float:
    """The contrast of two colours as the web's accessibility guidelines define it."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_texts_stand_out_from_what_is_behind_them():
    """4.5 to 1 at least, by day and by night."""
    style = asset_bytes("noisewright.collect", STYLE).decode()
    day, night = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part))
        for part in style.split("(prefers-color-scheme: dark)", 1)
    )
    pairs = [
        (text, behind)
        for text in ("ink", "muted", "accent", "good", "bad")
        for behind in ("paper", "wash")
    ]
    pairs += [("on-accent", "accent"), ("ink", "good-wash"), ("ink", "bad-wash")]
    for colours in (day, {**day, **night}):
        for text, behind in pairs:
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
