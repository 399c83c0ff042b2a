"""Arguments that are extreme but finite, at every entry: an answer, or a refusal in words.

Warnings are errors here, but for the one that says that a large ε protects nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.domain import Categorical, Domain, Numeric
from noisewright.errors import Contradiction, InvalidParameter, NoisewrightError

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::noisewright.errors.WeakPrivacyWarning"),
]

BUDGETS: list[dict[str, float]] = [
    *(
        {"epsilon": e}
        for e in (5e-324, 1e-300, 1e-30, 1e-12, 39.5, 700.0, 800.0, 1e6, 1e300)
    ),
    *(
        {"epsilon": e, "delta": d}
        for e in (1e-300, 1.0, 1e6)
        for d in (1e-320, 1e-100, 0.5)
    ),
    *({"rho": r} for r in (5e-324, 1e-12, 1e6, 1e300)),
]
NUMBERS = [
    5e-324,
    1e-320,
    1e-300,
    1e-160,
    1e-30,
    1e30,
    1e160,
    1e300,
    1.7e308,
    nan,
    inf,
    0.0,
    -1.0,
]
ROWS = np.array([[0.3, 0.2], [0.1, -0.4], [0.0, 0.0]])
ONE = nw.Privacy(epsilon=1)


def tried(call: Callable[[], object]) -> None:
    """Nothing but the library's own refusals may escape, and no contradiction of itself."""
    try:
        call()
    except Contradiction:
        raise
    except NoisewrightError as refusal:
        message = str(refusal)
    else:
        return
    assert 10 < len(message) < 2000


def moments(privacy: nw.Privacy, radius: float = 1.0) -> None:
    plan = nw.plan(nw.Moments(2, radius=radius), privacy)
    plan.forecast()
    plan.errors(10)
    release = plan.release(ROWS)
    release.to_arrow()
    assert np.isfinite(release.correlation).all()
    assert np.isfinite(release.denoised).all()
    release.regression("x0")


def pairs(privacy: nw.Privacy) -> None:
    plan = nw.plan(nw.Pairs(3), privacy)
    plan.forecast()
    plan.expected(50)
    plan.release(np.eye(3)).to_arrow()


def stream(privacy: nw.Privacy) -> None:
    plan = nw.plan(nw.RunningCount(20), privacy)
    plan.forecast()
    running = plan.start()
    running.step(3)
    running.release.to_arrow()


def local(privacy: nw.Privacy) -> None:
    for text in ("identity:4", "prefix:6", "marginals:2^3:2"):
        plan = nw.plan(text, privacy, nw.Local())
        plan.forecast(100)
        plan.estimate(plan.randomize(np.arange(100) % plan.workload.size))


def learning(privacy: nw.Privacy) -> None:
    for asked in (nw.learn.Agnostic, nw.learn.Realizable):
        nw.plan(asked("thresholds:4", alpha=0.3), privacy)
    nw.plan(nw.learn.AgnosticRefutation("thresholds:4", alpha=0.3, theta=0.2), privacy)
    nw.plan(nw.learn.LargestMean(5, alpha=0.3), privacy)


BY_BUDGET: dict[str, Callable[[nw.Privacy], object]] = {
    "moments": moments,
    "pairs": pairs,
    "stream": stream,
    "local": local,
    "learning": learning,
    "values": lambda p: nw.plan(nw.Values("town"), p).summary(),
    "explain": lambda p: nw.explain("prefix:4", p),
    "compare": lambda p: nw.compare("prefix:4", p),
    "compare local": lambda p: nw.compare("prefix:4", p, nw.Local()),
    "bounds": lambda p: nw.find_bounds(pa.table({"x": [1.0, 2.0, 3.0] * 50}), ["x"], p),
    "epsilon_of": lambda p: nw.epsilon_of(
        [nw.plan("prefix:4", p), nw.plan("prefix:4", ONE)], 1e-6
    ),
}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", BY_BUDGET)
def test_budgets_of_every_size_are_planned_or_refused(
    name: str, neighbours: Any
) -> None:
    for budget in BUDGETS:
        tried(
            lambda budget=budget: BY_BUDGET[name](
                nw.Privacy(**budget, neighbours=neighbours)
            )
        )


def sums(size: float) -> None:
    column = Numeric("v", [0, 1, 2], outside="clip", lower=0, upper=size)
    domain = Domain([column, Categorical("c", ["a", "b"])])
    for unit in (1.0, size):
        tried(
            lambda unit=unit: nw.plan(
                nw.Sums("v", [["c"]], domain, unit=unit), ONE
            ).forecast()
        )


def matrices(size: float) -> None:
    for matrix in (
        [[size, 0, 0], [0, 1.0, 0]],
        [[size, size, 0], [1, 1, 0], [0, -size, 1]],
    ):
        for privacy in (ONE, nw.Privacy(rho=0.5, neighbours="replace-one")):
            tried(
                lambda p=privacy, m=matrix: nw.plan(np.array(m), p).release(
                    np.arange(3)
                )
            )
            tried(
                lambda p=privacy, m=matrix: nw.plan(
                    "prefix:3", p, nw.Central(strategy=np.array(m))
                )
            )
        for options in (nw.Central(), nw.Local()):
            tried(lambda m=matrix, o=options: nw.compare(np.array(m), ONE, o))
        tried(lambda m=matrix: nw.plan("prefix:3", ONE, nw.Local(strategy=np.array(m))))
        for kind in ("add-remove", "replace-one"):
            tried(lambda m=matrix, k=kind: nw.factorize(np.array(m), neighbours=k))
        tried(lambda m=matrix: nw.approximate_norm(np.array(m), 0.1, iterations=20))


def targets(size: float) -> None:
    tried(lambda: nw.explain("prefix:6", nw.Target("rmse", size)))
    tried(
        lambda: nw.explain("prefix:6", nw.Accuracy([nw.Target("max", size)], pure=True))
    )
    tried(
        lambda: nw.explain(
            "prefix:6", nw.Accuracy([nw.Target("max", size)], delta=1e-6)
        )
    )
    tried(
        lambda: nw.explain(
            "prefix:6", nw.Accuracy([nw.Target("max", 10.0)], delta=size)
        )
    )
    for name in ("shares", "importance"):
        given: Any = {name: [size, 1.0]}
        tried(lambda g=given: nw.plan(nw.Several(["prefix:6", "identity:6"], **g), ONE))


def chances(size: float) -> None:
    for asked in (
        nw.learn.Agnostic,
        nw.learn.Realizable,
        partial(nw.learn.AgnosticRefutation, theta=0.2),
    ):
        for settings in ({"alpha": size}, {"alpha": 0.3, "beta": size}):
            tried(lambda a=asked, s=settings: nw.plan(a("thresholds:4", **s), ONE))
    tried(lambda: nw.plan(nw.learn.LargestMean(5, alpha=size), ONE))
    tried(lambda: nw.plan(nw.learn.LargestMean(5, alpha=0.3, beta=size), ONE))
    for given in (
        {"alpha": size},
        {"max_error": size},
        {"max_error": 0.1, "beta": size},
    ):
        told: Any = given
        tried(lambda t=told: nw.plan("identity:4", ONE, nw.Local(**t)).summary())


def people(size: float) -> None:
    for count in (size, int(size) if abs(size) < inf else 0):
        tried(lambda n=count: nw.plan("prefix:6", ONE, nw.Central(people=n)))
        tried(lambda n=count: nw.compare("prefix:6", ONE, nw.Central(people=n)))
        tried(
            lambda n=count: (
                nw.plan(nw.RunningCount(n), ONE) if n < 1 or n > 1e9 or n != n else None
            )
        )
    tried(lambda: nw.plan("prefix:6", ONE, nw.Central(error=size)))


BY_NUMBER: dict[str, Callable[[float], object]] = {
    "radius": lambda size: moments(ONE, size),
    "radius, Gaussian": lambda size: moments(nw.Privacy(rho=0.5), size),
    "sums": sums,
    "matrices": matrices,
    "targets": targets,
    "chances": chances,
    "people": people,
    "weights": lambda size: nw.plan(f"{size}@prefix:4", ONE).release(np.arange(4)),
    "delta": lambda size: nw.epsilon_of([nw.plan("prefix:4", nw.Privacy(rho=1))], size),
}


@pytest.mark.parametrize("size", NUMBERS)
@pytest.mark.parametrize("name", BY_NUMBER)
def test_numbers_of_every_size_are_taken_or_refused(name: str, size: float) -> None:
    tried(lambda: BY_NUMBER[name](size))


def test_ledgers_of_every_size_are_kept_or_refused(tmp_path: Path) -> None:
    plan = nw.plan("prefix:4", nw.Privacy(epsilon=1))
    ledger = nw.Ledger(tmp_path / "budget.db")

    def bought(number: int, budget: dict[str, float]) -> None:
        ledger.create(f"d{number}", nw.Privacy(**budget))
        tried(lambda: plan.release(np.arange(4), ledger=ledger, dataset=f"d{number}"))
        repr(ledger.account(f"d{number}"))

    for number, budget in enumerate(BUDGETS):
        tried(lambda number=number, budget=budget: bought(number, budget))
    ledger.verify()


@pytest.mark.parametrize("radius", [1e300, 1e-300, nan, inf, 0.0, -1.0])
def test_radii_whose_errors_no_float_holds_are_refused_by_name(radius: float) -> None:
    with pytest.raises(InvalidParameter, match="radius="):
        nw.plan(nw.Moments(3, radius=radius), ONE)


@pytest.mark.parametrize("options", [nw.Central(), nw.Local()])
def test_queries_that_ask_nothing_are_refused_in_words(options: Any) -> None:
    nothing = np.zeros((3, 4))
    for call in (nw.plan, nw.compare):
        with pytest.raises(
            InvalidParameter, match=r"zero everywhere|tells no two people apart"
        ):
            call(nothing, ONE, options)
    assert nw.factorize(nothing).value == 0


def test_what_learning_spends_is_added_up() -> None:
    plan = nw.plan(nw.learn.Agnostic("thresholds:4", alpha=0.3, beta=0.1), ONE)
    assert nw.epsilon_of([plan], 1e-6) == pytest.approx(1, abs=1e-9)


MEANS: list[list[dict[str, Any]]] = [
    [{"mean": "v"}],
    [{"mean": "v", "by": ["c"]}],
    [{"mean": "v"}, {"variance": "v"}],
]


@pytest.mark.parametrize("queries", MEANS)
def test_means_alone_are_reported_without_an_error_that_nobody_knows(
    queries: list[dict[str, Any]], tmp_path: Path
) -> None:
    domain = Domain(
        [
            Numeric("v", [0, 1, 2], outside="clip", lower=0, upper=4),
            Categorical("c", ["a", "b"]),
        ]
    )
    asked = nw.Workload.from_spec({"queries": queries}, domain)
    plan = nw.plan(asked, ONE)
    assert np.isnan(plan.forecast().rmse)
    assert np.isnan(plan.forecast().max)
    assert plan.summary()["rmse"] is plan.summary()["max"] is None
    assert "nan" not in repr(plan.forecast())
    people = pa.table({"v": [1.0, 2.0, 3.0] * 300, "c": ["a", "b", "a"] * 300})
    for subject in (plan, nw.explain(asked, ONE), plan.release(people)):
        nw.report(subject, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "NaN" not in page
    with pytest.raises(InvalidParameter, match="sums or means"):
        nw.compare(asked, ONE)


WRONG_KINDS: list[Any] = ["three", None, [1, 2], 1j]


@pytest.mark.parametrize("text", ["identity:4", "prefix:4"])
@pytest.mark.parametrize(
    "name", ["effort", "seed", "norm", "target_ratio", "time_limit", "alpha"]
)
def test_settings_of_the_wrong_kind_are_refused_by_name(name: str, text: str) -> None:
    """Whether or not the mechanism that is taken would have looked at them."""
    for value in WRONG_KINDS:
        if value is None and name in ("target_ratio", "time_limit", "alpha"):
            continue  # not given
        given: Any = {name: value}
        with pytest.raises(InvalidParameter, match=rf"^{name}\b"):
            nw.plan(text, ONE, nw.Local(**given))


def test_efforts_that_nobody_knows_are_refused_where_nothing_is_searched() -> None:
    with pytest.raises(
        InvalidParameter, match="effort='quick' must be one of low, normal, high"
    ):
        nw.plan("identity:6", ONE, nw.Local(effort="quick"))


@pytest.mark.parametrize("options", [nw.Central(), nw.Local()])
@pytest.mark.parametrize(
    "matrix", [[[1, 2], [3]], [["a"]], [[1j, 1], [1, 1]], [[{}]]], ids=str
)
def test_matrices_of_what_is_no_number_are_refused(matrix: Any, options: Any) -> None:
    """Complex ones too, whose imaginary parts were left out of every answer."""
    with pytest.raises(InvalidParameter, match="must hold real numbers"):
        nw.plan(matrix, ONE, options)
    with pytest.raises(InvalidParameter, match="prior="):
        nw.plan("prefix:4", ONE, nw.Local(prior=matrix))
