"""`noisewright norm`: the fields scripts rely on, several norms, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisewright import cli


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.main, ["norm", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_json_has_the_fields_scripts_rely_on() -> None:
    code, out, _ = run("prefix:64", "--norm", "2", "--json")
    fields = json.loads(out)
    assert code == 0
    assert {
        "workload",
        "queries",
        "size",
        "norm",
        "value",
        "lower_bound",
        "gap",
        "seconds",
    } <= set(fields)
    assert fields["value"] == pytest.approx(2.09986, abs=5e-6)
    assert 0 <= fields["gap"] <= 1e-6


def test_several_norms_make_a_list_or_a_table() -> None:
    code, out, _ = run("ranges:8", "--norm", "2", "--norm", "inf", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["norm"] for row in rows] == [2.0, "inf"]
    code, out, _ = run("ranges:8", "--norm", "2", "--norm", "4", "--norm", "inf")
    assert code == 0
    assert "ranges:8" in out
    assert out.count("converged") == 3


@pytest.mark.parametrize("norm", ["1", "nan", "two"])
def test_bad_norms_exit_with_two(norm: str) -> None:
    code, out, err = run("prefix:8", "--norm", norm)
    assert (code, out) == (2, "")
    assert "norm=" in err


def test_approximate_norms_have_their_own_options() -> None:
    code, out, _ = run("prefix:16", "--entrywise", "0.1", "--shift", "--json")
    fields = json.loads(out)
    assert code == 0
    assert (fields["entrywise"], fields["shift"]) == (0.1, True)
    assert fields["value"] == pytest.approx(0.9493, abs=1.5e-4)
    code, out, _ = run("prefix:8", "--entrywise", "0.1")
    assert code == 0
    assert "every entry within 0.1" in " ".join(out.split())


def test_bounds_are_named() -> None:
    code, out, _ = run("prefix:16", "--json")
    named = {bound["name"]: bound["value"] for bound in json.loads(out)["bounds"]}
    assert code == 0
    assert set(named) == {
        "weighted nuclear norm",
        "Schatten-1",
        "data-independent mechanisms",
    }
    assert named["data-independent mechanisms"] is None
    _, out, _ = run("prefix:16")
    assert re.search(r"1/\(2\s+sinh²\(ε/2\)\)", out)


@pytest.mark.parametrize("kind", ["svg", "png", "html"])
def test_charts_against_norm_and_size(kind: str, tmp_path: Path) -> None:
    by_norm, by_size = tmp_path / f"norm.{kind}", tmp_path / f"size.{kind}"
    code, _, err = run(
        "ranges:8", "--norm", "2", "--norm", "inf", "--chart", str(by_norm)
    )
    assert (code, err) == (0, "")
    code, _, err = run("prefix:4", "prefix:16", "--chart", str(by_size))
    assert (code, err) == (0, "")
    assert by_norm.stat().st_size > 1000
    assert by_size.read_bytes() != by_norm.read_bytes()
    if kind == "html":
        assert "cdn.jsdelivr.net" not in by_norm.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--chart", "chart.pdf"], "chart="),
        (["--shift"], "shift="),
        (["--tolerance", "0"], "tolerance="),
        (["--entrywise", "-1"], "entrywise="),
    ],
)
def test_bad_options_exit_with_two(arguments: list[str], name: str) -> None:
    code, out, err = run("prefix:8", *arguments)
    assert (code, out) == (2, "")
    assert name in err
