"""What may be chosen of a plan with a curator: one struct, checked in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from noisewright.central.mechanism import Given
from noisewright.central.problem import CentralMechanism
from noisewright.errors import refuse_given, require, unknown_name

Composition = Literal["one", "many"]
"""Whether a release is the one that its promise (ε, δ) is for, or one of many that add up in ρ."""


@dataclass(frozen=True, eq=False)
class Central:
    """Choices of a plan with a curator; all of them may be left as they are."""

    error: str | float = "rmse"
    """What to make small: "rmse", "max" or an exponent between 2 and infinity."""

    mechanism: str | CentralMechanism = "auto"
    """A mechanism's name, or an entry of one's own as the registry holds."""

    strategy: npt.ArrayLike | None = None
    """A matrix of one's own in place of a mechanism: rows to measure, a column per cell.

    It is made exact in whole numbers, from which the sensitivity is computed, and refused where the
    queries do not follow from it.
    """

    people: int | None = None
    """How many people there are, where that is public.

    Mechanisms then compete whose errors depend on it (`projection`): biased, and nearer where
    people are few. Their errors are simulated at public histograms, never at the data.
    """

    public: Sequence[npt.ArrayLike] = ()
    """Histograms that the people's may be like; three made-up kinds unless given."""

    composition: Composition = "one"
    """Whether the release is the one its (ε, δ) is for, or one of "many" that add up in ρ.

    One keeps it by whichever noise errs less, Gaussian or for pure ε, and `plan.privacy` says what
    that promises. One of many, as where a ledger adds up, has Gaussian noise, which costs less ρ.
    """

    def __post_init__(self) -> None:
        _ = self.norm
        require(
            self.strategy is None or self.mechanism == "auto",
            "strategy",
            "a matrix",
            "is a mechanism of its own",
            "give a strategy or a mechanism",
        )
        require(
            self.people is not None or not len(self.public),
            "public",
            len(self.public),
            "needs a number of people",
            "give people=",
        )

    @property
    def norm(self) -> float:
        """The exponent of the error."""
        return error_norm(self.error)

    @cached_property
    def given(self) -> Given | None:
        """What is public of the people, where their number is."""
        if self.people is None:
            return None
        histograms = (np.asarray(each, dtype=np.float64) for each in self.public)
        return Given(self.people, tuple(histograms))

    def refuse_but(self, *taken: str, rule: str, remedy: str = "leave it out") -> None:
        """Refuse what was chosen, but for the fields that are taken."""
        chosen: dict[str, object] = {
            "error": self.norm != 2 and self.error,
            "mechanism": self.mechanism != "auto"
            and getattr(self.mechanism, "name", self.mechanism),
            "strategy": self.strategy is not None and "a matrix",
            "people": self.people,
            "public": bool(len(self.public)) and f"{len(self.public)} histograms",
            "composition": self.composition != "one" and self.composition,
        }
        assert set(chosen) == {each.name for each in fields(self)}
        refused = {name: chosen[name] for name in chosen if name not in taken}
        refuse_given(refused, rule, remedy)


def error_norm(error: str | float) -> float:
    """The exponent of an error's name."""
    if isinstance(error, str):
        named = {"rmse": 2.0, "max": float("inf")}
        if error not in named:
            raise unknown_name(
                "error", error, "must be 'rmse', 'max' or a number >= 2", named
            )
        return named[error]

    require(float(error) >= 2, "error", error, "must be >= 2", "use 'rmse', which is 2")

    return float(error)
