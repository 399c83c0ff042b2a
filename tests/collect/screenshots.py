"""The pages as people see them: `python tests/collect/screenshots.py docs/images`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

import noisewright as nw

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import CHROMIUM, FLAGS
from collect.served import Served, started, stop

SCHEMA = """
reviewed: true
attributes:
  - {name: transport, kind: categorical, values: [on foot, bicycle, bus or train, car]}
  - {name: age, kind: numeric, edges: [0, 18, 40, 65, 120], integer: true}
"""
QUERIES = "queries:\n  - marginal: transport\n  - marginal: age\n  - marginal: [transport, age]\n"
TERMS = {
    "title": "How do you get to work?",
    "introduction": "The city plans its bicycle lanes and buses, and would like to know how people "
    "travel today. Your answer is private: it is randomised on your device.",
    "questions": {
        "transport": "How did you get to work today?",
        "age": "How old are you?",
    },
    "target": 20_000,
    "margins": {"attributes": ["age"], "people": [180_000, 310_000, 290_000, 220_000]},
}
SIZES = {"desktop": (1080, 1400), "phone": (390, 1700)}
PEOPLE = 12_000


def survey_plan() -> nw.LocalPlan:
    domain = nw.Domain.from_yaml(SCHEMA)
    workload = nw.Workload.from_spec(QUERIES, domain)
    return nw.plan(workload, nw.Privacy(2), nw.Local(mechanism="subset-selection"))


def answer(folder: Path, plan: nw.LocalPlan) -> None:
    """People's reports, straight into the database."""
    import secrets

    from noisewright.collect.campaign import Submission
    from noisewright.collect.service import Settings

    rng = np.random.default_rng(1)
    age = rng.choice(4, PEOPLE, p=[0.12, 0.49, 0.3, 0.09])
    likes = np.array([[3, 5, 2, 1], [2, 5, 5, 4], [1, 2, 4, 5], [2, 1, 3, 3]], float)
    likes /= likes.sum(axis=1, keepdims=True)
    transport = (rng.random((PEOPLE, 1)) > np.cumsum(likes[age], axis=1)[:, :3]).sum(
        axis=1
    )
    store = Settings(database=str(folder / "collector.db")).open_store()
    campaign = store.campaign("travel")
    reports = plan.client.randomize_many(4 * transport + age)
    for start in range(0, PEOPLE, 1000):
        part = [bytes(row) for row in reports[start : start + 1000]]
        store.commit(
            [Submission(campaign, "", secrets.token_bytes(16), row) for row in part]
        )
    store.close()


def take(browser: Browser, served: Served, output: Path) -> None:
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(f"{served.address}/campaigns/travel")
            page.get_by_label("bicycle").check()
            page.get_by_label("18–39").check()
            page.click("#panel summary")
            page.click("#hundred")
            page.mouse.move(0, 0)
            page.wait_for_timeout(400)
            shoot(page, output / f"survey-{size}-{scheme}.jpg", whole=True)
            page.goto(f"{served.address}/campaigns/travel/dashboard")
            page.fill("#key", served.key)
            page.click("text=Open")
            page.wait_for_selector("#charts figure")
            shoot(page, output / f"dashboard-{size}-{scheme}.jpg", whole=False)
            context.close()


def shoot(page: Page, path: Path, whole: bool) -> None:
    page.screenshot(path=path, type="jpeg", quality=65, full_page=whole)


def main(output: Path) -> None:
    import yaml

    plan = survey_plan()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan.save(folder / "travel.nw")
        (folder / "travel.yaml").write_text(yaml.safe_dump(TERMS))
        options = ["--campaign", str(folder / "travel.yaml"), "--rate", "0"]
        served = started(folder, folder / "travel.nw", *options)
        try:
            answer(folder, plan)
            request = Request(
                f"{served.address}/api/campaigns/travel/estimates",
                headers={"authorization": f"Bearer {served.key}"},
            )
            assert json.load(urlopen(request))["people"] == PEOPLE
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=CHROMIUM, args=FLAGS
                )
                take(browser, served, output)
                browser.close()
        finally:
            stop(served)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
