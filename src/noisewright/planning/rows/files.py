"""What plans and releases of second moments and of pairs are kept as."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.geometry.pairs import MeasuredPairs, PairMoments
from noisewright.central.geometry.second_moments import SecondMoments
from noisewright.errors import FileFormatError
from noisewright.planning.files import Kept, Text
from noisewright.planning.rows.covariance import CovariancePlan, CovarianceRelease
from noisewright.planning.rows.pairs import PairsPlan, PairsRelease
from noisewright.planning.spending import LedgerNote
from noisewright.workload.questions.measures import Missing

People = Annotated[int, msgspec.Meta(ge=0)]


class CovarianceFile(Kept, frozen=True, tag="covariance-plan"):
    """A plan of second moments: all else follows from these."""

    columns: tuple[Text, ...]
    mechanism: SecondMoments
    missing: Missing

    def content(self) -> CovariancePlan:
        """The plan again."""
        return CovariancePlan(self.columns, self.mechanism, missing=self.missing)


class PairsFile(Kept, frozen=True, tag="pairs-plan"):
    """A plan of all pairs of attributes: all else follows from these."""

    columns: tuple[Text, ...]
    mechanism: PairMoments

    def content(self) -> PairsPlan:
        """The plan again."""
        return PairsPlan(self.columns, self.mechanism)


class _ReleaseFile(Kept, frozen=True):
    """What releases of rows share beside their plan and what was measured."""

    public_people: People | None = msgspec.field(name="people")
    identity: Text
    note: LedgerNote | None
    time: Text | None


class CovarianceReleaseFile(_ReleaseFile, frozen=True, tag="covariance-release"):
    """A release of second moments: its plan and the noisy matrix."""

    plan: CovarianceFile
    measured: FloatArray

    def content(self) -> CovarianceRelease:
        """The release again, if its matrix is of the plan's form."""
        plan = self.plan.content()
        _check_public(self.public_people, plan.mechanism.protected)
        _check_symmetric(self.measured, plan.mechanism.size)

        return CovarianceRelease(
            plan, self.measured, self.public_people, self.identity, self.note, self.time
        )


class PairsReleaseFile(_ReleaseFile, frozen=True, tag="pairs-release"):
    """A release of all pairs: its plan and both measurements."""

    plan: PairsFile
    measured: MeasuredPairs

    def content(self) -> PairsRelease:
        """The release again, if its measurements are of the plan's form."""
        plan = self.plan.content()
        measured = self.measured
        protected = plan.mechanism.protected

        _check_public(self.public_people, protected)
        _check_public(measured.people, not protected)

        _check_symmetric(measured.moments, plan.mechanism.attributes)
        _check_finite(measured.totals, (plan.mechanism.attributes,))

        return PairsRelease(
            plan, measured, self.public_people, self.identity, self.note, self.time
        )


def _check_symmetric(measured: FloatArray, side: int) -> None:
    _check_finite(measured, (side, side))
    if (measured != measured.T).any():
        raise FileFormatError(_FOREIGN)


def _check_finite(measured: FloatArray, shape: tuple[int, ...]) -> None:
    if measured.shape != shape or not np.isfinite(measured).all():
        raise FileFormatError(_FOREIGN)


_FOREIGN = "the measurement is not of this plan; it was damaged or edited"


def _check_public(people: float | None, protected: bool) -> None:
    if (people is None) != protected:
        raise FileFormatError("the number of people is public or not as neighbours are")
