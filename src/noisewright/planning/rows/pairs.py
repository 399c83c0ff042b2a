"""Plans of all pairs of binary attributes, hundreds of them, without enumerating cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.geometry.pairs import MeasuredPairs, PairMoments, Rows
from noisewright.central.geometry.second_moments import GRID
from noisewright.errors import require
from noisewright.estimate.intervals import normal_multiplier
from noisewright.estimate.moments import common_factors, possible_pairs
from noisewright.planning.plan import LEVEL, Forecast
from noisewright.planning.release import release_time
from noisewright.planning.rows.plan import RowPlan, RowRelease
from noisewright.planning.spending import Spending
from noisewright.privacy.noise.source import ByteSource
from noisewright.workload.kinds.conjunctions import Conjunctions

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_SIMULATED_PEOPLE = 5000  # rows that stand for all: only bounds the time of a forecast
_PUBLIC = ("independent", "one factor", "rare")


@dataclass(frozen=True, eq=False, repr=False)
class PairsPlan(RowPlan[PairMoments, Rows, "PairsRelease"]):
    """How many people have both of any two of the `columns`, in two private measurements.

    A person has an attribute where the column is at least one half (or true).
    """

    kind = "pairs-plan"
    release_kind = "pairs-release"

    def __post_init__(self) -> None:
        require(
            len(set(self.columns)) == len(self.columns) == self.mechanism.attributes,
            "columns",
            self.columns,
            "must be named once each",
        )

    @property
    def title(self) -> str:
        """What is released, in words."""
        return f"all pairs of {len(self.columns)} attributes, {self.mechanism.name}"

    @property
    def workload(self) -> Conjunctions:
        """The pairs, in the order of the answers."""
        return Conjunctions.of(len(self.columns), 2)

    def forecast(self) -> Forecast:
        """Standard errors as measured, at most, whatever people have.

        Noise alone is in them, that of the number of people too where it is protected. What is
        estimated from few common factors is often much nearer (`expected`); rows longer than most
        are clipped, which is in neither.
        """

        d = len(self.columns)
        pairs = d * (d - 1) // 2
        std = np.full(pairs, np.sqrt(self.mechanism.worst_variance))

        return Forecast(
            std,
            normal_multiplier(LEVEL) * std,
            normal_multiplier(1 - (1 - LEVEL) / len(std)) * std,
        )

    def expected(self, people: int, seed: int = 0) -> dict[str, dict[str, float]]:
        """Root mean square errors of proportions from so many people, by public simulation.

        At populations made up for it (independent attributes, one common factor, rare attributes);
        nobody's data are read. The noise is that of a release.
        """
        require(people >= 1, "people", people, "must be >= 1")
        rng = np.random.default_rng(seed)
        return {name: self._simulated(name, people, rng) for name in _PUBLIC}

    def _simulated(
        self, name: str, people: int, rng: np.random.Generator
    ) -> dict[str, float]:
        """One release of a population, its rows standing for as many people as there are."""
        method = self.mechanism
        d = len(self.columns)
        rows = made_up(name, min(people, _SIMULATED_PEOPLE), d, rng)

        counted, noise_of_totals = method.simulated_noise(rng)
        counted += people
        totals = people * rows.mean(axis=0) + noise_of_totals
        means = method.means(counted, totals)

        second = method.second(method.square(counted, totals))
        relative = second.on_grid(rows - means)
        moments = relative.T @ relative * (people / len(rows) / GRID**2)

        _, off = second.variances
        noise = np.triu(rng.standard_normal((d, d)), 1) * np.sqrt(off)
        moments += noise + noise.T

        measured = MeasuredPairs(counted, totals, moments)
        public = None if method.protected else people
        drawn = PairsRelease(self, measured, public, "simulated")

        truth = rows.T @ rows / len(rows)
        upper = np.triu_indices(d, 1)

        return {
            kind: float(np.sqrt(np.mean((shares - truth)[upper] ** 2)))
            for kind, shares in (
                ("measured", drawn.measured_proportions),
                ("estimated", drawn.proportions),
            )
        }

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": self.mechanism.name,
            "privacy": self.privacy.to_dict(),
            "columns": len(self.columns),
            "queries": len(forecast.std),
            "rmse": forecast.rmse,
            "max": forecast.max,
            "share_of_means": self.mechanism.share,
            **self.mechanism.record(),
        }

    def read(self, batches: Iterable[FloatArray]) -> tuple[Rows, int]:
        rows = Rows.of(batches, len(self.columns))
        return rows, len(rows)

    def drawn(
        self,
        exact: Rows,
        people: int | None,
        spending: Spending,
        source: ByteSource | None,
    ) -> PairsRelease:
        measured = self.mechanism.measure(exact, source)
        paid = spending.identity, spending.note
        return PairsRelease(self, measured, people, *paid, release_time())

    def _facts(self) -> list[tuple[str, str]]:
        pairs = len(self.columns) * (len(self.columns) - 1) // 2
        return [
            ("attributes", f"{len(self.columns):,}"),
            ("pairs", f"{pairs:,}"),
            ("privacy", self.privacy.text()),
        ]


@dataclass(frozen=True, eq=False, repr=False)
class PairsRelease(RowRelease[PairsPlan, MeasuredPairs]):
    """Noisy totals and second moments, and all pairs that follow from them at no further cost."""

    kind = "pairs-release"

    def _measured_people(self) -> float:
        assert self.measured.people is not None
        return self.measured.people

    @property
    def means(self) -> FloatArray:
        """The share of people with each attribute."""
        return self.plan.mechanism.means(self.people, self.measured.totals)

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Covariances as measured, and the eigenvalues of their noise."""
        method = self.plan.mechanism
        second = method.second(method.square(self.people, self.measured.totals))
        unit = second.radius**2 / max(self.people, 1.0)
        return self.measured.moments * unit, second.spectrum * unit

    @cached_property
    def proportions(self) -> FloatArray:
        """Shares with both of two attributes (of one, on the diagonal), as one matrix.

        From few common factors that stand out of the noise, within what means allow: biased, and
        much nearer than what was measured unless people are very many.
        """
        return possible_pairs(common_factors(*self._moments), self.means)

    @property
    def measured_proportions(self) -> FloatArray:
        """The same as measured; rows longer than most were clipped before."""
        means = self.means
        result = self._moments[0] + np.outer(means, means)
        np.fill_diagonal(result, means)
        return np.asarray(result)

    @property
    def answers(self) -> FloatArray:
        """How many people have both, pair by pair in the order of the workload."""
        return np.asarray(
            self.proportions[np.triu_indices(len(self.means), 1)] * self.people
        )

    @property
    def labels(self) -> list[str]:
        """Every pair in words."""
        rows, columns = np.triu_indices(len(self.means), 1)
        names = self.plan.columns
        return [
            f"{names[i]} and {names[j]}" for i, j in zip(rows, columns, strict=True)
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Proportions as a frame, attributes by attributes."""
        import pandas as pd

        names = list(self.plan.columns)
        return pd.DataFrame(self.proportions, index=names, columns=names)

    def to_arrow(self) -> pa.Table:
        """Every attribute and every pair: the share and number of people, one to a row.

        An attribute alone stands with itself. `measured` is the share without the step that makes
        it biased.
        """
        import pyarrow as pa

        rows, columns = np.triu_indices(len(self.means))
        names = np.array(self.plan.columns, dtype=object)
        share = self.proportions[rows, columns]

        return pa.table({
            "first": pa.array(names[rows], pa.string()),
            "second": pa.array(names[columns], pa.string()),
            "share": share,
            "people": share * self.people,
            "measured": self.measured_proportions[rows, columns],
        })  # fmt: skip

    def __len__(self) -> int:
        return len(self.means) * (len(self.means) - 1) // 2


def made_up(
    name: str, people: int, attributes: int, rng: np.random.Generator
) -> FloatArray:
    """Rows of a public population, for simulation alone."""
    uniform = rng.random((people, attributes))
    if name == "independent":
        return np.asarray(uniform < rng.uniform(0.1, 0.9, attributes), dtype=np.float64)
    if name == "rare":
        return np.asarray(
            uniform < rng.uniform(0.005, 0.05, attributes), dtype=np.float64
        )

    noise = rng.standard_normal((people, attributes))
    loadings = 1.0 + np.abs(rng.standard_normal(attributes))
    return np.asarray(
        rng.standard_normal((people, 1)) * loadings + noise > 0, dtype=np.float64
    )
