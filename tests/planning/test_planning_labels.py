"""What a plan file says of itself: its promise follows from what is drawn, or it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import FileFormatError, InvalidParameter, NoisewrightError
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.storage import pack
from noisewright.local.vector.noisy_columns import VectorStrategy
from noisewright.planning.files import load
from oracles.plan_parts import read_parts, write_parts

PURE = {"kind": "pure", "epsilon": 0.1, "neighbours": "replace-one"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.nw"
    nw.plan("identity:4", nw.Privacy(0.1), nw.Local(mechanism="hadamard")).save(path)
    return path


def rewritten(file: Path, changes: dict[str, Any], strategy: Any = None) -> Any:
    header, arrays = read_parts(file)
    if strategy is not None:
        header["strategy"], own = pack(strategy)
        header["arrays"] = {name: 1000 + k for k, name in enumerate(own)}
        arrays |= {str(1000 + k): array for k, array in enumerate(own.values())}
    write_parts(file, {**header, **changes}, arrays)
    return load(file)


LOUD = RandomizedResponse(4, 10.0)
BARE = VectorStrategy(1000 * np.eye(4, dtype=np.int64), 0.1, 0.999999)


@pytest.mark.parametrize("strategy", [LOUD, BARE], ids=["loud", "bare"])
def test_a_plan_says_what_its_strategy_keeps(file: Path, strategy: Any) -> None:
    plan = rewritten(file, {}, strategy)
    assert plan.privacy.epsilon == strategy.epsilon
    assert (plan.privacy.delta or 0.0) == strategy.delta
    assert plan.record()["privacy"] == plan.privacy.to_dict()


def test_files_hold_no_promise_beside_the_strategy(file: Path) -> None:
    assert "privacy" not in read_parts(file)[0]
    with pytest.raises(FileFormatError, match="privacy"):
        rewritten(file, {"privacy": PURE})


def test_a_pure_mechanism_promises_pure_privacy_whatever_was_asked() -> None:
    plan = nw.plan("identity:4", nw.Privacy(1, 1e-6), nw.Local(mechanism="hadamard"))
    assert plan.privacy == nw.Privacy(1, neighbours="replace-one")
    noisy = nw.plan("identity:4", nw.Privacy(1, 1e-6), nw.Local(mechanism="matrix-l2"))
    assert noisy.privacy == nw.Privacy(1, 1e-6, neighbours="replace-one")


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "prefix:5"},
        {"people": "many"},
        {"people": -3},
        {"alpha": "abc"},
        {"seconds": "abc"},
        {"seconds": float("nan")},
        {"mechanism": 3},
        {"runners_up": "abc"},
        {"runners_up": [3]},
        {"strategy": [1]},
        {"domain": [[]]},
        {"format_version": 99},
    ],
)
def test_forged_headers_of_local_plans_are_refused(
    file: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(NoisewrightError):
        rewritten(file, changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "abc"},
        {"norm": 0.5},
        {"unit_value": 0},
        {"unit_bound": "abc"},
        {"status": None},
        {"sizes": [2, 3]},
        {"sizes": "4"},
        {"workload": "prefix:5"},
        {"strategy": {"sizes": [4], "blocks": [[[0]]], "separate": False}},
        {"strategy": {"sizes": [4], "blocks": [], "separate": False}},
        {
            "strategy": {
                "sizes": [4.0],
                "blocks": [[[0], ["factor.0"], 1.0, 1]],
                "separate": False,
            }
        },
    ],
)
def test_forged_headers_of_central_plans_are_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    file = tmp_path / "p.nw"
    nw.plan("identity:4", nw.Privacy(1, 1e-6)).save(file)
    with pytest.raises(NoisewrightError):
        rewritten(file, changes)


def test_headers_nested_without_end_are_refused(file: Path) -> None:
    from safetensors.numpy import save

    from noisewright.container import _digest

    arrays = {"none": np.zeros(1, dtype=np.int64)}
    for text in ('{"a":' * 100_000 + "1" + "}" * 100_000, "[]", "3", "{"):
        file.write_bytes(
            save(
                arrays, metadata={"noisewright": text, "digest": _digest(text, arrays)}
            )
        )
        with pytest.raises(NoisewrightError):
            load(file)


@pytest.mark.parametrize("options", [nw.Central(), nw.Local()])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e300])
def test_budgets_next_to_nothing_or_beyond_all_are_refused_clearly(
    options: nw.Central | nw.Local, epsilon: float
) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        nw.plan("prefix:4", nw.Privacy(epsilon), options)
