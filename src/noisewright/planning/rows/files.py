"""What plans and releases of second moments and of pairs are kept as."""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec
import numpy as np

from noisewright.arrays import Array
from noisewright.central.geometry.pairs import MeasuredPairs, PairMoments
from noisewright.central.geometry.second_moments import (
    LARGEST_SHARE,
    SecondMoments,
)
from noisewright.errors import FileFormatError
from noisewright.planning.budgets.spending import LedgerNote
from noisewright.planning.files import Arrays, Kept, Text
from noisewright.planning.rows.covariance import CovariancePlan, CovarianceRelease
from noisewright.planning.rows.pairs import PairsPlan, PairsRelease
from noisewright.privacy.promise.budget import Privacy

People = Annotated[int, msgspec.Meta(ge=0)]


class CovarianceFile(Kept, frozen=True, tag="covariance-plan"):
    """A plan of second moments: all else follows from these."""

    columns: tuple[Text, ...]
    radius: Annotated[float, msgspec.Meta(ge=1e-200, le=1e200)]
    share: Annotated[float, msgspec.Meta(ge=0.0, le=LARGEST_SHARE)]
    privacy: dict[str, Any]

    @classmethod
    def of(cls, plan: CovariancePlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        method = plan.mechanism
        privacy = plan.privacy.to_dict()
        return cls(
            columns=plan.columns,
            radius=method.radius,
            share=method.share,
            privacy=privacy,
        )

    def content(self, arrays: Arrays) -> CovariancePlan:
        """The plan again."""
        privacy = Privacy.from_dict(self.privacy)
        method = SecondMoments(len(self.columns), self.radius, self.share, privacy)
        return CovariancePlan(self.columns, method)


class CovarianceReleaseFile(Kept, frozen=True, tag="covariance-release"):
    """A release of second moments: its plan and the noisy matrix."""

    plan: CovarianceFile
    people: People | None
    identity: Text
    note: LedgerNote | None
    time: Text | None = None

    @classmethod
    def of(cls, release: CovarianceRelease, arrays: dict[str, Array]) -> Self:
        """What a release is kept as."""
        plan = CovarianceFile.of(release.plan, arrays)
        arrays["measured"] = release.measured
        return cls(
            plan=plan, people=release.public_people, identity=release.identity,
            note=release.note, time=release.time,
        )  # fmt: skip

    def content(self, arrays: Arrays) -> CovarianceRelease:
        """The release again, if its matrix is of the plan's form."""
        plan = self.plan.content(arrays)
        measured = _symmetric(arrays, plan.mechanism.size)
        _check_public(self.people, plan.mechanism.protected)
        return CovarianceRelease(
            plan, measured, self.people, self.identity, self.note, self.time
        )


class PairsFile(Kept, frozen=True, tag="pairs-plan"):
    """A plan of all pairs of attributes: all else follows from these."""

    columns: tuple[Text, ...]
    share: float
    privacy: dict[str, Any]

    @classmethod
    def of(cls, plan: PairsPlan, arrays: dict[str, Array]) -> Self:
        """What a plan is kept as."""
        privacy = plan.privacy.to_dict()
        return cls(columns=plan.columns, share=plan.mechanism.share, privacy=privacy)

    def content(self, arrays: Arrays) -> PairsPlan:
        """The plan again."""
        method = PairMoments(
            len(self.columns), Privacy.from_dict(self.privacy), self.share
        )
        return PairsPlan(self.columns, method)


class PairsReleaseFile(Kept, frozen=True, tag="pairs-release"):
    """A release of all pairs: its plan and both measurements."""

    plan: PairsFile
    people: People | None
    identity: Text
    note: LedgerNote | None
    time: Text | None = None

    @classmethod
    def of(cls, release: PairsRelease, arrays: dict[str, Array]) -> Self:
        """What a release is kept as."""
        measured = release.measured
        arrays["totals"], arrays["measured"] = measured.totals, measured.moments
        if measured.people is not None:
            arrays["people"] = np.array([measured.people])

        plan = PairsFile.of(release.plan, arrays)
        return cls(
            plan=plan, people=release.public_people, identity=release.identity,
            note=release.note, time=release.time,
        )  # fmt: skip

    def content(self, arrays: Arrays) -> PairsRelease:
        """The release again, if its measurements are of the plan's form."""
        plan = self.plan.content(arrays)
        side = plan.mechanism.attributes
        protected = plan.mechanism.protected
        _check_public(self.people, protected)
        moments = _symmetric(arrays, side)
        totals = _vector(arrays, "totals", side)
        people = float(_vector(arrays, "people", 1)[0]) if protected else None
        measured = MeasuredPairs(people, totals, moments)

        return PairsRelease(
            plan, measured, self.people, self.identity, self.note, self.time
        )


def _symmetric(arrays: Arrays, side: int) -> Array:
    measured = arrays["measured"]
    whole = measured.shape == (side, side) and measured.dtype == np.float64
    if not whole or not np.isfinite(measured).all() or (measured != measured.T).any():
        raise FileFormatError(
            "the measurement is not of this plan; it was damaged or edited"
        )
    return measured


def _vector(arrays: Arrays, name: str, length: int) -> Array:
    values = arrays[name]
    if (
        values.shape != (length,)
        or values.dtype != np.float64
        or not np.isfinite(values).all()
    ):
        raise FileFormatError(
            "the measurement is not of this plan; it was damaged or edited"
        )

    return values


def _check_public(people: int | None, protected: bool) -> None:
    if (people is None) != protected:
        raise FileFormatError("the number of people is public or not as neighbours are")
