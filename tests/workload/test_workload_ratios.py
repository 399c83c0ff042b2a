"""Intervals of means and variances hold as often as they say, and no more often than they must."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from noisewright.domain import Domain, Numeric
from noisewright.workload.questions.numbers import Means, Variances
from noisewright.workload.questions.spec import questions
from noisewright.workload.questions.statistics import Noisy, Widths

DRAWS = 40_000
ALARM = 1e-6
DOMAIN = Domain((Numeric("income", edges=(0, 50, 100), lower=0.0, upper=100.0),))
# of centred values, which are twice those asked about
LOW, MIDDLE, HIGH = -100.0, 0.0, 100.0


def statistic(kind: str) -> Means | Variances:
    (found,) = questions({"queries": [{kind: "income"}]}, DOMAIN).statistics
    assert isinstance(found, Means | Variances)
    return found


def gaussian(alarm: float = 0.05) -> Widths:
    def width(share: float) -> float:
        return float(norm.isf(share * alarm / 2))

    return Widths(width(1.0), width(1.0), width, width)


def drawn(values: list[float], errors: list[float], seed: int) -> list[Noisy]:
    rng = np.random.default_rng(seed)
    return [
        Noisy(value + rng.normal(0, error, DRAWS), np.full(DRAWS, error))
        for value, error in zip(values, errors, strict=True)
    ]


@pytest.mark.parametrize("centred", [LOW, -60.0, MIDDLE, 37.0, HIGH])
@pytest.mark.parametrize("people", [1.0, 30.0, 300.0, 3000.0])
def test_means_are_covered_exactly(people: float, centred: float) -> None:
    """One Gaussian test: 95 % are 95 %, clear of the noise or not; alarm 1e-6 on either side."""
    parts = drawn([people, people * centred], [20.0, 900.0], seed=3)
    low, high = statistic("mean").derive(parts, gaussian()).each
    truth = 50 + centred / 2
    held = int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
    assert held >= binom.ppf(ALARM, DRAWS, 0.95)
    # Where the count may be nobody the ratios that pass are two ends, and what lies between is
    # printed with them. A mean at its bound is missed on one side alone: none is printed beyond.
    exact = 0.975 if abs(centred) == HIGH else 0.95
    if people >= 300:
        assert held <= binom.ppf(1 - ALARM, DRAWS, exact)


def test_ends_are_where_the_test_turns() -> None:
    """An oracle by bisection on the test itself, for groups clear of their noise."""
    parts = drawn([300.0, 300.0 * 37], [20.0, 900.0], seed=4)
    low, high = statistic("mean").derive(parts, gaussian()).each
    width = norm.isf(0.025)
    for k in range(50):
        count, total = parts[0].values[k], parts[1].values[k]

        def excess(ratio: float, count: float = count, total: float = total) -> float:
            return abs(total - ratio * count) - width * float(
                np.hypot(900.0, ratio * 20.0)
            )

        middle = total / count
        ends = brentq(excess, middle - 50, middle), brentq(excess, middle, middle + 50)
        assert [low[k], high[k]] == pytest.approx(
            [50 + end / 2 for end in ends], rel=1e-9
        )


def test_every_possible_mean_is_given_where_the_count_says_nothing() -> None:
    parts = [Noisy(np.array([0.0, 5.0]), np.array([20.0, 20.0])),
             Noisy(np.array([10.0, 0.0]), np.array([900.0, 900.0]))]  # fmt: skip
    low, high = statistic("mean").derive(parts, gaussian()).each
    assert low.tolist() == [0.0, 0.0]
    assert high.tolist() == [100.0, 100.0]


@pytest.mark.parametrize(("people", "most"), [(300.0, 1.0), (3000.0, 0.99)])
@pytest.mark.parametrize(
    ("mean", "square"), [(0.0, 100.0), (37.0, 70.0), (-80.0, 82.0)]
)
def test_variances_are_covered(
    people: float, most: float, mean: float, square: float
) -> None:
    """`square` is the root mean square; a mean that is not known costs something, told by `most`.

    Alarm 1e-6 on either side.
    """
    parts = drawn(
        [people, people * mean, people * (2 * square**2 - 1e4)],
        [20.0, 900.0, 9e4],
        seed=5,
    )
    low, high = statistic("variance").derive(parts, gaussian()).each
    truth = (square**2 - mean**2) / 4
    held = int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
    assert held >= binom.ppf(ALARM, DRAWS, 0.95)
    assert held <= binom.ppf(1 - ALARM, DRAWS, most)
