"""Which central mechanism plans a workload: the best that applies, or all of them compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from noisewright.central.problem import CentralMechanism, CentralProblem, Proposal
from noisewright.central.registry import CENTRAL
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan, check_answerable
from noisewright.planning.counting import Counter
from noisewright.planning.plan import central_class, certified_ratio
from noisewright.privacy.budget import Privacy
from noisewright.solution import BoundClass
from noisewright.workload import Workload
from noisewright.workload.measures import COUNT
from noisewright.workload.spec import Questions
from noisewright.workload.structure import check_magnitudes
from noisewright.workload.tensor import mean_error

_SETTLED = 1.001  # no other mechanism could do visibly better: the search for one can stop
_CLOSE = 1.25
_DISAGREEMENT = 1.05  # the error that tables which agree with each other are worth


@dataclass(frozen=True, eq=False)
class Contender:
    """What a mechanism of the registry proposes for a problem."""

    name: str
    problem: CentralProblem
    proposal: Proposal
    seconds: float = 0.0

    @cached_property
    def trial(self) -> CentralPlan:
        """The plan without what impossible cells tell, which helps all alike and takes long."""
        problem = self.problem
        return CentralPlan(
            problem.workload, None, problem.sizes, problem.norm, self.name, self.proposal
        )

    @property
    def cost(self) -> float:
        """The error; parts that need not agree with each other must win clearly."""
        agrees = self.proposal.mechanism.agrees
        return self.trial.achieved * (1.0 if agrees else _DISAGREEMENT)

    def plan(self, seconds: float, counter: Counter | None = None) -> CentralPlan:
        """The plan to keep."""
        return replace(
            self.trial,
            domain=self.problem.domain,
            seconds=seconds,
            counter=counter,
            known_accuracy=self.trial.measured_accuracy,
        )


def plan_central(
    workload: Workload,
    privacy: Privacy,
    norm: float = 2.0,
    mechanism: str = "auto",
    domain: Domain | None = None,
    counter: Counter | None = None,
) -> CentralPlan:
    """The plan of the named mechanism, or of the best that applies."""
    began = time.perf_counter()
    problem = central_problem(workload, privacy, norm, domain)
    if isinstance(workload, Questions) and len(workload.measures) > 1:
        from noisewright.planning.sums import by_measures

        contender = by_measures(problem, workload, mechanism)
    else:
        contender = best_contender(problem, mechanism)
    return check_answerable(contender.plan(time.perf_counter() - began, counter))


def best_contender(problem: CentralProblem, mechanism: str = "auto") -> Contender:
    """The named mechanism's proposal or the best of all, with the highest bound proved."""
    entries = list(CENTRAL.values()) if mechanism == "auto" else [CENTRAL[_known(mechanism)]]
    contenders: list[Contender] = []
    reasons, slow = [], []
    for entry in entries:
        if entry.baseline and mechanism == "auto":
            continue
        if (reason := entry.refuses(problem)) is not None:
            reasons.append(f"{entry.name}: {reason}")
        elif entry.slow is not None and entry.slow(problem):
            slow.append(entry)
        else:
            contenders.append(_propose(problem, entry))
            if _certified(contenders) <= _SETTLED:
                break
    # What takes minutes comes last, and only where the others leave much to gain.
    for entry in slow:
        if not contenders or _certified(contenders) > _CLOSE:
            contenders.append(_propose(problem, entry))
    if not contenders:
        raise InvalidParameter("mechanism", mechanism, "cannot plan this: " + "; ".join(reasons))
    one = len(contenders) == 1
    best = contenders[0] if one else min(contenders, key=lambda contender: contender.cost)
    return _with_highest_bound(best, contenders)


def _propose(problem: CentralProblem, entry: CentralMechanism) -> Contender:
    began = time.perf_counter()
    proposal = entry.plan(problem)
    return Contender(entry.name, problem, proposal, time.perf_counter() - began)


def _certified(contenders: Sequence[Contender]) -> float:
    """The smallest error so far over the highest bound that any of them proved."""
    bound = max(contender.proposal.bound or 0.0 for contender in contenders)
    values = [c.proposal.value for c in contenders if c.proposal.value is not None]
    return min(values) / bound if bound and values else float("inf")


def _with_highest_bound(best: Contender, contenders: Sequence[Contender]) -> Contender:
    """The contender with the highest bound that any of those for the same problem proved."""
    own = best.proposal
    known = [c.proposal for c in contenders if c.proposal.neighbours == own.neighbours]
    tightest = max(known, key=lambda proposal: proposal.bound or 0.0)
    if tightest is own or tightest.bound is None:
        return best
    own = replace(own, bound=tightest.bound, certificate=tightest.certificate)
    contender = replace(best, proposal=own)
    # The errors are those of the same measurement.
    contender.__dict__["trial"] = replace(
        best.trial, proposal=own, known_accuracy=best.trial.measured_accuracy
    )
    return contender


@dataclass(frozen=True)
class Comparison:
    """One mechanism's errors in counts of people, noise included.

    `achieved` is the error compared, weights of questions included, and `lower_bound` the highest
    bound on it that any of the mechanisms proved for all methods in `bound_class`, under the noise
    of this one (a coarser grid has a little less); `refusal` says why a mechanism does not apply.
    `errors` says what the figures are: exact, upper bounds, or simulated.
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

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that `lower_bound` limits."""
        return central_class(self.lower_bound)

    def to_dict(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        names = ("mechanism", "rmse", "max", "lower_bound", "ratio", "bound_class", "seconds")
        return {name: getattr(self, name) for name in (*names, "errors")}


def compare_central(
    workload: Workload, privacy: Privacy, norm: float = 2.0, domain: Domain | None = None
) -> list[Comparison]:
    """All central mechanisms for a workload, best first; those that refuse come last."""
    problem = central_problem(workload, privacy, norm, domain)
    reasons = {name: entry.refuses(problem) for name, entry in CENTRAL.items()}
    contenders = [_propose(problem, CENTRAL[name]) for name in reasons if reasons[name] is None]
    if not contenders:
        text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise InvalidParameter("workload", workload.brief(), f"is planned by no mechanism: {text}")
    plans = [(contender.plan(contender.seconds)) for contender in contenders]
    known = [plan.proposal.bound or 0.0 for plan in plans if plan.lower_bound is not None]
    rows = [_row(plan, max(known, default=None)) for plan in plans]
    rows.sort(key=lambda row: row.achieved or 0.0)
    refused = [Comparison(name, refusal=reason) for name, reason in reasons.items() if reason]
    return rows + refused


def _row(plan: CentralPlan, unit_bound: float | None) -> Comparison:
    """A plan against the highest bound that any of them proved, for the noise of this one."""
    unit = plan.method.unit_noise
    bound = None if unit_bound is None or unit is None else unit_bound * unit
    error = plan.accuracy.error
    return Comparison(
        plan.mechanism,
        rmse=mean_error(error, 2),
        max=float(error.max()),
        lower_bound=bound,
        ratio=certified_ratio(plan.achieved, bound),
        seconds=plan.seconds,
        achieved=plan.achieved,
        errors=plan.accuracy.kind,
    )


def central_problem(
    workload: Workload, privacy: Privacy, norm: float, domain: Domain | None = None
) -> CentralProblem:
    """The workload with its attributes, as mechanisms see it."""
    domain = workload.domain if isinstance(workload, Questions) else domain
    problem = CentralProblem(workload, _sizes(workload, domain), privacy, norm, domain)
    check_magnitudes(workload)
    if problem.structure.zero:
        raise InvalidParameter(
            "workload", workload.brief(), "is zero everywhere", "ask for something"
        )
    counts = not isinstance(workload, Questions) or workload.measures == (COUNT,)
    if counts and privacy.neighbours == "replace-one" and problem.structure.only_totals:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "asks only for the number of people, which replace-one neighbours make public",
            "publish it as it is, or plan with neighbours='add-remove' to protect it",
        )
    return problem


def _known(mechanism: str) -> str:
    if mechanism not in CENTRAL:
        raise InvalidParameter(
            "mechanism",
            mechanism,
            "is not a central mechanism",
            f"choose auto, {', '.join(CENTRAL)}",
        )
    return mechanism


def _sizes(workload: Workload, domain: Domain | None) -> tuple[int, ...]:
    if domain is not None:
        domain.require_reviewed()
        if workload.size != domain.size:
            raise InvalidParameter(
                "workload",
                workload.brief(),
                f"has {workload.size} cells where the domain has {domain.size}",
                "match the workload's size to the domain",
            )
        return domain.shape
    return workload.structure.sizes


def error_norm(error: str | float) -> float:
    """The exponent of an error's name."""
    if isinstance(error, str):
        named = {"rmse": 2.0, "max": float("inf")}
        if error not in named:
            raise InvalidParameter(
                "error", error, "must be 'rmse', 'max' or a number >= 2", "choose"
            )
        return named[error]
    if not float(error) >= 2:
        raise InvalidParameter("error", error, "must be >= 2", "use 'rmse', which is 2")
    return float(error)
