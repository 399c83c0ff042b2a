"""What learning plans are kept as; a file may come from anybody.

Kept are the class, the task and its figures, what clients run, and the matrix that is estimated.
How many people another protocol would take is kept as it was said.
What is promised follows again: ε from the clients' specification, people and accuracies from the
tails of the estimates and from how far the matrix is from the class's own.
"""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Literal, Self, cast

import msgspec
import numpy as np

from noisewright.arrays import Array, FloatArray, SignArray
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.learn.concept_classes import MOST_ENTRIES, ConceptClass, concepts
from noisewright.learn.plans import AgnosticPlan, LearningPlan, RefutationPlan
from noisewright.learn.realizable import RealizablePlan, RealizableRefutationPlan
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import IndexStrategy
from noisewright.local.vector.linear_answers import LinearAnswers
from noisewright.planning.files import Kept
from noisewright.workload.kinds.explicit import Explicit

_REMEDY = "plan again"
_Text = Annotated[str, msgspec.Meta(max_length=200)]
_Plain = _Text | int | float
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Protocol = Literal["factorization", "one concept a person"]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class LearningFile(Kept, frozen=True, tag="learning-plan"):
    """A plan to learn or to refute; a class of no text form is kept as an array of labels."""

    task: _Text
    text: _Text | None
    names: list[_Text] | None
    points: list[_Plain | list[_Plain]] | None
    alpha: float
    beta: float
    epsilon: float
    theta: float | None
    loss: bool
    strategy: dict[str, Any] | None
    arrays: dict[str, Array]
    """What belongs to the clients' strategy beside its settings."""
    targets: FloatArray | None
    """The matrix that is estimated."""
    table: SignArray | None
    """The labels of a class that has no text."""
    shifts: FloatArray | None
    subtracted: FloatArray | None
    numbers: list[_Number] | None
    others: dict[_Protocol, _Count]

    @classmethod
    def of(cls, plan: LearningPlan) -> Self:
        """What a plan is kept as."""
        given = plan.concepts
        points = (
            None if given.points is None else [_kept(point) for point in given.points]
        )

        answers = plan.answers
        settings, arrays = (None, {}) if answers is None else pack(answers.strategy)

        return cls(
            task=plan.task,
            text=given.text,
            names=None if given.text else list(given.names),
            points=points,
            numbers=None if given.numbers is None else list(given.numbers),
            alpha=plan.alpha,
            beta=plan.beta,
            epsilon=plan.epsilon,
            theta=plan.theta if isinstance(plan, RefutationPlan) else None,
            loss=plan.loss if isinstance(plan, AgnosticPlan) else False,
            strategy=settings,
            arrays=arrays,
            targets=None if answers is None else answers.targets,
            table=given.table if given.text is None else None,
            shifts=plan.shifts if isinstance(plan, RealizablePlan) else None,
            subtracted=plan.subtracted if isinstance(plan, AgnosticPlan) else None,
            others=cast("dict[_Protocol, int]", dict(plan.others)),
        )

    def content(self) -> LearningPlan:
        """The plan again."""
        given = self._class()
        known = {
            "concepts": given,
            "alpha": self.alpha,
            "beta": self.beta,
            "epsilon": self.epsilon,
            "others": self.others,
        }

        plan = self._plan(known, given, self._estimates(given))

        if plan.privacy.epsilon != self.epsilon:
            raise FileFormatError(
                f"its clients keep another epsilon than it says; {_REMEDY}"
            )

        return plan

    def _plan(
        self,
        known: dict[str, Any],
        given: ConceptClass,
        answers: LinearAnswers | None,
    ) -> LearningPlan:
        if self.task in ("realizable", "refute-realizable"):
            shifts = _finite("shifts", self.shifts, (given.count,))
            kind = (
                RealizablePlan
                if self.task == "realizable"
                else RealizableRefutationPlan
            )
            plan: LearningPlan = kind(**known, answers=answers, shifts=shifts)
        elif self.task == "agnostic":
            f = _finite("subtracted", self.subtracted, (given.size,))
            if self.loss and f.any():
                raise FileFormatError(
                    f"a loss does not follow from differences; {_REMEDY}"
                )
            plan = AgnosticPlan(**known, answers=answers, loss=self.loss, subtracted=f)
        elif self.task == "refute" and self.theta is not None:
            plan = RefutationPlan(**known, answers=answers, theta=self.theta)
        else:
            raise FileFormatError(f"its task is not known to this release; {_REMEDY}")

        asks = given.count > 1 or self.task.startswith("refute") or self.loss
        if asks == (answers is None):
            raise FileFormatError(f"it asks nobody, or for nothing; {_REMEDY}")
        if plan.protocol in plan.others:
            raise FileFormatError(f"its own protocol is none of the others; {_REMEDY}")

        _ = plan.people  # whatever does not fit is refused here
        return plan

    def _class(self) -> ConceptClass:
        if self.text is not None:
            return concepts(self.text).distinct()

        table = self.table
        if table is None or table.ndim != 2:
            raise FileFormatError(f"its class is no table of labels; {_REMEDY}")
        if table.size > MOST_ENTRIES:
            raise FileFormatError(f"its class is too large; {_REMEDY}")

        points = self.points and tuple(
            tuple(p) if isinstance(p, list) else p for p in self.points
        )
        numbers = self.numbers and tuple(self.numbers)
        return ConceptClass(
            table,
            tuple(self.names or ()),
            points=points or None,
            numbers=numbers or None,
        )

    def _estimates(self, given: ConceptClass) -> LinearAnswers | None:
        if self.strategy is None:
            return None

        strategy = unpack(self.strategy, self.arrays)
        if not isinstance(strategy, IndexStrategy) or strategy.size != 2 * given.size:
            raise FileFormatError(f"its clients report about something else; {_REMEDY}")

        targets = _finite("targets", self.targets, (None, 2 * given.size))
        # estimates of anything else would be biased
        strategy.check_reach(Explicit(targets))
        return LinearAnswers(strategy, targets)


def _kept(point: object) -> Any:
    """A point as a file holds it: text, a finite number, or a tuple of them as a list."""
    parts = point if isinstance(point, tuple) else (point,)
    for part in parts:
        plain = type(part) in (str, int) or (isinstance(part, float) and isfinite(part))
        if not plain:
            rule = "cannot be kept; use text, numbers or tuples of them"
            raise InvalidParameter("points", "of other types", rule)

    return list(parts) if isinstance(point, tuple) else point


def _finite(
    name: str, array: FloatArray | None, shape: tuple[int | None, ...]
) -> FloatArray:
    """An array of numbers of this shape (None: any length)."""
    if array is None:
        raise FileFormatError(f"the array {name!r} is missing")

    fits = array.ndim == len(shape) and all(
        extent in (None, length)
        for extent, length in zip(shape, array.shape, strict=True)
    )
    if not fits or not np.isfinite(array).all():
        raise FileFormatError(f"its {name} are not numbers; {_REMEDY}")
    return array
