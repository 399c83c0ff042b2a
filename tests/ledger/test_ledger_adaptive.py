"""An analyst who chooses every plan by the last answers, until the ledger says no."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import noisewright as nw
from ledger.ledgers import ledger
from noisewright.errors import BudgetExceeded
from noisewright.ledger.book import Ledger
from noisewright.privacy.promise.filters import odometer

COUNTS = np.array([40, 0, 7, 1000])


def spend_by_answers(book: Ledger, seed: int) -> list[float]:
    """Ever other budgets, kinds of noise and workloads, by what the last answers were."""
    epsilons = []
    answer = float(seed)
    for number in range(25):
        size = (abs(answer) * 7 + number) % 10
        workload = "prefix:4" if round(abs(answer)) % 2 else "identity:4"
        pure = round(abs(answer)) % 3 == 0
        budget = (
            nw.Privacy(0.01 + size / 200)
            if pure
            else nw.Privacy(rho=0.001 + size / 4000)
        )
        try:
            release = nw.plan(workload, budget).release(
                COUNTS, ledger=book, dataset="people", again="spend"
            )
        except BudgetExceeded as refusal:
            if refusal.fits is None or number > 20:
                break
            answer += 1.7
            continue
        answer = float(release.answers[number % 4])
        account = book.account("people")
        told = odometer(
            account.created.limits, account.used, account.created.privacy, 1e-6
        )
        epsilons.append(told.epsilon)
    return epsilons


@pytest.mark.parametrize("rule", ["gaussian", "zcdp"])
def test_plans_that_follow_answers_never_pass_the_budget(
    tmp_path: Path, rule: str
) -> None:
    budget = nw.Privacy(epsilon=1.0, delta=1e-6)
    book = ledger(tmp_path, budget, rule=rule, pure=0.1)
    shown = spend_by_answers(book, seed=3)
    assert len(shown) > 6
    assert shown == sorted(shown)
    account = book.verify().account("people")
    squares, rho, pure = Fraction(0), mpmath.mpf(0), Fraction(0)
    for spent in account.releases:
        (noise,) = spent.reserved.noise
        ratio = Fraction(noise.sensitivity) / Fraction(noise.scale)
        if noise.law == "rounded-gaussian":
            squares += ratio**2
            rho += mpmath.mpf(float(ratio)) ** 2 / 2
        elif spent.used.pure:  # told apart by the entry itself, added up here
            pure += ratio
        else:
            squares += Fraction(float(-2 * mpmath_quantile(float(ratio)))) ** 2
            rho += float(ratio) * mpmath.tanh(float(ratio) / 2)
    assert pure <= Fraction(0.1)
    if rule == "gaussian":
        with mpmath.workdps(30):
            mu, left = mpmath.sqrt(float(squares)), mpmath.mpf(1) - float(pure)
            delta = mpmath.ncdf(mu / 2 - left / mu)
            delta -= mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
        assert delta <= 1e-6
    else:
        orders = [mpmath.mpf(k) / 2 for k in range(3, 400)]
        price = [(a - 1) * (a * rho - (1 - float(pure))) for a in orders]
        logs = [
            p + (a - 1) * mpmath.log(1 - 1 / a) - mpmath.log(a)
            for p, a in zip(price, orders, strict=True)
        ]
        assert mpmath.exp(min(logs)) <= 1e-6


def mpmath_quantile(epsilon: float) -> mpmath.mpf:
    """Φ⁻¹(1/(1 + e^ε)), by an inverse error function that ours does not share."""
    chance = 1 / (1 + mpmath.exp(epsilon))
    return mpmath.sqrt(2) * mpmath.erfinv(2 * chance - 1)
