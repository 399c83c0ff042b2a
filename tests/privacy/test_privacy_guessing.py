"""The best guess about one person, against the laws themselves."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from scipy.stats import norm

from noisewright.privacy.promise.spend import (
    Gaussian,
    Laplace,
    Promise,
    Spend,
    best_guess,
)


def _right(first, second) -> float:
    """How often the likelier of two laws on the same outcomes is the one that was drawn from."""
    return float(np.maximum(first, second).sum() / 2)


def _spend(*losses) -> Spend:
    return Spend("add-remove", losses)


def test_nothing_spent_tells_nothing():
    assert best_guess(_spend()) == 0.5


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_noise_is_told_apart_where_the_densities_cross(mu):
    assert best_guess(_spend(Gaussian(mu))) == pytest.approx(norm.cdf(mu / 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_noise_never_passes_randomized_response(epsilon):
    told = exp(epsilon) / (1 + exp(epsilon))
    assert best_guess(_spend(Laplace(epsilon))) == pytest.approx(told)
    places = np.arange(-400, 402)
    weights = np.exp(-epsilon * np.abs(places))
    geometric = weights / weights.sum()
    assert (
        _right(geometric[:-1], geometric[1:])
        <= best_guess(_spend(Laplace(epsilon))) + 1e-12
    )


def test_approximate_promises_are_bounded_by_the_law_that_attains_them():
    epsilon, delta = 1.0, 0.05
    high, low = (
        (1 - delta) * exp(epsilon) / (1 + exp(epsilon)),
        (1 - delta) / (1 + exp(epsilon)),
    )
    attained = _right(np.array([delta, high, low, 0]), np.array([0, low, high, delta]))
    assert best_guess(_spend(Promise(epsilon, delta))) == pytest.approx(attained)


def test_several_losses_are_never_understated():
    """Two randomized responses and a Gaussian cut into cells, composed by brute force."""
    ends = (
        norm.cdf(np.linspace(-6, 6, 41) - 0.4),
        norm.cdf(np.linspace(-6, 6, 41) + 0.4),
    )
    gaussian = [np.diff(np.concatenate([[0], end, [1]])) for end in ends]
    chance = exp(0.7) / (1 + exp(0.7))
    answer = [np.array([chance, 1 - chance]), np.array([1 - chance, chance])]
    joint = [
        np.multiply.outer(np.outer(a, a), g)
        for a, g in zip(answer, gaussian, strict=True)
    ]
    stated = best_guess(_spend(Laplace(0.7), Promise(0.7), Gaussian(0.8)))
    assert _right(joint[0], joint[1]) <= stated <= 1
