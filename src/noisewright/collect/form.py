"""The form that a plan's domain asks for: one question an attribute, answered on the device.

What a person chooses becomes the number of a cell in the browser; the server never sees either.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Literal

import msgspec

from noisewright.domain.attribute import Attribute
from noisewright.domain.ordered import Date, Numeric
from noisewright.errors import TooLarge
from noisewright.planning.local.plan import LocalPlan

_MOST_BANDS = 8
"""Ordered attributes with more cells are asked for a number or a date, not for a band."""

_MOST_LABELS = 5_000


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute. `cuts` are its edges where a number or a date (in days) is asked for."""

    name: str
    text: str
    kind: Literal["choice", "number", "date"]
    labels: tuple[str, ...]
    cuts: tuple[float | None, ...] = ()
    """Edges of the declared cells, null where one is infinite."""
    whole: bool = False
    outside: str = "error"
    size: int


def questions(plan: LocalPlan, texts: Mapping[str, str]) -> tuple[Question, ...]:
    """The questions of a plan, in the order of its attributes."""
    if plan.domain is None:
        size = plan.strategy.size
        if size > _MOST_LABELS:
            raise TooLarge(
                f"{size:,} cells by number are no question; plan with a schema"
            )
        labels = tuple(plan.cell_labels())
        text = texts.get("cell", "Which one applies?")
        return (
            Question(name="cell", text=text, kind="choice", labels=labels, size=size),
        )
    return tuple(_question(a, texts.get(a.name, a.name)) for a in plan.domain)


def _question(attribute: Attribute, text: str) -> Question:
    if attribute.size > _MOST_LABELS:
        raise TooLarge(
            f"{attribute.name!r} has {attribute.size:,} cells: too many for a form"
        )

    kind: Literal["choice", "number", "date"] = "choice"
    cuts: tuple[float | None, ...] = ()
    whole = False
    if isinstance(attribute, Numeric | Date) and attribute.size > _MOST_BANDS:
        kind = "number" if isinstance(attribute, Numeric) else "date"
        cuts = tuple(
            edge if isfinite(edge) else None for edge in attribute.cuts.tolist()
        )
        whole = attribute.whole

    return Question(
        name=attribute.name,
        text=text,
        kind=kind,
        labels=attribute.labels,
        cuts=cuts,
        whole=whole,
        outside=attribute.outside,
        size=attribute.size,
    )
