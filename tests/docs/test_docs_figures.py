"""Figures of ours that pages set beside other tools are those that the code gives."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import noisewright as nw

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
    solved = [nw.factorize(workload, norm=norm) for norm in (2, float("inf"))]
    stated, bounds = GAUSSIAN[workload][:2]
    assert stated == " / ".join(f"{each.value:.4f}" for each in solved)
    assert bounds == " / ".join(f"{each.lower_bound:.4f}" for each in solved)


@pytest.mark.parametrize("workload", ["prefix:64", "ranges:64", "allmarginals:2^8"])
def test_errors_under_pure_noise(workload: str) -> None:
    forecast = nw.plan(workload, nw.Privacy(epsilon=1)).forecast()
    assert PURE[workload][0] == f"{forecast.rmse:.3f}"
    assert PURE[workload][-1] == f"{forecast.bounds[-1].lower_bound:.3f}"


@pytest.mark.parametrize("workload", sorted(SIX))
def test_people_are_those_of_the_rows_that_were_made(workload: str) -> None:
    columns = ("optimised", "lower bound", None, "hadamard (paper)", "hierarchical (paper)",
               "fourier (paper)", "randomized-response (paper)")  # fmt: skip
    with (ROOT / "docs/reproduced/fig1.csv").open(encoding="utf-8") as file:
        rows = {
            row["mechanism"]: float(row["people"])
            for row in csv.DictReader(file)
            if (row["workload"], row["epsilon"]) == (SIX[workload], "1") and row["people"]
        }
    for name, stated in zip(columns, LOCAL[workload], strict=True):
        if name is not None:
            assert stated == f"{rows[name]:,.0f}"
