"""The promise made to people: how much, about which neighbours, and how many rows of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

from noisewright.errors import InvalidParameter, require
from noisewright.privacy.exact.rounding import (
    float_below,
    positive,
    probability,
    root_above,
)

Kind = Literal["pure", "approximate", "zcdp"]
Neighbours = Literal["add-remove", "replace-one"]
NEIGHBOURS: tuple[str, ...] = get_args(Neighbours)

SMALLEST_EPSILON = 2.0**-1022
"""What an ε that rounds to zero is stated as, the smallest normal float: no promise is of ε = 0."""

_MEANING = {
    "add-remove": "add or remove one person",
    "replace-one": "replace one person",
}
_WEAK_EPSILON = 10.0
"""From here on what one person says may make an outcome 22,000 times as likely."""
_WEAK_DELTA = 1e-3
"""From here on the promise may fail altogether for one person in a thousand."""


@dataclass(frozen=True)
class Privacy:
    """A privacy guarantee: pure (epsilon), approximate (epsilon and delta) or zCDP (rho).

    With `rho`, `delta` is optional: it only chooses the δ at which the implied ε is stated.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        if self.epsilon is not None and self.rho is not None:
            both = "cannot be combined with epsilon"
            raise InvalidParameter("rho", self.rho, both, "give one of the two")
        if self.epsilon is None and self.rho is None:
            neither = "must be given unless rho is"
            asked = "give epsilon (and delta for approximate privacy), or rho for zCDP"
            raise InvalidParameter("epsilon", None, neither, asked)
        if self.neighbours not in NEIGHBOURS:
            raise InvalidParameter(
                "neighbours", self.neighbours, f"must be one of {', '.join(NEIGHBOURS)}"
            )

        for name, rule, remedy in (
            ("epsilon", positive, "common choices lie between 0.1 and 10"),
            ("rho", positive, "common choices lie between 0.005 and 5"),
            ("delta", probability, "leave delta out for pure privacy, or take 1e-9"),
        ):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, float_below(rule(name, value, remedy)))

    @cached_property
    def kind(self) -> Kind:
        """Which definition of privacy is promised."""
        if self.rho is not None:
            return "zcdp"
        return "pure" if self.delta is None else "approximate"

    @property
    def implied_epsilon(self) -> float | None:
        """The ε that holds: the stated one, or what zCDP implies at `delta` (None without it)."""
        if self.rho is None or self.delta is None:
            return self.epsilon
        from noisewright.privacy.noise.gaussian import zcdp_epsilon

        return zcdp_epsilon(self.rho, self.delta)

    @property
    def caution(self) -> str | None:
        """Why few would call this a promise; None where it is one."""
        epsilon = self.implied_epsilon
        delta = self.delta
        reasons = []
        if epsilon is not None and epsilon >= _WEAK_EPSILON:
            reasons.append(
                f"epsilon={epsilon:.4g} is large: what one person says may make an outcome "
                f"e^{epsilon:.4g} times as likely; common choices lie below {_WEAK_EPSILON:g}"
            )

        if delta is not None and delta >= _WEAK_DELTA:
            reasons.append(
                f"delta={delta:.4g} is large: so likely the promise may fail altogether for each "
                f"person; choose it far below one over the number of people, as 1e-9"
            )

        return ". ".join(reasons) or None

    def text(self) -> str:
        """Describe the guarantee for a reader."""
        if self.rho is None:
            promise = f"ε = {self.epsilon:g}"
            promise += "" if self.delta is None else f", δ = {self.delta:g}"
        else:
            promise = f"ρ = {self.rho:g} (zCDP)"
            if self.delta is not None:
                promise += f", which implies ε = {self.implied_epsilon:.4g} at δ = {self.delta:g}"
        return f"{promise}; neighbours: {_MEANING[self.neighbours]}"

    def to_dict(self) -> dict[str, str | float]:
        """Return what was stated, ready for JSON; `from_dict` gives it back."""
        stated = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        numbers = {name: value for name, value in stated.items() if value is not None}
        return {"kind": self.kind, **numbers, "neighbours": self.neighbours}

    @classmethod
    def from_dict(cls, stated: Mapping[str, object]) -> Privacy:
        """Rebuild a guarantee from `to_dict`."""
        fields = dict(stated)
        kind = fields.pop("kind", None)
        unknown = sorted(fields.keys() - {"epsilon", "delta", "rho", "neighbours"})
        require(not unknown, "privacy", unknown, "holds names that no guarantee has")

        privacy = cls(**fields)  # type: ignore[arg-type]  # checked as a user's own
        require(
            kind in (None, privacy.kind),
            "kind",
            kind,
            f"contradicts the numbers ({privacy.kind})",
        )

        return privacy


def pure_promise(privacy: Privacy) -> Privacy | None:
    """The pure promise of the same ε, which keeps (ε, δ) whatever δ is; None for other kinds."""
    if privacy.kind != "approximate":
        return None
    return Privacy(epsilon=privacy.epsilon, neighbours=privacy.neighbours)


@dataclass(frozen=True)
class Contribution:
    """How far a person moves a measurement of whom several rows count, against one row.

    At most `rows` times as far in L1, where all may move it the same way. In L2 it is the root of
    `square`: less where rows in different groups move different numbers that are measured.
    """

    rows: int = 1
    apart: Fraction | None = None

    @property
    def square(self) -> Fraction:
        """The square of the multiple in L2: that of the rows, unless groups keep them apart."""
        whole = Fraction(self.rows) ** 2
        return whole if self.apart is None else min(whole, self.apart)

    @cached_property
    def multiple(self) -> Fraction:
        """The multiple in L2, rounded up where it is no whole number."""
        if self.square == self.rows**2:
            return Fraction(self.rows)
        return Fraction(root_above(self.square))


def most_squares(rows: int, each: int) -> int:
    """The largest Σ n² over groups, of n rows each, n <= `each`, `rows` in all."""
    full, rest = divmod(rows, each)
    return full * each**2 + rest**2
