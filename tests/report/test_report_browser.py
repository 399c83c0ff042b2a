"""Pages in a real browser: nothing fetched, no faults, nothing cut off, text that can be read."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw

CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parsed = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parsed(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1]; };
  const worst = {ratio: 99, text: ""};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (["SCRIPT", "STYLE"].includes(element.tagName)) continue;
    const a = light(parsed(getComputedStyle(element).color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) Object.assign(worst, {ratio, text: walker.currentNode.textContent});
  }
  return worst;
}"""

SMALLEST = """() => Math.min(...[...document.querySelectorAll("span, td, th, p, b, small, dd, dt")]
  .filter((e) => e.checkVisibility() && e.textContent.trim())
  .map((e) => parseFloat(getComputedStyle(e).fontSize)))"""


BROKEN = """() => [...document.querySelectorAll("th, td, dt, .name, .value, .tile b")]
  .filter((e) => e.checkVisibility() && /^[\\w–-]{2,12}$/.test(e.textContent.trim()))
  .filter((e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1; })
  .map((e) => e.textContent.trim())"""

OVERLAPPING = """() => [...document.querySelectorAll("table.answers tr")]
  .filter((row) => row.checkVisibility())
  .filter((row) => [...row.children].some((cell) => cell.scrollWidth > cell.clientWidth + 1))
  .map((row) => row.textContent)"""


SIDEWAYS = """() => [...document.querySelectorAll("*")]
  .filter((e) => getComputedStyle(e).writingMode !== "horizontal-tb").length"""


def _release():
    """A release with curves, bars, grids and panels."""
    import pyarrow as pa

    domain = nw.Domain(
        [
            nw.Numeric("age", (0, 18, 30, 45, 65, 100), integer=True),
            nw.Categorical(
                "region", ["north", "a region with rather a long name", "west"]
            ),
            nw.Categorical("sex", ["f", "m"]),
        ]
    )
    spec = [{"cdf": "age", "by": ["sex"]}, {"histogram": "region"}, {"marginals": 2}]
    spec += [{"mean": "age", "by": ["region"]}, {"marginal": ["age", "region", "sex"]}]
    rng = np.random.default_rng(3)
    codes = rng.integers(0, [80, 3, 2], (20_000, 3))
    values = [domain["region"].labels, domain["sex"].labels]
    table = {
        "age": codes[:, 0],
        "region": [values[0][k] for k in codes[:, 1]],
        "sex": [values[1][k] for k in codes[:, 2]],
    }
    plan = nw.plan(
        nw.Workload.from_spec({"queries": spec}, domain), nw.Privacy(rho=0.01)
    )
    return plan, plan.release(pa.table(table))


def _estimate():
    plan = nw.plan("identity:12", nw.Privacy(epsilon=1), nw.Local(mechanism="hadamard"))
    return plan.estimate(plan.randomize(np.arange(3_000) % 12))


def _stream():
    stream = nw.plan(nw.RunningCount(90), nw.Privacy(rho=0.1)).start()
    for count in range(60):
        stream.step(count)
    return stream


def _ledger(folder):
    ledger = nw.Ledger(folder / "budget.db")
    ledger.create("census", nw.Privacy(epsilon=2))
    plan = nw.plan("total:4", nw.Privacy(epsilon=0.5))
    plan.release(np.arange(4), ledger=ledger, dataset="census@2024")
    return ledger


def _moments():
    plan = nw.plan(nw.Moments([f"measure {k}" for k in range(6)]), nw.Privacy(rho=0.1))
    return plan.release(np.random.default_rng(1).normal(0, 0.3, (2_000, 6)))


def _wide():
    """A grid of more columns than numbers fit in."""
    ages = nw.Numeric("age", tuple(range(0, 91, 3)), integer=True)
    hours = nw.Numeric("hours", tuple(range(0, 91, 3)), integer=True)
    spec = {"queries": [{"marginal": ["age", "hours"]}]}
    plan = nw.plan(
        nw.Workload.from_spec(spec, nw.Domain([ages, hours])), nw.Privacy(rho=0.1)
    )
    return plan.release(np.arange(900))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One page of every kind."""
    folder = tmp_path_factory.mktemp("pages")
    plan, release = _release()
    subjects = {
        "release": release, "plan": plan, "estimate": _estimate(), "stream": _stream(),
        "ledger": _ledger(folder), "moments": _moments(), "wide": _wide(),
        "explanation": nw.explain("prefix:8", nw.Privacy(epsilon=1)),
        "local plan": nw.plan("prefix:6", nw.Privacy(epsilon=1), nw.Local(effort="low")),
        "stream plan": nw.plan(nw.RunningCount(90), nw.Privacy(rho=0.1)),
        "pairs": nw.plan(nw.Pairs(5), nw.Privacy(epsilon=1)).release(np.eye(5)[np.arange(400) % 5]),
        "rehearsal": nw.plan("prefix:8", nw.Privacy(rho=0.1)).simulate(np.arange(8), seed=1),
        "learning": nw.plan(nw.learn.Agnostic("thresholds:4", 0.3, 0.1), nw.Privacy(epsilon=1)),
    }  # fmt: skip
    for name, subject in subjects.items():
        nw.report(subject, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in subjects}


KINDS = (
    "release", "plan", "estimate", "stream", "ledger", "moments", "wide", "explanation",
    "local plan", "stream plan", "pairs", "rehearsal", "learning",
)  # fmt: skip


@pytest.fixture(
    scope="module", params=[(w, s) for w in (1280, 390) for s in ("light", "dark")]
)
def screen(chromium, request):
    """A window of one size by day or by night, without a network."""
    width, scheme = request.param
    size = {"width": width, "height": 800}
    context = chromium.new_context(viewport=size, color_scheme=scheme, offline=True)
    yield width, context.new_page()
    context.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_reads_well_on_any_screen(screen, pages, kind):
    width, page = screen
    faults, fetched = [], []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(pages[kind].as_uri())
    page.evaluate(
        "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )
    assert fetched == [pages[kind].as_uri()]
    assert faults == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst
    assert page.evaluate(SMALLEST) >= 11
    assert page.evaluate(SIDEWAYS) == 0
    # a word of a table is never broken letter by letter
    assert page.evaluate(BROKEN) == []
    assert page.evaluate(OVERLAPPING) == []


def test_a_page_prints_every_table(chromium, pages):
    page = chromium.new_page()
    page.goto(pages["release"].as_uri())
    page.click("#close-all")
    page.pdf()
    closed = "document.querySelectorAll('.table-of-answers:not([open])').length"
    assert page.evaluate(closed) == 0
    page.close()


def test_tables_are_found_by_their_name_or_a_value(chromium, pages):
    page = chromium.new_page()
    page.goto(pages["release"].as_uri())
    shown = "document.querySelectorAll('.table-of-answers:not([hidden])').length"
    everything = page.evaluate(shown)
    page.fill("#search", "mean rather")
    assert page.evaluate(shown) == 1
    assert page.inner_text("#matches") == f"1 of {everything} tables"
    page.fill("#search", "")
    assert page.evaluate(shown) == everything
    page.click("#close-all")
    assert (
        page.evaluate("document.querySelectorAll('.table-of-answers[open]').length")
        == 0
    )
    page.close()


CUT = """() => [...document.querySelectorAll(".plot.scroll")]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.textContent.slice(0, 40))"""

SPLIT = """() => [...document.querySelectorAll("table.grid td, table.answers .number")]
  .filter((e) => e.checkVisibility() && /^[−0-9.,]+[kMG]?$/.test(e.textContent.trim()))
  .filter((e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1; })
  .map((e) => e.textContent.trim())"""


def test_numbers_of_three_way_tables_are_whole(chromium, tmp_path) -> None:
    """Six digits in panels of few and many columns: on one line, and never cut on a desk."""
    import pyarrow as pa

    sizes = {"a": 2, "b": 3, "c": 5, "d": 12}
    labels = {
        name: [f"{name} value {k}" for k in range(size)] for name, size in sizes.items()
    }
    domain = nw.Domain([nw.Categorical(name, own) for name, own in labels.items()])
    asked = [["a", "b", "c"], ["b", "a", "d"], ["a", "c", "d"]]
    workload = nw.Workload.from_spec(
        {"queries": [{"marginal": m} for m in asked]}, domain
    )
    rng = np.random.default_rng(5)
    table = {
        name: np.array(own)[rng.integers(0, len(own), 10**6)]
        for name, own in labels.items()
    }
    path = tmp_path / "three.html"
    nw.report(nw.plan(workload, nw.Privacy(1)).release(pa.table(table)), path)
    for width in (1280, 794, 390):
        page = chromium.new_page(viewport={"width": width, "height": 900})
        page.goto(path.as_uri())
        page.evaluate(
            "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        assert page.evaluate(SPLIT) == []
        assert width < 1280 or page.evaluate(CUT) == []
        page.close()
