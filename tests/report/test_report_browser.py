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


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A release with curves, bars, grids and panels."""
    domain = nw.Domain(
        [
            nw.Numeric("age", (0, 18, 30, 45, 65, 100), integer=True),
            nw.Categorical("region", ["north", "a region with rather a long name", "west"]),
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
    import pyarrow as pa

    plan = nw.plan(nw.Workload.from_spec({"queries": spec}, domain), nw.Privacy(rho=0.01))
    path = tmp_path_factory.mktemp("pages") / "release.html"
    nw.report(plan.release(pa.table(table)), path)
    return path


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_release_reads_well_on_any_screen(chromium, written, width, scheme):
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    faults, fetched = [], []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(written.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert fetched == [written.as_uri()]
    assert faults == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst
    assert page.evaluate(SMALLEST) >= 11
    context.close()


def test_tables_are_found_by_their_name_or_a_value(chromium, written):
    page = chromium.new_page()
    page.goto(written.as_uri())
    shown = "document.querySelectorAll('.table-of-answers:not([hidden])').length"
    everything = page.evaluate(shown)
    page.fill("#search", "mean rather")
    assert page.evaluate(shown) == 1
    assert page.inner_text("#matches") == f"1 of {everything} tables"
    page.fill("#search", "")
    assert page.evaluate(shown) == everything
    page.click("#close-all")
    assert page.evaluate("document.querySelectorAll('.table-of-answers[open]').length") == 0
    page.close()
