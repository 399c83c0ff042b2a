"""Plans of second moments, means and covariances of numeric columns, without enumerating cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from noisewright.central.geometry.second_moments import LARGEST_SHARE, Integers, SecondMoments
from noisewright.errors import InvalidParameter
from noisewright.estimate.intervals import normal_multiplier
from noisewright.estimate.moments import above_noise, nearest_correlation, possible_moments
from noisewright.planning.plan import LEVEL, Forecast
from noisewright.planning.release import now
from noisewright.planning.row_plans import RowPlan, RowReader, RowRelease, column_names
from noisewright.planning.spending import LedgerNote
from noisewright.privacy.budget import Privacy
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class CovariancePlan(RowPlan[SecondMoments, Integers, "CovarianceRelease"]):
    """Second moments, means and covariances of `columns`, in one private measurement.

    Rows are clipped to the radius.
    """

    def __post_init__(self) -> None:
        if not len(set(self.columns)) == len(self.columns) == self.method.columns:
            raise InvalidParameter("columns", self.columns, "must be named once each")
        if self.method.protected and not self.method.constant:
            raise InvalidParameter("share", 0, "tells no number of people, which is protected here")

    @property
    def mechanism(self) -> str:
        """The name of the noise."""
        return "wishart-difference" if self.method.pure else "gaussian"

    @property
    def title(self) -> str:
        """What is released, in words."""
        return f"second moments of {len(self.columns)} columns, {self.mechanism}"

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

    def _exact(self, batches: Iterable[FloatArray]) -> tuple[Integers, int]:
        return self.method.exact(batches)

    def _noisy(
        self, exact: Integers, people: int | None, name: str, note: LedgerNote | None,
        source: ByteSource | None,
    ) -> CovarianceRelease:  # fmt: skip
        measured = self.method.measure(exact, source)
        return CovarianceRelease(self, measured, people, name, note, now())

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
class CovarianceRelease(RowRelease[CovariancePlan, FloatArray]):
    """One noisy matrix, and all that follows from it at no further cost."""

    def _measured_people(self) -> float:
        return float(self.measured[-1, -1]) / self.plan.method.share**2

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
        spectrum = method.spectrum * method.radius**2 / max(self.people, 1.0)
        return above_noise(self.second_moment, spectrum, method.radius**2)

    @property
    def correlation(self) -> FloatArray:
        """The nearest correlation matrix to the covariances over their noisy deviations.

        Where means were not measured, second moments stand for covariances.
        """
        centred = self.covariance if self.plan.method.constant else self.second_moment
        on = np.sqrt(self.plan.method.variances[0]) * self.plan.method.radius**2
        # A variance that noise alone explains is taken as large as that noise.
        variances = np.maximum(np.diag(centred), on / max(self.people, 1.0))
        return nearest_correlation(centred / np.sqrt(np.outer(variances, variances)))

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

    @property
    def std(self) -> dict[str, FloatArray]:
        """Standard errors of `second_moment`, `mean` and `covariance`: those of the noise alone.

        To first order, where covariances, or all figures under add-remove, are quotients and
        products of what was measured.
        """
        method, people = self.plan.method, max(self.people, 1.0)
        on, off = np.sqrt(method.variances)
        size, radius = method.columns, method.radius
        second = np.where(np.eye(size, dtype=bool), on, off) * (radius**2 / people)
        if not method.constant:
            return {"second_moment": second}
        mean = np.full(size, off * radius / (method.share * people))
        # d(mm') has m_j dm_i + m_i dm_j in it; entries of the noise are uncorrelated.
        products = np.square(np.outer(mean, self.mean))
        spread = products + products.T + 2 * np.diag(np.diag(products))
        return {"second_moment": second, "mean": mean, "covariance": np.sqrt(second**2 + spread)}

    def to_arrow(self) -> pa.Table:
        """Means, second moments and covariances with their standard errors, one to a row."""
        import pyarrow as pa

        names, std = np.array(self.plan.columns, dtype=object), self.std
        rows, columns = np.triu_indices(len(names))
        parts = []
        for kind, errors in std.items():
            values = getattr(self, kind)
            pair = kind != "mean"
            parts.append({
                "statistic": [kind.replace("_", " ")] * (len(rows) if pair else len(names)),
                "first": names[rows] if pair else names,
                "second": names[columns] if pair else [None] * len(names),
                "value": values[rows, columns] if pair else values,
                "std_error": errors[rows, columns] if pair else errors,
            })  # fmt: skip
        kinds = {"statistic": pa.string(), "first": pa.string(), "second": pa.string(),
                 "value": pa.float64(), "std_error": pa.float64()}  # fmt: skip
        return pa.concat_tables([pa.table(part, schema=pa.schema(kinds)) for part in parts])


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
    names = column_names(columns)
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
