"""Plans of second moments, means and covariances of numeric columns, without enumerating cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast, get_args

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.geometry.second_moments import (
    LARGEST_SHARE,
    SecondMoments,
)
from noisewright.errors import require, require_one_of
from noisewright.estimate.intervals import normal_multiplier, variance_gamma_multiplier
from noisewright.estimate.moments import (
    MomentErrors,
    above_noise,
    nearest_correlation,
    possible_moments,
)
from noisewright.planning.counting import Counter
from noisewright.planning.plan import LEVEL, Forecast
from noisewright.planning.release import release_time
from noisewright.planning.rows.plan import RowPlan, RowRelease, column_names
from noisewright.planning.spending import Spending
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.questions.measures import Missing

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class CovariancePlan(RowPlan[SecondMoments, IntArray, "CovarianceRelease"]):
    """Second moments, means and covariances of `columns`, in one private measurement.

    Rows are clipped to the radius.
    """

    missing: Missing = "left-out"
    """Whether rows that lack a value are left out, or the value counts as zero."""

    kind = "covariance-plan"
    release_kind = "covariance-release"

    def __post_init__(self) -> None:
        require_one_of("missing", self.missing, get_args(Missing))

        # Refused before any data: that a table lacks no value is itself something about people.
        require(
            self.mechanism.protected or self.missing == "zero",
            "missing",
            self.missing,
            "leaves people out, whose number is public under replace-one",
            "say missing='zero' (--missing zero), or plan with neighbours='add-remove'",
        )

        require(
            len(set(self.columns)) == len(self.columns) == self.mechanism.columns,
            "columns",
            self.columns,
            "must be named once each",
        )
        require(
            not self.mechanism.protected or self.mechanism.constant,
            "share",
            0,
            "tells no number of people, which is protected here",
        )

    @property
    def title(self) -> str:
        """What is released, in words."""
        return f"second moments of {len(self.columns)} columns, {self.mechanism.name}"

    @property
    def moment_errors(self) -> MomentErrors:
        """What the noise makes of means, second moments and covariances."""
        method, (on, off) = self.mechanism, self.mechanism.variances
        return MomentErrors(method.columns, on, off, method.share, method.protected)

    def multiplier(self, level: float) -> float:
        """Standard errors either side that hold a figure with this probability at least."""
        if not self.mechanism.pure:
            return normal_multiplier(level)
        return variance_gamma_multiplier(self.mechanism.degrees / 2, level)

    def forecast(self) -> Forecast:
        """Standard errors of second moments, row by row, times the number of people: at most.

        Where that number is protected its own noise counts, and most where rows are longest:
        nothing larger is known of them. Where it is public they are those of Σxxᵀ, whatever x.
        """
        std = self.moment_errors.worst_entries().ravel() * self.mechanism.radius**2
        each = self.multiplier(LEVEL)
        together = self.multiplier(1 - (1 - LEVEL) / len(std))

        return Forecast(std, each * std, together * std)

    def errors(self, people: int) -> dict[str, float]:
        """Root mean square errors, all entries together, from so many people, at most.

        Of second moments, means and covariances before any projection, to first order in the noise
        and whatever the rows; `covariance_by_halves` is the same for the recipe of [004], half the
        budget on second moments and half on means under noise in the shape of a ball.
        """
        require(people >= 1, "people", people, "must be >= 1")

        method = self.mechanism
        radius = self.mechanism.radius
        worst = self.moment_errors.worst()

        result = {
            name: error * (radius if name == "mean" else radius**2) / people
            for name, error in worst.items()
        }
        if method.constant and method.pure:
            result["covariance_by_halves"] = _by_halves(method) / people

        return result

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        forecast = self.forecast()
        return {
            "mechanism": self.mechanism.name,
            "privacy": self.privacy.to_dict(),
            "columns": list(self.columns),
            "rmse": forecast.rmse,
            "max": forecast.max,
            **self.mechanism.record(),
            "missing": self.missing,
        }

    def read(self, batches: Iterable[FloatArray]) -> tuple[IntArray, int]:
        return self.mechanism.exact(map(self._valued, batches))

    def _valued(self, batch: FloatArray) -> FloatArray:
        """The rows of those who have all values, unless what is missing counts as zero."""
        if self.missing == "zero" or batch.ndim != 2:
            return batch

        return batch[~np.isnan(batch).any(axis=1)]

    def drawn(
        self,
        exact: IntArray,
        people: int | None,
        spending: Spending,
        source: ByteSource | None,
    ) -> CovarianceRelease:
        measured = self.mechanism.measure(exact, source)
        paid = spending.identity, spending.note
        return CovarianceRelease(self, measured, people, *paid, release_time())

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("columns", f"{len(self.columns):,}"),
            ("mechanism", self.mechanism.name),
            ("radius", f"{self.mechanism.radius:g}"),
            ("a missing value", _MISSING[self.missing]),
            ("privacy", self.privacy.text()),
        ]


_MISSING = {"left-out": "its row is left out", "zero": "counts as zero"}


@dataclass(frozen=True)
class Regression:
    """Coefficients of least squares with the errors that the noise gives them.

    Standard errors are those of small noise (first order), intervals cover each at 95 % there; what
    the people themselves vary by is not in them.
    """

    names: tuple[str, ...]
    coefficients: FloatArray
    std_error: FloatArray
    multiplier: float
    """Standard errors either side that an interval has."""

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the intervals."""
        return np.asarray(self.coefficients - self.multiplier * self.std_error)

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the intervals."""
        return np.asarray(self.coefficients + self.multiplier * self.std_error)


@dataclass(frozen=True, eq=False, repr=False)
class CovarianceRelease(RowRelease[CovariancePlan, FloatArray]):
    """One noisy matrix, and all that follows from it at no further cost."""

    kind = "covariance-release"

    def _measured_people(self) -> float:
        return float(self.measured[-1, -1]) / self.plan.mechanism.share**2

    @property
    def second_moment(self) -> FloatArray:
        """Σxxᵀ over the number of people, unbiased where that is public."""
        size = self.plan.mechanism.columns
        radius = self.plan.mechanism.radius
        return np.asarray(
            self.measured[:size, :size] * (radius**2 / max(self.people, 1.0))
        )

    @property
    def matrix(self) -> FloatArray:
        """The second moment."""
        return self.second_moment

    @property
    def mean(self) -> FloatArray:
        """Σx over the number of people."""
        method = self.plan.mechanism
        require(
            method.constant, "share", 0, "measures no means", "plan with means=True"
        )

        scale = method.radius / (method.share * max(self.people, 1.0))
        return np.asarray(self.measured[: method.columns, -1] * scale)

    @property
    def covariance(self) -> FloatArray:
        """The second moment less that of the mean."""
        return np.asarray(self.second_moment - np.outer(self.mean, self.mean))

    @property
    def projected(self) -> FloatArray:
        """The nearest second moment that rows of bounded length can have: biased, often nearer."""
        return possible_moments(self.second_moment, self.plan.mechanism.radius**2)

    @property
    def denoised(self) -> FloatArray:
        """Directions that stand out of the noise alone; the rest of the trace is spread evenly."""
        method = self.plan.mechanism
        spectrum = method.spectrum * method.radius**2 / max(self.people, 1.0)
        return above_noise(self.second_moment, spectrum, method.radius**2)

    @property
    def correlation(self) -> FloatArray:
        """The nearest correlation matrix to the covariances over their noisy deviations.

        Where means were not measured, second moments stand for covariances.
        """
        centred = (
            self.covariance if self.plan.mechanism.constant else self.second_moment
        )
        on = np.sqrt(self.plan.mechanism.variances[0]) * self.plan.mechanism.radius**2
        # A variance that noise alone explains is taken as large as that noise.
        variances = np.maximum(np.diag(centred), on / max(self.people, 1.0))

        return nearest_correlation(centred / np.sqrt(np.outer(variances, variances)))

    def regression(self, target: str, on: Sequence[str] | None = None) -> Regression:
        """Least squares of one column on others, with a constant where means were measured."""
        names = self.plan.columns
        others = [name for name in names if name != target]
        features = others if on is None else list(on)

        absent = [name for name in (target, *features) if name not in names]
        require(
            not absent and target not in features and features,
            "on",
            on,
            f"must be other columns of {list(names)}",
        )

        method = self.plan.mechanism
        places = [names.index(name) for name in features]
        if method.constant:
            places.append(method.columns)

        chosen = self.measured[np.ix_(places, places)]
        own = self.measured[places, names.index(target)]
        inverse = np.linalg.pinv(chosen, hermitian=True)
        raw = inverse @ own

        noise = _residual_noise(raw, *method.variances)
        variance = np.einsum("ij,jk,ik->i", inverse, noise, inverse)

        unit = np.ones(len(places))
        if method.constant:
            # the constant entry is that many units
            unit[-1] = method.share * method.radius

        labels = (*features, *(("constant",) if method.constant else ()))
        errors = np.sqrt(variance) * unit
        return Regression(labels, raw * unit, errors, self.plan.multiplier(LEVEL))

    @property
    def std(self) -> dict[str, FloatArray]:
        """Standard errors of `second_moment`, `mean` and `covariance`: those of the noise alone.

        To first order, where covariances, or all figures under add-remove, are quotients and
        products of what was measured; where the noise depends on them, at the measured ones.
        """
        errors = self.plan.moment_errors
        people = max(self.people, 1.0)
        radius = self.plan.mechanism.radius
        squares = radius**2 / people
        largest = errors.largest

        # Noise may have put it beyond what rows within the radius allow.
        second = (self.second_moment / radius**2).clip(-largest, largest)

        if not self.plan.mechanism.constant:
            return {"second_moment": errors.second_moment(second) * squares}

        mean = (self.mean / radius).clip(-1.0, 1.0)
        return {
            "second_moment": errors.second_moment(second) * squares,
            "mean": errors.mean(mean) * (radius / people),
            "covariance": errors.covariance(second, mean) * squares,
        }

    def to_arrow(self) -> pa.Table:
        """Means, second moments and covariances with their standard errors, one to a row."""
        import pyarrow as pa

        names = np.array(self.plan.columns, dtype=object)
        std = self.std
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
        return pa.concat_tables(
            [pa.table(part, schema=pa.schema(kinds)) for part in parts]
        )


def _residual_noise(
    coefficients: FloatArray, on_diagonal: float, off: float
) -> FloatArray:
    """Covariances of what noise adds to a regression's residual moments, to first order.

    It is a symmetric matrix of noise times (coefficients, -1). An entry off the diagonal is in two
    rows of it, which vary together.
    """
    outer = off * np.outer(coefficients, coefficients)
    rows = off * (coefficients @ coefficients + 1.0)
    rows = rows + (on_diagonal - 2 * off) * coefficients**2
    return np.asarray(np.diag(rows) + outer)


def plan_covariance(
    columns: int | Sequence[str],
    privacy: Privacy,
    *,
    radius: float = 1.0,
    means: bool = True,
    missing: Missing = "left-out",
    counter: Counter | None = None,
) -> CovariancePlan:
    """Plan second moments of columns, and means with them unless only second moments are wanted.

    `radius` is the Euclidean length that every row is clipped to: public, never read off the data.
    All figures are of rows that lack no value, or what is `missing` counts as zero.
    """
    names = column_names(columns)
    require(
        means or privacy.neighbours != "add-remove",
        "means",
        means,
        "must be True where the number of people is protected",
        "neighbours='replace-one' makes it public",
    )

    share = _best_share(len(names), radius, privacy) if means else 0.0
    method = SecondMoments(len(names), radius, share, privacy)
    return CovariancePlan(names, method, counter, missing)


def _by_halves(method: SecondMoments) -> float:
    """The worst error of covariances by the recipe in halves, before it is divided by people.

    The number of people is taken as known there.
    """
    d = method.columns
    radius = method.radius
    halved = replace(method.privacy, epsilon=cast("float", method.privacy.epsilon) / 2)
    alone = replace(method, share=0.0, privacy=halved)
    on, off = alone.variances
    moved = 1.0 if method.protected else 2.0

    # Entries of noise in the shape of a ball vary by this much each.
    of_mean = (d + 1) * (moved / cast("float", halved.epsilon)) ** 2
    variance = d * on + d * (d - 1) * off + 2 * (d + 1) * of_mean

    return float(np.sqrt(variance)) * radius**2


def _best_share(columns: int, radius: float, privacy: Privacy) -> float:
    """The constant entry with which covariances err least at worst."""
    from scipy.optimize import minimize_scalar

    names = column_names(columns)

    def error(log_share: float) -> float:
        method = SecondMoments(columns, radius, float(np.exp(log_share)), privacy)
        return CovariancePlan(names, method, missing="zero").moment_errors.worst()[
            "covariance"
        ]

    best = minimize_scalar(
        error,
        bounds=(-4.0, float(np.log(LARGEST_SHARE))),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return min(round(float(np.exp(best.x)), 4), LARGEST_SHARE)
