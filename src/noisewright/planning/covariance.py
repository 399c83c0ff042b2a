"""Plans of second moments, means and covariances of numeric columns, without enumerating cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from noisewright import __version__
from noisewright.central.geometry.second_moments import LARGEST_SHARE, SecondMoments
from noisewright.display import Shown
from noisewright.errors import InvalidParameter
from noisewright.estimate.intervals import normal_multiplier
from noisewright.estimate.moments import above_noise, possible_moments
from noisewright.planning.counting import Data, Source
from noisewright.planning.plan import LEVEL, Forecast
from noisewright.planning.release import fresh_name
from noisewright.planning.spending import (
    Again,
    Cost,
    LedgerLike,
    LedgerNote,
    Reservation,
    noise_of,
    purse_of,
)
from noisewright.privacy.budget import Privacy
from noisewright.privacy.source import ByteSource
from noisewright.privacy.spend import Spend
from noisewright.workload.base import FloatArray

RowReader = Callable[[Source, Sequence[str]], Iterator[FloatArray]]
"""Batches of the named columns of a table, as numbers; what is no number is NaN."""


def row_batches(
    data: Data, columns: Sequence[str], reader: RowReader | None
) -> Iterable[FloatArray]:
    """Rows of an array, or of the columns of a table."""
    if isinstance(data, np.ndarray):
        return [np.asarray(data, dtype=np.float64)]
    if reader is None:
        raise InvalidParameter("data", type(data).__name__, "needs a reader of tables")
    return reader(data, columns)


@dataclass(frozen=True, eq=False, repr=False)
class CovariancePlan(Shown):
    """Second moments, means and covariances of `columns`, in one private measurement."""

    columns: tuple[str, ...]
    method: SecondMoments
    reader: RowReader | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not len(set(self.columns)) == len(self.columns) == self.method.columns:
            raise InvalidParameter("columns", self.columns, "must be named once each")
        if self.method.protected and not self.method.constant:
            raise InvalidParameter("share", 0, "tells no number of people, which is protected here")

    @property
    def model(self) -> str:
        """Who adds the noise."""
        return "central"

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return "wishart-difference" if self.method.pure else "gaussian"

    @property
    def privacy(self) -> Privacy:
        """The promise that one release keeps."""
        return self.method.privacy

    @property
    def spend(self) -> Spend:
        """What one release costs."""
        return self.method.spend

    def forecast(self) -> Forecast:
        """Standard errors of the entries of Σxxᵀ, row by row, before it is divided by people."""
        on, off = self.method.variances
        size = self.method.columns
        variance = np.where(np.eye(size, dtype=bool), on, off) * self.method.radius**4
        std = np.sqrt(variance).ravel()
        # Sums of many products of Gaussians, or Gaussian.
        return Forecast(
            std, normal_multiplier(LEVEL) * std, normal_multiplier(1 - (1 - LEVEL) / len(std)) * std
        )

    def errors(self, people: int) -> dict[str, float]:
        """Root mean square errors, all entries together, from so many people.

        Of second moments and means before any projection; `covariance` bounds that of covariances,
        and `covariance_by_halves` is that bound for the recipe of [004], half the budget on second
        moments and half on means under noise in the shape of a ball.
        """
        if people < 1:
            raise InvalidParameter("people", people, "must be >= 1")
        method, (on, off) = self.method, self.method.variances
        d, radius = method.columns, method.radius
        second = float(np.sqrt(d * on + d * (d - 1) * off)) * radius**2 / people
        result = {"second_moment": second}
        if method.constant:
            mean = float(np.sqrt(d * off)) / method.share * radius / people
            result |= {"mean": mean, "covariance": second + 2 * radius * mean}
            if method.pure:
                result["covariance_by_halves"] = _by_halves(self.columns, method) / people
        return result

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": self.mechanism,
            "privacy": self.privacy.to_dict(),
            "columns": list(self.columns),
            "rmse": forecast.rmse,
            "max": forecast.max,
            **self.method.record(),
        }

    @cached_property
    def cost(self) -> Cost:
        """What a ledger is told of a release."""
        from noisewright.planning.plan_files import plan_digest

        title = f"second moments of {len(self.columns)} columns, {self.mechanism}"
        noise = noise_of(self.method.record())
        return Cost(self.spend, self.privacy, plan_digest(self), title, noise)

    def release(
        self,
        data: Data,
        *,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
    ) -> CovarianceRelease:
        """Measure a table, or an array with one row per person; each call spends the budget.

        Rows are clipped to the radius; a value that is missing or no number counts as zero.
        """
        purse = purse_of(ledger, dataset, again)
        if purse is None:
            return self._release(*self.method.exact(row_batches(data, self.columns, self.reader)))
        if (stored := purse.stored(self.cost.plan)) is not None:
            from noisewright.planning.plan_files import from_bytes

            restored = from_bytes(stored)
            assert isinstance(restored, CovarianceRelease)
            return restored
        purse.check(self.cost)
        exact, people = self.method.exact(row_batches(data, self.columns, self.reader))
        return purse.spend(self.cost, lambda r: self._release(exact, people, reservation=r))

    def _release(
        self,
        exact: Any,
        people: int,
        source: ByteSource | None = None,
        reservation: Reservation | None = None,
    ) -> CovarianceRelease:
        measured = self.method.measure(exact, source)
        public = None if self.method.protected else people
        name = fresh_name() if reservation is None else reservation.identity
        note = None if reservation is None else reservation.note
        return CovarianceRelease(self, measured, public, name, note)

    def save(self, path: str | Path) -> None:
        """Write the plan, whole or not at all."""
        from noisewright.planning.plan_files import save

        save(self, path)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("columns", f"{len(self.columns):,}"),
            ("mechanism", self.mechanism),
            ("radius", f"{self.method.radius:g}"),
            ("privacy", self.privacy.text()),
        ]


@dataclass(frozen=True)
class Regression:
    """Coefficients of least squares with the errors that the noise gives them.

    Standard errors are those of small noise (first order), intervals cover each at 95 % there; what
    the people themselves vary by is not in them.
    """

    names: tuple[str, ...]
    coefficients: FloatArray
    std_error: FloatArray

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the intervals."""
        return np.asarray(self.coefficients - normal_multiplier(LEVEL) * self.std_error)

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the intervals."""
        return np.asarray(self.coefficients + normal_multiplier(LEVEL) * self.std_error)


@dataclass(frozen=True, eq=False, repr=False)
class CovarianceRelease(Shown):
    """One noisy matrix, and all that follows from it at no further cost."""

    plan: CovariancePlan
    measured: FloatArray
    public_people: int | None
    identity: str
    note: LedgerNote | None = None

    @property
    def people(self) -> float:
        """How many people there are: as is public, or as measured."""
        if self.public_people is not None:
            return float(self.public_people)
        return max(1.0, float(self.measured[-1, -1]) / self.plan.method.share**2)

    @property
    def second_moment(self) -> FloatArray:
        """Σxxᵀ over the number of people, unbiased where that is public."""
        size, radius = self.plan.method.columns, self.plan.method.radius
        return np.asarray(self.measured[:size, :size] * (radius**2 / max(self.people, 1.0)))

    @property
    def matrix(self) -> FloatArray:
        """The second moment."""
        return self.second_moment

    @property
    def mean(self) -> FloatArray:
        """Σx over the number of people."""
        method = self.plan.method
        if not method.constant:
            raise InvalidParameter("share", 0, "measures no means", "plan with means=True")
        scale = method.radius / (method.share * max(self.people, 1.0))
        return np.asarray(self.measured[: method.columns, -1] * scale)

    @property
    def covariance(self) -> FloatArray:
        """The second moment less that of the mean."""
        return np.asarray(self.second_moment - np.outer(self.mean, self.mean))

    @property
    def projected(self) -> FloatArray:
        """The nearest second moment that rows of bounded length can have: biased, often nearer."""
        return possible_moments(self.second_moment, self.plan.method.radius**2)

    @property
    def denoised(self) -> FloatArray:
        """Directions that stand out of the noise alone; the rest of the trace is spread evenly."""
        method = self.plan.method
        edge = method.edge * method.radius**2 / max(self.people, 1.0)
        return above_noise(self.second_moment, edge, method.radius**2)

    def regression(self, target: str, on: Sequence[str] | None = None) -> Regression:
        """Least squares of one column on others, with a constant where means were measured."""
        names = self.plan.columns
        features = [name for name in names if name != target] if on is None else list(on)
        absent = [name for name in (target, *features) if name not in names]
        if absent or target in features or not features:
            raise InvalidParameter("on", on, f"must be other columns of {list(names)}")
        method = self.plan.method
        places = [names.index(name) for name in features]
        if method.constant:
            places.append(method.columns)
        chosen = self.measured[np.ix_(places, places)]
        own = self.measured[places, names.index(target)]
        inverse = np.linalg.pinv(chosen, hermitian=True)
        raw = inverse @ own
        on_diagonal, off = method.variances
        # Noise of own - chosen·raw, to first order: a symmetric matrix times (raw, -1).
        noise = off * (raw @ raw + 1.0) + (on_diagonal - off) * raw**2
        variance = np.einsum("ij,j,ij->i", inverse, noise, inverse)
        unit = np.ones(len(places))
        if method.constant:
            unit[-1] = method.share * method.radius  # the constant entry is that many units
        labels = (*features, *(("constant",) if method.constant else ()))
        return Regression(labels, raw * unit, np.sqrt(variance) * unit)

    def record(self) -> dict[str, Any]:
        """What was spent and how: ready for JSON, nothing private in it."""
        return {
            "format": "noisewright-covariance",
            "version": __version__,
            "identity": self.identity,
            "spend": self.plan.spend.to_dict(),
            **self.plan.summary(),
        }

    def save(self, path: str | Path) -> None:
        """Write the release, whole or not at all."""
        from noisewright.planning.plan_files import save

        save(self, path)

    def _facts(self) -> list[tuple[str, str]]:
        return [("people", f"{self.people:,.0f}"), *self.plan._facts()]


def plan_covariance(
    columns: int | Sequence[str],
    privacy: Privacy,
    *,
    radius: float = 1.0,
    means: bool = True,
    reader: RowReader | None = None,
) -> CovariancePlan:
    """Plan second moments of columns, and means with them unless only second moments are wanted.

    `radius` is the Euclidean length that every row is clipped to: public, never read off the data.
    """
    names = tuple(f"x{i}" for i in range(columns)) if isinstance(columns, int) else tuple(columns)
    if not means and privacy.neighbours == "add-remove":
        raise InvalidParameter(
            "means",
            means,
            "must be True where the number of people is protected",
            "neighbours='replace-one' makes it public",
        )
    share = _best_share(len(names), radius, privacy) if means else 0.0
    return CovariancePlan(names, SecondMoments(len(names), radius, share, privacy), reader)


def _by_halves(columns: Sequence[str], method: SecondMoments) -> float:
    """The bound on covariances of the recipe in halves, before it is divided by people."""
    d, radius = len(columns), method.radius
    halved = replace(method.privacy, epsilon=cast("float", method.privacy.epsilon) / 2)
    on, off = replace(method, share=0.0, privacy=halved).variances
    second = np.sqrt(d * on + d * (d - 1) * off) * radius**2
    moved = radius if method.protected else 2 * radius
    mean = np.sqrt(d * (d + 1)) * moved / cast("float", halved.epsilon)
    return float(second + 2 * radius * mean)


def _best_share(columns: int, radius: float, privacy: Privacy) -> float:
    """The constant entry with the least bound on the error of covariances."""
    from scipy.optimize import minimize_scalar

    def error(log_share: float) -> float:
        share = float(np.exp(log_share))
        method = SecondMoments(columns, radius, share, privacy)
        on, off = method.variances
        second = np.sqrt(columns * on + columns * (columns - 1) * off)
        number = np.sqrt(on) / share**2 if method.protected else 0.0
        return float(second + 2 * np.sqrt(columns * off) / share + 3 * number)

    best = minimize_scalar(
        error,
        bounds=(-4.0, float(np.log(LARGEST_SHARE))),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return min(round(float(np.exp(best.x)), 4), LARGEST_SHARE)
