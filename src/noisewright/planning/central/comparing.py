"""All central mechanisms for a workload side by side, and why a plan is by its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    refuses_gaussian,
)
from noisewright.central.registry import CENTRAL
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, OutOfReach, TooLarge
from noisewright.planning.central.choose import (
    Contender,
    Ranking,
    by_groups,
    planned,
    propose,
    too_far,
)
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.central.problems import central_problems
from noisewright.planning.central.yardsticks import Limits, yardsticks
from noisewright.planning.counting import Counter
from noisewright.planning.plan import central_class, certified_ratio
from noisewright.privacy.promise.budget import Privacy
from noisewright.solution import BoundClass, ClassBound, quotient
from noisewright.workload import Workload
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.questions.measures import COUNT

if TYPE_CHECKING:
    from noisewright.planning.targets import Target


@dataclass(frozen=True)
class Comparison:
    """One mechanism's errors in counts of people, noise included.

    `achieved` is the error compared, weights of questions included, and `lower_bound` the highest
    bound on it that any of the mechanisms proved for all methods in `bound_class`, under the noise
    of this one (a coarser grid has a little less); `refusal` says why a mechanism does not apply.
    `errors` says what the figures are: exact, upper bounds, or simulated. `bounds` are those for
    wider classes, the same for all mechanisms, and `limits` are bounds by packing and by volume.
    `worst_rmse` is an error that no data exceed, where those forecast are for some alone.
    """

    mechanism: str
    rmse: float | None = None
    max: float | None = None
    lower_bound: float | None = None
    ratio: float | None = None
    seconds: float = 0.0
    refusal: str | None = None
    achieved: float | None = None
    errors: str | None = None
    bounds: tuple[ClassBound, ...] = ()
    limits: Limits | None = None
    worst_rmse: float | None = None

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that `lower_bound` limits."""
        return central_class(self.lower_bound)

    @property
    def packing_bound(self) -> float | None:
        """A root mean square error that every mechanism has on some data of the people given."""
        return None if self.limits is None else self.limits.packing

    @property
    def widest_ratio(self) -> float | None:
        """The error over the bound for any mechanism whatever."""
        limits = {bound.bound_class: bound.ratio for bound in self.bounds}
        return limits.get(BoundClass.ANY_MECHANISM)

    def to_dict(self) -> dict[str, object]:
        """The figures scripts rely on."""
        names = (
            "mechanism",
            "rmse",
            "max",
            "lower_bound",
            "ratio",
            "bound_class",
            "seconds",
        )
        figures = {name: getattr(self, name) for name in (*names, "errors")}
        if self.worst_rmse is not None:
            figures["worst_rmse"] = self.worst_rmse

        limits = {} if self.limits is None else self.limits.to_dict()
        return figures | limits | {"bounds": [bound.to_dict() for bound in self.bounds]}


def compare_central(
    workload: Workload, privacy: Privacy, options: Central, domain: Domain | None = None
) -> list[Comparison]:
    """All central mechanisms for a workload, best first; those that refuse come last.

    With something public of the people, mechanisms whose errors depend on them are planned
    too, beside the answers that look at nobody. Under (ε, δ) those of pure ε compete, which keeps
    it; bounds for all mechanisms are for the promise that is asked.
    """
    if workload.measures != (COUNT,):
        rule = "asks for sums or means, which are planned measure by measure"
        remedy = "compare questions that count people, or plan these"
        raise InvalidParameter("workload", workload.brief(), rule, remedy)

    problems = central_problems(workload, privacy, options, domain)
    rows, reasons = _planned_for(problems[0])

    for problem in problems[1:]:
        beat = min(
            (row.achieved for row in rows if row.achieved is not None), default=inf
        )
        own, why = _planned_for(problem, beat)
        rows = _best_of_each([*rows, *own])
        reasons |= {
            name: text
            for name, text in why.items()
            if text != refuses_gaussian(problem)
        }

    told = {row.mechanism for row in rows}
    reasons = {name: text for name, text in reasons.items() if name not in told}
    if not rows:
        text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise InvalidParameter(
            "workload", workload.brief(), f"is planned by no mechanism: {text}"
        )

    for easy in yardsticks(problems[0]):
        figures = easy.rmse, easy.max
        rows.append(
            Comparison(easy.name, *figures, achieved=easy.achieved, errors="simulated")
        )

    limits = Limits.of(problems[0])
    rows = [replace(row, limits=limits) for row in rows]
    rows.sort(key=lambda row: row.achieved or 0.0)

    return rows + [Comparison(name, refusal=reason) for name, reason in reasons.items()]


def _planned_for(
    problem: CentralProblem, beat: float = inf
) -> tuple[list[Comparison], dict[str, str]]:
    """Mechanisms that apply under one promise, each with its error, and why others do not.

    Those are left out that are known not to go below an error to `beat`, at no search.
    """
    refusals: dict[str, str] = {}
    plans = []

    for name, entry in CENTRAL.items():
        try:
            reason = problem.once(entry.refuses) or too_far(entry, problem, beat)
            if reason is None:
                contender = _least(problem, entry)
                plans.append(contender.plan(contender.seconds))
        except (InvalidParameter, OutOfReach, TooLarge) as error:
            reason = str(error)
        if reason is not None:
            refusals[name] = reason

    known = [
        plan.proposal.bound or 0.0 for plan in plans if plan.lower_bound is not None
    ]
    return [_row(plan, max(known, default=None)) for plan in plans], refusals


def _best_of_each(rows: Sequence[Comparison]) -> list[Comparison]:
    """One row for every mechanism, where it can be planned for several promises."""
    best: dict[str, Comparison] = {}
    for row in sorted(rows, key=lambda row: row.achieved or 0.0):
        best.setdefault(row.mechanism, row)
    return list(best.values())


def _least(problem: CentralProblem, entry: CentralMechanism) -> Contender:
    """What a mechanism proposes, for all cells or for every group by itself."""
    own = propose(problem, entry)
    return min([own, *by_groups(problem, entry)], key=lambda contender: contender.cost)


def _row(plan: CentralPlan, unit_bound: float | None) -> Comparison:
    """A plan against the highest bound that any of them proved, for the noise of this one."""
    unit = plan.mechanism.unit_noise
    bound = None if unit_bound is None or unit is None else unit_bound * unit
    error = plan.accuracy.error

    return Comparison(
        plan.mechanism.name,
        rmse=mean_error(error, 2),
        max=float(error.max()),
        lower_bound=bound,
        ratio=certified_ratio(plan.achieved, bound),
        seconds=plan.seconds,
        achieved=plan.achieved,
        errors=plan.accuracy.kind,
        bounds=plan.bounds,
        worst_rmse=plan.accuracy.worst_rmse,
    )


@dataclass(frozen=True)
class Reason:
    """One mechanism: the error it would reach and how often that is the plan's, or why neither.

    `spends` is what it would cost in each currency, as `CentralPlan.spends`.
    """

    mechanism: str
    achieved: float | None
    times: float | None
    reason: str
    spends: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The figures, ready for JSON."""
        return {**vars(self), "spends": dict(self.spends)}


@dataclass(frozen=True, eq=False)
class Explanation:
    """A plan, why it is by its mechanism in a sentence, and what became of the others."""

    plan: CentralPlan
    why: str
    others: tuple[Reason, ...]
    binding: Target | None = None
    """The target that decides the budget, where targets were given in its place."""

    limited: bool = False
    """Whether the plan's own grid is too fine for the noise of a still smaller budget."""


def explain_central(
    workload: Workload,
    privacy: Privacy,
    options: Central,
    domain: Domain | None = None,
    counter: Counter | None = None,
) -> Explanation:
    """The plan that the same arguments give, with its reasons; nothing is planned twice."""
    problems = central_problems(workload, privacy, options, domain)
    plan, ranking = planned(problems, options, counter)
    if workload.measures != (COUNT,):
        return Explanation(
            plan, "counts and sums are each planned by their best mechanism", ()
        )

    return Explanation(plan, _why(ranking, options), _others(ranking))


def _why(ranking: Ranking, options: Central) -> str:
    best = ranking.best
    if options.strategy is not None:
        return "its matrix was given; ours are planned for the lower bound"
    if options.mechanism != "auto":
        return "it was asked for by name"

    proposal = best.proposal
    tried = len(ranking.contenders)
    least = (
        "the first that was asked"
        if tried == 1
        else f"the least error of {tried} planned"
    )
    if proposal.value is not None and proposal.bound:
        least += f", {_above(proposal.value / proposal.bound)}"

    return least + _currencies(ranking)


def _above(ratio: float) -> str:
    """How far above the lower bound: in percent where that is less than as much again."""
    if ratio < 2:
        return f"{100 * (ratio - 1):.2g} % above the lower bound"
    return f"{ratio:.4g} times the lower bound"


def _currencies(ranking: Ranking) -> str:
    """What the plan costs where ρ adds up, beside the best that costs less there."""
    best = ranking.best
    if best.problem.asked is None:
        return ""

    own = best.plan(0.0).spends.get("rho")
    others = [c for c in ranking.contenders if c.problem.asked is None]
    if own is None or not others:
        return ""

    other = min(others, key=lambda contender: contender.cost)
    rho = other.plan(0.0).spends["rho"]
    return f"; where ρ adds up it costs {own:.4g}, {other.name} {rho:.4g} (composition: many)"


def _others(ranking: Ranking) -> tuple[Reason, ...]:
    """Runners-up by their errors, then those that were not planned."""
    best = ranking.best
    least = best.achieved
    reached = []

    for contender in sorted(ranking.contenders, key=lambda c: c.achieved):
        if contender.name == best.name:
            continue

        error = contender.achieved
        apart = (
            "" if contender.proposal.mechanism.agrees else "; its tables need not agree"
        )
        than = "more" if error > least else "less"
        told = f"{than} error{apart}"
        spends = contender.plan(0.0).spends
        reached.append(
            Reason(contender.name, error, quotient(error, least), told, spends)
        )

    left = [
        Reason(name, None, None, reason) for name, reason in ranking.left_out.items()
    ]
    return (*reached, *left)
