"""Report pages are self-contained, escape what they show, and hold truth only when it is given."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.report.page import page

DOMAIN = nw.Domain(
    [
        nw.Numeric("age", (0, 18, 65, 100), integer=True),
        nw.Categorical("group", ["<script>alert(1)</script>", "b & c"]),
    ]
)
SPEC = {"queries": [{"cdf": "age"}, {"histogram": "group"}, {"marginals": 2}, {"ranges": "age"}]}


class Tags(HTMLParser):
    """Collects the tags and addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href") and v]


@pytest.fixture(scope="module")
def release():
    asked = nw.Workload.from_spec(SPEC, DOMAIN)
    return nw.plan(asked, nw.Privacy(epsilon=1, delta=1e-9)).release(np.arange(6) * 100)


def test_a_page_fetches_nothing_and_escapes_labels(release, tmp_path: Path) -> None:
    nw.report(release, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert "script" not in tags.tags
    assert all(address.startswith("#") for address in tags.addresses)
    assert tags.tags.count("svg") == 3
    assert "&lt;script&gt;" in text


def test_truth_is_shown_only_when_given(release) -> None:
    truth = np.full(len(release), 123456.0)
    assert "Private against true" not in page(release)
    assert "Private against true" in page(release, truth)


def test_a_release_without_attributes_has_a_page_too() -> None:
    plain = nw.plan("prefix:4", nw.Privacy(rho=0.5)).release(np.arange(4))
    text = page(plain)
    assert "ρ = 0.5" in text
    assert "prefix:4" in text
