"""Limited-memory BFGS with a monotone line search, stoppable at any step.

Own code rather than a library's because a run must obey a deadline between evaluations, resume from
the point it reached, and take steps in a variable of half a gigabyte without copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray

Function = Callable[[FloatArray], tuple[float, FloatArray]]
"""Value and gradient; an infinite value refuses the point."""

# Of the fall that the slope promises: Armijo's usual fraction.
_SUFFICIENT = 1e-4
# Each to a half at most: the direction is then no descent in a number's digits.
_BACKTRACKS = 15
# Cosine between step and change below which a pair says nothing about curvature.
_CURVATURE = 1e-10
_TOLERANCE = 1e-8  # values are logarithms of errors: it means the same at every scale


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the descent stopped, and why."""

    point: FloatArray
    value: float
    iterations: int
    converged: bool


def minimise(
    function: Function,
    start: FloatArray,
    iterations: int,
    memory: int = 10,
    stop: Callable[[FloatArray, float], bool] | None = None,
) -> Minimum:
    """Descend from `start`; `stop(point, value)` is asked after every accepted step."""
    x = start
    value, gradient = function(x)
    pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=memory)

    for iteration in range(1, iterations + 1):
        direction = _direction(gradient, pairs)
        slope = float(gradient @ direction)
        if slope >= 0:
            pairs.clear()
            direction = _direction(gradient, pairs)
            slope = float(gradient @ direction)

        taken = _line_search(function, x, value, direction, slope)
        if taken is None:
            if not pairs:
                return Minimum(x, value, iteration, True)
            # a stale model of the curvature: once more along the gradient
            pairs.clear()
            continue

        new_x, new_value, new_gradient = taken
        step = new_x - x
        change = new_gradient - gradient
        product = float(step @ change)
        if product > _CURVATURE * float(np.linalg.norm(step) * np.linalg.norm(change)):
            pairs.append((step, change, 1.0 / product))

        decrease = value - new_value
        x = new_x
        value = new_value
        gradient = new_gradient
        if stop is not None and stop(x, value):
            return Minimum(x, value, iteration, False)
        if decrease < _TOLERANCE and len(pairs) == memory:
            return Minimum(x, value, iteration, True)

    return Minimum(x, value, iterations, False)


def _direction(
    gradient: FloatArray, pairs: deque[tuple[FloatArray, FloatArray, float]]
) -> FloatArray:
    """The two-loop recursion."""
    direction = -gradient
    if not pairs:
        return np.asarray(
            direction * (0.1 / max(float(np.abs(gradient).max()), 1e-300))
        )

    factors = []
    for step, change, inverse in reversed(pairs):
        factor = inverse * float(step @ direction)
        factors.append(factor)
        direction -= factor * change

    step, change, inverse = pairs[-1]
    direction *= 1.0 / (inverse * float(change @ change))
    for (step, change, inverse), factor in zip(pairs, reversed(factors), strict=True):
        direction += (factor - inverse * float(change @ direction)) * step

    return direction


def _line_search(
    function: Function, x: FloatArray, value: float, direction: FloatArray, slope: float
) -> tuple[FloatArray, float, FloatArray] | None:
    """Backtrack from a full step until the value falls enough; None if it never does."""
    length = 1.0
    for _ in range(_BACKTRACKS):
        point = x + length * direction
        new_value, gradient = function(point)
        if np.isfinite(new_value):
            if new_value <= value + _SUFFICIENT * length * slope:
                return point, new_value, gradient
            bend = new_value - value - slope * length
            ratio = -slope * length / (2 * bend) if bend > 0 else 0.5
            length *= min(max(ratio, 0.1), 0.5)
        else:
            length *= 0.25

    return None
