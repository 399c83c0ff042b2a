"""Which central mechanism plans a workload: the best that applies, or all of them compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

from noisewright.central import own_strategy
from noisewright.central.groups import RowBounds, in_every_group, one_group
from noisewright.central.mechanism import Given
from noisewright.central.problem import CentralMechanism, CentralProblem, Proposal
from noisewright.central.registry import CENTRAL
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, unknown_name
from noisewright.estimate.accuracy import Accuracy
from noisewright.planning.central import CentralPlan, check_answerable
from noisewright.planning.counting import Counter
from noisewright.planning.plan import central_class, certified_ratio
from noisewright.planning.yardsticks import Limits, yardsticks
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import row_budget
from noisewright.privacy.contribution import Contribution
from noisewright.solution import BoundClass, ClassBound
from noisewright.stages import stage
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
        return self.achieved * (1.0 if self.proposal.mechanism.agrees else _DISAGREEMENT)

    @property
    def achieved(self) -> float:
        """The error under the budget of a row, less what bounds on rows in a group gain."""
        bounds = self.bounds
        if not bounds.grouped:
            return self.trial.achieved
        multiple = bounds.contribution(self.proposal.mechanism).multiple
        return self.trial.achieved * float(multiple / bounds.rows)

    def plan(self, seconds: float, counter: Counter | None = None) -> CentralPlan:
        """The plan to keep."""
        problem, proposal = self.problem, self.proposal
        accuracy: Accuracy | None = self.trial.measured_accuracy
        if problem.promise is not None and self.bounds.grouped:
            own = row_budget(problem.promise, self.bounds.contribution(proposal.mechanism))
            proposal = replace(proposal, mechanism=proposal.mechanism.at(own))
            accuracy = None
        return replace(
            self.trial,
            domain=problem.domain,
            proposal=proposal,
            promise=problem.promise,
            seconds=seconds,
            counter=counter,
            known_accuracy=accuracy,
        )

    @property
    def bounds(self) -> RowBounds:
        """How many rows of a person count, in all and in every group."""
        return RowBounds.of(self.problem.domain, self.problem.sizes)


def plan_central(
    workload: Workload,
    privacy: Privacy,
    norm: float = 2.0,
    mechanism: str | CentralMechanism = "auto",
    domain: Domain | None = None,
    counter: Counter | None = None,
    strategy: npt.ArrayLike | None = None,
    given: Given | None = None,
) -> CentralPlan:
    """The plan of the named mechanism, of the strategy given, or of the best that applies."""
    began = time.perf_counter()
    problem = central_problem(workload, privacy, norm, domain, given)
    if strategy is not None:
        contender = own_ranking(problem, strategy).best
        return check_answerable(contender.plan(time.perf_counter() - began, counter))
    if isinstance(workload, Questions) and workload.measures != (COUNT,):
        from noisewright.planning.sums import by_measures

        contender = by_measures(problem, workload, _named(mechanism))
    else:
        contender = best_contender(problem, mechanism)
    plan = check_answerable(contender.plan(time.perf_counter() - began, counter))
    return _beside_yardsticks(problem, plan)


def _beside_yardsticks(problem: CentralProblem, plan: CentralPlan) -> CentralPlan:
    """The plan, which says so where what is easily had is nearer to so many people."""
    nearer = [easy for easy in yardsticks(problem) if easy.achieved < plan.achieved]
    if not nearer:
        return plan
    told = ", ".join(f"{easy.name} {easy.achieved:.4g}" for easy in nearer)
    proposal = replace(plan.proposal, status=f"{plan.proposal.status}; err less: {told}")
    return replace(plan, proposal=proposal, known_accuracy=plan.measured_accuracy)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best contender, all that were planned, and why the others were not."""

    best: Contender
    contenders: tuple[Contender, ...]
    left_out: dict[str, str]


def own_ranking(problem: CentralProblem, strategy: npt.ArrayLike) -> Ranking:
    """A matrix that somebody brings, with the highest bound that our own mechanisms prove."""
    if isinstance(problem.workload, Questions) and problem.workload.measures != (COUNT,):
        raise InvalidParameter(
            "strategy", "a matrix", "is for counts alone", "plan sums and means without it"
        )
    proposal = own_strategy.own_candidate(problem, strategy).proposal(problem)
    own = Contender(own_strategy.NAME, problem, proposal)
    ours = ranked(problem)
    best = _with_highest_bound(own, [own, ours.best])
    return Ranking(best, (own, *ours.contenders), ours.left_out)


def best_contender(
    problem: CentralProblem, mechanism: str | CentralMechanism = "auto"
) -> Contender:
    """The named mechanism's proposal or the best of all, with the highest bound proved."""
    return ranked(problem, mechanism).best


def ranked(problem: CentralProblem, mechanism: str | CentralMechanism = "auto") -> Ranking:
    """The named mechanism, or all that apply until one is as good as its lower bound."""
    entries = list(CENTRAL.values()) if mechanism == "auto" else [_known(mechanism)]
    contenders: list[Contender] = []
    left_out: dict[str, str] = {}
    slow = []
    for entry in entries:
        if (reason := entry.refuses(problem)) is not None:
            left_out[entry.name] = reason
        elif entry.baseline and mechanism == "auto":
            left_out[entry.name] = "a yardstick, planned by name"
        elif _certified(contenders) <= _SETTLED and not entry.biased:
            left_out[entry.name] = f"not asked: {contenders[-1].name} meets the lower bound"
        elif entry.slow is not None and entry.slow(problem):
            slow.append(entry)
        else:
            contenders.append(_propose(problem, entry))
    # What takes minutes comes last, and only where the others leave much to gain.
    for entry in slow:
        if not contenders or _certified(contenders) > _CLOSE:
            contenders.append(_propose(problem, entry))
        else:
            left_out[entry.name] = "takes minutes, and the others are near the lower bound"
    if not contenders:
        text = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        name = getattr(mechanism, "name", mechanism)
        raise InvalidParameter("mechanism", name, f"cannot plan this: {text}")
    one = len(contenders) == 1
    best = contenders[0] if one else min(contenders, key=lambda contender: contender.cost)
    best = _with_highest_bound(best, contenders)
    if best.bounds.grouped:
        best = min([*_by_groups(problem, mechanism), *contenders], key=lambda c: c.cost)
    return Ranking(best, tuple(contenders), left_out)


def _by_groups(problem: CentralProblem, mechanism: str | CentralMechanism) -> list[Contender]:
    """The best for one group, in all of them, where bounds on rows in a group let it gain."""
    bounds = RowBounds.of(problem.domain, problem.sizes)
    gains = bounds.grouped and problem.order == 2
    single = one_group(problem, bounds) if gains else None
    if single is None:
        return []
    best = ranked(single, mechanism).best
    proposal = in_every_group(best.proposal, problem, bounds)
    return [] if proposal is None else [Contender(best.name, problem, proposal)]


def _propose(problem: CentralProblem, entry: CentralMechanism) -> Contender:
    stage(f"planning by {entry.name}")
    began = time.perf_counter()
    proposal = problem.once(entry.plan)
    return Contender(entry.name, problem, proposal, time.perf_counter() - began)


def _certified(contenders: Sequence[Contender]) -> float:
    """The smallest error so far over the highest bound that any of them proved."""
    bound = max((contender.proposal.bound or 0.0 for contender in contenders), default=0.0)
    values = [c.proposal.value for c in contenders if c.proposal.value is not None]
    return min(values) / bound if bound and values else float("inf")


def _with_highest_bound(best: Contender, contenders: Sequence[Contender]) -> Contender:
    """The contender with the highest bound that any of those for the same problem proved.

    Noise without a unit is outside the class that these bounds limit.
    """
    own = best.proposal
    if own.mechanism.unit_noise is None:
        return best
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

    def to_dict(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        names = ("mechanism", "rmse", "max", "lower_bound", "ratio", "bound_class", "seconds")
        figures = {name: getattr(self, name) for name in (*names, "errors")}
        if self.worst_rmse is not None:
            figures["worst_rmse"] = self.worst_rmse
        limits = {} if self.limits is None else self.limits.to_dict()
        return figures | limits | {"bounds": [bound.to_dict() for bound in self.bounds]}


def compare_central(
    workload: Workload,
    privacy: Privacy,
    norm: float = 2.0,
    domain: Domain | None = None,
    given: Given | None = None,
) -> list[Comparison]:
    """All central mechanisms for a workload, best first; those that refuse come last.

    With something public of the people `given`, mechanisms whose errors depend on them are planned
    too, beside the answers that look at nobody.
    """
    if isinstance(workload, Questions) and workload.measures != (COUNT,):
        rule = "asks for sums or means, which are planned measure by measure"
        remedy = "compare questions that count people, or plan these"
        raise InvalidParameter("workload", workload.brief(), rule, remedy)
    problem = central_problem(workload, privacy, norm, domain, given)
    reasons = {name: entry.refuses(problem) for name, entry in CENTRAL.items()}
    contenders = [_least(problem, CENTRAL[name]) for name in reasons if reasons[name] is None]
    if not contenders:
        text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise InvalidParameter("workload", workload.brief(), f"is planned by no mechanism: {text}")
    plans = [(contender.plan(contender.seconds)) for contender in contenders]
    known = [plan.proposal.bound or 0.0 for plan in plans if plan.lower_bound is not None]
    rows = [_row(plan, max(known, default=None)) for plan in plans]
    for easy in yardsticks(problem):
        figures = easy.rmse, easy.max
        rows.append(Comparison(easy.name, *figures, achieved=easy.achieved, errors="simulated"))
    limits = Limits.of(problem)
    rows = [replace(row, limits=limits) for row in rows]
    rows.sort(key=lambda row: row.achieved or 0.0)
    refused = [Comparison(name, refusal=reason) for name, reason in reasons.items() if reason]
    return rows + refused


def _least(problem: CentralProblem, entry: CentralMechanism) -> Contender:
    """What a mechanism proposes, for all cells or for every group by itself."""
    own = _propose(problem, entry)
    return min([own, *_by_groups(problem, entry)], key=lambda contender: contender.cost)


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
        bounds=plan.bounds,
        worst_rmse=plan.accuracy.worst_rmse,
    )


def central_problem(
    workload: Workload,
    privacy: Privacy,
    norm: float,
    domain: Domain | None = None,
    given: Given | None = None,
) -> CentralProblem:
    """The workload with its attributes, as mechanisms see it."""
    domain = workload.domain if isinstance(workload, Questions) else domain
    sizes = _sizes(workload, domain)
    rows = RowBounds.of(domain, sizes).rows
    own, promise = row_budget(privacy, Contribution(rows)), None if rows == 1 else privacy
    problem = CentralProblem(workload, sizes, own, norm, domain, promise, given)
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


def _named(mechanism: str | CentralMechanism) -> str:
    """The name, where only mechanisms of the registry will do."""
    if isinstance(mechanism, str):
        return mechanism
    raise InvalidParameter(
        "mechanism", mechanism.name, "is for one measure alone", "name one of ours, or plan counts"
    )


def _known(mechanism: str | CentralMechanism) -> CentralMechanism:
    """The entry of a name; an entry that somebody brings is taken as it is."""
    if isinstance(mechanism, CentralMechanism):
        return mechanism
    if mechanism not in CENTRAL:
        raise unknown_name("mechanism", mechanism, "is not a central mechanism", ["auto", *CENTRAL])
    return CENTRAL[mechanism]


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
            raise unknown_name("error", error, "must be 'rmse', 'max' or a number >= 2", named)
        return named[error]
    if not float(error) >= 2:
        raise InvalidParameter("error", error, "must be >= 2", "use 'rmse', which is 2")
    return float(error)
