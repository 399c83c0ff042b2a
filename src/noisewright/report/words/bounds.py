"""How close errors are to the least: what is proved of a plan, by its kind, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import ceil, isclose, isfinite

from noisewright.local.choose.cost import ALPHA
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.local.plan import LocalPlan
from noisewright.report.words.facts import Record, Tile
from noisewright.report.words.numbers import figure
from noisewright.solution import BoundClass

_ERRORS = {"rmse": " (root mean square)", "max": " (of the least certain one)"}
_FULL = "A full bar cannot be bettered within its class."
_COMPARED_PEOPLE = (
    "The people that this needs, beside the fewest that any method of a "
    f"class needs. {_FULL}"
)


@dataclass(frozen=True)
class Limit:
    """What no method of a class goes below, as a part of the error at hand."""

    part: float | None
    ratio: str
    says: str
    statement: str

    @classmethod
    def of(cls, bound_class: str, ratio: float | None, says: str) -> Limit:
        """A limit from the error over it, where that is known."""
        return cls(
            part=round(100 / ratio, 2) if ratio and isfinite(ratio) else None,
            ratio="–" if ratio is None else f"{ratio:.3f} ×",
            says=says,
            statement=f"{BoundClass(bound_class).statement}.",
        )


@dataclass(frozen=True)
class Certified:
    """How close errors are to the least: for a plan, or a record where no plan is known."""

    tile: Tile
    limits: Sequence[Limit]
    compared: str


@singledispatch
def certified(plan: object, known: Record) -> Certified:
    """What is proved of the errors in a record, by the kind of their plan."""
    return Certified(_ratio_tile(known), limits(known), _compared(known))


@certified.register
def _certified_with_curator(plan: CentralPlan, known: Record) -> Certified:
    """Bounds on the error; where questions are weighed, so is what is compared."""
    told = dict(known)
    if known.get("ratio") is not None:
        forecast = plan.forecast()
        told = {"rmse": forecast.rmse, "max": forecast.max, **known}

    weighed = len(set(plan.weights)) > 1
    return Certified(_ratio_tile(known), limits(told), _compared(known, weighed))


@certified.register
def _certified_without_curator(plan: LocalPlan, known: Record) -> Certified:
    """The people that reports need against the fewest that any method of a class needs."""
    facts = plan.summary()
    ratio = facts["certified_ratio"] or facts["ratio"]
    proved = {"ratio": ratio, "bound_class": facts["bound_class"]}
    return Certified(_ratio_tile(proved), _local_limits(plan), _COMPARED_PEOPLE)


def _ratio_tile(known: Record) -> Tile:
    """How close to the least error: among linear strategies, or else in the widest class known."""
    ratio = known.get("ratio")
    limited = known.get("bound_class")
    for bound in known.get("bounds", ()):
        if known.get("ratio") is None and bound["ratio"] is not None:
            ratio = bound["ratio"]
            limited = bound["class"]

    certain = ratio is not None and isfinite(ratio)
    return Tile(
        "against the lower bound",
        f"{ratio:.3f} ×" if certain else "no bound known",
        f"bound for {limited}" if certain else "nothing is certified",
    )


def _compared(known: Record, weighed: bool = False) -> str:
    """What the ratios of a record compare."""
    told = _ERRORS.get(known.get("error", ""), "")
    if told and weighed:
        told = told.replace(")", ", questions weighed)")

    return (
        f"The error of these answers{told}, beside the least that a class of "
        f"methods has. {_FULL}"
    )


def limits(known: Record) -> list[Limit]:
    """The bounds of a record, the narrowest class first."""
    bounds = [
        (each["class"], each["lower_bound"], each["ratio"])
        for each in known.get("bounds", ())
    ]
    if known.get("bound_class") is not None:
        bounds.insert(0, (known["bound_class"], known["lower_bound"], known["ratio"]))

    errors = [known[error] for error in ("rmse", "max") if known.get(error)]
    limited = []
    for name, bound, ratio in bounds:
        people = f"{figure(bound)} people: " if _of_people(bound, ratio, errors) else ""
        limited.append(Limit.of(name, ratio, people + name))

    return limited


def _of_people(bound: float, ratio: float | None, errors: Sequence[float]) -> bool:
    """Whether a bound is about an error in people; weights and sums have units of their own."""
    if ratio is None or not errors:
        return True
    return any(isclose(bound * ratio, error, rel_tol=1e-3) for error in errors)


def _local_limits(plan: LocalPlan) -> list[Limit]:
    """The people that reports need against the fewest that any method of a class needs."""
    best = plan.certificate
    worst = plan.analysis.worst_case
    if best is None or not best.sample_complexity(ALPHA) > 0:
        return []

    ratio = best.ratio(worst)
    needed, least = (ceil(each.sample_complexity(ALPHA)) for each in (plan, best))
    says = (
        f"{needed:,} people where no method of its class needs fewer than {least:,}: "
        f"{BoundClass.UNBIASED}"
    )
    return [Limit.of(BoundClass.UNBIASED, ratio, says)]
