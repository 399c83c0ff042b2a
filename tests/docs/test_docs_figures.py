"""Figures of ours that pages set beside other tools: the code keeps what they claim."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import noisewright as nw
from docs.claims import holds_at_least, holds_at_most

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
SIX = {
    "identity:512": "histogram",
    "prefix:512": "prefix",
    "ranges:512": "ranges",
    "allmarginals:2^9": "all marginals",
    "marginals:2^9:3": "3-way marginals",
    "parity:9:3": "parity 3",
}


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading: workload, then the other columns."""
    part = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(.*?)` \| (.*) \|$", part, re.MULTILINE)
    return {name: columns.split(" | ") for name, columns in rows}


GAUSSIAN = table("Gaussian noise")
PURE = table("Pure ε = 1")
LOCAL = table("Without a curator")


@pytest.mark.parametrize("workload", sorted(GAUSSIAN))
def test_errors_under_gaussian_noise(workload: str) -> None:
    stated, bounds = (column.split(" / ") for column in GAUSSIAN[workload][:2])
    for norm, error, bound in zip((2, float("inf")), stated, bounds, strict=True):
        solved = nw.factorize(workload, norm=norm)
        assert holds_at_most(error, solved.value)
        assert holds_at_least(bound, solved.lower_bound)


@pytest.mark.parametrize("workload", sorted(PURE))
def test_errors_under_pure_noise(workload: str) -> None:
    forecast = nw.plan(workload, nw.Privacy(epsilon=1)).forecast()
    assert holds_at_most(PURE[workload][0], forecast.rmse)
    assert holds_at_least(PURE[workload][-1], forecast.bounds[-1].lower_bound)


@pytest.mark.parametrize(
    ("printed", "value", "most", "least"),
    [
        ("3.279", 3.2799, True, True),
        ("3.279", 3.2815, False, True),
        ("3.279", 3.2779, True, False),
        ("2,022", 2022.9, True, True),
        ("2,022", 2024.0, False, True),
        ("2,022", 2020.9, True, False),
    ],
)
def test_a_claim_holds_to_its_last_digit(
    printed: str, value: float, most: bool, least: bool
) -> None:
    assert holds_at_most(printed, value) is most
    assert holds_at_least(printed, value) is least


@pytest.mark.parametrize("workload", sorted(SIX))
def test_people_are_those_of_the_rows_that_were_made(workload: str) -> None:
    columns = ("optimised", "lower bound", None, "hadamard (paper)", "hierarchical (paper)",
               "fourier (paper)", "randomized-response (paper)")  # fmt: skip
    with (ROOT / "docs/reproduced/fig1.csv").open(encoding="utf-8") as file:
        rows = {
            row["mechanism"]: float(row["people"])
            for row in csv.DictReader(file)
            if (row["workload"], row["epsilon"]) == (SIX[workload], "1")
            and row["people"]
        }
    for name, stated in zip(columns, LOCAL[workload], strict=True):
        if name is not None:
            assert stated == f"{rows[name]:,.0f}"


def test_streams_are_as_near_their_bound_as_the_page_says() -> None:
    page = (ROOT / "docs/how-to/streams.md").read_text(encoding="utf-8")
    (claim,) = re.findall(
        r"within ([\d.]+) %.*?up to ([\d,]+) steps, and within ([\d.]+) %", page, re.S
    )
    short, longest, long = (
        float(claim[0]),
        int(claim[1].replace(",", "")),
        float(claim[2]),
    )
    for steps in (2, 16, 64, 256, 1000, longest + 1, 4096, 100_000):
        ratio = nw.plan(nw.RunningCount(steps), nw.Privacy(rho=0.1)).forecast().ratio
        assert ratio <= 1 + (short if steps <= longest else long) / 100


def _people() -> dict[tuple[str, float], dict[str, float]]:
    """How many people each mechanism of figure 1 needs, by workload and ε."""
    with (ROOT / "docs/reproduced/fig1.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["people"]]
    people: dict[tuple[str, float], dict[str, float]] = {}
    for row in rows:
        place = people.setdefault((row["workload"], float(row["epsilon"])), {})
        place[row["mechanism"]] = float(row["people"])
    return people


def _over_bounds() -> dict[tuple[str, float], float]:
    """People of ours over those that any unbiased linear estimate needs."""
    return {
        place: told["optimised"] / told["lower bound"]
        for place, told in _people().items()
    }


def _improvements() -> dict[tuple[str, float], float]:
    """People of the best other mechanism of [003] over those of ours, by workload and ε."""
    return {
        place: min(
            n
            for name, n in told.items()
            if name.endswith("(paper)") or "matrix" in name
        )
        / told["optimised"]
        for place, told in _people().items()
    }


def test_improvements_over_other_mechanisms_are_those_of_the_rows() -> None:
    """Of the front page at ε = 1, and of the page on the rows over all of them."""
    found = _improvements()
    at_one = [ratio for (_, epsilon), ratio in found.items() if epsilon == 1]
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"needs {min(at_one):.2f} to {max(at_one):.2f} times ours" in front
    near = [ratio for (_, epsilon), ratio in _over_bounds().items() if epsilon == 1]
    assert len(near) == len(at_one) == 7
    said = (
        f"{min(near):.2f} to {max(near):.2f} of the lower bound on the seven workloads"
    )
    assert said in front
    rows = (ROOT / "docs/reproduced/README.md").read_text(encoding="utf-8")
    stated = re.search(r"improvements from ([\d.]+) .*? to ([\d.]+) \(prefix", rows)
    assert stated is not None
    assert stated.groups() == (
        f"{min(found.values()):.2f}",
        f"{max(found.values()):.1f}",
    )
