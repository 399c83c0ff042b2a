"""What is known of a histogram beforehand: people nowhere negative, empty cells, declared sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisewright.workload.base import FloatArray

Mask = npt.NDArray[np.bool_]

_STEPS = 60
_CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Facts:
    """Cells that can hold people (all, where None) and sums over cells with declared values."""

    possible: Mask | None = None
    rows: FloatArray | None = None
    values: FloatArray | None = None

    def equalities(self, total: float | None, size: int) -> tuple[FloatArray, FloatArray]:
        """All sums that are known, one per row; the declared ones hold the total where there is."""
        if self.rows is not None and self.values is not None:
            return self.rows, self.values
        if total is None:
            return np.zeros((0, size)), np.zeros(0)
        return np.ones((1, size)), np.array([float(total)])

    def projector(self, total: float | None) -> Projector:
        """The nearest histogram that fits all of this, and a total where it is given."""
        return Projector(self, total)

    def whole_numbers(self, histogram: FloatArray, total: float | None) -> FloatArray:
        """Whole numbers nearby that keep the total, and the declared sums where they can.

        Cells that the declared sums treat alike are rounded together, keeping their common total.
        """
        from noisewright.estimate.nonnegative import whole_numbers

        result = np.zeros_like(histogram)
        inside = np.arange(histogram.size) if self.possible is None else self.possible.nonzero()[0]
        if self.rows is None:
            wanted = None if total is None else round(total)
            result[inside] = whole_numbers(histogram[inside], wanted)
            return result
        _, alike = np.unique(self.rows[:, inside], axis=1, return_inverse=True)
        for number in range(int(alike.max()) + 1):
            cells = inside[alike.ravel() == number]
            result[cells] = whole_numbers(histogram[cells])
        return result


class Projector:
    """Nearest points by the dual: one multiplier per declared sum, kept from call to call."""

    def __init__(self, facts: Facts, total: float | None) -> None:
        self.facts, self.total = facts, total
        self.multipliers = np.zeros(0 if facts.rows is None else len(facts.rows))

    def __call__(self, x: FloatArray) -> FloatArray:
        """The nearest non-negative vector that keeps all facts."""
        possible = self.facts.possible
        if possible is None:
            return self._inside(x, self.facts.rows)
        result = np.zeros_like(x)
        rows = None if self.facts.rows is None else self.facts.rows[:, possible]
        result[possible] = self._inside(x[possible], rows)
        return result

    def _inside(self, x: FloatArray, rows: FloatArray | None) -> FloatArray:
        from noisewright.estimate.nonnegative import project_to_total

        if rows is None:
            return np.maximum(x, 0.0) if self.total is None else project_to_total(x, self.total)
        assert self.facts.values is not None
        return self._declared(x, rows, self.facts.values)

    def _declared(self, x: FloatArray, rows: FloatArray, values: FloatArray) -> FloatArray:
        """Newton on the convex dual ½‖max(x − Aᵀλ, 0)‖² + cᵀλ, with shortened steps."""
        scale = 1.0 + float(np.abs(values).max())
        found, cost = self._at(x, rows, values, self.multipliers)
        for _ in range(_STEPS):
            gap = rows @ found - values
            if np.abs(gap).max() <= _CLOSE * scale:
                break
            active = rows[:, found > 0]
            curvature = active @ active.T
            ridge = 1e-10 * (np.trace(curvature) + np.trace(rows @ rows.T) * 1e-6)
            step = np.linalg.solve(curvature + ridge * np.eye(len(rows)), gap)
            length = 1.0
            while length > 1e-6:
                trial = self.multipliers + length * step
                moved, lower = self._at(x, rows, values, trial)
                if lower <= cost - 1e-4 * length * float(gap @ step):
                    break
                length /= 2
            self.multipliers, found, cost = trial, moved, lower
        return found

    @staticmethod
    def _at(
        x: FloatArray, rows: FloatArray, values: FloatArray, multipliers: FloatArray
    ) -> tuple[FloatArray, float]:
        found = np.maximum(x - rows.T @ multipliers, 0.0)
        return found, 0.5 * float(found @ found) + float(values @ multipliers)
