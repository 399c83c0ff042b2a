"""Privacy says what it promises, and refuses what cannot be promised."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.gaussian import zcdp_epsilon
from noisewright.privacy.promise.budget import Privacy

GOOD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 1}, "pure"),
    ({"epsilon": 0.5, "delta": 1e-9, "neighbours": "replace-one"}, "approximate"),
    ({"rho": 0.1}, "zcdp"),
    ({"rho": np.int64(3)}, "zcdp"),
    ({"epsilon": Fraction(1, 3)}, "pure"),
    ({"rho": np.float32(0.5), "delta": 1e-6}, "zcdp"),
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, r"epsilon must be given unless rho is; give epsilon"),
    ({"epsilon": 0}, r"epsilon=0 must be > 0; common choices"),
    ({"epsilon": -1.5}, r"epsilon=-1.5 must be > 0"),
    ({"epsilon": float("nan")}, r"epsilon=nan must be finite"),
    ({"epsilon": float("inf")}, r"epsilon=inf must be finite"),
    ({"epsilon": 10**400}, r"epsilon=<integer of 1329 bits> must be finite"),
    ({"epsilon": "1"}, r"epsilon='1' must be a number"),
    ({"epsilon": True}, r"epsilon=True must be a number"),
    (
        {"epsilon": 1, "delta": 1},
        r"delta=1 must lie strictly between 0 and 1; leave delta out",
    ),
    ({"epsilon": 1, "delta": 0.0}, r"delta=0.0 must lie strictly between 0 and 1"),
    ({"epsilon": 1, "delta": -1e-9}, r"delta=-1e-09 must lie strictly between 0 and 1"),
    ({"epsilon": 1, "delta": float("nan")}, r"delta=nan must be finite"),
    (
        {"epsilon": 1, "rho": 1},
        r"rho=1 cannot be combined with epsilon; give one of the two",
    ),
    ({"rho": 0}, r"rho=0 must be > 0"),
    ({"delta": 1e-9}, r"epsilon must be given"),
    (
        {"epsilon": 1, "neighbours": "friends"},
        r"neighbours='friends' must be one of add-remove",
    ),
]


@pytest.mark.parametrize(("stated", "kind"), GOOD)
def test_a_guarantee_survives_json(stated: dict[str, Any], kind: str) -> None:
    privacy = Privacy(**stated)
    assert privacy.kind == kind
    restored = Privacy.from_dict(json.loads(json.dumps(privacy.to_dict())))
    assert restored == privacy


def test_a_promise_is_never_rounded_up() -> None:
    third = Privacy(epsilon=Fraction(1, 3)).epsilon  # type: ignore[arg-type]
    assert Fraction(third) <= Fraction(1, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("stated", "message"), BAD)
def test_an_impossible_promise_is_refused(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Privacy(**stated)


def test_foreign_or_contradictory_dictionaries_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="names that no guarantee has"):
        Privacy.from_dict({"epsilon": 1, "seed": 3})
    with pytest.raises(InvalidParameter, match="contradicts the numbers"):
        Privacy.from_dict({"kind": "zcdp", "epsilon": 1})


def test_text_is_for_people() -> None:
    assert Privacy(epsilon=1, delta=1e-9).text() == (
        "ε = 1, δ = 1e-09; neighbours: add or remove one person"
    )
    assert Privacy(epsilon=2, neighbours="replace-one").text() == (
        "ε = 2; neighbours: replace one person"
    )
    stated = Privacy(rho=0.5, delta=1e-6).text()
    assert stated.startswith("ρ = 0.5 (zCDP), which implies ε = ")


def test_implied_epsilon() -> None:
    assert Privacy(epsilon=1).implied_epsilon == 1
    assert Privacy(rho=0.5).implied_epsilon is None
    assert Privacy(rho=0.5, delta=1e-6).implied_epsilon == zcdp_epsilon(0.5, 1e-6)


def test_the_public_name() -> None:
    assert nw.Privacy is Privacy
