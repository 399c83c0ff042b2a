from __future__ import annotations

from math import exp, inf, sqrt

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.spend import Gaussian, Laplace, Promise, Spend

RATIOS = st.floats(0.01, 5.0)


def spend(*losses: Gaussian | Laplace | Promise) -> Spend:
    return Spend("add-remove", losses)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ of the Gaussian mechanism (Balle and Wang), by plain floats."""
    return float(
        ndtr(mu / 2 - epsilon / mu) - exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    )


@given(st.lists(RATIOS, min_size=1, max_size=4))
def test_pure_losses_add(ratios: list[float]) -> None:
    promise = spend(*map(Laplace, ratios)).promise()
    assert promise.kind == "pure"
    assert sum(ratios) <= promise.epsilon * (1 + 1e-15)
    assert promise.epsilon <= sum(ratios) * (1 + 1e-14)


@given(st.lists(RATIOS, min_size=1, max_size=4), st.sampled_from([1e-12, 1e-6, 1e-2]))
def test_gaussian_losses_add_in_squares_and_keep_their_exact_curve(
    ratios: list[float], delta: float
) -> None:
    total = spend(*map(Gaussian, ratios))
    mu = sqrt(sum(r**2 for r in ratios))
    assert total.mu == pytest.approx(mu, rel=1e-14)
    assert total.promise().rho == pytest.approx(mu**2 / 2, rel=1e-12)
    epsilon = total.promise(delta).epsilon
    least = min(delta, gaussian_delta(0.0, mu))  # no ε at all may be needed
    assert gaussian_delta(epsilon, mu) == pytest.approx(least, rel=1e-6)


@given(RATIOS, RATIOS, st.sampled_from([1e-9, 1e-4]))
def test_mixed_losses_promise_no_less_than_is_true(
    mu: float, ratio: float, delta: float
) -> None:
    """The exact δ of one Gaussian and one Laplace release at the promised ε, by integration."""
    epsilon = spend(Gaussian(mu), Laplace(ratio)).promise(delta).epsilon
    # The Laplace release loses ratio − 2t on 0 < t < ratio with density e^{−t}/2, or an end of it.
    t = np.linspace(0, ratio, 2001)
    inner = np.array([gaussian_delta(epsilon - (ratio - 2 * s), mu) for s in t])
    ends = gaussian_delta(epsilon - ratio, mu) / 2
    ends += exp(-ratio) / 2 * gaussian_delta(epsilon + ratio, mu)
    truth = ends + float(np.trapezoid(inner * np.exp(-t) / 2, t))
    assert truth <= delta * (1 + 1e-3)
    alone = spend(Gaussian(mu)).promise(delta).epsilon
    assert epsilon <= alone + ratio + 1e-12


def test_a_laplace_release_keeps_its_epsilon_at_any_delta() -> None:
    assert spend(Laplace(1.0)).promise(1e-9).epsilon <= 1.0


def test_approximate_promises_take_their_delta_first() -> None:
    total = spend(Promise(1.0, 1e-6), Promise(0.5, 2e-6), Laplace(0.25))
    assert (total.promise().epsilon, total.promise().delta) == (
        1.75,
        pytest.approx(3e-6),
    )
    assert total.promise(4e-6).epsilon == pytest.approx(1.75)
    with pytest.raises(InvalidParameter, match="already promised"):
        total.promise(2e-6)
    with pytest.raises(InvalidParameter, match="must be given"):
        (total + spend(Gaussian(1.0))).promise()
    joint = (total + spend(Gaussian(1.0))).promise(4e-6)
    alone = spend(Gaussian(1.0)).promise(1e-6 * (1 - 1e-9))
    assert joint.epsilon == pytest.approx(1.75 + alone.epsilon, rel=1e-6)


@given(
    st.lists(
        st.one_of(RATIOS.map(Gaussian), RATIOS.map(Laplace)), min_size=2, max_size=4
    )
)
def test_adding_is_concatenation_and_more_is_never_cheaper(losses: list) -> None:
    first, rest = spend(losses[0]), spend(*losses[1:])
    whole = first + rest
    assert whole.losses == tuple(losses)
    assert whole.promise(1e-6).epsilon >= rest.promise(1e-6).epsilon * (1 - 1e-12)


@pytest.mark.parametrize("value", [0.0, -1.0, inf, float("nan")])
@pytest.mark.parametrize("kind", [Gaussian, Laplace, Promise])
def test_losses_are_positive_and_finite(kind: type, value: float) -> None:
    with pytest.raises(InvalidParameter):
        kind(value)


def test_relations_do_not_mix_and_nothing_promises_nothing() -> None:
    with pytest.raises(InvalidParameter, match="one relation"):
        spend(Laplace(1.0)) + Spend("replace-one", (Laplace(1.0),))
    with pytest.raises(InvalidParameter, match="nothing was spent"):
        spend().promise()
    with pytest.raises(InvalidParameter):
        Spend("nobody", ())  # type: ignore[arg-type]


def test_a_spend_survives_json() -> None:
    total = spend(Gaussian(0.3), Laplace(1.0), Promise(1.0, 1e-6))
    assert msgspec.json.decode(msgspec.json.encode(total), type=Spend) == total
    forged = b'{"neighbours":"add-remove","losses":[{"loss":"gaussian","mu":-1}]}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(forged, type=Spend)


@given(st.lists(RATIOS, min_size=1, max_size=3), st.lists(RATIOS, max_size=2))
def test_currencies_are_what_promises_say(
    pure: list[float], gaussian: list[float]
) -> None:
    made = spend(*map(Laplace, pure), *map(Gaussian, gaussian))
    told = made.currencies(1e-6)
    assert told["epsilon"] == made.promise(1e-6 if gaussian else None).epsilon
    assert told["delta"] == (1e-6 if gaussian else 0)
    exact = sum(r * np.tanh(r / 2) for r in pure) + sum(m**2 / 2 for m in gaussian)
    assert told["rho"] == pytest.approx(exact, rel=1e-9)


def test_currencies_without_a_price_are_left_out() -> None:
    assert spend().currencies(1e-6) == {}
    assert set(spend(Gaussian(1.0)).currencies()) == {"rho"}
    assert spend(Promise(1.0, 1e-9)).currencies() == {"epsilon": 1.0, "delta": 1e-9}
