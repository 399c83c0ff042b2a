"""A toy mechanism whose noise is not one draw per number: all cells move by one shift besides.

Its only purpose is to show that a mechanism is one file and one line of the registry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from noisewright.central.mechanism import (
    Measurement,
    NamedMechanism,
    StoredMechanism,
    Table,
)
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_gaussian,
)
from noisewright.errors import OutOfReach
from noisewright.estimate.accuracy import Accuracy
from noisewright.estimate.intervals import normal_multiplier
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import Gaussian, Spend
from noisewright.workload.kinds.marginals import OnAttributes


@dataclass(frozen=True, eq=False)
class Correlated(Accuracy):
    """Errors that vary together as a matrix says."""

    matrix: np.ndarray

    @property
    def variance(self):
        return np.diag(self.matrix)

    def covariance(self, chosen):
        return self.matrix[:, chosen]

    def draw(self, count, rng):
        return rng.multivariate_normal(
            np.zeros(len(self.matrix)), self.matrix, size=count
        )

    def multiplier(self, level):
        return normal_multiplier(level)


@dataclass(frozen=True, eq=False)
class CommonShift(NamedMechanism):
    """Every cell under noise of its own, which alone keeps the budget, and all under one more."""

    sizes: tuple[int, ...]
    privacy: Privacy
    agrees = True
    unit_noise = None

    @property
    def sensitivity(self):
        return (
            1.0 if self.privacy.neighbours == "add-remove" else root_above(Fraction(2))
        )

    @property
    def law(self):
        return calibrate(self.privacy, l2=self.sensitivity)

    @property
    def spend(self):
        ratio = float_above(Fraction(self.sensitivity) / Fraction(self.law.scale))
        return Spend(self.privacy.neighbours, (Gaussian(ratio),))

    @property
    def tables(self):
        return (Table(tuple(range(len(self.sizes)))),)

    def of(self, measure):
        raise OutOfReach("only people are counted")

    def at(self, privacy):
        return replace(self, privacy=privacy)

    def measure(self, counts, source=None):
        exact = counts[self.tables[0]].ravel()
        noise = self.law.sample(exact.size + 1, source)
        return Measurement((exact + noise[1:] + noise[0],))

    def answer(self, measurement, terms):
        return self._rows(terms) @ measurement.values[0]

    def accuracy(self, terms):
        rows = self._rows(terms)
        joint = np.eye(rows.shape[1]) + 1.0
        return Correlated(self.law.variance * rows @ joint @ rows.T)

    def _rows(self, terms):
        parts = [
            t.weight * OnAttributes(self.sizes, t.attributes, t.inner).dense()
            for t in terms
        ]
        return np.concatenate(parts)

    def fits(self, measurement):
        return [v.size for v in measurement.values] == [int(np.prod(self.sizes))]

    def check_reach(self, terms):
        pass

    def record(self):
        return {"noise": self.law.to_dict(), "sensitivity": self.sensitivity}

    def packed(self):
        return StoredShift(self.sizes)


class StoredShift(StoredMechanism, frozen=True, tag="common-shift"):
    """All that rebuilds it."""

    sizes: tuple[int, ...]


def _plan(problem: CentralProblem) -> Proposal:
    mechanism = CommonShift(problem.sizes, problem.privacy)
    return Proposal(
        mechanism, None, None, "none", "one shift for all cells", problem.neighbours
    )


ENTRY = CentralMechanism(
    "common-shift", "cells that share a shift", refuses_gaussian, _plan
)
