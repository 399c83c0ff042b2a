"""Streams in which people count at several steps: no pattern moves the measurement further."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright.central.stream import Appearances, sensitivity
from noisewright.cli import main
from noisewright.errors import InvalidParameter
from noisewright.norm.exact.prefix import stream_factorization

PRIVACY = nw.Privacy(rho=0.5)
STEPS = 9


def columns(kind: str, band: int) -> np.ndarray:
    """The strategy written out: each column the filter's answer to one person, of length one."""
    factors = stream_factorization(STEPS, kind, band=band)
    c = np.zeros(STEPS)
    c[0] = 1.0
    if kind == "banded":
        c[: factors.band.size] = factors.band[:STEPS]
    else:
        for gain, rate in zip(factors.gains, factors.rates, strict=True):
            c[1:] += gain * rate ** np.arange(STEPS - 1)
    matrix = np.array(
        [[c[i - j] if i >= j else 0.0 for j in range(STEPS)] for i in range(STEPS)]
    )
    lengths = np.linalg.norm(matrix, axis=0)
    return matrix / lengths if kind != "square-root" else matrix / lengths.max()


def patterns(times: int, apart: int) -> list[tuple[int, ...]]:
    return [
        chosen
        for count in range(times + 1)
        for chosen in itertools.combinations(range(STEPS), count)
        if all(b - a >= apart for a, b in itertools.pairwise(chosen))
    ]


KINDS = [
    ("banded", 1),
    ("banded", 2),
    ("banded", 4),
    ("column-normalised", 4),
    ("square-root", 4),
]


@pytest.mark.parametrize(("kind", "band"), KINDS)
def test_every_pattern_of_steps_stays_within_the_sensitivity(
    kind: str, band: int
) -> None:
    matrix = columns(kind, band)
    factors = stream_factorization(STEPS, kind, band=band)
    for times, apart in itertools.product((1, 2, 3, 9), (1, 2, 3, 5)):
        stated = Appearances(times, apart).length(factors)
        moved = [
            np.linalg.norm(matrix[:, list(p)].sum(axis=1))
            for p in patterns(times, apart)
        ]
        assert max(moved) <= stated * (1 + 1e-9)
        if kind == "banded" and band <= apart:  # nothing overlaps: squares add, exactly
            assert stated == pytest.approx(max(moved))
        pairs = (
            (u, v)
            for u in patterns(times, apart)[::3]
            for v in patterns(times, apart)[::5]
        )
        replaced = [
            np.linalg.norm(
                matrix[:, list(u)].sum(axis=1) - matrix[:, list(v)].sum(axis=1)
            )
            for u, v in pairs
        ]
        assert max(replaced) <= np.sqrt(2) * stated * (1 + 1e-9)


def test_noise_is_for_all_steps_of_a_person_together() -> None:
    once = nw.plan(nw.RunningCount(64), PRIVACY)
    often = nw.plan(nw.RunningCount(64, appearances=4, apart=8), PRIVACY)
    assert often.mechanism.factorization.band.size <= 8
    assert often.spend.promise().rho <= PRIVACY.rho
    assert often.mechanism.sensitivity == sensitivity(
        often.mechanism.factorization,
        often.mechanism.grid_bits,
        "add-remove",
        Appearances(4, 8),
    )
    assert often.forecast().rmse > once.forecast().rmse
    # Better than to hide four steps of a person as if they could all be one.
    plain = nw.plan(nw.RunningCount(64), nw.Privacy(rho=0.5 / 16))
    assert often.forecast().rmse < plain.forecast().rmse


def test_appearances_are_kept_with_the_plan(tmp_path: Path) -> None:
    plan = nw.plan(nw.RunningCount(40, appearances=3, apart=10), PRIVACY)
    plan.save(tmp_path / "s.nw")
    loaded = nw.load(tmp_path / "s.nw")
    assert loaded.mechanism.appearances == plan.mechanism.appearances
    assert loaded.mechanism.law == plan.mechanism.law
    assert loaded.cost.plan == plan.cost.plan
    assert (
        loaded.mechanism.mark
        == plan.mechanism.mark
        != nw.plan(nw.RunningCount(40), PRIVACY).mechanism.mark
    )


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="need Gaussian noise"):
        nw.plan(nw.RunningCount(10, appearances=2), nw.Privacy(epsilon=1))
    for given in ({"appearances": 0}, {"apart": 0}, {"appearances": True}):
        with pytest.raises(InvalidParameter, match="must be a whole number >= 1"):
            nw.plan(nw.RunningCount(10, **given), PRIVACY)


def test_no_bound_for_one_appearance_is_held_against_people_who_come_back(
    tmp_path: Path,
) -> None:
    """Neither in the forecast nor in a record, a file, a page or what the command prints."""
    plan = nw.plan(nw.RunningCount(40, appearances=4, apart=8), PRIVACY)
    plan.save(tmp_path / "s.nw")
    stream = plan.start()
    stream.step(3)
    stream.release.save(tmp_path / "s.nwr")

    shown = [
        json.loads(
            CliRunner().invoke(main, ["show", str(tmp_path / name), "--json"]).stdout
        )
        for name in ("s.nw", "s.nwr")
    ]
    for told in (
        plan.forecast().summary(),
        plan.summary(),
        stream.release.metadata,
        *shown,
    ):
        assert told["ratio"] is told["lower_bound"] is told["bound_class"] is None
        assert told["bounds"] == []

    for subject in (plan, stream):
        nw.report(subject, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "No lower bound is known for such answers" in page
        assert "is unavoidable" not in page
    assert "no bound known" in repr(plan.forecast())


def test_who_cannot_come_back_within_the_stream_counts_once() -> None:
    once = nw.plan(
        nw.RunningCount(40), PRIVACY, nw.Stream("column-normalised")
    ).forecast()
    rarely = nw.plan(
        nw.RunningCount(40, appearances=3, apart=40),
        PRIVACY,
        nw.Stream("column-normalised"),
    ).forecast()
    assert rarely.ratio == once.ratio is not None
    assert rarely.bounds == once.bounds
