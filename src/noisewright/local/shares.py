"""The best mixture of ways to report: a convex problem over the share of reports each gets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisewright.arrays import FloatArray

Step = Callable[[FloatArray], FloatArray]

_STEPS = 80
"""Newton steps at most: they end by tolerance long before."""

_TOLERANCE = 1e-7
"""Of the value: the gap at which steps end."""

_MULTIPLICATIVE_STEPS = 60
"""The same where Newton steps are too dear."""

_NEWTON_ENTRIES = 2**21
"""Ways times things asked up to which a Newton step takes a second or less."""


def best_shares(
    information: FloatArray, energies: FloatArray
) -> tuple[FloatArray, float]:
    """Minimise Σ_c energies_c / (shares · information)_c over shares that sum to one.

    `information` has a row per way to report and a column per thing asked. Primal–dual interior
    point; the Hessian has the rank of the columns, and each step works on the smaller side. Large
    problems get plain multiplicative steps. Returns the shares and the value.
    """
    if information.size > _NEWTON_ENTRIES:
        w = faded_shares(
            len(information),
            lambda shares: shares @ information,
            lambda seen: information @ (energies / seen**2),
            _MULTIPLICATIVE_STEPS,
        )
    else:
        scale = np.maximum(information.mean(axis=0), np.finfo(float).tiny)
        w = _interior_shares(information / scale, energies / scale)

    values = energies / (w @ information)
    return w, float(values.sum())


def _interior_shares(a: FloatArray, energies: FloatArray) -> FloatArray:
    """The shares, by primal–dual Newton steps; `slack` is the dual of w >= 0."""
    m = energies / float(energies.sum())
    w = np.full(len(a), 1.0 / len(a))
    level = slack = np.empty(0)

    for step in range(_STEPS):
        seen = w @ a
        gradient = -(a @ (m / seen**2))
        value = float((m / seen).sum())
        gap = w @ gradient - gradient.min()
        if gap < _TOLERANCE * value:
            break

        if step == 0:
            steepest = max(-float(w @ gradient), -float(gradient.min()))
            level = np.array(1.1 * steepest)
            slack = np.maximum(gradient + level, 1e-3 * value)

        aim = 0.1 * float(w @ slack) / len(w)
        right = aim / w - gradient - level
        root = a * np.sqrt(2.0 * m / seen**3)
        sides = np.stack([right, np.ones(len(w))], axis=1)
        first, second = _solve(root, w / slack, sides).T

        move_level = (first.sum() + w.sum() - 1.0) / second.sum()
        move = first - move_level * second
        move_slack = (aim - w * slack - slack * move) / w

        longest = longest_step(w, move, 0.99)
        length = min(longest, longest_step(slack, move_slack, 0.99))
        w = np.maximum(w + length * move, 1e-300)
        slack = slack + length * move_slack
        level = level + length * move_level

    return np.asarray(w / w.sum())


def _solve(root: FloatArray, ratio: FloatArray, right: FloatArray) -> FloatArray:
    """(root rootᵀ + Diag(1/ratio))⁻¹ right."""
    orbits, classes = root.shape
    if orbits <= classes:
        system = root @ root.T
        system[np.diag_indices(orbits)] += 1.0 / ratio
        return np.asarray(np.linalg.solve(system, right))

    ratios = ratio[:, None]
    scaled = right * ratios
    inner = np.eye(classes) + root.T @ (root * ratios)
    solved = np.linalg.solve(inner, root.T @ scaled)

    return scaled - ratios * (root @ solved)


def longest_step(point: FloatArray, move: FloatArray, most: float) -> float:
    """A step of one, or so much of the way to where the first coordinate would vanish."""
    shrinking = move < 0
    lengths = -point[shrinking] / move[shrinking]
    return min(1.0, most * float(np.min(lengths, initial=np.inf)))


def faded_shares(ways: int, seen: Step, gain: Step, steps: int) -> FloatArray:
    """The same by steps w ← w·√gain of optimal design: what does not help fades out.

    `seen` gives what shares tell of each thing asked, and `gain` of that minus the derivative of
    the value in each share. No step raises the value.
    """
    w = np.full(ways, 1.0 / ways)
    for _ in range(steps):
        gains = gain(seen(w))
        if not gains.any():
            break  # nothing is asked
        moved = w * np.sqrt(gains / (w @ gains))
        moved /= moved.sum()
        if (moved == w).all():
            break  # and no further step would move it
        w = moved

    return np.asarray(w)
