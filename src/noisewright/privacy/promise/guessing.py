"""What a promise means for one person: how often the best guess about them can be right."""

from __future__ import annotations

from math import exp, tanh

from scipy.special import ndtr

from noisewright.privacy.promise.spend import Gaussian, Laplace, Spend


def best_guess(spend: Spend) -> float:
    """The largest chance to guess right, from an even start, which of two neighbours it was.

    Whoever guesses knows everything but that one bit. For one Gaussian loss it is exact, for pure
    ones attained by randomized response; several kinds together are bounded by what is left of the
    overlap of each, since the overlap of a product is at least the product of the overlaps.
    """
    if not spend.losses:
        return 0.5

    overlap = 2 * float(ndtr(-spend.mu / 2))
    pure = sum(loss.ratio for loss in spend.losses if isinstance(loss, Laplace))
    for loss in spend.losses:
        if isinstance(loss, Gaussian | Laplace):
            continue
        if loss.delta:
            overlap *= max(0.0, 2 * (1 - loss.delta) / (1 + exp(loss.epsilon)))
        else:
            pure += loss.epsilon

    return 1 - overlap * (1 - tanh(pure / 2)) / 2
