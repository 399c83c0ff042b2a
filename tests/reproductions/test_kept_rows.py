"""Rows that are kept in the documentation are those that the code makes: a cheap part of each.

Whatever is quick is made anew, by the code of the figure, and compared. Searches may end elsewhere
on another processor, and random directions lie otherwise in what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from noisewright.local.mechanism import EFFORT_VARIABLE
from reproductions.run import FIGURES
from reproductions.study import Row, Settings, Study, Value, _text

KEPT = Path(__file__).parents[2] / "docs" / "reproduced"

Key = Mapping[str, Value]

NEAR = {"learning": 0.1, "learning-quick": 0.1}
"""How far rows may be off, as a share: of plans over random directions, and of all others."""
NEARLY = 0.02

CLOSED = ("randomized-response", "hadamard", "matrix-l1", "lower bound of the paper")
SIMPLE = ("no-data", "carry", "laplace-cells")
TERMS = ("√k·diameter/(εN) (paper)", "width/√(kεN) (paper)")

QUICK: dict[str, Callable[[Key], bool]] = {
    "fig1": lambda key: (
        key["epsilon"] == 1
        and key["workload"] == "prefix"
        and key["mechanism"] in CLOSED
    ),
    "fig1-quick": lambda key: (
        key["epsilon"] == 1 and key["mechanism"] in (*CLOSED, "hierarchical")
    ),
    "fig2": lambda key: key["n"] == 8,
    "fig2-quick": lambda key: key["n"] == 8,
    "fig3a": lambda key: (
        key["mechanism"] == "hadamard (paper)" and key["data"] == "worst case"
    ),
    "fig3b-quick": lambda key: key["rows over n"] == 2 and key["start"] == 0,
    "prefix-lp": lambda key: str(key["workload"]) in ("prefix:8", "prefix:32"),
    "prefix-lp-quick": lambda key: str(key["workload"]) in ("prefix:8", "prefix:32"),
    "parity-lp": lambda key: str(key["workload"]) in ("parity:4:<=3", "parity:5:<=3"),
    "parity-lp-quick": lambda key: (
        str(key["workload"]) in ("parity:4:<=3", "parity:5:<=3")
    ),
    "jl": lambda key: key["line"] in TERMS,
    "jl-quick": lambda key: key["people"] == 16 and key["line"] in SIMPLE,
    "thresholds-local": lambda key: key["n"] == 4,
    "thresholds-local-quick": lambda key: key["n"] == 4,
    "learning": lambda key: key["n"] in (4, 8),
    "learning-quick": lambda key: key["n"] == 4,
}
"""Of every file what is made anew; seconds of iterations are another machine's, and fig3b takes
minutes a row."""


class Enough(Exception):
    """Every row that was wanted was made."""


class Anew(Study):
    """The rows that are kept; some of them are made anew and compared."""

    def __init__(
        self, path: Path, keys: tuple[str, ...], quick: Callable[[Key], bool]
    ) -> None:
        super().__init__(path, keys)
        self.quick, self.left = quick, sum(quick(row) for row in self.rows)
        self.near = NEAR.get(path.stem, NEARLY)
        assert self.left

    def row(self, key: Key, compute: Callable[[], Mapping[str, Value]]) -> Row:
        for known in self.rows:
            if all(_text(known[name]) == _text(value) for name, value in key.items()):
                break
        else:
            assert not self.quick(key), dict(key)
            return dict(key)  # of data that is not at hand
        if not self.quick(key):
            return known
        for name, value in compute().items():
            if isinstance(value, float | int):
                assert known[name] == pytest.approx(value, rel=self.near), (
                    dict(key),
                    name,
                )
        self.left -= 1
        if not self.left:
            raise Enough
        return known


@pytest.mark.parametrize("name", sorted(QUICK))
def test_rows_that_are_kept_are_those_that_the_code_makes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(EFFORT_VARIABLE, raising=False)  # as whoever made the rows
    figure = FIGURES[name.removesuffix("-quick")]
    study = Anew(KEPT / f"{name}.csv", figure.keys, QUICK[name])
    settings = Settings(tmp_path, quick=name.endswith("-quick"), paper=True)
    with pytest.raises(Enough):
        figure.compute(study, settings)


def test_every_file_is_made_anew_in_part_but_for_times_and_long_descents() -> None:
    assert {path.stem for path in KEPT.glob("*.csv")} == {*QUICK, "fig3b", "fig3c"}
